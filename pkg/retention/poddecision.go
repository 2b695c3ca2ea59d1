package retention

import (
	"slices"

	"github.com/orphand/orphand/pkg/facts"
)

// finalizerJobTracking is on a pod until the Job controller has counted it: without it the work would be done again.
const finalizerJobTracking = "batch.kubernetes.io/job-tracking"

// PodCase is everything that a decision on one pod of a job reads.
type PodCase struct {
	Pod Pod
	// Job is the object at the root of what the pod belongs to; nil when nobody knows it.
	Job *Object
	// Controller says whether the pod's own controller would make another in its place: only a finished one, or one that
	// is gone, would not.
	Controller ControllerState
	Now        facts.Instant
}

// ControllerState is what a pod's own controller would do about its deletion.
type ControllerState uint8

// The states of a pod's controller.
const (
	ControllerUnknown ControllerState = iota
	ControllerWorking                 // it would make another
	ControllerOver                    // it is finished, or gone
)

// DecidePod says what becomes of a pod. Only stopRunningAfter and deletePodsAfter of the rule for its job ever delete one.
func (p *Policy) DecidePod(c PodCase) Decision {
	skip := func(why Reason) Decision { return Decision{Verb: Skip, Reason: why} }
	keep := func(why Reason) Decision { return Decision{Verb: Keep, Reason: why} }
	switch {
	case c.Pod.Mirror:
		return skip(MirrorPod)
	case c.Pod.Terminating():
		return skip(AlreadyTerminating)
	case c.Pod.Keep:
		return skip(Excluded)
	case c.Job == nil || c.Controller == ControllerUnknown:
		return keep(OwnerUnknown)
	case c.Job.RemoteCopy:
		return skip(RemoteCopy)
	case c.Job.Object.Keep:
		return skip(Excluded)
	case !c.Job.Finished || c.Controller == ControllerWorking:
		return keep(OwnerNotFinished)
	case slices.Contains(c.Pod.Finalizers, finalizerJobTracking):
		return keep(JobTracking)
	}
	r := p.rule(c.Job)
	if r == nil {
		return keep(NoRule)
	}
	d := Decision{Rule: r.Name, DryRun: p.document.DryRun || r.DryRun}
	from, after, source := c.Job.FinishedAt, r.StopRunning.of(c.Job.Outcome), FromRule
	if c.Pod.Over {
		from, after, source = c.Pod.Ended(), r.DeletePods.of(podOutcome(c.Pod.Pod)), FromPodEnd
	}
	d.Verb = Keep
	switch {
	case after == nil && !c.Pod.Over:
		d.Reason = RunningPods
	case after == nil:
		d.Reason = NoTTL
	case !from.Known():
		d.Reason = NoFinishTime
	default:
		d.Verb, d.Due, d.Source = Delete, instantOf(from, after), source
	}
	return d
}

// Ended says by the pod's own status, where nobody judges it, that nothing of it runs: its kubelet reported a terminal
// phase and every container ended, or it was never given to a node and is asked to terminate.
func Ended(p *facts.Pod) bool {
	if !p.Bound() {
		return p.Terminating() || p.Phase.Terminal()
	}
	if !p.Phase.Terminal() || p.Forged() {
		return false
	}
	for i := range p.Containers {
		if p.Containers[i].State == facts.Running {
			return false
		}
	}
	return true
}
