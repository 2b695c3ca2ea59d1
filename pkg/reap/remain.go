package reap

import (
	"cmp"
	"slices"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/nodeproof"
	"k8s.io/apimachinery/pkg/types"
)

// Remain is one object of a job, or a pod of it whose object is gone while its processes may not be.
type Remain struct {
	Target
	// Job is the TrainJob incarnation that it belongs to.
	Job facts.JobKey
	// Foreign: its TrainJob is gone, so that it is an object of its own.
	Foreign bool
	// NeverOwned: a runtime copy that no TrainJob ever got to own.
	NeverOwned bool
	// Created is when the API server made it.
	Created facts.Instant
	// Deletion is its deletionTimestamp; unknown while it was not asked to go.
	Deletion facts.Instant
	// HeldBy are the finalizers that keep a terminating object.
	HeldBy []string
	// Keep: it carries orphand.dev/keep and is never deleted.
	Keep bool
	// Removed: the object is gone; what is told of it is what became of its processes.
	Removed bool
	// Verdict, Reason, Evidence and Node are a pod's; Evidence is empty unless it is Gone.
	Verdict  nodeproof.Verdict
	Reason   nodeproof.Reason
	Evidence string
	Node     string

	owners []facts.Owner
	mirror bool
}

// Terminating says whether it was asked to go.
func (r *Remain) Terminating() bool { return r.Deletion.Known() }

// blocks says whether the remain keeps its job from being cleared.
func (r *Remain) blocks() bool {
	return !r.Removed || r.Ref.Kind == facts.KindPod && r.Verdict != nodeproof.Gone
}

// order is that of an object's life: what makes others comes first.
func order(kind string) int {
	for i, k := range []string{facts.KindTrainJob, facts.KindJobSet, facts.KindJob, facts.KindPod, facts.KindTrainingRuntime} {
		if k == kind {
			return i
		}
	}
	return 9
}

func compareTargets(a, b Target) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(order(a.Ref.Kind), order(b.Ref.Kind)),
		cmp.Compare(a.Ref.Kind, b.Ref.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}

func sortRemains(list []Remain) {
	slices.SortFunc(list, func(a, b Remain) int {
		return cmp.Or(cmp.Compare(a.Job.Namespace, b.Job.Namespace), cmp.Compare(a.Job.Name, b.Job.Name),
			cmp.Compare(a.Job.UID, b.Job.UID), compareTargets(a.Target, b.Target))
	})
}

// Incarnations lists the jobs that the remains belong to, each once, in the order of the list.
func Incarnations(list []Remain) []facts.JobKey {
	var keys []facts.JobKey
	seen := map[types.UID]bool{}
	for i := range list {
		if k := list[i].Job; !seen[k.UID] {
			seen[k.UID] = true
			keys = append(keys, k)
		}
	}
	return keys
}
