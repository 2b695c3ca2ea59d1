package app

import (
	"context"
	"sync"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
)

// fencedLock is a lock that knows until when its holder may certainly write.
//
// The elector notices a lost lease when it runs. A process that slept (SIGSTOP, a paused machine) runs its other
// goroutines first, perhaps with a write in hand; so whoever writes asks the lock, immediately before, for how long the
// lease was good. The time counts from when the request that renewed it was begun: others wait for the lease's whole
// duration from when they saw the renewal, which cannot have been earlier.
type fencedLock struct {
	resourcelock.Interface
	clock clock.PassiveClock

	// regained is told when the lease holds again of which somebody was told that it may not hold any more; nil for nobody.
	// A renewal that is only just in time, or a step of the wall clock, is no change of leadership, of which nobody else tells:
	// what was not written meanwhile would never be.
	regained func()

	mu      sync.Mutex
	renewed time.Time // when the last request that made or kept the lease ours was begun; zero: it is not ours
	doubted bool      // somebody was told that a lease of ours may not hold any more
}

// Create satisfies resourcelock.Interface.
func (f *fencedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return f.write(record, func() error { return f.Interface.Create(ctx, record) })
}

// Update satisfies resourcelock.Interface.
func (f *fencedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return f.write(record, func() error { return f.Interface.Update(ctx, record) })
}

func (f *fencedLock) write(record resourcelock.LeaderElectionRecord, send func() error) error {
	begun := f.clock.Now()
	mine := record.HolderIdentity == f.Identity()
	if !mine {
		f.set(time.Time{}) // given back: from the moment the request leaves, another may take it
	}
	if err := send(); err != nil {
		return err // what was renewed last still stands, for as long as it lasts
	}
	if mine {
		f.set(begun)
	}
	return nil
}

func (f *fencedLock) set(renewed time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.doubted && !renewed.IsZero() && f.regained != nil {
		go f.regained()
	}
	f.renewed, f.doubted = renewed, false
}

// holds says whether the lease is certainly still good: less than d has passed since the renewal was begun, by the
// monotonic clock and by the wall clock. A machine that was suspended shows it on one of them only.
func (f *fencedLock) holds(d time.Duration) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.renewed.IsZero() {
		return false
	}
	now := f.clock.Now()
	good := now.Sub(f.renewed) < d && now.Round(0).Sub(f.renewed.Round(0)) < d
	f.doubted = f.doubted || !good
	return good
}

// fencedEvents drops the Events that a process which leads no more had in hand: the leader tells its own.
type fencedEvents struct {
	events.EventSink
	leads func() bool
}

// Create satisfies events.EventSink.
func (f fencedEvents) Create(ctx context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	if !f.leads() {
		return e, nil
	}
	return f.EventSink.Create(ctx, e)
}

// Update satisfies events.EventSink.
func (f fencedEvents) Update(ctx context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	if !f.leads() {
		return e, nil
	}
	return f.EventSink.Update(ctx, e)
}

// Patch satisfies events.EventSink.
func (f fencedEvents) Patch(ctx context.Context, e *eventsv1.Event, patch []byte) (*eventsv1.Event, error) {
	if !f.leads() {
		return e, nil
	}
	return f.EventSink.Patch(ctx, e, patch)
}
