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
	jobsetclient "sigs.k8s.io/jobset/client-go/clientset/versioned"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/informers"
	"github.com/orphand/orphand/pkg/nodeproof"
	"github.com/orphand/orphand/pkg/queue"
	"github.com/orphand/orphand/pkg/settle"
	"github.com/orphand/orphand/pkg/signals"
)

// liveReaders is how many live reads may be under way at once for one job.
const liveReaders = 8

// stuckAfter is how long one job may be in work before the process counts as hung. A live read gives up earlier.
const stuckAfter = 5 * time.Minute

// liveTimeout bounds one job's turn, live reads included.
const liveTimeout = time.Minute

// engineFollower is the watches, the queue and the engine put together.
type engineFollower struct {
	parts
	set    *informers.Set
	queue  *queue.Queue[facts.JobKey]
	engine *settle.Engine

	// failing has the jobs whose live reads fail, so that a failure is told when it begins and when it is over.
	mu      sync.Mutex
	failing map[facts.JobKey]bool
	told    map[string]informers.State
}

func newFollower(p parts) (follower, error) {
	clients, err := apiClients(p.clients)
	if err != nil {
		return nil, err
	}
	f := &engineFollower{parts: p, failing: map[facts.JobKey]bool{}, told: map[string]informers.State{}}
	f.queue = queue.New(queue.Options[facts.JobKey]{
		Name: "jobs", Clock: p.clock, Workers: p.options.Workers, Metrics: p.recorder.Queues(), OnFailure: f.failed,
	})
	f.engine = settle.New(settle.Config{
		Options:  engineOptions(p.options),
		Clock:    p.clock,
		Live:     &informers.Live{Clients: clients, Count: p.recorder.LiveRead},
		Queue:    f.queue,
		Sink:     p.sink,
		Recorder: p.recorder,
		Readers:  liveReaders,
	})
	p.recorder.OldestUnproven(f.engine.OldestUnproven)
	p.recorder.UnreachableNodes(f.engine.UnreachableNodes)
	p.recorder.NodesReadable(true)
	var name *cache.InformerName
	if p.ownsProcess {
		cache.SetInformerMetricsProvider(p.recorder.Informers())
		if name, err = cache.NewInformerName("orphand"); err != nil {
			return nil, err
		}
	}
	f.set, err = informers.New(informers.Config{Clients: clients, Observer: f.engine, Clock: p.clock, Changed: f.kindChanged, Name: name})
	return f, err
}

// engineOptions are the flags that the engine knows.
func engineOptions(o Options) settle.Options {
	e := settle.Defaults()
	e.Proof = nodeproof.Options{NodeDeletionQuarantine: o.NodeDeletionQuarantine, WeakEvidenceDelay: o.WeakEvidenceDelay}
	e.Quiet = o.SettleQuiet
	return e
}

// apiClients makes every client on the one connection pool. Built-in kinds come as protobuf, which custom resources do
// not have.
func apiClients(c *clients) (informers.Clients, error) {
	var out informers.Clients
	var err error
	builtin := rest.CopyConfig(c.config)
	builtin.ContentType = "application/vnd.kubernetes.protobuf"
	builtin.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	if out.Kube, err = kubernetes.NewForConfigAndClient(builtin, c.http); err != nil {
		return out, fmt.Errorf("making the client of built-in kinds: %w", err)
	}
	if out.JobSets, err = jobsetclient.NewForConfigAndClient(c.config, c.http); err != nil {
		return out, fmt.Errorf("making the client of JobSets: %w", err)
	}
	if out.Dynamic, err = dynamic.NewForConfigAndClient(c.config, c.http); err != nil {
		return out, fmt.Errorf("making the client of TrainJobs: %w", err)
	}
	if out.Metadata, err = metadata.NewForConfigAndClient(metadata.ConfigFor(c.config), c.http); err != nil {
		return out, fmt.Errorf("making the client of metadata: %w", err)
	}
	return out, nil
}

// Run satisfies follower: it judges once every kind is known or known to be absent, and not before.
func (f *engineFollower) Run(ctx context.Context) error {
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	var watches sync.WaitGroup
	watches.Go(func() { f.set.Run(watching) })
	// The watches end after the workers: what a worker still concludes is concluded from caches that live.
	defer watches.Wait()
	defer stop()
	began := f.clock.Now()
	if !f.set.WaitUsable(ctx) {
		f.queue.ShutDown()
		return nil
	}
	f.sink.Emit(signals.Event{Code: signals.CachesSynced, Attrs: []signals.Attr{{Key: "seconds", Value: f.clock.Since(began).Seconds()}}})
	return f.queue.Run(ctx, func(ctx context.Context, key facts.JobKey) error {
		ctx, cancel := context.WithTimeout(ctx, liveTimeout)
		defer cancel()
		err := f.engine.Sync(ctx, key)
		if err == nil {
			f.recovered(key)
		}
		return err
	})
}

// Kinds satisfies follower.
func (f *engineFollower) Kinds() []kindStatus {
	var list []kindStatus
	for _, s := range f.set.Kinds() {
		list = append(list, kindStatus{Kind: s.Kind, State: string(s.State), Since: s.Since, Ready: s.Usable(), Detail: kindDetail(s)})
	}
	return list
}

// Stuck satisfies follower.
func (f *engineFollower) Stuck() error {
	if d := f.queue.LongestInWork(); d > stuckAfter {
		return fmt.Errorf("one job is in work for %s", d.Round(time.Second))
	}
	return nil
}

// kindDetail says what is amiss with a kind and what would cure it.
func kindDetail(s informers.Status) string {
	switch s.State {
	case informers.Absent:
		return "the API server does not serve " + s.Kind + "; " + installs(s.Kind) + ": it is then watched within half a minute"
	case informers.Forbidden:
		return s.Reason + "; grant list and watch on it"
	case informers.Failing:
		return s.Reason
	}
	return ""
}

func installs(kind string) string {
	switch kind {
	case facts.KindTrainJob, facts.KindTrainingRuntime:
		return "install Kubeflow Trainer"
	case facts.KindJobSet:
		return "install JobSet"
	}
	return "install its CustomResourceDefinition"
}

// kindChanged tells what became of a kind's watch. Without Nodes nothing can be proven, and the engine has to know.
func (f *engineFollower) kindChanged(s informers.Status) {
	f.mu.Lock()
	before := f.told[s.Kind]
	f.told[s.Kind] = s.State
	f.mu.Unlock()
	if before == s.State {
		return
	}
	f.recorder.KindState(s.Kind, string(s.State))
	f.sink.Emit(signals.Event{Code: signals.KindStateChanged, From: string(before), State: string(s.State), Reason: s.Reason,
		Attrs: []signals.Attr{{Key: "kind", Value: s.Kind}, {Key: "cure", Value: kindDetail(s)}}})
	if s.Kind != facts.KindNode {
		return
	}
	readable := f.engine.NodesReadable()
	switch {
	case s.State == informers.Forbidden && readable:
		f.engine.SetNodesReadable(false)
		f.recorder.NodesReadable(false)
		f.sink.Emit(signals.Event{Code: signals.NodesUnreadable, Phase: signals.Started, Reason: s.Reason,
			Attrs: []signals.Attr{{Key: "cure", Value: "grant get, list and watch on nodes: until then nothing can be proven"}}})
	case s.State == informers.Watching && !readable:
		f.engine.SetNodesReadable(true)
		f.recorder.NodesReadable(true)
		f.sink.Emit(signals.Event{Code: signals.NodesUnreadable, Phase: signals.Ended})
	}
}

// failed tells of a job whose live reads fail, once until they work again.
func (f *engineFollower) failed(failure queue.Failure[facts.JobKey]) {
	ev := signals.Event{Namespace: failure.Key.Namespace, Job: failure.Key.Name, UID: string(failure.Key.UID), Reason: failure.Err.Error()}
	if failure.Stack != nil {
		f.recorder.Panic()
		ev.Code = signals.WorkPanicked
		ev.Attrs = []signals.Attr{{Key: "queue", Value: "jobs"}, {Key: "attempt", Value: failure.Attempt}, {Key: "stack", Value: string(failure.Stack)}}
		f.sink.Emit(ev)
		return
	}
	f.mu.Lock()
	known := f.failing[failure.Key]
	f.failing[failure.Key] = true
	f.mu.Unlock()
	if known {
		return
	}
	ev.Code = signals.LiveReadFailed
	f.sink.Emit(ev)
}

func (f *engineFollower) recovered(key facts.JobKey) {
	f.mu.Lock()
	delete(f.failing, key)
	f.mu.Unlock()
}
