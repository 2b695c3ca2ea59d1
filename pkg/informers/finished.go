package informers

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/orphand/orphand/pkg/facts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// JobPod is a pod with the name of the object that it is of.
type JobPod struct {
	facts.Pod
	Job string
}

// Handlers turns the events of a watch whose records are of type T into calls; named makes a record that knows no more
// than a name, which is all that some tombstones have.
func Handlers[T facts.Record](seen func(T, bool), gone func(T, End), named func(facts.Meta) T) cache.ResourceEventHandler {
	return handlers[T]{seen: seen, gone: gone, named: named}
}

// Watch is one watch that a policy asks for.
type Watch struct {
	// Name is the kind's, in states and logs.
	Name string
	// Resources are what it may be served as, the preferred one first.
	Resources []schema.GroupVersionResource
	// Read makes the record of an object.
	Read    func(*unstructured.Unstructured) facts.Record
	Handler cache.ResourceEventHandler
}

// Watcher is a watch that can be run and asked for its state.
type Watcher struct{ kind *kind }

// Run watches until ctx ends.
func (w *Watcher) Run(ctx context.Context) { w.kind.run(ctx) }

// Status is what has become of it.
func (w *Watcher) Status() Status { return w.kind.current() }

// NewWatcher makes a watch; changed is told when its state changes, and must not block.
func NewWatcher(c dynamic.Interface, clk clock.Clock, w Watch, changed func(Status)) (*Watcher, error) {
	made, err := newKind(spec{name: w.Name, example: &unstructured.Unstructured{}, lister: versions(c, w.Resources), client: c,
		transform: func(obj any) (any, error) {
			switch o := obj.(type) {
			case *unstructured.Unstructured:
				return w.Read(o), nil
			case facts.Record:
				return o, nil
			}
			return nil, fmt.Errorf("a watch delivered a %T", obj)
		}, handler: w.Handler}, clk, changed)
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", w.Name, err)
	}
	return &Watcher{made}, nil
}

// NewPodWatcher watches the pods that a selector selects; job gives the name of the object that a pod is of, empty for
// none: of such a pod nothing but its name is kept.
func NewPodWatcher(c kubernetes.Interface, clk clock.Clock, name, selector string, job func(*corev1.Pod) string, handler cache.ResourceEventHandler, changed func(Status)) (*Watcher, error) {
	made, err := newKind(spec{name: name, example: &corev1.Pod{}, lister: podLister(c), client: c, selector: selector,
		transform: func(obj any) (any, error) {
			switch o := obj.(type) {
			case *corev1.Pod:
				of := job(o)
				if of == "" {
					return &JobPod{Pod: facts.Pod{Meta: facts.Meta{Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion}}}, nil
				}
				return &JobPod{Pod: *facts.FromPod(o), Job: of}, nil
			case *JobPod:
				return o, nil
			}
			return nil, fmt.Errorf("a watch delivered a %T", obj)
		}, handler: handler}, clk, changed)
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", name, err)
	}
	return &Watcher{made}, nil
}

// versions lists and watches the first of the resources that is served. A kind whose version goes is looked for under the
// others at its next list.
func versions(c dynamic.Interface, resources []schema.GroupVersionResource) lister {
	var served atomic.Int32
	return lister{
		list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			var first error
			for i, r := range resources {
				list, err := c.Resource(r).List(ctx, o)
				if err == nil {
					served.Store(int32(i))
				}
				if !apierrors.IsNotFound(err) {
					return list, err
				}
				if first == nil {
					first = err
				}
			}
			return nil, first
		},
		watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			// With streaming lists there is no list before the first watch.
			at := int(served.Load())
			w, err := c.Resource(resources[at]).Watch(ctx, o)
			if apierrors.IsNotFound(err) {
				served.Store(int32((at + 1) % len(resources)))
			}
			return w, err
		},
	}
}
