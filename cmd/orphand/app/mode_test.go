package app

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/orphand/orphand/pkg/reap"
	"github.com/orphand/orphand/pkg/signals"
)

// permits is an API that only says what is allowed.
type permits struct {
	reap.API
	mu      sync.Mutex
	refused []string
	err     error
	asked   chan struct{}
}

func (p *permits) Allowed(_ context.Context, _ string, k reap.Kind, namespace string) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case p.asked <- struct{}{}:
	default:
	}
	return !slices.Contains(p.refused, k.Resource.Resource+"/"+namespace), p.err
}

func (p *permits) set(err error, refused ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err, p.refused = err, refused
}

// deaf counts nothing.
type deaf struct{ reap.Recorder }

func (deaf) Deleted(_, _ string) {}

func TestTheModeFollowsThePermissionsWithoutARestart(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
	api := &permits{asked: make(chan struct{}, 1)}
	api.set(nil, "pods/")
	events := make(chan signals.Event, 10)
	options := DefaultOptions()
	options.Mode = modeEnforce
	var recorded []string
	m := newMode(options, api, clk, signals.SinkFunc(func(e signals.Event) { events <- e }), func(s string) { recorded = append(recorded, s) })
	offered := make(chan struct{}, 10)
	m.changed = func() { offered <- struct{}{} }
	if _, may := m.enforced("team"); may {
		t.Error("deletes before anybody has answered whether it may")
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- m.run(ctx) }()
	next := func(state, reason string) {
		t.Helper()
		select {
		case e := <-events:
			if e.Code != signals.ModeChanged || e.State != state || !strings.Contains(e.Reason, reason) {
				t.Errorf("said %s %s %q, want %s because of %q", e.Code, e.State, e.Reason, state, reason)
			}
			<-offered
		case <-time.After(10 * time.Second):
			t.Fatalf("never said %s", state)
		}
	}
	// Each pause but a short one has a first part that no doubt ends.
	step := func(d time.Duration) {
		t.Helper()
		for !clk.HasWaiters() {
			time.Sleep(time.Millisecond)
		}
		clk.Step(d)
	}
	later := func(d time.Duration) {
		t.Helper()
		step(askPermissionSoon)
		step(d - askPermissionSoon)
	}
	next(modeObserve, "delete on pods in all namespaces")
	if reason, may := m.enforced("team"); may || reason != reap.NotPermitted {
		t.Errorf("without a permission: %v, %v", reason, may)
	}
	api.set(nil)
	later(options.PermissionPeriod)
	next(modeEnforce, "")
	if _, may := m.enforced("team"); !may {
		t.Error("granted later, and still not used")
	}
	// An API server that does not answer changes nothing.
	api.set(errors.New("away"), "pods/")
	later(options.PermissionPeriod)
	later(askPermissionSoon)
	if _, may := m.enforced("team"); !may {
		t.Error("nobody answered, and the mode changed")
	}
	api.set(nil, "jobsets/")
	later(askPermissionSoon)
	next(modeObserve, "delete on jobsets.jobset.x-k8s.io")
	api.set(nil)
	later(options.PermissionPeriod)
	next(modeEnforce, "")
	// What a DELETE is answered is told sooner than the next question in turn.
	step(askPermissionSoon)
	api.set(nil, "pods/")
	doubting{deaf{}, m}.Deleted("JobSet", string(reap.Accepted))
	doubting{deaf{}, m}.Deleted("Pod", string(reap.Forbidden))
	next(modeObserve, "delete on pods")
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if want := []string{modeObserve, modeObserve, modeEnforce, modeObserve, modeEnforce, modeObserve}; !slices.Equal(recorded, want) {
		t.Errorf("the metric was set to %v, want %v", recorded, want)
	}
}

func TestPermissionIsAskedInEachNamespaceThatIsCleaned(t *testing.T) {
	api := &permits{asked: make(chan struct{}, 1)}
	api.set(nil, "pods/", "jobsets/", "pods/team-b")
	options := DefaultOptions()
	options.Mode, options.Namespaces = modeEnforce, []string{"team-a", "team-b"}
	m := newMode(options, api, clocktesting.NewFakeClock(time.Unix(0, 0)), signals.Discard{}, func(string) {})
	missing, err := m.missing(t.Context())
	if err != nil || !slices.Equal(missing, []string{"delete on pods in namespace team-b"}) {
		t.Errorf("missing %q, %v", missing, err)
	}
}
