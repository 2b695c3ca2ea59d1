package sim

import (
	"time"

	"github.com/orphand/orphand/pkg/nodeproof"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Lie is an assumption of Kubernetes that somebody broke: a running machine was marked out of service, a running pod
// attested, a Node deleted whose machine runs on where nobody can reach it, two machines given one name, a child made long
// after its owner was gone. What
// orphand then says of the pods that the lie covers is not held against it; what it must do is raise a finding as soon as
// the contradiction can be seen.
type Lie struct {
	Machine *machine
	Boot    string
	Pod     types.UID
	// Job is the job whose child came too late.
	Job    types.UID
	Reason nodeproof.Reason
}

func (w *World) lie(l Lie) { w.lies = append(w.lies, l) }

// covered says whether somebody's lie excuses that a process of the pod runs on, or may start on, the machine in its present
// boot, though the pod was said to be gone.
func (w *World) covered(pod types.UID, m *machine) bool {
	for _, l := range w.lies {
		if l.Pod != "" && l.Pod == pod || l.Machine != nil && l.Machine == m && l.Boot == m.boot {
			return true
		}
	}
	return w.abandoned(pod, m) || w.hidden(m) || w.judge.disguised(pod)
}

// twins: two machines whose kubelets use one name at the same time, each writing over what the other said of the Node and of
// its pods. "Two Nodes cannot have the same name at the same time", says Kubernetes' documentation, and nothing enforces it.
func (w *World) twins(a, b *machine) {
	w.lie(Lie{Machine: a, Boot: a.boot})
	w.lie(Lie{Machine: b, Boot: b.boot})
}

// hidden says whether another machine took over the machine's own Node object, which Kubernetes assumes nobody lets happen
// (a Node is to be removed before another machine takes its name), and orphand cannot know: it was not told in this life
// that the machine had that Node, or the Node has gone since without the other machine having ever been shown.
func (w *World) hidden(m *machine) bool {
	if m.displaced == "" {
		return false
	}
	if w.judge.held[holding{m.displaced, m.identity}] != w.judge.life {
		return true
	}
	if w.nodeHeld(m.displaced) {
		return false
	}
	last := w.judge.nodes[m.displaced]
	return last == nil || last.Machine == m.identity
}

func (w *World) nodeHeld(uid types.UID) bool {
	for _, n := range w.api.nodes.all() {
		if n.UID == uid {
			return true
		}
	}
	return false
}

// removal is the end of a Node that showed a machine in a boot.
type removal struct {
	at    time.Duration
	boot  string
	ready bool
	// healthy is since when the machine had been healthy then; negative when it was not.
	healthy time.Duration
}

// abandonedAfter is how long after the end of its Node a machine may be unseen in a history that keeps to Kubernetes'
// assumptions: whoever deletes a Node sees to it that its machine is off, or back, before PodGC's quarantine of 40 s ends.
const abandonedAfter = 35 * time.Second

// abandoned says whether the machine's Node was deleted while it ran, and it runs on unseen and out of reach.
func (w *World) abandoned(pod types.UID, m *machine) bool {
	for _, r := range m.removals {
		if r.boot != m.boot || w.at() < r.at+abandonedAfter {
			continue
		}
		if m.shows != "" && m.shownSince <= r.at+abandonedAfter {
			continue // it was seen again in time
		}
		if r.ready && m.healthySince >= 0 && m.healthySince <= r.at && !w.unkillable(pod, m) {
			continue // its kubelet was well and hears the API: it kills what it is told to
		}
		return true
	}
	return false
}

func (w *World) unkillable(pod types.UID, m *machine) bool {
	for _, c := range m.runtime.running(pod) {
		if c.manners.stuck > 0 {
			return true
		}
	}
	return false
}

// nodeWritten keeps which machines the API server shows.
func (w *World) nodeWritten(n *corev1.Node) {
	held, there := w.api.nodes.get(n.Name)
	for _, m := range w.machines {
		shown := there && held.UID == n.UID && held.Status.NodeInfo.MachineID == m.identity.MachineID && held.Status.NodeInfo.BootID == m.boot
		switch {
		case shown && m.shows != n.UID:
			m.shows, m.shownSince = n.UID, w.at()
		case !shown && m.shows == n.UID:
			m.shows = ""
			if there && held.UID == n.UID && held.Status.NodeInfo.MachineID != m.identity.MachineID {
				m.displaced = n.UID
			}
			if !there {
				m.removals = append(m.removals, removal{at: w.at(), boot: m.boot, ready: readyOf(n) == corev1.ConditionTrue, healthy: m.healthySince})
			}
		}
	}
}
