package settle

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/nodeproof"
	"github.com/orphand/orphand/pkg/signals"
	"k8s.io/apimachinery/pkg/types"
)

// Note is what a record holds of a job: enough for people to read and for another process to go on from.
type Note struct {
	Job   facts.JobKey
	State State
	// Reason is one word for why the job is not settled, or "" when it is.
	Alive, Unproven, Gone int
	GoneAt, SettledAt     facts.Instant
	// WaitingFor names in a few words what the job waits for.
	WaitingFor string
	JobSets    []types.UID
	// Pods are those that are not Gone, by name. Proven are Gone by what a node showed, with their objects still there: the
	// node may not show it any more when another process looks.
	Pods     []PodNote
	Proven   []PodNote
	Evidence []EvidenceNote
	Findings []FindingNote
}

// PodNote is one pod.
type PodNote struct {
	History *nodeproof.History
	Said    nodeproof.Pair
	Since   facts.Instant
}

// EvidenceNote says how many pods one kind of evidence proved to be Gone.
type EvidenceNote struct {
	Reason      nodeproof.Reason
	Weak        bool
	Count       int
	First, Last facts.Instant
	Sources     []string
}

// FindingNote is one finding.
type FindingNote struct {
	Code         signals.Finding
	Cause        string
	Message      string
	Since, Until facts.Instant
}

// Ledger is told of jobs whose record may have to change. Keep must not block.
type Ledger interface {
	Keep(facts.JobKey)
}

// maxSources is how many objects a kind of evidence names.
const maxSources = 5

// Note describes a job for its record. It is false for a job that needs none: one that lives and of which no pod's object
// went without proof.
func (e *Engine) Note(key facts.JobKey) (Note, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	j := e.jobs[key]
	if j == nil || !j.recorded() {
		return Note{}, false
	}
	n := Note{Job: key, State: j.state, Alive: j.counts[nodeproof.Alive], Unproven: j.counts[nodeproof.Unproven],
		GoneAt: j.gone, SettledAt: j.settled, WaitingFor: j.waitingFor()}
	for _, a := range j.jobSets {
		n.JobSets = append(n.JobSets, a.uid)
	}
	// Those that an earlier process left as not Gone are not among the ones that it counted; of all others nobody can tell.
	evidence, later := map[evidenceKind]*EvidenceNote{}, map[evidenceKind]*EvidenceNote{}
	for _, p := range sorted(j.pods) {
		if p.carried && p.said.Verdict == nodeproof.Gone {
			n.Gone++
		}
		if proof := p.h.Proof; proof != nil {
			into := evidence
			if p.carried {
				into = later
			}
			summarize(into, *proof)
			if p.h.Removal != nodeproof.Present || p.shows() {
				continue
			}
		}
		h := *p.h
		h.Runs = slices.Clone(p.h.Runs)
		for i := range h.Runs {
			in := e.nodes.Instance(h.Runs[i].NodeUID)
			h.Runs[i].TaintStale = in != nil && in.TaintStale
		}
		note := PodNote{History: &h, Said: p.said, Since: p.saidAt}
		if note.Said == (nodeproof.Pair{}) { // seen, and not judged yet
			note.Said, note.Since = nodeproof.Pair{Verdict: nodeproof.Alive, Reason: nodeproof.Pending}, h.Seen
			if h.Pod.Bound() {
				note.Said.Reason = nodeproof.Running
			}
		}
		if h.Proof != nil {
			n.Proven = append(n.Proven, note)
		} else {
			n.Pods = append(n.Pods, note)
		}
	}
	for _, past := range j.past.Evidence {
		if now := evidence[evidenceKind{past.Reason, past.Weak}]; now == nil || now.Count < past.Count {
			evidence[evidenceKind{past.Reason, past.Weak}] = &past
		}
	}
	n.Gone += max(j.counts[nodeproof.Gone]-n.Gone, j.past.Gone)
	for kind, s := range later {
		if before := evidence[kind]; before != nil {
			s = before.and(*s)
		}
		evidence[kind] = s
	}
	for _, s := range evidence {
		n.Evidence = append(n.Evidence, *s)
	}
	slices.SortFunc(n.Evidence, func(a, b EvidenceNote) int {
		return cmp.Or(cmp.Compare(a.Reason, b.Reason), cmp.Compare(strconv.FormatBool(a.Weak), strconv.FormatBool(b.Weak)))
	})
	for _, list := range [][]PodNote{n.Pods, n.Proven} {
		slices.SortFunc(list, func(a, b PodNote) int {
			return cmp.Or(cmp.Compare(a.History.Pod.Name, b.History.Pod.Name), cmp.Compare(a.History.Pod.UID, b.History.Pod.UID))
		})
	}
	n.Findings = slices.Clone(j.told)
	return n, true
}

// shows says whether the object of a pod that is Gone shows so by itself, for another process to see at once: one that ran on
// two machines, or of which its kubelet had lost sight, does not.
func (p *pod) shows() bool {
	proof := p.h.Proof
	return proof.Reason == nodeproof.NeverStarted || proof.Reason == nodeproof.KubeletConfirmed && !proof.Weak && len(p.h.Runs) <= 1
}

type evidenceKind struct {
	reason nodeproof.Reason
	weak   bool
}

// and is both notes in one.
func (n EvidenceNote) and(other EvidenceNote) *EvidenceNote {
	n.Count += other.Count
	n.First, n.Last = min(n.First, other.First), max(n.Last, other.Last)
	n.Sources = slices.Clone(n.Sources)
	for _, source := range other.Sources {
		if len(n.Sources) < maxSources && !slices.Contains(n.Sources, source) {
			n.Sources = append(n.Sources, source)
		}
	}
	return &n
}

func summarize(evidence map[evidenceKind]*EvidenceNote, proof nodeproof.Evidence) {
	kind := evidenceKind{proof.Reason, proof.Weak}
	s := evidence[kind]
	if s == nil {
		s = &EvidenceNote{Reason: proof.Reason, Weak: proof.Weak, First: proof.At, Last: proof.At}
		evidence[kind] = s
	}
	s.Count++
	s.First, s.Last = min(s.First, proof.At), max(s.Last, proof.At)
	if len(s.Sources) < maxSources && proof.Source.Kind == facts.KindNode {
		if name := proof.Describe(); !slices.Contains(s.Sources, name) {
			s.Sources = append(s.Sources, name)
		}
	}
}

// recorded says whether the job needs a record.
func (j *job) recorded() bool {
	if j.state == "" {
		return false
	}
	if !j.present || j.trainJob.Deletion.Known() || j.past.State != "" {
		return true
	}
	for _, p := range j.live {
		if p.h.Removal != nodeproof.Present && p.h.Pod.Bound() {
			return true // the record is the only trace of it that outlives this process
		}
	}
	return false
}

// waitingFor names the nodes of the pods that are Unproven, else what is Alive, else what could start a pod.
func (j *job) waitingFor() string {
	nodes, alive := map[string]bool{}, 0
	for _, p := range j.live {
		if p.said.Verdict != nodeproof.Unproven {
			alive++
			continue
		}
		name := p.h.Pod.Node
		if name == "" {
			name = "pod " + p.h.Pod.Name
		}
		nodes[name] = true
	}
	if len(nodes) > 0 {
		names := make([]string, 0, len(nodes))
		for name := range nodes {
			names = append(names, name)
		}
		slices.Sort(names)
		if n := len(names); n > 3 {
			return strings.Join(names[:3], ", ") + " and " + strconv.Itoa(n-3) + " more"
		}
		return strings.Join(names, ", ")
	}
	if j.state == Elsewhere {
		return "another cluster"
	}
	if j.present || j.state.Over() {
		return ""
	}
	if alive > 0 {
		return strconv.Itoa(alive) + " pods"
	}
	for _, o := range j.sortedObjects() {
		if makesPods(o) {
			return o.Ref().String()
		}
	}
	return ""
}

// KeepAll has every job's record looked at: records can be kept from now on, or this process has begun to lead.
func (e *Engine) KeepAll() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for key := range e.jobs {
		if e.c.Ledger != nil {
			e.c.Ledger.Keep(key)
		}
	}
}

// Restore goes on from a record that another process wrote. It is called when the caches are filled and before any job is
// worked on: a pod on the record that is in no cache went while nobody watched, unless the API server says that it is there.
func (e *Engine) Restore(n Note) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	j := e.job(n.Job)
	j.past = Past{State: n.State, Gone: n.Gone, Evidence: n.Evidence}
	if j.state == "" {
		j.state = n.State
		e.c.Recorder.JobState("", string(n.State))
	}
	switch {
	case !n.GoneAt.Known():
	case n.State == Unproven || n.State == Settling || n.State.Over():
		// Found gone by a live read, and no UID comes back: a list that shows it is behind.
		j.present, j.sure, j.gone = false, true, n.GoneAt
		e.patients.note(j.key, true)
	case !j.present:
		j.gone = n.GoneAt
	}
	if n.Job.Unknown() && n.GoneAt.Known() {
		j.seen = min(j.seen, n.GoneAt) // its quiet goes on
	}
	j.settled = n.SettledAt
	if n.State.Over() {
		j.surveyed = now // by whoever wrote it
	}
	if n.State == Cleared {
		j.cleared = now
	}
	for _, uid := range n.JobSets {
		known := false
		for _, a := range j.jobSets {
			known = known || a.uid == uid
		}
		if !known {
			j.jobSets = append([]arrival{{uid: uid, at: n.GoneAt}}, j.jobSets...)
		}
		if !n.Job.Unknown() {
			e.resolve(uid, n.Job.Namespace, n.Job)
		}
	}
	for _, f := range n.Findings {
		j.told = append(j.told, f)
		if !f.Until.Known() {
			c := cause{finding: f.Code, job: j.key, on: f.Cause}
			ev := e.jobEvent(j, f.Since.Time())
			ev.Finding, ev.Phase, ev.Message = f.Code, signals.Started, f.Message
			e.findings[c] = ev
			e.c.Recorder.Finding(string(f.Code), true)
		}
	}
	for _, pn := range slices.Concat(n.Pods, n.Proven) {
		e.restorePod(j, pn, now)
	}
	e.c.Queue.Add(j.key)
	if !n.Job.Unknown() {
		return
	}
	// The first lists may have told whose the JobSet is: what has a job of its own on record is that job's then, and the
	// record's is not over for being left without anything.
	uid := types.UID(strings.TrimPrefix(string(n.Job.UID), facts.UnknownPrefix))
	e.standsFor(uid, n.Job)
	if key, known := e.jobSets[uid]; known && key != n.Job && key != (facts.JobKey{}) && key.Namespace == n.Job.Namespace {
		e.merge(uid, n.Job.Namespace, key)
	}
}

func (e *Engine) restorePod(j *job, pn PodNote, now facts.Instant) {
	uid := pn.History.Pod.UID
	p := e.pods[uid]
	if p == nil {
		h := pn.History
		p = &pod{job: j, h: h, initial: true}
		e.pods[uid] = p
		j.pods[uid] = p
		j.enter(p)
		h.Resume(now, e.nodes)
		if h.Removal == nodeproof.Present && pn.Said.Verdict != nodeproof.Gone {
			// The first list may be behind what the record's writer saw: whether the pod went, the API server is asked. A wrong
			// yes would have it count as asked to terminate, and what is evidence for such a pod as evidence for this one.
			p.check, p.unselected = true, true
		} else {
			h.Vanish(nodeproof.Unseen, nil, now, e.nodes)
		}
	} else {
		seen := *p.h
		h := pn.History
		h.Resume(now, e.nodes)
		h.SeePod(seen.Pod, now, true, e.nodes)
		if seen.Removal != nodeproof.Present { // since the first list
			h.Vanish(seen.Removal, seen.Pod, now, e.nodes)
		}
		p.h = h
	}
	p.said, p.saidAt, p.carried = pn.Said, pn.Since, pn.Said.Verdict != nodeproof.Gone
	if pn.Said.Verdict == nodeproof.Unproven {
		p.unprovenSince = pn.Since
	}
	p.job.tally(p, pn.Said.Verdict)
	if pn.Said.Verdict == nodeproof.Gone {
		p.job.leave(p)
	}
	e.c.Recorder.PodVerdict("", "", string(pn.Said.Verdict), string(pn.Said.Reason))
	e.index(p)
	e.touch(p, now)
}

// Past is what a record said before this process began.
type Past struct {
	State    State
	Gone     int
	Evidence []EvidenceNote
}
