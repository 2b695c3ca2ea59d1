package daemon

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/orphand/orphand/pkg/signals"
)

// Want is a condition on a line of the log.
type Want struct {
	What string // for messages
	Is   func(Event) bool

	after int // only lines with a higher index
}

// After wants a line that was said after another.
func (w Want) After(e Event) Want {
	w.after = e.Index
	return w
}

// Line wants any line that meets a condition.
func Line(what string, is func(Event) bool) Want { return Want{What: what, Is: is, after: -1} }

// Code wants any line of an event.
func Code(code signals.Code) Want {
	return Line("the event "+string(code), func(e Event) bool { return e.Code == code })
}

// Pod wants a pod to get a verdict with a reason.
func Pod(uid types.UID, verdict, reason string) Want {
	return Line(fmt.Sprintf("%s/%s of pod %s", verdict, reason, uid), func(e Event) bool {
		return e.Code == signals.PodVerdictChanged && e.PodUID == uid && e.Verdict == verdict && e.Reason == reason
	})
}

// Job wants a job to come to a state, named by its UID.
func Job(uid types.UID, state string) Want {
	return Line(fmt.Sprintf("%s of job %s", state, uid), func(e Event) bool {
		return e.Code == signals.JobStateChanged && e.JobUID == uid && e.State == state
	})
}

// Over wants a job to be Settled, or Cleared at once.
func Over(uid types.UID) Want {
	return Line("Settled of job "+string(uid), func(e Event) bool {
		return e.Code == signals.JobStateChanged && e.JobUID == uid && over(e.State)
	})
}

// OverByName wants a job to be Settled, or Cleared at once, by namespace/name:
// after a restart without records the TrainJob's UID cannot be known any more.
func OverByName(job string) Want {
	return Line("Settled of job "+job, func(e Event) bool {
		return e.Code == signals.JobStateChanged && e.Job == job && over(e.State)
	})
}

// Found wants a finding to start.
func Found(finding signals.Finding, jobUID types.UID) Want {
	return Line(fmt.Sprintf("the finding %s of job %s", finding, jobUID), func(e Event) bool {
		return e.Finding == string(finding) && e.Phase == string(signals.Started) && e.JobUID == jobUID
	})
}

// Kind wants the watch of a kind to come to a state.
func Kind(kind, state string) Want {
	return Line(fmt.Sprintf("the kind %s to be %s", kind, state), func(e Event) bool {
		return e.Code == signals.KindStateChanged && e.Kind == kind && e.State == state
	})
}
