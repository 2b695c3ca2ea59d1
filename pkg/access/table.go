package access

import "slices"

// Feature is a part of orphand that needs permissions of its own.
type Feature string

// The features.
const (
	// Observe is to follow jobs and to prove their pods gone. Nothing works without it.
	Observe Feature = "observe"
	// Records is to keep what is known as Orphan objects, so that a restart forgets nothing.
	Records Feature = "records"
	// Election is to have one leader among several replicas. It needs permissions in orphand's own namespace only.
	Election Feature = "election"
	// Enforce is to delete what the garbage collector leaves of jobs that are gone.
	Enforce Feature = "enforce"
	// Retention is to carry a retention policy out for kinds beyond those that are followed anyway. Deleting needs Enforce
	// as well.
	Retention Feature = "retention"
	// Memory is to know after a restart what retention removed. It needs permissions in orphand's own namespace only.
	Memory Feature = "memory"
	// Guard is to ask who reads the protected metrics.
	Guard Feature = "guard"
)

// Features lists every feature.
func Features() []Feature {
	return []Feature{Observe, Records, Election, Enforce, Retention, Memory, Guard}
}

// ForMode lists the features that `orphand run` has in a mode, "observe" or "enforce", with or without an election.
func ForMode(mode string, election bool) []Feature {
	list := []Feature{Observe, Records}
	if election {
		list = append(list, Election)
	}
	if mode == string(Enforce) {
		list = append(list, Enforce)
	}
	return list
}

// Purpose is one sentence for people.
func (f Feature) Purpose() string {
	switch f {
	case Observe:
		return "To follow jobs and to prove their pods gone, in all namespaces. Nothing works without it."
	case Records:
		return "To keep what is known as Orphan objects, in all namespaces; without it, in memory only."
	case Election:
		return "To have one leader among replicas, in the namespace that orphand runs in."
	case Enforce:
		return "To delete what the garbage collector leaves of jobs that are gone, with `--mode enforce` only."
	case Retention:
		return "To carry a retention policy out, with `--retention-policy` only; deleting needs those of enforce as well. A kind that no rule is for can be left out."
	case Memory:
		return "To know after a restart, or as the next leader, what the retention policy removed, in the namespace that orphand runs in; without it, in memory only."
	case Guard:
		return "To ask who reads the metrics and whether they may, with `--metrics-secure-address` only."
	}
	return ""
}

// Namespaced says whether the feature's permissions are for orphand's own namespace only.
func (f Feature) Namespaced() bool { return f == Election || f == Memory }

// The groups that kinds belong to.
const (
	groupTrainer      = "trainer.kubeflow.org"
	groupJobSet       = "jobset.x-k8s.io"
	groupBatch        = "batch"
	groupOrphand      = "orphand.dev"
	groupCoordination = "coordination.k8s.io"
	groupEvents       = "events.k8s.io"
	groupReviews      = "authorization.k8s.io"
	groupTokens       = "authentication.k8s.io"
	groupScheduling   = "scheduling.x-k8s.io"
	groupVolcano      = "scheduling.volcano.sh"
)

// Call is what one feature does with one resource.
type Call struct {
	Feature Feature
	// Group and Resource are as permissions name them; a subresource is part of the resource.
	Group, Resource string
	// Version is the one that orphand's clients ask for.
	Version string
	// Name restricts the call to the object of that name; empty for every one.
	Name string
	// Path is that of a call to no resource, which has none of the above.
	Path  string
	Verbs []string
	// Why is one sentence: what orphand does with it, and what it cannot say or do without.
	Why string
	// Spare says that the resource may be one that this cluster does not serve.
	Spare bool
	// Implied says that Kubernetes' default roles allow this to everyone who is authenticated.
	Implied bool
}

// Calls is the table.
func Calls() []Call {
	read := []string{"get", "list", "watch"}
	follow := []string{"list", "watch"}
	get := []string{"get"}
	sweep := sweeping()
	return []Call{
		{Feature: Observe, Group: groupTrainer, Version: "v1alpha1", Resource: "trainjobs", Verbs: read, Spare: true,
			Why: "TrainJobs are watched, and read live before one counts as gone; without them no job has a name."},
		{Feature: Observe, Group: groupTrainer, Version: "v1alpha1", Resource: "trainingruntimes", Verbs: follow, Spare: true,
			Why: "Copies of runtimes are remains of a job; without them it may count as cleared too early."},
		{Feature: Observe, Group: groupJobSet, Version: "v1alpha2", Resource: "jobsets", Verbs: read, Spare: true,
			Why: "JobSets link pods to their TrainJob and may start new ones; without them nothing is Settled."},
		{Feature: Observe, Group: groupBatch, Version: "v1", Resource: "jobs", Verbs: follow,
			Why: "Jobs of JobSets may start new pods; without them nothing is Settled."},
		{Feature: Observe, Version: "v1", Resource: "pods", Verbs: read,
			Why: "Pods of JobSets are judged; one that leaves the watch without a word is read live."},
		{Feature: Observe, Version: "v1", Resource: "nodes", Verbs: read,
			Why: "Nodes carry the evidence, and are read live before it counts; without them nothing is proven."},
		{Feature: Observe, Version: "v1", Resource: "configmaps", Verbs: get,
			Why: "Metadata of a job's snapshot and MPI or Flux files, by name, once it is settled; without it the job is never Cleared."},
		{Feature: Observe, Version: "v1", Resource: "secrets", Verbs: get,
			Why: "Metadata of a job's MPI or Flux keys, by name, once it is settled; the content is never asked for. Without it the job is never Cleared."},
		{Feature: Observe, Version: "v1", Resource: "services", Verbs: get,
			Why: "Metadata of a JobSet's headless Service, by name, once the job is settled; without it the job is never Cleared."},
		{Feature: Observe, Group: groupScheduling, Version: "v1alpha1", Resource: "podgroups", Verbs: get, Spare: true,
			Why: "Metadata of the scheduler plugins' PodGroup of a job, by name; without it, where they are installed, the job is never Cleared."},
		{Feature: Observe, Group: groupVolcano, Version: "v1beta1", Resource: "podgroups", Verbs: get, Spare: true,
			Why: "Metadata of Volcano's PodGroup of a job, by name; without it, where Volcano is installed, the job is never Cleared."},

		{Feature: Records, Group: groupOrphand, Version: "v1alpha1", Resource: "orphans", Verbs: []string{"list", "watch", "create", "patch", "delete"},
			Why: "Records are read at the start, written as soon as a deletion is seen, and deleted when they are old; without them a restart forgets."},
		{Feature: Records, Group: groupOrphand, Version: "v1alpha1", Resource: "orphans/status", Verbs: []string{"patch"},
			Why: "What a record says of its job is its status, which others wait for."},

		{Feature: Records, Group: groupEvents, Version: "v1", Resource: "events", Verbs: []string{"create", "patch"},
			Why: "A finding is told as an Event on the TrainJob, or on its record, a change of the mode on the Lease, and a deletion by policy is announced on its object; without it only the log has either, and what is to be announced stays."},

		{Feature: Election, Group: groupCoordination, Version: "v1", Resource: "leases", Verbs: []string{"create"},
			Why: "The first replica makes the Lease; Kubernetes cannot restrict this by name."},
		{Feature: Election, Group: groupCoordination, Version: "v1", Resource: "leases", Name: "orphand", Verbs: []string{"get", "list", "watch", "update"},
			Why: "The leader renews the Lease, and the others watch it so that one takes over at once."},

		{Feature: Enforce, Group: groupReviews, Version: "v1", Resource: "selfsubjectaccessreviews", Verbs: []string{"create"}, Implied: true,
			Why: "Whether it may delete is asked at the start and every few minutes: without all it needs, orphand deletes nothing."},
		{Feature: Enforce, Group: groupJobSet, Version: "v1alpha2", Resource: "jobsets", Verbs: []string{"delete"}, Spare: true,
			Why: "A JobSet whose TrainJob is gone is deleted under its UID; without this orphand only observes."},
		{Feature: Enforce, Version: "v1", Resource: "pods", Verbs: []string{"delete"},
			Why: "A pod whose Job is gone is deleted under its UID, with its own grace; without this orphand only observes."},
		{Feature: Enforce, Group: groupBatch, Version: "v1", Resource: "jobs", Verbs: []string{"get", "delete"},
			Why: "A Job whose JobSet is gone is deleted under its UID; it is read live as the owner of pods."},
		{Feature: Enforce, Group: groupTrainer, Version: "v1alpha1", Resource: "trainingruntimes", Verbs: []string{"get", "delete"}, Spare: true,
			Why: "A job's own copy of a runtime is deleted under its UID once its TrainJob is gone."},
		{Feature: Enforce, Version: "v1", Resource: "configmaps", Verbs: []string{"delete"},
			Why: "A snapshot or MPI or Flux file of a TrainJob that is gone is deleted under its UID."},
		{Feature: Enforce, Version: "v1", Resource: "secrets", Verbs: []string{"delete"},
			Why: "MPI or Flux keys of a TrainJob that is gone are deleted under their UID."},
		{Feature: Enforce, Version: "v1", Resource: "services", Verbs: []string{"delete"},
			Why: "The headless Service of a JobSet that is gone is deleted under its UID."},
		{Feature: Enforce, Group: groupScheduling, Version: "v1alpha1", Resource: "podgroups", Verbs: []string{"delete"}, Spare: true,
			Why: "The scheduler plugins' PodGroup of a TrainJob that is gone is deleted under its UID."},
		{Feature: Enforce, Group: groupVolcano, Version: "v1beta1", Resource: "podgroups", Verbs: []string{"delete"}, Spare: true,
			Why: "Volcano's PodGroup of a TrainJob that is gone is deleted under its UID."},

		{Feature: Memory, Version: "v1", Resource: "configmaps", Verbs: []string{"create"},
			Why: "The ConfigMap with what was removed is made with the first removal; Kubernetes cannot restrict this by name."},
		{Feature: Memory, Version: "v1", Resource: "configmaps", Name: "orphand-removals", Verbs: []string{"patch"},
			Why: "What was removed is written a few seconds later; the next process reads it, as it may get ConfigMaps anyway. Without it, what came back after its clean-up is removed once more after a restart, and a backlog gets another share of the hour."},

		{Feature: Retention, Group: groupTrainer, Version: "v1alpha1", Resource: "trainjobs", Verbs: []string{"delete"}, Spare: true,
			Why: "A finished TrainJob that is due is deleted under its UID."},
		{Feature: Retention, Version: "v1", Resource: "configmaps", Name: "orphand-retention", Verbs: []string{"list"},
			Why: "Rules that namespaces bring, where the policy lets them; without it such a policy is not taken up."},
		{Feature: Retention, Group: groupEvents, Version: "v1", Resource: "events", Verbs: get,
			Why: "The Event by which an earlier process announced a deletion, by name, where a rule or --notice asks for notices; without it such an object stays."},
		{Feature: Retention, Group: groupBatch, Version: "v1", Resource: "cronjobs", Verbs: get,
			Why: "Metadata of the CronJob of a Job, which decides on it for as long as it is there; without it the Job is kept."},
		{Feature: Retention, Group: "argoproj.io", Version: "v1alpha1", Resource: "workflows", Verbs: sweep, Spare: true,
			Why: "A finished Argo Workflow that is due is deleted under its UID, after a live read."},
		{Feature: Retention, Group: "argoproj.io", Version: "v1alpha1", Resource: "cronworkflows", Verbs: get, Spare: true,
			Why: "Metadata of the CronWorkflow of a Workflow, which decides on it for as long as it is there; without it the Workflow is kept."},
		{Feature: Retention, Group: "kubeflow.org", Version: "v1", Resource: "pytorchjobs", Verbs: sweep, Spare: true,
			Why: "A finished PyTorchJob that is due is deleted under its UID, after a live read."},
		{Feature: Retention, Group: "kubeflow.org", Version: "v1", Resource: "tfjobs", Verbs: sweep, Spare: true,
			Why: "A finished TFJob that is due is deleted under its UID, after a live read."},
		{Feature: Retention, Group: "kubeflow.org", Version: "v2beta1", Resource: "mpijobs", Verbs: sweep, Spare: true,
			Why: "A finished MPIJob that is due is deleted under its UID, after a live read."},
		{Feature: Retention, Group: "kubeflow.org", Version: "v1", Resource: "xgboostjobs", Verbs: sweep, Spare: true,
			Why: "A finished XGBoostJob that is due is deleted under its UID, after a live read."},
		{Feature: Retention, Group: "kubeflow.org", Version: "v1", Resource: "paddlejobs", Verbs: sweep, Spare: true,
			Why: "A finished PaddleJob that is due is deleted under its UID, after a live read."},
		{Feature: Retention, Group: "kubeflow.org", Version: "v1", Resource: "jaxjobs", Verbs: sweep, Spare: true,
			Why: "A finished JAXJob that is due is deleted under its UID, after a live read."},
		{Feature: Retention, Group: "ray.io", Version: "v1", Resource: "rayjobs", Verbs: sweep, Spare: true,
			Why: "A finished RayJob that is due is deleted under its UID, after a live read."},
		{Feature: Retention, Group: "batch.volcano.sh", Version: "v1alpha1", Resource: "jobs", Verbs: sweep, Spare: true,
			Why: "A finished Volcano Job that is due is deleted under its UID, after a live read."},
		{Feature: Retention, Group: "sparkoperator.k8s.io", Version: "v1beta2", Resource: "sparkapplications", Verbs: sweep, Spare: true,
			Why: "A finished SparkApplication that is due is deleted under its UID, after a live read."},
		{Feature: Retention, Group: "sparkoperator.k8s.io", Version: "v1beta2", Resource: "scheduledsparkapplications", Verbs: get, Spare: true,
			Why: "Metadata of the ScheduledSparkApplication of an application, which decides on it for as long as it is there; without it the application is kept."},

		{Feature: Guard, Group: groupTokens, Version: "v1", Resource: "tokenreviews", Verbs: []string{"create"},
			Why: "Whose token comes with a request for the metrics; without it nobody can read them."},
		{Feature: Guard, Group: groupReviews, Version: "v1", Resource: "subjectaccessreviews", Verbs: []string{"create"},
			Why: "Whether that one may get `/metrics`; without it nobody can read them."},
	}
}

// Of lists the calls of some features, in the table's order.
func Of(features ...Feature) []Call {
	return slices.DeleteFunc(Calls(), func(c Call) bool { return !slices.Contains(features, c.Feature) })
}

// sweeping is what retention does with a kind that it cleans up.
func sweeping() []string { return []string{"get", "list", "watch", "delete"} }
