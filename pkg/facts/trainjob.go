package facts

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TrainerController is the managedBy value of Trainer's own controller, which is also meant when the field is empty.
const TrainerController = "trainer.kubeflow.org/trainjob-controller"

// TrainJob is what a decision reads of a TrainJob.
type TrainJob struct {
	Meta
	Deletion   Instant
	Finalizers []string
	// RuntimeKind and RuntimeName are runtimeRef, with Trainer's default for the kind.
	RuntimeKind, RuntimeName string
	// ManagedBy is empty for Trainer's own controller.
	ManagedBy string
	Suspended bool
	// Complete and Failed are the conditions that are True; Reason and FinishedAt those of the one that is.
	Complete, Failed bool
	Reason           string
	FinishedAt       Instant
	Keep             bool
}

// Finished says whether the TrainJob has a terminal condition. In Trainer v2.3.0 a Failed one may be withdrawn.
func (t *TrainJob) Finished() bool { return t.Complete || t.Failed }

// JobKey is the job that the TrainJob is.
func (t *TrainJob) JobKey() JobKey { return JobKey{Namespace: t.Namespace, Name: t.Name, UID: t.UID} }

// Ref names the TrainJob.
func (t *TrainJob) Ref() Ref {
	return Ref{Namespace: t.Namespace, Kind: KindTrainJob, Name: t.Name, UID: t.UID}
}

// TrainJobs is the resource of TrainJobs, and TrainingRuntimes that of the namespaced runtimes.
//
// Trainer v2.3.0's own types and clients do not compile beside k8s.io/api v0.37 (their generated OpenAPI names
// core/v1 PodStatusResult, which v0.37 removed), so TrainJobs are read as JSON and decoded into the fields below.
var (
	TrainJobs        = schema.GroupVersionResource{Group: GroupTrainer, Version: "v1alpha1", Resource: "trainjobs"}
	TrainingRuntimes = schema.GroupVersionResource{Group: GroupTrainer, Version: "v1alpha1", Resource: "trainingruntimes"}
)

// GroupTrainer is the API group of Kubeflow Trainer v2.
const GroupTrainer = "trainer.kubeflow.org"

// Trainer's words (trainjob_types.go and trainingruntime_types.go of Trainer v2.3.0).
const (
	conditionComplete          = "Complete"
	conditionFailed            = "Failed"
	kindClusterTrainingRuntime = "ClusterTrainingRuntime"
)

type trainJob struct {
	Spec struct {
		RuntimeRef struct {
			Kind string `json:"kind"`
			Name string `json:"name"`
		} `json:"runtimeRef"`
		ManagedBy string `json:"managedBy"`
		Suspend   bool   `json:"suspend"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

// FromTrainJob makes the record of a TrainJob. It fails when a field that a decision reads has the wrong type.
func FromTrainJob(u *unstructured.Unstructured) (*TrainJob, error) {
	var o trainJob
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &o); err != nil {
		return nil, fmt.Errorf("reading TrainJob %s/%s: %w", u.GetNamespace(), u.GetName(), err)
	}
	t := &TrainJob{
		Meta:        metaOf(u),
		Deletion:    atMeta(u.GetDeletionTimestamp()),
		Finalizers:  internAll(u.GetFinalizers()),
		RuntimeKind: kindClusterTrainingRuntime,
		RuntimeName: o.Spec.RuntimeRef.Name,
		Suspended:   o.Spec.Suspend,
		Keep:        keeps(u.GetAnnotations()),
	}
	if o.Spec.RuntimeRef.Kind != "" {
		t.RuntimeKind = intern(o.Spec.RuntimeRef.Kind)
	}
	if o.Spec.ManagedBy != TrainerController {
		t.ManagedBy = intern(o.Spec.ManagedBy)
	}
	if c := condition(o.Status.Conditions, conditionComplete); c != nil {
		t.Complete, t.Reason, t.FinishedAt = true, intern(c.Reason), At(c.LastTransitionTime.Time)
	} else if c := condition(o.Status.Conditions, conditionFailed); c != nil {
		t.Failed, t.Reason, t.FinishedAt = true, intern(c.Reason), At(c.LastTransitionTime.Time)
	}
	return t, nil
}

func condition(cs []metav1.Condition, kind string) *metav1.Condition {
	if c := meta.FindStatusCondition(cs, kind); c != nil && c.Status == metav1.ConditionTrue {
		return c
	}
	return nil
}
