package settle

import (
	"slices"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/nodeproof"
	"k8s.io/apimachinery/pkg/types"
)

// State is what a job has come to.
type State string

// The states.
const (
	Active    State = "Active"
	Finished  State = "Finished"
	Deleting  State = "Deleting"
	Elsewhere State = "Elsewhere" // it runs in another cluster: nothing can be known of its processes here
	Unproven  State = "Unproven"  // gone, and at least one pod is Unproven
	Settling  State = "Settling"  // gone, and something is Alive, or could start, or the quiet is not over
	Settled   State = "Settled"   // safe to run again
	Cleared   State = "Cleared"   // settled, and nothing is left
)

// States lists every state.
func States() []State {
	return []State{Active, Finished, Deleting, Elsewhere, Unproven, Settling, Settled, Cleared}
}

// Sentence says the state to a person, about a job.
func (s State) Sentence(job string) string {
	switch s {
	case Active:
		return "TrainJob " + job + " is there and not finished."
	case Finished:
		return "TrainJob " + job + " is finished."
	case Deleting:
		return "TrainJob " + job + " was asked to go and is still there."
	case Elsewhere:
		return "TrainJob " + job + " runs in another cluster: nothing can be known of its processes here."
	case Unproven:
		return "TrainJob " + job + " is gone, and nobody can tell whether processes of it still run: do not run it again."
	case Settling:
		return "TrainJob " + job + " is gone, and something of it may still run or start: do not run it again yet."
	case Settled:
		return "Job " + job + " is settled: none of its processes runs or can start, so it is safe to run it again."
	case Cleared:
		return "Job " + job + " is settled, so it is safe to run it again, and nothing of it is left in the cluster."
	}
	return ""
}

// Over says whether no process of the job can be running or start: Settled or Cleared.
func (s State) Over() bool { return s == Settled || s == Cleared }

// job is one TrainJob incarnation and what was seen of it.
type job struct {
	key facts.JobKey
	// trainJob is its last known state; nil when it was never seen.
	trainJob *facts.TrainJob
	present  bool
	// seen is when anything of the job was first seen; gone is when its TrainJob was first seen to be gone, unknown while
	// it is there; sure says that a live read agreed; known that a live read or the watch has told at all.
	seen, gone facts.Instant
	sure       bool
	// stirred is when anything of the job arrived last, or what could make pods went, since its TrainJob was gone.
	stirred facts.Instant
	// initial says that the TrainJob was there when orphand started; finished that it, or a JobSet of it, was once.
	initial, finished bool
	// objects are the remains that are there, other than pods; jobSets those it ever had, in order of arrival.
	objects map[types.UID]*facts.Object
	jobSets []arrival
	pods    map[types.UID]*pod
	// live are the pods that are not Gone, ranks the newest of them of each rank, and executions counts them by execution.
	live       map[types.UID]*pod
	ranks      map[rank]*pod
	executions map[execution]int
	// succeeded names the pod of each rank that ended well; rankSeen is when pods of a rank arrived lately.
	succeeded map[rank]types.UID
	rankSeen  map[rank][]facts.Instant
	// dirty are the pods to be judged again, and podDue is when the first of the others is.
	dirty  map[types.UID]*pod
	podDue facts.Instant
	counts map[nodeproof.Verdict]int
	state  State
	// settled is when it was last said to be over, cleared when nothing was left.
	settled, cleared facts.Instant
	// extra are the remains of unwatched kinds by the last live look; looked says that there was one since anything
	// arrived, lookAt when the next is due, and looks how many there were.
	extra  []*facts.Object
	looked bool
	lookAt facts.Instant
	looks  int
	// past is what a record said of the job before this process began, told the findings so far.
	past Past
	told []FindingNote
	// bare is since when a TrainJob that is to go has had nothing left under it; unknown while it has.
	bare facts.Instant
	// surveyed is when the last survey was begun that found nothing new, unknown since anything arrived; surveyAt is when the
	// next is due, and onlyRead what was found by live reads and has not been shown by a watch yet.
	surveyed, surveyAt facts.Instant
	onlyRead           map[types.UID]bool
	// rootAt is when the TrainJob is read again, which was found by a live read and has not been shown by a watch yet.
	rootAt facts.Instant
	// touched are the ranks to be looked at.
	touched map[rank]bool
}

// arrival is a JobSet of a job.
type arrival struct {
	uid types.UID
	at  facts.Instant
	// again says that it came when the job's work should have been over.
	again bool
}

// execution is one attempt of one JobSet at the job's work.
type execution struct {
	jobSet  types.UID
	attempt string
}

// rank is one part of the work: a completion index of one Job.
type rank struct {
	job   types.UID
	index string
}

// pod is one pod UID of a job.
type pod struct {
	h      *nodeproof.History
	job    *job
	said   nodeproof.Pair // the verdict that was last told
	saidAt facts.Instant
	// unprovenSince is when it last became Unproven; heardAgain when it last was Alive after that.
	unprovenSince facts.Instant
	heardAgain    facts.Instant
	due           facts.Instant
	// event is when the event arrived that may change the verdict; unknown when it was judged since.
	event   facts.Instant
	initial bool
	// check says that a filtered watch no longer selects it and a live read must tell whether it is there.
	check bool
	// unselected says that its changes are no longer delivered.
	unselected bool
	// carried says that it comes from a record, on which it was not Gone.
	carried bool
	// forced says that its object went while it was not Gone.
	forced bool
	// tallied is the verdict under which its job counts it.
	tallied nodeproof.Verdict
	machine []facts.Machine
	// peer is the next pod of the same rank that is not Gone. Most ranks have one pod: a map for each would take more than
	// all else that is held of it.
	peer *pod
	// next is the newest judgement until it is told, and judged says that nothing has changed since.
	next   *nodeproof.Judgement
	judged bool
}

func (p *pod) execution() execution {
	return execution{jobSet: p.h.Pod.JobSetUID, attempt: p.h.Pod.RestartAttempt}
}

func (p *pod) rank() (rank, bool) {
	r := rank{job: p.h.Pod.JobUID, index: p.h.Pod.Index}
	return r, r.job != "" && r.index != ""
}

func (p *pod) ranOn(node types.UID) bool {
	for i := range p.h.Runs {
		if p.h.Runs[i].NodeUID == node {
			return true
		}
	}
	return false
}

func newJob(key facts.JobKey, now facts.Instant) *job {
	return &job{
		key:        key,
		seen:       now,
		objects:    map[types.UID]*facts.Object{},
		pods:       map[types.UID]*pod{},
		live:       map[types.UID]*pod{},
		dirty:      map[types.UID]*pod{},
		counts:     map[nodeproof.Verdict]int{},
		ranks:      map[rank]*pod{},
		executions: map[execution]int{},
		succeeded:  map[rank]types.UID{},
		rankSeen:   map[rank][]facts.Instant{},
		touched:    map[rank]bool{},
		onlyRead:   map[types.UID]bool{},
	}
}

// couldStart says whether a remain is there that a controller may still make pods from.
func (j *job) couldStart() bool {
	for _, o := range j.objects {
		if makesPods(o) {
			return true
		}
	}
	return false
}

// makesPods says whether an object is one for which controllers may make pods.
func makesPods(o *facts.Object) bool {
	return (o.Kind == facts.KindJobSet || o.Kind == facts.KindJob) && !o.Terminating()
}

// left counts the remains that are there, as far as the watches tell.
func (j *job) left() int {
	n := len(j.objects)
	for _, p := range j.pods {
		if p.h.Removal == nodeproof.Present {
			n++
		}
	}
	return n
}

// decide gives the state of a job at now. held says that a job of the same name, whose TrainJob nobody can name any more,
// is not over.
func (j *job) decide(o Options, held bool, now facts.Instant) State {
	if j.elsewhere() {
		return Elsewhere
	}
	if j.present {
		switch t := j.trainJob; {
		case t.Deletion.Known():
			return Deleting
		case t.Finished():
			return Finished
		}
		return Active
	}
	switch {
	case j.counts[nodeproof.Unproven] > 0:
		return Unproven
	case j.counts[nodeproof.Alive] > 0, j.couldStart(), held, now < j.quietEnds(o), j.surveyed < j.quietEnds(o):
		return Settling
	case !j.looked || len(j.extra) > 0 || j.left() > 0:
		return Settled
	}
	return Cleared
}

// services names the headless Services of the job that do not have its own name, by its pods.
func (j *job) services() []string {
	var names []string
	for _, p := range j.pods {
		if name := p.h.Pod.Subdomain; name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// elsewhere says whether the job runs in another cluster, by its TrainJob, or by a record where the TrainJob went while nobody
// watched: managedBy cannot be changed.
func (j *job) elsewhere() bool {
	return j.past.State == Elsewhere || j.trainJob != nil && j.trainJob.ManagedBy != ""
}

// quietEnds is when the job may be called settled at the earliest. Whoever makes a child of a job that is gone is behind, and
// may make more; and controllers learn a moment later that what they make children for is gone.
func (j *job) quietEnds(o Options) facts.Instant {
	from := j.gone
	if j.key.Unknown() {
		from = j.seen
	}
	return max(from, j.stirred).After(o.Quiet)
}
