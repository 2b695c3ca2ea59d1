package app

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// leaseWatch knows since when the Lease has not changed. client-go's elector asks for it every one to 2.2 retry periods
// only, and counts the lease's duration from when it asked (client-go v0.37.2, tools/leaderelection: acquire): up to nine
// seconds late with the default flags. Where the Lease may not be watched, that is how it is.
type leaseWatch struct {
	me    string
	least time.Duration // the lease duration of this process
	clock clock.WithDelayedExecution
	// free is told when the Lease was given back or has expired.
	free func()

	mu sync.Mutex
	// seen is the Lease as it was last seen, and at when. Renewed later than that it can only have been by one whose
	// renewal has not arrived yet, which a live read tells.
	seen  *coordinationv1.Lease
	at    time.Time
	timer clock.Timer
}

// run watches the Lease until ctx ends.
func (w *leaseWatch) run(ctx context.Context, leases coordination.LeaseInterface, name string) {
	only := func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	}
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: singleObject{&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				only(&o)
				return leases.List(ctx, o)
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				only(&o)
				return leases.Watch(ctx, o)
			},
		}},
		ObjectType: &coordinationv1.Lease{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { w.see(o.(*coordinationv1.Lease)) },
			UpdateFunc: func(_, o any) { w.see(o.(*coordinationv1.Lease)) },
			DeleteFunc: func(any) { w.forget() },
		},
	})
	informer.RunWithContext(ctx)
	w.forget()
}

// singleObject is a list that is not worth the stream that client-go would open for a long one.
type singleObject struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported is how client-go asks.
func (singleObject) IsWatchListSemanticsUnSupported() bool { return true }

func (w *leaseWatch) see(lease *coordinationv1.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen != nil && w.seen.ResourceVersion == lease.ResourceVersion {
		return
	}
	w.stop()
	w.seen, w.at = lease, w.clock.Now()
	switch ptr.Deref(lease.Spec.HolderIdentity, "") {
	case w.me:
	case "":
		go w.free()
	default:
		w.timer = w.clock.AfterFunc(w.duration(), w.free)
	}
}

func (w *leaseWatch) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stop()
	w.seen = nil
}

func (w *leaseWatch) stop() {
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
}

// duration is how long the Lease holds without a renewal: what its holder promised, or this process's own if that is longer.
func (w *leaseWatch) duration() time.Duration {
	return max(w.least, time.Duration(ptr.Deref(w.seen.Spec.LeaseDurationSeconds, 0))*time.Second)
}

// expired says whether the record, read live just now, is one that has not been renewed for its whole duration.
func (w *leaseWatch) expired(record *resourcelock.LeaderElectionRecord) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen == nil || w.clock.Since(w.at) < w.duration() {
		return false
	}
	seen := resourcelock.LeaseSpecToLeaderElectionRecord(&w.seen.Spec)
	return seen.HolderIdentity == record.HolderIdentity && seen.LeaderTransitions == record.LeaderTransitions &&
		seen.RenewTime.Equal(&record.RenewTime)
}

// watchedLock is the Lease with what the watch knows of it. A write still needs the version that was read, so that of two
// who find the Lease expired one takes it, and none whose holder has renewed it meanwhile.
type watchedLock struct {
	resourcelock.Interface
	watch *leaseWatch
}

// Get reads the Lease live. An expired one looks as if it had been given back, so that the elector does not wait for its
// duration once more.
func (l watchedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err != nil || record.HolderIdentity == "" || record.HolderIdentity == l.Identity() || !l.watch.expired(record) {
		return record, raw, err
	}
	record.HolderIdentity = ""
	raw, err = json.Marshal(record)
	return record, raw, err
}
