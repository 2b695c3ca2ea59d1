package reap

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// ErrNotLeading: this process may not write, or can no longer be sure that it may.
var ErrNotLeading = errors.New("this replica does not certainly lead")

// Recorder counts. Kinds, outcomes, causes and reasons are the words of this package.
type Recorder interface {
	// Deleted counts a DELETE by its answer.
	Deleted(kind, outcome string)
	// Removed counts an object that this process deleted and then saw gone, once per UID.
	Removed(kind, cause string)
	// Refused counts a decision not to delete an object, once for as long as its reason stays the same.
	Refused(reason string)
}

type uncounted struct{}

func (uncounted) Deleted(_, _ string) {}
func (uncounted) Removed(_, _ string) {}
func (uncounted) Refused(string)      {}

// Cause says what an object was deleted for.
type Cause string

// The causes.
const (
	CauseOrphan    Cause = "orphan"
	CauseStop      Cause = "stop"
	CauseRetention Cause = "retention"
)

// Causes lists every cause.
func Causes() []Cause { return []Cause{CauseOrphan, CauseStop, CauseRetention} }

// Answer is what became of an order.
type Answer struct {
	Outcome Outcome
	// Err is the API server's error, nil for Accepted.
	Err error
	// Next is when the order may be repeated; the zero time when it need not be.
	Next time.Time
	// Attempts counts the DELETEs in a row that failed.
	Attempts int
}

// Settled says whether the instance is gone or was asked to go.
func (a Answer) Settled() bool { return a.Outcome == Accepted || a.Outcome == Absent }

// Deleter sends orders, one at a time per UID, and remembers how each fared. It is safe for concurrent use.
type Deleter struct {
	api      API
	clock    clock.PassiveClock
	gate     func() error
	recorder Recorder

	mu    sync.Mutex
	tries map[types.UID]*try
	// removals are the objects that were asked to go and were not seen gone yet.
	removals map[types.UID]removal
}

type try struct {
	failures int
	next     time.Time
	last     Answer
	busy     bool
	// gone says that the watch told of the end before the answer came.
	gone bool
}

type removal struct {
	target Target
	cause  Cause
}

// NewDeleter makes a deleter. gate is asked immediately before each DELETE and stops it with an error; nil lets all pass.
func NewDeleter(api API, clk clock.PassiveClock, gate func() error, recorder Recorder) *Deleter {
	if gate == nil {
		gate = func() error { return nil }
	}
	if recorder == nil {
		recorder = uncounted{}
	}
	return &Deleter{api: api, clock: clk, gate: gate, recorder: recorder, tries: map[types.UID]*try{}, removals: map[types.UID]removal{}}
}

// Due says whether an order for the UID may be sent now; if not, when, with the last answer.
func (d *Deleter) Due(uid types.UID) (bool, Answer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.tries[uid]
	if t == nil {
		return true, Answer{}
	}
	return !t.busy && !d.clock.Now().Before(t.next), t.last
}

// Send carries an order out, unless the gate is shut (ErrNotLeading or what it says), its pause runs, or somebody else is
// sending one for the same UID.
func (d *Deleter) Send(ctx context.Context, o Order, cause Cause) (Answer, error) {
	t := o.Target()
	d.mu.Lock()
	mine := d.tries[t.UID]
	if mine == nil {
		mine = &try{}
		d.tries[t.UID] = mine
	}
	if mine.busy || d.clock.Now().Before(mine.next) {
		last := mine.last
		d.mu.Unlock()
		return last, nil
	}
	mine.busy = true
	d.mu.Unlock()

	// The last thing before the write: a process that slept since it decided must not send what it decided.
	if err := d.gate(); err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		if mine.busy = false; mine.gone {
			delete(d.tries, t.UID)
		}
		return Answer{}, err
	}
	err := d.api.Delete(ctx, o)

	d.mu.Lock()
	defer d.mu.Unlock()
	mine.busy = false
	a := Answer{Outcome: outcomeOf(err), Err: err}
	d.recorder.Deleted(t.Ref.Kind, string(a.Outcome))
	switch {
	case a.Settled():
		delete(d.tries, t.UID)
		switch {
		case a.Outcome != Accepted || o.dryRun:
		case mine.gone:
			d.recorder.Removed(t.Ref.Kind, string(cause))
		default:
			d.removals[t.UID] = removal{t, cause}
		}
	case mine.gone:
		delete(d.tries, t.UID)
	default:
		mine.failures++
		mine.next = d.clock.Now().Add(Pause(mine.failures, err))
		a.Next, a.Attempts = mine.next, mine.failures
		a.Err = fmt.Errorf("deleting %s: %w", t.Ref, err)
	}
	mine.last = a
	return a, nil
}

// Gone takes note that an object instance is gone, and counts it when this process had deleted it.
func (d *Deleter) Gone(uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.tries[uid]; t != nil && t.busy {
		t.gone = true // Send counts it when the answer is there
		return
	}
	delete(d.tries, uid)
	r, mine := d.removals[uid]
	if !mine {
		return
	}
	delete(d.removals, uid)
	d.recorder.Removed(r.target.Ref.Kind, string(r.cause))
}

// Forget drops what is remembered of an object that nobody looks at any more.
func (d *Deleter) Forget(uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.tries, uid)
	delete(d.removals, uid)
}

// Asked lists the objects that were deleted and not seen gone yet.
func (d *Deleter) Asked() []Target {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := make([]Target, 0, len(d.removals))
	for _, r := range d.removals {
		list = append(list, r.target)
	}
	return list
}
