package stage

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/informers"
	"github.com/orphand/orphand/pkg/settle"
	"github.com/orphand/orphand/pkg/signals"
	"k8s.io/utils/clock"
)

// Process is what a daemon has in memory from its start to its stop. One with a method Begin() is told when every kind is
// usable, before any job is worked on; one with End() when it is stopped.
type Process interface {
	informers.Observer
	// Sync works one job off.
	Sync(context.Context, facts.JobKey) error
	// SetNodesReadable says whether Nodes may be read.
	SetNodesReadable(bool)
	// SetNodesWatched says whether the watch of Nodes delivers.
	SetNodesWatched(bool)
	// SetPodsSeen says whether pods are watched now.
	SetPodsSeen(bool)
}

// Parts are what a process is made from. All of it is dead once the daemon is stopped: nothing is queued, nothing is told.
type Parts struct {
	Loop  *Loop
	Clock clock.PassiveClock
	API   *API
	Live  settle.Live
	// Queue holds the job keys for which Sync is called.
	Queue settle.Queue
	Sink  signals.Sink
	// Recorder counts; it is never nil.
	Recorder settle.Recorder
	// Leads says whether this daemon may write.
	Leads func() bool
}

// Recorder counts what a daemon does. Metrics are one.
type Recorder interface {
	settle.Recorder
	KindState(kind, state string)
	LiveRead(kind, outcome string)
	NodesReadable(bool)
	Leader(bool)
}

// Config is what a daemon is made from.
type Config struct {
	// Build makes a process, at each start; nil makes an engine with the options' defaults.
	Build func(Parts) Process
	// Sink is told what the daemon tells; nil for nobody.
	Sink signals.Sink
	// Recorder makes what counts, at each start; nil for nothing.
	Recorder func() Recorder
	// Watches are the kinds that are watched; nil for Watches().
	Watches []Watch
	// Order shuffles the order in which the kinds are listed; nil leaves it.
	Order func(n int, swap func(i, j int))
	// Prepare is told of each queue before it is used; nil for nobody.
	Prepare func(*Queue[facts.JobKey])
}

// Daemon is one orphand that can be started, stopped and restarted. Stopped, it remembers nothing.
type Daemon struct {
	config Config
	stage  *Stage
	run    *run
	leads  bool
}

// run is one life of a daemon.
type run struct {
	process Process
	queue   *Queue[facts.JobKey]
	watches []*watcher
	// further are those that the process asks for.
	further []*watcher
	stopped bool
	// working says that every kind was usable once; until then nothing is decided.
	working  bool
	recorder Recorder
	sink     signals.Sink
	loop     *Loop
	early    []facts.JobKey
}

// Engine is the Build of a process that is the engine alone.
func Engine(o settle.Options) func(Parts) Process {
	return func(p Parts) Process {
		return settle.New(settle.Config{Options: o, Clock: p.Clock, Live: p.Live, Queue: p.Queue, Sink: p.Sink, Recorder: p.Recorder, Readers: 1})
	}
}

// Running says whether the daemon runs.
func (d *Daemon) Running() bool { return d.run != nil }

// Leads says whether the daemon runs and may write.
func (d *Daemon) Leads() bool { return d.run != nil && d.leads }

// Process is what the daemon has in memory now; nil when it does not run.
func (d *Daemon) Process() Process {
	if d.run == nil {
		return nil
	}
	return d.run.process
}

// Recorder is what counts for the daemon now; nil when it does not run.
func (d *Daemon) Recorder() Recorder {
	if d.run == nil {
		return nil
	}
	return d.run.recorder
}

// Kinds is the state of every watch; nil when the daemon does not run.
func (d *Daemon) Kinds() []informers.Status {
	if d.run == nil {
		return nil
	}
	var list []informers.Status
	for _, w := range d.run.watches {
		list = append(list, w.status)
	}
	return list
}

// Start starts the daemon as the leader, with nothing in memory: it lists every kind, then works. It does nothing when the
// daemon runs.
func (d *Daemon) Start() {
	if d.run != nil {
		return
	}
	d.leads = true
	s := d.stage
	r := &run{loop: s.Loop, recorder: uncounted{}, sink: d.config.Sink}
	if d.config.Recorder != nil {
		r.recorder = d.config.Recorder()
	}
	d.run = r
	r.queue = NewQueue(s.Loop, compareJobs, func(k facts.JobKey) error {
		if !r.working { // before the lists have come, a key waits for them
			r.early = append(r.early, k)
			return nil
		}
		return r.process.Sync(context.Background(), k)
	})
	r.queue.Failed = r.failed
	if d.config.Prepare != nil {
		d.config.Prepare(r.queue)
	}
	build := d.config.Build
	if build == nil {
		build = Engine(settle.Defaults())
	}
	r.process = build(Parts{
		Loop: s.Loop, Clock: s.Loop, API: s.API,
		Live:  live{api: s.API, count: r.recorder.LiveRead},
		Queue: r.queue, Recorder: r.recorder,
		Sink:  signals.SinkFunc(r.emit),
		Leads: func() bool { return d.run == r && d.leads },
	})
	r.recorder.Leader(true)
	r.recorder.NodesReadable(true)
	kinds := slices.Clone(d.config.Watches)
	if kinds == nil {
		kinds = Watches()
	}
	for _, k := range kinds {
		w := &watcher{kind: k, api: s.API, handler: k.Handlers(r.process), tell: r.kindChanged,
			status: informers.Status{Kind: k.Kind.Kind, State: informers.Syncing, Since: s.Loop.Now()}}
		r.watches = append(r.watches, w)
		s.API.watches = append(s.API.watches, w)
	}
	if p, ok := r.process.(interface{ Watches() []Watch }); ok {
		for _, k := range p.Watches() {
			// Nothing waits for these: what is not known through them is not decided.
			w := &watcher{kind: k, api: s.API, handler: k.Handlers(r.process), tell: func(informers.Status) {},
				status: informers.Status{Kind: k.Kind.Kind, State: informers.Syncing, Since: s.Loop.Now()}}
			r.further = append(r.further, w)
			s.API.watches = append(s.API.watches, w)
			w.connect()
		}
	}
	order := slices.Clone(r.watches)
	if d.config.Order != nil {
		d.config.Order(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	for _, w := range order {
		w.connect()
	}
}

// Stop ends the daemon at once; all that it had in memory is lost.
func (d *Daemon) Stop() {
	r := d.run
	if r == nil {
		return
	}
	d.run = nil
	r.stopped = true
	r.queue.Stop()
	if p, ok := r.process.(interface{ End() }); ok {
		p.End()
	}
	for _, w := range slices.Concat(r.watches, r.further) {
		w.stopped, w.connected = true, false
	}
	api := d.stage.API
	api.watches = slices.DeleteFunc(api.watches, func(w *watcher) bool { return w.stopped })
}

// Restart stops the daemon and starts it again.
func (d *Daemon) Restart() {
	d.Stop()
	d.Start()
}

// Relist has every watch list again, as after a watch that was too old.
func (d *Daemon) Relist() {
	if d.run == nil {
		return
	}
	for _, w := range slices.Concat(d.run.further, d.run.watches) {
		w.connect()
	}
}

// Lead makes the daemon lead, or stand by with its caches warm.
func (d *Daemon) Lead(leads bool) {
	if d.run == nil || d.leads == leads {
		return
	}
	d.leads = leads
	d.run.recorder.Leader(leads)
	if p, ok := d.run.process.(interface{ OfferAll() }); ok && leads {
		p.OfferAll()
	}
}

func (r *run) emit(e signals.Event) {
	if !r.stopped && r.sink != nil {
		r.sink.Emit(e)
	}
}

func (r *run) failed(k facts.JobKey, err error, attempt int) {
	r.emit(signals.Event{Code: signals.WorkFailed, Time: r.loop.Now(), Namespace: k.Namespace, Job: k.Name, UID: string(k.UID),
		Reason: err.Error(), Attrs: []signals.Attr{{Key: "attempt", Value: attempt}}})
}

// kindChanged: the state of a watch is another.
func (r *run) kindChanged(s informers.Status) {
	r.recorder.KindState(s.Kind, string(s.State))
	if s.Kind == facts.KindNode {
		r.process.SetNodesWatched(s.State == informers.Watching)
	}
	// As in `orphand run`: a watch of Nodes that merely fails leaves them readable.
	if s.Kind == facts.KindNode && (s.State == informers.Watching || s.State == informers.Forbidden) {
		r.recorder.NodesReadable(s.State == informers.Watching)
		r.process.SetNodesReadable(s.State == informers.Watching)
	}
	if s.Kind == facts.KindPod {
		r.process.SetPodsSeen(s.State == informers.Watching)
	}
	r.emit(signals.Event{Code: signals.KindStateChanged, Time: r.loop.Now(), State: string(s.State), Reason: s.Reason,
		Attrs: []signals.Attr{{Key: "kind", Value: s.Kind}}})
	if r.working {
		return
	}
	for _, w := range r.watches {
		if !w.status.Usable() {
			return
		}
	}
	r.working = true
	if p, ok := r.process.(interface{ Begin() }); ok {
		p.Begin()
	}
	for _, k := range r.early {
		r.queue.Add(k)
	}
	r.early = nil
}

func compareJobs(a, b facts.JobKey) int {
	for _, c := range [...]int{
		strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), strings.Compare(string(a.UID), string(b.UID)),
	} {
		if c != 0 {
			return c
		}
	}
	return 0
}

type uncounted struct{}

func (uncounted) PodVerdict(_, _, _, _ string) {}
func (uncounted) JobState(_, _ string)         {}
func (uncounted) Settled(time.Duration)        {}
func (uncounted) VerdictLatency(time.Duration) {}
func (uncounted) Finding(string, bool)         {}
func (uncounted) KindState(_, _ string)        {}
func (uncounted) LiveRead(_, _ string)         {}
func (uncounted) NodesReadable(bool)           {}
func (uncounted) Leader(bool)                  {}
