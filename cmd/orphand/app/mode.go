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

// askPermission is how often it is asked whether this process may delete; askPermissionSoon how soon again when nobody
// answered.
const (
	askPermission     = 5 * time.Minute
	askPermissionSoon = 15 * time.Second
)

// mode is what this process may do to the cluster: what its flags ask for, as far as its permissions allow. A job is never
// left half stopped for want of one of them, so that without all of them nothing is deleted.
type mode struct {
	wanted     string
	namespaces []string // those in which to delete; empty: every one
	api        reap.API
	clock      clock.WithTicker
	sink       signals.Sink
	record     func(mode string)
	// changed is told when the mode has changed; nil for nobody.
	changed func()

	mu sync.Mutex
	// in is the mode in force, and why says why it is not the one that is wanted.
	in, why string
}

func newMode(options Options, api reap.API, clk clock.WithTicker, sink signals.Sink, record func(string)) *mode {
	m := &mode{wanted: options.Mode, namespaces: options.Namespaces, api: api, clock: clk, sink: sink, record: record, in: modeObserve}
	if m.wanted == modeEnforce {
		m.why = "whether it may delete has not been answered yet"
	}
	record(m.in)
	return m
}

// run asks for the permissions now and every few minutes, until ctx ends.
func (m *mode) run(ctx context.Context) error {
	if m.wanted != modeEnforce {
		return nil
	}
	for ctx.Err() == nil {
		pause := askPermission
		if missing, err := m.missing(ctx); err != nil {
			// What was answered last still stands. Where nothing was, nothing is deleted.
			pause = askPermissionSoon
		} else {
			m.become(missing)
		}
		timer := m.clock.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C():
		}
		timer.Stop()
	}
	return nil
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
	m.in, m.why = in, why
	m.mu.Unlock()
	if from == in && knew == why {
		return
	}
	m.record(in)
	m.sink.Emit(signals.Event{Code: signals.ModeChanged, From: from, State: in, Reason: why})
	if m.changed != nil {
		m.changed()
	}
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
		switch {
		case m.in == modeEnforce:
			return modeEnforce + ": deletes what the garbage collector leaves of jobs that are gone", nil
		case m.wanted == modeEnforce:
			return fmt.Sprintf("%s although --mode is %s: %s", modeObserve, modeEnforce, m.why), nil
		}
		return modeObserve + ": deletes nothing", nil
	}}
}
