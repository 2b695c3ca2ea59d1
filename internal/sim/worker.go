package sim

import (
	"time"

	"github.com/orphand/orphand/pkg/nodeproof"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// worker is what a kubelet does for one pod.
type worker struct {
	k   *kubelet
	uid types.UID
	// pod is its newest state that the kubelet has heard of.
	pod *corev1.Pod
	// acknowledged is when this kubelet first saw it.
	acknowledged metav1.Time
	// terminating: it is being killed; terminated: nothing of it runs; final: the last status may be posted.
	terminating, terminated, final bool
	// refused: admission did not take it.
	refused bool
	// removed: its object is gone.
	removed  bool
	starting map[string]bool
	// dirty says that the API server may not hold the present status; posting that a post is under way.
	dirty, posting bool
}

// grace is how long the kubelet lets the pod end: the API's grace where it heard of the deletion, else the spec's, and never
// below a second (pod_workers.go, calculateEffectiveGracePeriod).
func (w *worker) grace() time.Duration {
	seconds := int64(corev1.DefaultTerminationGracePeriodSeconds)
	switch {
	case w.pod.DeletionTimestamp != nil:
		seconds = *w.pod.DeletionGracePeriodSeconds
	case w.pod.Spec.TerminationGracePeriodSeconds != nil:
		seconds = *w.pod.Spec.TerminationGracePeriodSeconds
	}
	return time.Duration(max(seconds, 1)) * time.Second
}

func (w *worker) runtime() *runtime { return w.k.m.runtime }

// refuse is a rejection at admission: Failed, and every container status dropped (kubelet.go, rejectPod), though containers
// run. Housekeeping kills them seconds later.
//
// What keeps it from killing them leaves no trace in the API: a process that cannot be killed, a kubelet that is restarted or
// a machine that hangs before it has come to it. This is where weak evidence fails, and why it is called weak: such histories
// are counted apart (see kubelet.unfinished).
func (w *worker) refuse() {
	w.refused, w.terminating = true, true
	if w.k.m.w.unkillable(w.uid, w.k.m) {
		w.k.m.w.lie(Lie{Pod: w.uid, Reason: nodeproof.KubeletConfirmed})
	}
	w.post()
	w.k.later(w.k.dice.between(2*time.Second, 20*time.Second), func() { w.killRefused() })
}

func (w *worker) killRefused() {
	w.k.killOrphan(w.uid)
	w.check()
}

// terminate has the containers stopped within the grace. A later, shorter grace shortens it.
func (w *worker) terminate(grace time.Duration) {
	if w.terminated || w.refused {
		return
	}
	w.terminating = true
	if w.k.m.runtimeDown {
		return // recovered comes when it answers
	}
	for _, c := range w.runtime().running(w.uid) {
		w.runtime().stop(w.uid, c, grace)
	}
}

// recovered: the runtime answers again.
func (w *worker) recovered() {
	if w.terminating {
		w.terminate(w.grace())
	}
	w.sync()
	w.check()
}

// check sees whether a pod that is being terminated has ended. The kubelet goes no further while the runtime reports any of
// its containers running (kubelet.go, SyncTerminatingPod).
func (w *worker) check() {
	if !w.terminating || w.terminated || w.k.m.runtimeDown || len(w.runtime().running(w.uid)) > 0 {
		return
	}
	w.terminated = true
	if w.removed {
		w.k.drop(w)
		w.runtime().forget(w.uid)
		return
	}
	w.post()
	w.k.later(w.k.dice.between(100*time.Millisecond, 3*time.Second), func() { // volumes, cgroups
		w.final = true
		w.post()
	})
}

// current is the newest run of a container in this boot.
func (w *worker) current(name string) *container {
	if c := w.runtime().pods[w.uid].newest(name); c != nil && c.boot == w.k.m.boot {
		return c
	}
	return nil
}

// sync moves a pod on that is to run.
func (w *worker) sync() {
	if w.terminating || w.refused || w.k.m.runtimeDown {
		return
	}
	never := w.pod.Spec.RestartPolicy == corev1.RestartPolicyNever
	if s := w.runtime().pods[w.uid]; never && s != nil && w.beforeThisBoot(s) {
		// Its sandbox is gone, and what has run once is not started again.
		w.terminate(w.grace())
		return
	}
	for i := range w.pod.Spec.InitContainers {
		spec := &w.pod.Spec.InitContainers[i]
		sidecar := spec.RestartPolicy != nil
		c := w.current(spec.Name)
		switch {
		case c == nil:
			w.run(spec.Name, 100*time.Millisecond, 3*time.Second)
			return
		case sidecar && !c.running:
			w.restart(spec.Name)
			return
		case sidecar:
		case c.running:
			return
		case c.exit != 0 && never:
			w.terminate(w.grace())
			return
		case c.exit != 0:
			w.restart(spec.Name)
			return
		}
	}
	done := true
	for i := range w.pod.Spec.Containers {
		name := w.pod.Spec.Containers[i].Name
		c := w.current(name)
		before := w.runtime().pods[w.uid].newest(name)
		switch {
		case c == nil && before != nil && before.exit == 0:
		case c == nil:
			done = false
			w.run(name, 300*time.Millisecond, w.k.m.w.plan.SlowestPull)
		case c.running:
			done = false
		case c.exit != 0 && !never:
			done = false
			w.restart(name)
		}
	}
	if done {
		w.terminate(w.grace()) // the sidecars
	}
}

// done says whether the kubelet will start no container of the pod any more, though it has not come to ending it.
func (w *worker) done() bool {
	if w.pod.Spec.RestartPolicy != corev1.RestartPolicyNever || len(w.starting) > 0 {
		return false
	}
	if s := w.runtime().pods[w.uid]; s != nil && w.beforeThisBoot(s) {
		return true // see sync
	}
	for i := range w.pod.Spec.Containers {
		if w.current(w.pod.Spec.Containers[i].Name) == nil {
			return false
		}
	}
	return true
}

// beforeThisBoot says whether the runtime remembers containers, all of them of an earlier boot.
func (w *worker) beforeThisBoot(s *sandbox) bool {
	for _, name := range s.names {
		if c := s.newest(name); c != nil && c.boot == w.k.m.boot {
			return false
		}
	}
	return len(s.names) > 0
}

func (w *worker) run(name string, from, to time.Duration) {
	if w.starting[name] {
		return
	}
	w.starting[name] = true
	w.k.later(w.k.dice.between(from, to), func() {
		delete(w.starting, name)
		if w.terminating || w.k.m.runtimeDown {
			return
		}
		w.runtime().run(w.uid, name, w.k.m.w.mannersOf(w.pod, name))
		w.post()
		w.sync()
	})
}

// restart starts a container again after the backoff.
func (w *worker) restart(name string) { w.run(name, 2*time.Second, 12*time.Second) }

// post has the status written to the API server, after the status manager's delay. What cannot be written now is written
// when the API server can be reached.
func (w *worker) post() {
	w.dirty = true
	if w.posting {
		return
	}
	w.posting = true
	delay := w.k.dice.between(10*time.Millisecond, 400*time.Millisecond)
	if w.k.dice.chance(w.k.m.w.plan.LatePosts) {
		delay = w.k.dice.between(time.Second, 10*time.Second)
	}
	w.k.later(delay, func() {
		w.posting = false
		w.flush()
	})
}

// flush writes the status, and the kubelet's own DELETE when all is over.
func (w *worker) flush() {
	if !w.dirty || !w.k.m.online() {
		return
	}
	s := w.k.m.w.api
	p := s.pod(w.uid)
	if p == nil {
		return
	}
	w.dirty = false
	status, changed := w.status(p)
	if changed {
		s.editPod(w.uid, func(p *corev1.Pod) {
			before := p.Status.Phase
			p.Status = status
			owner := phaseOwner(p)
			if before != status.Phase || owner == "" {
				owner = w.k.m.w.plan.KubeletName
			}
			setOwners(p, owner, w.k.m.w.plan.KubeletName, s.now())
		})
	}
	if p = s.pod(w.uid); p == nil {
		return
	}
	if w.final && p.DeletionTimestamp != nil && ended(p) || w.refused && p.DeletionTimestamp != nil && ended(p) && w.terminated {
		w.k.later(w.k.dice.between(20*time.Millisecond, 500*time.Millisecond), func() {
			none := int64(0)
			if w.k.m.online() {
				if p := s.pod(w.uid); p != nil {
					s.deletePod(p.Name, w.uid, &none)
				}
			} else {
				w.dirty = true
			}
		})
	}
}
