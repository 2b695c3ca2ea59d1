package stage

import (
	"fmt"

	"github.com/orphand/orphand/pkg/facts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// Object is any object of the API: *corev1.Pod, *corev1.Node and *jobset.JobSet for these kinds, and for every other
// *unstructured.Unstructured or, where its metadata is all there is to say, *metav1.PartialObjectMetadata.
type Object interface {
	metav1.Object
	runtime.Object
}

// Kind is a kind of objects, whatever the version.
type Kind = schema.GroupKind

// The kinds that a daemon watches.
var (
	TrainJob        = schema.GroupKind{Group: facts.GroupTrainer, Kind: facts.KindTrainJob}
	JobSet          = schema.GroupKind{Group: jobset.GroupVersion.Group, Kind: facts.KindJobSet}
	Job             = schema.GroupKind{Group: "batch", Kind: facts.KindJob}
	Pod             = schema.GroupKind{Kind: facts.KindPod}
	TrainingRuntime = schema.GroupKind{Group: facts.GroupTrainer, Kind: facts.KindTrainingRuntime}
	Node            = schema.GroupKind{Kind: facts.KindNode}
)

// Event is the kind of notices.
var Event = schema.GroupKind{Group: "events.k8s.io", Kind: "Event"}

// KindOf is the kind of an object.
func KindOf(o Object) Kind {
	switch o.(type) {
	case *corev1.Pod:
		return Pod
	case *corev1.Node:
		return Node
	case *jobset.JobSet:
		return JobSet
	}
	gvk := o.GetObjectKind().GroupVersionKind()
	return gvk.GroupKind()
}

// Record makes of an object what the daemon's own transforms make of it. It fails for an object that they cannot read.
func Record(o Object) (facts.Record, error) {
	switch o := o.(type) {
	case *corev1.Pod:
		return facts.FromPod(o), nil
	case *corev1.Node:
		return facts.FromNode(o), nil
	case *jobset.JobSet:
		return facts.FromJobSet(o), nil
	case *unstructured.Unstructured:
		switch KindOf(o) {
		case TrainJob:
			return facts.FromTrainJob(o)
		case Pod, Node, JobSet:
			return nil, fmt.Errorf("a %s is given as %T, not as its own type", KindOf(o), o)
		}
	case *metav1.PartialObjectMetadata:
		switch KindOf(o) {
		case TrainJob, Pod, Node, JobSet:
			return nil, fmt.Errorf("a %s is given as %T, not as its own type", KindOf(o), o)
		}
	}
	k := KindOf(o)
	return facts.FromMeta(k.Group, k.Kind, o), nil
}
