package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/orphand/orphand/internal/stage"
	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/reap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Enforce says how orphand deletes in a history; the zero value is --mode=observe.
type Enforce struct {
	On bool
	// GCGrace, CopyGrace and Brakes are its flags; Excluded leaves the jobs' namespace alone, and DryRun deletes nothing.
	GCGrace, CopyGrace time.Duration
	Brakes             reap.BrakeOptions
	Excluded, DryRun   bool
	// Travel is how long a DELETE is under way, and its answer again: what a loaded network does to it, or a process that is
	// paused after its last look at the lease.
	Travel Slowness
	// The probabilities that the API server refuses a DELETE, that it carries one out and the answer is lost, and that
	// somebody does something to the object while the DELETE is under way.
	Refused, Lost, Meddle float64
	// Rival is a second replica, which leads while the first does not.
	Rival bool
}

// The verbs of histories in which orphand deletes.
const (
	Keep          Verb = "keep"
	Adopt         Verb = "adopt"
	Bystand       Verb = "bystander"
	ForbidDeletes Verb = "forbid-deletes"
	FailDeletes   Verb = "fail-deletes"
	PauseDaemon   Verb = "pause-orphand"
	LoseLease     Verb = "lose-lease"
	Storm         Verb = "storm"
)

// forALongTime is longer than any history lasts until everything is put right.
const forALongTime = 2 * time.Hour

// enforce has orphand delete in a share of the histories, and plans what could mislead it. Its draws are a stream of their
// own: the other histories are what they would be without it.
func (p *Plan) enforce() {
	d := roll(p.Seed, "enforce")
	if !d.chance(0.4) {
		return
	}
	p.Enforce = Enforce{
		On: true, GCGrace: pick[time.Duration](d, 60, 20, 5, 5) * time.Second, CopyGrace: pick[time.Duration](d, 30, 120) * time.Second,
		Brakes: reap.BrakeOptions{MaxPerMinute: pick(d, 600, 600, 600, 4, 1), MaxUnreachable: pick(d, 0.3, 0.3, 0.6, 1),
			Calm: pick(d, 5*time.Minute, 30*time.Second, 5*time.Second)},
		Excluded: d.chance(0.04), DryRun: d.chance(0.03),
		Travel:  pick(d, Slowness{}, Slowness{0, 200 * time.Millisecond}, Slowness{0, 4 * time.Second}, Slowness{time.Second, 12 * time.Second}),
		Refused: pick(d, 0, 0, 0.3), Lost: pick(d, 0, 0, 0.2), Meddle: pick(d, 0, 0.15, 0.5),
		Rival: d.chance(0.15),
	}
	job := d.upTo(len(p.Jobs))
	made, gone := p.lifeOf(job)
	if gone == 0 {
		gone = made + d.between(15*time.Second, time.Minute)
		p.Actions = append(p.Actions, Action{At: gone, Do: DeleteJob, Job: job, Policy: metav1.DeletePropagationBackground})
	}
	due := gone + p.Enforce.GCGrace
	end := due + d.between(40*time.Second, 3*time.Minute)
	add := func(at time.Duration, do Verb, last time.Duration) {
		p.Actions = append(p.Actions, Action{At: max(at, time.Second), Do: do, Job: job, Scene: 20, Pod: d.upTo(24), For: last, Flag: d.chance(0.5),
			Kind: pick(d, facts.KindJobSet, facts.KindJob, facts.KindTrainJob, facts.KindPod), Policy: metav1.DeletePropagationBackground})
	}
	before := func() time.Duration { return d.between(made+time.Second, due) }
	after := func() time.Duration { return d.between(gone, end) }
	switch x := d.upTo(100); {
	case x < 65: // switched off
		add(time.Second, StallGC, forALongTime)
	case x < 85: // slow
		add(gone-time.Second, StallGC, p.Enforce.GCGrace+d.between(0, time.Minute))
	}
	if d.chance(0.4) { // its pods are called job-0-node-0-node-0-0-x, and job-0 has a Job that is called job-0-node-0
		p.Jobs = append(slices.Clone(p.Jobs), JobPlan{Name: p.Jobs[job].Name + "-node-0", Jobs: 1, Pods: 1, Grace: 30, RestartPolicy: p.Jobs[job].RestartPolicy})
		p.Actions = append(p.Actions, Action{At: before(), Do: CreateJob, Job: len(p.Jobs) - 1})
	}
	if d.chance(0.45) {
		add(after(), CreateJob, 0)
	}
	for range d.upTo(4) {
		add(pick(d, before(), before(), after()), Bystand, 0)
	}
	for range pick(d, 0, 0, 1, 2) {
		add(pick(d, before(), after()), Keep, 0)
	}
	if d.chance(0.2) {
		add(pick(d, before(), after()), Adopt, 0)
	}
	if d.chance(0.2) {
		add(due-d.between(0, 5*time.Second), FailDeletes, d.between(2*time.Second, time.Minute))
	}
	if d.chance(0.12) {
		add(pick(d, before(), after()), ForbidDeletes, d.between(10*time.Second, 8*time.Minute))
	}
	if d.chance(0.25) {
		add(due+d.between(0, 12*time.Second)-6*time.Second, PauseDaemon, d.between(2*time.Second, 50*time.Second))
	}
	if d.chance(0.1) {
		add(pick(d, before(), after()), LoseLease, d.between(5*time.Second, time.Minute))
	}
	if d.chance(0.2) {
		add(pick(d, before(), after()), Storm, d.between(time.Second, 3*time.Minute))
	}
	for range pick(d, 0, 0, 1, 2) {
		add(pick(d, made-time.Second, before(), after()), pick(d, SlowWatch, CutWatch), d.between(10*time.Second, 90*time.Second))
	}
	if d.chance(0.2) {
		add(after(), RestartDaemon, d.between(0, 40*time.Second))
	}
	slices.SortStableFunc(p.Actions, func(a, b Action) int { return cmp.Compare(a.At, b.At) })
	p.End = max(p.End, end+time.Minute)
}

// lifeOf is when a job is made and when it is deleted first; zero when it is not.
func (p *Plan) lifeOf(job int) (made, gone time.Duration) {
	for _, a := range p.Actions {
		switch {
		case a.Job != job:
		case a.Do == CreateJob && made == 0:
			made = a.At
		case a.Do == DeleteJob && gone == 0:
			gone = a.At
		}
	}
	return made, gone
}

// simplerEnforce takes away what makes deleting uneven.
func simplerEnforce(try func(func(*Plan))) {
	try(func(q *Plan) { q.Enforce = Enforce{} })
	try(func(q *Plan) { q.Enforce.Rival = false })
	try(func(q *Plan) { q.Enforce.Refused = 0 })
	try(func(q *Plan) { q.Enforce.Lost = 0 })
	try(func(q *Plan) { q.Enforce.Meddle = 0 })
	try(func(q *Plan) { q.Enforce.Travel = Slowness{} })
	try(func(q *Plan) { q.Enforce.Brakes.MaxPerMinute = 600 })
	try(func(q *Plan) { q.Enforce.Brakes.MaxUnreachable = 1 })
}

// enforcing is what a world has in which orphand deletes.
type enforcing struct {
	w *World
	// hand and second are what deletes, in the present lives of orphand and of its rival.
	hand, second *hand
	rival        *stage.Daemon
	// asleep is until when orphand is paused; terms counts the changes of the lease's holder.
	asleep time.Duration
	terms  int
	// bystanders are the objects that no controller of the world works on.
	bystanders map[place]*bystander
	// sent are the objects of the DELETEs so far; before those of the DELETEs before the first that was wrong.
	sent, before []string
}

func (w *World) actOnEnforcing(a Action, d *dice) {
	e := w.enforcing
	if e == nil {
		return // a history that was made smaller
	}
	switch a.Do {
	case Keep:
		if o := w.remainOf(a); o != nil {
			w.keep(o)
		}
	case Adopt:
		if o := w.remainOf(a); o != nil {
			w.adopt(o)
		}
	case Bystand:
		e.bystand(a)
	case ForbidDeletes:
		kind := facts.KindPod
		if a.Flag {
			kind = facts.KindJobSet
		}
		w.fault(stage.Fault{Verb: "delete", Kind: kind, Code: 403, Times: -1}, a.For)
	case FailDeletes:
		f := pick(d, stage.Fault{Code: 409, Message: "the object has been modified"}, stage.Fault{Code: 429, RetryAfter: 20 * time.Second},
			stage.Fault{Code: 429}, stage.Fault{Code: 500}, stage.Fault{Code: 503, RetryAfter: 5 * time.Second}, stage.Fault{Timeout: true})
		f.Verb, f.Times = "delete", -1
		w.fault(f, a.For)
	case PauseDaemon:
		e.pause(a.For, d)
	case LoseLease:
		e.loseLease(a.For, d)
	case Storm:
		for _, m := range w.machines {
			if d.chance(0.7) {
				m.partition()
				w.after(a.For, m.heal)
			}
		}
	}
}

// remainOf is the object of a job's name that an action means, whichever incarnation it is of.
func (w *World) remainOf(a Action) stage.Object {
	name := w.plan.Jobs[a.Job].Name
	var list []stage.Object
	if js, ok := w.api.jobSets.get(name); ok {
		list = append(list, js)
	}
	if cm, ok := w.api.configMaps.get(snapshotOf(name)); ok {
		list = append(list, cm)
	}
	for _, b := range w.api.jobs.all() {
		if w.jobs.state[b.UID].spec.Name == name {
			list = append(list, b)
		}
	}
	for _, p := range w.api.pods.all() {
		if w.truth.life(p.UID).root == name {
			list = append(list, p)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[a.Pod%len(list)]
}

// edit changes an object's metadata.
func (w *World) edit(o stage.Object, change func(stage.Object)) {
	c := copyOf(o)
	change(c)
	if b := w.enforcing.bystander(o); b != nil {
		b.object = c
		w.put(c)
		return
	}
	w.api.store(c)
}

// keep is a person's word that an object stays.
func (w *World) keep(o stage.Object) {
	w.edit(o, func(o stage.Object) { annotate(o, facts.AnnotationKeep, "true") })
}

func annotate(o stage.Object, key, value string) {
	with := map[string]string{key: value}
	for k, v := range o.GetAnnotations() {
		with[k] = v
	}
	o.SetAnnotations(with)
}

// adopt gives an object another owner beside its own, which lives: a finished TrainJob, of which Trainer makes nothing.
func (w *World) adopt(o stage.Object) {
	t := w.finishedTrainJob(guardian)
	if t.GetDeletionTimestamp() != nil || len(o.GetOwnerReferences()) != 1 {
		return
	}
	w.edit(o, func(o stage.Object) {
		o.SetOwnerReferences(append(slices.Clone(o.GetOwnerReferences()), metav1.OwnerReference{
			APIVersion: facts.TrainJobs.GroupVersion().String(), Kind: facts.KindTrainJob, Name: t.GetName(), UID: t.GetUID()}))
	})
}

// finishedTrainJob is a TrainJob of the name of which Trainer makes nothing.
func (w *World) finishedTrainJob(name string) trainJob {
	t, there := w.api.trainJobs.get(name)
	if !there {
		t = newTrainJob(name)
		setCondition(t, "Complete", "", w.api.now())
		w.api.stamp(t, "T")
		w.api.store(t)
	}
	return t
}

// guardian is the TrainJob that adopts.
const guardian = "guardian"
