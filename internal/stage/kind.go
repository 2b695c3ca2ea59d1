package stage

import (
	"fmt"

	"github.com/orphand/orphand/pkg/facts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// Object is any object of the API: *corev1.Pod, *corev1.Node and *jobset.JobSet for these kinds, and for every other
// *unstructured.Unstructured or, where its metadata is all there is to say, *metav1.PartialObjectMetadata.
type Object interface {
	metav1.Object
	runtime.Object
}

// Kind is a kind of objects, whatever the version.
type Kind struct {
	Group, Kind string
}

// The kinds that a daemon watches.
var (
	TrainJob        = Kind{facts.GroupTrainer, facts.KindTrainJob}
	JobSet          = Kind{jobset.GroupVersion.Group, facts.KindJobSet}
	Job             = Kind{"batch", facts.KindJob}
	Pod             = Kind{"", facts.KindPod}
	TrainingRuntime = Kind{facts.GroupTrainer, facts.KindTrainingRuntime}
	Node            = Kind{"", facts.KindNode}
)

// String is the kind with its group, as kubectl writes it.
func (k Kind) String() string {
	if k.Group == "" {
		return k.Kind
	}
	return k.Kind + "." + k.Group
}

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
	return Kind{gvk.Group, gvk.Kind}
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
