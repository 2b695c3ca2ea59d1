package retention

import (
	"fmt"
	"slices"
	"strings"

	"github.com/orphand/orphand/pkg/facts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kind is one kind of job: where it is served, and how to read from an object of it whether it is over.
type Kind struct {
	// Name is the short name in rules, decisions and metrics.
	Name string
	// Group, Resource and Kind are the API's names; Versions those that can be read, the preferred one first.
	Group, Resource, Kind string
	Versions              []string
	// PodLabel is the label of its pods that holds the object's name, or what PodsNamed of an object says; empty where owner
	// references alone tell.
	PodLabel string
	// NativeTTL says what the TTL field of the kind itself means, for the documentation; empty where it has none.
	NativeTTL string

	// managers are the values of managedBy that mean the kind's own controller, which works in this cluster.
	managers []string
	read     func(o fields) (life, error)
	// podsNamed is what the label of its pods holds; nil for the object's name.
	podsNamed func(o fields) string
}

// life is what an object of any kind tells of its end.
type life struct {
	finished  bool
	outcome   Outcome
	at        facts.Instant
	suspended bool
	// managedBy is empty for the kind's own controller.
	managedBy string
	// ttl is the seconds of the kind's own TTL for this outcome; nil where none is set. A negative one is as good as none.
	ttl *int64
}

// GroupResource is resource.group, the name of a kind that has no short one.
func (k *Kind) GroupResource() string {
	if k.Group == "" {
		return k.Resource
	}
	return k.Resource + "." + k.Group
}

// Resources are the resources that the kind may be served as, the preferred one first.
func (k *Kind) Resources() []schema.GroupVersionResource {
	var list []schema.GroupVersionResource
	for _, v := range k.Versions {
		list = append(list, schema.GroupVersionResource{Group: k.Group, Version: v, Resource: k.Resource})
	}
	return list
}

// is says whether two are the same kind, whichever policy knows them.
func (k *Kind) is(other *Kind) bool { return k.Group == other.Group && k.Resource == other.Resource }

// PodSelector names what pods of the kind are found by: PodLabel, or OwnerSelector and the kind where it has none.
func (k *Kind) PodSelector() string {
	if k.PodLabel != "" {
		return k.PodLabel
	}
	return OwnerSelector + k.GroupResource()
}

// OwnerSelector begins the selector of pods that only their owner reference tells.
const OwnerSelector = "owner:"

// named says whether a rule's word means this kind.
func (k *Kind) named(word string) bool {
	return word == k.Name || strings.EqualFold(word, k.GroupResource())
}

// Groups of the kinds beyond Kubernetes' own.
const (
	groupKubeflow = "kubeflow.org"
	groupVolcano  = "batch.volcano.sh"
)

// Kinds lists the built-in kinds.
func Kinds() []*Kind {
	seconds := "spec.ttlSecondsAfterFinished: the kind's own controller deletes the object"
	kinds := []*Kind{
		{Name: "TrainJob", Group: facts.GroupTrainer, Resource: "trainjobs", Kind: facts.KindTrainJob, Versions: []string{"v1alpha1", "v1"},
			PodLabel: facts.LabelJobSetName, managers: []string{facts.TrainerController},
			NativeTTL: "spec.ttlSecondsAfterFinished, where Trainer has it", read: fromConditions(standardEnds(), specTTL)},
		{Name: "JobSet", Group: "jobset.x-k8s.io", Resource: "jobsets", Kind: facts.KindJobSet, Versions: []string{"v1alpha2", "v1"},
			PodLabel: facts.LabelJobSetName, managers: []string{"jobset.sigs.k8s.io/jobset-controller"},
			NativeTTL: seconds, read: fromConditions(standardEnds(), specTTL)},
		{Name: "Job", Group: "batch", Resource: "jobs", Kind: facts.KindJob, Versions: []string{"v1"},
			PodLabel: facts.LabelJobName, managers: []string{"kubernetes.io/job-controller"},
			NativeTTL: seconds, read: fromConditions(standardEnds(), specTTL)},
		{Name: "Workflow", Group: "argoproj.io", Resource: "workflows", Kind: "Workflow", Versions: []string{"v1alpha1"},
			PodLabel:  "workflows.argoproj.io/workflow",
			NativeTTL: "spec.ttlStrategy: the outcome's own value before secondsAfterCompletion", read: readWorkflow},
		{Name: "RayJob", Group: "ray.io", Resource: "rayjobs", Kind: "RayJob", Versions: []string{"v1", "v1alpha1"},
			PodLabel: "ray.io/cluster", podsNamed: rayCluster, managers: []string{"ray.io/kuberay-operator"}, read: readRayJob},
		{Name: "VolcanoJob", Group: groupVolcano, Resource: "jobs", Kind: "Job", Versions: []string{"v1alpha1"},
			PodLabel: "volcano.sh/job-name", NativeTTL: seconds, read: readVolcanoJob},
		{Name: "SparkApplication", Group: "sparkoperator.k8s.io", Resource: "sparkapplications", Kind: "SparkApplication", Versions: []string{"v1beta2", "v1"},
			PodLabel: "sparkoperator.k8s.io/app-name", NativeTTL: "spec.timeToLiveSeconds", read: readSparkApplication},
	}
	for _, kind := range []string{"PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob"} {
		versions := []string{"v1"}
		if kind == "MPIJob" {
			versions = []string{"v2beta1", "v1"} // mpi-operator's own, and training-operator's
		}
		kinds = append(kinds, &Kind{Name: kind, Group: groupKubeflow, Resource: strings.ToLower(kind) + "s", Kind: kind, Versions: versions,
			PodLabel:  "training.kubeflow.org/job-name",
			managers:  []string{"kubeflow.org/training-operator", "kubeflow.org/mpi-operator"},
			NativeTTL: "spec.runPolicy.ttlSecondsAfterFinished: the operator deletes the object", read: readRunPolicy})
	}
	return kinds
}

// ends are the conditions that end a kind's objects.
type ends struct {
	succeeded, failed, unclear []string
	// again are conditions that take an older end back: the job was retried.
	again []string
}

func standardEnds() ends {
	return ends{succeeded: []string{"Complete", "Completed", "Succeeded"}, failed: []string{"Failed"}, unclear: []string{"Finished"}}
}

// fromConditions reads a kind that says by conditions that it is over.
func fromConditions(e ends, ttl func(fields) *int64) func(fields) (life, error) {
	return func(o fields) (life, error) {
		l, err := o.ended(e)
		l.suspended = o.truth("spec", "suspend")
		l.managedBy = o.text("spec", "managedBy")
		l.ttl = ttl(o)
		return l, err
	}
}

func specTTL(o fields) *int64 { return o.number("spec", "ttlSecondsAfterFinished") }

func readRunPolicy(o fields) (life, error) {
	e := standardEnds()
	e.again = []string{"Running", "Restarting"}
	l, err := o.ended(e)
	l.suspended = o.truth("spec", "runPolicy", "suspend")
	l.managedBy = o.text("spec", "runPolicy", "managedBy")
	l.ttl = o.number("spec", "runPolicy", "ttlSecondsAfterFinished")
	return l, err
}

func readWorkflow(o fields) (life, error) {
	l := life{at: o.instant("status", "finishedAt"), suspended: o.truth("spec", "suspend")}
	ttl := ""
	switch o.text("status", "phase") {
	case "Succeeded":
		l.finished, l.outcome, ttl = true, Succeeded, "secondsAfterSuccess"
	case "Failed", "Error":
		l.finished, l.outcome, ttl = true, Failed, "secondsAfterFailure"
	}
	if l.ttl = o.number("spec", "ttlStrategy", ttl); l.ttl == nil {
		l.ttl = o.number("spec", "ttlStrategy", "secondsAfterCompletion")
	}
	return l, nil
}

func readRayJob(o fields) (life, error) {
	l := life{at: o.instant("status", "endTime"), suspended: o.truth("spec", "suspend"), managedBy: o.text("spec", "managedBy")}
	switch o.text("status", "jobDeploymentStatus") {
	case "Complete", "Failed":
		l.finished = true
		l.outcome = Failed
		if o.text("status", "jobStatus") == "SUCCEEDED" {
			l.outcome = Succeeded
		}
		if o.text("status", "reason") == "DeadlineExceeded" {
			l.outcome = DeadlineExceeded
		}
	}
	return l, nil
}

// rayCluster is the RayCluster that a RayJob has made, which goes with it, and whose pods know no more than its name (KubeRay
// v1.4.2, ray-operator/controllers/ray/common/pod.go: labelPod); empty where it uses one that others have made.
func rayCluster(o fields) string {
	if selector, _, _ := unstructured.NestedMap(o, "spec", "clusterSelector"); len(selector) > 0 {
		return ""
	}
	return o.text("status", "rayClusterName")
}

func readVolcanoJob(o fields) (life, error) {
	l := life{at: o.instant("status", "state", "lastTransitionTime"), ttl: specTTL(o)}
	switch o.text("status", "state", "phase") {
	case "Completed":
		l.finished, l.outcome = true, Succeeded
	case "Failed", "Terminated":
		l.finished, l.outcome = true, Failed
	case "Aborted", "Aborting":
		l.suspended = true // a ResumeJob command sets it going again
	}
	return l, nil
}

func readSparkApplication(o fields) (life, error) {
	l := life{at: o.instant("status", "terminationTime"), suspended: o.truth("spec", "suspend"), ttl: o.number("spec", "timeToLiveSeconds")}
	switch o.text("status", "applicationState", "state") {
	case "COMPLETED":
		l.finished, l.outcome = true, Succeeded
	case "FAILED":
		l.finished, l.outcome = true, Failed
	}
	return l, nil
}

// fields reads an object's fields. What is missing, or has another type than the kind's own, reads as not set: an object
// that cannot be understood is never finished, and so never goes.
type fields map[string]any

func (o fields) text(path ...string) string {
	s, _, _ := unstructured.NestedString(o, path...)
	return s
}

func (o fields) truth(path ...string) bool {
	b, _, _ := unstructured.NestedBool(o, path...)
	return b
}

func (o fields) number(path ...string) *int64 {
	v, found, err := unstructured.NestedFieldNoCopy(o, path...)
	if !found || err != nil {
		return nil
	}
	var n int64
	switch v := v.(type) {
	case int64:
		n = v
	case int:
		n = int64(v)
	case float64:
		n = int64(v)
		if float64(n) != v {
			return nil
		}
	default:
		return nil
	}
	return &n
}

func (o fields) instant(path ...string) facts.Instant { return parseInstant(o.text(path...)) }

// ended reads the conditions. Of several ends the latest counts, and of a tie the failure.
func (o fields) ended(e ends) (life, error) {
	field, found, err := unstructured.NestedFieldNoCopy(o, "status", "conditions")
	if err != nil || !found {
		return life{}, err
	}
	list, ok := field.([]any)
	if !ok {
		return life{}, fmt.Errorf("status.conditions is a %T", field)
	}
	var l life
	var again facts.Instant
	for _, entry := range list {
		c, ok := entry.(map[string]any)
		if !ok {
			continue
		}
		kind, _ := c["type"].(string)
		if status, _ := c["status"].(string); status != "True" {
			continue
		}
		text, _ := c["lastTransitionTime"].(string)
		at := parseInstant(text)
		reason, _ := c["reason"].(string)
		var outcome Outcome
		switch {
		case slices.Contains(e.succeeded, kind):
			outcome = Succeeded
		case slices.Contains(e.failed, kind):
			outcome = Failed
			if reason == "DeadlineExceeded" {
				outcome = DeadlineExceeded
			}
		case slices.Contains(e.unclear, kind):
			outcome = Unclear
		case slices.Contains(e.again, kind):
			again = max(again, at)
			continue
		default:
			continue
		}
		switch {
		case !l.finished, l.outcome == Unclear && outcome != Unclear, outcome != Unclear && at > l.at,
			outcome != Unclear && at == l.at && outcome != Succeeded:
			l.finished, l.outcome, l.at = true, outcome, at
		}
	}
	if l.finished && again > l.at && l.at.Known() {
		return life{}, nil // retried since
	}
	if l.finished && !l.at.Known() {
		l.at = o.instant("status", "completionTime")
	}
	return l, nil
}
