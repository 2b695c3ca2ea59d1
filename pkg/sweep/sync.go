package sweep

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/reap"
	"github.com/orphand/orphand/pkg/retention"
	"github.com/orphand/orphand/pkg/signals"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// ownerEvery is how long a look at an owner that no watch tells of holds good; before a DELETE there is another.
	ownerEvery = 10 * time.Minute
	// podsEvery is how often an object is looked at that its pods keep, in case nobody tells of their end.
	podsEvery = time.Minute
	// askAgain is how soon a decision is repeated that could not be made.
	askAgain = 5 * time.Second
)

// Sync works one key off.
func (s *Sweeper) Sync(ctx context.Context, k Key) error {
	switch {
	case k.Release:
		s.let()
		return nil
	case k.Memory:
		return s.syncMemory(ctx)
	case k.Group != "":
		s.regroup(k.Group)
		return nil
	}
	s.taken(k.UID)
	if k.Pod {
		return s.syncPod(ctx, k.UID)
	}
	return s.syncObject(ctx, k.UID)
}

func (s *Sweeper) syncObject(ctx context.Context, uid types.UID) error {
	if s.isUnserved(uid) {
		return nil // SetUnserved has it looked at again
	}
	if err := s.lookAtOwner(ctx, uid, ownerEvery); err != nil {
		return err
	}
	s.mu.Lock()
	e, d := s.judge(uid)
	if e != nil && s.unannounced(e, d) {
		o := e.o
		s.mu.Unlock()
		if err := s.announce(ctx, o, d); err != nil {
			return err
		}
		s.mu.Lock()
		e, d = s.judge(uid)
	}
	released := e != nil && e.released
	if e != nil {
		e.released = false
	}
	if e == nil || !d.Acts(s.now()) || !s.allowed(e.o.Namespace, &e.refused) || s.heldByNotice(e, d) || s.collected(e) {
		s.mu.Unlock()
		return nil
	}
	if since := s.now().Sub(e.deleted); e.deleted.Known() && since < heldAfter {
		s.c.Queue.AddAfter(Key{UID: uid}, heldAfter-since) // the watch has yet to tell of it
		s.mu.Unlock()
		return nil
	}
	if due, last := s.c.Deleter.Due(uid); !due {
		s.retry(Key{UID: uid}, last)
		s.mu.Unlock()
		return nil
	}
	if !released {
		if !e.queued {
			e.queued = true
			backlog := ""
			if retention.Backlogged(d.Due, s.since) {
				backlog, e.backlog = e.o.Of.Name, true
			}
			s.enter(uid, d.Due, backlog, false)
		}
		s.mu.Unlock()
		return nil
	}
	o := e.o
	s.mu.Unlock()

	ctx = reap.InTurn(ctx)
	u, err := s.c.Live.Object(ctx, o.Of, o.Namespace, o.Name)
	if err != nil {
		return s.again(uid, err)
	}
	if u == nil || u.GetUID() != uid {
		return nil // it is gone, which the watch will tell
	}
	// First the object, then its owner: the watch may be behind, and show an owner that it no longer has.
	s.mu.Lock()
	if e = s.objects[uid]; e != nil {
		s.replace(e, s.policy.Read(o.Of, u))
	}
	s.mu.Unlock()
	if err := s.lookAtOwner(ctx, uid, 0); err != nil {
		return err
	}
	s.mu.Lock()
	e, d = s.judge(uid)
	if e == nil || !d.Acts(s.now()) || !s.allowed(e.o.Namespace, &e.refused) || s.heldByNotice(e, d) || s.collected(e) {
		s.mu.Unlock()
		return nil
	}
	o = e.o // what was decided on: a watch may bring another state from now on, which the DELETE must not be of
	s.mu.Unlock()
	return s.delete(ctx, e, o, d, u)
}

func (s *Sweeper) isUnserved(uid types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.objects[uid]
	return e != nil && s.unserved[e.o.Of.GroupResource()]
}

// afterGC is how long after whoever clears away orphans an object without its owner goes by policy.
const afterGC = 5 * time.Second

// collected says whether an object whose owner is gone is the garbage collector's for some more time.
func (s *Sweeper) collected(e *entry) bool {
	if !e.orphaned.Known() {
		return false
	}
	if left := e.orphaned.Add(s.c.GCGrace + afterGC).Sub(s.now()); left > 0 {
		s.c.Queue.AddAfter(Key{UID: e.o.UID}, left)
		return true
	}
	return false
}

// allowed says whether this process may delete in a namespace, and counts it once for each object when not.
func (s *Sweeper) allowed(namespace string, refused *reap.Reason) bool {
	reason := s.c.MayDelete(namespace)
	if reason != "" && reason != *refused {
		s.c.Recorder.Refused(string(reason))
	}
	*refused = reason
	return reason == "" && s.known()
}

// again tells of a read that failed and has the object looked at again: what is known of it has not changed.
func (s *Sweeper) again(uid types.UID, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.objects[uid]; e != nil && e.refused != reap.ReadFailed {
		e.refused = reap.ReadFailed
		s.c.Recorder.Refused(string(reap.ReadFailed))
	}
	return err
}

// delete sends the DELETE of an entry whose state o was decided on. The watch may tell of the end before the answer comes: what
// the entry is told from then on is told of an object that nobody knows any more, and its removal counts all the same.
func (s *Sweeper) delete(ctx context.Context, e *entry, o *retention.Object, d retention.Decision, u *unstructured.Unstructured) error {
	s.mu.Lock()
	came := s.cleanups.Recreated(o, s.policy.Recreations())
	s.mu.Unlock()
	order, err := reap.NewOrder(reap.Target{Kind: reap.Kind{Kind: o.Of.Kind, Resource: resourceOf(o.Of, u)}, Ref: o.Ref()})
	if err != nil {
		return err
	}
	answer, err := s.c.Deleter.Send(ctx, order.AtVersion(o.ResourceVersion), reap.CauseRetention)
	if errors.Is(err, reap.ErrNotLeading) {
		return nil // Again comes when that changes
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if !answer.Settled() {
		s.retry(Key{UID: o.UID}, answer)
		return nil
	}
	if answer.Outcome != reap.Accepted {
		return nil
	}
	e.deleted = now
	removal := s.cleanups.Deleted(o, came, now)
	if e.backlog {
		removal.Backlog = retention.BacklogOf(o.Of.Name)
	} else {
		s.c.Recorder.RetentionLateness(now.Sub(e.goes(d)))
	}
	if s.objects[o.UID] != nil {
		s.c.Queue.AddAfter(Key{UID: o.UID}, heldAfter)
	}
	s.remember(removal)
	s.lastWords(o, d, u)
	return nil
}

// retry has a key looked at when the DELETE may be repeated. A conflict is no failure: the object changed, and what is to
// become of it is decided anew.
func (s *Sweeper) retry(k Key, a reap.Answer) {
	wait := a.Next.Sub(s.c.Clock.Now())
	if wait <= 0 {
		wait = askAgain
	}
	s.c.Queue.AddAfter(k, wait)
}

// judge decides on an object, notes what changed, and sets its timer. Its entry is nil when there is no such object.
func (s *Sweeper) judge(uid types.UID) (*entry, retention.Decision) {
	e := s.objects[uid]
	if e == nil || !s.begun {
		return nil, retention.Decision{}
	}
	now := s.now()
	c := s.caseOf(e, now)
	d := s.policy.Decide(c)
	if d.Verb == retention.Delete && (e.said.Reason == retention.RunningPods || e.said.Reason == retention.PodsUnknown) {
		e.known = now
	}
	s.note(e, c, d)
	switch {
	case d.Verb == retention.Delete && d.Due > now:
		s.c.Queue.AddAfter(Key{UID: uid}, d.Due.Sub(now))
		s.timeNotice(e, d, now)
	case d.Again.Known():
		s.c.Queue.AddAfter(Key{UID: uid}, d.Again.Sub(now))
	case d.Reason == retention.RunningPods || d.Reason == retention.PodsUnknown:
		s.c.Queue.AddAfter(Key{UID: uid}, podsEvery)
	}
	if d.Verb != retention.Delete || d.Due > now {
		e.queued, e.released = false, false
	}
	return e, d
}

func (s *Sweeper) caseOf(e *entry, now facts.Instant) retention.Case {
	o := e.o
	c := retention.Case{Object: o, Owner: s.ownerOf(e), Now: now, Surplus: e.surplus, Notice: s.c.Notice, Recreated: s.cleanups.Recreated(o, s.policy.Recreations())}
	if o.Finished {
		var known bool
		c.Pods, known = s.podsOf(o)
		// What another cluster's controller works on may have its pods there; those that are here count all the same.
		c.PodsUnknown = !known && o.Elsewhere == ""
		c.KeptBelow = s.keptBelow(o.UID, mostLevels) || isTrainJob(o) && s.c.Pods != nil && s.c.Pods.Keeps(keyOf(o))
	}
	return c
}

// mostLevels is how many levels of owners there are below a job: a JobSet, its Jobs, and one to spare.
const mostLevels = 3

// keptBelow says whether anything that would go with an object asks to be kept.
func (s *Sweeper) keptBelow(uid types.UID, levels int) bool {
	for owned := range s.ofOwner[uid] {
		if s.objects[owned].o.Keep || levels > 1 && s.keptBelow(owned, levels-1) {
			return true
		}
	}
	return false
}

func isTrainJob(o *retention.Object) bool {
	return o.Of.Kind == facts.KindTrainJob && o.Of.Group == facts.GroupTrainer
}

func keyOf(o *retention.Object) facts.JobKey {
	return facts.JobKey{Namespace: o.Namespace, Name: o.Name, UID: o.UID}
}

// podsOf lists the pods of an object; false when they cannot be told.
func (s *Sweeper) podsOf(o *retention.Object) ([]retention.Pod, bool) {
	if isTrainJob(o) {
		if s.c.Pods == nil {
			return nil, false
		}
		return s.c.Pods.PodsOf(keyOf(o))
	}
	if s.blind[o.Of.PodSelector()] {
		return nil, false
	}
	var list []retention.Pod
	for _, p := range s.ofName[podsOf(o)] {
		if p.of(o) {
			list = append(list, retention.Pod{Pod: p.Pod, Over: retention.Ended(p.Pod)})
		}
	}
	slices.SortFunc(list, func(a, b retention.Pod) int { return compare(a.UID, b.UID) })
	return list, true
}

func compare(a, b types.UID) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// of says whether the pod is one of the object's, and not of another incarnation of its name.
func (p *pod) of(o *retention.Object) bool {
	switch o.Of.Kind {
	case facts.KindJobSet:
		return p.JobSetUID == "" || p.JobSetUID == o.UID
	case facts.KindJob:
		if o.Of.Group == "batch" {
			return p.JobUID == "" || p.JobUID == o.UID
		}
	}
	return p.Owner.Kind != o.Of.Kind || p.Owner.Group != o.Of.Group || p.Owner.UID == o.UID
}

// ownerOf is what is known of an object's controller owner.
func (s *Sweeper) ownerOf(e *entry) retention.OwnerState {
	owner := e.o.Owner
	if !owner.Controller || owner.UID == "" {
		return retention.OwnerNone
	}
	if known := s.objects[owner.UID]; known != nil {
		if known.o.Namespace != e.o.Namespace {
			return retention.OwnerElsewhere
		}
		return retention.OwnerLive
	}
	if !e.looked.Known() {
		return retention.OwnerUnread
	}
	return e.owner
}

// lookAtOwner reads an object's controller owner, unless a watch tells of it or the last look is not older than every.
func (s *Sweeper) lookAtOwner(ctx context.Context, uid types.UID, every time.Duration) error {
	s.mu.Lock()
	e := s.objects[uid]
	now := s.now()
	if e == nil || !e.o.Owner.Controller || s.objects[e.o.Owner.UID] != nil || !s.begun ||
		e.looked.Known() && every > 0 && now.Sub(e.looked) < every {
		s.mu.Unlock()
		return nil
	}
	owner, namespace := e.o.Owner, e.o.Namespace
	s.mu.Unlock()

	present, err := s.c.Live.Owner(ctx, namespace, owner)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e = s.objects[uid]; e == nil {
		return nil
	}
	e.looked = now
	switch {
	case err != nil:
		e.owner = retention.OwnerUnread
		s.c.Queue.AddAfter(Key{UID: uid}, podsEvery)
		e.looked = now.Add(podsEvery - ownerEvery)
	case present:
		e.owner = retention.OwnerLive
		s.c.Queue.AddAfter(Key{UID: uid}, ownerEvery)
	default:
		e.owner = retention.OwnerGone
	}
	switch {
	case e.owner != retention.OwnerGone:
		e.orphaned = 0
	case !e.orphaned.Known():
		e.orphaned = now
	}
	return nil
}

// regroup counts the objects of a kind and namespace that keepLast may count together.
func (s *Sweeper) regroup(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.begun {
		return
	}
	now := s.now()
	var cases []retention.Case
	for _, e := range s.groups[name] {
		cases = append(cases, s.caseOf(e, now))
	}
	surplus := s.policy.Surplus(cases)
	for uid, e := range s.groups[name] {
		if since := surplus[uid]; since != e.surplus {
			if !e.surplus.Known() {
				e.known = now
			}
			e.surplus = since
			s.c.Queue.Add(Key{UID: uid})
		}
	}
}

// note tells what changed by a decision.
func (s *Sweeper) note(e *entry, c retention.Case, d retention.Decision) {
	s.count(e.said, d)
	from := e.said
	e.said = d
	for _, w := range d.Warnings {
		key := warning{e.o.UID, w.Annotation, w.Value}
		if !s.warned[key] {
			s.warned[key] = true
			s.raise(e, signals.InvalidAnnotation, w.String())
		}
	}
	if len(d.Warnings) == 0 {
		s.end(e, signals.InvalidAnnotation)
	}
	s.set(e, signals.ClockSkew, d.Skewed, func() string {
		return e.o.Ref().String() + " says that it finished at " + e.o.FinishedAt.Time().Format(time.RFC3339) + ", which is yet to come"
	})
	s.set(e, signals.RecreateLoop, d.Reason == retention.Recreated, func() string { return recreated(e.o, c.Recreated) })
	s.finishedButRunning(e, c)
	s.held(e)
	if from.Reason != d.Reason && (d.Reason == retention.Unreadable || d.Reason == retention.InvalidOwner) {
		s.tell(e.o, signals.Event{Code: signals.RetentionDecided, As: signals.Warn}, d)
	} else if d.Verb == retention.Delete && d.DryRun && d.Due <= c.Now && !(from.Verb == retention.Delete && from.Due <= c.Now && from.DryRun && e.noticed) {
		e.noticed = true
		s.tell(e.o, signals.Event{Code: signals.RetentionDecided}, d)
	}
}

func (s *Sweeper) count(from, to retention.Decision) {
	if from.Verb == to.Verb && from.Reason == to.Reason {
		return
	}
	s.c.Recorder.Retention(string(from.Verb), string(from.Reason), string(to.Verb), string(to.Reason))
}
