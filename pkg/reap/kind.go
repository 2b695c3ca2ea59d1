package reap

import (
	"github.com/orphand/orphand/pkg/facts"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Kind is a kind of objects and where the API serves it.
type Kind struct {
	Kind     string
	Resource schema.GroupVersionResource
}

// GroupKind is the kind whatever the version.
func (k Kind) GroupKind() schema.GroupKind {
	return schema.GroupKind{Group: k.Resource.Group, Kind: k.Kind}
}

// String is the resource with its group, as permissions name it.
func (k Kind) String() string { return k.Resource.GroupResource().String() }

var (
	jobSets       = schema.GroupVersionResource{Group: "jobset.x-k8s.io", Version: "v1alpha2", Resource: "jobsets"}
	batchJobs     = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	pods          = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	nodes         = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	configMaps    = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	secrets       = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	services      = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	podGroups     = schema.GroupVersionResource{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Resource: "podgroups"}
	volcanoGroups = schema.GroupVersionResource{Group: "scheduling.volcano.sh", Version: "v1beta1", Resource: "podgroups"}
	clusterRuns   = schema.GroupVersionResource{Group: facts.GroupTrainer, Version: "v1alpha1", Resource: "clustertrainingruntimes"}
)

// The kinds that a chain of owners is made of.
func trainJobKind() Kind { return Kind{facts.KindTrainJob, facts.TrainJobs} }
func jobSetKind() Kind   { return Kind{facts.KindJobSet, jobSets} }
func jobKind() Kind      { return Kind{facts.KindJob, batchJobs} }
func podKind() Kind      { return Kind{facts.KindPod, pods} }
func nodeKind() Kind     { return Kind{facts.KindNode, nodes} }
func runtimeKind() Kind  { return Kind{facts.KindTrainingRuntime, facts.TrainingRuntimes} }

const kindClusterRuntime = "ClusterTrainingRuntime"

// clusterRuntimeKind is read, and deleted where Inert made one.
func clusterRuntimeKind() Kind { return Kind{kindClusterRuntime, clusterRuns} }

// Kinds lists every kind of which this package may delete an object: a TrainJob, and its remains.
func Kinds() []Kind {
	list := []Kind{trainJobKind(), jobSetKind(), jobKind(), podKind(), runtimeKind()}
	for _, n := range namedKinds() {
		if !contains(list, n.Kind) {
			list = append(list, n.Kind)
		}
	}
	return list
}

func contains(list []Kind, k Kind) bool {
	for _, have := range list {
		if have == k {
			return true
		}
	}
	return false
}

// KindNames lists the words of Kinds, each once.
func KindNames() []string {
	var names []string
	seen := map[string]bool{}
	for _, k := range Kinds() {
		if !seen[k.Kind] {
			seen[k.Kind] = true
			names = append(names, k.Kind)
		}
	}
	return names
}

// named is a kind of which Trainer v2.3.0 or JobSet v0.12.0 makes an object under a fixed name, without a label that names
// the job: its owner reference is the only link.
type named struct {
	Kind
	suffix string
	// owner is the kind that owns it.
	owner string
}

func namedKinds() []named {
	return []named{
		{Kind{facts.KindConfigMap, configMaps}, "-runtime-snapshot", facts.KindTrainJob},
		{Kind{facts.KindConfigMap, configMaps}, "-mpi-hostfile", facts.KindTrainJob},
		{Kind{facts.KindConfigMap, configMaps}, "-flux-entrypoint", facts.KindTrainJob},
		{Kind{facts.KindConfigMap, configMaps}, "-tls-config", facts.KindTrainJob},
		{Kind{facts.KindSecret, secrets}, "-mpi-ssh-auth", facts.KindTrainJob},
		{Kind{facts.KindSecret, secrets}, "-flux-curve", facts.KindTrainJob},
		{Kind{facts.KindService, services}, "", facts.KindJobSet},
		{Kind{facts.KindPodGroup, podGroups}, "", facts.KindTrainJob},
		{Kind{facts.KindPodGroup, volcanoGroups}, "", facts.KindTrainJob},
	}
}

// Target names one object instance.
type Target struct {
	Kind Kind
	facts.Ref
}

func targetOf(k Kind, namespace, name string, uid types.UID) Target {
	return Target{k, facts.Ref{Namespace: namespace, Kind: k.Kind, Name: name, UID: uid}}
}

// ParseKind finds a kind by the lower-case word of an object reference, or by a resource's name with its group.
func ParseKind(word string) (Kind, bool) {
	for _, k := range Kinds() {
		if word == lower(k.Kind) || word == k.Resource.Resource || word == k.String() || word == lower(k.Kind)+"."+k.Resource.Group {
			return k, true
		}
	}
	return Kind{}, false
}

// NeededKinds lists the kinds without the permission to delete which a job could be left half stopped.
func NeededKinds() []Kind { return []Kind{jobSetKind(), podKind()} }
