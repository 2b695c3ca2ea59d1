package app

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	jobsetclient "sigs.k8s.io/jobset/client-go/clientset/versioned"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/informers"
	"github.com/orphand/orphand/pkg/metrics"
	"github.com/orphand/orphand/pkg/nodeproof"
	"github.com/orphand/orphand/pkg/queue"
	"github.com/orphand/orphand/pkg/settle"
	"github.com/orphand/orphand/pkg/signals"
)

const (
	// turnTimeout bounds one job's turn, live reads included: the connections have no time limit, since watches last long.
	turnTimeout = time.Minute
	// stuckAfter is how long work on one job may take before a restart is asked for. Every turn gives up earlier.
	stuckAfter = 5 * time.Minute
	// worthALine is from which failure in a row on a job's trouble is logged: one blip of the API is not.
	worthALine = 3
	// liveReaders is how many live reads of one job may be under way at once.
	liveReaders = 8
)

// follower watches the cluster and works off what changed, job by job.
type follower struct {
	clock    clock.WithTicker
	sink     signals.Sink
	recorder *metrics.Recorder
	engine   *settle.Engine
	watches  *informers.Set
	jobs     *queue.Queue[facts.JobKey]
	trouble  *noise
	name     *cache.InformerName

	mu     sync.Mutex
	states map[string]informers.State
	// unreadable says that NodesUnreadable was said and has not ended.
	unreadable bool
	// done is closed when the watches are called off; nil before they begin.
	done <-chan struct{}
}

// newFollower makes the watches, the engine and the queue between them; nothing runs yet.
func newFollower(options Options, clients informers.Clients, clk clock.WithTicker, sink signals.Sink, recorder *metrics.Recorder) (*follower, error) {
	f := &follower{clock: clk, sink: sink, recorder: recorder, trouble: newNoise(clk), states: map[string]informers.State{}}
	f.jobs = queue.New(queue.Options[facts.JobKey]{
		Name: "jobs", Clock: clk, Workers: options.Workers, Metrics: recorder.Queues(), OnFailure: f.failed})

	thresholds := settle.Defaults()
	thresholds.Quiet = options.SettleQuiet
	thresholds.Proof = nodeproof.Options{NodeDeletionQuarantine: options.NodeDeletionQuarantine, WeakEvidenceDelay: options.WeakEvidenceDelay}
	f.engine = settle.New(settle.Config{
		Options:  thresholds,
		Clock:    clk,
		Live:     &informers.Live{Clients: clients, Count: recorder.LiveRead},
		Queue:    f.jobs,
		Sink:     sink,
		Recorder: recorder,
		Readers:  liveReaders,
	})
	recorder.NodesReadable(f.engine.NodesReadable())
	recorder.OldestUnproven(f.engine.OldestUnproven)
	recorder.UnreachableNodes(f.engine.UnreachableNodes)

	var err error
	if f.name, err = cache.NewInformerName("orphand"); err != nil {
		return nil, fmt.Errorf("naming the informers: %w", err)
	}
	f.watches, err = informers.New(informers.Config{
		Clients: clients, Observer: f.engine, Clock: clk, Changed: f.changed, Name: f.name, Metrics: recorder.Informers()})
	if err != nil {
		f.name.Release()
		return nil, err
	}
	for _, kind := range f.watches.Kinds() {
		recorder.KindState(kind.Kind, string(kind.State))
		f.states[kind.Kind] = kind.State
	}
	return f, nil
}

// close gives back what newFollower took, whether or not run was ever called.
func (f *follower) close() {
	f.jobs.ShutDown()
	f.name.Release()
}

// newAPIClients makes the clients of the watches and live reads, all over one connection pool and one rate limit.
func newAPIClients(c *clients) (informers.Clients, error) {
	binary := rest.CopyConfig(c.config)
	binary.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	binary.ContentType = "application/vnd.kubernetes.protobuf"

	var made informers.Clients
	var err error
	if made.Kube, err = kubernetes.NewForConfigAndClient(binary, c.http); err != nil {
		return made, fmt.Errorf("making the client for pods and nodes: %w", err)
	}
	if made.JobSets, err = jobsetclient.NewForConfigAndClient(c.config, c.http); err != nil {
		return made, fmt.Errorf("making the client for JobSets: %w", err)
	}
	if made.Dynamic, err = dynamic.NewForConfigAndClient(c.config, c.http); err != nil {
		return made, fmt.Errorf("making the client for TrainJobs: %w", err)
	}
	if made.Metadata, err = metadata.NewForConfigAndClient(metadata.ConfigFor(c.config), c.http); err != nil {
		return made, fmt.Errorf("making the client for metadata: %w", err)
	}
	return made, nil
}

// run watches until ctx ends, then finishes the jobs in work. No job is judged before every cache that a verdict needs is
// filled: what is not in a cache yet would look as if it were gone.
func (f *follower) run(ctx context.Context) error {
	begun := f.clock.Now()

	// The watches end after the workers: what a worker still concludes is concluded from caches that live.
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	f.mu.Lock()
	f.done = watching.Done()
	f.mu.Unlock()
	var watches sync.WaitGroup
	watches.Go(func() { f.watches.Run(watching) })
	defer watches.Wait()
	defer stop()

	if !f.watches.WaitUsable(ctx) {
		return nil
	}
	f.sink.Emit(signals.Event{Code: signals.CachesSynced, Attrs: []signals.Attr{{Key: "seconds", Value: f.clock.Since(begun).Seconds()}}})
	return f.jobs.Run(ctx, func(ctx context.Context, job facts.JobKey) error {
		ctx, cancel := context.WithTimeout(ctx, turnTimeout)
		defer cancel()
		return f.engine.Sync(ctx, job)
	})
}

// changed takes note of a kind's new state.
func (f *follower) changed(s informers.Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.done:
		return // A watch that is called off ends with an error, which would look like a kind that fails.
	default:
	}
	from := f.states[s.Kind]
	if from == s.State {
		return
	}
	f.states[s.Kind] = s.State
	f.recorder.KindState(s.Kind, string(s.State))
	f.sink.Emit(kindEvent(from, s))
	if s.Kind != facts.KindNode {
		return
	}
	// A Node watch that merely fails leaves Nodes readable: what it said last still stands, and the live read that every
	// proof needs fails by itself.
	switch s.State {
	case informers.Watching:
		f.engine.SetNodesReadable(true)
		f.recorder.NodesReadable(true)
		if f.unreadable {
			f.unreadable = false
			f.sink.Emit(nodesEvent(true, s))
		}
	case informers.Forbidden:
		f.engine.SetNodesReadable(false)
		f.recorder.NodesReadable(false)
		f.unreadable = true
		f.sink.Emit(nodesEvent(false, s))
	}
}

// failed says what goes wrong with a job again and again, without repeating itself.
func (f *follower) failed(failure queue.Failure[facts.JobKey]) {
	code, attrs := signals.WorkFailed, []signals.Attr{{Key: "attempt", Value: failure.Attempt}}
	if failure.Stack != nil {
		f.recorder.Panic()
		code = signals.WorkPanicked
	} else if failure.Attempt < worthALine {
		return
	}
	leftOut, ok := f.trouble.admit(string(code))
	if !ok {
		return
	}
	if leftOut > 0 {
		attrs = append(attrs, signals.Attr{Key: "repeated", Value: leftOut})
	}
	if failure.Stack != nil {
		attrs = append(attrs, signals.Attr{Key: "stack", Value: string(failure.Stack)})
	}
	f.sink.Emit(signals.Event{Code: code, Namespace: failure.Key.Namespace, Job: failure.Key.Name, UID: string(failure.Key.UID),
		Reason: failure.Err.Error(), Attrs: attrs})
}

// stuck says that work on a job has hung for too long, or nil.
func (f *follower) stuck() error {
	if longest := f.jobs.LongestInWork(); longest > stuckAfter {
		return fmt.Errorf("work on one job has hung for %v", longest.Round(time.Second))
	}
	return nil
}
