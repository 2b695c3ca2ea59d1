package sim

import (
	"time"

	"github.com/orphand/orphand/internal/stage"
	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/nodeproof"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// act does one action.
func (w *World) act(i int, a Action) {
	w.film.note(a)
	d := roll(w.plan.Seed, "action/"+string(a.Do)+"/"+a.At.String())
	switch a.Do {
	case CreateJob, DeleteJob, SuspendJob, ResumeJob, DeleteJobSet, DeleteBatch, LateJobSet:
		w.actOnJob(a)
	case DeletePod, ForceDelete, ForgeFailed, AttestPod, Unlabel:
		if p := w.podOf(a); p != nil {
			w.actOnPod(a, p)
		}
	case StallGC:
		w.collector.stall(a.For)
	case StallJobs:
		w.jobs.stall(a.For)
	case StallTrainer:
		w.trainer.stall(a.For)
	case RestartDaemon, SlowWatch, CutWatch, Relist, FailReads, HideNodes, APIAway:
		w.weather(a)
	case Keep, Adopt, Bystand, ForbidDeletes, FailDeletes, PauseDaemon, LoseLease, Storm:
		w.actOnEnforcing(a, d)
	default:
		if m := w.machineOf(a); m != nil {
			w.actOnMachine(a, m, d)
		}
	}
}

// machineOf is the machine of an action's scene: that which runs the most of the scene's job when the scene begins.
func (w *World) machineOf(a Action) *machine {
	if m := w.scenes[a.Scene]; m != nil {
		return m
	}
	var best *machine
	most := -1
	for _, m := range w.machines {
		n := 0
		for _, uid := range m.runtime.order {
			if w.truth.life(uid).root == w.plan.Jobs[a.Job].Name {
				n += len(m.runtime.running(uid))
			}
		}
		if n > most {
			best, most = m, n
		}
	}
	w.scenes[a.Scene] = best
	return best
}

func (w *World) actOnMachine(a Action, m *machine, d *dice) {
	switch a.Do {
	case Cut:
		m.partition()
	case Heal:
		m.heal()
	case Freeze:
		m.freeze()
	case Thaw:
		m.thaw()
	case PowerOff:
		m.powerOff()
	case PowerOn:
		m.powerOn(d.between(2*time.Second, 30*time.Second))
	case Reboot:
		m.reboot(d.between(2*time.Second, 30*time.Second))
	case StopKubelet:
		m.stopKubelet()
	case StartKubelet, RestartKubelet, RejectingStart:
		if m.powered && (a.Do != StartKubelet || m.kubelet == nil) {
			m.startKubelet(a.Do == RejectingStart)
		}
	case RuntimeDown:
		if m.up() {
			m.runtimeDown = true
			m.mute()
			m.reconsider()
		}
	case RuntimeUp:
		w.mendRuntime(m)
	case Rename:
		m.hostname += "x"
		if m.powered {
			if a.Flag {
				m.reboot(d.between(2*time.Second, 30*time.Second))
			} else {
				m.startKubelet(false)
			}
		}
	case Replace:
		w.replace(a, m, d)
	case DeleteNode:
		w.deleteNode(a, m)
	case Rejoin:
		if m.healthy() && !w.stuck(m) || !w.plan.Honest {
			w.api.deleteNode(m.hostname)
			w.after(min(a.For, 25*time.Second), func() {
				if m.powered {
					m.startKubelet(false)
				}
			})
		}
	case Taint:
		w.taint(a, m)
	case Untaint:
		w.untaint(m.hostname)
	case AttestNode:
		if n, ok := w.api.nodes.get(m.hostname); ok {
			w.attestNode(n, m)
		}
	}
}

func (w *World) mendRuntime(m *machine) {
	if !m.runtimeDown {
		return
	}
	m.runtimeDown = false
	m.reconsider()
	if k := m.kubelet; k != nil {
		for _, uid := range append([]types.UID(nil), k.order...) {
			if wk := k.workers[uid]; wk != nil {
				wk.recovered()
			}
		}
	}
}

// stuck says whether something on the machine cannot be killed.
func (w *World) stuck(m *machine) bool {
	for _, uid := range m.runtime.order {
		for _, c := range m.runtime.running(uid) {
			if c.manners.stuck > 0 {
				return true
			}
		}
	}
	return false
}

// replace gives the machine's name to a new machine. Where people are honest about it, the old one is off by then, or the
// Node's own deletion is not what says so: whoever only takes a name over asserts nothing.
func (w *World) replace(a Action, m *machine, d *dice) {
	n := w.newMachine(m.hostname, MachinePlan{Skew: m.skew, Forgets: m.forgets, Ending: Ending(d.upTo(4))})
	if a.Flag {
		m.powerOff()
	} else {
		m.partition() // two of one name cannot both be heard for long
	}
	if d.chance(0.4) {
		w.deleteNode(a, m)
	}
	w.scenes[a.Scene] = n
	// No machine boots within the seconds in which a kubelet starts what was just bound, by clocks that differ.
	n.powerOn(d.between(18*time.Second, 45*time.Second))
}

// deleteNode deletes the Node of a machine. An honest person, or a cloud controller, knows what becomes of the machine: it is
// off already, or is switched off within 30 s, or its kubelet hears the API and kills what the API no longer holds.
func (w *World) deleteNode(a Action, m *machine) {
	if w.plan.Honest {
		switch {
		case !m.powered:
		case m.healthy() && !w.stuck(m) && a.Flag:
			// The kubelet runs on without its Node, and must be able to for as long as anything of the Node's pods may run.
			w.spared[m] = true
		case a.For < 20*time.Second:
			m.powerOff()
		default:
			w.after(min(a.For-20*time.Second, 30*time.Second), func() { w.switchOff(m) })
		}
	}
	name := m.hostname
	w.api.deleteNode(name)
	if w.plan.NodeFinalizers {
		w.after(a.For, func() {
			if w.plan.Honest && !w.spared[m] {
				w.switchOff(m)
			}
			w.api.editNode(name, func(n *corev1.Node) {
				if n.DeletionTimestamp != nil {
					n.Finalizers = nil
				}
			})
		})
	}
}

// switchOff powers a machine off unless everything is being put right by now: its end is another one then.
func (w *World) switchOff(m *machine) {
	if !w.righting {
		m.powerOff()
	}
}

// taint marks the machine's Node out of service. An honest person has switched the machine off.
func (w *World) taint(a Action, m *machine) {
	n, ok := w.api.nodes.get(m.hostname)
	if !ok {
		return
	}
	if w.plan.Honest {
		w.shownBy(n).powerOff()
	}
	effect := corev1.TaintEffectNoExecute
	if !a.Flag && a.Pod%4 == 0 {
		effect = corev1.TaintEffectNoSchedule
	}
	w.mark(n, effect)
}

// shownBy is the machine that a Node describes.
func (w *World) shownBy(n *corev1.Node) *machine {
	for _, m := range w.machines {
		if m.identity.MachineID == n.Status.NodeInfo.MachineID {
			return m
		}
	}
	panic("a Node describes no machine")
}

func (w *World) mark(n *corev1.Node, effect corev1.TaintEffect) {
	if m := w.shownBy(n); m.powered {
		w.lie(Lie{Machine: m, Boot: m.boot, Reason: nodeproof.OutOfService})
	}
	w.api.editNode(n.Name, func(n *corev1.Node) {
		if !tainted(n, facts.TaintOutOfService) {
			setTaints(n, append(append([]corev1.Taint(nil), n.Spec.Taints...), corev1.Taint{Key: facts.TaintOutOfService, Value: "nodeshutdown", Effect: effect}), "kubectl-taint", w.api.now())
		}
	})
}

func (w *World) untaint(name string) {
	if n, ok := w.api.nodes.get(name); ok && tainted(n, facts.TaintOutOfService) {
		w.api.editNode(name, func(n *corev1.Node) {
			var keep []corev1.Taint
			for _, t := range n.Spec.Taints {
				if t.Key != facts.TaintOutOfService {
					keep = append(keep, t)
				}
			}
			setTaints(n, keep, "kubectl-taint", w.api.now())
		})
	}
}

// attestNode is a person's word that nothing of the Node's pods runs: true when its machine is off.
func (w *World) attestNode(n *corev1.Node, m *machine) {
	shown := w.shownBy(n)
	if w.plan.Honest {
		shown.powerOff()
	}
	if shown.powered {
		w.lie(Lie{Machine: shown, Boot: shown.boot, Reason: nodeproof.Attested})
	}
	w.attest(n.UID)
}

func (w *World) attest(uid types.UID) {
	if e := w.engine(); e != nil {
		w.film.comment("attested: " + string(uid))
		e.Attest(uid, nodeproof.Attestation{By: "operator", Reason: "looked", At: facts.At(w.stage.Loop.Now())})
	}
}

// podOf is the pod that an action means.
func (w *World) podOf(a Action) *corev1.Pod {
	var list []*corev1.Pod
	for _, p := range w.api.pods.all() {
		if w.truth.life(p.UID).root == w.plan.Jobs[a.Job].Name {
			list = append(list, p)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[a.Pod%len(list)]
}

func (w *World) actOnPod(a Action, p *corev1.Pod) {
	switch a.Do {
	case DeletePod:
		var grace *int64
		if a.Flag {
			five := int64(5)
			grace = &five
		}
		w.api.deletePod(p.Name, p.UID, grace)
	case ForceDelete:
		none := int64(0)
		w.api.deletePod(p.Name, p.UID, &none)
		if p := w.api.pod(p.UID); p != nil && a.Flag { // and strips the finalizers that hold it
			w.api.editPod(p.UID, func(p *corev1.Pod) { p.Finalizers = nil })
		}
	case ForgeFailed:
		if !ended(p) {
			w.api.editPod(p.UID, func(p *corev1.Pod) {
				p.Status.Phase = corev1.PodFailed
				setOwners(p, "kubectl-edit", stateOwner(p), w.api.now())
			})
		}
	case AttestPod:
		w.attestPod(p.UID)
	case Unlabel:
		w.api.editPod(p.UID, func(p *corev1.Pod) { delete(p.Labels, facts.LabelJobSetName) })
	}
}

// attestPod is a person's word that nothing of the pod runs or will: an honest one looks.
func (w *World) attestPod(uid types.UID) {
	l := w.truth.life(uid)
	clean := len(l.processes) == 0 && w.truth.mayStart(uid) == nil && !w.startable(uid)
	if !clean {
		if w.plan.Honest {
			return
		}
		w.lie(Lie{Pod: uid, Reason: nodeproof.Attested})
	}
	w.attest(uid)
}

// startable says whether the API server holds the pod in a state in which a kubelet, or the scheduler, takes it up.
func (w *World) startable(uid types.UID) bool {
	p := w.api.pod(uid)
	return p != nil && p.DeletionTimestamp == nil && !ended(p)
}

func (w *World) actOnJob(a Action) {
	s := w.api
	plan := w.plan.Jobs[a.Job]
	t, there := s.trainJobs.get(plan.Name)
	switch a.Do {
	case CreateJob:
		if !there {
			t := newTrainJob(plan.Name)
			s.stamp(t, "T")
			s.store(t)
		}
	case DeleteJob:
		if there {
			if a.Policy == metav1.DeletePropagationOrphan {
				w.orphaned[t.GetUID()] = w.jobSetsOf(t.GetUID())
			}
			w.lastDeleted[a.Job] = deletion{t.GetUID(), w.at()}
			s.deleteOwner(t, a.Policy)
		}
	case SuspendJob, ResumeJob:
		if there && suspended(t) != (a.Do == SuspendJob) {
			n := t.DeepCopy()
			_ = unstructured.SetNestedField(n.Object, a.Do == SuspendJob, "spec", "suspend")
			s.store(n)
		}
	case DeleteJobSet:
		if js, ok := s.jobSets.get(plan.Name); ok {
			s.deleteOwner(js, a.Policy)
		}
	case DeleteBatch:
		for _, j := range s.jobs.all() {
			if st := w.jobs.state[j.UID]; st.spec.Name == plan.Name {
				s.deleteOwner(j, a.Policy)
				return
			}
		}
	case LateJobSet:
		last := w.lastDeleted[a.Job]
		after := a.For - (w.at() - last.at)
		if last.uid == "" || after < 0 || w.trainJobHeld(last.uid) || w.plan.Honest && a.For > lateChildren {
			return
		}
		if a.For > lateChildren {
			w.lie(Lie{Job: last.uid})
		}
		w.trainer.late(plan.Name, last.uid, after)
	}
}

// jobSetsOf lists the JobSets that are there and that came from a TrainJob.
func (w *World) jobSetsOf(job types.UID) []types.UID {
	var list []types.UID
	for _, js := range w.api.jobSets.all() {
		if w.sets.roots[js.UID] == job {
			list = append(list, js.UID)
		}
	}
	return list
}

func (w *World) weather(a Action) {
	switch a.Do {
	case RestartDaemon:
		w.daemon.Stop()
		w.film.daemon("stop")
		down := time.Duration(0)
		if a.Flag {
			down = a.For
		}
		w.after(down, w.startDaemon)
	case SlowWatch:
		k := kindNamed(a.Kind)
		w.delay[k] = slowness{a.For / 4, a.For}
		w.after(a.For*2, func() { w.delay[k] = w.baseLag(k) })
	case CutWatch:
		f := stage.Fault{Verb: "watch", Kind: a.Kind, Code: 500, Times: -1}
		l := stage.Fault{Verb: "list", Kind: a.Kind, Code: 500, Times: -1}
		w.fault(f, a.For)
		w.fault(l, a.For)
	case Relist:
		w.film.daemon("relist")
		w.daemon.Relist()
	case FailReads:
		f := stage.Fault{Verb: "get", Kind: a.Kind, Code: 500, Times: -1}
		if a.Flag {
			f.Code, f.Timeout = 0, true
		}
		w.fault(f, a.For)
	case HideNodes:
		w.fault(stage.Fault{Verb: stage.Any, Kind: facts.KindNode, Code: 403, Times: -1}, a.For)
	case APIAway:
		w.fault(stage.Fault{Verb: stage.Any, Code: 503, Times: -1}, a.For)
	}
}

// fault has requests fail for a while. A fault of every verb also ends the watches.
func (w *World) fault(f stage.Fault, d time.Duration) {
	w.film.fault(f)
	w.stage.API.Fail(f)
	w.faults = append(w.faults, f)
	w.after(d, func() { w.lift(f) })
}

func (w *World) lift(f stage.Fault) {
	f.Times = 0
	w.film.fault(f)
	w.stage.API.Lift(f)
}

func kindNamed(name string) stage.Kind {
	switch name {
	case facts.KindNode:
		return stage.Node
	case facts.KindPod:
		return stage.Pod
	case facts.KindJob:
		return stage.Job
	case facts.KindJobSet:
		return stage.JobSet
	}
	return stage.TrainJob
}
