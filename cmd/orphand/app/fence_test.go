package app

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/reap"
)

// fakeLock is a lock whose requests take time and may fail.
type fakeLock struct {
	resourcelock.Interface
	during func()
	err    error
}

func (f *fakeLock) Identity() string { return "me" }
func (f *fakeLock) Create(context.Context, resourcelock.LeaderElectionRecord) error {
	return f.Update(context.Background(), resourcelock.LeaderElectionRecord{})
}
func (f *fakeLock) Update(context.Context, resourcelock.LeaderElectionRecord) error {
	if f.during != nil {
		f.during()
	}
	return f.err
}

func TestALeaseHoldsFromWhenItsRenewalWasBegun(t *testing.T) {
	const deadline = 10 * time.Second
	c := clocktesting.NewFakePassiveClock(time.Unix(1_800_000_000, 0))
	inner := &fakeLock{}
	f := &fencedLock{Interface: inner, clock: c}
	mine := resourcelock.LeaderElectionRecord{HolderIdentity: "me"}
	after := func(d time.Duration) { c.SetTime(c.Now().Add(d)) }
	want := func(holds bool, when string) {
		t.Helper()
		if f.holds(deadline) != holds {
			t.Errorf("%s: holds is %v", when, !holds)
		}
	}
	want(false, "before it was ever taken")
	if err := f.Create(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	want(true, "once it is taken")
	after(deadline - 1)
	want(true, "just before the deadline")
	after(1)
	want(false, "at the deadline, whatever the elector has noticed")

	inner.during = func() { after(4 * time.Second) }
	_ = f.Update(t.Context(), mine)
	inner.during = nil
	want(true, "after a slow renewal")
	after(6 * time.Second)
	want(false, "ten seconds after a slow renewal was begun")

	inner.err = errors.New("refused")
	_ = f.Update(t.Context(), mine)
	want(false, "after a renewal that failed")
	inner.err = nil
	_ = f.Update(t.Context(), mine)
	_ = f.Update(t.Context(), resourcelock.LeaderElectionRecord{})
	want(false, "after it was given back")
}

// A renewal that is only just in time changes no leadership: who was told no meanwhile would wait for ever.
func TestWhoWasToldThatTheLeaseMayNotHoldIsToldWhenItDoesAgain(t *testing.T) {
	const deadline = 10 * time.Second
	c := clocktesting.NewFakePassiveClock(time.Unix(1_800_000_000, 0))
	told := make(chan struct{}, 10)
	f := &fencedLock{Interface: &fakeLock{}, clock: c, regained: func() { told <- struct{}{} }}
	mine := resourcelock.LeaderElectionRecord{HolderIdentity: "me"}
	renew := func(after time.Duration) {
		t.Helper()
		c.SetTime(c.Now().Add(after))
		if err := f.Update(t.Context(), mine); err != nil {
			t.Fatal(err)
		}
	}
	f.holds(deadline) // not ours yet: whoever takes it is told by the elector
	renew(0)
	f.holds(deadline)
	renew(2 * time.Second)
	if len(told) != 0 {
		t.Fatal("a lease that held all the while is said to hold again")
	}
	c.SetTime(c.Now().Add(deadline))
	if f.holds(deadline) {
		t.Fatal("it holds at the deadline")
	}
	renew(time.Second)
	<-told
	f.holds(deadline)
	renew(time.Second)
	if len(told) != 0 {
		t.Error("it is told twice")
	}
}

// counting is an API that counts the DELETEs.
type counting struct {
	reap.API
	deletes int
}

func (s *counting) Delete(context.Context, reap.Order) error { s.deletes++; return nil }

func TestAPausedLeaderThatWakesUpSendsNothing(t *testing.T) {
	c := clocktesting.NewFakePassiveClock(time.Unix(1_800_000_000, 0))
	f := &fencedLock{Interface: &fakeLock{}, clock: c}
	_ = f.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "me"})
	api := &counting{}
	d := reap.NewDeleter(api, c, func() error {
		if !f.holds(DefaultOptions().RenewDeadline) {
			return reap.ErrNotLeading
		}
		return nil
	}, nil)
	pods, _ := reap.ParseKind("pod")
	order, err := reap.NewOrder(reap.Target{Kind: pods, Ref: facts.Ref{Namespace: "team", Kind: "Pod", Name: "p", UID: "P1"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Send(t.Context(), order, reap.CauseOrphan); err != nil || api.deletes != 1 {
		t.Errorf("the leader: %v, %d deletes", err, api.deletes)
	}
	c.SetTime(c.Now().Add(time.Minute)) // SIGSTOP, and later SIGCONT; the elector has not run yet
	if _, err := d.Send(t.Context(), order, reap.CauseOrphan); !errors.Is(err, reap.ErrNotLeading) || api.deletes != 1 {
		t.Errorf("a minute later: %v, %d deletes", err, api.deletes)
	}
}
