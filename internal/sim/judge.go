package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/informers"
	"github.com/orphand/orphand/pkg/nodeproof"
	"github.com/orphand/orphand/pkg/settle"
	"github.com/orphand/orphand/pkg/signals"
	"k8s.io/apimachinery/pkg/types"
)

// Invariant names what may never be broken.
type Invariant string

// The invariants.
const (
	// GoneIsGone: no process of a pod that was said to be Gone runs, and none can start.
	GoneIsGone Invariant = "I1"
	// SettledIsOver: the same for every pod of a job that was said to be Settled or Cleared, and nothing is left that can
	// start one.
	SettledIsOver Invariant = "I2"
	// NothingUnsaid: what was said is never taken back, or contradicted by what orphand sees, without a finding.
	NothingUnsaid Invariant = "I3"
	// EverythingSettles: when everything has been put right, every job settles in time.
	EverythingSettles Invariant = "I4"
)

// Violation is a broken invariant.
type Violation struct {
	Invariant Invariant
	At        time.Duration
	Pod, Job  types.UID
	// Name is the job's name.
	Name string
	// What is one sentence for a person.
	What string
}

// String is the violation in one line.
func (v Violation) String() string { return fmt.Sprintf("%s at %s: %s", v.Invariant, v.At, v.What) }

// judge compares what orphand says with what is true.
type judge struct {
	w          *World
	violations []Violation
	// gone is what was said of each pod that was said to be Gone, over orphand's restarts; over the same of jobs.
	gone map[types.UID]word
	over map[types.UID]word
	// verdicts and states are what was last said in this life of orphand.
	verdicts map[types.UID]nodeproof.Pair
	states   map[types.UID]settle.State
	// findings are the codes raised for each job, in all lives; seen the pods that reached orphand, and in which life.
	findings map[types.UID]map[signals.Finding]time.Duration
	standing map[standing]int
	seen     map[types.UID]int
	life     int
	// unreadable says that orphand was told that it may not read Nodes.
	unreadable bool
	// owed are the findings that a job must have raised by the end, and since when the contradiction has been visible.
	owed map[standing]time.Duration
	// held are the machines that orphand was shown to have a Node, and in which life of it last; nodes the Nodes in this one;
	// promised the pods that its records named when it was stopped last.
	held     map[holding]int
	nodes    map[types.UID]*facts.Node
	promised map[types.UID]bool
	// fathered are the JobSets that orphand was shown to be a TrainJob's, and in which life of it last.
	fathered map[types.UID]int
	// unselected are the pods of which the watch said that they no longer match, and in which life of orphand last.
	unselected map[types.UID]int
	// wentDisguised are the pods that were disguised when they were removed.
	wentDisguised map[types.UID]bool
	names         map[types.UID]string
	tally         *Tally
}

// holding is a Node that shows a machine.
type holding struct {
	node    types.UID
	machine facts.Machine
}

// standing names the findings of one code that were raised for a job and have not ended.
type standing struct {
	job     types.UID
	finding signals.Finding
}

// word is what was said, when, and in which life of orphand.
type word struct {
	at     time.Duration
	reason nodeproof.Reason
	life   int
	job    types.UID
	// machine and boot are those that the Node showed which the word stands on; empty where it stands on none.
	machine facts.Machine
	boot    string
}

func newJudge(w *World) *judge {
	return &judge{w: w, gone: map[types.UID]word{}, over: map[types.UID]word{}, verdicts: map[types.UID]nodeproof.Pair{}, states: map[types.UID]settle.State{},
		findings: map[types.UID]map[signals.Finding]time.Duration{}, seen: map[types.UID]int{}, owed: map[standing]time.Duration{},
		held: map[holding]int{}, nodes: map[types.UID]*facts.Node{}, fathered: map[types.UID]int{}, names: map[types.UID]string{}, standing: map[standing]int{}, unselected: map[types.UID]int{}, promised: map[types.UID]bool{}, wentDisguised: map[types.UID]bool{}, tally: newTally()}
}

func (j *judge) violate(i Invariant, pod, job types.UID, format string, args ...any) {
	j.w.film.say("VIOLATION %s %s", i, fmt.Sprintf(format, args...))
	j.violations = append(j.violations, Violation{Invariant: i, At: j.w.at(), Pod: pod, Job: job, Name: j.names[job], What: fmt.Sprintf(format, args...)})
}

// Emit hears what orphand says.
func (j *judge) Emit(e signals.Event) {
	job := types.UID(e.UID)
	if e.Job != "" {
		j.names[job] = e.Job
	}
	j.w.film.say("SAYS %s %s %s %s/%s %s %s [%s] %s", e.Name(), e.Phase, e.Pod+"@"+e.PodUID, e.Verdict, e.Reason, e.State, e.UID, e.Evidence, e.Message)
	if e.Namespace == otherNamespace {
		return // what was copied there is another job, by its namespace
	}
	switch {
	case e.Finding != "":
		j.tally.Findings[string(e.Finding)+"/"+string(e.Phase)]++
		if e.Phase == signals.Started {
			if j.findings[job] == nil {
				j.findings[job] = map[signals.Finding]time.Duration{}
			}
			j.findings[job][e.Finding] = j.w.at()
			j.standing[standing{job, e.Finding}]++
		} else {
			j.standing[standing{job, e.Finding}]--
		}
	case e.Code == signals.KindStateChanged:
		j.kind(e)
	case e.Code == signals.PodVerdictChanged:
		j.verdict(types.UID(e.PodUID), job, nodeproof.Pair{Verdict: nodeproof.Verdict(e.Verdict), Reason: nodeproof.Reason(e.Reason)}, e)
	case e.Code == signals.JobStateChanged:
		j.state(job, settle.State(e.State))
	}
}

// kind hears of what orphand may read.
func (j *judge) kind(e signals.Event) {
	for _, a := range e.Attrs {
		if a.Key == "kind" && a.Value == facts.KindNode && (e.State == string(informers.Watching) || e.State == string(informers.Forbidden)) {
			j.unreadable = e.State == string(informers.Forbidden)
		}
	}
}

func (j *judge) verdict(pod, job types.UID, now nodeproof.Pair, e signals.Event) {
	j.tally.Verdicts[now]++
	if strings.HasSuffix(e.Evidence, "(weak)") {
		j.tally.Weak++
	}
	before := j.verdicts[pod]
	j.verdicts[pod] = now
	if now.Verdict != nodeproof.Gone {
		if before.Verdict == nodeproof.Gone {
			j.withdrawn(NothingUnsaid, pod, job, j.gone[pod].at, "pod %s was %s/%s and is %s/%s", pod, before.Verdict, before.Reason, now.Verdict, now.Reason)
		}
		return
	}
	if j.unreadable && now.Reason != nodeproof.NeverStarted && now.Reason != nodeproof.Attested && j.gone[pod].at == 0 {
		j.violate(GoneIsGone, pod, job, "pod %s is said to be Gone/%s (%s), but nobody may read Nodes, and so tell machines apart", pod, now.Reason, e.Evidence)
	}
	j.gone[pod] = j.standsOn(word{at: j.w.at(), reason: now.Reason, life: j.life, job: job}, e.Evidence)
	if what := j.couldRun(pod); what != "" {
		j.violate(GoneIsGone, pod, job, "pod %s is said to be Gone/%s (%s), but %s", pod, now.Reason, e.Evidence, what)
	}
}

// standsOn completes a word with what orphand was shown last of the Node that its evidence names, as "node/<name>@<uid> ...".
func (j *judge) standsOn(said word, evidence string) word {
	name, _, _ := strings.Cut(evidence, " ")
	name, _, _ = strings.Cut(name, ":")
	_, uid, _ := strings.Cut(name, "@")
	if n := j.nodes[types.UID(uid)]; n != nil && strings.HasPrefix(evidence, "node/") {
		said.machine, said.boot = n.Machine, n.Boot
	}
	return said
}

// withdrawn: something that was said at from was taken back. A moment later there must have been a finding for it.
func (j *judge) withdrawn(i Invariant, pod, job types.UID, from time.Duration, format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	j.w.after(time.Second, func() {
		for _, f := range []signals.Finding{signals.NodeReturned, signals.ReExecution} {
			if at, raised := j.findings[job][f]; raised && at >= from || j.standing[standing{job, f}] > 0 {
				return
			}
		}
		j.violate(i, pod, job, "%s, and no finding says why", what)
	})
}

// couldRun says what speaks against a pod being gone; nothing when it is, or somebody's lie excuses it.
func (j *judge) couldRun(pod types.UID) string {
	w := j.w
	for _, p := range w.truth.life(pod).processes {
		if !w.covered(pod, p.machine) {
			return fmt.Sprintf("%s runs on machine %s in boot %s since %s", p.container.name, p.machine.id, p.boot, p.since)
		}
		j.tally.Excused++
	}
	if m := w.truth.mayStart(pod); m != nil && !w.covered(pod, m) {
		return "the kubelet of machine " + m.id + " may start it"
	}
	if w.startable(pod) && !j.disguised(pod) {
		return "its object is there, not asked to terminate: whoever owns the node's name may start it"
	}
	return ""
}

// disguised says whether somebody took the label off a pod by which the watch selects it, and orphand was not told: it was
// down, or its watch was broken. Those labels are their controllers', and nobody is supposed to take them off; where the watch
// says that a pod no longer matches, a live read must find it.
func (j *judge) disguised(pod types.UID) bool {
	p := j.w.api.pod(pod)
	if p == nil {
		return j.wentDisguised[pod]
	}
	return p.Labels[facts.LabelJobSetName] == "" && j.unselected[pod] != j.life
}

// removes notes in what guise a pod goes: nothing in the API tells of it later.
func (j *judge) removes(pod types.UID) { j.wentDisguised[pod] = j.disguised(pod) }

// started: a process has begun.
func (j *judge) started(l *life, m *machine, c *container) {
	j.w.film.say("process %s of %s starts on %s %s (%s) stuck=%s", c.name, l.uid, m.id, m.boot, c.id, c.manners.stuck)
	if said, ok := j.gone[l.uid]; ok && !j.w.covered(l.uid, m) {
		j.violate(GoneIsGone, l.uid, l.job, "container %s of pod %s starts on machine %s in boot %s, %s after it was said to be Gone/%s", c.name, l.uid, m.id, m.boot, j.w.at()-said.at, said.reason)
	}
	if said, ok := j.over[l.job]; ok && !j.excused(l, m, said) {
		j.violate(SettledIsOver, l.uid, l.job, "container %s of pod %s starts on machine %s, %s after job %s was said to be over", c.name, l.uid, m.id, j.w.at()-said.at, l.job)
	}
}

// excused says whether what runs of a pod is not held against the word that its job is over: a lie covers it, or orphand
// cannot know of the pod (see unknowable).
func (j *judge) excused(l *life, m *machine, said word) bool {
	return j.tooLate(l.job) || j.w.covered(l.uid, m) || j.unknowable(l.uid, said) || j.fatherless(l.job)
}

// tooLate says whether a child of the job was made long after its owner was gone.
func (j *judge) tooLate(job types.UID) bool {
	return slices.ContainsFunc(j.w.lies, func(lie Lie) bool { return lie.Job != "" && lie.Job == job })
}

// fatherless says whether the job was deleted with cascade=orphan before this life of orphand was shown that a JobSet was its
// own: nothing in the API says so any more.
func (j *judge) fatherless(job types.UID) bool {
	return slices.ContainsFunc(j.w.orphaned[job], func(jobSet types.UID) bool { return j.fathered[jobSet] != j.life })
}

// unknowable says whether a pod came and went while nobody told orphand, or in an earlier life of it that it does not
// remember. Nothing in the API speaks of such a pod.
func (j *judge) unknowable(pod types.UID, said word) bool {
	life, seen := j.seen[pod]
	if j.w.api.pod(pod) != nil {
		return j.disguised(pod) // any other a live look finds by its label
	}
	switch {
	case !seen:
		j.tally.Unseen++
		return true
	case life < said.life && !j.promised[pod]:
		j.tally.Forgotten++
		return true
	}
	return false
}

func (j *judge) state(job types.UID, now settle.State) {
	j.tally.States[now]++
	before := j.states[job]
	j.states[job] = now
	if !now.Over() {
		if before.Over() {
			said := j.over[job].at
			delete(j.over, job)
			j.withdrawn(NothingUnsaid, "", job, said, "job %s was %s and is %s", job, before, now)
		}
		return
	}
	if before.Over() {
		return
	}
	said := word{at: j.w.at(), life: j.life}
	j.over[job] = said
	w := j.w
	if t := w.trainJobHeld(job); t {
		j.violate(SettledIsOver, "", job, "job %s is said to be %s, but its TrainJob is there", job, now)
	}
	for _, l := range w.truth.ofJob(job) {
		for _, p := range l.processes {
			if !j.excused(l, p.machine, said) {
				j.violate(SettledIsOver, l.uid, job, "job %s is said to be %s, but %s of pod %s runs on machine %s in boot %s", job, now, p.container.name, l.uid, p.machine.id, p.boot)
				return
			}
		}
		if m := w.truth.mayStart(l.uid); m != nil && !j.excused(l, m, said) {
			j.violate(SettledIsOver, l.uid, job, "job %s is said to be %s, but the kubelet of machine %s may start pod %s", job, now, m.id, l.uid)
			return
		}
		if w.startable(l.uid) && !j.fatherless(job) && !j.tooLate(job) && !j.unknowable(l.uid, said) {
			j.violate(SettledIsOver, l.uid, job, "job %s is said to be %s, but pod %s is there and may be started", job, now, l.uid)
			return
		}
	}
	if what := w.starter(job); what != "" && !j.fatherless(job) && !j.tooLate(job) {
		j.violate(SettledIsOver, "", job, "job %s is said to be %s, but %s is there and may make pods", job, now, what)
	}
}

// nodeSeen: a Node has reached orphand. Does it contradict what was said of a pod?
func (j *judge) nodeSeen(n *facts.Node) {
	j.held[holding{n.UID, n.Machine}] = j.life
	j.nodes[n.UID] = n
	for uid, said := range j.gone {
		if said.life != j.life || said.reason != nodeproof.NodeDeleted && said.reason != nodeproof.OutOfService {
			continue
		}
		if said.reason == nodeproof.OutOfService && n.Ready != facts.ReadyTrue {
			continue
		}
		if said.machine != n.Machine || said.boot != n.Boot || j.w.at()-said.at > time.Hour || j.gone[uid] != said {
			continue
		}
		if !j.w.truth.life(uid).hosts[host{n.Machine, n.Boot}] {
			continue // the Node was another boot's by the time when the pod was called gone, which may have been missed
		}
		j.owe(said.job, signals.NodeReturned)
	}
	if !n.OutOfService || n.Ready != facts.ReadyTrue {
		return
	}
	for _, v := range j.w.engine().Jobs() {
		for _, p := range v.Pods {
			if p.Node == n.Name && p.Verdict != "" && p.Verdict != nodeproof.Gone && v.State != settle.Elsewhere {
				j.owe(v.Key.UID, signals.OutOfServiceOnReadyNode)
			}
		}
	}
}

// podSeen: a pod has reached orphand. Does a process of it run that began after it had been called gone?
func (j *judge) podSeen(p *facts.Pod) {
	said, gone := j.gone[p.UID]
	if !gone || said.life != j.life || !p.AnyRunning() {
		return
	}
	for _, r := range j.w.truth.life(p.UID).processes {
		if r.since > said.at+clocksDiffer && reports(p, r.container) {
			j.owe(said.job, signals.ReExecution)
		}
	}
}

// clocksDiffer is by how much the clocks of the world differ at most, with something to spare.
const clocksDiffer = 15 * time.Second

// reports says whether a state of a pod shows a container that was started when this one was.
func reports(p *facts.Pod, c *container) bool {
	for i := range p.Containers {
		if p.Containers[i].State == facts.Running && p.Containers[i].Started == facts.At(c.started.Time) {
			return true
		}
	}
	return false
}

func (j *judge) owe(job types.UID, f signals.Finding) {
	if _, known := j.owed[standing{job, f}]; !known {
		j.owed[standing{job, f}] = j.w.at()
	}
}

// atEnd checks what can only be said when all is over.
func (j *judge) atEnd() {
	due := make([]standing, 0, len(j.owed))
	for o := range j.owed {
		due = append(due, o)
	}
	slices.SortFunc(due, func(a, b standing) int { return cmp.Or(cmp.Compare(a.job, b.job), cmp.Compare(a.finding, b.finding)) })
	for _, o := range due {
		if _, raised := j.findings[o.job][o.finding]; !raised {
			j.violate(NothingUnsaid, "", o.job, "job %s: %s was not raised, though what it is about was there to be seen from %s on", o.job, o.finding, j.owed[o])
		}
	}
	held := map[types.UID]bool{}
	if e := j.w.engine(); e != nil {
		for _, v := range e.Jobs() {
			held[v.Key.UID] = held[v.Key.UID] || v.Key.Namespace == namespace
		}
	}
	for _, job := range sortedKeys(j.states) {
		if !held[job] {
			continue // its work was found to be another job's, or it is over for long
		}
		if s := j.states[job]; !s.Over() && s != settle.Elsewhere {
			j.violate(EverythingSettles, "", job, "job %s is %s, %s after everything was put right: %s", job, s, settleWithin, j.open(job))
		}
	}
}

// open lists what keeps a job from settling.
func (j *judge) open(job types.UID) string {
	var list []string
	for _, v := range j.w.engine().Jobs() {
		if v.Key.UID != job {
			continue
		}
		for _, p := range v.Pods {
			if p.Verdict != nodeproof.Gone {
				list = append(list, fmt.Sprintf("%s %s/%s", p.UID, p.Verdict, p.Reason))
			}
		}
	}
	if what := j.w.starter(job); what != "" {
		list = append(list, what)
	}
	return strings.Join(list, ", ")
}

func sortedKeys[V any](m map[types.UID]V) []types.UID {
	list := make([]types.UID, 0, len(m))
	for k := range m {
		list = append(list, k)
	}
	slices.Sort(list)
	return list
}
