package replay

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/orphand/orphand/internal/stage"
	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/metrics"
	"github.com/orphand/orphand/pkg/nodeproof"
	"github.com/orphand/orphand/pkg/retention"
	"github.com/orphand/orphand/pkg/settle"
	"github.com/orphand/orphand/pkg/signals"
	"github.com/orphand/orphand/pkg/sweep"
	"k8s.io/apimachinery/pkg/types"
)

// Program is the daemon that histories are played to.
type Program struct {
	// Flags makes the flags of `orphand run`, at their defaults.
	Flags func() Flags
	// Options gives what the flags set.
	Options func(Flags) settle.Options
	// Further completes what the engine is made from, with what clears away in the mode of the history.
	Further func(f Flags, mode string, parts stage.Parts, c *settle.Config)
	// Sweep is what carries a retention policy out, complete but for what the stage has.
	Sweep func(Flags, string, stage.Parts, *settle.Engine, *retention.Policy) sweep.Config
	// Vocabulary is that of the metrics.
	Vocabulary metrics.Vocabulary
}

// Result is what came of a history.
type Result struct {
	Lines []Line
	// Checked counts the claims; Failures are those that did not hold.
	Checked  int
	Failures []Failure
}

// Play plays the history from its first document to its last.
func (p Program) Play(h *History) (*Result, error) {
	play := &play{program: p, history: h, stage: stage.New(h.Start), records: stage.NewRecords(), store: stage.NewStore(), result: &Result{}, raised: map[signals.Finding]int{}, kinds: map[string]string{}}
	play.stage.API.Cascade = h.Cascade
	play.daemon = play.stage.Daemon(stage.Config{
		Build:    play.build,
		Sink:     signals.SinkFunc(play.told),
		Recorder: play.recorder(),
	})
	err := play.run()
	return play.result, err
}

// play is one run of a history.
type play struct {
	program Program
	history *History
	stage   *stage.Stage
	daemon  *stage.Daemon
	engine  *settle.Engine
	// sweeper carries the history's retention policy out; nil without one.
	sweeper *sweep.Sweeper
	// records and store outlive every life of the daemon.
	records *stage.Records
	store   *stage.Store
	result  *Result
	// raised counts the findings that were raised, over every life of the daemon.
	raised map[signals.Finding]int
	// words is what the daemon said last, since it started.
	words words
	// kinds is the last state of each watch that was told.
	kinds    map[string]string
	calls    int
	endpoint http.Handler
	failed   error
}

// words are the last words on pods and jobs: an engine forgets what is over, but it said so.
type words struct {
	jobs map[facts.JobKey]settle.State
	pods map[types.UID]settle.PodView
}

func (p *play) now() time.Duration { return p.stage.Loop.Since(p.history.Start) }

func (p *play) build(parts stage.Parts) stage.Process {
	p.words = words{jobs: map[facts.JobKey]settle.State{}, pods: map[types.UID]settle.PodView{}}
	clear(p.kinds)
	further := func(parts stage.Parts, c *settle.Config) {
		if p.program.Further != nil {
			p.program.Further(p.history.flags, p.history.Mode, parts, c)
		}
	}
	process := stage.Recorded(p.program.Options(p.history.flags), p.records, further)(parts).(*stage.RecordedEngine)
	p.engine = process.Engine
	if r, ok := parts.Recorder.(*metrics.Recorder); ok {
		r.OldestUnproven(p.engine.OldestUnproven)
		r.UnreachableNodes(p.engine.UnreachableNodes)
		r.Mode(p.history.Mode)
	}
	if p.history.Policy == nil || p.program.Sweep == nil {
		return process
	}
	config := p.program.Sweep(p.history.flags, p.history.Mode, parts, p.engine, p.history.Policy)
	config.Store = p.store.Of(parts.Leads)
	sweeping := stage.Sweep(parts, process, config)
	p.sweeper = sweeping.Sweeper
	return sweeping
}

// recorder makes the metrics where the history asks for any.
func (p *play) recorder() func() stage.Recorder {
	asked := slices.ContainsFunc(p.history.Steps, func(s Step) bool {
		return s.Check != nil && (s.Check.Wanted != nil && s.Check.Wanted.Metrics != nil || s.Check.Unwanted != nil && s.Check.Unwanted.Metrics != nil)
	})
	if !asked {
		return nil
	}
	return func() stage.Recorder {
		registry := metrics.NewRegistry()
		r, err := metrics.New(registry, metrics.Build{}, p.program.Vocabulary)
		if err != nil {
			p.failed = err
		}
		p.endpoint = metrics.Handler(registry)
		return r
	}
}

// run has every step happen at its time, and checks what is claimed of a moment when all of that moment has been worked
// off.
func (p *play) run() error {
	h, loop := p.history, p.stage.Loop
	first := h.Steps[0].At
	var early []*Step // what the daemon goes through at the first instant comes after the initial list
	for i := range h.Steps {
		s := &h.Steps[i]
		switch {
		case s.Check != nil:
		case s.Daemon != "" && s.At == first:
			early = append(early, s)
		default:
			loop.At(h.Start.Add(s.At), func() { p.step(s) })
		}
	}
	loop.RunUntil(h.Start.Add(first))
	if h.startsAtOnce() {
		p.daemon.Start()
	}
	for _, s := range early {
		p.step(s)
	}
	for i := 0; i < len(h.Steps) && p.failed == nil; {
		at := h.Steps[i].At
		loop.RunUntil(h.Start.Add(at))
		for ; i < len(h.Steps) && h.Steps[i].At == at; i++ {
			if s := &h.Steps[i]; s.Check != nil {
				p.check(s)
			}
		}
	}
	p.deletes()
	return p.failed
}

// startsAtOnce says whether the daemon starts at the first instant: unless the file starts it, or stops it there and then.
func (h *History) startsAtOnce() bool {
	i := slices.IndexFunc(h.Steps, func(s Step) bool { return s.Daemon != "" })
	return i < 0 || h.Steps[i].Daemon != daemonStart && !(h.Steps[i].Daemon == daemonStop && h.Steps[i].At == h.Steps[0].At)
}

func (p *play) step(s *Step) {
	switch {
	case s.Event != nil:
		p.event(s)
	case s.Fault != nil && s.Fault.Times == 0:
		p.stage.API.Lift(*s.Fault)
	case s.Fault != nil:
		p.stage.API.Fail(*s.Fault)
	case s.Daemon != "":
		p.live(s.Daemon)
	}
}

// event makes the change of an object in the API.
func (p *play) event(s *Step) {
	o := s.Event.Object.DeepCopyObject().(stage.Object)
	held := p.stage.API.Get(stage.KindOf(o), o.GetNamespace(), o.GetName())
	if o.GetUID() == "" {
		// Every object of an API server has a UID, whether or not it is worth writing down.
		o.SetUID(types.UID(strings.ToLower(stage.KindOf(o).Kind) + "-" + fmt.Sprint(s.Document)))
		if held != nil {
			o.SetUID(held.GetUID())
		}
	}
	var err error
	if !s.Event.Deleted {
		err = p.stage.API.Put(o, s.Event.Delivery)
	} else {
		if s.Event.Bare && held != nil && held.GetUID() == o.GetUID() {
			final := held.DeepCopyObject().(stage.Object)
			if o.GetDeletionTimestamp() != nil {
				final.SetDeletionTimestamp(o.GetDeletionTimestamp())
				final.SetDeletionGracePeriodSeconds(o.GetDeletionGracePeriodSeconds())
			}
			o = final
		}
		err = p.stage.API.Remove(o, s.Event.Delivery)
	}
	if err != nil && p.failed == nil { // the reader has tried it
		p.failed = fmt.Errorf("%s: %w", s.Place, err)
	}
}

func (p *play) live(what string) {
	from := "stopped"
	switch {
	case p.daemon.Leads():
		from = "leads"
	case p.daemon.Running():
		from = "stands by"
	}
	p.add(Line{At: p.now(), Event: eventDaemon, What: "daemon", From: from, To: what,
		Fields: []signals.Attr{{Key: signals.FieldFrom, Value: from}, {Key: signals.FieldState, Value: what}}})
	switch what {
	case daemonStart:
		p.daemon.Start()
	case daemonStop:
		p.daemon.Stop()
	case daemonRestart:
		p.daemon.Restart()
	case daemonRelist:
		p.daemon.Relist()
	case daemonLead:
		p.daemon.Lead(true)
	case daemonLeaseLost:
		p.daemon.Lead(false)
	}
	if !p.daemon.Running() {
		p.words = words{}
		p.engine, p.sweeper, p.endpoint = nil, nil, nil
	}
}

// told takes what the daemon tells.
func (p *play) told(e signals.Event) {
	if e.Finding != "" && e.Phase == signals.Started {
		p.raised[e.Finding]++
	}
	if p.sweeper != nil && (e.Code == signals.PodVerdictChanged || e.Code == signals.JobStateChanged) {
		p.sweeper.Touch(types.UID(e.UID))
	}
	switch key := (facts.JobKey{Namespace: e.Namespace, Name: e.Job, UID: types.UID(e.UID)}); e.Code {
	case signals.JobStateChanged:
		p.words.jobs[key] = settle.State(e.State)
	case signals.PodVerdictChanged:
		uid := types.UID(e.PodUID)
		p.words.pods[uid] = settle.PodView{
			Ref:  facts.Ref{Namespace: e.Namespace, Kind: facts.KindPod, Name: e.Pod, UID: uid},
			Node: e.Node, Pair: nodeproof.Pair{Verdict: nodeproof.Verdict(e.Verdict), Reason: nodeproof.Reason(e.Reason)},
		}
	}
	l, ok := lineOf(e, p.now())
	if !ok {
		return
	}
	if e.Code == signals.KindStateChanged {
		from := p.kinds[l.What]
		p.kinds[l.What] = e.State
		if from == "" && e.State == "Watching" {
			return // a start like any other
		}
		l.From = from
	}
	p.add(l)
}

func (p *play) add(l Line) {
	p.deletes()
	p.result.Lines = append(p.result.Lines, l)
}

// deletes adds the DELETE calls that were made since it was last asked. Those of one moment are in the order of what they
// delete: the order in which several workers make them says nothing.
func (p *play) deletes() {
	calls := p.deleted()
	for _, c := range calls[p.calls:] {
		l := Line{At: c.At.Sub(p.history.Start), Event: eventDelete, What: called(c), To: "DELETE accepted"}
		l.Fields = []signals.Attr{{Key: "object", Value: refOf(c).String()}, {Key: "objectUID", Value: string(c.UID)}, {Key: "accepted", Value: c.Err == nil}}
		if c.Err != nil {
			l.To, l.Detail = "DELETE refused", c.Err.Error()
			l.Fields = append(l.Fields, signals.Attr{Key: signals.FieldReason, Value: l.Detail})
		}
		p.result.Lines = append(p.result.Lines, l)
	}
	p.calls = len(calls)
}

func (p *play) deleted() []stage.Call {
	calls := slices.Clone(p.stage.API.Calls())
	slices.SortStableFunc(calls, func(a, b stage.Call) int {
		if c := a.At.Compare(b.At); c != 0 {
			return c
		}
		return strings.Compare(refOf(a).String(), refOf(b).String())
	})
	return calls
}

func refOf(c stage.Call) facts.Ref {
	return facts.Ref{Namespace: c.Namespace, Kind: c.Kind.Kind, Name: c.Name, UID: c.UID}
}
