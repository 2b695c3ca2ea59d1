package app

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/orphand/orphand/pkg/reap"
	"github.com/orphand/orphand/pkg/signals"
)

// askPermissionSoon is how soon it is asked again whether this process may delete when nobody answered, and how soon again
// at the earliest after a DELETE was forbidden.
const askPermissionSoon = 15 * time.Second

// mode is what this process may do to the cluster: what its flags ask for, as far as its permissions allow. A job is never
// left half stopped for want of one of them, so that without all of them nothing is deleted.
type mode struct {
	wanted     string
	namespaces []string      // those in which to delete; empty: every one
	every      time.Duration // how often the permissions are asked for
	api        reap.API
	clock      clock.WithTicker
	sink       signals.Sink
	record     func(mode string)
	// changed is told when the mode has changed; nil for nobody.
	changed func()
	// doubts holds one wish to ask before the time.
	doubts chan struct{}

	mu sync.Mutex
	// in is the mode in force, and why says why it is not the one that is wanted. answered says that the API server has told.
	in, why  string
	answered bool
}

func newMode(options Options, api reap.API, clk clock.WithTicker, sink signals.Sink, record func(string)) *mode {
	m := &mode{wanted: options.Mode, namespaces: options.Namespaces, every: options.PermissionPeriod, api: api, clock: clk, sink: sink,
		record: record, in: modeObserve, doubts: make(chan struct{}, 1)}
	if m.wanted == modeEnforce {
		m.why = "whether it may delete has not been answered yet"
	}
	record(m.in)
	return m
}

// run asks for the permissions now, every few minutes and when they are doubted, until ctx ends.
func (m *mode) run(ctx context.Context) error {
	if m.wanted != modeEnforce {
		return nil
	}
	for ctx.Err() == nil {
		pause := m.every
		if missing, err := m.missing(ctx); err != nil {
			// What was answered last still stands. Where nothing was, nothing is deleted.
			pause = min(askPermissionSoon, m.every)
		} else {
			m.become(missing)
		}
		// A first pause without an ear for doubts: an admission policy that answers like an authorizer must not make every
		// DELETE that it refuses cost a question.
		soon := min(askPermissionSoon, pause)
		if m.pause(ctx, soon, nil) && pause > soon {
			m.pause(ctx, pause-soon, m.doubts)
		}
	}
	return nil
}

// pause lets time pass; it is false when ctx or a doubt has ended it.
func (m *mode) pause(ctx context.Context, d time.Duration, doubts <-chan struct{}) bool {
	timer := m.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-doubts:
	case <-timer.C():
		return true
	}
	return false
}

// doubt has the permissions asked for soon: a DELETE was forbidden. Until they are asked for in turn, a job could be left half
// stopped.
func (m *mode) doubt() {
	select {
	case m.doubts <- struct{}{}:
	default:
	}
}

// doubting is a reap.Recorder that has the mode doubted when a DELETE is forbidden.
type doubting struct {
	reap.Recorder
	mode *mode
}

// Deleted satisfies reap.Recorder.
func (d doubting) Deleted(kind, outcome string) {
	d.Recorder.Deleted(kind, outcome)
	if outcome == string(reap.Forbidden) {
		d.mode.doubt()
	}
}

// missing lists the permissions that are missing: to delete JobSets and pods.
func (m *mode) missing(ctx context.Context) ([]string, error) {
	spaces := m.namespaces
	if len(spaces) == 0 {
		spaces = []string{""}
	}
	var missing []string
	for _, namespace := range spaces {
		for _, kind := range reap.NeededKinds() {
			yes, err := m.api.Allowed(ctx, "delete", kind, namespace)
			if err != nil {
				return nil, err
			}
			if !yes {
				missing = append(missing, strings.TrimSpace("delete on "+kind.String()+" "+inNamespace(namespace)))
			}
		}
	}
	return missing, nil
}

func inNamespace(namespace string) string {
	if namespace == "" {
		return "in all namespaces"
	}
	return "in namespace " + namespace
}

func (m *mode) become(missing []string) {
	in, why := modeEnforce, ""
	if len(missing) > 0 {
		slices.Sort(missing)
		in, why = modeObserve, "not permitted: "+strings.Join(missing, ", ")
	}
	m.mu.Lock()
	from, knew := m.in, m.why
	m.in, m.why, m.answered = in, why, true
	m.mu.Unlock()
	if from == in && knew == why {
		return
	}
	m.record(in)
	e := modeEvent(in, why)
	e.From = from
	m.sink.Emit(e)
	if m.changed != nil {
		m.changed()
	}
}

func modeEvent(in, why string) signals.Event {
	return signals.Event{Code: signals.ModeChanged, State: in, Reason: why, Message: inForce(in, modeEnforce, why)}
}

// inForce is the mode in a sentence's words.
func inForce(in, wanted, why string) string {
	switch {
	case in == modeEnforce:
		return modeEnforce + ": deletes what the garbage collector leaves of jobs that are gone"
	case wanted == modeEnforce:
		return fmt.Sprintf("%s although --mode is %s: %s", modeObserve, modeEnforce, why)
	}
	return modeObserve + ": deletes nothing"
}

// present is the mode in force as the event of its change; false while nobody has answered, and where none but observing is
// asked for.
func (m *mode) present() (signals.Event, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return modeEvent(m.in, m.why), m.answered
}

// enforced says whether anything may be deleted in a namespace, and if not, why.
func (m *mode) enforced(string) (reap.Reason, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.in == modeEnforce:
		return "", true
	case m.wanted == modeEnforce:
		return reap.NotPermitted, false
	}
	return reap.ObserveOnly, false
}

// check is the mode's line of /readyz; it is never a reason not to be ready, since observing is of use by itself.
func (m *mode) check() check {
	return check{name: "mode", ask: func() (string, error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		return inForce(m.in, m.wanted, m.why), nil
	}}
}
