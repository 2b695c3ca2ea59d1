package sim

import (
	"time"

	"github.com/orphand/orphand/internal/stage"
	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/nodeproof"
	"github.com/orphand/orphand/pkg/settle"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// settleWithin is how long after everything has been put right every job must have settled.
const settleWithin = 15 * time.Minute

// Result is what came of one history.
type Result struct {
	Plan       Plan
	Violations []Violation
	Tally      *Tally
	// Trusted says that nobody lied in it.
	Trusted bool
	film    *film
}

// Play plays a plan. With stop it ends at the first violation.
func Play(p Plan, record bool) Result {
	w := newWorld(p)
	w.film.on = record
	w.begin()
	w.stage.Loop.RunUntil(w.start.Add(p.End))
	if len(w.judge.violations) == 0 {
		w.putRight()
		w.stage.Loop.RunUntil(w.start.Add(p.End + settleWithin))
		if len(w.judge.violations) == 0 {
			w.judge.atEnd()
		}
	}
	t := w.judge.tally
	t.Writes, t.Reads, t.Pods, t.Jobs = w.events, w.reads, w.api.serials["P"], w.api.serials["T"]
	for _, l := range w.truth.pods {
		t.Starts += l.starts
	}
	trusted := len(w.lies) == 0 && t.Excused == 0
	if trusted {
		t.Trusted = 1
	} else {
		t.Untrusted = 1
	}
	return Result{Plan: p, Violations: w.judge.violations, Tally: t, Trusted: trusted, film: w.film}
}

func newWorld(p Plan) *World {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	w := &World{plan: p, start: start, stage: stage.New(start),
		due: map[stage.Kind]time.Duration{}, watchD: map[stage.Kind]*dice{}, delay: map[stage.Kind]slowness{},
		scenes: map[int]*machine{}, spared: map[*machine]bool{}, lastDeleted: map[int]deletion{}, orphaned: map[types.UID][]types.UID{},
		leaving: map[types.UID]time.Duration{}, departed: map[types.UID]time.Duration{}}
	w.api = newAPIServer(w)
	if p.Durable {
		w.records = stage.NewRecords()
	}
	w.truth = newTruth(w)
	w.judge = newJudge(w)
	w.film = &film{w: w}
	for _, k := range []stage.Kind{stage.Node, stage.Pod, stage.Job, stage.JobSet, stage.TrainJob, {Kind: facts.KindConfigMap}} {
		w.watchD[k] = roll(p.Seed, "watch/"+k.Kind)
		w.delay[k] = w.baseLag(k)
	}
	w.readsD = roll(p.Seed, "reads")
	w.enforcing = newEnforcing(w)
	w.stage.API.Latency = func(verb, kind, _, name string) time.Duration {
		if verb != "get" && verb != "list" || w.late() {
			return 0
		}
		w.reads++
		w.film.say("%s of %s %s", verb, kind, name)
		return w.readsD.between(p.Latency.From, p.Latency.To)
	}
	w.trainer = newTrainer(w)
	w.sets = newJobSetController(w)
	w.jobs = newJobController(w)
	w.collector = newCollector(w)
	w.scheduler = newScheduler(w)
	w.lifecycle = newLifecycle(w)
	w.podGC = newPodGC(w)
	w.kueue = &kueue{w: w}
	for _, j := range p.Jobs {
		w.trainer.plans[j.Name] = j
	}
	return w
}

func (w *World) baseLag(k stage.Kind) slowness {
	s := w.plan.Lag[k.Kind]
	if w.righting {
		return slowness{0, 100 * time.Millisecond}
	}
	return slowness{s.From, s.To}
}

// begin sets the world up and has every action happen in its time.
func (w *World) begin() {
	for i, m := range w.plan.Machines {
		w.newMachine("n"+itoa(i), m).powerOn(0)
	}
	d := roll(w.plan.Seed, "begin")
	w.after(d.between(0, period), w.lifecycle.tick)
	w.after(d.between(0, 20*time.Second), w.podGC.tick)
	if w.plan.Kueue {
		w.after(d.between(0, 10*time.Second), w.kueue.tick)
	}
	w.daemon = w.stage.Daemon(stage.Config{
		Sink: w.judge,
		Build: func(p stage.Parts) stage.Process {
			return newSpy(w, p)
		},
		Prepare: func(q *stage.Queue[facts.JobKey]) {
			// One draw for each moment: the keys of one moment come in the order of a map.
			q.Pause = func() time.Duration {
				return w.drowsy(roll(w.plan.Seed, "workers/"+w.at().String()).between(w.plan.Workers.From, w.plan.Workers.To))
			}
		},
	})
	w.after(w.plan.Start, w.startDaemon)
	for i, a := range w.plan.Actions {
		w.after(a.At, func() { w.act(i, a) })
	}
}

func (w *World) newMachine(hostname string, p MachinePlan) *machine {
	id := "m" + itoa(len(w.machines))
	m := &machine{w: w, id: id, identity: facts.Machine{SystemUUID: "sys-" + id, MachineID: "mid-" + id}, hostname: hostname,
		skew: p.Skew, forgets: p.Forgets, ending: p.Ending, healthySince: -1}
	m.runtime = newRuntime(m)
	w.machines = append(w.machines, m)
	return m
}

func (w *World) startDaemon() {
	if w.daemon.Running() {
		return
	}
	w.judge.reborn()
	w.film.daemon("start")
	w.daemon.Start()
}

func (j *judge) reborn() {
	j.life++
	j.unreadable = false
	j.verdicts = map[types.UID]nodeproof.Pair{}
	j.states = map[types.UID]settle.State{}
	j.nodes = map[types.UID]*facts.Node{}
}

// engine is orphand's engine; nil while it does not run.
func (w *World) engine() *settle.Engine {
	if s, ok := w.daemon.Process().(*spy); ok && s != nil {
		return s.engine
	}
	return nil
}

// putRight ends every trouble: the API is well, every machine returns, is rebooted, is gone with its Node, or off and marked
// so; every TrainJob is deleted; and a person vouches for what no evidence can reach any more.
func (w *World) putRight() {
	d := roll(w.plan.Seed, "right")
	w.righting = true
	for k := range w.delay {
		w.delay[k] = w.baseLag(k)
	}
	w.plan.Kueue, w.plan.Unkillable = false, 0
	for _, f := range w.faults {
		w.lift(f)
	}
	w.startDaemon()
	w.enforcing.right()
	for _, c := range w.controllers {
		c.stalled, c.waiting = 0, false
		c.poke()
	}
	for n := range 4 {
		w.after(time.Duration(n)*10*time.Second+time.Second, w.deleteAll)
	}
	taken := map[string]bool{}
	for i := len(w.machines) - 1; i >= 0; i-- { // of two machines of one name the newer keeps it
		m := w.machines[i]
		if taken[m.hostname] {
			m.hostname += "-" + m.id
			m.powerOff()
			m.ending = Reboots
		}
		taken[m.hostname] = true
		w.end(m, d)
	}
	// A machine on which something still cannot be killed is rebooted.
	w.after(5*time.Minute, func() {
		for _, m := range w.machines {
			if w.stuck(m) {
				m.reboot(10 * time.Second)
			}
		}
	})
	// Nodes whose machines have another name by now.
	w.after(10*time.Second, func() {
		for _, n := range w.api.nodes.all() {
			if !taken[n.Name] {
				w.dropNode(n.Name)
			}
		}
	})
	for _, after := range []time.Duration{6 * time.Minute, 8 * time.Minute, 11 * time.Minute, 14 * time.Minute} {
		w.after(after, w.vouch)
	}
}

// deleteAll deletes every TrainJob, and every JobSet that its TrainJob was taken off.
func (w *World) deleteAll() {
	for _, t := range w.api.trainJobs.all() {
		w.api.deleteOwner(t, metav1.DeletePropagationBackground)
	}
	for _, js := range w.api.jobSets.all() {
		if len(js.OwnerReferences) == 0 {
			w.api.deleteOwner(js, metav1.DeletePropagationBackground)
		}
	}
}

// end puts one machine right.
func (w *World) end(m *machine, d *dice) {
	after := d.between(2*time.Second, 30*time.Second)
	switch m.ending {
	case Returns, Reboots:
		w.untaint(m.hostname)
		if m.ending == Reboots || w.stuck(m) {
			m.reboot(after)
		}
		m.powerOn(after)
		m.thaw()
		m.heal()
		w.mendRuntime(m)
		if m.kubelet == nil || m.kubelet.m.hostname != m.hostname {
			w.after(after, func() {
				if m.kubelet == nil {
					m.startKubelet(false)
				}
			})
		}
		// A Node that was deleted comes back when the kubelet is restarted.
		w.after(after+40*time.Second, func() {
			if _, there := w.api.nodes.get(m.hostname); !there {
				m.startKubelet(false)
			}
		})
	case Deleted:
		m.powerOff()
		w.after(after, func() { w.dropNode(m.hostname) })
	case Fenced:
		m.powerOff()
		w.untaint(m.hostname)
		w.after(w.plan.NodeGrace+after+10*time.Second, func() {
			if n, ok := w.api.nodes.get(m.hostname); ok {
				w.mark(n, corev1.TaintEffectNoExecute)
			}
		})
	}
}

func (w *World) dropNode(name string) {
	w.api.deleteNode(name)
	w.api.editNode(name, func(n *corev1.Node) { n.Finalizers = nil })
}

// vouch is a person who looks for every pod that is not Gone, and attests where nothing runs.
func (w *World) vouch() {
	for _, j := range w.engine().Jobs() {
		for _, p := range j.Pods {
			l := w.truth.life(p.UID)
			if p.Verdict == nodeproof.Gone || len(l.processes) > 0 || w.truth.mayStart(p.UID) != nil || w.startable(p.UID) {
				continue
			}
			w.judge.tally.Attested[p.Pair]++
			w.attest(p.UID)
		}
	}
}

// trainJobHeld says whether the API server holds the TrainJob with the UID.
func (w *World) trainJobHeld(job types.UID) bool {
	for _, t := range w.api.trainJobs.all() {
		if t.GetUID() == job {
			return true
		}
	}
	return false
}

// starter names a JobSet or Job of the job that may still make pods; empty when there is none.
func (w *World) starter(job types.UID) string {
	for _, js := range w.api.jobSets.all() {
		if (w.sets.roots[js.UID] == job || facts.UnknownPrefix+js.UID == job) && js.DeletionTimestamp == nil && !finishedJobSet(js) {
			return "JobSet " + string(js.UID)
		}
	}
	for _, b := range w.api.jobs.all() {
		st := w.jobs.state[b.UID]
		if (st.root == job || facts.UnknownPrefix+st.jobSet == job) && b.DeletionTimestamp == nil && !st.over() {
			return "Job " + string(b.UID)
		}
	}
	return ""
}

// ofJob lists the pods of a job, oldest first.
func (t *truth) ofJob(job types.UID) []*life {
	var list []*life
	for _, l := range t.order {
		if l.job == job || facts.UnknownPrefix+l.jobSet == job {
			list = append(list, l)
		}
	}
	return list
}
