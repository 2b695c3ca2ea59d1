package sim

import (
	"github.com/orphand/orphand/pkg/facts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// trainJob is a TrainJob as the API server holds it.
type trainJob = *unstructured.Unstructured

func newTrainJob(name string) trainJob {
	t := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": facts.TrainJobs.GroupVersion().String(), "kind": facts.KindTrainJob,
		"spec": map[string]any{"runtimeRef": map[string]any{"name": "torch-distributed"}},
	}}
	t.SetNamespace(namespace)
	t.SetName(name)
	return t
}

func suspended(t trainJob) bool {
	yes, _, _ := unstructured.NestedBool(t.Object, "spec", "suspend")
	return yes
}

func finishedTrainJob(t trainJob) bool {
	list, _, _ := unstructured.NestedSlice(t.Object, "status", "conditions")
	return len(list) > 0
}

func setCondition(t trainJob, kind, reason string, at metav1.Time) {
	_ = unstructured.SetNestedSlice(t.Object, []any{map[string]any{
		"type": kind, "status": "True", "reason": reason, "message": "", "lastTransitionTime": at.UTC().Format("2006-01-02T15:04:05Z"),
	}}, "status", "conditions")
}
