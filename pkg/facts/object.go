package facts

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// Kinds of objects that orphand follows.
const (
	KindTrainJob        = "TrainJob"
	KindJobSet          = "JobSet"
	KindJob             = "Job"
	KindPod             = "Pod"
	KindNode            = "Node"
	KindTrainingRuntime = "TrainingRuntime"
	KindConfigMap       = "ConfigMap"
	KindSecret          = "Secret"
	KindService         = "Service"
	KindPodGroup        = "PodGroup"
)

// Object is what a decision reads of a remain that is neither a pod nor a TrainJob: a JobSet, a Job, a runtime copy.
// Its metadata is enough.
type Object struct {
	Meta
	Kind       string
	Group      string
	Owner      Owner
	Deletion   Instant
	Finalizers []string
	// JobSetName and JobSetUID are JobSet's labels.
	JobSetName string
	JobSetUID  types.UID
	// RestartAttempt is JobSet's label on a Job.
	RestartAttempt string
	// Suspended and Finished are a JobSet's: it is to be suspended, it has a terminal condition.
	Suspended, Finished bool
	Keep                bool
	// Labels are kept for runtime copies only: they tell the adapter's copies from an administrator's runtimes.
	Labels map[string]string
}

// Terminating says whether the object was asked to go.
func (o *Object) Terminating() bool { return o.Deletion.Known() }

// Ref names the object.
func (o *Object) Ref() Ref {
	return Ref{Namespace: o.Namespace, Kind: o.Kind, Name: o.Name, UID: o.UID}
}

// FromMeta makes the record of any object from its metadata.
func FromMeta(group, kind string, o metav1.Object) *Object {
	labels := o.GetLabels()
	r := &Object{
		Meta:           metaOf(o),
		Kind:           kind,
		Group:          group,
		Owner:          ownerOf(o.GetOwnerReferences()),
		Deletion:       atMeta(o.GetDeletionTimestamp()),
		Finalizers:     internAll(o.GetFinalizers()),
		JobSetName:     intern(labels[LabelJobSetName]),
		JobSetUID:      types.UID(intern(labels[LabelJobSetUID])),
		RestartAttempt: intern(labels[LabelRestartAttempt]),
		Keep:           keeps(o.GetAnnotations()),
	}
	if kind == KindTrainingRuntime && len(labels) > 0 {
		r.Labels = make(map[string]string, len(labels))
		for k, v := range labels {
			r.Labels[intern(k)] = intern(v)
		}
	}
	return r
}

// FromJobSet makes the record of a JobSet.
func FromJobSet(o *jobset.JobSet) *Object {
	r := FromMeta(jobset.GroupVersion.Group, KindJobSet, o)
	r.Suspended = o.Spec.Suspend != nil && *o.Spec.Suspend
	r.Finished = condition(o.Status.Conditions, string(jobset.JobSetCompleted)) != nil ||
		condition(o.Status.Conditions, string(jobset.JobSetFailed)) != nil
	return r
}
