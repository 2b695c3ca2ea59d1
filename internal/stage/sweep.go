package stage

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/informers"
	"github.com/orphand/orphand/pkg/retention"
	"github.com/orphand/orphand/pkg/sweep"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// Sweeping is a process that carries a retention policy out as well.
type Sweeping struct {
	Process
	Sweeper *sweep.Sweeper
	policy  *retention.Policy
	queue   *Queue[sweep.Key]
}

// Sweep puts a sweeper beside a process. c is complete but for what the stage has: its queue, its live reads.
func Sweep(p Parts, process Process, c sweep.Config) *Sweeping {
	s := &Sweeping{Process: process, policy: c.Policy}
	s.queue = NewQueue(p.Loop, compareKeys, func(k sweep.Key) error { return s.Sweeper.Sync(context.Background(), k) })
	c.Queue, c.Clock, c.Live, c.Sink, c.Notices = s.queue, p.Clock, liveObjects{live{api: p.API}}, p.Sink, notices{p.API}
	s.Sweeper = sweep.New(c)
	return s
}

func compareKeys(a, b sweep.Key) int {
	flag := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(flag(a.Release), flag(b.Release)), cmp.Compare(flag(a.Memory), flag(b.Memory)), cmp.Compare(a.Group, b.Group), cmp.Compare(flag(a.Pod), flag(b.Pod)), cmp.Compare(a.UID, b.UID))
}

// Begin starts the work of both.
func (s *Sweeping) Begin() {
	if p, ok := s.Process.(interface{ Begin() }); ok {
		p.Begin()
	}
	s.Sweeper.Begin()
}

// End ends both.
func (s *Sweeping) End() {
	s.queue.Stop()
	if p, ok := s.Process.(interface{ End() }); ok {
		p.End()
	}
}

// OfferAll tells both that this process leads now.
func (s *Sweeping) OfferAll() {
	if p, ok := s.Process.(interface{ OfferAll() }); ok {
		p.OfferAll()
	}
	s.Sweeper.Again()
}

// Watches are what the policy's kinds need beside what is watched anyway. Every kind that the policy knows is watched, so
// that a history can say of an object that no rule is for it.
func (s *Sweeping) Watches() []Watch {
	var list []Watch
	pods := map[string]*retention.Kind{}
	for _, k := range s.policy.KnownKinds() {
		list = append(list, Watch{Kind: Kind{Group: k.Group, Kind: k.Kind},
			Read:     func(o Object) facts.Record { return s.policy.Read(k, plain(o)) },
			Handlers: func(informers.Observer) cache.ResourceEventHandler { return s.Sweeper.ObjectHandlers(k) }})
		pods[k.PodSelector()+"/"+k.Kind] = k
	}
	for _, name := range slices.Sorted(mapKeys(pods)) {
		k := pods[name]
		list = append(list, Watch{Kind: Pod,
			Selects: func(o Object) bool { return jobOf(k, o) != "" },
			Read: func(o Object) facts.Record {
				return &informers.JobPod{Pod: *facts.FromPod(o.(*corev1.Pod)), Job: jobOf(k, o)}
			},
			Handlers: func(informers.Observer) cache.ResourceEventHandler { return s.Sweeper.PodHandlers(k.PodSelector()) }})
	}
	return list
}

func mapKeys[K comparable, V any](m map[K]V) func(func(K) bool) {
	return func(yield func(K) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// jobOf is the name of the object of a kind that a pod is of, by its label or, in a history that is written by hand and
// has none, by its owner reference.
func jobOf(k *retention.Kind, o Object) string {
	if name := o.GetLabels()[k.PodLabel]; k.PodLabel != "" && name != "" {
		return name
	}
	for _, r := range o.GetOwnerReferences() {
		if r.Kind == k.Kind && (r.Controller == nil || *r.Controller) && groupOf(r.APIVersion) == k.Group {
			return r.Name
		}
	}
	return ""
}

func groupOf(apiVersion string) string {
	for i := range apiVersion {
		if apiVersion[i] == '/' {
			return apiVersion[:i]
		}
	}
	return ""
}

// plain is an object as a dynamic client reads it.
func plain(o Object) *unstructured.Unstructured {
	if u, ok := o.(*unstructured.Unstructured); ok {
		return u
	}
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return &unstructured.Unstructured{Object: map[string]any{}}
	}
	u := &unstructured.Unstructured{Object: m}
	if kind := KindOf(o); kind == JobSet {
		u.SetAPIVersion("jobset.x-k8s.io/v1alpha2")
		u.SetKind(kind.Kind)
	}
	return u
}

// notices writes notices as Events, by requests.
type notices struct{ api *API }

// Announce satisfies sweep.Notices.
func (a notices) Announce(_ context.Context, n sweep.Notice) (facts.Instant, error) {
	name := fmt.Sprintf("%s.%s.%d", n.Name, n.UID, n.Due)
	if err := a.api.Request("create", Event, n.Namespace, name); err != nil {
		return 0, err
	}
	if made := a.api.Get(Event, n.Namespace, name); made != nil {
		return facts.At(made.GetCreationTimestamp().Time), nil
	}
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "events.k8s.io/v1", "kind": "Event", "note": n.Text}}
	u.SetNamespace(n.Namespace)
	u.SetName(name)
	u.SetCreationTimestamp(metav1.NewTime(n.At.Time()))
	return n.At, a.api.Put(u, Delivery{})
}

// liveObjects reads any object past the caches.
type liveObjects struct{ live }

// Object satisfies sweep.Live.
func (l liveObjects) Object(_ context.Context, k *retention.Kind, namespace, name string) (*unstructured.Unstructured, error) {
	kind := Kind{Group: k.Group, Kind: k.Kind}
	err := l.api.Request("get", kind, namespace, name)
	held := l.api.Get(kind, namespace, name)
	l.api.wait("get", kind, namespace, name)
	switch {
	case apierrors.IsNotFound(err), err == nil && held == nil:
		return nil, nil
	case err != nil:
		return nil, err
	}
	return plain(held), nil
}

// Owner satisfies sweep.Live.
func (l liveObjects) Owner(_ context.Context, namespace string, o facts.Owner) (bool, error) {
	kind := Kind{Group: o.Group, Kind: o.Kind}
	err := l.api.Request("get", kind, namespace, o.Name)
	held := l.api.Get(kind, namespace, o.Name)
	if held == nil {
		held = l.api.Get(kind, "", o.Name)
	}
	l.api.wait("get", kind, namespace, o.Name)
	if err != nil { // a kind that is not served included: its objects may be there all the same
		return false, err
	}
	return held != nil && held.GetUID() == o.UID, nil
}
