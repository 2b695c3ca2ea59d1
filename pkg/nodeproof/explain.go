package nodeproof

import (
	"fmt"
	"time"

	"github.com/orphand/orphand/pkg/facts"
)

// Step is one rule as it was considered for one pod, or for one of the machines that the pod may have run on.
type Step struct {
	// Rule is the evidence that the rule gives when it holds.
	Rule Reason
	// On names the machine; empty when the rule is about the pod as a whole.
	On string
	// Holds says whether it proves that nothing runs.
	Holds bool
	// Why says what was seen, and Would what would make the rule hold; empty when it holds or never can.
	Why, Would string
}

// Explanation is a judgement with everything that led to it.
type Explanation struct {
	Judgement
	Steps []Step
	// Facts are what the judgement stands on, with their ages.
	Facts []string
}

// Explain judges as Judge does and says why.
func Explain(h *History, nodes *Nodes, o Options, now facts.Instant) Explanation {
	x := Explanation{Judgement: Judge(h, nodes, o, now)}
	x.Facts = recall(h, nodes, now)
	p := h.Pod
	j := &judgement{h: h, nodes: nodes, o: o, now: now}
	if a, ok := j.attested(p.UID); ok {
		x.Steps = append(x.Steps, Step{Rule: Attested, Holds: true, Why: a.By + " vouches for this pod: " + a.Reason})
	} else if _, early := nodes.Attested(p.UID); early {
		x.Steps = append(x.Steps, Step{Rule: Attested, Why: attestedEarly, Would: "somebody vouches for it again"})
	} else {
		x.Steps = append(x.Steps, Step{Rule: Attested, Why: "nobody vouches for this pod", Would: "somebody who knows that its processes are gone says so with orphand attest"})
	}
	x.Steps = append(x.Steps, neverStarted(h))
	if !p.Bound() {
		return x
	}
	if !nodes.Readable {
		x.Steps = append(x.Steps, Step{Rule: KubeletConfirmed, Why: "orphand may not read Nodes, so that nobody knows whose word a status is", Would: "get, list and watch on nodes"})
		return x
	}
	for i := range h.Runs {
		x.Steps = append(x.Steps, explainRun(h, nodes, o, now, i)...)
	}
	return x
}

const attestedEarly = "somebody vouched before the pod was asked to terminate, and it may have been started again since"

func neverStarted(h *History) Step {
	s := Step{Rule: NeverStarted}
	switch p := h.Pod; {
	case p.Bound():
		s.Why = "it was bound to node " + p.Node
	case h.Removal == Unseen && !p.Terminating():
		s.Why = "it was not bound when it was last seen, and may have been since"
	case p.Terminating() || h.Removal == Deleted:
		s.Holds, s.Why = true, "it was asked to terminate before it was bound, and no pod is bound after that"
	default:
		s.Why, s.Would = "it may yet be bound", "it is deleted before it is bound"
	}
	return s
}

func explainRun(h *History, nodes *Nodes, o Options, now facts.Instant, i int) []Step {
	r := &h.Runs[i]
	on := "node " + r.Node
	if r.Before {
		on = "the machine that was node " + r.Node + " before the present one"
	}
	if r.Proof != nil {
		return []Step{{Rule: r.Proof.Reason, On: on, Holds: true, Why: "proven " + ago(r.Proof.At, now) + " by " + r.Proof.Describe()}}
	}
	j := &judgement{h: h, nodes: nodes, o: o, now: now}
	step := func(rule Reason, holds bool, why, would string) Step {
		if holds {
			would = ""
		}
		return Step{Rule: rule, On: on, Holds: holds, Why: why, Would: would}
	}
	_, confirmedNow := j.kubeletConfirmed(i)
	steps := []Step{step(KubeletConfirmed, confirmedNow, confirmWhy(h, confirmedNow), "its kubelet reports a final phase with every container terminated")}
	if confirmedNow {
		return steps
	}
	if !h.Asked.Known() {
		return append(steps, step(NodeRebooted, false, "evidence of the node counts only for a pod that was asked to terminate or whose object is gone: any other may be started again",
			"it is deleted"))
	}
	if r.Before {
		return append(steps, step(NodeDeleted, false, "the pod started before any Node that was seen under this name existed, and nobody can name the machine",
			"somebody vouches for the pod with orphand attest"))
	}
	if h.anchoring != nil {
		return append(steps, step(NodeRebooted, false, "the watch of Nodes is behind what a live read of node "+r.Node+" showed", "the watch catches up"))
	}
	if !h.Anchored.Known() {
		steps = append(steps, step(NodeRebooted, false, "the node was not read yet since the termination was asked for", "the API server answers a read of node "+r.Node))
		return steps
	}
	_, rebooted := j.nodeRebooted(r)
	steps = append(steps, step(NodeRebooted, rebooted, rebootWhy(j, r, rebooted), rebootWould(r)))
	_, out := j.outOfService(r)
	steps = append(steps, step(OutOfService, out, outWhy(j, r, out), "once the machine is certainly off: kubectl taint node "+r.Node+" node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"))
	_, deleted := j.nodeDeleted(r)
	steps = append(steps, step(NodeDeleted, deleted, deletedWhy(j, r, deleted), deletedWould(j, r)))
	if a, ok := j.attested(r.NodeUID); ok && !j.shows(i, a.At) {
		return append(steps, step(Attested, false, a.By+" vouches for the Node, which stands for another machine by now", "somebody vouches for the pod with orphand attest"))
	} else if ok {
		return append(steps, step(Attested, true, a.By+" vouches for the Node: "+a.Reason, ""))
	}
	if _, early := nodes.Attested(r.NodeUID); early {
		return append(steps, step(Attested, false, attestedEarly, "somebody vouches for the Node again"))
	}
	return append(steps, step(Attested, false, "nobody vouches for the Node", "orphand attest node "+r.Node+" --uid "+string(r.NodeUID)+" --reason TEXT"))
}

func confirmWhy(h *History, holds bool) string {
	if holds {
		return "its kubelet reported it as " + h.Pod.Phase.String() + " with every container terminated"
	}
	p := h.Pod
	switch {
	case p.Mirror:
		return "it is a mirror pod, whose object is not what its kubelet runs"
	case p.Phase == facts.PhaseUnknown:
		return "only its record tells of it, which holds no phase: its end was not confirmed while anybody watched"
	case !p.Phase.Terminal():
		return "its phase was " + p.Phase.String() + " when last seen"
	case p.Forged():
		return "its phase " + p.Phase.String() + " was not written by a kubelet (" + forger(p) + ")"
	case p.AnyRunning():
		return "a container is reported running"
	}
	switch confirm(p) {
	case weak:
		if !h.Runs[0].Watched && h.restarted() {
			return "its kubelet knows nothing of a container, and nobody watched the node when the pod was given to it: another machine may have had it"
		}
		return "its kubelet had lost sight of a container, which counts only after the node was Ready for a while"
	case bare:
		return "no container tells which kubelet says that it ended"
	case unconfirmed:
		return "not every container is reported terminated"
	}
	if r := &h.Runs[0]; len(h.Runs) == 1 && r.NodeUID == "" && !r.Before && (h.Replaced || h.restarted()) {
		return "it was started more than once, and nobody saw its Node: another machine may have started it again"
	}
	if h.late() {
		return "a container was started again, and it is not certain on which machine"
	}
	return "the report is another machine's"
}

func forger(p *facts.Pod) string {
	if p.PhaseWriter != "" {
		return p.PhaseWriter
	}
	return p.Disruption
}

func rebootWhy(j *judgement, r *Run, holds bool) string {
	list := j.nodes.sightings(r.Machine)
	if r.Boot == "" {
		return "the boot in which it ran is not known"
	}
	if r.Unsure {
		return "its Node went while nobody watched, or another machine took it over: the machine may have been in a later boot than " + r.Boot + ", and the pod with it"
	}
	if len(list) == 0 {
		return "the machine " + machine(r) + " is under no Node now"
	}
	in := j.followed(r)
	switch {
	case holds:
		return "the machine runs boot " + in.Node.Boot + ", and the pod was in boot " + r.Boot
	case in != nil:
		return "a live read of node " + in.Node.Name + " does not agree"
	}
	for _, in := range list {
		if in.Node.Boot == r.Boot {
			return "node " + in.Node.Name + " shows the machine in the boot in which it ran, " + r.Boot
		}
	}
	return "node " + list[len(list)-1].Node.Name + " shows another boot of the machine, which may be an earlier one"
}

func rebootWould(r *Run) string {
	if r.Unsure {
		return "the machine " + machine(r) + " comes back, and after that in yet another boot"
	}
	return "the machine " + machine(r) + " comes back in another boot"
}

func outWhy(j *judgement, r *Run, holds bool) string {
	in := j.nodes.Instance(r.NodeUID)
	switch {
	case holds:
		return "the node is not Ready and was tainted out of service in this outage"
	case in == nil || in.Deleted.Known():
		return "the Node is not there"
	case !in.TaintSeen.Known():
		return "the node has no out-of-service taint"
	case in.TaintStale:
		return "the taint was there while the node was Ready: it vouches for another outage and counts for nothing until it is removed and set again"
	case in.Node.Ready == facts.ReadyTrue:
		return "the node is Ready: whoever tainted it was wrong"
	case j.startedAfterTaint(in.TaintSeen, in.Node):
		return "the taint is older than the pod"
	}
	return "a live read of the node does not agree"
}

func deletedWhy(j *judgement, r *Run, holds bool) string {
	in := j.nodes.Instance(r.NodeUID)
	since := r.Absent
	if in != nil {
		since = in.Deleted
	}
	switch {
	case holds:
		return "the Node is gone since " + ago(since, j.now) + ", and its machine was not seen since"
	case !since.Known():
		return "the Node is there"
	case in != nil && in.Node.MachineID() != r.Machine:
		return "the Node that was deleted stood for another machine by then"
	case r.NodeUID == "" && j.registeredSince():
		return "no Node " + r.Node + " was ever seen, and its machine may be back under a Node that has registered since the pod was given to it"
	case j.nodes.unwatched:
		return "the watch of Nodes is broken: nobody knows whether the machine is back under another name"
	case r.NodeUID != "" && j.elsewhere(r) != nil:
		return "the machine is back, as node " + j.elsewhere(r).Node.Name + ", in the same boot"
	}
	return "the Node is gone since " + ago(since, j.now)
}

func deletedWould(j *judgement, r *Run) string {
	a, gone := j.absence(r)
	switch {
	case !gone:
		return "once the machine is certainly gone: kubectl delete node " + r.Node
	case r.NodeUID == "" && j.registeredSince():
		return "somebody vouches for the pod with orphand attest"
	case j.nodes.unwatched:
		return "Nodes are watched again, and nothing is seen of the machine for the quarantine after that"
	}
	return "nothing is seen of the machine until " + j.proves(a).Time().Format(time.RFC3339)
}

func machine(r *Run) string {
	if r.Machine.SystemUUID != "" {
		return r.Machine.SystemUUID
	}
	return r.Machine.MachineID
}

// ago is how long before now, in words.
func ago(at, now facts.Instant) string {
	if !at.Known() {
		return "at an unknown time"
	}
	return now.Sub(at).Round(time.Second).String() + " ago"
}

// phase is the pod's phase after some words, or nothing where a record tells of the pod: records hold no phase, since a phase
// without its containers proves nothing.
func phase(words string, p *facts.Pod) string {
	if p.Phase == facts.PhaseUnknown {
		return ""
	}
	return words + p.Phase.String()
}

// recall lists what is known of the pod and its nodes.
func recall(h *History, nodes *Nodes, now facts.Instant) []string {
	p := h.Pod
	var list []string
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	switch h.Removal {
	case Present:
		add("its object is there%s", phase(", phase ", p))
	case Deleted:
		add("its object was deleted %s; the last state was delivered%s", ago(h.RemovedAt, now), phase(": phase ", p))
	case Unseen:
		add("its object was found to be gone %s, and nobody saw its last state", ago(h.RemovedAt, now))
	}
	if h.Asked.Known() {
		add("its termination was first seen %s; its grace ends, or ended, at %s", ago(h.Asked, now), h.GraceEnds.Time().Format(time.RFC3339))
	} else {
		add("it was not asked to terminate")
	}
	for i := range h.Runs {
		r := &h.Runs[i]
		switch {
		case r.Before:
			add("it started before the Node %s that is known existed", r.Node)
		case r.NodeUID == "":
			add("no Node %s was ever seen", r.Node)
		default:
			add("it ran on node %s (UID %s, machine %s, boot %s)", r.Node, r.NodeUID, machine(r), r.Boot)
		}
		if in := nodes.Instance(r.NodeUID); in != nil {
			if in.Deleted.Known() {
				add("that Node is gone since %s", ago(in.Deleted, now))
			} else {
				add("that Node's Ready is %s, unreachable taint %v, out-of-service taint %v", in.Node.Ready, in.Node.Unreachable, in.Node.OutOfService)
			}
		}
	}
	if h.Pod.Bound() {
		if l, ok := nodes.Live(p.Node); ok {
			state := "there is none of that name"
			if l.Node != nil {
				state = fmt.Sprintf("UID %s, Ready %s", l.Node.UID, l.Node.Ready)
			}
			add("node %s was read live %s: %s", p.Node, ago(l.At, now), state)
		}
	}
	return list
}
