package sim

import (
	"context"
	"time"

	"github.com/orphand/orphand/internal/stage"
	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/informers"
	"github.com/orphand/orphand/pkg/reap"
	"github.com/orphand/orphand/pkg/settle"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// hand is what deletes in one life of one replica, put together as `orphand run` does: the real Enforcer, Deleter and Brakes
// before the world's API server. It notes what the process was shown of that by which its DELETEs are judged.
type hand struct {
	reap.API // its reads
	*reap.Enforcer
	w     *World
	first bool
	dice  *dice
	leads func() bool

	// permitted is the last answer to the question whether this process may delete; lacking is since when it is no.
	permitted bool
	lacking   time.Duration
	// nodes, readable and sky are the cluster's nodes as the watch has shown them.
	nodes    map[string]*facts.Node
	readable bool
	sky      sky
	// shown is since when the process has been shown each TrainJob, JobSet and Job that it was not told the end of.
	shown map[types.UID]time.Duration
	// sent is when DELETEs were sent, by this process; refused how the last of each object fared.
	sent    []time.Duration
	refused map[types.UID]refusal
}

// sky is whether too many nodes are silent, and when that was over.
type sky struct {
	stormy, been bool
	calm         time.Duration
}

// refusal is how often in a row the API server refused to delete an object, and until when it must not be asked again.
type refusal struct {
	times int
	until time.Duration
}

// copies selects the adapter's runtime copies.
func copies() labels.Selector {
	return labels.SelectorFromSet(labels.Set{"example.com/copied-for": "trainjob"})
}

func newHand(w *World, first bool, p stage.Parts) *hand {
	h := &hand{API: p.API.Client(), w: w, first: first, leads: p.Leads, readable: true, nodes: map[string]*facts.Node{},
		shown: map[types.UID]time.Duration{}, refused: map[types.UID]refusal{}}
	h.dice = roll(w.plan.Seed, "hand/"+h.who()+"/"+w.at().String())
	gate := func() error {
		if !h.leads() {
			return reap.ErrNotLeading
		}
		return nil
	}
	e := w.plan.Enforce
	h.Enforcer = reap.NewEnforcer(reap.EnforcerConfig{
		API: h, Clock: p.Clock, Sink: p.Sink, Recorder: h, Leads: h.leads, Mode: h.mode,
		Deleter:       reap.NewDeleter(h, p.Clock, gate, h),
		Brakes:        reap.NewBrakes(e.Brakes),
		Namespaces:    func(ns string) bool { return !e.Excluded || ns != namespace },
		RuntimeCopies: copies(),
		DryRun:        e.DryRun,
	})
	return h
}

func (h *hand) who() string {
	if h.first {
		return "orphand"
	}
	return "the rival"
}

// join completes what an engine is made from.
func (h *hand) join(c *settle.Config) {
	c.GCGrace, c.CopyGrace = h.w.plan.Enforce.GCGrace, h.w.plan.Enforce.CopyGrace
	c.Reaper = h
	c.IsRuntimeCopy = func(l map[string]string) bool { return copies().Matches(labels.Set(l)) }
}

// turn is one offer of a job's leftovers, and when it was made: what has changed since cannot be held against it. listed is
// when the TrainJobs were listed last in it.
type turn struct {
	by         *hand
	left       facts.Leftovers
	at, listed time.Duration
}

type turnKey struct{}

// Reap satisfies settle.Reaper.
func (h *hand) Reap(ctx context.Context, left facts.Leftovers) time.Time {
	return h.Enforcer.Reap(context.WithValue(ctx, turnKey{}, &turn{by: h, left: left, at: h.w.at()}), left)
}

// Get reads, and the answer reaches a process that is paused when it wakes.
func (h *hand) Get(ctx context.Context, k reap.Kind, namespace, name string) (metav1.Object, error) {
	o, err := h.API.Get(ctx, k, namespace, name)
	h.sleep()
	return o, err
}

// List reads, as Get does.
func (h *hand) List(ctx context.Context, k reap.Kind, namespace string, s labels.Selector) ([]metav1.Object, error) {
	if t, ok := ctx.Value(turnKey{}).(*turn); ok && k.Kind == facts.KindTrainJob {
		t.listed = h.w.at()
	}
	list, err := h.API.List(ctx, k, namespace, s)
	h.sleep()
	return list, err
}

// sleep has the process do nothing while it is paused. Others go on.
func (h *hand) sleep() {
	if h.first && h.w.at() < h.w.enforcing.asleep {
		h.w.stage.Loop.RunUntil(h.w.start.Add(h.w.enforcing.asleep))
	}
}

// mode is what `orphand run --mode=enforce` makes of its permissions.
func (h *hand) mode(string) (reap.Reason, bool) {
	if !h.permitted {
		return reap.NotPermitted, false
	}
	return "", true
}

// permissionEvery is how often the permissions are asked for.
const permissionEvery = 5 * time.Minute

// ask asks whether this process may delete, now and every few minutes, for as long as it lives.
func (h *hand) ask(alive func() bool, changed func()) {
	if !alive() {
		return
	}
	yes := true
	for _, k := range reap.NeededKinds() {
		allowed, err := h.Allowed(context.Background(), "delete", k, "")
		yes = yes && allowed && err == nil
	}
	if h.permitted != yes {
		h.permitted, h.lacking = yes, h.w.at()
		changed()
	}
	h.w.after(permissionEvery, func() { h.ask(alive, changed) })
}

// Deleted, Removed and Refused satisfy reap.Recorder.
func (h *hand) Deleted(kind, outcome string) { h.w.judge.tally.Deleting[answered+outcome]++ }

// Removed counts what this process deleted and then saw gone.
func (h *hand) Removed(kind, cause string) { h.w.judge.tally.Deleting["seen gone "+kind]++ }

// Refused counts what was not deleted.
func (h *hand) Refused(reason string) {
	h.w.judge.tally.Deleting[refused+reason]++
}

// armed is a process with its hand.
type armed struct {
	stage.Process
	h *hand
	// alive says whether the process runs still.
	alive bool
}

// newArmed makes orphand in the mode enforce: with records where they can be kept, else with its memory alone.
func newArmed(w *World, first bool, p stage.Parts, records *stage.Records) (*armed, *settle.Engine) {
	h := newHand(w, first, p)
	if first {
		w.enforcing.hand = h
	} else {
		w.enforcing.second = h
	}
	if records != nil {
		o := settle.Defaults()
		o.GCGrace, o.CopyGrace = w.plan.Enforce.GCGrace, w.plan.Enforce.CopyGrace
		r := stage.Recorded(o, records, func(_ stage.Parts, c *settle.Config) { h.join(c) })(p).(*stage.RecordedEngine)
		return &armed{r, h, true}, r.Engine
	}
	c := settle.Config{Options: settle.Defaults(), Clock: p.Clock, Live: p.Live, Queue: p.Queue, Sink: p.Sink, Recorder: p.Recorder, Readers: 1}
	h.join(&c)
	e := settle.New(c)
	return &armed{e, h, true}, e
}

// Begin starts the work, and asks for the permissions.
func (a *armed) Begin() {
	if p, ok := a.Process.(interface{ Begin() }); ok {
		p.Begin()
	}
	a.h.ask(func() bool { return a.alive }, a.OfferAll)
}

// End ends it. Where there is a rival, it leads when the lease has run out.
func (a *armed) End() {
	a.alive = false
	if p, ok := a.Process.(interface{ End() }); ok {
		p.End()
	}
	if a.h.first {
		a.h.w.enforcing.vacant()
	}
}

// OfferAll has every job looked at again.
func (a *armed) OfferAll() {
	if p, ok := a.Process.(interface{ OfferAll() }); ok {
		p.OfferAll()
	}
}

// NodeSeen notes the weather.
func (a *armed) NodeSeen(n *facts.Node, initial bool) {
	a.h.nodes[n.Name] = n
	a.h.look()
	a.Process.NodeSeen(n, initial)
}

// NodeGone notes the weather.
func (a *armed) NodeGone(n *facts.Node, how informers.End) {
	if have := a.h.nodes[n.Name]; have != nil && (n.UID == "" || n.UID == have.UID) {
		delete(a.h.nodes, n.Name)
		a.h.look()
	}
	a.Process.NodeGone(n, how)
}

// SetNodesReadable notes that nobody knows the weather.
func (a *armed) SetNodesReadable(readable bool) {
	a.h.readable = readable
	a.Process.SetNodesReadable(readable)
}

// TrainJobSeen notes that the process knows of the TrainJob.
func (a *armed) TrainJobSeen(t *facts.TrainJob, initial bool) {
	a.h.show(t.UID)
	a.Process.TrainJobSeen(t, initial)
}

// TrainJobGone notes that it has been told the end of it.
func (a *armed) TrainJobGone(t *facts.TrainJob, how informers.End) {
	delete(a.h.shown, t.UID)
	a.Process.TrainJobGone(t, how)
}

// ObjectSeen notes that the process knows of the object.
func (a *armed) ObjectSeen(o *facts.Object, initial bool) {
	a.h.show(o.UID)
	a.Process.ObjectSeen(o, initial)
}

// ObjectGone notes that it has been told the end of it.
func (a *armed) ObjectGone(o *facts.Object, how informers.End) {
	delete(a.h.shown, o.UID)
	a.Process.ObjectGone(o, how)
}

func (h *hand) show(uid types.UID) {
	if _, known := h.shown[uid]; !known {
		h.shown[uid] = h.w.at()
	}
}

// look tells storm from calm.
func (h *hand) look() {
	silent := 0
	for _, n := range h.nodes {
		if !n.Heard() {
			silent++
		}
	}
	stormy := len(h.nodes) > 0 && float64(silent) > h.w.plan.Enforce.Brakes.MaxUnreachable*float64(len(h.nodes))
	if h.sky.stormy && !stormy {
		h.sky.been, h.sky.calm = true, h.w.at()
	}
	h.sky.stormy = stormy
}

// OfferAll has every job looked at again.
func (s *spy) OfferAll() {
	if p, ok := s.Process.(interface{ OfferAll() }); ok {
		p.OfferAll()
	}
}
