package sim

import (
	"slices"
	"strconv"
	"time"

	"github.com/orphand/orphand/internal/stage"
	"github.com/orphand/orphand/pkg/facts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// namespace holds every job of the world.
const namespace = "team"

// table is the objects of one kind by name. names keeps the order of creation, so that nothing depends on a map's.
type table[T stage.Object] struct {
	byName map[string]T
	names  []string
}

func newTable[T stage.Object]() *table[T] { return &table[T]{byName: map[string]T{}} }

func (t *table[T]) get(name string) (T, bool) {
	o, ok := t.byName[name]
	return o, ok
}

func (t *table[T]) put(o T) {
	if _, ok := t.byName[o.GetName()]; !ok {
		t.names = append(t.names, o.GetName())
	}
	t.byName[o.GetName()] = o
}

func (t *table[T]) drop(name string) {
	delete(t.byName, name)
	t.names = slices.DeleteFunc(t.names, func(n string) bool { return n == name })
}

// all lists the objects in the order of their creation. The list may be kept while the table changes.
func (t *table[T]) all() []T {
	list := make([]T, 0, len(t.names))
	for _, n := range t.names {
		list = append(list, t.byName[n])
	}
	return list
}

// apiServer holds what the API server holds. Every stored object is immutable: a change stores a changed copy.
type apiServer struct {
	w       *World
	serials map[string]int

	nodes      *table[*corev1.Node]
	pods       *table[*corev1.Pod]
	jobs       *table[*metav1.PartialObjectMetadata]
	jobSets    *table[*jobset.JobSet]
	trainJobs  *table[*unstructured.Unstructured]
	configMaps *table[*metav1.PartialObjectMetadata]
	podNames   map[types.UID]string
	// leases is when the kubelet of each node name last renewed its Lease, as an offset from the history's start.
	leases map[string]time.Duration
}

func newAPIServer(w *World) *apiServer {
	return &apiServer{
		w:          w,
		serials:    map[string]int{},
		nodes:      newTable[*corev1.Node](),
		pods:       newTable[*corev1.Pod](),
		jobs:       newTable[*metav1.PartialObjectMetadata](),
		jobSets:    newTable[*jobset.JobSet](),
		trainJobs:  newTable[*unstructured.Unstructured](),
		configMaps: newTable[*metav1.PartialObjectMetadata](),
		podNames:   map[types.UID]string{},
		leases:     map[string]time.Duration{},
	}
}

// now is the API server's clock, in the whole seconds that metav1.Time has on the wire.
func (s *apiServer) now() metav1.Time { return s.w.clockOf(s.w.plan.APISkew) }

func (s *apiServer) newUID(prefix string) types.UID {
	s.serials[prefix]++
	return types.UID(prefix + strconv.Itoa(s.serials[prefix]))
}

func (s *apiServer) stamp(o stage.Object, prefix string) {
	o.SetUID(s.newUID(prefix))
	o.SetCreationTimestamp(s.now())
}

// store keeps the new state of an object and tells the watches.
func (s *apiServer) store(o stage.Object) {
	s.w.put(o)
	switch o := o.(type) {
	case *corev1.Node:
		s.nodes.put(o)
	case *corev1.Pod:
		s.pods.put(o)
		s.podNames[o.UID] = o.Name
	case *jobset.JobSet:
		s.jobSets.put(o)
	case *unstructured.Unstructured:
		s.trainJobs.put(o)
	case *metav1.PartialObjectMetadata:
		s.metadata(o).put(o)
	}
	s.w.changed(o)
}

// remove takes an object away. final is its last stored state; only its resourceVersion is new.
func (s *apiServer) remove(final stage.Object) {
	s.w.remove(final)
	switch o := final.(type) {
	case *corev1.Node:
		s.nodes.drop(o.Name)
	case *corev1.Pod:
		s.w.judge.removes(o.UID)
		s.pods.drop(o.Name)
	case *jobset.JobSet:
		s.jobSets.drop(o.Name)
	case *unstructured.Unstructured:
		s.trainJobs.drop(o.GetName())
	case *metav1.PartialObjectMetadata:
		s.metadata(o).drop(o.Name)
	}
	s.w.changed(final)
}

func (s *apiServer) metadata(o *metav1.PartialObjectMetadata) *table[*metav1.PartialObjectMetadata] {
	if o.Kind == facts.KindJob {
		return s.jobs
	}
	return s.configMaps
}

// pod finds a pod by UID.
func (s *apiServer) pod(uid types.UID) *corev1.Pod {
	if p, ok := s.pods.get(s.podNames[uid]); ok && p.UID == uid {
		return p
	}
	return nil
}

// editPod changes a pod, with its UID as the precondition. Removing the last finalizer of a pod whose grace is 0 deletes it
// without writing that update: the final state still lists the finalizer (apiserver registry/generic/registry/store.go).
func (s *apiServer) editPod(uid types.UID, change func(*corev1.Pod)) bool {
	old := s.pod(uid)
	if old == nil {
		return false
	}
	p := old.DeepCopy()
	change(p)
	if p.DeletionTimestamp != nil && *p.DeletionGracePeriodSeconds == 0 && len(p.Finalizers) == 0 && len(old.Finalizers) > 0 {
		s.remove(old.DeepCopy())
		return true
	}
	s.store(p)
	return true
}

// deletePod is DELETE of a pod: grace nil is the pod's own. The grace is 0 for a pod that is not bound or has ended
// (pod strategy), and a later call can only shorten it.
func (s *apiServer) deletePod(name string, uid types.UID, grace *int64) {
	old, ok := s.pods.get(name)
	if !ok || uid != "" && old.UID != uid {
		return
	}
	seconds := int64(corev1.DefaultTerminationGracePeriodSeconds)
	if old.Spec.TerminationGracePeriodSeconds != nil {
		seconds = *old.Spec.TerminationGracePeriodSeconds
	}
	if grace != nil {
		seconds = *grace
	}
	if old.Spec.NodeName == "" || ended(old) {
		seconds = 0
	}
	if old.DeletionTimestamp != nil && *old.DeletionGracePeriodSeconds <= seconds {
		return
	}
	p := old.DeepCopy()
	at := metav1.NewTime(s.now().Add(time.Duration(seconds) * time.Second))
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &at, &seconds
	p.Generation++
	s.store(p)
	if seconds == 0 && len(p.Finalizers) == 0 {
		s.remove(p.DeepCopy())
	}
}

func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// bind gives a pod to a node, which is refused once the pod was asked to terminate.
func (s *apiServer) bind(uid types.UID, node string) {
	if p := s.pod(uid); p == nil || p.DeletionTimestamp != nil || p.Spec.NodeName != "" {
		return
	}
	s.editPod(uid, func(p *corev1.Pod) {
		p.Spec.NodeName = node
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: s.now()})
	})
}

// editNode changes a Node by name.
func (s *apiServer) editNode(name string, change func(*corev1.Node)) {
	old, ok := s.nodes.get(name)
	if !ok {
		return
	}
	n := old.DeepCopy()
	change(n)
	if n.DeletionTimestamp != nil && len(n.Finalizers) == 0 {
		s.remove(n)
		return
	}
	s.store(n)
}

// deleteNode is DELETE of a Node: a finalizer holds it, with a deletionTimestamp.
func (s *apiServer) deleteNode(name string) {
	old, ok := s.nodes.get(name)
	if !ok || old.DeletionTimestamp != nil {
		return
	}
	n := old.DeepCopy()
	if len(n.Finalizers) == 0 {
		s.remove(n)
		return
	}
	at, none := s.now(), int64(0)
	n.DeletionTimestamp, n.DeletionGracePeriodSeconds = &at, &none
	s.store(n)
}

// deleteOwner is DELETE of a TrainJob, JobSet or Job with the given policy. Foreground and Orphan leave the object to the
// garbage collector, behind a finalizer.
func (s *apiServer) deleteOwner(o stage.Object, policy metav1.DeletionPropagation) {
	now, none := s.now(), int64(0)
	finalizer := ""
	switch policy {
	case metav1.DeletePropagationForeground:
		finalizer = metav1.FinalizerDeleteDependents
	case metav1.DeletePropagationOrphan:
		finalizer = metav1.FinalizerOrphanDependents
	}
	mark := func(o stage.Object) bool {
		if finalizer != "" && !slices.Contains(o.GetFinalizers(), finalizer) {
			o.SetFinalizers(append(slices.Clone(o.GetFinalizers()), finalizer))
		}
		if len(o.GetFinalizers()) == 0 {
			return false
		}
		if o.GetDeletionTimestamp() == nil {
			o.SetDeletionTimestamp(&now)
			o.SetDeletionGracePeriodSeconds(&none)
		}
		return true
	}
	if o.GetDeletionTimestamp() != nil {
		return
	}
	c := copyOf(o)
	if mark(c) {
		s.store(c)
	} else {
		s.remove(c)
	}
}

// release takes a finalizer off an object that is being deleted, and the object away with the last one.
func (s *apiServer) release(o stage.Object, finalizer string) {
	c := copyOf(o)
	c.SetFinalizers(slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(f string) bool { return f == finalizer }))
	if len(c.GetFinalizers()) == 0 && c.GetDeletionTimestamp() != nil {
		s.remove(c)
		return
	}
	s.store(c)
}

func copyOf(o stage.Object) stage.Object { return o.DeepCopyObject().(stage.Object) }

// stored says whether an object with the given kind, name and UID is stored.
func (s *apiServer) stored(kind, name string, uid types.UID) bool {
	switch kind {
	case facts.KindTrainJob:
		o, ok := s.trainJobs.get(name)
		return ok && o.GetUID() == uid
	case facts.KindJobSet:
		o, ok := s.jobSets.get(name)
		return ok && o.UID == uid
	case facts.KindJob:
		o, ok := s.jobs.get(name)
		return ok && o.UID == uid
	}
	return false
}
