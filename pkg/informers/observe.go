package informers

import (
	"github.com/orphand/orphand/pkg/facts"
	"k8s.io/client-go/tools/cache"
)

// End says how much is known of an object that is gone.
type End uint8

const (
	// Final: the watch delivered the deletion, with the object's final state.
	Final End = iota
	// Unselected: the watch delivered a deletion without a deletionTimestamp, or within the grace. That is how a filtered
	// watch says that the object no longer matches; it may well be there.
	Unselected
	// Missed: the deletion was never delivered. The record is the last state known, not the final one.
	Missed
)

// Observer is told of every change, per kind in the order of the API server's events. Two kinds are not in step.
// initial marks what comes from the first list.
type Observer interface {
	TrainJobSeen(t *facts.TrainJob, initial bool)
	TrainJobGone(t *facts.TrainJob, how End)
	ObjectSeen(o *facts.Object, initial bool)
	ObjectGone(o *facts.Object, how End)
	PodSeen(p *facts.Pod, initial bool)
	PodGone(p *facts.Pod, how End)
	NodeSeen(n *facts.Node, initial bool)
	NodeGone(n *facts.Node, how End)
}

// handlers turns the events of one kind into calls of an observer.
type handlers[T facts.Record] struct {
	seen func(T, bool)
	gone func(T, End)
	// named makes a record that knows no more than a name: all that some tombstones have.
	named func(facts.Meta) T
}

// PodHandlers tells the observer of pods.
func PodHandlers(o Observer) cache.ResourceEventHandler {
	return handlers[*facts.Pod]{seen: o.PodSeen, gone: func(p *facts.Pod, how End) {
		// A real deletion is preceded by a write that ends the grace, so that its final state has a grace of 0 (apiserver
		// v0.37, pkg/registry/generic/registry and pkg/registry/rest). What still has one has only lost a label.
		if how == Final && (!p.Terminating() || p.Grace > 0) {
			how = Unselected
		}
		o.PodGone(p, how)
	}, named: func(m facts.Meta) *facts.Pod { return &facts.Pod{Meta: m} }}
}

// NodeHandlers tells the observer of nodes.
func NodeHandlers(o Observer) cache.ResourceEventHandler {
	return handlers[*facts.Node]{seen: o.NodeSeen, gone: o.NodeGone,
		named: func(m facts.Meta) *facts.Node { return &facts.Node{Meta: m} }}
}

// TrainJobHandlers tells the observer of TrainJobs.
func TrainJobHandlers(o Observer) cache.ResourceEventHandler {
	return handlers[*facts.TrainJob]{seen: o.TrainJobSeen, gone: o.TrainJobGone,
		named: func(m facts.Meta) *facts.TrainJob { return &facts.TrainJob{Meta: m} }}
}

// ObjectHandlers tells the observer of objects of one other kind.
func ObjectHandlers(kind string, o Observer) cache.ResourceEventHandler {
	return handlers[*facts.Object]{seen: o.ObjectSeen, gone: o.ObjectGone,
		named: func(m facts.Meta) *facts.Object { return &facts.Object{Meta: m, Kind: kind} }}
}

func (h handlers[T]) OnAdd(obj any, initial bool) {
	if r, ok := obj.(T); ok {
		h.seen(r, initial)
	}
}

func (h handlers[T]) OnUpdate(old, obj any) {
	r, ok := obj.(T)
	if !ok {
		return
	}
	if o, ok := old.(T); ok {
		if replaced(o, r) {
			h.gone(o, Missed)
		} else if resynced(o, r) {
			return
		}
	}
	h.seen(r, false)
}

func (h handlers[T]) OnDelete(obj any) {
	if r, how, ok := h.unwrap(obj); ok {
		h.gone(r, how)
	}
}

// replaced: the same name with another UID. The watch missed the deletion of the old object, and the informer has no
// other way to say so.
func replaced(old, now facts.Record) bool { return old.Identity().UID != now.Identity().UID }

// resynced: the very same state again.
func resynced(old, now facts.Record) bool {
	return old.Identity().ResourceVersion != "" && old.Identity().ResourceVersion == now.Identity().ResourceVersion
}

// unwrap is the one place that knows of tombstones: the informer's word, by value or by pointer, that a relist no longer
// found an object whose deletion it was never told of. Some tombstones hold a key and no object: whatever has that name
// is then meant, and the record has no UID.
func (h handlers[T]) unwrap(obj any) (T, End, bool) {
	var tombstone cache.DeletedFinalStateUnknown
	switch o := obj.(type) {
	case T:
		return o, Final, true
	case cache.DeletedFinalStateUnknown:
		tombstone = o
	case *cache.DeletedFinalStateUnknown:
		if o == nil {
			break
		}
		tombstone = *o
	}
	if r, ok := tombstone.Obj.(T); ok {
		return r, Missed, true
	}
	namespace, name, err := cache.SplitMetaNamespaceKey(tombstone.Key)
	if err != nil || name == "" {
		var none T
		return none, Missed, false
	}
	return h.named(facts.Meta{Namespace: namespace, Name: name}), Missed, true
}
