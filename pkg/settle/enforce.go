package settle

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/nodeproof"
	"github.com/orphand/orphand/pkg/signals"
	"k8s.io/apimachinery/pkg/types"
)

// Reaper clears away what is left of jobs that are gone. It doubts what it is offered and reads live before it writes.
type Reaper interface {
	// Reap is offered what is left of a job once the garbage collector has had its time. It says when it wants to be asked
	// again; the zero time when only a change can matter.
	Reap(ctx context.Context, left facts.Leftovers) time.Time
	// Nodes is told how many nodes there are and how many of them cannot be heard. It must not block.
	Nodes(silent, total int, readable bool)
	// Forget is told of a job of which nothing is left.
	Forget(facts.JobKey)
}

// copyPrefix starts the identity of a runtime copy that never had an owner: it belongs to no incarnation.
const copyPrefix = "runtime:"

func copyKey(o *facts.Object) facts.JobKey {
	return facts.JobKey{Namespace: o.Namespace, Name: o.Name, UID: copyPrefix + o.UID}
}

func isCopy(key facts.JobKey) bool { return strings.HasPrefix(string(key.UID), copyPrefix) }

// reap offers what is left of a job to the reaper, outside the lock: it reads and writes.
func (e *Engine) reap(ctx context.Context, key facts.JobKey) {
	if e.c.Reaper == nil {
		return
	}
	left, due := e.leftovers(key)
	if !due {
		return
	}
	again := e.c.Reaper.Reap(ctx, left)
	if again.IsZero() {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if j := e.jobs[key]; j != nil && len(j.extra) > 0 {
		j.lookAt = min(j.lookAt, facts.At(again)) // what nobody watches goes without a word
	}
	e.c.Queue.AddAfter(key, max(again.Sub(e.c.Clock.Now()), 0))
}

// leftovers lists what is left of a job that is gone for longer than the garbage collector is given.
func (e *Engine) leftovers(key facts.JobKey) (facts.Leftovers, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if isCopy(key) {
		return e.unownedCopy(key)
	}
	j := e.jobs[key]
	if j == nil || j.present || !j.sure || e.now() < j.collectedBy(e.c.Options) || j.elsewhere() {
		return facts.Leftovers{}, false
	}
	left := facts.Leftovers{Job: key, Objects: append(j.sortedObjects(), j.extra...), Whole: j.looked, Elsewhere: e.elsewhere(key)}
	for _, p := range sorted(j.pods) {
		if p.h.Removal == nodeproof.Present {
			left.Pods = append(left.Pods, p.h.Pod)
		}
	}
	left.Misplaced = e.misplaced(left)
	return left, true
}

// misplaced lists what has an owner that is there, in another namespace than it is itself.
func (e *Engine) misplaced(left facts.Leftovers) []types.UID {
	var list []types.UID
	see := func(r facts.Ref, owner types.UID) {
		if j := e.objects[owner]; j != nil && j.objects[owner].Namespace != r.Namespace {
			list = append(list, r.UID)
		}
	}
	for _, o := range left.Objects {
		see(o.Ref(), o.Owner.UID)
	}
	for _, p := range left.Pods {
		see(p.Ref(), p.Owner.UID)
	}
	return list
}

// collectedBy is when the garbage collector has had its time. What was seen under a JobSet that nobody had seen is no orphan yet:
// the JobSet may live until a live read has found that it does not.
func (j *job) collectedBy(o Options) facts.Instant { return j.gone.After(o.GCGrace) }

// elsewhere says whether a TrainJob with the job's UID lives in another namespace.
func (e *Engine) elsewhere(key facts.JobKey) bool {
	for other, j := range e.jobs {
		if other.UID == key.UID && other.Namespace != key.Namespace && j.present {
			return true
		}
	}
	return false
}

// weather tells the reaper of the nodes.
func (e *Engine) weather() {
	if e.c.Reaper == nil {
		return
	}
	silent, total := e.nodes.Silent()
	e.c.Reaper.Nodes(silent, total, e.nodes.Readable)
}

// OfferAll has every job that is gone offered to the reaper again: what kept it from acting may be over.
func (e *Engine) OfferAll() {
	e.mu.Lock()
	defer e.mu.Unlock()
	var keys []facts.JobKey
	for key, j := range e.jobs {
		if !j.present {
			keys = append(keys, key)
		}
	}
	for _, o := range e.copies {
		keys = append(keys, copyKey(o))
	}
	slices.SortFunc(keys, func(a, b facts.JobKey) int { return cmp.Compare(a.String(), b.String()) })
	for _, key := range keys {
		e.c.Queue.Add(key)
	}
}

// seeCopy follows the runtime copies that no TrainJob owns: what made one died before it could set the owner.
func (e *Engine) seeCopy(o *facts.Object) {
	if o.Kind != facts.KindTrainingRuntime {
		return
	}
	name := types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
	if o.Owner != (facts.Owner{}) || e.c.IsRuntimeCopy == nil || !e.c.IsRuntimeCopy(o.Labels) {
		e.dropCopy(name)
		return
	}
	if had := e.copies[name]; had != nil && had.UID != o.UID {
		e.dropCopy(name)
	}
	e.copies[name] = o
	e.c.Queue.Add(copyKey(o))
}

func (e *Engine) dropCopy(name types.NamespacedName) {
	o := e.copies[name]
	if o == nil {
		return
	}
	delete(e.copies, name)
	key := copyKey(o)
	delete(e.copySeen, o.UID)
	e.end(newJob(key, 0), signals.NeverOwnedRuntime, string(o.UID))
	if e.c.Reaper != nil {
		e.c.Reaper.Forget(key)
	}
	for other := range e.byName[name] {
		e.c.Queue.Add(other)
	}
}

// copyGone takes note of a runtime that is gone; one without a UID is whatever had the name.
func (e *Engine) copyGone(o *facts.Object) {
	name := types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
	if had := e.copies[name]; o.Kind == facts.KindTrainingRuntime && had != nil && (o.UID == "" || o.UID == had.UID) {
		e.dropCopy(name)
	}
}

// copyUser says whether a TrainJob of the copy's name lives, and since when none does; unknown when none was seen.
func (e *Engine) copyUser(name types.NamespacedName) (lives bool, gone facts.Instant) {
	for _, j := range e.byName[name] {
		lives = lives || j.present
		gone = max(gone, j.gone)
	}
	return lives, gone
}

// unownedCopy judges a runtime copy that never had an owner.
func (e *Engine) unownedCopy(key facts.JobKey) (facts.Leftovers, bool) {
	name := key.Incarnations()
	o := e.copies[name]
	if o == nil || copyKey(o) != key {
		return facts.Leftovers{}, false
	}
	lives, gone := e.copyUser(name)
	if lives {
		e.end(newJob(key, 0), signals.NeverOwnedRuntime, string(o.UID))
		return facts.Leftovers{}, false
	}
	now := e.now()
	from := max(o.Created, gone)
	if !o.Created.Known() {
		if !e.copySeen[o.UID].Known() {
			e.copySeen[o.UID] = now
		}
		from = max(gone, e.copySeen[o.UID])
	}
	if due := from.After(e.c.CopyGrace); now < due {
		e.c.Queue.AddAfter(key, due.Sub(now))
		return facts.Leftovers{}, false
	}
	e.raise(newJob(key, now), signals.NeverOwnedRuntime, string(o.UID),
		o.Ref().String()+" was made for one TrainJob, which never owned it and is not there", nil)
	return facts.Leftovers{Job: key, Objects: []*facts.Object{o}, Whole: true}, true
}

// heldByCopy says whether a runtime copy is left that keeps a TrainJob of the name from being made.
func (e *Engine) heldByCopy(name types.NamespacedName) bool {
	if e.copies[name] == nil {
		return false
	}
	lives, _ := e.copyUser(name)
	return !lives
}
