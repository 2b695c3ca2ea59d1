package nodeproof

import (
	"slices"

	"github.com/orphand/orphand/pkg/facts"
)

// confirmation is what a pod's status says of its own end.
type confirmation uint8

const (
	// unconfirmed: it does not say that the pod has ended.
	unconfirmed confirmation = iota
	// weak: the kubelet says that it ended but had lost sight of a container, or reports none.
	weak
	// bare: it ended behind an unfinished init container, and no container tells which kubelet says so.
	bare
	// confirmed: every container that ran is reported terminated.
	confirmed
)

// confirm reads a pod's status: has a kubelet said that all of its containers ended?
//
// The phase alone is worth nothing: PodGC, Kueue's failure recovery and people write Failed over running containers. A
// kubelet never writes a terminal phase while its runtime reports a container running, so a terminal phase together with
// container states that agree with it can only come from one.
func confirm(p *facts.Pod) confirmation {
	if p.Mirror || !p.Phase.Terminal() || p.Forged() || p.AnyRunning() {
		return unconfirmed
	}
	reported, lost, ended := false, false, false
	initUnfinished := false
	for i := range p.Containers {
		c := &p.Containers[i]
		reported = reported || c.State != facts.Unreported
		lost = lost || c.Lost
		ended = ended || c.State == facts.Terminated && !c.Lost
		// A sidecar that ends with its pod does not tell whether it had come up: containers that wait behind it without a trace
		// of having run have not, or their kubelet would say that it lost them.
		if c.Role == facts.Init && !c.Completed || c.Role == facts.Sidecar && c.State == facts.Terminated {
			initUnfinished = true
		}
	}
	if !reported && p.PhaseWriter != "" && !p.Started.Known() {
		// Whatever a kubelet says of a pod, it says with it when it took the pod up (v1.37.2, status_manager.go,
		// updateStatusInternal): whoever wrote this is none, and the kubelet may be about to start the pod.
		return unconfirmed
	}
	if !reported {
		// The kubelet refused the pod, and a kubelet that is restarted refuses what it finds running as well. Never having
		// seen it run says nothing: what was never reported, or was reported before orphand looked, runs all the same.
		return weak
	}
	for i := range p.Containers {
		c := &p.Containers[i]
		switch {
		case c.State == facts.Terminated:
			continue
		case c.Role != facts.App:
			// A kubelet that cannot find a container which ran says so at first by no more than its last state.
			if c.HasID || c.HasLast {
				return unconfirmed
			}
			continue
		}
		never := c.State == facts.Waiting && !c.HasID && !c.HasLast
		if !never || !initUnfinished {
			return unconfirmed
		}
	}
	switch {
	case lost:
		return weak
	case !ended:
		return bare
	}
	return confirmed
}

// confirmedBy says whether the containers of the status are those of the i-th run, as far as their IDs tell: known is false
// when the status has no IDs or unclaimed ones, or this run never had any. A status in which containers of two machines meet is the last
// one's word: its kubelet keeps what the API said of a container that it does not know.
func (h *History) confirmedBy(i int) (yes, known bool) {
	ids, theirs := h.Runs[i].IDs, false
	if len(ids) == 0 {
		return false, false
	}
	for k := range h.Pod.Containers {
		c := &h.Pod.Containers[k]
		if c.Role != facts.App || c.State != facts.Terminated || !c.HasID {
			continue
		}
		if slices.Contains(h.Unclaimed, c.ID) {
			return false, false
		}
		known = true
		if slices.Contains(ids, c.ID) {
			yes = true
		} else {
			theirs = true
		}
	}
	return yes && (i == len(h.Runs)-1 || !theirs), known
}
