package settle

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/nodeproof"
	"github.com/orphand/orphand/pkg/signals"
	"k8s.io/apimachinery/pkg/types"
)

// maxRounds bounds how often one Sync reads and judges again. One read may show that another is needed (the machine is
// under another name), but never many.
const maxRounds = 5

// maxReads bounds the live reads of one Sync. A job on a thousand nodes is read in many turns, and what is known already is
// told between them.
const maxReads = 32

// readTimeout bounds one live read: an API server that accepts a call and never answers must not keep what is known from
// being told.
const readTimeout = 10 * time.Second

// Sync works one job off: judges what changed, reads live what an irreversible word needs, and tells what is new. An
// error means that a live read failed; what it would have shown is not known, and the job wants to be looked at again.
func (e *Engine) Sync(ctx context.Context, key facts.JobKey) error {
	var failed error
	more := false
	for round := 0; ; round++ {
		reads := e.gather(key)
		if len(reads) == 0 || failed != nil || more || round == maxRounds {
			break
		}
		if more = len(reads) > maxReads; more {
			reads = reads[:maxReads]
		}
		failed = e.readAll(ctx, reads)
	}
	if look := e.conclude(key); (look || more) && failed == nil {
		e.c.Queue.Add(key)
	}
	if failed == nil {
		e.reap(ctx, key)
	}
	return failed
}

// read is one live read that a job wants, and what to do with what it found.
type read struct {
	what facts.Ref
	do   func(context.Context) (apply func(now facts.Instant), err error)
}

// gather judges the pods that may have changed and lists what must be read live before more can be said.
func (e *Engine) gather(key facts.JobKey) []read {
	e.mu.Lock()
	defer e.mu.Unlock()
	j := e.jobs[key]
	if j == nil {
		return nil
	}
	now := e.now()
	if e.strays != nil { // the first lists have come, and the records have been read
		e.strays = nil
		for _, p := range e.pods {
			p.h.Recount(now)
		}
	}
	if j.podDue.Known() && now >= j.podDue {
		j.podDue = 0
		for uid, p := range j.pods {
			if p.due.Known() && now >= p.due {
				j.dirty[uid] = p
			} else {
				j.podsDue(p.due)
			}
		}
	}
	reads := map[facts.Ref]read{}
	add := func(r read) { reads[r.what] = r }
	if !j.present && !j.sure || j.present && j.rootAt.Known() && now >= j.rootAt {
		add(e.readRoot(j, now))
	}
	for _, p := range j.dirty {
		next := nodeproof.Judge(p.h, e.nodes, e.c.Proof, now)
		p.next, p.judged = &next, true
		if p.next.Need != "" {
			add(e.readNode(p.next.Need, now))
		}
		if p.check || p.unselected && p.due.Known() && now >= p.due && p.next.Verdict != nodeproof.Gone {
			add(e.readPod(p, now))
		}
	}
	if len(reads) == 0 && e.wantsSurvey(j, now) {
		add(e.readSurvey(j, now))
	}
	if len(reads) == 0 && !j.present && j.sure && e.decide(j, now).Over() && j.left() == 0 && (!j.looked || now >= j.lookAt) {
		add(e.readRemains(j))
	}
	list := make([]read, 0, len(reads))
	for _, r := range reads {
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b read) int { return cmp.Compare(a.what.String(), b.what.String()) })
	return list
}

func (j *job) podsDue(at facts.Instant) {
	if at.Known() && (!j.podDue.Known() || at < j.podDue) {
		j.podDue = at
	}
}

// readAll does the reads, several at once, and applies what they found in the order of the list.
func (e *Engine) readAll(ctx context.Context, reads []read) error {
	applies := make([]func(facts.Instant), len(reads))
	errs := make([]error, len(reads))
	var wg sync.WaitGroup
	slots := make(chan struct{}, e.c.Readers)
	for i := range reads {
		slots <- struct{}{}
		wg.Add(1)
		one := func() {
			defer func() { <-slots; wg.Done() }()
			ctx, cancel := context.WithTimeout(ctx, readTimeout)
			defer cancel()
			applies[i], errs[i] = reads[i].do(ctx)
		}
		if e.c.Readers == 1 {
			one()
		} else {
			go one()
		}
	}
	wg.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	var first error
	for i := range reads {
		if errs[i] != nil {
			if first == nil {
				first = fmt.Errorf("reading %s: %w", reads[i].what, errs[i])
			}
			continue
		}
		applies[i](now)
	}
	return first
}

// readNode reads a node. What it finds counts from when the read was wanted: the server may have answered before whatever
// was seen while the answer was under way.
func (e *Engine) readNode(name string, wanted facts.Instant) read {
	return read{what: facts.Ref{Kind: facts.KindNode, Name: name}, do: func(ctx context.Context) (func(facts.Instant), error) {
		n, err := e.c.Live.Node(ctx, name)
		return func(now facts.Instant) {
			e.nodes.SeeLive(name, n, wanted)
			for _, p := range sorted(e.onNode[name]) {
				e.follow(p, now)
				if p.said.Verdict != nodeproof.Gone {
					e.again(p)
				}
			}
		}, err
	}}
}

// onlyReadEvery is how often what was found by a live read is read again while no watch shows it. It may have come and gone
// in a gap of the watch, which then never tells of its end.
const onlyReadEvery = 30 * time.Second

// readRoot asks whether the TrainJob is there; of a JobSet that was never seen, whether that is. wanted is when.
func (e *Engine) readRoot(j *job, wanted facts.Instant) read {
	ref := facts.Ref{Namespace: j.key.Namespace, Kind: facts.KindTrainJob, Name: j.key.Name}
	if j.key.Unknown() {
		ref.Kind = facts.KindJobSet
		return read{what: ref, do: func(ctx context.Context) (func(facts.Instant), error) {
			o, err := e.c.Live.JobSet(ctx, j.key.Namespace, j.key.Name)
			return func(now facts.Instant) {
				if o != nil && facts.UnknownPrefix+o.UID == j.key.UID {
					e.foundObject(o) // the watch of JobSets is behind that of pods
					return
				}
				j.sure = true
				if !j.gone.Known() {
					j.gone = now
				}
			}, err
		}}
	}
	return read{what: ref, do: func(ctx context.Context) (func(facts.Instant), error) {
		t, err := e.c.Live.TrainJob(ctx, j.key.Namespace, j.key.Name)
		return func(now facts.Instant) {
			switch {
			case t == nil || t.UID != j.key.UID:
				j.present, j.sure, j.rootAt = false, true, 0
				e.patients.note(j.key, true)
			case j.gone > wanted: // the watch has told of its end while the answer was under way
				e.c.Queue.Add(j.key)
				return
			default:
				if !j.present || j.rootAt.Known() {
					j.trainJob, j.present, j.gone = t, true, 0
					e.patients.note(j.key, false)
					j.rootAt = now.After(onlyReadEvery)
				}
				return
			}
			if !j.gone.Known() {
				j.gone = now
			}
		}, err
	}}
}

// readPod asks whether a pod is there that the filtered watch no longer selects. wanted is when: the watch may tell of its
// return, or of its end, while the answer is under way.
func (e *Engine) readPod(p *pod, wanted facts.Instant) read {
	f := p.h.Pod
	return read{what: f.Ref(), do: func(ctx context.Context) (func(facts.Instant), error) {
		live, err := e.c.Live.Pod(ctx, f.Namespace, f.Name)
		return func(now facts.Instant) {
			if p.h.Removal != nodeproof.Present && p.h.RemovedAt > wanted || p.h.Pod != f {
				e.again(p)
				return
			}
			if live == nil || live.UID != f.UID {
				e.vanish(p, nodeproof.Unseen, nil, now)
				return
			}
			p.check = false
			p.h.SeePod(live, now, false, e.nodes)
			e.index(p)
			p.due = now.After(unselectedEvery)
			p.job.podsDue(p.due)
		}, err
	}}
}

// unselectedEvery is how often a pod is read whose changes no watch delivers.
const unselectedEvery = 30 * time.Second

// wantsSurvey says whether a live look is due for what of the job may run. The caches may be behind, or may have missed what
// came while a watch was broken: before a job is called settled, the API server itself is asked.
func (e *Engine) wantsSurvey(j *job, now facts.Instant) bool {
	switch {
	case j.present || !j.sure:
		return false
	case len(j.onlyRead) > 0 && now >= j.surveyAt:
		return true
	case j.surveyed >= j.quietEnds(e.c.Options):
		return false
	}
	before := j.surveyed
	j.surveyed = now // as if there had been one
	over := e.decide(j, now).Over()
	j.surveyed = before
	return over
}

func (e *Engine) readSurvey(j *job, wanted facts.Instant) read {
	var not []types.UID
	for uid, key := range e.jobSets {
		if key != j.key && key.Incarnations() == j.key.Incarnations() {
			not = append(not, uid)
		}
	}
	slices.Sort(not)
	return read{what: facts.Ref{Namespace: j.key.Namespace, Kind: "survey", Name: j.key.Name}, do: func(ctx context.Context) (func(facts.Instant), error) {
		e.mu.Lock()
		e.surveying++
		e.mu.Unlock()
		objects, pods, err := e.c.Live.Survey(ctx, j.key.Namespace, j.key.Name, not)
		if err != nil {
			e.mu.Lock()
			e.surveyed()
			e.mu.Unlock()
		}
		return func(now facts.Instant) {
			defer e.surveyed()
			objects = slices.DeleteFunc(objects, func(o *facts.Object) bool { return e.ended[o.UID] })
			pods = slices.DeleteFunc(pods, func(p *facts.Pod) bool { return e.ended[p.UID] })
			// One that was made for another reason, while something of the job could still run, is not the last look.
			if j.surveyed = wanted; !e.decide(j, now).Over() {
				j.surveyed = 0
			}
			there := map[types.UID]bool{}
			for _, o := range objects {
				there[o.UID] = true
				e.foundObject(o)
			}
			for _, p := range pods {
				there[p.UID] = true
				if e.pods[p.UID] == nil {
					e.seePod(p, false)
					if p := e.pods[p.UID]; p != nil {
						p.job.found(p.h.Pod.UID, now)
					}
				}
			}
			for uid := range j.onlyRead {
				if there[uid] {
					continue
				}
				delete(j.onlyRead, uid)
				if p := e.pods[uid]; p != nil {
					e.vanish(p, nodeproof.Unseen, nil, now)
				} else if j.objects[uid] != nil {
					e.dropObject(j, uid)
				}
			}
			j.surveyAt = now.After(onlyReadEvery)
		}, err
	}}
}

// surveyed: a survey has been answered.
func (e *Engine) surveyed() {
	if e.surveying--; e.surveying == 0 {
		clear(e.ended)
	}
}

// foundObject takes in an object that a live read has found, unless the watch knows it.
func (e *Engine) foundObject(o *facts.Object) {
	if e.objects[o.UID] != nil {
		return
	}
	e.seeObject(o)
	if j := e.objects[o.UID]; j != nil {
		j.found(o.UID, e.now())
	}
}

// found notes that nothing but a live read has shown an object yet.
func (j *job) found(uid types.UID, now facts.Instant) {
	j.onlyRead[uid] = true
	j.surveyAt = now.After(onlyReadEvery)
}

// lookRarest is how often a settled job of which something is left is looked at in the end. What the garbage collector has not
// taken by then waits for a person, and a cluster may have thousands of such jobs.
const lookRarest = 5 * time.Minute

func (e *Engine) readRemains(j *job) read {
	jobSets := make([]types.UID, 0, len(j.jobSets))
	for _, a := range j.jobSets {
		jobSets = append(jobSets, a.uid)
	}
	services := j.services()
	return read{what: facts.Ref{Namespace: j.key.Namespace, Kind: "remains", Name: j.key.Name}, do: func(ctx context.Context) (func(facts.Instant), error) {
		found, err := e.c.Live.Remains(ctx, j.key, jobSets, services)
		return func(now facts.Instant) {
			j.extra, j.looked = found, true
			// What is left goes by the garbage collector within seconds, or stays for long.
			j.lookAt = now.After(min(time.Second<<min(j.looks, 9), lookRarest))
			if by := j.collectedBy(e.c.Options); now < by {
				j.lookAt = min(j.lookAt, by) // the collector is blamed by what is there when its time is over
			}
			j.looks++
		}, err
	}}
}

// decide gives the state of the job, knowing of the others of its name.
func (e *Engine) decide(j *job, now facts.Instant) State {
	held := false
	if !j.key.Unknown() {
		for _, other := range e.byName[j.key.Incarnations()] {
			held = held || other.key.Unknown() && !other.state.Over()
		}
	}
	state := j.decide(e.c.Options, held, now)
	if state == Cleared && e.heldByCopy(j.key.Incarnations()) {
		return Settled
	}
	return state
}

// conclude tells what is new about the job, and sees to it that it is looked at again in time. look says that it is settled
// by what is told here, and that nobody has looked yet for what is left of it.
func (e *Engine) conclude(key facts.JobKey) (look bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	j := e.jobs[key]
	if j == nil {
		return false
	}
	now := e.now()
	changed := make([]*pod, 0, len(j.dirty))
	for _, p := range j.dirty {
		if p.judged { // the others changed since, and their job is in the queue again
			changed = append(changed, p)
		}
	}
	slices.SortFunc(changed, func(a, b *pod) int {
		return cmp.Or(cmp.Compare(a.h.Pod.Name, b.h.Pod.Name), cmp.Compare(a.h.Pod.UID, b.h.Pod.UID))
	})
	for _, p := range changed {
		if p.next.Need == "" && !p.check {
			delete(j.dirty, p.h.Pod.UID)
		}
		e.adopt(p, now)
	}
	if j.present || j.sure {
		e.adoptState(j, e.decide(j, now), now)
	}
	e.jobFindings(j, now)
	e.schedule(j, now)
	if e.c.Ledger != nil && j.recorded() {
		e.c.Ledger.Keep(key)
	}
	e.prune(now)
	return j.state == Settled && j.left() == 0 && !j.looked || e.wantsSurvey(j, now)
}

// adopt makes a judgement the pod's verdict, and tells it when it is another than before.
func (e *Engine) adopt(p *pod, now facts.Instant) {
	j, next := p.job, *p.next
	p.next, p.judged = nil, false
	p.h.Latch(next)
	p.due = next.Recheck
	event, initial := p.event, p.initial
	p.event, p.initial = 0, false
	pair := nodeproof.Pair{Verdict: next.Verdict, Reason: next.Reason}
	if pair != p.said {
		before := p.said
		p.said, p.saidAt = pair, now
		if pair.Verdict == nodeproof.Unproven && before.Verdict != nodeproof.Unproven {
			p.unprovenSince = now
		}
		if pair.Verdict == nodeproof.Alive && before.Verdict == nodeproof.Unproven {
			p.heardAgain = now
		}
		if initial && before == (nodeproof.Pair{}) && pair.Verdict != nodeproof.Gone {
			// Nobody saw it arrive. A job that its record calls settled had no such pod.
			e.arrived(j, p.h.Pod.Ref())
		}
		j.tally(p, pair.Verdict)
		if pair.Verdict == nodeproof.Gone {
			j.leave(p)
			e.rankEnded(p)
		}
		e.c.Recorder.PodVerdict(string(before.Verdict), string(before.Reason), string(pair.Verdict), string(pair.Reason))
		if event.Known() && !initial {
			e.c.Recorder.VerdictLatency(now.Sub(event))
		}
		// What is alive at the start is no news: a cluster's whole population would be told at every restart.
		if !(initial && before == (nodeproof.Pair{}) && pair.Verdict == nodeproof.Alive && j.present) {
			e.c.Sink.Emit(e.verdictEvent(p, before, now))
		}
	}
	e.podFindings(p, now)
	if p.unselected {
		p.due = now.After(unselectedEvery)
	}
	j.podsDue(p.due)
	// A pod of a live job that its kubelet has ended and whose object is gone has nothing left to tell.
	if j.present && !j.trainJob.Deletion.Known() && p.h.Removal != nodeproof.Present && pair.Verdict == nodeproof.Gone && len(p.h.Runs) <= 1 &&
		(pair.Reason == nodeproof.KubeletConfirmed || pair.Reason == nodeproof.NeverStarted) {
		e.dropPod(p)
	}
}

func (e *Engine) verdictEvent(p *pod, before nodeproof.Pair, now facts.Instant) signals.Event {
	f := p.h.Pod
	ev := e.jobEvent(p.job, now.Time())
	ev.Code = signals.PodVerdictChanged
	ev.Pod, ev.PodUID, ev.Node = f.Name, string(f.UID), f.Node
	ev.Verdict, ev.Reason = string(p.said.Verdict), string(p.said.Reason)
	ev.Message = p.said.Sentence(f.Name, f.Node)
	if before != (nodeproof.Pair{}) {
		ev.From = string(before.Verdict) + "/" + string(before.Reason)
	}
	if proof := p.h.Proof; proof != nil {
		ev.Evidence = proof.Describe()
	}
	return ev
}

func (e *Engine) jobEvent(j *job, at time.Time) signals.Event {
	return signals.Event{Time: at, Namespace: j.key.Namespace, Job: j.key.Name, UID: string(j.key.UID)}
}

func (e *Engine) adoptState(j *job, next State, now facts.Instant) {
	if next == j.state {
		return
	}
	before := j.state
	j.state = next
	e.c.Recorder.JobState(string(before), string(next))
	if next.Over() && !before.Over() {
		j.settled = now
		e.c.Recorder.Settled(now.Sub(j.gone))
	}
	if before.Over() && !next.Over() {
		e.withdrawn(j)
	}
	j.cleared = 0
	if next == Cleared {
		j.cleared = now
	}
	if !(before == "" && j.initial && j.present && next != Deleting) {
		ev := e.jobEvent(j, now.Time())
		ev.Code = signals.JobStateChanged
		ev.From, ev.State = string(before), string(next)
		ev.Message = next.Sentence(j.key.Namespace + "/" + j.key.Name)
		ev.Attrs = []signals.Attr{
			{Key: "alive", Value: j.counts[nodeproof.Alive]},
			{Key: "unproven", Value: j.counts[nodeproof.Unproven]},
			{Key: "gone", Value: j.counts[nodeproof.Gone]},
		}
		e.c.Sink.Emit(ev)
	}
	if j.key.Unknown() {
		for other := range e.byName[j.key.Incarnations()] {
			if other != j.key {
				e.c.Queue.Add(other)
			}
		}
	}
}

// schedule has the job looked at again when time alone may change something.
func (e *Engine) schedule(j *job, now facts.Instant) {
	var due facts.Instant
	at := func(t facts.Instant) {
		if t.Known() && t > now && (!due.Known() || t < due) {
			due = t
		}
	}
	at(j.podDue)
	if j.present {
		at(j.rootAt)
	}
	if !j.present && j.sure {
		at(j.quietEnds(e.c.Options))
		at(j.collectedBy(e.c.Options))
		if len(j.onlyRead) > 0 {
			at(j.surveyAt)
		}
		if j.state == Settled && j.left() == 0 && j.looked {
			at(j.lookAt)
		}
	}
	if j.cleared.Known() {
		if at(j.cleared.After(e.c.RecordTTL)); now >= j.cleared.After(e.c.RecordTTL) {
			e.forget(j)
			return
		}
	}
	if j.state == Elsewhere && !j.present && j.sure {
		if at(j.gone.After(e.c.RecordTTL)); now >= j.gone.After(e.c.RecordTTL) {
			e.forget(j)
			return
		}
	}
	e.findingsDue(j, at)
	if due.Known() {
		e.c.Queue.AddAfter(j.key, due.Sub(facts.At(e.c.Clock.Now()))) // by the clock: now may be ahead of it
	}
}

// forget drops a job of which nothing is left.
func (e *Engine) forget(j *job) {
	for _, p := range j.pods {
		e.dropPod(p)
	}
	for _, a := range j.jobSets {
		delete(e.jobSets, a.uid)
	}
	e.dropJob(j)
	if e.c.Reaper != nil {
		e.c.Reaper.Forget(j.key)
	}
	for uid, jobSet := range e.batchJobs {
		if _, known := e.jobSets[jobSet]; !known && len(e.unresolved[jobSet]) == 0 {
			delete(e.batchJobs, uid)
		}
	}
}

// pruneEvery is how often what nobody needs is forgotten; strangersFor is how long the JobSets of nobody are remembered
// after they are gone.
const (
	pruneEvery   = 10 * time.Minute
	strangersFor = 24 * time.Hour
)

func (e *Engine) prune(now facts.Instant) {
	if now < e.pruned.Add(pruneEvery) {
		return
	}
	e.pruned = now
	used := map[types.UID]bool{}
	for _, p := range e.pods {
		for i := range p.h.Runs {
			used[p.h.Runs[i].NodeUID] = true
		}
	}
	e.nodes.Prune(now.After(-e.c.RecordTTL), func(uid types.UID) bool { return used[uid] })
	for uid, at := range e.strangers {
		if now >= at.Add(strangersFor) {
			delete(e.strangers, uid)
			delete(e.jobSets, uid)
		}
	}
}
