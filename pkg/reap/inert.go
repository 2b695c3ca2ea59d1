package reap

import (
	"fmt"
	"slices"
	"strings"

	"github.com/orphand/orphand/pkg/facts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// LabelInert marks a runtime that Inert made.
	LabelInert = "orphand.dev/inert"
	// AnnotationMadeFor is the UID of the TrainJob that an inert runtime was made for.
	AnnotationMadeFor = "orphand.dev/made-for"
	// inertGate is the scheduling gate that nobody lifts.
	inertGate = facts.GateInert
)

// InertRuntimes selects the runtimes that Inert made.
func InertRuntimes() labels.Selector {
	return labels.SelectorFromSet(labels.Set{LabelInert: "true"})
}

// RuntimeOf is the runtime that a TrainJob names, without a UID.
func RuntimeOf(t *facts.TrainJob) (Target, error) {
	switch t.RuntimeKind {
	case facts.KindTrainingRuntime:
		return targetOf(runtimeKind(), t.Namespace, t.RuntimeName, ""), nil
	case kindClusterRuntime:
		return targetOf(clusterRuntimeKind(), "", t.RuntimeName, ""), nil
	}
	return Target{}, fmt.Errorf("%s names a runtime of kind %s, which is none of Trainer's", t.Ref(), t.RuntimeKind)
}

// Trainer's names (Trainer v2.3.0, pkg/constants and pkg/runtime/framework/plugins/jobset): the replicated jobs and
// containers that its webhook asks for, and the volume of the initializers.
const (
	stepLabel          = "trainer.kubeflow.org/trainjob-ancestor-step"
	trainerJob         = "node"
	datasetInitializer = "dataset-initializer"
	modelInitializer   = "model-initializer"
	initializerVolume  = "initializer"
)

// Inert makes a runtime that lets Trainer's webhook accept updates of the TrainJob again, and that no process can ever
// come from: Trainer never looks at deletionTimestamp and makes the JobSet anew as soon as there is a runtime, so its pods
// carry a scheduling gate that nobody lifts, and would fit no node without it.
func Inert(trainJob *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	t, err := facts.FromTrainJob(trainJob)
	if err != nil {
		return nil, err
	}
	target, err := RuntimeOf(t)
	if err != nil {
		return nil, err
	}
	containers := map[string][]string{trainerJob: {trainerJob}}
	jobs := []string{trainerJob}
	add := func(job, container string) {
		if !slices.Contains(jobs, job) {
			jobs = append(jobs, job)
		}
		if container != "" && !slices.Contains(containers[job], container) {
			containers[job] = append(containers[job], container)
		}
	}
	for field, job := range map[string]string{"dataset": datasetInitializer, "model": modelInitializer} {
		if _, given, _ := unstructured.NestedMap(trainJob.Object, "spec", "initializer", field); given {
			add(job, job)
		}
	}
	// What a patch names has to be there for the webhook.
	patches, _, _ := unstructured.NestedSlice(trainJob.Object, "spec", "runtimePatches")
	for _, p := range patches {
		patched, _, _ := unstructured.NestedSlice(asMap(p), "trainingRuntimeSpec", "template", "spec", "replicatedJobs")
		for _, j := range patched {
			name, _, _ := unstructured.NestedString(asMap(j), "name")
			if name == "" {
				continue
			}
			add(name, "")
			for _, list := range []string{"containers", "initContainers"} {
				cs, _, _ := unstructured.NestedSlice(asMap(j), "template", "spec", "template", "spec", list)
				for _, c := range cs {
					container, _, _ := unstructured.NestedString(asMap(c), "name")
					add(name, container)
				}
			}
		}
	}
	slices.Sort(jobs)
	replicated := make([]any, 0, len(jobs))
	for _, j := range jobs {
		replicated = append(replicated, inertJob(j, containers[j]))
	}
	r := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": target.Kind.Resource.GroupVersion().String(), "kind": target.Kind.Kind,
		"metadata": map[string]any{"name": target.Name,
			"labels":      map[string]any{LabelInert: "true"},
			"annotations": map[string]any{AnnotationMadeFor: string(t.UID)}},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"replicatedJobs": replicated}}},
	}}
	if target.Namespace != "" {
		r.SetNamespace(target.Namespace)
	}
	return r, nil
}

func inertJob(name string, names []string) map[string]any {
	if len(names) == 0 {
		names = []string{name}
	}
	containers := make([]any, 0, len(names))
	for _, c := range names {
		containers = append(containers, map[string]any{"name": c, "image": "orphand.dev/inert", "command": []any{"/inert"},
			"volumeMounts": []any{map[string]any{"name": initializerVolume, "mountPath": "/inert"}}})
	}
	step := name
	if name == trainerJob {
		step = "trainer"
	}
	meta := map[string]any{}
	if slices.Contains([]string{trainerJob, datasetInitializer, modelInitializer}, name) {
		meta["labels"] = map[string]any{stepLabel: step}
	}
	return map[string]any{"name": name, "template": map[string]any{"metadata": meta, "spec": map[string]any{"template": map[string]any{
		"spec": map[string]any{
			"schedulingGates":              []any{map[string]any{"name": inertGate}},
			"nodeSelector":                 map[string]any{LabelInert: "never"},
			"restartPolicy":                "Never",
			"automountServiceAccountToken": false,
			"volumes":                      []any{map[string]any{"name": initializerVolume, "emptyDir": map[string]any{}}},
			"containers":                   containers,
		}}}}}
}

func asMap(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// IsInertFor says whether a runtime is one that Inert made for the TrainJob.
func IsInertFor(o metav1.Object, trainJob types.UID) bool {
	return o.GetLabels()[LabelInert] == "true" && o.GetAnnotations()[AnnotationMadeFor] == string(trainJob)
}

// Wedged says why a TrainJob's deletion is not stuck in the way that an inert runtime cures; nil when it is.
func Wedged(t *facts.TrainJob) error {
	switch {
	case !t.Deletion.Known():
		return fmt.Errorf("%s is not being deleted", t.Ref())
	case len(t.Finalizers) == 0:
		return fmt.Errorf("%s has no finalizer: it goes by itself", t.Ref())
	case !slices.Contains(t.Finalizers, metav1.FinalizerDeleteDependents):
		return fmt.Errorf("%s is held by %s, which somebody else must lift", t.Ref(), strings.Join(t.Finalizers, ", "))
	}
	return nil
}
