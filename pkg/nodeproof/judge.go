package nodeproof

import (
	"slices"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	"k8s.io/apimachinery/pkg/types"
)

// Judge says whether processes of the pod may be running, by what was seen of it and of the nodes, at now. It changes
// nothing: Latch keeps its word.
func Judge(h *History, nodes *Nodes, o Options, now facts.Instant) Judgement {
	j := judgement{h: h, nodes: nodes, o: o, now: now}
	j.judge()
	return j.Judgement
}

// Latch keeps what a judgement found: evidence for one of several machines, and the proof that the pod is Gone. What was
// once proven stays proven when the taint or the Node that proved it is gone a minute later.
func (h *History) Latch(j Judgement) {
	for i := range h.Runs {
		r := &h.Runs[i]
		for k := range j.Evidence {
			e := j.Evidence[k]
			if r.Proof == nil && e.Machine == r.Machine && e.Boot == r.Boot {
				r.Proof = &e
			}
		}
	}
	if e, ok := j.Proof(); ok && h.Proof == nil {
		h.Proof = &e
	}
}

type judgement struct {
	Judgement
	h     *History
	nodes *Nodes
	o     Options
	now   facts.Instant
}

func (j *judgement) judge() {
	h := j.h
	p := h.Pod
	if h.Proof != nil {
		j.Verdict, j.Reason, j.Evidence = Gone, h.Proof.Reason, []Evidence{*h.Proof}
		return
	}
	if a, ok := j.attested(p.UID); ok {
		j.gone(Evidence{Reason: Attested, Source: p.Ref(), At: j.now, By: a.By, Note: a.Reason})
		return
	}
	if !p.Bound() {
		switch {
		case p.Terminating(), h.Removal == Deleted, h.Removal == Unseen && p.Inert:
			// Binding is refused once a deletionTimestamp is set, so this state is final. So is that of a pod behind orphand's
			// own gate: nothing lifts it.
			j.gone(Evidence{Reason: NeverStarted, Source: p.Ref(), At: j.now})
		case h.Removal == Unseen:
			j.set(Unproven, RemovedUnseen)
		default:
			j.set(Alive, Pending)
		}
		return
	}
	if !j.nodes.Readable {
		j.set(Alive, NodesUnreadable)
		return
	}
	unaccounted := 0
	for i := range h.Runs {
		r := &h.Runs[i]
		if r.Proof != nil {
			j.Evidence = append(j.Evidence, *r.Proof)
		}
	}
	for i := range h.Runs {
		r := &h.Runs[i]
		if r.Proof != nil {
			continue
		}
		if e, ok := j.prove(i); ok {
			e.Machine, e.Boot, e.At = r.Machine, r.Boot, j.now
			j.Evidence = append(j.Evidence, e)
			continue
		}
		unaccounted++
	}
	if len(h.Runs) > 0 && unaccounted == 0 {
		j.Verdict, j.Reason = Gone, j.Evidence[len(j.Evidence)-1].Reason
		j.Need, j.NeedFrom, j.Recheck = "", 0, 0
		return
	}
	j.anchor()
	j.doubt()
}

func (j *judgement) set(v Verdict, r Reason) { j.Verdict, j.Reason = v, r }

func (j *judgement) gone(e Evidence) {
	j.set(Gone, e.Reason)
	j.Evidence = []Evidence{e}
}

// recheck asks to be judged again at t if that is still to come, and says whether t has come.
func (j *judgement) due(t facts.Instant) bool {
	if j.now >= t {
		return true
	}
	if !j.Recheck.Known() || t < j.Recheck {
		j.Recheck = t
	}
	return false
}

// read is the live read of the named node, if there was one no earlier than from; else it asks for one.
func (j *judgement) read(name string, from facts.Instant) (Live, bool) {
	if l, ok := j.nodes.Live(name); ok && l.At >= from {
		return l, true
	}
	if j.Need == "" {
		j.Need, j.NeedFrom = name, from
	}
	return Live{}, false
}

// anchor asks for the live read that fixes which machines and boots may have started the pod.
func (j *judgement) anchor() {
	h := j.h
	if !h.Asked.Known() || h.Anchored.Known() {
		return
	}
	n := j.nodes.Newest(h.Pod.Node)
	if h.Removal != Present || n == nil || !n.Heard() || j.due(h.Asked.After(anchorDelay)) {
		j.read(h.Pod.Node, h.Asked)
	}
}

// prove looks for evidence that no process of the pod is running on the machine of one run.
func (j *judgement) prove(i int) (Evidence, bool) {
	r := &j.h.Runs[i]
	if e, ok := j.kubeletConfirmed(i); ok {
		return e, true
	}
	if a, ok := j.attested(r.NodeUID); ok && j.shows(i, a.At) {
		return Evidence{Reason: Attested, Source: nodeRef(r), By: a.By, Note: a.Reason}, true
	}
	// Evidence of the node counts only for a pod that nobody will start again: any other may be started by whoever owns
	// the node's name next. And only once it is certain which machine and boot ran it.
	if r.Before || j.h.Pod.Mirror || !j.h.Asked.Known() || !j.h.Anchored.Known() {
		return Evidence{}, false
	}
	if e, ok := j.nodeRebooted(r); ok {
		return e, true
	}
	if e, ok := j.outOfService(r); ok {
		return e, true
	}
	return j.nodeDeleted(r)
}

// attested: a person's word is for what was asked to terminate before it was given. Any other pod may have been started since.
func (j *judgement) attested(uid types.UID) (Attestation, bool) {
	a, ok := j.nodes.Attested(uid)
	return a, ok && j.h.Asked.Known() && a.At >= j.h.Asked
}

// shows says whether the run's Node showed the run's machine at the given time. A Node object that another machine took over
// stands for that one: whoever vouches for the Node has looked at it.
func (j *judgement) shows(i int, at facts.Instant) bool {
	r := &j.h.Runs[i]
	if in := j.nodes.Instance(r.NodeUID); in != nil && in.HeldSince > at {
		return false // it has the Node again, or anew: whoever vouched looked at another machine
	}
	l, ok := j.read(r.Node, min(at, j.now)) // the clock of whoever vouched may be ahead
	switch {
	case !ok:
		return false
	case l.Node != nil && l.Node.UID == r.NodeUID:
		return l.Node.MachineID() == r.Machine
	}
	return !r.TakenOver
}

func nodeRef(r *Run) facts.Ref { return facts.Ref{Kind: facts.KindNode, Name: r.Node, UID: r.NodeUID} }

// kubeletConfirmed: the kubelet of the machine that the pod ran on says that all of its containers ended.
func (j *judgement) kubeletConfirmed(i int) (Evidence, bool) {
	h := j.h
	r := &h.Runs[i]
	p := h.Pod
	e := Evidence{Reason: KubeletConfirmed, Source: p.Ref()}
	c := confirm(p)
	if c == unconfirmed {
		return e, false
	}
	if h.late() {
		// Which machine's are the containers that ended? Follow sorts them out by this read. One that found no Node, before
		// there was one again, told nothing.
		from := h.LateSeen
		if in, l := j.nodes.Current(p.Node), j.nodes.live[p.Node]; in != nil && l.Node == nil {
			from = max(from, in.Seen)
		}
		j.read(p.Node, from)
		return e, false
	}
	if c == confirmed {
		if yes, known := h.confirmedBy(i); known {
			return e, yes && j.spoke(i)
		}
	}
	if r.Before || i != len(h.Runs)-1 {
		return e, false // the status is another machine's word
	}
	if in := j.nodes.Current(p.Node); in != nil && in.HeldSince > h.ConfirmSeen && r.Seen <= h.ConfirmSeen {
		return e, false // the machine has the name again, but another one had it when this was said
	}
	n := j.nodes.Newest(p.Node)
	if c == confirmed {
		switch {
		case n == nil:
			// The Node went after its kubelet had spoken, or was never seen: only the one that ran the pod could tell how
			// its containers ended, as long as no other started them in their place.
			return e, len(h.Runs) == 1 && (r.NodeUID == "" && !h.Replaced && !h.restarted() || r.NodeUID != "" && h.gone(j.nodes, r) > h.ConfirmSeen)
		default:
			l, ok := j.read(p.Node, h.ConfirmSeen)
			return e, ok && l.Node != nil && l.Node.MachineID() == r.Machine
		}
	}
	if n == nil {
		return e, false
	}
	if n.MachineID() == r.Machine && r.Boot != "" && n.Boot != "" && n.Boot != r.Boot && h.Anchored.Known() {
		return e, false // nodeRebooted says so, and says it better
	}
	from := h.ConfirmSeen
	if c == weak {
		in := j.nodes.Current(p.Node)
		if in == nil || !in.ReadySince.Known() {
			return e, false
		}
		if !h.Runs[0].Watched && h.restarted() {
			return e, false // before anybody looked, another machine may have had the Node, and the pod
		}
		from = max(h.WeakSeen, in.ReadySince).After(j.o.WeakEvidenceDelay)
		if !j.due(from) {
			return e, false
		}
		e.Weak = true
	}
	l, ok := j.read(p.Node, from)
	if !ok || l.Node == nil || l.Node.MachineID() != r.Machine || !l.Node.Heard() || c == weak && l.Node.Ready != facts.ReadyTrue {
		return e, false
	}
	return e, true
}

// spoke says whether the terminal phase, too, is the word of the kubelet that has the containers. They may have been reported
// as ended while it was about to start them again; it was cut off, and another machine's kubelet, which took over the name,
// wrote the phase over what it found. No machine does that within seconds.
func (j *judgement) spoke(i int) bool {
	h := j.h
	p := h.Pod
	if p.RestartNever || !p.PhaseAt.Known() || p.PhaseAt.Sub(appsEnded(p)) <= promptly {
		return true
	}
	if i != len(h.Runs)-1 {
		return false
	}
	if in := j.nodes.Current(p.Node); in != nil && in.HeldSince > h.ConfirmSeen {
		return false
	}
	l, ok := j.read(p.Node, h.ConfirmSeen)
	return ok && l.Node != nil && l.Node.MachineID() == h.Runs[i].Machine
}

// appsEnded is when the last app container ended, by the kubelet's clock. A sidecar's end tells nothing of theirs: the other
// machine starts one of its own before it comes to them, and ends it as it writes the phase.
func appsEnded(p *facts.Pod) facts.Instant {
	var last facts.Instant
	for i := range p.Containers {
		if c := &p.Containers[i]; c.Role == facts.App {
			last = max(last, c.Finished)
		}
	}
	return last
}

// gone is when the Node of a run was first known to be gone.
func (h *History) gone(nodes *Nodes, r *Run) facts.Instant {
	if in := nodes.Instance(r.NodeUID); in != nil {
		return in.Deleted
	}
	return r.Absent
}

// nodeRebooted: the machine runs another boot of its kernel than the one that ran the pod, and by then nobody could
// start the pod again.
func (j *judgement) nodeRebooted(r *Run) (Evidence, bool) {
	if r.Boot == "" || r.Unsure || r.Machine.OfNode(r.NodeUID) {
		return Evidence{}, false
	}
	in := j.followed(r)
	if in == nil {
		return Evidence{}, false
	}
	e := Evidence{Reason: NodeRebooted, Source: in.Node.Ref(), Note: "boot " + in.Node.Boot + " follows " + r.Boot}
	l, ok := j.read(in.Node.Name, max(j.h.Asked, in.BootSeen))
	if !ok || l.Node == nil {
		return e, false
	}
	return e, l.Node.MachineID() == r.Machine && l.Node.Boot != "" && l.Node.Boot != r.Boot
}

// followed is the Node under which the run's machine was seen in a boot that followed the run's own. A machine may have left
// Nodes behind that still show an earlier boot: a boot counts as later only where it was first seen when the run's was known
// to be the present one, or on the very Node that showed the run's.
//
// As long as a Node shows the run's own boot, no other Node says that it is over: machines that were made from one image may
// have one identity, and the boot of any of them would end the pods of all.
func (j *judgement) followed(r *Run) *Instance {
	var found *Instance
	for _, in := range j.nodes.sightings(r.Machine) {
		switch {
		case in.Node.Boot == "":
		case in.Node.Boot == r.Boot:
			return nil
		case in.Node.UID == r.NodeUID, in.BootSeen > j.h.Anchored:
			found = in
		}
	}
	return found
}

// outOfService: a person, or a program that fences machines, says by the taint that this machine is off.
func (j *judgement) outOfService(r *Run) (Evidence, bool) {
	in := j.nodes.Instance(r.NodeUID)
	if in == nil || in.Deleted.Known() || !in.TaintSeen.Known() || in.TaintStale || in.Node.Ready == facts.ReadyTrue || !r.on(in.Node) {
		return Evidence{}, false
	}
	if j.elsewhere(r) != nil {
		return Evidence{}, false // the machine is up under another name
	}
	e := Evidence{Reason: OutOfService, Source: in.Node.Ref(), By: in.Node.TaintedBy}
	if j.startedAfterTaint(in.TaintSeen, in.Node) {
		return e, false
	}
	l, ok := j.read(in.Node.Name, max(j.h.Asked, in.TaintSeen))
	if !ok || l.Node == nil || l.Node.UID != r.NodeUID {
		return e, false
	}
	return e, l.Node.OutOfService && l.Node.Ready != facts.ReadyTrue && r.on(l.Node) && !j.startedAfterTaint(in.TaintSeen, l.Node)
}

// startedAfterTaint: a taint that is older than the pod vouches for an outage that was over when the pod started.
func (j *judgement) startedAfterTaint(seen facts.Instant, n *facts.Node) bool {
	p := j.h.Pod
	start := p.Started
	if !start.Known() {
		start = p.Scheduled
	}
	if !start.Known() {
		start = j.h.BoundSeen
		return start > seen
	}
	return start > seen || n.TaintedAt.Known() && n.TaintedAt < start
}

// on says whether the node is the run's machine, in the run's boot as far as that is known.
func (r *Run) on(n *facts.Node) bool {
	return n.UID == r.NodeUID && n.MachineID() == r.Machine && (r.Boot == "" || n.Boot == "" || r.Boot == n.Boot)
}

// nodeDeleted: the Node object that stood for the machine is gone for good, and the machine has not been seen since.
func (j *judgement) nodeDeleted(r *Run) (Evidence, bool) {
	e := Evidence{Reason: NodeDeleted, Source: nodeRef(r)}
	if r.TakenOver || j.nodes.unwatched {
		return e, false
	}
	if in := j.nodes.Instance(r.NodeUID); in != nil && in.machine() != r.Machine {
		return e, false
	}
	a, ok := j.absence(r)
	if !ok {
		return e, false
	}
	if r.NodeUID == "" {
		// The watch has not shown it, which does not say that it was not there.
		l, ok := j.read(r.Node, a.since)
		if !ok || l.Node != nil {
			return e, false
		}
		a.since = max(a.since, l.Since)
		if j.registeredSince() {
			return e, false // nobody can tell its machine: it may be back under that Node
		}
	}
	if r.NodeUID != "" && j.elsewhere(r) != nil {
		return e, false
	}
	from := j.proves(a)
	if !j.due(from) {
		return e, false
	}
	l, ok := j.read(r.Node, from)
	if !ok {
		return e, false
	}
	if l.Node == nil {
		return e, true
	}
	return e, r.NodeUID != "" && l.Node.UID != r.NodeUID && !r.same(l.Node)
}

// absence is what is known of a Node that is not there.
type absence struct {
	// since is from when on somebody has looked for it without a break.
	since facts.Instant
	// ready says that a kubelet may have been well when it went; heard when that kubelet first could hear of a deletion.
	ready bool
	heard facts.Instant
}

// absence says whether the run's Node is gone, and since when.
func (j *judgement) absence(r *Run) (absence, bool) {
	// A Node that nobody saw, or whose end nobody saw, may have been Ready until it was missed, and its kubelet have come back
	// just before.
	a := absence{since: r.Absent, ready: true, heard: r.Absent}
	if in := j.nodes.Instance(r.NodeUID); in != nil {
		a = absence{since: in.Deleted, ready: in.ReadyAtEnd || in.Lost, heard: in.ReadySince}
		if in.Lost {
			a.heard = in.Deleted
		}
	}
	if !a.since.Known() {
		return a, false
	}
	if again := j.nodes.watchedSince; again > a.since {
		// Another Node may have come and gone meanwhile, and its machine have taken up the pod.
		a.since, a.ready, a.heard = again, true, max(a.heard, again)
	}
	return a, true
}

// proves is from when on an absence proves that nothing of the pod runs: after the quarantine, and where a kubelet may have
// been well, no sooner than it has killed what it was told to end.
func (j *judgement) proves(a absence) facts.Instant {
	from := max(a.since.After(j.o.NodeDeletionQuarantine), j.h.Asked)
	if a.ready {
		from = max(from, j.h.GraceEnds.After(killMargin), a.heard.After(j.h.Grace+killMargin))
	}
	return from
}

// registeredSince says whether a Node has registered since the pod was given to its own.
func (j *judgement) registeredSince() bool {
	at := j.h.given()
	if !at.Known() {
		at = j.h.Pod.Created
	}
	return j.nodes.youngest.Known() && j.nodes.youngest >= at.Add(-clocksDiffer)
}

// killMargin is how long after the end of a pod's grace a kubelet that is well may need to have killed it: it hears of the
// deletion by a watch, gives a preStop hook two seconds more, and sends SIGKILL only then.
const killMargin = 10 * time.Second

// elsewhere is a Node, other than the run's own, under which its machine is known now in the same boot.
func (j *judgement) elsewhere(r *Run) *Instance {
	for _, in := range j.nodes.sightings(r.Machine) {
		if in.Node.UID != r.NodeUID && r.same(in.Node) {
			return in
		}
	}
	if r.Machine.OfNode(r.NodeUID) {
		return j.nodes.nameless(r.Boot, r.NodeUID) // a boot ID is one machine's
	}
	return nil
}

// same says whether the node is the run's machine in the same boot, by machine, or by boot ID where a node does not tell
// its machine. Any boot may be the same where it is not certain which one the pod ran in.
func (r *Run) same(n *facts.Node) bool {
	if n.Boot != "" && n.Boot == r.Boot {
		return true
	}
	return n.MachineID() == r.Machine && (n.Boot == "" || r.Boot == "" || r.Unsure)
}

// doubt gives the verdict and the reason of a pod that is not proven to be gone.
func (j *judgement) doubt() {
	h := j.h
	switch h.Removal {
	case Unseen:
		j.set(Unproven, RemovedUnseen)
		return
	case Deleted:
		j.set(Unproven, RemovedUnconfirmed)
		return
	}
	n := j.nodes.Newest(h.Pod.Node)
	if n == nil && len(h.Runs) > 0 {
		// The machine may be back under another name: that Node is then the pod's node.
		n = j.nodes.Newest(h.Runs[len(h.Runs)-1].Node)
	}
	if n == nil {
		j.set(Unproven, NodeDeleted)
		return
	}
	if n.Heard() && j.reportsRunning(n) {
		j.alive()
		return
	}
	for i := range h.Runs {
		r := &h.Runs[i]
		if r.Proof == nil && !j.accounted(r) && (r.Before || r.Machine != n.MachineID() && !r.Machine.OfNode(n.UID)) {
			j.set(Unproven, NodeReplaced)
			return
		}
	}
	if !n.Heard() {
		j.set(Unproven, NodeUnreachable)
		return
	}
	j.alive()
}

func (j *judgement) alive() {
	if j.h.Asked.Known() {
		j.set(Alive, Terminating)
	} else {
		j.set(Alive, Running)
	}
}

func (j *judgement) accounted(r *Run) bool {
	for i := range j.Evidence {
		if j.Evidence[i].Machine == r.Machine && j.Evidence[i].Boot == r.Boot {
			return true
		}
	}
	return false
}

// reportsRunning says whether the kubelet of this node itself reports a container of the pod as running: a status that
// was left by another machine is nobody's report.
func (j *judgement) reportsRunning(n *facts.Node) bool {
	h := j.h
	if !h.Pod.AnyRunning() || len(h.Runs) == 0 {
		return false
	}
	last := &h.Runs[len(h.Runs)-1]
	if last.Machine != n.MachineID() {
		return false
	}
	if len(h.Runs) == 1 {
		return true
	}
	for i := range h.Pod.Containers {
		c := &h.Pod.Containers[i]
		if c.State != facts.Running || !c.HasID {
			continue
		}
		if in := j.nodes.Current(n.Name); in != nil && c.Started.Known() && c.Started >= max(in.since(), in.Node.Created) && slices.Contains(h.Unclaimed, c.ID) {
			return true
		}
		for _, id := range append(last.IDs, last.Late...) {
			if id == c.ID {
				return true
			}
		}
	}
	return false
}
