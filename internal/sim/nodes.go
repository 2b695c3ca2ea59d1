package sim

import (
	"slices"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const manager = "kube-controller-manager"

// lifecycle is the node lifecycle controller with its taint eviction.
type lifecycle struct {
	w    *World
	dice *dice
	// notReady is since when a node has not been Ready, by name; evict is when its NoExecute taint may be set, by the
	// zone's rate limit.
	notReady map[string]time.Duration
	evict    map[string]time.Duration
	// tolerated is since when a pod has been tolerating a taint.
	tolerated map[types.UID]time.Duration
}

func newLifecycle(w *World) *lifecycle {
	return &lifecycle{w: w, dice: roll(w.plan.Seed, "lifecycle"), notReady: map[string]time.Duration{}, evict: map[string]time.Duration{}, tolerated: map[types.UID]time.Duration{}}
}

// period is --node-monitor-period.
const period = 5 * time.Second

func (l *lifecycle) tick() {
	l.monitor()
	l.evictions()
	l.w.after(period, l.tick)
}

func (l *lifecycle) monitor() {
	s := l.w.api
	now := l.w.at()
	ready := 0
	for _, n := range s.nodes.all() {
		if now-s.leases[n.Name] > l.w.plan.NodeGrace && readyOf(n) != corev1.ConditionUnknown {
			s.editNode(n.Name, func(n *corev1.Node) { setReady(n, corev1.ConditionUnknown, s.now()) })
		}
		if n, ok := s.nodes.get(n.Name); ok && readyOf(n) == corev1.ConditionTrue {
			ready++
		}
	}
	// Where every node is NotReady the controller takes its taints off and stops (node_lifecycle_controller.go).
	outage := ready == 0 && len(s.nodes.names) > 0
	for _, n := range s.nodes.all() {
		key := ""
		switch readyOf(n) {
		case corev1.ConditionUnknown:
			key = corev1.TaintNodeUnreachable
		case corev1.ConditionFalse:
			key = corev1.TaintNodeNotReady
		}
		if key == "" {
			delete(l.notReady, n.Name)
		} else if _, known := l.notReady[n.Name]; !known {
			l.notReady[n.Name] = now
			l.evict[n.Name] = now + l.dice.between(0, l.w.plan.TaintDelay)
		}
		l.taint(n, key, key != "" && !outage && now >= l.evict[n.Name])
	}
}

// taint makes the controller's own taints of a node what they should be.
func (l *lifecycle) taint(n *corev1.Node, key string, execute bool) {
	want := map[corev1.Taint]bool{}
	if key != "" {
		want[corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule}] = true
		if execute {
			want[corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute}] = true
		}
	}
	var keep []corev1.Taint
	changed := false
	for _, t := range n.Spec.Taints {
		if t.Key != corev1.TaintNodeUnreachable && t.Key != corev1.TaintNodeNotReady {
			keep = append(keep, t)
			continue
		}
		bare := corev1.Taint{Key: t.Key, Effect: t.Effect}
		if want[bare] {
			delete(want, bare)
			keep = append(keep, t)
		} else {
			changed = true
		}
	}
	now := l.w.api.now()
	for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute} {
		if t := (corev1.Taint{Key: key, Effect: effect}); want[t] {
			t.TimeAdded = &now
			keep = append(keep, t)
			changed = true
		}
	}
	if changed {
		l.w.api.editNode(n.Name, func(n *corev1.Node) { setTaints(n, keep, l.w.plan.ManagerName, now) })
	}
}

// setTaints writes a node's taints: one atomic list, owned by whoever wrote it last.
func setTaints(n *corev1.Node, taints []corev1.Taint, by string, now metav1.Time) {
	n.Spec.Taints = taints
	n.ManagedFields = slices.DeleteFunc(n.ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return e.Subresource == "" })
	n.ManagedFields = append(n.ManagedFields, metav1.ManagedFieldsEntry{Manager: by, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &now,
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:taints":{}}}`)})
}

// ownStatus notes who wrote a node's status last.
func ownStatus(n *corev1.Node, by string, now metav1.Time) {
	n.ManagedFields = slices.DeleteFunc(n.ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return e.Manager == by && e.Subresource == "status" })
	n.ManagedFields = append(n.ManagedFields, metav1.ManagedFieldsEntry{Manager: by, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &now,
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:conditions":{}}}`), Subresource: "status"})
}

func tainted(n *corev1.Node, key string) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}

// evictions deletes the pods of nodes with a NoExecute taint once they have tolerated it long enough.
func (l *lifecycle) evictions() {
	s := l.w.api
	now := l.w.at()
	for _, p := range s.pods.all() {
		n, ok := s.nodes.get(p.Spec.NodeName)
		if !ok || p.DeletionTimestamp != nil || ended(p) {
			continue
		}
		toleration := forever
		for _, t := range n.Spec.Taints {
			if t.Effect != corev1.TaintEffectNoExecute {
				continue
			}
			if t.Key == corev1.TaintNodeOutOfService {
				toleration = 0
			} else {
				toleration = min(toleration, l.w.plan.Toleration)
			}
		}
		if toleration == forever {
			delete(l.tolerated, p.UID)
			continue
		}
		if _, known := l.tolerated[p.UID]; !known {
			l.tolerated[p.UID] = now
		}
		if now-l.tolerated[p.UID] >= toleration {
			s.editPod(p.UID, func(p *corev1.Pod) { disrupt(p, "DeletionByTaintManager", s.now()) })
			s.deletePod(p.Name, "", nil) // without a UID precondition (taint_eviction.go)
		}
	}
}

func disrupt(p *corev1.Pod, reason string, now metav1.Time) {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == corev1.DisruptionTarget {
			p.Status.Conditions[i].Reason = reason
			return
		}
	}
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, LastTransitionTime: now})
}

// podGC removes the pods of nodes that are gone, of nodes that are marked out of service, and terminating ones that no node
// ever had (gc_controller.go).
type podGC struct {
	w       *World
	missing map[string]time.Duration
}

func newPodGC(w *World) *podGC { return &podGC{w: w, missing: map[string]time.Duration{}} }

func (g *podGC) tick() {
	s := g.w.api
	now := g.w.at()
	for _, p := range s.pods.all() {
		name := p.Spec.NodeName
		n, ok := s.nodes.get(name)
		switch {
		case name == "":
			if p.DeletionTimestamp != nil {
				g.remove(p, "", "")
			}
		case !ok:
			since, known := g.missing[name]
			if !known {
				g.missing[name] = now
			} else if now-since >= 40*time.Second {
				g.remove(p, "DeletionByPodGC", corev1.PodFailed)
			}
		case p.DeletionTimestamp != nil && readyOf(n) != corev1.ConditionTrue && tainted(n, facts.TaintOutOfService):
			g.remove(p, "", corev1.PodFailed)
		}
	}
	for name := range g.missing {
		if _, ok := s.nodes.get(name); ok {
			delete(g.missing, name)
		}
	}
	g.w.after(20*time.Second, g.tick)
}

// remove writes Failed over whatever the pod's state is and deletes it by force, by name alone.
func (g *podGC) remove(p *corev1.Pod, disruption string, phase corev1.PodPhase) {
	s := g.w.api
	if phase != "" && !ended(p) {
		s.editPod(p.UID, func(p *corev1.Pod) {
			p.Status.Phase = phase
			setOwners(p, g.w.plan.ManagerName, stateOwner(p), s.now())
			if disruption != "" {
				disrupt(p, disruption, s.now())
			}
		})
	}
	none := int64(0)
	s.deletePod(p.Name, "", &none)
}

// kueue is Kueue's failure recovery: it forges Failed and deletes by force what terminates on an unreachable node past its
// grace (pod_termination_controller.go).
type kueue struct{ w *World }

func (k *kueue) tick() {
	s := k.w.api
	for _, p := range s.pods.all() {
		n, ok := s.nodes.get(p.Spec.NodeName)
		if !ok || p.DeletionTimestamp == nil || !tainted(n, corev1.TaintNodeUnreachable) || s.now().Sub(p.DeletionTimestamp.Time) < time.Minute {
			continue
		}
		if !ended(p) {
			s.editPod(p.UID, func(p *corev1.Pod) {
				p.Status.Phase = corev1.PodFailed
				setOwners(p, "kueue", stateOwner(p), s.now())
			})
		}
		none := int64(0)
		s.deletePod(p.Name, p.UID, &none)
	}
	k.w.after(10*time.Second, k.tick)
}

// scheduler binds pods to nodes that are Ready and have no taint, as far as its cache tells.
type scheduler struct{ *controller }

func newScheduler(w *World) *scheduler {
	c := &scheduler{}
	c.controller = w.controller("scheduler", 50*time.Millisecond, 900*time.Millisecond, c.reconcile)
	return c
}

func (c *scheduler) reconcile() {
	s := c.w.api
	for _, p := range s.pods.all() {
		if p.Spec.NodeName != "" || p.DeletionTimestamp != nil || len(p.Spec.SchedulingGates) > 0 {
			continue
		}
		stale := c.dice.chance(0.03) // its cache is behind: the node may be gone, or silent
		var fit []string
		for _, n := range s.nodes.all() {
			if stale || readyOf(n) == corev1.ConditionTrue && len(n.Spec.Taints) == 0 && n.DeletionTimestamp == nil {
				fit = append(fit, n.Name)
			}
		}
		if len(fit) > 0 {
			s.bind(p.UID, fit[c.dice.upTo(len(fit))])
		}
	}
}
