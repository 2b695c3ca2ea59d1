package app

import (
	"errors"
	runtimepkg "runtime"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
)

func leaseOf(version, holder string, renewed time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "orphand", Name: "orphand", ResourceVersion: version},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: ptr.To[int32](15),
			RenewTime: &metav1.MicroTime{Time: renewed}, LeaseTransitions: ptr.To[int32](1)},
	}
}

func TestALeaseHasExpiredWhenItWasNotRenewedForItsWholeDuration(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	clk := clocktesting.NewFakeClock(start)
	freed := make(chan struct{}, 9)
	w := &leaseWatch{me: "me", least: 10 * time.Second, clock: clk, free: func() { freed <- struct{}{} }}
	first, second := leaseOf("1", "other", start), leaseOf("2", "other", start.Add(2*time.Second))
	live := func(l *coordinationv1.Lease) *resourcelock.LeaderElectionRecord {
		return resourcelock.LeaseSpecToLeaderElectionRecord(&l.Spec)
	}

	w.see(first)
	clk.Step(14 * time.Second)
	if w.expired(live(first)) {
		t.Error("expired before the holder's own duration was over")
	}
	w.see(second)
	clk.Step(time.Second)
	select {
	case <-freed:
		t.Error("freed although it was renewed")
	default:
	}
	clk.Step(14 * time.Second)
	<-freed
	if !w.expired(live(second)) {
		t.Error("not expired after its whole duration")
	}
	if w.expired(live(leaseOf("3", "other", start.Add(16*time.Second)))) {
		t.Error("expired although a live read shows a renewal that the watch has not brought yet")
	}

	w.see(leaseOf("4", "", start))
	<-freed
	w.see(leaseOf("5", "me", start))
	clk.Step(time.Hour)
	select {
	case <-freed:
		t.Error("freed although this process holds it")
	default:
	}
}

// The elector alone would look again after one to 2.2 retry periods, and then wait for the whole duration.
func TestAStandbyTakesOverAsSoonAsTheLeaseOfADeadLeaderHasExpired(t *testing.T) {
	const duration = 2 * time.Second
	dead := leaseOf("", "dead", time.Now())
	dead.Spec.LeaseDurationSeconds = ptr.To(int32(duration / time.Second))
	client := fake.NewClientset(dead)
	begun := time.Now()
	_, states, _ := candidate(t, client, func(o *Options) {
		o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = duration, 1900*time.Millisecond, 1500*time.Millisecond
	})
	expectState(t, states, leading)
	if took := time.Since(begun); took < duration || took > duration+time.Second {
		t.Errorf("took over after %v, want %v to %v", took, duration, duration+time.Second)
	}
}

func TestALeaderWhoseLeaseWasTakenDoesNotLeadWhateverItsElectorHasNoticed(t *testing.T) {
	client := fake.NewClientset()
	var usurped atomic.Bool
	client.PrependReactor("update", "leases", func(ktesting.Action) (bool, runtime.Object, error) {
		return usurped.Load(), nil, apierrors.NewConflict(coordinationv1.Resource("leases"), "orphand", errors.New("it was changed"))
	})
	client.PrependReactor("get", "leases", func(ktesting.Action) (bool, runtime.Object, error) {
		return usurped.Load(), leaseOf("9", "usurper", time.Now()), nil
	})
	l, states, _ := candidate(t, client, func(o *Options) { o.LeaseDuration, o.RenewDeadline = time.Hour, 59*time.Minute })
	expectState(t, states, leading)
	if !l.Leads() {
		t.Fatal("does not lead")
	}
	usurped.Store(true)
	for l.elector.IsLeader() { // It reads the Lease within a retry period.
		runtimepkg.Gosched()
	}
	if l.Leads() {
		t.Error("leads beside another until its renew deadline")
	}
}
