package settle

import (
	"maps"
	"slices"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/informers"
	"github.com/orphand/orphand/pkg/nodeproof"
	"k8s.io/apimachinery/pkg/types"
)

var _ informers.Observer = (*Engine)(nil)

// TrainJobSeen satisfies informers.Observer.
func (e *Engine) TrainJobSeen(t *facts.TrainJob, initial bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	j := e.job(t.JobKey())
	if j.trainJob == nil {
		j.initial = initial
	}
	if o := e.copies[j.key.Incarnations()]; o != nil {
		e.c.Queue.Add(copyKey(o))
	}
	if j.sure { // a live read found it gone, and no UID comes back: the watch is behind
		e.c.Queue.Add(j.key)
		return
	}
	j.trainJob, j.present = t, true
	e.patients.note(j.key, false)
	j.gone, j.rootAt = 0, 0
	j.finished = j.finished || t.Finished()
	e.c.Queue.Add(j.key)
}

// TrainJobGone satisfies informers.Observer.
func (e *Engine) TrainJobGone(t *facts.TrainJob, how informers.End) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if t.UID == "" { // a tombstone that knows only a name
		for key, j := range e.byName[types.NamespacedName{Namespace: t.Namespace, Name: t.Name}] {
			if j.present {
				e.lose(j)
				e.c.Queue.Add(key)
			}
		}
		return
	}
	j := e.job(t.JobKey())
	if how == informers.Final || j.trainJob == nil {
		j.trainJob = t
	}
	e.lose(j)
	e.c.Queue.Add(j.key)
}

func (e *Engine) lose(j *job) {
	if o := e.copies[j.key.Incarnations()]; o != nil {
		e.c.Queue.Add(copyKey(o))
	}
	j.present, j.rootAt = false, 0
	e.patients.note(j.key, true)
	if !j.gone.Known() {
		j.gone = e.now()
	}
}

// ObjectSeen satisfies informers.Observer.
func (e *Engine) ObjectSeen(o *facts.Object, _ bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seeObject(o)
	if j := e.objects[o.UID]; j != nil {
		delete(j.onlyRead, o.UID)
	}
}

func (e *Engine) seeObject(o *facts.Object) {
	e.seeCopy(o)
	key, ours := e.ownerOf(o)
	if !ours {
		switch o.Kind {
		case facts.KindJobSet:
			e.stray(o.UID, func(s *stray) { s.objects[o.UID] = o })
		case facts.KindJob:
			e.stray(e.batchJobs[o.UID], func(s *stray) { s.objects[o.UID] = o })
		}
		return
	}
	j := e.job(key)
	if j.objects[o.UID] == nil {
		e.arrived(j, o.Ref())
		if o.Kind == facts.KindJobSet {
			e.jobSetArrived(j, o)
		}
	}
	if before := j.objects[o.UID]; before != nil && makesPods(before) && !makesPods(o) {
		e.stirred(j)
	}
	if o.Finished {
		j.finished = true
	}
	j.objects[o.UID] = o
	e.objects[o.UID] = j
	j.looked = false
	e.c.Queue.Add(key)
}

// ownerOf finds the job of an object, and learns from it whose the things below it are.
func (e *Engine) ownerOf(o *facts.Object) (facts.JobKey, bool) {
	switch o.Kind {
	case facts.KindJobSet:
		key := facts.JobKey{}
		if ownedByTrainJob(o) {
			key = facts.JobKey{Namespace: o.Namespace, Name: o.Owner.Name, UID: o.Owner.UID}
		}
		key = e.resolve(o.UID, o.Namespace, key)
		return key, key != facts.JobKey{}
	case facts.KindJob:
		jobSet := o.JobSetUID
		if jobSet == "" && o.Owner.Kind == facts.KindJobSet {
			jobSet = o.Owner.UID
		}
		if jobSet == "" {
			return facts.JobKey{}, false
		}
		e.batchJobs[o.UID] = jobSet
		return e.ofJobSet(jobSet, o.Namespace, nonEmpty(o.JobSetName, o.Owner.Name))
	}
	if ownedByTrainJob(o) {
		return facts.JobKey{Namespace: o.Namespace, Name: o.Owner.Name, UID: o.Owner.UID}, true
	}
	return facts.JobKey{}, false
}

// ownedByTrainJob: in any version of Trainer's group. The UID decides, not the version that the reference names.
func ownedByTrainJob(o *facts.Object) bool {
	return o.Owner.Kind == facts.KindTrainJob && o.Owner.Group == facts.GroupTrainer && o.Owner.UID != ""
}

func nonEmpty(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// stray is what is known of a JobSet that is nobody's while the records have not been read.
type stray struct {
	objects map[types.UID]*facts.Object
	pods    map[types.UID]strayPod
}

// strayPod is the last that was seen of a pod, and how it went if it did.
type strayPod struct {
	last *facts.Pod
	gone bool
	how  informers.End
}

func (e *Engine) stray(jobSet types.UID, keep func(*stray)) {
	if e.strays == nil || jobSet == "" {
		return
	}
	if e.strays[jobSet] == nil {
		e.strays[jobSet] = &stray{objects: map[types.UID]*facts.Object{}, pods: map[types.UID]strayPod{}}
	}
	keep(e.strays[jobSet])
}

// ofJobSet finds the job of a JobSet by UID. One that was never seen has a job of its own until it is, so that it is never
// taken for another incarnation's. So has what was copied into another namespace: a label counts in its own.
func (e *Engine) ofJobSet(uid types.UID, namespace, name string) (facts.JobKey, bool) {
	key, known := e.jobSets[uid]
	elsewhere := known && key != (facts.JobKey{}) && key.Namespace != namespace
	if known && !elsewhere {
		return key, key != facts.JobKey{}
	}
	if name == "" {
		return facts.JobKey{}, false
	}
	key = facts.JobKey{Namespace: namespace, Name: name, UID: facts.UnknownPrefix + uid}
	if !elsewhere {
		e.standsFor(uid, key)
	}
	return key, true
}

func (e *Engine) standsFor(jobSet types.UID, stand facts.JobKey) {
	if stands := e.unresolved[jobSet]; !slices.Contains(stands, stand) {
		e.unresolved[jobSet] = append(stands, stand)
	}
}

// resolve learns whose a JobSet is, and moves what stood under the JobSet's own name to its job.
func (e *Engine) resolve(uid types.UID, namespace string, key facts.JobKey) facts.JobKey {
	if known, ok := e.jobSets[uid]; ok && (known == key || key == (facts.JobKey{})) {
		return known // one whose owner was taken off (cascade=orphan) goes on with the work of the job that it came from
	}
	e.jobSets[uid] = key
	if s := e.strays[uid]; s != nil && key != (facts.JobKey{}) {
		delete(e.strays, uid)
		for _, id := range slices.Sorted(maps.Keys(s.objects)) {
			e.seeObject(s.objects[id])
		}
		for _, id := range slices.Sorted(maps.Keys(s.pods)) {
			e.seePod(s.pods[id].last, true)
			if p := s.pods[id]; p.gone {
				e.podGone(p.last, p.how)
			}
		}
	}
	e.merge(uid, namespace, key)
	return key
}

// merge moves what stood under a JobSet's own name to its job. What stands for it in another namespace is a copy's, and stays
// its own; of a JobSet that is nobody's the copies are nobody's either.
func (e *Engine) merge(uid types.UID, namespace string, key facts.JobKey) {
	stands := e.unresolved[uid]
	delete(e.unresolved, uid)
	for _, stand := range stands {
		if from := e.jobs[stand]; from != nil && (stand.Namespace == namespace || key == (facts.JobKey{})) {
			if key == (facts.JobKey{}) {
				e.strand(uid, from)
			}
			e.mergeJob(from, key)
		}
	}
}

// strand keeps what a job consists of whose JobSet is nobody's, while a record may still tell whose it was.
func (e *Engine) strand(jobSet types.UID, from *job) {
	e.stray(jobSet, func(s *stray) {
		maps.Copy(s.objects, from.objects)
		for id, p := range from.pods {
			last := strayPod{last: p.h.Pod, gone: p.h.Removal != nodeproof.Present, how: informers.Missed}
			if p.h.Removal == nodeproof.Deleted {
				last.how = informers.Final
			}
			s.pods[id] = last
		}
	})
}

// mergeJob moves all of one job to another; with the zero key, to nobody.
func (e *Engine) mergeJob(from *job, key facts.JobKey) {
	if e.c.Ledger != nil && from.recorded() {
		defer e.c.Ledger.Keep(from.key) // its record goes
	}
	if key == (facts.JobKey{}) {
		for _, p := range from.pods {
			e.dropPod(p)
		}
		e.dropJob(from)
		return
	}
	to := e.job(key)
	for id, o := range from.objects {
		if !o.Terminating() {
			e.arrived(to, o.Ref())
		}
		to.objects[id] = o
		e.objects[id] = to
	}
	now := e.now()
	for _, p := range sorted(from.pods) {
		told := p.tallied
		from.tally(p, "")
		from.leave(p)
		delete(from.pods, p.h.Pod.UID)
		p.job = to
		to.pods[p.h.Pod.UID] = p
		to.tally(p, told)
		if told != nodeproof.Gone {
			if !p.initial {
				e.arrived(to, p.h.Pod.Ref())
			}
			to.enter(p)
		}
		e.touch(p, now)
	}
	for id := range from.onlyRead {
		to.found(id, now)
	}
	e.dropJob(from)
	e.c.Queue.Add(key)
}

// ObjectGone satisfies informers.Observer.
func (e *Engine) ObjectGone(o *facts.Object, _ informers.End) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.copyGone(o)
	if o.UID == "" { // a tombstone that knows only a name
		for uid, j := range e.objects {
			if have := j.objects[uid]; have.Kind == o.Kind && have.Namespace == o.Namespace && have.Name == o.Name {
				e.dropObject(j, uid)
			}
		}
		e.strayGone(func(have *facts.Object) bool {
			return have.Kind == o.Kind && have.Namespace == o.Namespace && have.Name == o.Name
		})
		return
	}
	e.strayGone(func(have *facts.Object) bool { return have.UID == o.UID })
	// These kinds are selected by labels that their controllers set and nobody takes off, and an object without finalizers
	// goes without ever having had a deletionTimestamp: a deletion of one is a deletion.
	if j := e.objects[o.UID]; j != nil {
		e.dropObject(j, o.UID)
	}
	if key, known := e.jobSets[o.UID]; known && key == (facts.JobKey{}) {
		e.strangers[o.UID] = e.now()
	}
}

func (e *Engine) strayGone(which func(*facts.Object) bool) {
	for _, s := range e.strays {
		maps.DeleteFunc(s.objects, func(_ types.UID, o *facts.Object) bool { return which(o) })
	}
}

func (e *Engine) dropObject(j *job, uid types.UID) {
	e.hasEnded(uid)
	if makesPods(j.objects[uid]) {
		e.stirred(j)
	}
	delete(j.objects, uid)
	delete(j.onlyRead, uid)
	delete(e.objects, uid)
	e.c.Queue.Add(j.key)
}

// PodSeen satisfies informers.Observer.
func (e *Engine) PodSeen(p *facts.Pod, initial bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seePod(p, initial)
	if known := e.pods[p.UID]; known != nil {
		delete(known.job.onlyRead, p.UID)
	}
}

func (e *Engine) seePod(f *facts.Pod, initial bool) {
	now := e.now()
	if p := e.pods[f.UID]; p != nil {
		p.check, p.unselected = false, false
		p.initial = p.initial && initial
		e.watchRuns(p, now, func() {
			started := e.newlyRunning(p, f)
			p.h.SeePod(f, now, initial, e.nodes)
			if started {
				e.containerStarted(p, now)
			}
		})
		e.index(p)
		e.touch(p, now)
		return
	}
	jobSet := e.jobSetOf(f)
	if jobSet == "" {
		return
	}
	key, ours := e.ofJobSet(jobSet, f.Namespace, f.JobSetName)
	if !ours {
		e.stray(jobSet, func(s *stray) { s.pods[f.UID] = strayPod{last: f} })
		return
	}
	j := e.job(key)
	p := &pod{job: j, initial: initial, h: nodeproof.NewHistory(f, now, initial, e.nodes)}
	e.pods[f.UID] = p
	j.pods[f.UID] = p
	e.arrived(j, f.Ref())
	j.enter(p)
	e.podArrived(p, now)
	e.index(p)
	e.touch(p, now)
}

// jobSetOf is the JobSet of a pod, as far as that is known.
func (e *Engine) jobSetOf(f *facts.Pod) types.UID {
	if f.JobSetUID != "" {
		return f.JobSetUID
	}
	return e.batchJobs[f.JobUID]
}

// PodGone satisfies informers.Observer.
func (e *Engine) PodGone(f *facts.Pod, how informers.End) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.podGone(f, how)
}

func (e *Engine) podGone(f *facts.Pod, how informers.End) {
	now := e.now()
	if f.UID == "" {
		for _, p := range sorted(e.pods) {
			if p.h.Pod.Namespace == f.Namespace && p.h.Pod.Name == f.Name && p.h.Removal == nodeproof.Present {
				e.vanish(p, nodeproof.Unseen, nil, now)
			}
		}
		return
	}
	p := e.pods[f.UID]
	if p != nil {
		delete(p.job.onlyRead, f.UID)
	} else {
		// Never seen while it was there: its first state is its last.
		e.seePod(f, false)
		if p = e.pods[f.UID]; p == nil {
			e.stray(e.jobSetOf(f), func(s *stray) { s.pods[f.UID] = strayPod{last: f, gone: true, how: how} })
			return
		}
	}
	switch how {
	case informers.Final:
		e.vanish(p, nodeproof.Deleted, f, now)
	case informers.Unselected:
		p.check = true
		p.unselected = true
		e.touch(p, now)
	case informers.Missed:
		e.vanish(p, nodeproof.Unseen, nil, now)
	}
}

func (e *Engine) vanish(p *pod, how nodeproof.Removal, final *facts.Pod, now facts.Instant) {
	p.forced = how == nodeproof.Deleted && p.said.Verdict != nodeproof.Gone && p.h.Removal == nodeproof.Present
	e.hasEnded(p.h.Pod.UID)
	e.watchRuns(p, now, func() { p.h.Vanish(how, final, now, e.nodes) })
	p.check, p.unselected = false, false
	e.index(p)
	e.touch(p, now)
}

// hasEnded notes the end of an object while a survey is under way.
func (e *Engine) hasEnded(uid types.UID) {
	if e.surveying > 0 {
		e.ended[uid] = true
	}
}

// NodeSeen satisfies informers.Observer.
func (e *Engine) NodeSeen(n *facts.Node, initial bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	old := e.nodes.Current(n.Name)
	replaced := old != nil && old.Node.UID != n.UID
	if replaced {
		e.nodeEnded(old, now)
	}
	see := e.nodes.See
	if initial {
		see = e.nodes.List
	}
	if !see(n, now) {
		return
	}
	e.weather()
	e.nodeFindings(n)
	e.nodeChanged(n.Name, n.MachineID(), now)
}

// NodeGone satisfies informers.Observer.
func (e *Engine) NodeGone(n *facts.Node, how informers.End) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	in := e.nodes.Current(n.Name)
	if in == nil || n.UID != "" && in.Node.UID != n.UID {
		return
	}
	e.nodeEnded(in, now)
	if how == informers.Final {
		e.nodes.End(n.Name, n.UID, now)
	} else {
		e.nodes.Lose(n.Name, n.UID, now)
	}
	e.weather()
	e.nodeChanged(n.Name, in.Node.MachineID(), now)
}

// nodeChanged looks again at every pod that a node's change may concern.
func (e *Engine) nodeChanged(name string, machine facts.Machine, now facts.Instant) {
	for _, p := range sorted(e.onNode[name]) {
		e.follow(p, now)
		e.touch(p, now)
	}
	for _, p := range sorted(e.onMachine[machine]) {
		e.follow(p, now)
		e.contradictions(p) // at once: reads of the job may be under way, and this process may end before they do
		e.touch(p, now)
	}
}

func (e *Engine) follow(p *pod, now facts.Instant) {
	e.watchRuns(p, now, func() { p.h.Follow(now, e.nodes) })
	e.index(p)
}

// index keeps the pod findable by its node and by the machines it may have run on.
func (e *Engine) index(p *pod) {
	f := p.h.Pod
	if f.Bound() {
		if e.onNode[f.Node] == nil {
			e.onNode[f.Node] = map[types.UID]*pod{}
		}
		e.onNode[f.Node][f.UID] = p
	}
	for i := range p.h.Runs {
		r := &p.h.Runs[i]
		if !r.Machine.Known() {
			continue
		}
		if e.onMachine[r.Machine] == nil {
			e.onMachine[r.Machine] = map[types.UID]*pod{}
		}
		if e.onMachine[r.Machine][f.UID] == nil {
			e.onMachine[r.Machine][f.UID] = p
			p.machine = append(p.machine, r.Machine)
		}
	}
}

// touch has the pod judged again.
func (e *Engine) touch(p *pod, now facts.Instant) {
	if !p.event.Known() {
		p.event = now
	}
	e.again(p)
}

func (e *Engine) again(p *pod) {
	p.judged = false
	p.job.dirty[p.h.Pod.UID] = p
	e.c.Queue.Add(p.job.key)
}

func (e *Engine) job(key facts.JobKey) *job {
	j := e.jobs[key]
	if j != nil {
		return j
	}
	j = newJob(key, e.now())
	e.jobs[key] = j
	name := key.Incarnations()
	if e.byName[name] == nil {
		e.byName[name] = map[facts.JobKey]*job{}
	}
	e.byName[name][key] = j
	return j
}

func (e *Engine) dropPod(p *pod) {
	uid := p.h.Pod.UID
	p.job.tally(p, "")
	p.job.leave(p)
	e.c.Recorder.PodVerdict(string(p.said.Verdict), string(p.said.Reason), "", "")
	delete(e.pods, uid)
	delete(p.job.pods, uid)
	delete(p.job.dirty, uid)
	delete(p.job.onlyRead, uid)
	drop(e.onNode, p.h.Pod.Node, uid)
	for _, m := range p.machine {
		drop(e.onMachine, m, uid)
	}
}

func drop[K comparable](index map[K]map[types.UID]*pod, key K, uid types.UID) {
	delete(index[key], uid)
	if len(index[key]) == 0 {
		delete(index, key)
	}
}

func (e *Engine) dropJob(j *job) {
	for uid := range j.objects {
		if e.objects[uid] == j {
			delete(e.objects, uid)
		}
	}
	e.endAll(j)
	e.c.Recorder.JobState(string(j.state), "")
	delete(e.jobs, j.key)
	e.patients.note(j.key, false)
	name := j.key.Incarnations()
	delete(e.byName[name], j.key)
	if j.key.Unknown() { // it held the others back
		for other := range e.byName[name] {
			e.c.Queue.Add(other)
		}
	}
	if len(e.byName[name]) == 0 {
		delete(e.byName, name)
	}
}

// tally keeps the job's count of verdicts, as they were last told.
func (j *job) tally(p *pod, v nodeproof.Verdict) {
	if p.tallied != "" {
		j.counts[p.tallied]--
	}
	if v != "" {
		j.counts[v]++
	}
	p.tallied = v
}

// enter and leave keep what is known of the pods that are not Gone.
func (j *job) enter(p *pod) {
	uid := p.h.Pod.UID
	j.live[uid] = p
	if r, ok := p.rank(); ok {
		p.peer = j.ranks[r]
		j.ranks[r] = p
	}
	j.executions[p.execution()]++
}

func (j *job) leave(p *pod) {
	uid := p.h.Pod.UID
	if j.live[uid] == nil {
		return
	}
	delete(j.live, uid)
	if r, ok := p.rank(); ok {
		if j.ranks[r] == p {
			j.ranks[r] = p.peer
		} else {
			for q := j.ranks[r]; q != nil; q = q.peer {
				if q.peer == p {
					q.peer = p.peer
				}
			}
		}
		if p.peer = nil; j.ranks[r] == nil {
			delete(j.ranks, r)
		}
	}
	if j.executions[p.execution()]--; j.executions[p.execution()] == 0 {
		delete(j.executions, p.execution())
	}
}
