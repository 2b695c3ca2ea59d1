package nodeproof

import (
	"cmp"
	"slices"

	"github.com/orphand/orphand/pkg/facts"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Instance is one Node object, by UID, and what was seen of it.
type Instance struct {
	// Node is its last known state in the watch stream.
	Node *facts.Node
	// Seen is when the instance was first seen; BootSeen when its present boot was, unknown when it was there already when
	// orphand began to look.
	Seen, BootSeen facts.Instant
	// Shown is a state in which a live read showed the Node as another machine's, while the watch stream has not come so far.
	Shown *facts.Node
	// Former are the states in which other machines had this very Node, oldest first, and Until when each of them lost it.
	Former []Former
	// HeldSince is since when its present machine has had the name; unknown for the first machine that was seen to have it.
	HeldSince facts.Instant
	// ReadySince is since when it has been seen Ready without a break; unknown while it is not Ready.
	ReadySince facts.Instant
	// TaintSeen is when the out-of-service taint was first seen; unknown while it is not there. TaintStale says that it
	// was set before this outage and counts for nothing until it is removed and set again.
	TaintSeen  facts.Instant
	TaintStale bool
	// Deleted is when it was first known to be gone; ReadyAtEnd whether it was Ready when last seen. Lost says that nobody
	// watched it go: what it showed last is not known.
	Deleted    facts.Instant
	ReadyAtEnd bool
	Lost       bool
}

// since is since when the present machine is known to have the Node; unknown for one that has had it from the beginning.
func (in *Instance) since() facts.Instant {
	if !in.HeldSince.Known() && in.Seen.Sub(in.Node.Created) <= promptly {
		return 0
	}
	return max(in.HeldSince, in.Seen)
}

// Former is the last state of a Node before another machine took it over.
type Former struct {
	Node  *facts.Node
	Until facts.Instant
}

// machine is the one that the Node showed last, to the watch or to a live read.
func (in *Instance) machine() facts.Machine {
	if in.Shown != nil {
		return in.Shown.MachineID()
	}
	return in.Node.MachineID()
}

// Live is one live read of a node by name.
type Live struct {
	// At is when the read was begun: the answer is no older than that.
	At facts.Instant
	// Node is nil when the API server said that there is none.
	Node *facts.Node
	// Since is when the first of the reads in a row was begun that found none.
	Since facts.Instant
}

// holder is the machine that had a name last, and when it was last known to.
type holder struct {
	machine facts.Machine
	seen    facts.Instant
}

// Nodes is the memory of what became of nodes. It is not safe for concurrent use.
type Nodes struct {
	// Readable is false while orphand may not read Nodes at all.
	Readable bool

	// unwatched says that the watch of Nodes is broken now; watchedSince since when it has been whole again, unknown while it
	// never broke.
	unwatched    bool
	watchedSince facts.Instant
	// youngest is when the Node that registered last did, by the API server's clock.
	youngest facts.Instant
	current  map[string]*Instance
	byUID    map[types.UID]*Instance
	machines map[facts.Machine]map[types.UID]*Instance
	live     map[string]Live
	holders  map[string]holder
	attested map[types.UID]Attestation
}

// NewNodes makes an empty memory of readable nodes.
func NewNodes() *Nodes {
	return &Nodes{
		Readable: true,
		current:  map[string]*Instance{},
		byUID:    map[types.UID]*Instance{},
		machines: map[facts.Machine]map[types.UID]*Instance{},
		live:     map[string]Live{},
		holders:  map[string]holder{},
		attested: map[types.UID]Attestation{},
	}
}

// Watch records, at now, whether the watch of Nodes delivers what happens to them. It says whether that is a change.
//
// That a machine has not been seen counts only for as long as somebody looked: while the watch was broken it may have come
// back under any name, and its Node may have gone again.
func (n *Nodes) Watch(watched bool, now facts.Instant) (changed bool) {
	if n.unwatched == !watched {
		return false
	}
	n.unwatched = !watched
	if watched {
		n.watchedSince = now
	}
	return true
}

// See records a state of a Node from the watch stream, at now. It says whether a judgement may change by it.
func (n *Nodes) See(node *facts.Node, now facts.Instant) (changed bool) {
	n.youngest = max(n.youngest, node.Created)
	if old := n.current[node.Name]; old != nil && old.Node.UID != node.UID {
		n.end(old, true, now)
	}
	in := n.byUID[node.UID]
	if in == nil {
		in = &Instance{Node: node, Seen: now, BootSeen: now}
		if h, known := n.holders[node.Name]; known && h.machine != node.MachineID() {
			in.HeldSince = now
		}
		n.holders[node.Name] = holder{machine: node.MachineID(), seen: now}
		n.byUID[node.UID] = in
		n.current[node.Name] = in
		n.remember(in)
		if node.OutOfService {
			in.TaintSeen, in.TaintStale = now, stale(node)
		}
		if node.Ready == facts.ReadyTrue {
			in.ReadySince = now
		}
		return true
	}
	if in.Deleted.Known() { // a relist from a server that lags, or the end was a mistake: it is there
		in.Deleted, in.Lost = 0, false
		n.current[node.Name] = in
		n.remember(in)
		changed = true
	}
	old := in.Node
	in.Node = node
	if shown := in.Shown; shown != nil && !newer(shown.ResourceVersion, node.ResourceVersion) {
		in.Shown = nil // the stream has come so far
		if m := shown.MachineID(); m != old.MachineID() && m != node.MachineID() && shown.Machine.Known() {
			in.Former = append(in.Former, Former{Node: shown, Until: now})
		}
	}
	if old.MachineID() != node.MachineID() {
		in.HeldSince = now
		if old.Machine.Known() {
			in.Former = append(in.Former, Former{Node: old, Until: now})
		}
		n.holders[node.Name] = holder{machine: node.MachineID(), seen: now}
	}
	if old.MachineID() != node.MachineID() || old.Boot != node.Boot {
		n.forget(old.MachineID(), node.UID)
		n.remember(in)
		in.BootSeen = now
		changed = true
	}
	switch {
	case !node.OutOfService:
		in.TaintSeen, in.TaintStale = 0, false
	case !old.OutOfService:
		in.TaintSeen, in.TaintStale = now, stale(node)
	case node.Ready == facts.ReadyTrue, old.Boot != node.Boot, old.Ready == node.Ready && node.ReadySince > old.ReadySince:
		// The node came back with it, whether or not the watch has shown that: it vouches for the outage that is over.
		in.TaintStale = true
	}
	switch {
	case node.Ready != facts.ReadyTrue:
		in.ReadySince = 0
	case !in.ReadySince.Known():
		in.ReadySince = now
	}
	return changed || old.Ready != node.Ready || old.Unreachable != node.Unreachable ||
		old.OutOfService != node.OutOfService || old.Deleting != node.Deleting
}

// stale says whether an out-of-service taint that is seen for the first time may have been set before this outage, which began
// with the last transition of Ready.
func stale(node *facts.Node) bool {
	return node.Ready == facts.ReadyTrue || node.TaintRewritten ||
		node.TaintedAt.Known() && node.ReadySince.Known() && node.TaintedAt < node.ReadySince
}

// List records a state of a Node from the list at the start, at now. How old its boot is, nobody can tell: it may be a Node
// that its machine left for another name long ago.
func (n *Nodes) List(node *facts.Node, now facts.Instant) (changed bool) {
	known := n.byUID[node.UID] != nil
	changed = n.See(node, now)
	if !known {
		n.byUID[node.UID].BootSeen = 0
	}
	return changed
}

// End records that the Node with the given name, and UID unless that is empty, was seen to go at now.
func (n *Nodes) End(name string, uid types.UID, now facts.Instant) {
	if in := n.current[name]; in != nil && (uid == "" || in.Node.UID == uid) {
		n.end(in, false, now)
	}
}

// Lose records that such a Node was found to be gone at now, and that nobody watched it go.
func (n *Nodes) Lose(name string, uid types.UID, now facts.Instant) {
	if in := n.current[name]; in != nil && (uid == "" || in.Node.UID == uid) {
		n.end(in, true, now)
	}
}

func (n *Nodes) end(in *Instance, lost bool, now facts.Instant) {
	if in.Deleted.Known() {
		return
	}
	in.Deleted, in.Lost = now, lost
	in.ReadyAtEnd = in.Node.Ready == facts.ReadyTrue
	if h, ok := n.holders[in.Node.Name]; ok {
		h.seen = now
		n.holders[in.Node.Name] = h
	}
	n.forget(in.Node.MachineID(), in.Node.UID)
	if n.current[in.Node.Name] == in {
		delete(n.current, in.Node.Name)
	}
}

func (n *Nodes) remember(in *Instance) {
	m := in.Node.MachineID()
	if n.machines[m] == nil {
		n.machines[m] = map[types.UID]*Instance{}
	}
	n.machines[m][in.Node.UID] = in
}

func (n *Nodes) forget(m facts.Machine, uid types.UID) {
	delete(n.machines[m], uid)
	if len(n.machines[m]) == 0 {
		delete(n.machines, m)
	}
}

// Silent counts the nodes that there are, and those of them that cannot be heard.
func (n *Nodes) Silent() (silent, total int) {
	for _, in := range n.current {
		if !in.Node.Heard() {
			silent++
		}
	}
	return silent, len(n.current)
}

// SeeLive records a live read of the named node, by the time at which it was begun: node is nil when there is none.
func (n *Nodes) SeeLive(name string, node *facts.Node, begun facts.Instant) {
	before, ok := n.live[name]
	if ok && before.At > begun {
		return // the answer to an earlier read came later
	}
	l := Live{At: begun, Node: node}
	if node == nil {
		if l.Since = begun; ok && before.Node == nil {
			l.Since = before.Since
		}
	}
	n.live[name] = l
	if node == nil {
		return
	}
	in := n.byUID[node.UID]
	if in == nil || !newer(node.ResourceVersion, in.Node.ResourceVersion) {
		return
	}
	if in.Shown = nil; node.MachineID() != in.Node.MachineID() {
		in.Shown = node
	}
}

// Live is the last live read of the named node.
func (n *Nodes) Live(name string) (Live, bool) {
	l, ok := n.live[name]
	return l, ok
}

// reached says whether the watch stream has come as far as a live read of the named node.
func (n *Nodes) reached(name string, l Live) bool {
	in := n.current[name]
	switch {
	case l.Node == nil:
		return in == nil || in.Seen > l.At
	case in != nil && in.Node.UID == l.Node.UID:
		return !newer(l.Node.ResourceVersion, in.Node.ResourceVersion)
	}
	return n.byUID[l.Node.UID] != nil
}

// Current is the instance that has the name in the watch stream, nil when none has.
func (n *Nodes) Current(name string) *Instance { return n.current[name] }

// past lists the instances that had the name and are gone, oldest first.
func (n *Nodes) past(name string) []*Instance {
	var list []*Instance
	for _, in := range n.byUID {
		if in.Node.Name == name && in.Deleted.Known() {
			list = append(list, in)
		}
	}
	slices.SortFunc(list, func(a, b *Instance) int {
		return cmp.Or(cmp.Compare(a.Deleted, b.Deleted), cmp.Compare(a.Node.UID, b.Node.UID))
	})
	return list
}

// Instance is the instance with the UID, gone or not, nil when it was never seen.
func (n *Nodes) Instance(uid types.UID) *Instance { return n.byUID[uid] }

// Newest is the newest known state of the named node: of the watch stream and the last live read, the one with the
// newer resourceVersion. It is nil when there is no such node.
func (n *Nodes) Newest(name string) *facts.Node {
	var stream *facts.Node
	if in := n.current[name]; in != nil {
		stream = in.Node
	}
	l, ok := n.live[name]
	switch {
	case !ok:
		return stream
	case l.Node == nil:
		// Read as absent: what the stream holds stands only if it was first seen after that read.
		if in := n.current[name]; in != nil && in.Seen > l.At {
			return stream
		}
		return nil
	case stream == nil:
		if in := n.byUID[l.Node.UID]; in != nil && in.Deleted >= l.At {
			return nil
		}
		return l.Node
	case newer(l.Node.ResourceVersion, stream.ResourceVersion):
		return l.Node
	}
	return stream
}

func newer(a, b string) bool {
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && c > 0
}

// Attest records a person's word for a Node or pod UID.
func (n *Nodes) Attest(uid types.UID, a Attestation) { n.attested[uid] = a }

// Unattest takes a word back.
func (n *Nodes) Unattest(uid types.UID) { delete(n.attested, uid) }

// Attested is a person's word for a Node or pod UID.
func (n *Nodes) Attested(uid types.UID) (Attestation, bool) {
	a, ok := n.attested[uid]
	return a, ok && uid != ""
}

// sightings lists the Nodes under which the machine is known now, by when their boots were first seen.
func (n *Nodes) sightings(m facts.Machine) []*Instance {
	if len(n.machines[m]) == 0 {
		return nil
	}
	list := make([]*Instance, 0, len(n.machines[m]))
	for _, in := range n.machines[m] {
		list = append(list, in)
	}
	slices.SortFunc(list, func(a, b *Instance) int {
		return cmp.Or(cmp.Compare(a.BootSeen, b.BootSeen), cmp.Compare(a.Node.UID, b.Node.UID))
	})
	return list
}

// nameless is a Node, other than the one with the given UID, that tells no more of its machine than the given boot.
func (n *Nodes) nameless(boot string, but types.UID) *Instance {
	var found *Instance
	if boot == "" {
		return found
	}
	for _, in := range n.current {
		if in.Node.Boot == boot && in.Node.UID != but && !in.Node.Machine.Known() && (found == nil || in.Node.UID < found.Node.UID) {
			found = in
		}
	}
	return found
}

// Prune forgets instances that are gone since before the given time and that keep does not want, and the live reads
// older than that. What no pod ran on can prove nothing.
func (n *Nodes) Prune(before facts.Instant, keep func(types.UID) bool) {
	for uid, in := range n.byUID {
		if in.Deleted.Known() && in.Deleted < before && !keep(uid) {
			delete(n.byUID, uid)
		}
	}
	for name, l := range n.live {
		if l.At < before {
			delete(n.live, name)
		}
	}
	for name, h := range n.holders {
		if n.current[name] == nil && h.seen < before {
			delete(n.holders, name)
		}
	}
}

// Sighted lists the Nodes under which the machine is known now in the given boot, in any where that is empty.
func (n *Nodes) Sighted(m facts.Machine, boot string) []*Instance {
	var list []*Instance
	for _, in := range n.machines[m] {
		if boot == "" || in.Node.Boot == boot {
			list = append(list, in)
		}
	}
	return list
}
