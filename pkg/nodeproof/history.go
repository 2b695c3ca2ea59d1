package nodeproof

import (
	"slices"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	"k8s.io/apimachinery/pkg/types"
)

// Removal says how a pod's object went.
type Removal uint8

const (
	// Present: the object is there, as far as anybody knows.
	Present Removal = iota
	// Deleted: the watch delivered the deletion with the final state.
	Deleted
	// Unseen: the object is gone, and nobody saw its final state.
	Unseen
)

// Run is one machine on which processes of a pod may be.
type Run struct {
	// Node and NodeUID are the newest Node object under which the machine was known while the pod was there.
	Node    string
	NodeUID types.UID
	Machine facts.Machine
	// Boot is the boot in which the pod may have processes: the newest one seen before its termination was asked for.
	Boot string
	// Before says that the pod was started before any Node that was seen under its node's name existed: it ran on a
	// machine that nobody can name.
	Before bool
	// Absent is since when no Node of the name was known, for a run on a node that was never seen.
	Absent facts.Instant
	// IDs are the containers of the pod that were reported while this was its machine. Late are those reported since
	// the last time the machine was known for certain: they may be another machine's that took over the name.
	IDs, Late []uint64
	// TakenOver says that another machine took over the Node: what becomes of it says nothing of this machine.
	TakenOver bool
	// Unsure says that the machine may have been in a later boot than Boot when the runs became final: its Node had gone while
	// nobody watched, or another machine had taken it over.
	Unsure bool
	// Watched says that the machine is known to have had the node from when the pod was given to it.
	Watched bool
	// Seen is when the machine was first known to be one of the pod's.
	Seen facts.Instant
	// TaintStale says, in a record, that the Node had an out-of-service taint that was set before its outage.
	TaintStale bool
	// Proof is the evidence that accounts for this run; nil while there is none.
	Proof *Evidence
}

// History is what was seen of one pod UID, as far as the rule needs it. It is not safe for concurrent use.
type History struct {
	// Pod is its last known state: the final one once Removal is Deleted.
	Pod *facts.Pod
	// Seen is when it was first seen; BoundSeen when it was first seen bound.
	Seen, BoundSeen facts.Instant
	Removal         Removal
	RemovedAt       facts.Instant
	// Asked is when its termination, or its absence, was first seen. From then on no kubelet that starts may start it.
	Asked facts.Instant
	// GraceEnds is the end of the grace by the first deletionTimestamp seen. A later delete with grace 0 shortens what the
	// API shows, not what a kubelet that nobody hears may still allow.
	GraceEnds facts.Instant
	// Grace is how long that grace is.
	Grace time.Duration
	// Anchored is when the node was read live after Asked: the runs are final then, and another boot or machine that
	// appears later cannot have started the pod. Without it a watch of Nodes that lags behind the watch of pods would make
	// the boot that runs the pod look like one that came after it.
	//
	// They are final once the watch has shown all that was there by the time of that read: it may be about to tell of a boot or
	// a machine that the read came too late for.
	Anchored facts.Instant
	// anchoring is that read while the watch has not come so far.
	anchoring *Live
	// WeakSeen is when evidence that is only weak was first seen.
	WeakSeen facts.Instant
	// LateSeen is when the last container was reported whose machine is not certain; LateStarted when the newest of them was
	// started, by its kubelet's clock, unknown when one does not say.
	LateSeen, LateStarted facts.Instant
	// Unclaimed are the reported containers that may be a machine's which had the Node before the present one, or before
	// anybody looked.
	Unclaimed []uint64
	// Named says, by their place in the pod, which containers were ever reported with an ID.
	Named uint64
	// Replaced says that a container was seen in the place of another: the same machine started it again, or another did.
	Replaced bool
	// ConfirmSeen is when the state that looks like the kubelet's confirmation was first seen.
	ConfirmSeen facts.Instant
	Runs        []Run
	// Proof is the evidence by which the pod was first said to be Gone. It latches.
	Proof *Evidence
}

// NewHistory begins the history of a pod.
func NewHistory(p *facts.Pod, now facts.Instant, initial bool, nodes *Nodes) *History {
	h := &History{Seen: now}
	h.SeePod(p, now, initial, nodes)
	return h
}

// SeePod records a state of the pod at now. initial says that it comes from the list at the start: what it says may be
// old, as against a change that has just happened.
func (h *History) SeePod(p *facts.Pod, now facts.Instant, initial bool, nodes *Nodes) {
	p = h.bound(p)
	h.Pod = p
	if h.Removal != Present {
		// It is there after all: the end was a lagging server's. Nobody has asked it to terminate but its deletion, if any.
		h.Removal, h.RemovedAt = Present, 0
		h.Asked, h.GraceEnds, h.Anchored, h.anchoring = 0, 0, 0, nil
	}
	h.observe(p, now, initial)
	h.Follow(now, nodes)
	h.attribute(p, now, nodes)
}

func (h *History) observe(p *facts.Pod, now facts.Instant, initial bool) {
	if p.Bound() && !h.BoundSeen.Known() {
		h.BoundSeen = now
	}
	if p.Terminating() && !h.GraceEnds.Known() {
		h.ask(now)
		grace, end := p.Grace, p.Deletion
		if grace < p.SpecGrace {
			// Its removal may follow before the kubelet has heard of this deletion. A kubelet that sees no more of it than the
			// end of the object lets the pod have its own grace.
			end = end.After(seconds(p.SpecGrace - grace))
			grace = p.SpecGrace
		}
		h.GraceEnds, h.Grace = end, seconds(grace)
		if end := now.After(seconds(grace)); !initial && end > h.GraceEnds {
			h.GraceEnds = end // the cluster's clock is behind ours: the later end is the safe one
		}
	}
	switch confirm(p) {
	case confirmed, bare:
		if !h.ConfirmSeen.Known() {
			h.ConfirmSeen = now
		}
		h.WeakSeen = 0
	case weak:
		if !h.ConfirmSeen.Known() {
			h.ConfirmSeen = now
		}
		if !h.WeakSeen.Known() {
			h.WeakSeen = now
		}
	default:
		// What looked like a confirmation is taken back, as by a kubelet that was restarted once more and finds running what it
		// had refused. The next one needs reads and delays of its own.
		h.ConfirmSeen, h.WeakSeen = 0, 0
	}
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

func (h *History) ask(now facts.Instant) {
	if !h.Asked.Known() {
		h.Asked = now
	}
}

// bound keeps the node of a pod: a pod is bound once and for all, so that a state without a node, after one with it, can
// only have been cut short on its way, and must not make the pod look as if it had never started.
func (h *History) bound(p *facts.Pod) *facts.Pod {
	if p.Bound() || h.Pod == nil || !h.Pod.Bound() {
		return p
	}
	whole := *p
	whole.Node = h.Pod.Node
	return &whole
}

// Vanish records that the object was seen to be gone at now. final is the state that the deletion carried, nil when
// nobody saw it.
func (h *History) Vanish(how Removal, final *facts.Pod, now facts.Instant, nodes *Nodes) {
	if h.Removal != Present {
		return
	}
	if how == Deleted && final != nil {
		final = h.bound(final)
		h.Pod = final
		h.observe(final, now, false)
		h.Follow(now, nodes)
		h.attribute(final, now, nodes)
	}
	h.Removal, h.RemovedAt = how, now
	h.ask(now)
	if !h.GraceEnds.Known() {
		h.Grace = seconds(h.Pod.SpecGrace)
		h.GraceEnds = now.After(h.Grace)
	}
	h.Follow(now, nodes)
}

// Resume prepares a history that was read from a record. A Node that the pod ran on and that is not there went while nobody
// watched: it counts as gone from now. A taint that counted for nothing still does.
func (h *History) Resume(now facts.Instant, nodes *Nodes) {
	for i := range h.Runs {
		r := &h.Runs[i]
		if r.NodeUID != "" && nodes.Instance(r.NodeUID) == nil {
			r.Absent = now
		}
		if in := nodes.Instance(r.NodeUID); in != nil && r.TaintStale && in.Node.OutOfService {
			in.TaintStale = true
		}
	}
}

// given is when the pod was given to its node, as far as its object tells.
func (h *History) given() facts.Instant {
	at := h.Pod.Scheduled
	if !at.Known() || h.Pod.Started.Known() && h.Pod.Started < at {
		at = h.Pod.Started
	}
	return at
}

// Recount begins the absence of Nodes anew, at the moment from which they can be read: what was not seen while nobody could
// look was not absent.
func (h *History) Recount(now facts.Instant) {
	for i := range h.Runs {
		if h.Runs[i].Absent.Known() {
			h.Runs[i].Absent = now
		}
	}
}

// startedBefore says whether the pod was on a node of this name before this Node object existed.
func (h *History) startedBefore(node *facts.Node) bool {
	at := h.given()
	return at.Known() && node.Created.Known() && at < node.Created
}

// Follow brings the runs up to date with what is known of the nodes.
//
// Until the runs are anchored, every machine and boot that has the name of the pod's node may have started the pod, and
// becomes a run, or the boot of one: the watch of pods and that of Nodes are not in step, so the order in which two of
// their events arrive says nothing about which came first.
func (h *History) Follow(now facts.Instant, nodes *Nodes) {
	if !h.Pod.Bound() || !nodes.Readable {
		return
	}
	for i := range h.Runs {
		r := &h.Runs[i]
		r.follow(nodes)
		r.settleBoot(nodes, h.Anchored)
		if own := nodes.Instance(r.NodeUID); own != nil {
			r.TakenOver = own.machine() != r.Machine
		}
	}
	in := nodes.Current(h.Pod.Node)
	if in != nil && len(h.Runs) == 0 {
		if h.startedBefore(in.Node) {
			h.mayHaveRunBefore(nodes.past(h.Pod.Node), now)
		}
		h.mayHaveRunOn(in, now)
		h.mayRunOn(in.Node, now)
	}
	h.anchor(nodes, now)
	if in != nil {
		h.mayRunOn(in.Node, now)
		h.wasMissed(in, now)
	}
	if n := nodes.Newest(h.Pod.Node); n != nil && (in == nil || n != in.Node) && h.anchoring == nil {
		h.mayRunOn(n, now)
	}
	if l, ok := nodes.Live(h.Pod.Node); ok && h.LateSeen.Known() && l.At >= h.LateSeen {
		h.settleLate(l, now)
	}
	h.vouch(nodes)
	h.watched(nodes)
	if len(h.Runs) == 0 && in == nil {
		h.mayHaveRunBefore(nodes.past(h.Pod.Node), now)
	}
	if len(h.Runs) == 0 && in == nil {
		h.Runs = append(h.Runs, Run{Node: h.Pod.Node, Absent: now})
	}
}

// anchor makes the runs final by the first live read since Asked, as soon as the watch has come so far.
func (h *History) anchor(nodes *Nodes, now facts.Instant) {
	if h.Anchored.Known() || !h.Asked.Known() {
		return
	}
	if l, ok := nodes.Live(h.Pod.Node); ok && l.At >= h.Asked && h.anchoring == nil {
		h.anchoring = &l
		if l.Node != nil {
			h.mayRunOn(l.Node, now)
		}
	}
	l := h.anchoring
	if l == nil || !nodes.reached(h.Pod.Node, *l) {
		return
	}
	if l.Node != nil {
		h.mayRunOn(l.Node, now)
	}
	for i := range h.Runs {
		h.Runs[i].Unsure = !h.Runs[i].known(*l, nodes)
	}
	h.Anchored, h.anchoring = l.At, nil
}

// known says whether the run's boot was its machine's by the time of the anchoring read: by that read itself, or by the last
// state of a Node that was watched until it went.
func (r *Run) known(l Live, nodes *Nodes) bool {
	switch {
	case r.NodeUID == "" || r.Boot == "":
		return true // no boot to be mistaken in
	case l.Node != nil && l.Node.MachineID() == r.Machine:
		return l.Node.Boot == r.Boot
	}
	in := nodes.Instance(r.NodeUID)
	return in != nil && in.machine() == r.Machine && !in.Lost
}

// settleBoot: the first boot in which the machine of an unsure run is seen may be the one in which the pod ran.
func (r *Run) settleBoot(nodes *Nodes, anchored facts.Instant) {
	if !r.Unsure || r.Proof != nil {
		return
	}
	for _, in := range nodes.sightings(r.Machine) {
		if in.Node.Boot != "" && in.BootSeen > anchored {
			r.Node, r.NodeUID, r.Boot, r.Unsure = in.Node.Name, in.Node.UID, in.Node.Boot, false
			return
		}
	}
}

// watched notes that the machine was seen to have the node before the pod was given to it.
func (h *History) watched(nodes *Nodes) {
	if len(h.Runs) != 1 || h.Runs[0].Watched {
		return
	}
	r, in, at := &h.Runs[0], nodes.Current(h.Pod.Node), h.given()
	if in == nil || in.Node.UID != r.NodeUID || in.machine() != r.Machine {
		return
	}
	since := in.since()
	r.Watched = !since.Known() || at.Known() && at >= since.Add(clocksDiffer)
}

// restarted says whether the pod shows that it was started more than once: a container was, or its kubelet took it up long
// after it was given to it, as one does that took over the Node.
func (h *History) restarted() bool {
	p := h.Pod
	if p.Started.Known() && p.Scheduled.Known() && p.Started.Sub(p.Scheduled) > promptly {
		return true
	}
	return slices.ContainsFunc(p.Containers, func(c facts.Container) bool { return again(&c) })
}

// again says whether a container took the place of another, by its own status.
func again(c *facts.Container) bool { return c.HasLast || c.Restarts > 0 }

// follow finds the machine again under another Node: that one is then the pod's node.
func (r *Run) follow(nodes *Nodes) {
	if r.NodeUID == "" || !r.Machine.Known() {
		return
	}
	own := nodes.Instance(r.NodeUID)
	if own != nil && !own.Deleted.Known() && own.Node.MachineID() == r.Machine {
		return
	}
	for _, in := range nodes.sightings(r.Machine) {
		if in.Node.UID != r.NodeUID && in.Node.Boot == r.Boot {
			r.Node, r.NodeUID = in.Node.Name, in.Node.UID
		}
	}
}

// mayHaveRunOn: the pod was given to the node before its present machine took the Node over, and was first seen since: the
// watch of pods was behind, or broken.
func (h *History) mayHaveRunOn(in *Instance, now facts.Instant) {
	at := h.given()
	for _, f := range in.Former {
		if at.Known() && at < f.Until.Add(clocksDiffer) {
			h.mayRunOn(f.Node, now)
		}
	}
}

// wasMissed: the runs were made final by a read that found no Node, and the watch, which had come to an earlier time without
// one, shows another machine's Node only now, though it registered before the pod was asked to terminate.
func (h *History) wasMissed(in *Instance, now facts.Instant) {
	made := in.Node.Created
	if !h.Anchored.Known() || in.Seen <= h.Anchored || !made.Known() || made > h.Asked {
		return
	}
	h.runOn(in.Node, now)
}

// mayHaveRunBefore: the pod was first seen when its Node was gone already, and another has its name or none.
func (h *History) mayHaveRunBefore(past []*Instance, now facts.Instant) {
	at := h.given()
	for _, in := range past {
		if at.Known() && at >= in.Deleted.Add(clocksDiffer) {
			continue
		}
		h.mayHaveRunOn(in, now)
		h.mayRunOn(in.Node, now)
		if in.Shown != nil {
			h.mayRunOn(in.Shown, now)
		}
	}
}

func (h *History) mayRunOn(node *facts.Node, now facts.Instant) {
	if h.Anchored.Known() {
		return
	}
	m := node.MachineID()
	for i := range h.Runs {
		r := &h.Runs[i]
		same := r.Machine == m ||
			r.Machine.OfNode(node.UID) || // the Node has only now told what its machine is
			m.OfNode(node.UID) && r.NodeUID == node.UID || // or tells it no more
			m.OfNode(node.UID) && node.Boot != "" && r.Boot == node.Boot // a boot ID is one machine's
		switch {
		case same:
			if !m.OfNode(node.UID) {
				r.Machine = m
			}
			if node.Boot != "" {
				r.Boot = node.Boot
			}
			r.Node, r.NodeUID = node.Name, node.UID
			return
		case r.NodeUID == "" && !r.Before && !h.startedBefore(node):
			// Bound before its Node was seen, and the Node is old enough to be the one.
			r.Node, r.NodeUID, r.Machine, r.Boot, r.Absent, r.Seen = node.Name, node.UID, m, node.Boot, 0, now
			return
		}
	}
	if len(h.Runs) == 0 && h.startedBefore(node) {
		h.Runs = append(h.Runs, Run{Node: node.Name, Before: true})
	} else if len(h.Runs) == 1 && h.Runs[0].NodeUID == "" && !h.Runs[0].Before {
		h.Runs[0].Before, h.Runs[0].Absent = true, 0
	}
	h.Runs = append(h.Runs, Run{Node: node.Name, NodeUID: node.UID, Machine: m, Boot: node.Boot, Seen: now})
}

// attribute remembers on which machine the reported containers are: the newest run's, except those that a pod started
// before its Node existed had from before.
//
// A container that was started before that machine was known to have the Node is nobody's: whose it is, only the kubelet can
// tell that has the name when it says that it has ended.
//
// A container is only provisionally that machine's (Late) unless it is the first in its place and was started as soon as the
// pod was bound: another machine may have taken over the node's name while the watch of Nodes lagged, and its kubelet's word
// on its own container says nothing of the first machine's, which may never have been reported.
func (h *History) attribute(p *facts.Pod, now facts.Instant, nodes *Nodes) {
	if len(h.Runs) == 0 {
		return
	}
	last := &h.Runs[len(h.Runs)-1]
	node := nodes.Newest(p.Node)
	since := now // while the Node has not been seen
	if in := nodes.Current(p.Node); in != nil {
		since = in.since()
	}
	for i := range p.Containers {
		c := &p.Containers[i]
		if !c.HasID || h.knows(c.ID) {
			continue
		}
		original := h.first(i) && !again(c)
		h.Replaced = h.Replaced || !original
		certain := original && atOnce(p, c) && len(last.Late) == 0
		switch first := &h.Runs[0]; {
		case first.Before && (node == nil || c.Started.Known() && c.Started < node.Created):
			// Machines that had the name before the present Node may have been several: what takes the place of a container
			// is the same machine's, or another's.
			if original {
				first.IDs = append(first.IDs, c.ID)
			} else {
				h.Unclaimed = append(h.Unclaimed, c.ID)
			}
		case since.Known() && c.Started.Known() && c.Started < since.Add(clocksDiffer):
			h.Unclaimed = append(h.Unclaimed, c.ID)
		case certain:
			last.IDs = append(last.IDs, c.ID)
		default:
			if len(last.Late) == 0 || h.LateStarted.Known() && c.Started.Known() {
				h.LateStarted = max(h.LateStarted, c.Started)
			} else {
				h.LateStarted = 0
			}
			last.Late = append(last.Late, c.ID)
			h.LateSeen = now
		}
	}
	h.vouch(nodes)
}

// first says, once, that no container in this place of the pod was seen with an ID before.
func (h *History) first(place int) bool {
	if place >= 64 {
		return false
	}
	bit := uint64(1) << place
	was := h.Named & bit
	h.Named |= bit
	return was == 0
}

// promptly is within how long of something that a machine did, by whatever clock, no other machine can have taken over its
// name: it takes longer to boot, even where clocks differ by some seconds.
const promptly = 5 * time.Second

// atOnce says whether a container was started as soon as the pod was bound.
func atOnce(p *facts.Pod, c *facts.Container) bool {
	return c.Started.Known() && p.Scheduled.Known() && c.Started.Sub(p.Scheduled) <= promptly
}

// clocksDiffer is by how much clocks may differ whose times are compared.
const clocksDiffer = time.Minute

// vouch: where the node's kubelet has posted the node's status since the late containers were started, as the machine that
// the pod runs on, no other machine had the name then. A kubelet posts every five minutes, so a container that ran for a
// while costs no live read.
func (h *History) vouch(nodes *Nodes) {
	if len(h.Runs) != 1 || len(h.Runs[0].Late) == 0 || !h.LateStarted.Known() {
		return
	}
	r := &h.Runs[0]
	in := nodes.Current(h.Pod.Node)
	if in == nil || in.Node.UID != r.NodeUID || in.Node.MachineID() != r.Machine || in.Node.Heartbeat < h.LateStarted.Add(clocksDiffer) {
		return
	}
	r.IDs, r.Late = append(r.IDs, r.Late...), nil
	h.LateSeen, h.LateStarted = 0, 0
}

func (h *History) knows(id uint64) bool {
	for i := range h.Runs {
		if slices.Contains(h.Runs[i].IDs, id) || slices.Contains(h.Runs[i].Late, id) {
			return true
		}
	}
	return slices.Contains(h.Unclaimed, id)
}

func (h *History) late() bool {
	for i := range h.Runs {
		if len(h.Runs[i].Late) > 0 {
			return true
		}
	}
	return false
}

// settleLate decides whose the late containers are, by a live read: those of the machine that has the name now, except what
// was started before that Node existed.
func (h *History) settleLate(l Live, now facts.Instant) {
	if l.Node == nil {
		return
	}
	seen := h.LateSeen
	h.LateSeen, h.LateStarted = 0, 0
	var theirs []uint64
	for i := range h.Runs {
		r := &h.Runs[i]
		late := r.Late
		r.Late = nil
		if h.Runs[0].Before {
			r = &h.Runs[0]
		}
		for _, id := range late {
			switch c := h.container(id); {
			case c != nil && c.State == facts.Waiting:
				h.Runs[i].Late, h.LateSeen = append(h.Runs[i].Late, id), seen // until its state says when it was started
			case c == nil || c.Started.Known() && c.Started < l.Node.Created:
				// Of several machines that had the name before that Node existed, nobody can say whose it is.
				if len(h.Runs) == 1 || h.Runs[0].Before {
					r.IDs = append(r.IDs, id)
				}
			default:
				theirs = append(theirs, id)
			}
		}
	}
	if len(theirs) > 0 {
		r := h.runOn(l.Node, now)
		r.IDs = append(r.IDs, theirs...)
	}
}

// runOn is the run on the node's machine, a new one where there is none yet.
func (h *History) runOn(node *facts.Node, now facts.Instant) *Run {
	for i := range h.Runs {
		if h.Runs[i].Machine == node.MachineID() {
			return &h.Runs[i]
		}
	}
	h.Runs = append(h.Runs, Run{Node: node.Name, NodeUID: node.UID, Machine: node.MachineID(), Boot: node.Boot, Seen: now})
	return &h.Runs[len(h.Runs)-1]
}

// container finds a container in the pod's status by its ID.
func (h *History) container(id uint64) *facts.Container {
	for i := range h.Pod.Containers {
		if c := &h.Pod.Containers[i]; c.HasID && c.ID == id {
			return c
		}
	}
	return nil
}
