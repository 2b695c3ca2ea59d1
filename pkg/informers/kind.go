package informers

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// State is what a kind's watch has come to.
type State string

// The states of a kind.
const (
	Syncing   State = "Syncing"   // its first list has not come yet
	Watching  State = "Watching"  // its changes are delivered
	Absent    State = "Absent"    // the API server does not serve it
	Forbidden State = "Forbidden" // orphand may not list or watch it
	Failing   State = "Failing"   // it was watched, and the API server does not answer now
)

// States lists every state.
func States() []State { return []State{Syncing, Watching, Absent, Forbidden, Failing} }

// Status is the state of one kind.
type Status struct {
	Kind  string
	State State
	Since time.Time
	// Reason is the API server's word, where it refused.
	Reason string
	// Synced says that its first list has come at some time.
	Synced bool
	// Spare says that orphand can do without the kind.
	Spare bool
}

// kind watches the objects of one kind. A kind that is absent or forbidden is asked for again, with growing pauses of up to
// half a minute, until it is there.
type kind struct {
	name     string
	informer cache.SharedIndexInformer
	handled  cache.ResourceEventHandlerRegistration

	mu     sync.Mutex
	status Status
	now    func() time.Time
	tell   func(Status)
}

// lister lists and watches one kind of object.
type lister struct {
	list  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
}

type spec struct {
	name      string
	example   runtime.Object
	lister    lister
	client    any
	selector  string
	transform cache.TransformFunc
	handler   cache.ResourceEventHandler
	named     cache.InformerNameAndResource
	// spare kinds are those that orphand can do without.
	spare   bool
	metrics cache.InformerMetricsProvider
}

func newKind(s spec, clk clock.Clock, tell func(Status)) (*kind, error) {
	now := clk.Now
	k := &kind{name: s.name, now: now, tell: tell, status: Status{Kind: s.name, State: Syncing, Since: now(), Spare: s.spare}}
	lw := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = s.selector
			return whenBack(ctx, clk, k.heardOfList, func() (runtime.Object, error) { return s.lister.list(ctx, o) })
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = s.selector
			open := func() (watch.Interface, error) { return s.lister.watch(ctx, o) }
			if !ptr.Deref(o.SendInitialEvents, false) {
				return whenBack(ctx, clk, k.heard, open)
			}
			w, err := whenBack(ctx, clk, k.heardOfList, open)
			if err != nil {
				return nil, err
			}
			return newListStream(w, func() { k.heard(nil) }), nil
		},
	}, s.client)
	k.informer = cache.NewSharedIndexInformerWithOptions(lw, s.example, cache.SharedIndexInformerOptions{
		Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}, Identifier: s.named, InformerMetricsProvider: s.metrics})
	if err := k.informer.SetTransform(s.transform); err != nil {
		return nil, err
	}
	// The reflector's own handler logs every attempt. A change of state says the same, once.
	if err := k.informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { k.heard(err) }); err != nil {
		return nil, err
	}
	handled, err := k.informer.AddEventHandler(s.handler)
	k.handled = handled
	return k, err
}

// heard learns from the answer to a list or a watch.
func (k *kind) heard(err error) {
	state, reason := Watching, ""
	switch {
	case err == nil:
		if !k.synced() {
			state = Syncing
		}
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		state, reason = Absent, err.Error()
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		state, reason = Forbidden, err.Error()
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err), apierrors.IsTooManyRequests(err):
		return // ordinary: the reflector lists again
	default:
		state, reason = Failing, err.Error()
	}
	k.become(state, reason)
}

// heardOfList learns from the answer to a list, streamed or not. Of a kind that was there before it tells no more than what
// went wrong: what changed meanwhile is still on its way, and until it is there nobody may rely on what is missing.
func (k *kind) heardOfList(err error) {
	if err != nil || !k.synced() {
		k.heard(err)
	}
}

func (k *kind) synced() bool { return k.handled != nil && k.handled.HasSynced() }

func (k *kind) become(state State, reason string) {
	k.mu.Lock()
	if k.status.State == state {
		k.status.Reason = reason
		k.mu.Unlock()
		return
	}
	k.status.State, k.status.Reason, k.status.Since = state, reason, k.now()
	k.mu.Unlock()
	k.tell(k.current())
}

func (k *kind) current() Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.status
	s.Synced = k.synced()
	return s
}

// run watches until ctx ends.
func (k *kind) run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { k.informer.RunWithContext(ctx) })
	if cache.WaitFor(ctx, "", k.handled.HasSyncedChecker()) {
		k.become(Watching, "")
	}
	running.Wait()
}
