package settle

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/nodeproof"
	"github.com/orphand/orphand/pkg/signals"
	"k8s.io/apimachinery/pkg/types"
)

// cause is what a finding is raised for, once.
type cause struct {
	finding signals.Finding
	job     facts.JobKey
	on      string
}

// raise tells a finding when it begins.
func (e *Engine) raise(j *job, f signals.Finding, on string, message string, fill func(*signals.Event)) {
	c := cause{finding: f, job: j.key, on: on}
	if _, raised := e.findings[c]; raised {
		return
	}
	ev := e.jobEvent(j, e.now().Time())
	ev.Finding, ev.Phase, ev.Message = f, signals.Started, message
	if fill != nil {
		fill(&ev)
	}
	e.findings[c] = ev
	j.note(FindingNote{Code: f, Cause: on, Message: ev.Text(), Since: facts.At(ev.Time)})
	e.c.Recorder.Finding(string(f), true)
	e.c.Sink.Emit(ev)
}

// counted is the count that a RecreateLoop was told with last; 0 when none stands.
func (e *Engine) counted(j *job, on string) int {
	for _, a := range e.findings[cause{finding: signals.RecreateLoop, job: j.key, on: on}].Attrs {
		if n, ok := a.Value.(int); ok && a.Key == attrCount {
			return n
		}
	}
	return 0
}

const attrCount = "count"

// count raises a RecreateLoop with its count. While it stands the count goes on, without a line for each: the record shows it,
// and the line of its end.
func (e *Engine) count(j *job, on string, n int, message string, fill func(*signals.Event)) {
	attrs := []signals.Attr{{Key: attrCount, Value: n}}
	c := cause{finding: signals.RecreateLoop, job: j.key, on: on}
	ev, raised := e.findings[c]
	if !raised {
		e.raise(j, signals.RecreateLoop, on, message, func(ev *signals.Event) {
			if fill != nil {
				fill(ev)
			}
			ev.Attrs = attrs
		})
		return
	}
	ev.Message, ev.Attrs = message, attrs
	e.findings[c] = ev
	for i := range j.told {
		if f := &j.told[i]; f.Code == c.finding && f.Cause == on && !f.Until.Known() {
			f.Message = message
		}
	}
}

// maxTold bounds what a job remembers of its findings: the oldest that are over go first.
const maxTold = 64

func (j *job) note(n FindingNote) {
	if len(j.told) >= maxTold {
		over := slices.IndexFunc(j.told, func(f FindingNote) bool { return f.Until.Known() })
		if over < 0 {
			return // as many stand already; the log and the metrics have this one as well
		}
		j.told = slices.Delete(j.told, over, over+1)
	}
	j.told = append(j.told, n)
}

// end tells that a finding is over.
func (e *Engine) end(j *job, f signals.Finding, on string) {
	c := cause{finding: f, job: j.key, on: on}
	ev, raised := e.findings[c]
	if !raised {
		return
	}
	delete(e.findings, c)
	began := ev.Time
	ev.Phase, ev.Time = signals.Ended, e.now().Time()
	// A person who reads only this line must not take it for a beginning.
	ev.Message = "Over after " + ev.Time.Sub(began).Round(time.Second).String() + ": " + ev.Text()
	for i := range j.told {
		if n := &j.told[i]; n.Code == f && n.Cause == on && !n.Until.Known() {
			n.Until = facts.At(ev.Time)
		}
	}
	e.c.Recorder.Finding(string(f), false)
	e.c.Sink.Emit(ev)
}

// set raises a finding while it holds and ends it when it does not.
func (e *Engine) set(holds bool, j *job, f signals.Finding, on string, message func() string, fill func(*signals.Event)) {
	if !holds {
		e.end(j, f, on)
		return
	}
	if _, raised := e.findings[cause{finding: f, job: j.key, on: on}]; !raised {
		e.raise(j, f, on, message(), fill)
	}
}

func (e *Engine) endAll(j *job) {
	var mine []cause
	for c := range e.findings {
		if c.job == j.key {
			mine = append(mine, c)
		}
	}
	slices.SortFunc(mine, func(a, b cause) int { return cmp.Or(cmp.Compare(a.finding, b.finding), cmp.Compare(a.on, b.on)) })
	for _, c := range mine {
		e.end(j, c.finding, c.on)
	}
}

func onPod(p *pod) func(*signals.Event) {
	return func(ev *signals.Event) {
		ev.Pod, ev.PodUID, ev.Node = p.h.Pod.Name, string(p.h.Pod.UID), p.h.Pod.Node
	}
}

func ref(r facts.Ref) string { return r.String() + "@" + string(r.UID) }

// arrived: a child after the job was said to be settled withdraws that word, loudly.
func (e *Engine) arrived(j *job, r facts.Ref) {
	if j.state.Over() {
		e.raise(j, signals.ReExecution, "late:"+string(r.UID),
			ref(r)+" arrived after the job was settled: what waited for it may run next to this", nil)
	}
	j.looked, j.looks, j.surveyed = false, 0, 0
	e.stirred(j)
}

// stirred begins the quiet of a job anew whose TrainJob is gone.
func (e *Engine) stirred(j *job) {
	if j.gone.Known() {
		j.stirred = e.now()
	}
}

// withdrawn: the word that a job is over is taken back, because work has come up that may be the job's, and whose TrainJob
// nobody can name. (What is known to be the job's was reported when it arrived.)
func (e *Engine) withdrawn(j *job) {
	if j.key.Unknown() {
		return
	}
	for _, other := range e.sameName(j) {
		if other.key.Unknown() && !other.state.Over() {
			e.raise(j, signals.ReExecution, "late:"+string(other.key.UID),
				"remains of JobSet "+strings.TrimPrefix(string(other.key.UID), facts.UnknownPrefix)+", which may be this job's, came up after it was settled", nil)
		}
	}
}

// jobSetArrived notes a JobSet with a new UID.
func (e *Engine) jobSetArrived(j *job, o *facts.Object) {
	for _, a := range j.jobSets {
		if a.uid == o.UID {
			return
		}
	}
	deleting := j.present && j.trainJob != nil && j.trainJob.Deletion.Known()
	j.jobSets = append(j.jobSets, arrival{uid: o.UID, at: e.now(), again: len(j.jobSets) > 0 && (deleting || j.finished || j.gone.Known())})
}

// podArrived notes a pod with a new UID.
func (e *Engine) podArrived(p *pod, now facts.Instant) {
	j := p.job
	if r, ok := p.rank(); ok {
		j.touched[r] = true
		if p.initial {
			return // what was there at the start arrived at a time that nobody knows
		}
		seen := append(j.rankSeen[r], now)
		if len(seen) > e.c.RecreateLoop {
			seen = seen[1:]
		}
		j.rankSeen[r] = seen
		if len(seen) >= e.c.RecreateLoop && e.c.RecreateLoop > 0 && now.Sub(seen[len(seen)-e.c.RecreateLoop]) <= e.c.RecreateWindow {
			on := "rank:" + string(r.job) + "/" + r.index
			if n := e.counted(j, on) + 1; n > 1 {
				e.count(j, on, n, fmt.Sprintf("%d pods of rank %s, the last %d within %s", n, p.h.Pod.Rank(), len(seen), now.Sub(seen[0]).Round(time.Second)), nil)
			} else {
				e.count(j, on, len(seen), fmt.Sprintf("%d pods of rank %s within %s", len(seen), p.h.Pod.Rank(), now.Sub(seen[0]).Round(time.Second)), onPod(p))
			}
		}
	}
}

// rankEnded notes a rank whose work is done.
func (e *Engine) rankEnded(p *pod) {
	if r, ok := p.rank(); ok {
		p.job.touched[r] = true
		if p.h.Pod.Phase == facts.PhaseSucceeded {
			p.job.succeeded[r] = p.h.Pod.UID
		}
	}
}

// newlyRunning says whether a state of a pod reports a container that was not known to run.
func (e *Engine) newlyRunning(p *pod, f *facts.Pod) bool {
	for i := range f.Containers {
		c := &f.Containers[i]
		if c.State != facts.Running {
			continue
		}
		if i >= len(p.h.Pod.Containers) {
			return true
		}
		was := &p.h.Pod.Containers[i]
		if was.State != facts.Running || was.ID != c.ID || was.Started != c.Started {
			return true
		}
	}
	return false
}

// containerStarted: a container runs that did not before. Is that one too many?
func (e *Engine) containerStarted(p *pod, now facts.Instant) {
	j, f := p.job, p.h.Pod
	var started facts.Instant
	for i := range f.Containers {
		started = max(started, f.Containers[i].Started)
	}
	switch proof := p.h.Proof; {
	case proof != nil && (!started.Known() || started > proof.At || proof.Reason == nodeproof.KubeletConfirmed):
		e.raise(j, signals.ReExecution, "pod:"+string(f.UID), "a container of "+f.Ref().String()+" started although the pod was Gone by "+string(proof.Reason), onPod(p))
	case len(p.h.Runs) > 1:
		e.raise(j, signals.ReExecution, "pod:"+string(f.UID), "a container of "+f.Ref().String()+" started again on another machine under the name "+f.Node, onPod(p))
	case j.sure && j.gone.Known() && !j.key.Unknown() && (!started.Known() || started > j.gone):
		e.raise(j, signals.ReExecution, "pod:"+string(f.UID), "a container of "+f.Ref().String()+" started after its TrainJob was gone", onPod(p))
	}
}

// watchRuns reports a machine that comes back under another Node while a change is applied to a pod.
func (e *Engine) watchRuns(p *pod, now facts.Instant, apply func()) {
	type host struct {
		uid     types.UID
		machine facts.Machine
		boot    string
	}
	before := make([]host, len(p.h.Runs))
	for i := range p.h.Runs {
		r := &p.h.Runs[i]
		before[i] = host{r.NodeUID, r.Machine, r.Boot}
	}
	apply()
	for i := range before {
		r := &p.h.Runs[i]
		if before[i].uid == "" || r.NodeUID == before[i].uid || r.Machine != before[i].machine || r.Boot != before[i].boot {
			continue
		}
		if in := e.nodes.Instance(before[i].uid); in != nil && in.Deleted.Known() {
			e.nodeReturned(p, r.Node, r.Machine, r.Boot, false)
		}
	}
	_ = now
}

func (e *Engine) nodeReturned(p *pod, node string, m facts.Machine, boot string, unsure bool) {
	words := " is back in the boot in which it ran pods of this job"
	if unsure {
		words = " is back, and may be in the boot in which it ran pods of this job"
	}
	e.raise(p.job, signals.NodeReturned, m.SystemUUID+"/"+m.MachineID+"/"+boot, "the machine of node "+node+words, func(ev *signals.Event) { ev.Node = node })
}

// nodeEnded: a Node is gone. Was its machine well?
func (e *Engine) nodeEnded(in *nodeproof.Instance, now facts.Instant) {
	if in.Node.Ready != facts.ReadyTrue {
		return
	}
	for _, p := range sorted(e.onNode[in.Node.Name]) {
		if p.h.Proof != nil || !p.ranOn(in.Node.UID) || p.h.Asked.Known() && now >= p.h.GraceEnds {
			continue
		}
		e.raise(p.job, signals.HealthyNodeDeleted, string(in.Node.UID),
			"Node "+in.Node.Name+" was deleted while it was Ready: processes of this job may run on", func(ev *signals.Event) { ev.Node = in.Node.Name })
	}
}

func sorted(pods map[types.UID]*pod) []*pod {
	list := make([]*pod, 0, len(pods))
	for _, p := range pods {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b *pod) int { return cmp.Compare(a.h.Pod.UID, b.h.Pod.UID) })
	return list
}

// podFindings looks at what one pod shows.
func (e *Engine) podFindings(p *pod, now facts.Instant) {
	j, f, h := p.job, p.h.Pod, p.h
	gone := p.said.Verdict == nodeproof.Gone
	uid := string(f.UID)
	if r, ok := p.rank(); ok {
		j.touched[r] = true
	}
	// While Nodes may not be read nobody can tell whether the kubelet that confirmed was the pod's own.
	told := p.said.Reason != nodeproof.NodesUnreadable
	if p.forced && told && h.Removal == nodeproof.Deleted && f.Bound() && !(gone && h.Proof.Reason == nodeproof.KubeletConfirmed) {
		e.raise(j, signals.ForcedRemoval, uid, "the object of "+f.Ref().String()+" was removed"+removedBy(f)+" without its kubelet's confirmation", onPod(p))
		p.forced = false
	}
	if gone {
		e.end(j, signals.ForcedRemoval, uid)
	}
	if f.SpecGrace == 0 && !gone {
		e.raise(j, signals.UnprovableGrace, "", "pods of this job have terminationGracePeriodSeconds 0: no kubelet will ever confirm their end", onPod(p))
	}
	stuck := p.said == (nodeproof.Pair{Verdict: nodeproof.Alive, Reason: nodeproof.Terminating}) && h.GraceEnds.Known()
	if stuck {
		if at := max(h.GraceEnds, p.heardAgain).After(e.c.StuckAfter); now < at {
			stuck = false
			p.dueBy(at)
		}
	}
	e.set(stuck, j, signals.StuckTerminating, uid, func() string {
		return fmt.Sprintf("%s is still terminating %s after its grace ended, on node %s, which can be heard", f.Ref(), now.Sub(h.GraceEnds).Round(time.Second), f.Node)
	}, onPod(p))
	held := gone && h.Removal == nodeproof.Present && f.Terminating() && len(f.Finalizers) > 0
	if held {
		_, told := e.findings[cause{finding: signals.HeldByFinalizer, job: j.key, on: uid}]
		if at := max(h.Asked, p.saidAt).After(e.c.HeldAfter); now < at && !told {
			held = false
			p.dueBy(at)
		}
	}
	e.set(held, j, signals.HeldByFinalizer, uid, func() string {
		return f.Ref().String() + " is over and held by finalizer " + strings.Join(f.Finalizers, ", ")
	}, onPod(p))
	if in := e.nodes.Current(f.Node); in != nil && !gone {
		e.outOfServiceOnReady(j, in.Node)
	}
	e.contradictions(p)
}

func removedBy(f *facts.Pod) string {
	switch {
	case f.Disruption == "DeletionByPodGC", strings.HasPrefix(f.PhaseWriter, "kube-controller-manager"):
		return " by PodGC"
	case strings.HasPrefix(f.PhaseWriter, "kueue"):
		return " by Kueue"
	}
	return ""
}

func (p *pod) dueBy(at facts.Instant) {
	if !p.due.Known() || at < p.due {
		p.due = at
	}
}

// contradictions: evidence is never unsaid, but what speaks against it is said.
func (e *Engine) contradictions(p *pod) {
	for i := range p.h.Runs {
		proof := p.h.Runs[i].Proof
		if proof == nil || proof.Reason != nodeproof.NodeDeleted && proof.Reason != nodeproof.OutOfService {
			continue
		}
		boot, unsure := proof.Boot, p.h.Runs[i].Unsure
		if unsure {
			boot = "" // any may be the one
		}
		for _, in := range e.nodes.Sighted(proof.Machine, boot) {
			if proof.Reason == nodeproof.NodeDeleted || in.Node.Ready == facts.ReadyTrue {
				e.nodeReturned(p, in.Node.Name, proof.Machine, proof.Boot, unsure)
			}
		}
	}
}

// nodeFindings looks at what a Node shows.
func (e *Engine) nodeFindings(n *facts.Node) {
	for _, p := range sorted(e.onNode[n.Name]) {
		if p.h.Proof == nil || !(n.OutOfService && n.Ready == facts.ReadyTrue) {
			e.outOfServiceOnReady(p.job, n)
		}
	}
}

func (e *Engine) outOfServiceOnReady(j *job, n *facts.Node) {
	e.set(n.OutOfService && n.Ready == facts.ReadyTrue, j, signals.OutOfServiceOnReadyNode, string(n.UID), func() string {
		return "node " + n.Name + " is Ready and has the out-of-service taint, which therefore proves nothing; remove it"
	}, func(ev *signals.Event) { ev.Node = n.Name })
}

// jobFindings looks at what the job as a whole shows.
func (e *Engine) jobFindings(j *job, now facts.Instant) {
	e.overlaps(j)
	e.executedAgain(j, now)
	t := j.trainJob
	notGone := j.counts[nodeproof.Alive] + j.counts[nodeproof.Unproven]
	finished := j.present && t != nil && t.Finished() && !t.Deletion.Known()
	e.set(finished && notGone > 0 && now >= j.finishedBy(e.c.Options), j, signals.FinishedButRunning, "", func() string {
		return fmt.Sprintf("the TrainJob is finished (%s), and %d of its pods are not gone", t.Reason, notGone)
	}, func(ev *signals.Event) { ev.Attrs = append(ev.Attrs, signals.Attr{Key: "pods", Value: notGone}) })

	deleting := j.present && t != nil && t.Deletion.Known()
	if !deleting || len(j.objects) > 0 || len(j.live) > 0 {
		j.bare = 0
	} else if !j.bare.Known() {
		j.bare = now
	}
	wedged := j.bare.Known() && slices.Contains(t.Finalizers, foreground) && now >= max(j.bare, t.Deletion).After(e.c.HeldAfter)
	e.set(wedged, j, signals.ForegroundWedged, "", func() string {
		return fmt.Sprintf("foreground deletion waits since %s with nothing left to wait for; Trainer's webhook refuses to lift the finalizer while %s %s is missing: create it again, or run `orphand unwedge`",
			t.Deletion.Time().Format(time.RFC3339), t.RuntimeKind, t.RuntimeName)
	}, nil)
	for _, o := range j.sortedObjects() {
		e.set(o.Terminating() && heldBy(o.Finalizers) != "" && now >= o.Deletion.After(e.c.HeldAfter), j, signals.HeldByFinalizer, string(o.UID), func() string {
			return o.Ref().String() + " is held by finalizer " + heldBy(o.Finalizers)
		}, nil)
	}
	e.set(deleting && heldBy(t.Finalizers) != "" && now >= t.Deletion.After(e.c.HeldAfter), j, signals.HeldByFinalizer, string(j.key.UID), func() string {
		return t.Ref().String() + " is held by finalizer " + heldBy(t.Finalizers)
	}, nil)
	e.set(!j.present && j.sure && now >= j.gone.After(e.c.GCGrace) && j.uncollected() != "", j, signals.GarbageCollectorStalled, "", func() string {
		return j.uncollected() + " was not asked to go although its TrainJob is gone for " + now.Sub(j.gone).Round(time.Second).String()
	}, nil)
	if j.state.Over() {
		e.end(j, signals.UnprovableGrace, "")
	}
}

func (j *job) sortedObjects() []*facts.Object {
	list := make([]*facts.Object, 0, len(j.objects))
	for _, o := range j.objects {
		list = append(list, o)
	}
	slices.SortFunc(list, func(a, b *facts.Object) int { return cmp.Compare(a.UID, b.UID) })
	return list
}

const foreground = "foregroundDeletion"

// heldBy names the finalizers that somebody else must lift.
func heldBy(finalizers []string) string {
	var names []string
	for _, f := range finalizers {
		if f != foreground && f != "orphan" {
			names = append(names, f)
		}
	}
	return strings.Join(names, ", ")
}

// finishedBy is when the pods of a finished job should have ended.
func (j *job) finishedBy(o Options) facts.Instant {
	if !j.trainJob.FinishedAt.Known() {
		return 0
	}
	return j.trainJob.FinishedAt.After(o.Quiet)
}

// uncollected names an object that the garbage collector should have asked to go.
func (j *job) uncollected() string {
	var names []string
	for _, o := range j.objects {
		if !o.Terminating() {
			names = append(names, o.Ref().String())
		}
	}
	for _, p := range j.live {
		if p.h.Removal == nodeproof.Present && !p.h.Pod.Terminating() {
			names = append(names, p.h.Pod.Ref().String())
		}
	}
	if j.looked {
		for _, o := range j.extra {
			if o.UID != "" && !o.Terminating() {
				names = append(names, o.Ref().String())
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	return slices.Min(names)
}

// executedAgain looks for work that is done again.
func (e *Engine) executedAgain(j *job, now facts.Instant) {
	for i, a := range j.jobSets {
		if !a.again {
			continue
		}
		for _, p := range j.live {
			if p.h.Pod.JobSetUID == a.uid && p.h.Pod.Bound() {
				e.raise(j, signals.ReExecution, "jobset:"+string(a.uid),
					fmt.Sprintf("JobSet %s follows %s, whose work was over, and its pods are bound to nodes", a.uid, j.jobSets[i-1].uid), nil)
				break
			}
		}
	}
	n := e.c.RecreateLoop
	if n > 0 && len(j.jobSets) >= n {
		recent := j.jobSets[len(j.jobSets)-n:]
		if recent[n-1].at.Sub(recent[0].at) <= e.c.RecreateWindow && now.Sub(recent[n-1].at) <= e.c.RecreateWindow && recent[n-1].at > j.seen {
			e.count(j, "jobsets", len(j.jobSets), "the JobSet was created "+strconv.Itoa(len(j.jobSets))+" times", nil)
		}
		if now.Sub(recent[n-1].at) > e.c.RecreateWindow {
			e.end(j, signals.RecreateLoop, "jobsets")
		}
	}
}

// overlaps looks for two executions of the same work that are not provably apart.
func (e *Engine) overlaps(j *job) {
	touched := make([]rank, 0, len(j.touched))
	for r := range j.touched {
		touched = append(touched, r)
	}
	clear(j.touched)
	slices.SortFunc(touched, func(a, b rank) int { return cmp.Or(cmp.Compare(a.job, b.job), cmp.Compare(a.index, b.index)) })
	for _, r := range touched {
		bound := boundOf(peers(j.ranks[r]))
		e.set(len(bound) > 1, j, signals.Overlap, "rank:"+string(r.job)+"/"+r.index, func() string {
			return "two pods of rank " + bound[0].h.Pod.Rank() + " may be running: " + on(bound[0]) + " and " + on(bound[len(bound)-1])
		}, func(ev *signals.Event) { onPod(bound[0])(ev) })
		if done := j.succeeded[r]; done != "" {
			for _, p := range bound {
				if p.h.Pod.UID != done {
					e.raise(j, signals.ReExecution, "rank:"+string(r.job)+"/"+r.index,
						"rank "+p.h.Pod.Rank()+" succeeded and runs again as "+on(p), onPod(p))
				}
			}
		}
	}
	executions := map[execution]*pod{}
	if len(j.executions) > 1 {
		for _, p := range sorted(j.live) {
			if p.h.Pod.Bound() {
				executions[p.execution()] = p
			}
		}
	}
	e.set(len(executions) > 1, j, signals.Overlap, "executions", func() string {
		var names []string
		for x, p := range executions {
			names = append(names, "attempt "+nonEmpty(x.attempt, "0")+" of JobSet "+string(x.jobSet)+" as "+on(p))
		}
		slices.Sort(names)
		return strings.Join(names, " and ") + " may be running at once"
	}, nil)
	for _, other := range e.sameName(j) {
		one, two := j, other // each pair once, under the job that was seen later
		if one.seen < two.seen || one.seen == two.seen && one.key.UID < two.key.UID {
			one, two = two, one
		}
		mine, theirs := boundOf(maps.Values(one.live)), boundOf(maps.Values(two.live))
		e.set(len(mine) > 0 && len(theirs) > 0, one, signals.Overlap, "incarnation:"+string(two.key.UID), func() string {
			return "two incarnations of the TrainJob may be running: " + on(mine[0]) + " and " + on(theirs[0])
		}, nil)
	}
}

// sameName lists the other incarnations of the job's name, by UID.
func (e *Engine) sameName(j *job) []*job {
	all := e.byName[j.key.Incarnations()]
	if len(all) < 2 {
		return nil
	}
	list := make([]*job, 0, len(all)-1)
	for _, other := range all {
		if other != j {
			list = append(list, other)
		}
	}
	slices.SortFunc(list, func(a, b *job) int { return cmp.Compare(a.key.UID, b.key.UID) })
	return list
}

// boundOf lists the pods that were given to a node and could have processes, oldest first.
func boundOf(pods iter.Seq[*pod]) []*pod {
	var list []*pod
	for p := range pods {
		if p.h.Pod.Bound() {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b *pod) int {
		return cmp.Or(cmp.Compare(a.h.Seen, b.h.Seen), cmp.Compare(a.h.Pod.UID, b.h.Pod.UID))
	})
	return list
}

// peers are the pods of one rank.
func peers(p *pod) iter.Seq[*pod] {
	return func(yield func(*pod) bool) {
		for ; p != nil; p = p.peer {
			if !yield(p) {
				return
			}
		}
	}
}

func on(p *pod) string { return ref(p.h.Pod.Ref()) + " on node " + p.h.Pod.Node }

// findingsDue says when time alone may begin or end a finding.
func (e *Engine) findingsDue(j *job, at func(facts.Instant)) {
	t := j.trainJob
	if j.present && t != nil {
		if t.Deletion.Known() {
			at(t.Deletion.After(e.c.HeldAfter))
			at(max(j.bare, t.Deletion).After(e.c.HeldAfter))
		}
		if t.Finished() {
			at(j.finishedBy(e.c.Options))
		}
	}
	for _, o := range j.objects {
		if o.Terminating() {
			at(o.Deletion.After(e.c.HeldAfter))
		}
	}
	if n := len(j.jobSets); n >= e.c.RecreateLoop && n > 0 {
		at(j.jobSets[n-1].at.After(e.c.RecreateWindow + time.Millisecond))
	}
}
