package stage

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Any matches every verb of a Fault.
const Any = "any"

// Fault is an error that the API answers requests with. Empty fields match everything.
type Fault struct {
	// Verb is get, list, watch, create, update, patch, delete, or Any.
	Verb, Kind, Namespace, Name string
	// Code is the HTTP status, Message its text, RetryAfter its Retry-After header.
	Code       int
	Message    string
	RetryAfter time.Duration
	// Timeout has the request never answered, instead of a status.
	Timeout bool
	// Times is how many requests it meets; negative: every one until it is lifted.
	Times int
}

func (f *Fault) matches(verb, kind, namespace, name string) bool {
	return f.Times != 0 && (f.Verb == Any || f.Verb == "" || f.Verb == verb) && (f.Kind == "" || f.Kind == kind) &&
		(f.Namespace == "" || f.Namespace == namespace) && (f.Name == "" || f.Name == name)
}

func (f *Fault) err(verb string, k Kind, name string) error {
	if f.Timeout {
		return fmt.Errorf("%s %s: %w", verb, strings.ToLower(k.Kind), context.DeadlineExceeded)
	}
	seconds := int((f.RetryAfter + time.Second - 1) / time.Second)
	e := apierrors.NewGenericServerResponse(f.Code, verb, schema.GroupResource{Group: k.Group, Resource: strings.ToLower(k.Kind) + "s"}, name, f.Message, seconds, false)
	if f.Message != "" {
		e.ErrStatus.Message = f.Message
	}
	if seconds > 0 && e.ErrStatus.Details != nil {
		e.ErrStatus.Details.RetryAfterSeconds = int32(seconds)
	}
	return e
}

// Fail has requests fail. Of several faults that match, the one that was set first is met first. A fault of the verb watch
// ends the watches that it matches.
func (a *API) Fail(f Fault) {
	a.faults = append(a.faults, &f)
	for _, c := range a.watches {
		if f.matches("watch", c.kind.Kind.Kind, "", "") {
			c.broke()
		}
	}
}

// Lift takes back the faults of the same verb, kind, namespace and name.
func (a *API) Lift(f Fault) {
	a.faults = slices.DeleteFunc(a.faults, func(o *Fault) bool {
		return o.Verb == f.Verb && o.Kind == f.Kind && o.Namespace == f.Namespace && o.Name == f.Name
	})
}

// Request is the error with which a request is met; nil when it is answered. Whatever stands for a client of the API asks
// it first, then reads or writes.
func (a *API) Request(verb string, k Kind, namespace, name string) error {
	for _, f := range a.faults {
		if f.matches(verb, k.Kind, namespace, name) {
			if f.Times > 0 {
				f.Times--
			}
			return f.err(verb, k, name)
		}
	}
	return nil
}

// wait has the caller wait for the answer.
func (a *API) wait(verb string, k Kind, namespace, name string) {
	if a.Latency == nil {
		return
	}
	if d := a.Latency(verb, k.Kind, namespace, name); d > 0 {
		a.loop.RunUntil(a.loop.now.Add(d))
	}
}

// Call is a DELETE that was made, whether or not it was answered.
type Call struct {
	At              time.Time
	Kind            Kind
	Namespace, Name string
	UID             types.UID
	Propagation     metav1.DeletionPropagation
	Err             error
}

// Calls lists the DELETE calls so far.
func (a *API) Calls() []Call { return a.calls }

// Delete is the DELETE request of a client. Finalizers and a pod's grace are respected: an object that they hold is only
// marked.
func (a *API) Delete(k Kind, namespace, name string, o metav1.DeleteOptions) error {
	call := Call{At: a.loop.now, Kind: k, Namespace: namespace, Name: name}
	if o.Preconditions != nil && o.Preconditions.UID != nil {
		call.UID = *o.Preconditions.UID
	}
	if o.PropagationPolicy != nil {
		call.Propagation = *o.PropagationPolicy
	}
	if call.Err = a.Request("delete", k, namespace, name); call.Err == nil {
		call.Err = a.delete(k, namespace, name, o)
	}
	a.calls = append(a.calls, call)
	a.wait("delete", k, namespace, name)
	return call.Err
}

func (a *API) delete(k Kind, namespace, name string, o metav1.DeleteOptions) error {
	resource := schema.GroupResource{Group: k.Group, Resource: strings.ToLower(k.Kind) + "s"}
	v := a.held(k, namespace, name)
	if v == nil {
		return apierrors.NewNotFound(resource, name)
	}
	if p := o.Preconditions; p != nil {
		if p.UID != nil && *p.UID != v.object.GetUID() || p.ResourceVersion != nil && *p.ResourceVersion != v.object.GetResourceVersion() {
			return apierrors.NewConflict(resource, name, fmt.Errorf("the precondition does not hold: UID %s, resourceVersion %s",
				v.object.GetUID(), v.object.GetResourceVersion()))
		}
	}
	next := v.object.DeepCopyObject().(Object)
	grace := int64(0)
	if pod, ok := next.(*corev1.Pod); ok {
		grace = corev1.DefaultTerminationGracePeriodSeconds
		if pod.Spec.TerminationGracePeriodSeconds != nil {
			grace = *pod.Spec.TerminationGracePeriodSeconds
		}
		if o.GracePeriodSeconds != nil {
			grace = *o.GracePeriodSeconds
		}
		if pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			grace = 0
		}
	}
	if had := v.object.GetDeletionGracePeriodSeconds(); v.object.GetDeletionTimestamp() != nil && (had == nil || *had <= grace) {
		return nil // it was asked to go already, as soon or sooner
	}
	if grace == 0 && len(next.GetFinalizers()) == 0 {
		if _, ok := next.(*corev1.Pod); ok {
			a.mark(next, 0)
		}
		return a.Remove(next, a.delivery(next))
	}
	a.mark(next, grace)
	return a.Put(next, a.delivery(next))
}

func (a *API) mark(o Object, grace int64) {
	at := metav1.NewTime(a.loop.now.Add(time.Duration(grace) * time.Second).Truncate(time.Second))
	o.SetDeletionTimestamp(&at)
	o.SetDeletionGracePeriodSeconds(&grace)
}

func (a *API) delivery(o Object) Delivery {
	if a.Deliver == nil {
		return Delivery{}
	}
	return a.Deliver(o)
}

// collect deletes, in the background, what an object owned that is gone, unless it has another owner that is there.
func (a *API) collect(owner types.UID) {
	if owner == "" || a.exists(owner) {
		return
	}
	for _, k := range a.Kinds() {
		for _, o := range a.List(k) {
			owned, solid := false, false
			for _, r := range o.GetOwnerReferences() {
				owned = owned || r.UID == owner
				solid = solid || r.UID != owner && a.exists(r.UID)
			}
			if owned && !solid {
				// The garbage collector is not orphand: its calls are not among Calls, and no fault meets them.
				_ = a.delete(k, o.GetNamespace(), o.GetName(), metav1.DeleteOptions{})
			}
		}
	}
}
