package cluster

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// Labels of JobSet's pods.
const (
	LabelJobSetName = "jobset.sigs.k8s.io/jobset-name" // also the TrainJob's name
	LabelJobSetUID  = "jobset.sigs.k8s.io/jobset-uid"
)

// RuntimeKind is how a TrainJob comes by its runtime.
type RuntimeKind int

const (
	// OwnedRuntime is a TrainingRuntime with the TrainJob's own name, made before
	// it and owned by it afterwards: a copy, as adapters make it.
	OwnedRuntime RuntimeKind = iota
	// UnownedRuntime is the same without the last step, as left by an adapter that
	// died between the two.
	UnownedRuntime
	// ClusterRuntime is a ClusterTrainingRuntime named NAMESPACE-NAME.
	ClusterRuntime
)

// TrainJobSpec describes a TrainJob and its runtime. Containers are processes of
// the host, without images; pods are never restarted in place.
type TrainJobSpec struct {
	Namespace string // empty: default
	Name      string
	Nodes     int // number of pods; 0 means 1

	// Command is what each pod runs; empty means to sleep for ever.
	Command []string
	// IgnoreSIGTERM makes the command deaf to SIGTERM: it goes when the grace is
	// over.
	IgnoreSIGTERM bool
	// GraceSeconds is terminationGracePeriodSeconds; nil means Kubernetes' 30.
	GraceSeconds *int64
	Suspend      bool

	// On names the nodes that the pods may go to; empty means any.
	On []string
	// Together allows several pods of the job on one node.
	Together bool

	Runtime     RuntimeKind
	Labels      map[string]string // of the TrainJob and of its runtime
	Annotations map[string]string // of the TrainJob
	// BackoffLimit is that of the Job; nil means Kubernetes' 6.
	BackoffLimit *int32
	// Edit may change both objects before they are created.
	Edit func(job, runtime *unstructured.Unstructured)
}

// TrainJob names one TrainJob that was created.
type TrainJob struct {
	types.NamespacedName
	UID   types.UID
	Nodes int // number of pods
}

// SubmitTrainJob creates the runtime and the TrainJob, and returns the latter.
func (c *Cluster) SubmitTrainJob(ctx context.Context, spec TrainJobSpec) (TrainJob, error) {
	spec.Namespace = cmp.Or(spec.Namespace, corev1.NamespaceDefault)
	spec.Nodes = max(spec.Nodes, 1)
	runtime, err := spec.runtime()
	if err != nil {
		return TrainJob{}, err
	}
	job := spec.job(runtime)
	if spec.Edit != nil {
		spec.Edit(job, runtime)
	}
	kind := TrainingRuntimes
	if spec.Runtime == ClusterRuntime {
		kind = ClusterTrainingRuntimes
	}
	runtimes := c.dynamic.Resource(kind).Namespace(runtime.GetNamespace())
	made, err := runtimes.Create(ctx, runtime, metav1.CreateOptions{})
	if err != nil {
		return TrainJob{}, fmt.Errorf("runtime of TrainJob %s/%s: %w", spec.Namespace, spec.Name, err)
	}
	created, err := c.createTrainJob(ctx, job)
	if err != nil {
		return TrainJob{}, fmt.Errorf("TrainJob %s/%s: %w", spec.Namespace, spec.Name, err)
	}
	if spec.Runtime == OwnedRuntime {
		made.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(created, created.GroupVersionKind())})
		if _, err := runtimes.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
			return TrainJob{}, fmt.Errorf("owner of the runtime of TrainJob %s/%s: %w", spec.Namespace, spec.Name, err)
		}
	}
	return TrainJob{
		NamespacedName: types.NamespacedName{Namespace: spec.Namespace, Name: spec.Name},
		UID:            created.GetUID(),
		Nodes:          spec.Nodes,
	}, nil
}

// createTrainJob creates a TrainJob whose runtime was made a moment ago. Trainer's
// webhook looks for the runtime in its cache, and refuses the TrainJob as long as that
// has not heard of it.
func (c *Cluster) createTrainJob(ctx context.Context, job *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	// The limit is not for the request: one that is cut off would hide the refusal.
	limit, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		created, err := c.dynamic.Resource(TrainJobs).Namespace(job.GetNamespace()).Create(ctx, job, metav1.CreateOptions{})
		if err == nil || !strings.Contains(err.Error(), "spec.runtimeRef") {
			return created, err
		}
		select {
		case <-limit.Done():
			return nil, err
		case <-time.After(retryAfter):
		}
	}
}

func (s TrainJobSpec) job(runtime *unstructured.Unstructured) *unstructured.Unstructured {
	job := object(TrainJobs.GroupVersion().String(), "TrainJob", s.Name)
	job.SetNamespace(s.Namespace)
	job.SetLabels(s.Labels)
	job.SetAnnotations(s.Annotations)
	job.Object["spec"] = map[string]any{
		"runtimeRef": map[string]any{
			"apiGroup": TrainJobs.Group,
			"kind":     runtime.GetKind(),
			"name":     runtime.GetName(),
		},
		"suspend": s.Suspend,
		"trainer": map[string]any{"numNodes": int64(s.Nodes)},
	}
	return job
}

func (s TrainJobSpec) runtime() (*unstructured.Unstructured, error) {
	pod, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&corev1.PodSpec{
		RestartPolicy:                 corev1.RestartPolicyNever,
		TerminationGracePeriodSeconds: s.GraceSeconds,
		Affinity:                      s.placement(),
		AutomountServiceAccountToken:  ptr.To(false),
		Containers: []corev1.Container{{
			Name:    "node", // Trainer's name for the container that trains
			Image:   "none",
			Command: s.command(),
		}},
	})
	if err != nil {
		return nil, err
	}
	job := map[string]any{"template": map[string]any{"spec": pod}}
	if s.BackoffLimit != nil {
		job["backoffLimit"] = int64(*s.BackoffLimit)
	}
	r := object(TrainingRuntimes.GroupVersion().String(), "TrainingRuntime", s.Name)
	r.SetNamespace(s.Namespace)
	if s.Runtime == ClusterRuntime {
		r = object(ClusterTrainingRuntimes.GroupVersion().String(), "ClusterTrainingRuntime", s.Namespace+"-"+s.Name)
	}
	labels := map[string]string{"trainer.kubeflow.org/framework": "torch"}
	maps.Copy(labels, s.Labels)
	r.SetLabels(labels)
	r.Object["spec"] = map[string]any{
		"mlPolicy": map[string]any{"numNodes": int64(s.Nodes), "torch": map[string]any{}},
		"template": map[string]any{"spec": map[string]any{"replicatedJobs": []any{map[string]any{
			"name": "node",
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
				"spec":     job,
			},
		}}}},
	}
	return r, nil
}

func (s TrainJobSpec) command() []string {
	command := s.Command
	if len(command) == 0 {
		command = []string{"sleep", "infinity"}
	}
	if s.IgnoreSIGTERM {
		// An ignored signal stays ignored across exec.
		command = append([]string{"sh", "-c", `trap "" TERM; exec "$@"`, "sh"}, command...)
	}
	return command
}

func (s TrainJobSpec) placement() *corev1.Affinity {
	var a corev1.Affinity
	if len(s.On) > 0 {
		a.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: slices.Clone(s.On),
			}}}},
		}}
	}
	if !s.Together {
		a.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{LabelJobSetName: s.Name}},
			TopologyKey:   corev1.LabelHostname,
			// Pods of an earlier job of the same name may still be terminating.
			MatchLabelKeys: []string{LabelJobSetUID},
		}}}
	}
	return &a
}

// PodsOf selects the pods of a TrainJob by its name, those of other jobs of the
// name included.
func PodsOf(job TrainJob) PodSelector {
	return PodSelector{Namespace: job.Namespace, Labels: map[string]string{LabelJobSetName: job.Name}}
}

// WaitRunning waits until all pods of the TrainJob are Running with a live
// process each, and returns them, sorted by name.
func (c *Cluster) WaitRunning(ctx context.Context, job TrainJob) ([]*corev1.Pod, error) {
	var running []*corev1.Pod
	err := c.WaitPods(ctx, PodsOf(job), func(pods []*corev1.Pod) bool {
		truth := c.Truth()
		running = slices.DeleteFunc(slices.Clone(pods), func(p *corev1.Pod) bool {
			return p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil || !truth.Alive(p.UID)
		})
		return len(running) == job.Nodes
	})
	return running, err
}

// DeleteTrainJob deletes a TrainJob, under its UID.
func (c *Cluster) DeleteTrainJob(ctx context.Context, job TrainJob, propagation metav1.DeletionPropagation) error {
	return c.dynamic.Resource(TrainJobs).Namespace(job.Namespace).Delete(ctx, job.Name, metav1.DeleteOptions{
		PropagationPolicy: &propagation,
		Preconditions:     metav1.NewUIDPreconditions(string(job.UID)),
	})
}

// ForceDeletePod removes a pod's object with grace 0, under its UID: the API
// forgets it at once, whatever runs.
func (c *Cluster) ForceDeletePod(ctx context.Context, pod *corev1.Pod) error {
	return c.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: ptr.To[int64](0),
		Preconditions:      metav1.NewUIDPreconditions(string(pod.UID)),
	})
}
