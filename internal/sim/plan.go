package sim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Plan is a history before it is played: how its world is set up, and what is done in it. Playing a plan twice gives the
// same history.
type Plan struct {
	Seed uint64
	// Honest says that no person in it breaks an assumption that Kubernetes makes (see Lie).
	Honest   bool
	Machines []MachinePlan
	Jobs     []JobPlan
	Actions  []Action
	// End is when the last action is over and everything begins to be put right.
	End time.Duration

	APISkew time.Duration
	// NodeGrace is --node-monitor-grace-period, Toleration the pods' tolerationSeconds, TaintDelay the zone's rate limit of
	// NoExecute taints at its worst.
	NodeGrace, Toleration, TaintDelay time.Duration
	// SlowestPull bounds how long a container takes to start.
	SlowestPull time.Duration
	// The probabilities that a status is posted seconds late, that a process ends by itself, that it cannot be killed, that a
	// controller with a stale cache makes a child too late, that a pod has a scheduling gate.
	LatePosts, ShortRuns, Unkillable, StaleControllers, Gated float64
	NodeFinalizers, Kueue                                     bool
	// KubeletName and ManagerName are the field managers of the kubelet and of the controller manager.
	KubeletName, ManagerName string
	// Lag is how far the watches lag, by kind; Latency how long a live read takes.
	Lag     map[string]Slowness
	Latency Slowness
	// Workers is how long orphand's queue lets a key wait.
	Workers Slowness
	// Durable says that orphand can keep its records.
	Durable bool
	// Start is when orphand is started.
	Start time.Duration
	// Enforce says how it deletes.
	Enforce Enforce
}

// Slowness bounds a random delay.
type Slowness struct{ From, To time.Duration }

// MachinePlan is one machine at the beginning, and how it is put right at the end.
type MachinePlan struct {
	Skew    time.Duration
	Forgets bool
	Ending  Ending
}

// Ending is what becomes of a machine at the end of a history.
type Ending uint8

// The endings.
const (
	Returns Ending = iota
	Reboots
	Deleted
	Fenced
)

// JobPlan is one TrainJob.
type JobPlan struct {
	Name                             string
	Jobs, Pods, Backoff, MaxRestarts int
	Grace                            int64
	RestartPolicy                    corev1.RestartPolicy
	Second, Init, Sidecar            bool
}

func (p *Plan) chanceGated(d *dice) bool { return d.chance(p.Gated) }

// Verb is what an action does.
type Verb string

// The verbs. Those of a machine mean the machine of their scene: the one that has the most of the scene's job when the
// scene begins.
const (
	Cut            Verb = "cut"
	Heal           Verb = "heal"
	Freeze         Verb = "freeze"
	Thaw           Verb = "thaw"
	PowerOff       Verb = "power-off"
	PowerOn        Verb = "power-on"
	Reboot         Verb = "reboot"
	StopKubelet    Verb = "stop-kubelet"
	StartKubelet   Verb = "start-kubelet"
	RestartKubelet Verb = "restart-kubelet"
	RejectingStart Verb = "restart-kubelet-that-rejects"
	RuntimeDown    Verb = "runtime-down"
	RuntimeUp      Verb = "runtime-up"
	Rename         Verb = "rename"
	Replace        Verb = "replace"
	DeleteNode     Verb = "delete-node"
	Rejoin         Verb = "delete-node-and-rejoin"
	Taint          Verb = "taint"
	Untaint        Verb = "untaint"
	AttestNode     Verb = "attest-node"

	CreateJob     Verb = "create-trainjob"
	DeleteJob     Verb = "delete-trainjob"
	SuspendJob    Verb = "suspend-trainjob"
	ResumeJob     Verb = "resume-trainjob"
	DeleteJobSet  Verb = "delete-jobset"
	DeleteBatch   Verb = "delete-job"
	LateJobSet    Verb = "late-jobset"
	DeletePod     Verb = "delete-pod"
	ForceDelete   Verb = "force-delete-pod"
	ForgeFailed   Verb = "forge-failed"
	AttestPod     Verb = "attest-pod"
	Unlabel       Verb = "unlabel-pod"
	StallGC       Verb = "stall-gc"
	StallJobs     Verb = "stall-jobs"
	StallTrainer  Verb = "stall-trainer"
	RestartDaemon Verb = "restart-orphand"
	SlowWatch     Verb = "slow-watch"
	CutWatch      Verb = "cut-watch"
	Relist        Verb = "relist"
	FailReads     Verb = "fail-reads"
	HideNodes     Verb = "forbid-nodes"
	APIAway       Verb = "api-away"
)

// Action is one thing that is done.
type Action struct {
	At time.Duration
	Do Verb
	// Scene tells the machines of several troubles apart; Job is the job, and Pod the pod of it, counted among those that
	// there are.
	Scene, Job, Pod int
	// For is how long it lasts, or how long after the first half of it the second comes.
	For time.Duration
	// Kind is the kind of a watch or read, Policy that of a deletion.
	Kind   string
	Policy metav1.DeletionPropagation
	// Flag chooses among variants.
	Flag bool
}

// NewPlan makes the plan of a seed.
func NewPlan(seed uint64) Plan {
	d := roll(seed, "plan")
	p := Plan{Seed: seed, Honest: d.chance(0.8),
		NodeGrace: 50 * time.Second, Toleration: pick[time.Duration](d, 300, 300, 60, 10) * time.Second, TaintDelay: 20 * time.Second,
		SlowestPull: pick[time.Duration](d, 2, 2, 10, 60) * time.Second,
		KubeletName: "kubelet", ManagerName: manager,
		Kueue: d.chance(0.15), NodeFinalizers: d.chance(0.1),
	}
	if d.chance(0.3) {
		p.NodeGrace = d.between(14*time.Second, 20*time.Second)
	}
	if d.chance(0.1) { // kubelet and controllers in one program
		p.KubeletName, p.ManagerName = "k3s", "k3s"
	}
	if d.chance(0.4) {
		p.APISkew = d.between(0, 10*time.Second) - 5*time.Second
	}
	p.LatePosts = pick(d, 0, 0.1, 0.5)
	p.ShortRuns = pick(d, 0, 0.1, 0.4)
	p.Unkillable = pick(d, 0, 0, 0.2)
	p.StaleControllers = pick(d, 0, 0, 0.3)
	p.Gated = pick(d, 0, 0, 0, 0.1)
	p.Latency = pick(d, Slowness{}, Slowness{0, 50 * time.Millisecond}, Slowness{0, 3 * time.Second}, Slowness{time.Second, 12 * time.Second})
	p.Workers = pick(d, Slowness{}, Slowness{0, 100 * time.Millisecond}, Slowness{0, 2 * time.Second})
	p.Lag = map[string]Slowness{}
	for _, k := range watched() {
		p.Lag[k] = pick(d, Slowness{0, 30 * time.Millisecond}, Slowness{0, 30 * time.Millisecond}, Slowness{0, 800 * time.Millisecond}, Slowness{0, 4 * time.Second}, Slowness{time.Second, 20 * time.Second})
	}
	p.Durable = d.chance(0.5)
	if d.chance(0.5) {
		p.Start = d.between(0, 90*time.Second)
	}
	for range 2 + d.upTo(3) {
		m := MachinePlan{Forgets: d.chance(0.3), Ending: Ending(d.upTo(4))}
		if d.chance(0.4) {
			m.Skew = d.between(0, 12*time.Second) - 6*time.Second
		}
		p.Machines = append(p.Machines, m)
	}
	for i := range 1 + d.upTo(2) {
		p.Jobs = append(p.Jobs, planJob(d, i))
	}
	for i := range p.Jobs {
		p.Actions = append(p.Actions, Action{At: d.between(2*time.Second, 40*time.Second), Do: CreateJob, Job: i})
	}
	if d.chance(0.2) {
		p.drill(d)
	} else {
		if d.chance(0.4) {
			p.crucible(d)
		} else {
			p.troubles(d)
		}
		if d.chance(0.3) {
			p.coincidence(d)
		}
	}
	slices.SortStableFunc(p.Actions, func(a, b Action) int { return cmp.Compare(a.At, b.At) })
	p.End = p.Actions[len(p.Actions)-1].At + d.between(5*time.Second, time.Minute)
	p.enforce()
	return p
}

// String is the plan in a few lines, for a person.
func (p Plan) String() string {
	s := fmt.Sprintf("seed %d: %d machines, NodeGrace %s, Toleration %s, latency %s, lag %v", p.Seed, len(p.Machines), p.NodeGrace, p.Toleration, p.Latency.To, p.Lag)
	for _, j := range p.Jobs {
		s += fmt.Sprintf("; %s of %d x %d pods, grace %d s, %s", j.Name, j.Jobs, j.Pods, j.Grace, j.RestartPolicy)
	}
	return s
}

func watched() []string {
	return []string{facts.KindNode, facts.KindPod, facts.KindJob, facts.KindJobSet, facts.KindTrainJob}
}

func planJob(d *dice, i int) JobPlan {
	return JobPlan{
		Name: "job-" + itoa(i), Jobs: 1 + d.upTo(2), Pods: 1 + d.upTo(2), Backoff: d.upTo(4), MaxRestarts: d.upTo(3),
		Grace:         pick[int64](d, 30, 30, 30, 2, 10, 120, 600, 0),
		RestartPolicy: pick(d, corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure),
		Second:        d.chance(0.2), Init: d.chance(0.2), Sidecar: d.chance(0.15),
	}
}

// pause is the time to the next step of a trouble: most that is dangerous happens close together.
func pause(d *dice) time.Duration {
	switch n := d.upTo(100); {
	case n < 30:
		return d.between(20*time.Millisecond, 2*time.Second)
	case n < 60:
		return d.between(2*time.Second, 20*time.Second)
	case n < 88:
		return d.between(20*time.Second, 90*time.Second)
	}
	return d.between(90*time.Second, 6*time.Minute)
}

// troubles plans what goes wrong.
func (p *Plan) troubles(d *dice) {
	var last time.Duration
	for scene := range 1 + d.upTo(2) {
		at := d.between(15*time.Second, 3*time.Minute)
		job := d.upTo(len(p.Jobs))
		for _, do := range walk(d) {
			p.Actions = append(p.Actions, Action{At: at, Do: do, Scene: scene, Job: job, Pod: d.upTo(8), For: pause(d), Flag: d.chance(0.5)})
			last = max(last, at)
			at += pause(d)
		}
	}
	for i := range p.Jobs {
		n := 1
		if d.chance(0.25) {
			n = 2 // deleted, made again under the same name, and deleted again
		}
		at := d.between(20*time.Second, last+30*time.Second)
		for again := range n {
			if again > 0 {
				p.Actions = append(p.Actions, Action{At: at, Do: CreateJob, Job: i})
				at += d.between(5*time.Second, 3*time.Minute)
			}
			a := Action{At: at, Do: DeleteJob, Job: i, Policy: metav1.DeletePropagationBackground}
			switch x := d.upTo(100); {
			case x < 12:
				a.Policy = metav1.DeletePropagationForeground
			case x < 15:
				a.Policy = metav1.DeletePropagationOrphan
			}
			p.Actions = append(p.Actions, a)
			if d.chance(0.08) {
				p.Actions = append(p.Actions, Action{At: at, Do: LateJobSet, Job: i, For: pick(d, d.between(200*time.Millisecond, lateChildren), d.between(200*time.Millisecond, 20*time.Second))})
			}
			at += pause(d)
		}
	}
	for range d.upTo(4) {
		p.Actions = append(p.Actions, p.people(d, d.between(20*time.Second, last+time.Minute)))
	}
	for range d.upTo(4) {
		p.Actions = append(p.Actions, weather(d, d.between(time.Second, last+time.Minute)))
	}
}

// plots are what is known to go wrong: each is a way in which somebody was once taken for dead.
func plots() [][]Verb {
	return [][]Verb{
		{Cut, PowerOff, Taint, PowerOn, Heal, Cut}, // a taint that is forgotten
		{PowerOff, Taint, PowerOn, Freeze},
		{Cut, Reboot, Heal},
		{Reboot, Cut, Reboot, Heal},
		{Cut, Replace, Heal, DeleteNode},
		{Replace, Cut, Replace},
		{PowerOff, DeleteNode, PowerOn},
		{Cut, DeleteNode, Heal, RestartKubelet},
		{Rejoin, Cut, Reboot, Heal},
		{PowerOff, AttestNode, PowerOn, Cut},
		{RejectingStart, Cut},
		{RuntimeDown, RuntimeUp, Cut},
		{Rename, DeleteNode, Reboot},
		{Freeze, Taint, Thaw},
		{PowerOff, Taint, Untaint, PowerOn},
		{StopKubelet, StartKubelet, Cut, DeleteNode},
	}
}

// coincidence plans what is only dangerous when it happens within seconds: to a job that was just made, or is about to go,
// while a watch is broken or behind.
func (p *Plan) coincidence(d *dice) {
	job := d.upTo(len(p.Jobs))
	made := p.Actions[job].At
	near := func(at time.Duration, do Verb, kind string, last time.Duration) {
		p.Actions = append(p.Actions, Action{At: max(at, time.Second), Do: do, Job: job, Scene: 9, Pod: d.upTo(4), Kind: kind, For: last, Flag: true, Policy: metav1.DeletePropagationBackground})
	}
	soon := func() time.Duration { return d.between(200*time.Millisecond, 12*time.Second) }
	gap := d.between(15*time.Second, time.Minute)
	switch d.upTo(10) {
	case 0: // a pod is seen unbound, then bound, started and removed in a gap
		near(made+d.between(700*time.Millisecond, 3*time.Second), CutWatch, facts.KindPod, gap)
		near(made+4*time.Second+soon(), Cut, "", 0)
		near(made+6*time.Second+soon(), ForceDelete, "", 0)
	case 1: // children are seen, their TrainJob is not
		near(made-soon(), SlowWatch, facts.KindTrainJob, 2*gap)
		near(made+2*soon(), DeleteJobSet, "", 0)
		near(made+2*soon(), StallTrainer, "", gap)
	case 2: // a pod is made to look unselected before it is bound
		near(made+d.between(300*time.Millisecond, 2*time.Second), Unlabel, "", 0)
		near(made+soon(), StallJobs, "", gap)
	case 3: // a Node goes and comes back in a gap of its watch
		near(made+20*time.Second+soon(), Rejoin, "", soon())
		near(made+20*time.Second+soon(), CutWatch, facts.KindNode, gap)
		near(made+22*time.Second+soon(), DeleteJob, "", 0)
	case 4: // a job is deleted and made again in a gap
		near(made+10*time.Second, CutWatch, facts.KindTrainJob, gap)
		near(made+11*time.Second, DeleteJob, "", 0)
		near(made+12*time.Second+soon(), CreateJob, "", 0)
	case 5: // a taint is forgotten, and orphand begins to look in the next outage
		near(made+15*time.Second, PowerOff, "", 0)
		near(made+30*time.Second+p.NodeGrace, Taint, "", 0)
		near(made+45*time.Second+p.NodeGrace, PowerOn, "", 0)
		near(made+100*time.Second+p.NodeGrace+soon(), Cut, "", 0)
		near(made+105*time.Second+2*p.NodeGrace+soon(), pick(d, RestartDaemon, DeleteJob, DeletePod), "", 0)
		near(made+120*time.Second+2*p.NodeGrace+soon(), pick(d, RestartDaemon, DeleteJob, DeletePod), "", 0)
	case 6: // a machine boots, starts the pod again, and the watch of Nodes is behind when the pod is asked to terminate
		near(made+20*time.Second, SlowWatch, facts.KindNode, 2*gap)
		near(made+21*time.Second+soon(), Reboot, "", 0)
		near(made+40*time.Second+soon(), DeleteJob, "", 0)
	case 7: // a machine whose Node was deleted comes back under another name in a gap of the watch of Nodes, and can end nothing
		p.Jobs[job].Grace = 2
		near(made+15*time.Second, Rejoin, "", 25*time.Second)
		near(made+16*time.Second, CutWatch, facts.KindNode, d.between(50*time.Second, 80*time.Second))
		near(made+16*time.Second, RuntimeDown, "", 0)
		near(made+17*time.Second+soon(), Rename, "", 0)
		near(made+18*time.Second+soon(), DeleteJob, "", 0)
		p.without(Rename)
	case 8: // another machine takes over the Node, starts the pod again, and loses the Node, before anybody sees the pod
		near(made+10*time.Second, CutWatch, facts.KindPod, d.between(70*time.Second, 90*time.Second))
		near(made+11*time.Second, RestartDaemon, "", 3*time.Second)
		near(made+15*time.Second+soon(), Replace, "", 0)
		near(made+55*time.Second+soon(), Rejoin, "", soon())
		near(made+100*time.Second+soon(), DeleteJob, "", 0)
		p.without(Replace)
	case 9: // a person vouches for a pod whose kubelet, which has not heard of its deletion, starts it again
		p.Jobs[job].RestartPolicy, p.ShortRuns = corev1.RestartPolicyOnFailure, 0.9
		near(made+15*time.Second, Cut, "", 0)
		near(made+18*time.Second, DeletePod, "", 0)
		near(made+19*time.Second+soon(), AttestPod, "", 0)
		near(made+60*time.Second+gap, Heal, "", 0)
	}
}

// without takes the flag off the coincidence's actions of the verb.
func (p *Plan) without(do Verb) {
	for i := range p.Actions {
		if a := &p.Actions[i]; a.Do == do && a.Scene == 9 {
			a.Flag = false
		}
	}
}

// crucible makes the world small, and has much happen in it at once: to one machine and those that take its name, to one job,
// and to the watches that tell of them.
func (p *Plan) crucible(d *dice) {
	p.Machines = p.Machines[:1+d.upTo(2)]
	p.Jobs, p.Actions = p.Jobs[:1], p.Actions[:1]
	p.Jobs[0].Jobs = 1
	p.NodeGrace = d.between(14*time.Second, 20*time.Second)
	p.SlowestPull = pick[time.Duration](d, 1, 2, 10) * time.Second
	if p.Latency.To > 5*time.Second {
		p.Latency = Slowness{}
	}
	made := p.Actions[0].At
	// The second scene keeps the machine that had the name first.
	p.Actions = append(p.Actions, Action{At: made + 8*time.Second, Do: Heal, Scene: 1})
	at := made + d.between(2*time.Second, 20*time.Second)
	for range 5 + d.upTo(9) {
		a := Action{At: at, Scene: d.upTo(2), Pod: d.upTo(2), For: d.between(time.Second, time.Minute), Flag: d.chance(0.5), Policy: metav1.DeletePropagationBackground,
			Kind: pick(d, facts.KindNode, facts.KindNode, facts.KindPod)}
		switch x := d.upTo(100); {
		case x < 45:
			a.Do = pick(d, Cut, Cut, Heal, Heal, Heal, PowerOff, PowerOn, Reboot, Reboot, Freeze, Thaw, StopKubelet, RestartKubelet, RejectingStart, RuntimeDown, RuntimeUp,
				Replace, Replace, Replace, DeleteNode, DeleteNode, Rejoin, Rejoin, Taint, Taint, AttestNode, Rename)
		case x < 65:
			a.Do = pick(d, DeletePod, DeletePod, ForceDelete, ForceDelete, DeleteJob, DeleteJob, DeleteJobSet, AttestPod, ForgeFailed)
		default:
			a.Do = pick(d, SlowWatch, SlowWatch, CutWatch, CutWatch, RestartDaemon, RestartDaemon, Relist)
		}
		p.Actions = append(p.Actions, a)
		at += pick(d, d.between(0, time.Second), d.between(0, 6*time.Second), d.between(0, 25*time.Second))
	}
}

// walk is a sequence of what happens to one machine.
func walk(d *dice) []Verb {
	var list []Verb
	if d.chance(0.35) {
		return pick(d, plots()...)
	}
	n := 2 + d.upTo(5)
	for len(list) < n {
		switch x := d.upTo(100); {
		case x < 20:
			list = append(list, Cut)
		case x < 29:
			list = append(list, Heal)
		case x < 33:
			list = append(list, Freeze)
		case x < 37:
			list = append(list, Thaw)
		case x < 44:
			list = append(list, PowerOff)
		case x < 51:
			list = append(list, PowerOn)
		case x < 60:
			list = append(list, Reboot)
		case x < 62:
			list = append(list, StopKubelet)
		case x < 64:
			list = append(list, StartKubelet)
		case x < 67:
			list = append(list, RestartKubelet)
		case x < 70:
			list = append(list, RejectingStart)
		case x < 73:
			list = append(list, RuntimeDown)
		case x < 75:
			list = append(list, RuntimeUp)
		case x < 77:
			list = append(list, Rename)
		case x < 82:
			list = append(list, Replace)
		case x < 87:
			list = append(list, DeleteNode)
		case x < 90:
			list = append(list, Rejoin)
		case x < 96:
			list = append(list, Taint)
		case x < 98:
			list = append(list, Untaint)
		default:
			list = append(list, AttestNode)
		}
	}
	return list
}

// people plans what somebody does with kubectl, or another controller does to a job.
func (p *Plan) people(d *dice, at time.Duration) Action {
	a := Action{At: at, Job: d.upTo(len(p.Jobs)), Pod: d.upTo(8), For: pause(d), Flag: d.chance(0.5), Policy: metav1.DeletePropagationBackground}
	a.Do = pick(d, DeletePod, ForceDelete, ForceDelete, ForceDelete, ForgeFailed, AttestPod, DeleteJobSet, DeleteBatch, SuspendJob, ResumeJob,
		StallGC, StallJobs, StallTrainer, Unlabel)
	return a
}

// weather plans what goes wrong between orphand and the API server.
func weather(d *dice, at time.Duration) Action {
	a := Action{At: at, For: d.between(time.Second, 90*time.Second), Kind: pick(d, watched()...), Flag: d.chance(0.5)}
	a.Do = pick(d, RestartDaemon, SlowWatch, SlowWatch, CutWatch, CutWatch, Relist, FailReads, HideNodes, APIAway)
	return a
}
