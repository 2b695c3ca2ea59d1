package reap

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Outcome is how the API server answered a DELETE.
type Outcome string

// The outcomes.
const (
	Accepted  Outcome = "Accepted"  // it is gone, or was asked to go
	Absent    Outcome = "Absent"    // 404: there is no such object
	Conflict  Outcome = "Conflict"  // 409: the UID or the resourceVersion is another
	Denied    Outcome = "Denied"    // an admission webhook or policy refused
	Forbidden Outcome = "Forbidden" // 401 or 403: this client may not
	Throttled Outcome = "Throttled" // 429
	Failed    Outcome = "Failed"    // anything else, no answer included
)

// Outcomes lists every outcome.
func Outcomes() []Outcome {
	return []Outcome{Accepted, Absent, Conflict, Denied, Forbidden, Throttled, Failed}
}

// outcomeOf reads the error of a DELETE.
func outcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return Accepted
	case apierrors.IsNotFound(err):
		return Absent
	case apierrors.IsConflict(err):
		return Conflict
	case deniedByAdmission(err):
		return Denied
	case isForbidden(err):
		return Forbidden
	case apierrors.IsTooManyRequests(err):
		return Throttled
	}
	return Failed
}

// deniedByAdmission: admission answers 403 as authorization does, or 400 and 422; only its words differ (apiserver
// v0.37, pkg/admission/plugin/webhook/errors and pkg/admission/plugin/policy/validating).
func deniedByAdmission(err error) bool {
	text := err.Error()
	return strings.Contains(text, "admission webhook ") || strings.Contains(text, "ValidatingAdmissionPolicy ")
}

func isForbidden(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)
}

// transient says whether a read may well succeed when it is tried again.
func transient(err error) bool {
	var timeout net.Error
	switch {
	case apierrors.IsTooManyRequests(err), apierrors.IsServerTimeout(err), apierrors.IsTimeout(err), apierrors.IsInternalError(err),
		apierrors.IsServiceUnavailable(err):
		return true
	case errors.As(err, &timeout), errors.Is(err, context.DeadlineExceeded):
		return true
	}
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code >= 500
}

const (
	firstPause = time.Second
	lastPause  = time.Minute
)

// Pause is how long to wait after the n-th failure in a row, n from 1 on: a second, then twice as long each time up to a
// minute, and never less than the server asked for.
func Pause(n int, err error) time.Duration {
	d := lastPause
	if n < 7 {
		d = min(firstPause<<max(n-1, 0), lastPause)
	}
	if seconds, asked := apierrors.SuggestsClientDelay(err); asked {
		d = max(d, time.Duration(seconds)*time.Second)
	}
	return d
}
