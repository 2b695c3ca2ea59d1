package reap

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/signals"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// EnforcerConfig is what an Enforcer works with.
type EnforcerConfig struct {
	API     API
	Clock   clock.PassiveClock
	Deleter *Deleter
	Brakes  *Brakes
	// Mode says whether orphans are deleted in the namespace, and if not, why.
	Mode func(namespace string) (Reason, bool)
	// Leads says whether this process may write. It is asked early, to save reads; the Deleter's gate asks last.
	Leads func() bool
	// Namespaces says whether orphans of a namespace are this process's business; nil: of every one.
	Namespaces func(namespace string) bool
	// RuntimeCopies selects the adapter's runtime copies; nil selects none.
	RuntimeCopies labels.Selector
	// DryRun logs what would be deleted, and deletes nothing.
	DryRun   bool
	Sink     signals.Sink
	Recorder Recorder
	// Changed is told when Refusals lists something else of a job than before; nil for nobody. It must not block.
	Changed func(facts.JobKey)
}

// Enforcer deletes orphans: what the garbage collector should have taken and did not. It is safe for concurrent use, one
// call per job at a time.
type Enforcer struct {
	c EnforcerConfig

	mu sync.Mutex
	// refused holds the last refusal of each object, by job; asked what was deleted of each job and not seen gone yet.
	refused map[facts.JobKey]map[types.UID]Refusal
	asked   map[facts.JobKey]map[types.UID]Kind
}

// Refusal is a decision not to delete an object.
type Refusal struct {
	Target
	Reason Reason
	// Detail says more, where there is more: the owner that lives, the API server's words.
	Detail string
	Since  time.Time
}

// NewEnforcer makes an Enforcer.
func NewEnforcer(c EnforcerConfig) *Enforcer {
	if c.Sink == nil {
		c.Sink = signals.Discard{}
	}
	if c.Recorder == nil {
		c.Recorder = uncounted{}
	}
	if c.Namespaces == nil {
		c.Namespaces = func(string) bool { return true }
	}
	if c.Leads == nil {
		c.Leads = func() bool { return true }
	}
	if c.Changed == nil {
		c.Changed = func(facts.JobKey) {}
	}
	return &Enforcer{c: c, refused: map[facts.JobKey]map[types.UID]Refusal{}, asked: map[facts.JobKey]map[types.UID]Kind{}}
}

// deletesPerTurn bounds how long one job keeps a worker.
const deletesPerTurn = 50

// candidate is an object that might be deleted, by the cache.
type candidate struct {
	Target
	keep, mirror bool
	owner        facts.Owner
}

// Nodes takes note of the weather: see Brakes.Nodes.
func (e *Enforcer) Nodes(silent, total int, readable bool) {
	e.c.Brakes.Nodes(silent, total, readable, e.c.Clock.Now())
}

// Reap deletes what may be deleted of a job that is gone and past its grace, and says when to offer the job again; the zero
// time when only a change can matter. Roots go first; what they own is offered again when they are gone.
func (e *Enforcer) Reap(ctx context.Context, left facts.Leftovers) time.Time {
	candidates, present := candidatesOf(left)
	e.goneSince(left, present)
	turn := &turn{Enforcer: e, left: left, in: newInspector(e.c.API, e.c.RuntimeCopies), refused: map[types.UID]Refusal{}}
	for _, c := range candidates {
		if ctx.Err() != nil {
			turn.askAt(e.c.Clock.Now())
			break
		}
		if turn.sent >= deletesPerTurn {
			turn.askAt(e.c.Clock.Now())
			break
		}
		turn.consider(ctx, c)
	}
	e.remember(left.Job, turn.refused)
	return turn.again
}

// candidatesOf lists the roots among the leftovers that nobody has asked to go, and the UIDs of all that is there.
func candidatesOf(left facts.Leftovers) ([]candidate, map[types.UID]bool) {
	present := map[types.UID]bool{}
	kept := map[types.UID]bool{}
	var all []candidate
	add := func(k Kind, known bool, ref facts.Ref, owner facts.Owner, keep, mirror, terminating bool) {
		present[ref.UID] = true
		if keep {
			kept[owner.UID] = true
		}
		if known && !terminating {
			all = append(all, candidate{Target{k, ref}, keep, mirror, owner})
		}
	}
	for _, p := range left.Pods {
		add(podKind(), true, p.Ref(), p.Owner, p.Keep, p.Mirror, p.Terminating())
	}
	for _, o := range left.Objects {
		k, known := kindOf(o)
		add(k, known, o.Ref(), o.Owner, o.Keep, false, o.Terminating())
	}
	// What is to be kept keeps what it would go with.
	for range 3 {
		for _, o := range left.Objects {
			if kept[o.UID] && o.Owner.UID != "" {
				kept[o.Owner.UID] = true
			}
		}
	}
	var roots []candidate
	for _, c := range all {
		if present[c.owner.UID] {
			continue
		}
		c.keep = c.keep || kept[c.UID]
		roots = append(roots, c)
	}
	slices.SortFunc(roots, func(a, b candidate) int { return compareTargets(a.Target, b.Target) })
	return roots, present
}

func kindOf(o *facts.Object) (Kind, bool) {
	for _, k := range Kinds() {
		if k.Kind == o.Kind && k.Resource.Group == o.Group {
			return k, true
		}
	}
	return Kind{}, false
}

// goneSince counts what this process deleted and what is no longer there.
func (e *Enforcer) goneSince(left facts.Leftovers, present map[types.UID]bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for uid, k := range e.asked[left.Job] {
		if present[uid] || !left.Whole && !watched(k) {
			continue
		}
		e.c.Deleter.Gone(uid)
		delete(e.asked[left.Job], uid)
	}
	if len(e.asked[left.Job]) == 0 {
		delete(e.asked, left.Job)
	}
}

// watched says whether the daemon sees the objects of the kind come and go.
func watched(k Kind) bool {
	switch k.Kind {
	case facts.KindJobSet, facts.KindJob, facts.KindPod, facts.KindTrainingRuntime:
		return true
	}
	return false
}

// turn is one Reap under way.
type turn struct {
	*Enforcer
	left    facts.Leftovers
	in      *inspector
	refused map[types.UID]Refusal
	sent    int
	again   time.Time
	// root is what a live read told of the TrainJob; rootErr that it failed. namesake is when the TrainJob was made that has
	// the name of a job that nobody knows the TrainJob of; nil when none has.
	root     presence
	rootRead bool
	rootErr  error
	namesake *time.Time
}

func (t *turn) askAt(at time.Time) {
	if !at.IsZero() && (t.again.IsZero() || at.Before(t.again)) {
		t.again = at
	}
}

func (t *turn) refuse(c candidate, reason Reason, detail string, again time.Time) {
	t.refused[c.UID] = Refusal{Target: c.Target, Reason: reason, Detail: detail, Since: t.c.Clock.Now()}
	t.askAt(again)
}

// consider decides on one root, cheapest obstacles first, and deletes it when nothing speaks against it.
func (t *turn) consider(ctx context.Context, c candidate) {
	now := t.c.Clock.Now()
	switch reason, enforced := t.c.Mode(c.Namespace); {
	case !t.c.Namespaces(c.Namespace):
		t.refuse(c, NamespaceExcluded, c.Namespace, time.Time{})
		return
	case t.left.Elsewhere:
		t.refuse(c, OwnerElsewhere, string(t.left.Job.UID), now.Add(askAgain)) // the end of the owner is a change of another job
		return
	case slices.Contains(t.left.Misplaced, c.UID):
		t.refuse(c, OwnerElsewhere, string(c.owner.UID), now.Add(askAgain)) // as above
		return
	case c.keep:
		t.refuse(c, Kept, "", time.Time{})
		return
	case c.mirror:
		t.refuse(c, MirrorPod, "", time.Time{})
		return
	case !enforced:
		t.refuse(c, reason, "", time.Time{})
		return
	case !t.c.Leads():
		t.refuse(c, NotLeading, "", time.Time{})
		return
	}
	if due, last := t.c.Deleter.Due(c.UID); !due {
		detail := ""
		if last.Err != nil {
			detail = last.Err.Error()
		}
		// One that is under way, for another job that has the object as well, says nothing of when it is over.
		t.refuse(c, Pausing, detail, later(last.Next, now.Add(firstPause)))
		return
	}
	if reason, until := t.c.Brakes.Held(now); reason != "" {
		t.refuse(c, reason, "", until)
		return
	}
	order, ok := t.doubt(ctx, c)
	if !ok {
		return
	}
	if t.c.DryRun {
		if !t.alreadyRefused(c.UID, DryRun) {
			t.tell(c, signals.WouldDelete, "")
		}
		t.refuse(c, DryRun, "", time.Time{})
		return
	}
	if reason, until := t.c.Brakes.Take(t.c.Clock.Now()); reason != "" {
		t.refuse(c, reason, "", until)
		return
	}
	t.sent++
	t.note(c) // its end may be told before the DELETE is answered
	a, err := t.c.Deleter.Send(ctx, order, CauseOrphan)
	switch {
	case err != nil:
		t.refuse(c, NotLeading, err.Error(), time.Time{})
	case a.Settled():
		t.tell(c, signals.ObjectDeleted, string(a.Outcome))
		if !watched(c.Kind) {
			t.askAt(now.Add(time.Second)) // nobody tells when it is gone
		}
	default:
		detail := ""
		if a.Err != nil {
			detail = a.Err.Error()
		}
		t.refuse(c, Pausing, detail, later(a.Next, t.c.Clock.Now().Add(firstPause)))
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// doubt reads live what an irreversible step must not take from a cache: that the TrainJob is gone, that the object is the
// one meant and was not asked to go, and that nothing that owns it is there.
func (t *turn) doubt(ctx context.Context, c candidate) (Order, bool) {
	now := t.c.Clock.Now()
	if err := t.readRoot(ctx); err != nil {
		t.refuse(c, ReadFailed, err.Error(), now.Add(askAgain))
		return Order{}, false
	}
	switch t.root {
	case here:
		t.refuse(c, OwnerLives, "trainjob/"+t.left.Job.Name, now.Add(askAgain))
		return Order{}, false
	case presenceUnknown:
		t.refuse(c, OwnerUnknown, "trainjob/"+t.left.Job.Name, now.Add(askAgain))
		return Order{}, false
	}
	o, err := t.c.API.Get(ctx, c.Kind, c.Namespace, c.Name)
	if err != nil {
		t.refuse(c, ReadFailed, err.Error(), now.Add(askAgain))
		return Order{}, false
	}
	if o == nil || o.GetUID() != c.UID {
		t.c.Deleter.Gone(c.UID)
		return Order{}, false
	}
	if o.GetDeletionTimestamp() != nil {
		return Order{}, false
	}
	if t.namesake != nil && !t.namesake.After(o.GetCreationTimestamp().Time) {
		// It may be of the TrainJob that lives: only what is older than that certainly is not.
		t.refuse(c, OwnerUnknown, "trainjob/"+t.left.Job.Name, now.Add(askAgain))
		return Order{}, false
	}
	s, err := t.in.stand(ctx, c.Target, ownersOf(o), keeps(o), mirror(o), o.GetLabels())
	if err != nil {
		t.refuse(c, ReadFailed, err.Error(), now.Add(askAgain))
		return Order{}, false
	}
	if reason, about := s.decide(); reason != "" {
		again := time.Time{}
		if reason == OwnerLives || reason == OwnerUnknown || reason == RuntimeInUse {
			again = now.Add(askAgain)
		}
		t.refuse(c, reason, about, again)
		return Order{}, false
	}
	order, err := NewOrder(c.Target)
	if err != nil {
		t.refuse(c, NoOwner, err.Error(), time.Time{})
		return Order{}, false
	}
	return order.AtVersion(o.GetResourceVersion()), true
}

// readRoot asks once a turn whether the job's TrainJob is there. Where nobody knows its UID, the owners of each object
// decide alone.
func (t *turn) readRoot(ctx context.Context) error {
	if t.rootRead {
		return t.rootErr
	}
	t.rootRead = true
	switch {
	case isRuntimeKey(t.left.Job):
		t.root = absent
		return nil
	case t.left.Job.Unknown():
		t.root = absent
		o, err := t.c.API.Get(ctx, trainJobKind(), t.left.Job.Namespace, t.left.Job.Name)
		if o != nil {
			made := o.GetCreationTimestamp().Time
			t.namesake = &made
		}
		if !errors.Is(err, ErrNotServed) {
			t.rootErr = err
		}
		return t.rootErr
	}
	t.root, t.rootErr = t.in.owner(ctx, t.left.Job.Namespace, facts.Owner{
		Group: facts.GroupTrainer, Kind: facts.KindTrainJob, Name: t.left.Job.Name, UID: t.left.Job.UID})
	return t.rootErr
}

func (t *turn) note(c candidate) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.asked[t.left.Job] == nil {
		t.asked[t.left.Job] = map[types.UID]Kind{}
	}
	t.asked[t.left.Job][c.UID] = c.Kind
}

func (t *turn) alreadyRefused(uid types.UID, reason Reason) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.Enforcer.refused[t.left.Job][uid].Reason == reason
}

func (t *turn) tell(c candidate, code signals.Code, outcome string) {
	ev := signals.Event{Code: code, Time: t.c.Clock.Now(), Namespace: t.left.Job.Namespace, Job: t.left.Job.Name, UID: string(t.left.Job.UID),
		Attrs: []signals.Attr{{Key: "object", Value: c.Ref.String()}, {Key: "objectUID", Value: string(c.UID)}, {Key: "cause", Value: string(CauseOrphan)}}}
	if outcome != "" {
		ev.Attrs = append(ev.Attrs, signals.Attr{Key: "outcome", Value: outcome})
	}
	t.c.Sink.Emit(ev)
}

// remember keeps the refusals of a job, counts those that are new or have another reason, and tells when any is another.
func (e *Enforcer) remember(job facts.JobKey, now map[types.UID]Refusal) {
	if e.replace(job, now) {
		e.c.Changed(job)
	}
}

func (e *Enforcer) replace(job facts.JobKey, now map[types.UID]Refusal) (changed bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.refused[job]
	changed = len(before) != len(now)
	for uid, r := range now {
		had, ok := before[uid]
		changed = changed || !ok || had.Reason != r.Reason || had.Detail != r.Detail
		if ok && had.Reason == r.Reason {
			r.Since = had.Since
			now[uid] = r
			continue
		}
		e.c.Recorder.Refused(string(r.Reason))
	}
	if len(now) == 0 {
		delete(e.refused, job)
		return changed
	}
	e.refused[job] = now
	return changed
}

// Words is the refusal in a sentence's words.
func (r Refusal) Words() string { return said(r.Reason, r.Detail) }

// Refusals lists why objects of a job are not deleted, by reference. It is what explain repeats.
func (e *Enforcer) Refusals(job facts.JobKey) []Refusal {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := make([]Refusal, 0, len(e.refused[job]))
	for _, r := range e.refused[job] {
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b Refusal) int {
		return cmp.Or(compareTargets(a.Target, b.Target), cmp.Compare(a.Reason, b.Reason))
	})
	return list
}

// Forget drops what is remembered of a job of which nothing is left.
func (e *Enforcer) Forget(job facts.JobKey) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.refused, job)
	for uid := range e.asked[job] {
		e.c.Deleter.Gone(uid)
	}
	delete(e.asked, job)
}
