package stage

import (
	"time"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/informers"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
)

// Watch is a kind that a daemon watches.
type Watch struct {
	Kind Kind
	// Selects is the watch's selector; nil selects everything.
	Selects func(Object) bool
	// Handlers makes what the watch tells.
	Handlers func(informers.Observer) cache.ResourceEventHandler
	// Read makes the records that it tells of; nil for those of every other watch of the kind.
	Read func(Object) facts.Record
}

// Watches lists what the daemon watches of itself, with its selectors.
func Watches() []Watch {
	objects := func(kind string) func(informers.Observer) cache.ResourceEventHandler {
		return func(o informers.Observer) cache.ResourceEventHandler { return informers.ObjectHandlers(kind, o) }
	}
	return []Watch{
		{Kind: TrainJob, Handlers: informers.TrainJobHandlers},
		{Kind: JobSet, Handlers: objects(facts.KindJobSet)},
		{Kind: Job, Selects: ofJobSet, Handlers: objects(facts.KindJob)},
		{Kind: Pod, Selects: ofJobSet, Handlers: informers.PodHandlers},
		{Kind: TrainingRuntime, Handlers: objects(facts.KindTrainingRuntime)},
		{Kind: Node, Handlers: informers.NodeHandlers},
	}
}

func ofJobSet(o Object) bool {
	_, ok := o.GetLabels()[facts.LabelJobSetName]
	return ok
}

// The pauses of client-go's reflector between attempts to list and watch, without its jitter.
const (
	firstPause = 800 * time.Millisecond
	lastPause  = 30 * time.Second
)

// watcher is one informer of one daemon: it lists, watches, keeps what it was shown, and tells the handlers, as client-go's
// does.
type watcher struct {
	kind    Watch
	api     *API
	handler cache.ResourceEventHandler
	store   map[key]facts.Record
	status  informers.Status
	// tell is told when the status changes.
	tell func(informers.Status)
	// connected says that the watch delivers. attempt tells the attempts to connect apart, and failures counts those in a
	// row that failed.
	connected bool
	attempt   int
	failures  int
	stopped   bool
}

// record is what the watch tells of a state of an object.
func (w *watcher) record(v *version) facts.Record {
	if w.kind.Read != nil {
		return w.kind.Read(v.object)
	}
	return v.record
}

func (w *watcher) selects(o Object) bool { return w.kind.Selects == nil || w.kind.Selects(o) }

// connect lists and watches, now; after a failure again with growing pauses.
func (w *watcher) connect() {
	if w.stopped {
		return
	}
	w.connected = false
	w.attempt++
	err := w.api.Request("list", w.kind.Kind, "", "")
	if err == nil {
		w.replace()
		err = w.api.Request("watch", w.kind.Kind, "", "")
	}
	w.heard(err)
	if err == nil {
		w.connected, w.failures = true, 0
		return
	}
	w.retry()
}

// broke ends the watch: whatever happens until it is there again is only seen by the list.
func (w *watcher) broke() {
	if w.stopped || !w.connected {
		return
	}
	w.connected = false
	w.attempt++
	w.retry()
}

func (w *watcher) retry() {
	pause := lastPause
	if w.failures < 6 {
		pause = min(firstPause<<w.failures, lastPause)
	}
	w.failures++
	attempt := w.attempt
	w.api.loop.After(pause, func() {
		if attempt == w.attempt {
			w.connect()
		}
	})
}

// heard learns from the answer to a list or a watch what has become of the kind.
func (w *watcher) heard(err error) {
	switch {
	case err == nil:
		w.become(informers.Watching, "")
	case apierrors.IsNotFound(err):
		w.become(informers.Absent, err.Error())
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		w.become(informers.Forbidden, err.Error())
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err), apierrors.IsTooManyRequests(err):
	default:
		w.become(informers.Failing, err.Error())
	}
}

func (w *watcher) become(state informers.State, reason string) {
	if w.status.State == state {
		w.status.Reason = reason
		return
	}
	w.status.State, w.status.Reason, w.status.Since = state, reason, w.api.loop.now
	w.tell(w.status)
}

// replace makes the store what a list shows, and tells the difference the way client-go does: deletions first, as
// tombstones with the last state known, then the rest; another object of the same name as an update.
func (w *watcher) replace() {
	list := w.api.showing(w.kind.Kind, w.selects)
	now := make(map[key]facts.Record, len(list))
	for _, v := range list {
		now[keyOf(v.object)] = w.record(v)
	}
	before := w.store
	w.store = now
	for _, k := range sortedKeys(before) {
		if _, there := now[k]; !there {
			r := before[k]
			w.handler.OnDelete(cache.DeletedFinalStateUnknown{Key: r.Identity().Key(), Obj: r})
		}
	}
	initial := !w.status.Synced
	for _, v := range list {
		if old, there := before[keyOf(v.object)]; there {
			w.handler.OnUpdate(old, w.record(v))
		} else {
			w.handler.OnAdd(w.record(v), initial)
		}
	}
	w.status.Synced = true
}

// changed is one write as the server shows it to the watch: before to next, or, where next is nil, the end of what was
// held, whose last state is final.
func (w *watcher) changed(before, next, final *version) {
	if !w.connected {
		return
	}
	was := before != nil && w.selects(before.object)
	if next == nil {
		if was || before == nil && w.selects(final.object) {
			w.gone(w.record(final))
		}
		return
	}
	switch is := w.selects(next.object); {
	case is:
		k := keyOf(next.object)
		old, there := w.store[k]
		w.store[k] = w.record(next)
		if there {
			w.handler.OnUpdate(old, w.record(next))
		} else {
			w.handler.OnAdd(w.record(next), false)
		}
	case was:
		// It no longer matches: the server says DELETED, with the state that matched last.
		w.gone(w.record(before))
	}
}

func (w *watcher) gone(r facts.Record) {
	id := r.Identity()
	k := key{id.Namespace, id.Name}
	if have, there := w.store[k]; there && have.Identity().UID == id.UID {
		delete(w.store, k)
	}
	w.handler.OnDelete(r)
}
