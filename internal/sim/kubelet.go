package sim

import (
	"strconv"
	"time"

	"github.com/orphand/orphand/pkg/nodeproof"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// kubelet is one life of a machine's kubelet. What it remembers of pods dies with it; what the runtime remembers does not.
type kubelet struct {
	m       *machine
	dice    *dice
	workers map[types.UID]*worker
	order   []types.UID
	// registered says that it has made or found its Node. It never makes it again (kubelet_node_status.go,
	// registrationCompleted): a Node that is deleted stays away until the kubelet is restarted.
	registered bool
	// listed says that it has listed its pods: only then does it know which containers are nobody's.
	listed bool
	// rejects says that its admission refuses the pods that it finds running: the runtime, or a device plugin, was not up
	// yet (kubernetes#118559).
	rejects bool
	// posted is when it last posted the node's status.
	posted time.Duration
}

func newKubelet(m *machine, rejects bool) *kubelet {
	m.w.serial++
	return &kubelet{m: m, rejects: rejects, workers: map[types.UID]*worker{},
		dice: roll(m.w.plan.Seed, "kubelet/"+m.id+"/"+m.boot+"/"+strconv.Itoa(m.w.serial))}
}

// later does something in this life of the kubelet, when the machine moves.
func (k *kubelet) later(d time.Duration, do func()) {
	k.m.runtime.later(d, func() {
		if k.m.kubelet == k {
			do()
		}
	})
}

func (k *kubelet) start() {
	k.later(k.dice.between(200*time.Millisecond, 3*time.Second), func() {
		k.connect()
		k.beat()
	})
}

// beat renews the Lease and repairs the Node's status every 10 s.
func (k *kubelet) beat() {
	if k.m.online() && k.registered {
		k.post()
	}
	k.later(10*time.Second, k.beat)
}

// connect says what it is, then lists its pods: the node's status is posted before any pod is started. (Kubernetes does not
// order the two strictly, but the status needs one request and the start of a pod a sandbox, an image and a container.)
func (k *kubelet) connect() {
	if !k.m.online() {
		return // reconnect comes when it is
	}
	k.register()
	k.later(k.dice.between(50*time.Millisecond, 500*time.Millisecond), k.list)
}

// reconnect: the API server can be reached again, and the clients find out after a pause. What the kubelet has to say of pods
// does not wait for that.
func (k *kubelet) reconnect() {
	k.meet()
	k.later(k.dice.between(500*time.Millisecond, 9*time.Second), k.connect)
}

// meet sees whether another kubelet has the name.
func (k *kubelet) meet() {
	for _, o := range k.m.w.machines {
		if o != k.m && o.hostname == k.m.hostname && o.online() && o.kubelet != nil && o.kubelet.registered {
			k.m.w.twins(o, k.m)
		}
	}
}

func (k *kubelet) register() {
	k.meet()
	first := !k.registered
	k.registered = true
	s := k.m.w.api
	if _, ok := s.nodes.get(k.m.hostname); !ok && first {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: k.m.hostname}}
		s.stamp(n, "N")
		if k.m.w.plan.NodeFinalizers {
			n.Finalizers = []string{"karpenter.sh/termination"}
		}
		k.describe(n)
		s.leases[n.Name] = k.m.w.at()
		s.store(n)
		return
	}
	k.post()
}

// post writes the node's status where it differs, and renews the Lease.
func (k *kubelet) post() {
	s := k.m.w.api
	n, ok := s.nodes.get(k.m.hostname)
	if !ok {
		return
	}
	s.leases[n.Name] = k.m.w.at()
	c := n.DeepCopy()
	if k.describe(c) {
		s.store(c)
	}
}

// statusEvery is nodeStatusReportFrequency: how often the status is posted although nothing in it has changed.
const statusEvery = 5 * time.Minute

// describe writes into a Node what the kubelet knows of itself, and says whether that is to be posted.
func (k *kubelet) describe(n *corev1.Node) bool {
	info := corev1.NodeSystemInfo{SystemUUID: k.m.identity.SystemUUID, MachineID: k.m.identity.MachineID, BootID: k.m.boot}
	changed := n.Status.NodeInfo != info
	n.Status.NodeInfo = info
	ready := corev1.ConditionTrue
	if k.m.runtimeDown {
		ready = corev1.ConditionFalse
	}
	changed = setReady(n, ready, k.m.now()) || changed || k.m.w.at()-k.posted >= statusEvery
	if changed {
		k.posted = k.m.w.at()
		n.Status.Conditions[0].LastHeartbeatTime = k.m.now()
		ownStatus(n, k.m.w.plan.KubeletName, k.m.w.api.now())
	}
	return changed
}

// setReady writes a node's Ready condition, the only one that matters here.
func setReady(n *corev1.Node, ready corev1.ConditionStatus, now metav1.Time) bool {
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; c.Type == corev1.NodeReady {
			if c.Status == ready {
				return false
			}
			c.Status, c.LastTransitionTime = ready, now
			return true
		}
	}
	n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeReady, Status: ready, LastTransitionTime: now})
	return true
}

func readyOf(n *corev1.Node) corev1.ConditionStatus {
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == corev1.NodeReady {
			return n.Status.Conditions[i].Status
		}
	}
	return corev1.ConditionUnknown
}

// list takes in every pod of the API server that has the node's name, and has what else runs killed.
func (k *kubelet) list() {
	if !k.m.online() {
		return
	}
	k.listed = true
	s := k.m.w.api
	for _, p := range s.pods.all() {
		if p.Spec.NodeName == k.m.hostname {
			k.heard(p.UID)
		}
	}
	for _, uid := range append([]types.UID(nil), k.order...) {
		if w := k.workers[uid]; w != nil {
			if s.pod(uid) == nil {
				k.heard(uid)
			} else {
				w.dirty = true
				w.flush()
			}
		}
	}
	for _, uid := range append([]types.UID(nil), k.m.runtime.order...) {
		if k.workers[uid] == nil {
			k.later(k.dice.between(time.Second, 4*time.Second), func() {
				if k.workers[uid] == nil {
					k.killOrphan(uid)
				}
			})
		}
	}
}

// killOrphan kills the containers of a pod that the kubelet has no pod for, with a grace of 1 s (HandlePodCleanups).
func (k *kubelet) killOrphan(uid types.UID) {
	if k.m.runtimeDown {
		k.later(2*time.Second, func() { k.killOrphan(uid) })
		return
	}
	for _, c := range k.m.runtime.running(uid) {
		k.m.runtime.stop(uid, c, time.Second)
	}
}

// changed: the API server holds another state of a pod of this node.
func (k *kubelet) changed(uid types.UID) {
	if !k.listed {
		return
	}
	k.later(k.dice.between(20*time.Millisecond, 900*time.Millisecond), func() {
		if k.m.online() {
			k.heard(uid)
		}
	})
}

// noticed: a container of the pod has ended; the kubelet's relist sees it within a second.
func (k *kubelet) noticed(uid types.UID) {
	k.later(k.dice.between(50*time.Millisecond, time.Second), func() {
		if w := k.workers[uid]; w != nil {
			w.sync()
			w.check()
			w.post()
		}
	})
}

// heard takes in the present state of a pod.
func (k *kubelet) heard(uid types.UID) {
	p := k.m.w.api.pod(uid)
	w := k.workers[uid]
	if p == nil {
		if w != nil {
			w.removed = true
			w.terminate(w.grace())
			w.check()
		}
		return
	}
	if w == nil {
		if ended(p) && len(k.m.runtime.running(uid)) == 0 && p.DeletionTimestamp == nil {
			return
		}
		w = &worker{k: k, uid: uid, starting: map[string]bool{}, acknowledged: k.m.now()}
		k.workers[uid] = w
		k.order = append(k.order, uid)
		w.pod = p
		if k.rejects && p.DeletionTimestamp == nil && !ended(p) && len(k.m.runtime.running(uid)) > 0 {
			w.refuse()
			return
		}
	}
	w.pod = p
	if p.DeletionTimestamp != nil || ended(p) {
		w.terminate(w.grace())
	}
	w.sync()
	w.check()
	w.post()
}

// unfinished: the kubelet stops, or can kill nothing any more, before it has killed what it refused. Nothing in the API tells
// of that.
func (k *kubelet) unfinished() {
	for _, uid := range k.order {
		if k.workers[uid].refused && len(k.m.runtime.running(uid)) > 0 {
			k.m.w.lie(Lie{Pod: uid, Reason: nodeproof.KubeletConfirmed})
		}
	}
}

func (k *kubelet) drop(w *worker) {
	delete(k.workers, w.uid)
	for i, uid := range k.order {
		if uid == w.uid {
			k.order = append(k.order[:i:i], k.order[i+1:]...)
			break
		}
	}
}
