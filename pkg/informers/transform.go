package informers

import (
	"fmt"

	"github.com/orphand/orphand/pkg/facts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// The transforms put records in the place of objects before these reach a store, in the initial stream as well: no
// object is held longer than it takes to read it. client-go applies a transform twice to what comes by the initial
// stream, so a record passes unchanged.
var (
	podTransform = transform(func(o *corev1.Pod) (*facts.Pod, error) { return facts.FromPod(o), nil })

	nodeTransform = transform(func(o *corev1.Node) (*facts.Node, error) { return facts.FromNode(o), nil })

	trainJobTransform = transform(func(o *unstructured.Unstructured) (*facts.TrainJob, error) { return facts.FromTrainJob(o) })

	jobSetTransform = transform(func(o *jobset.JobSet) (*facts.Object, error) { return facts.FromJobSet(o), nil })
)

func metaTransform(group, kind string) cache.TransformFunc {
	return transform(func(o *metav1.PartialObjectMetadata) (*facts.Object, error) {
		return facts.FromMeta(group, kind, o), nil
	})
}

func transform[O any, R facts.Record](read func(O) (R, error)) cache.TransformFunc {
	return func(obj any) (any, error) {
		switch o := obj.(type) {
		case R:
			return o, nil
		case O:
			return read(o)
		}
		return nil, fmt.Errorf("a watch delivered a %T, which is neither %T nor %T", obj, *new(O), *new(R))
	}
}
