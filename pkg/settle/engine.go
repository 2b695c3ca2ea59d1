package settle

import (
	"context"
	"sync"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/nodeproof"
	"github.com/orphand/orphand/pkg/signals"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// Live reads the API server itself, not a cache. A nil record with a nil error means that there is no such object.
type Live interface {
	Node(ctx context.Context, name string) (*facts.Node, error)
	TrainJob(ctx context.Context, namespace, name string) (*facts.TrainJob, error)
	JobSet(ctx context.Context, namespace, name string) (*facts.Object, error)
	Pod(ctx context.Context, namespace, name string) (*facts.Pod, error)
	// Remains finds what is left of a job among the kinds that are not watched: those with the exact names that Trainer
	// gives them and an owner reference to the job or to one of its JobSets. services are names of headless Services that are
	// not the JobSet's.
	Remains(ctx context.Context, job facts.JobKey, jobSets []types.UID, services []string) ([]*facts.Object, error)
	// Survey finds what of a job may run or start a run: the JobSet of its name, and the Jobs and pods that carry its name,
	// except those of the given JobSets, which are other jobs'.
	Survey(ctx context.Context, namespace, name string, not []types.UID) ([]*facts.Object, []*facts.Pod, error)
}

// Queue is the work queue of job keys.
type Queue interface {
	Add(facts.JobKey)
	AddAfter(facts.JobKey, time.Duration)
}

// Recorder counts. Verdicts, reasons and states are the words of this package and nodeproof; "" means none.
type Recorder interface {
	PodVerdict(fromVerdict, fromReason, toVerdict, toReason string)
	JobState(from, to string)
	Settled(time.Duration)
	VerdictLatency(time.Duration)
	Finding(code string, started bool)
}

// Options are the engine's delays and thresholds.
type Options struct {
	Proof nodeproof.Options
	// Quiet is how long after its TrainJob was seen gone, and after the last of what may make pods for it, a job is not called
	// settled: children can arrive late.
	Quiet time.Duration
	// RecordTTL is how long a cleared job is remembered.
	RecordTTL time.Duration
	// GCGrace is how long the cluster's garbage collector is given.
	GCGrace time.Duration
	// RecreateLoop is how many JobSets of one job, or pods of one rank, within RecreateWindow make a loop.
	RecreateLoop   int
	RecreateWindow time.Duration
	// StuckAfter is how long after its grace a pod on a node that can be heard may take; HeldAfter how long a finalizer may
	// hold an object.
	StuckAfter, HeldAfter time.Duration
	// CopyGrace is how long a runtime copy without an owner and without a TrainJob of its name is left alone.
	CopyGrace time.Duration
}

// Defaults are the values when nobody says otherwise.
func Defaults() Options {
	return Options{
		Proof:          nodeproof.Defaults(),
		Quiet:          5 * time.Second,
		RecordTTL:      time.Hour,
		GCGrace:        time.Minute,
		RecreateLoop:   3,
		RecreateWindow: time.Minute,
		StuckAfter:     5 * time.Minute,
		HeldAfter:      30 * time.Second,
		CopyGrace:      10 * time.Minute,
	}
}

// Config is what an engine works with.
type Config struct {
	Options
	Clock    clock.PassiveClock
	Live     Live
	Queue    Queue
	Sink     signals.Sink
	Recorder Recorder
	// Ledger keeps the records; nil for none.
	Ledger Ledger
	// Reaper clears away what is left; nil for nobody.
	Reaper Reaper
	// IsRuntimeCopy says by its labels whether a TrainingRuntime is an adapter's copy for one TrainJob; nil: none is.
	IsRuntimeCopy func(labels map[string]string) bool
	// Readers is how many live reads may be under way at once for one job; 1 makes a run repeatable.
	Readers int
}

// Engine is the memory of all jobs and the decisions on them. It is an informers.Observer; Sync works one job off. It is
// safe for concurrent use.
type Engine struct {
	c Config

	mu    sync.Mutex
	last  facts.Instant
	nodes *nodeproof.Nodes
	// podsUnseen says that pods are not watched now.
	podsUnseen bool
	jobs       map[facts.JobKey]*job
	// byName finds every incarnation of a name.
	byName map[types.NamespacedName]map[facts.JobKey]*job
	// jobSets says whose each JobSet is, for as long as anything of it may be left; the zero key is nobody's (a JobSet that
	// no TrainJob owns).
	jobSets map[types.UID]facts.JobKey
	// batchJobs says which JobSet each Job is of.
	batchJobs map[types.UID]types.UID
	// unresolved finds the jobs that stand in for a JobSet that was never seen, one in each namespace that knows of it.
	unresolved map[types.UID][]facts.JobKey
	// strangers are the JobSets of nobody that are gone, and when they went: their pods may be there for long.
	strangers map[types.UID]facts.Instant
	objects   map[types.UID]*job
	pods      map[types.UID]*pod
	// onNode and onMachine find the pods that a change of a node may concern.
	onNode    map[string]map[types.UID]*pod
	onMachine map[facts.Machine]map[types.UID]*pod
	// surveying counts the surveys under way, and ended names what was told to be gone meanwhile: their answers may be older.
	surveying int
	patients  patients
	ended     map[types.UID]bool
	// strays are what the first lists showed of JobSets that are nobody's, until the records have been read: one of them may say
	// whose they are. Nil once work has begun.
	strays   map[types.UID]*stray
	findings map[cause]signals.Event
	pruned   facts.Instant
	// copies are the runtime copies that no TrainJob owns; copySeen is when those that tell no age were first judged.
	copies   map[types.NamespacedName]*facts.Object
	copySeen map[types.UID]facts.Instant
}

// New makes an engine that knows nothing yet.
func New(c Config) *Engine {
	if c.Readers < 1 {
		c.Readers = 1
	}
	if c.Recorder == nil {
		c.Recorder = uncounted{}
	}
	if c.Sink == nil {
		c.Sink = signals.Discard{}
	}
	return &Engine{
		c:          c,
		nodes:      nodeproof.NewNodes(),
		jobs:       map[facts.JobKey]*job{},
		byName:     map[types.NamespacedName]map[facts.JobKey]*job{},
		jobSets:    map[types.UID]facts.JobKey{},
		batchJobs:  map[types.UID]types.UID{},
		unresolved: map[types.UID][]facts.JobKey{},
		strangers:  map[types.UID]facts.Instant{},
		objects:    map[types.UID]*job{},
		pods:       map[types.UID]*pod{},
		onNode:     map[string]map[types.UID]*pod{},
		onMachine:  map[facts.Machine]map[types.UID]*pod{},
		findings:   map[cause]signals.Event{},
		ended:      map[types.UID]bool{},
		strays:     map[types.UID]*stray{},
		copies:     map[types.NamespacedName]*facts.Object{},
		copySeen:   map[types.UID]facts.Instant{},
	}
}

type uncounted struct{}

func (uncounted) PodVerdict(_, _, _, _ string) {}
func (uncounted) JobState(_, _ string)         {}
func (uncounted) Settled(time.Duration)        {}
func (uncounted) VerdictLatency(time.Duration) {}
func (uncounted) Finding(string, bool)         {}

// now is the time, and never the same twice: what was seen later has the later time even when the clock stands still. A
// live read counts only for what was seen before it.
func (e *Engine) now() facts.Instant {
	e.last = max(facts.At(e.c.Clock.Now()), e.last+1)
	return e.last
}

// SetNodesReadable says whether orphand may read Nodes. While it may not, nothing is proven.
func (e *Engine) SetNodesReadable(readable bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.nodes.Readable == readable {
		return
	}
	e.nodes.Readable = readable
	e.weather()
	now := e.now()
	for _, p := range sorted(e.pods) {
		if readable {
			p.h.Recount(now)
		}
		e.follow(p, now)
		e.touch(p, now)
	}
}

// SetNodesWatched says whether the watch of Nodes delivers. While it does not, that a machine has not been seen proves nothing.
func (e *Engine) SetNodesWatched(watched bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	if !e.nodes.Watch(watched, now) || !watched {
		return
	}
	for _, p := range sorted(e.pods) {
		e.touch(p, now)
	}
}

// NodesReadable says whether orphand may read Nodes.
func (e *Engine) NodesReadable() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.nodes.Readable
}

// Attest takes a person's word that nothing runs any more of a pod, or of any pod on a Node, by UID.
func (e *Engine) Attest(uid types.UID, a nodeproof.Attestation) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.nodes.Attest(uid, a)
	now := e.now()
	for _, p := range e.pods {
		if p.h.Pod.UID == uid || p.ranOn(uid) {
			e.touch(p, now)
		}
	}
}

// Unattest takes a word back that was not used yet: evidence that was made of it stays.
func (e *Engine) Unattest(uid types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.nodes.Unattest(uid)
}

// OldestUnproven is for how many seconds the longest-standing Unproven pod has been Unproven; 0 when there is none.
func (e *Engine) OldestUnproven() float64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	var oldest facts.Instant
	for _, p := range e.pods {
		if p.said.Verdict == nodeproof.Unproven && (!oldest.Known() || p.unprovenSince < oldest) {
			oldest = p.unprovenSince
		}
	}
	if !oldest.Known() {
		return 0
	}
	return e.now().Sub(oldest).Seconds()
}

// UnreachableNodes counts the nodes that cannot be heard and have pods of jobs that are not Gone.
func (e *Engine) UnreachableNodes() float64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	count := 0
	for name, pods := range e.onNode {
		if n := e.nodes.Newest(name); n != nil && n.Heard() {
			continue
		}
		for _, p := range pods {
			if p.said.Verdict == nodeproof.Unproven {
				count++
				break
			}
		}
	}
	return float64(count)
}
