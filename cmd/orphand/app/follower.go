package app

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	jobsetclient "sigs.k8s.io/jobset/client-go/clientset/versioned"

	"github.com/orphand/orphand/api/v1alpha1"
	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/informers"
	"github.com/orphand/orphand/pkg/ledger"
	"github.com/orphand/orphand/pkg/metrics"
	"github.com/orphand/orphand/pkg/queue"
	"github.com/orphand/orphand/pkg/reap"
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
	// recordWriters is how many records may be written at once.
	recordWriters = 2
)

// follower watches the cluster and works off what changed, job by job.
type follower struct {
	clock    clock.WithTicker
	sink     signals.Sink
	recorder *metrics.Recorder
	engine   *settle.Engine
	watches  *informers.Set
	jobs     *queue.Queue[facts.JobKey]
	ledger   *ledger.Ledger
	records  *queue.Queue[facts.JobKey]
	trouble  *noise
	name     *cache.InformerName

	mu     sync.Mutex
	states map[string]informers.State
	// resumed says that the records that were there at the start are read.
	resumed bool
	// unreadable says that NodesUnreadable was said and has not ended.
	unreadable bool
	// concluded is told of a job whose state, or the verdict on a pod of which, is another; nil for nobody.
	concluded func(types.UID)
	// announce is told of what the engine tells; nil for nobody.
	announce func(signals.Event)
	// done is closed when the watches are called off; nil before they begin.
	done <-chan struct{}
}

// newFollower makes the watches, the engine and the queue between them; nothing runs yet.
// leads says whether this process may write to the cluster.
func newFollower(options Options, clients informers.Clients, clk clock.WithTicker, sink signals.Sink, recorder *metrics.Recorder, leads func() bool, enforcer *reap.Enforcer, forget func(context.Context, facts.Ref) error) (*follower, error) {
	f := &follower{clock: clk, sink: sink, recorder: recorder, trouble: newNoise(clk), states: map[string]informers.State{}}
	f.jobs = queue.New(queue.Options[facts.JobKey]{
		Name: "jobs", Clock: clk, Workers: options.Workers, Metrics: recorder.Queues(), OnFailure: f.failed,
		Later: func(key facts.JobKey) bool { return f.engine.Patient(key) }})

	f.records = queue.New(queue.Options[facts.JobKey]{
		Name: "records", Clock: clk, Workers: recordWriters, Metrics: recorder.Queues(), OnFailure: f.failed})
	f.ledger = ledger.New(ledger.Config{Records: &ledger.Client{Dynamic: clients.Dynamic, Delete: forget, Gate: gate(leads)}, Queue: f.records, Clock: clk, Leads: leads,
		Refusals: refusals(enforcer)})

	f.engine = settle.New(settle.Config{
		Options:  options.engine(),
		Clock:    clk,
		Live:     &informers.Live{Clients: clients, Count: recorder.LiveRead},
		Queue:    f.jobs,
		Sink:     signals.SinkFunc(f.tell),
		Recorder: recorder,
		Readers:  liveReaders,
		Ledger:   f.ledger,
		Reaper:   enforcer, IsRuntimeCopy: options.isRuntimeCopy(),
	})
	f.ledger.Serve(f.engine)
	recorder.NodesReadable(f.engine.NodesReadable())
	recorder.OldestUnproven(f.engine.OldestUnproven)
	recorder.UnreachableNodes(f.engine.UnreachableNodes)

	var err error
	if f.name, err = cache.NewInformerName("orphand"); err != nil {
		return nil, fmt.Errorf("naming the informers: %w", err)
	}
	f.watches, err = informers.New(informers.Config{
		Clients: clients, Observer: f.engine, Clock: clk, Changed: f.changed, Name: f.name, Metrics: recorder.Informers(),
		Extra: []informers.Extra{{Kind: v1alpha1.KindOrphan, Resource: v1alpha1.Orphans, Transform: ledger.Transform, Handler: f.ledger.Handlers()}}})
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

// tell passes on what the engine tells.
func (f *follower) tell(e signals.Event) {
	f.sink.Emit(e)
	if f.announce != nil {
		f.announce(e)
	}
	if f.concluded != nil && (e.Code == signals.PodVerdictChanged || e.Code == signals.JobStateChanged) {
		f.concluded(types.UID(e.UID))
	}
}

// usable says whether every kind is usable: what is not there is then known not to be there.
func (f *follower) usable() bool {
	return !slices.ContainsFunc(f.watches.Kinds(), func(s informers.Status) bool { return !s.Usable() })
}

// close gives back what newFollower took, whether or not run was ever called.
func (f *follower) close() {
	f.jobs.ShutDown()
	f.records.ShutDown()
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
	f.resume()
	// The records are written for as long as jobs are judged, and once more for what was judged last.
	writing, stopWriting := context.WithCancel(context.WithoutCancel(ctx))
	var writers sync.WaitGroup
	writers.Go(func() { _ = f.records.Run(writing, inTime(f.ledger.Sync)) })
	defer writers.Wait()
	defer stopWriting()
	return f.jobs.Run(ctx, inTime(f.engine.Sync))
}

// inTime bounds each turn.
func inTime(work queue.Work[facts.JobKey]) queue.Work[facts.JobKey] {
	return func(ctx context.Context, job facts.JobKey) error {
		ctx, cancel := context.WithTimeout(ctx, turnTimeout)
		defer cancel()
		return work(ctx, job)
	}
}

// resume goes on from the records that are there, before any job is worked on: a pod on a record that is in no cache went
// while nobody watched.
func (f *follower) resume() {
	resumed := 0
	for _, obj := range f.watches.Objects(v1alpha1.KindOrphan) {
		o, ok := obj.(*v1alpha1.Orphan)
		if !ok {
			continue
		}
		if err := f.ledger.Adopt(o); err != nil {
			f.sink.Emit(signals.Event{Code: signals.WorkFailed, Namespace: o.Namespace, Job: o.Spec.TrainJob.Name, UID: o.Spec.TrainJob.UID,
				Reason: err.Error() + ": what it held of pods that are gone is lost; see to those nodes by hand"})
			continue
		}
		resumed++
	}
	f.mu.Lock()
	f.resumed = true
	kept := f.states[v1alpha1.KindOrphan] == informers.Watching
	f.ledger.Enable(kept)
	f.mu.Unlock()
	if kept {
		f.engine.KeepAll()
	}
	if resumed > 0 {
		f.sink.Emit(signals.Event{Code: signals.RecordsResumed, Attrs: []signals.Attr{{Key: "records", Value: resumed}}})
	}
}

// recordsCheck is the records' line of /readyz: orphand works without them, but a restart then forgets what went unproven.
func (f *follower) recordsCheck() check {
	return check{name: "records", ask: func() (string, error) {
		if !f.ledger.Enabled() {
			return "kept in memory only: a restart forgets which pods went without proof", nil
		}
		if trouble := f.ledger.Trouble(); trouble != "" {
			return "cannot be written, and a restart may forget which pods went without proof: " + trouble, nil
		}
		return "kept as " + v1alpha1.Orphans.GroupResource().String(), nil
	}}
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
	if s.Kind == v1alpha1.KindOrphan && f.resumed {
		// Under the lock, so that of two changes the later one is what stays.
		f.ledger.Enable(s.State == informers.Watching)
		if s.State == informers.Watching {
			go f.engine.KeepAll() // the engine may be asked only without the lock
		}
	}
	f.sink.Emit(kindEvent(from, s))
	if s.Kind == facts.KindPod {
		f.engine.SetPodsSeen(s.State == informers.Watching)
	}
	if s.Kind != facts.KindNode {
		return
	}
	f.engine.SetNodesWatched(s.State == informers.Watching)
	// A Node watch that merely fails leaves Nodes readable: what it said last still stands, and only the absence of a machine
	// proves nothing meanwhile.
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
