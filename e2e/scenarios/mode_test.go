package scenarios_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/orphand/orphand/e2e/daemon"
	"github.com/orphand/orphand/pkg/access"
	"github.com/orphand/orphand/pkg/signals"
)

// but are the rules without one verb on one resource.
func but(rules []rbacv1.PolicyRule, resource, verb string) []rbacv1.PolicyRule {
	var out []rbacv1.PolicyRule
	for _, r := range rules {
		kept := *r.DeepCopy()
		if len(r.Resources) == 1 && r.Resources[0] == resource {
			kept.Verbs = nil
			for _, v := range r.Verbs {
				if v != verb {
					kept.Verbs = append(kept.Verbs, v)
				}
			}
		}
		if len(kept.Verbs) > 0 {
			out = append(out, kept)
		}
	}
	return out
}

// A permission is taken away and given back while orphand runs.
func TestTheModeFollowsThePermissionsForAllToSee(t *testing.T) {
	t.Parallel()
	s := open(t)
	const user = "by-leave"
	rules := access.Rules(access.Observe, access.Records, access.Election, access.Enforce)
	_, err := s.c.UserWithRules(t.Context(), user, rules)
	s.ok(err)
	began := time.Now()
	// It deletes nothing: the cluster is others' as well.
	d := s.also(daemon.Options{User: user, Flags: []string{"--mode", "enforce", "--dry-run", "--permission-period", "2s",
		"--leader-elect", "--leader-elect-lease-namespace", "default"}})
	becomes := func(mode, reason string, since daemon.Event) daemon.Event {
		t.Helper()
		e := s.hearsFrom(d, daemon.Line("the mode "+mode, func(e daemon.Event) bool {
			return e.Code == signals.ModeChanged && e.State == mode && strings.Contains(e.Reason, reason)
		}).After(since))
		m, err := d.Metrics(t.Context())
		s.ok(err)
		for _, other := range []string{"observe", "enforce"} {
			want := 0.0
			if other == mode {
				want = 1
			}
			if got := m[`orphand_mode{mode="`+other+`"}`]; got != want {
				t.Errorf("orphand_mode of %s is %v in mode %s", other, got, mode)
			}
		}
		want := map[string]string{"observe": "observe although --mode is enforce: not permitted: " + reason, "enforce": "enforce: deletes"}[mode]
		s.isReady(d, want)
		return e
	}
	first := becomes("enforce", "", daemon.Event{Index: -1})
	s.onLease(corev1.EventTypeNormal, "enforce: deletes", began)

	_, err = s.c.UserWithRules(t.Context(), user, but(rules, "pods", "delete"))
	s.ok(err)
	taken := becomes("observe", "delete on pods in all namespaces", first)
	s.onLease(corev1.EventTypeWarning, "not permitted: delete on pods in all namespaces", began)

	_, err = s.c.UserWithRules(t.Context(), user, rules)
	s.ok(err)
	becomes("enforce", "", taken)
	if out := s.kubectl("describe", "lease", "orphand", "-n", "default"); !strings.Contains(out, "ModeChanged") {
		t.Error("a description of the Lease does not show it")
	}
	if w := s.deletesOf(user); len(w) > 0 {
		t.Errorf("%d DELETEs were sent", len(w))
	}
}

// isReady waits until a daemon is ready, and its details say what is wanted.
func (s *scene) isReady(d *daemon.Daemon, want string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	for {
		status, body, err := d.Get(ctx, "/readyz?verbose")
		s.ok(err)
		if status == http.StatusOK && strings.Contains(body, want) {
			return
		}
		select {
		case <-ctx.Done():
			s.t.Fatalf("/readyz?verbose is %d and does not say %q:\n%s", status, want, body)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// onLease waits for the Event of a change of the mode.
func (s *scene) onLease(kind, note string, since time.Time) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	for {
		list, err := s.c.Client().EventsV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "reason=" + string(signals.ModeChanged)})
		s.ok(err)
		for i := range list.Items {
			if e := &list.Items[i]; e.Type == kind && strings.Contains(e.Note, note) && e.EventTime.After(since) && ofLease(e) {
				return
			}
		}
		select {
		case <-ctx.Done():
			s.t.Fatalf("no Event on the Lease says %q; there are %+v", note, list.Items)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func ofLease(e *eventsv1.Event) bool {
	return e.Regarding.Kind == "Lease" && e.Regarding.Name == "orphand" && e.Regarding.UID != ""
}
