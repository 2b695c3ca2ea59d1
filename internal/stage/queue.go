package stage

import (
	"time"
)

// The pauses of the daemon's queue after failures of one key.
const (
	firstBackoff = 50 * time.Millisecond
	lastBackoff  = time.Minute
)

// Queue is a work queue on the loop: each key once, again when it is added while it is worked on, and with growing pauses
// while its work fails. Of the keys that are ready at one moment the least comes first, so that the order in which they
// were added, which may be a map's, changes nothing.
type Queue[K comparable] struct {
	loop    *Loop
	compare func(a, b K) int
	work    func(K) error
	// Failed is told of a failure, with the count of those in a row; nil for nobody.
	Failed func(key K, err error, attempt int)
	// Pause is how long a key that is ready waits for a worker; nil for not at all.
	Pause func() time.Duration

	items   map[K]*item
	ready   []ready[K]
	stopped bool
}

type item struct {
	queued, inWork, again bool
	failures              int
	// due is when it is to be added; of several wishes the earliest stands.
	due time.Time
}

type ready[K comparable] struct {
	at  time.Time
	key K
}

// NewQueue makes a queue. compare orders the keys, and work is called with one key at a time.
func NewQueue[K comparable](loop *Loop, compare func(a, b K) int, work func(K) error) *Queue[K] {
	return &Queue[K]{loop: loop, compare: compare, work: work, items: map[K]*item{}}
}

func (q *Queue[K]) item(k K) *item {
	i := q.items[k]
	if i == nil {
		i = &item{}
		q.items[k] = i
	}
	return i
}

// Add has the key worked on as soon as everything that happens at this moment has been delivered.
func (q *Queue[K]) Add(k K) {
	if q.stopped {
		return
	}
	i := q.item(k)
	switch {
	case i.inWork:
		i.again = true
		return
	case i.queued:
		return
	}
	i.queued = true
	r := ready[K]{q.loop.now, k}
	if q.Pause != nil {
		r.at = r.at.Add(q.Pause())
	}
	q.push(r)
	q.loop.at(r.at, work, q.next)
}

// AddAfter adds the key after d. Of several waits for one key only the earliest is kept.
func (q *Queue[K]) AddAfter(k K, d time.Duration) {
	if q.stopped {
		return
	}
	if d <= 0 {
		q.Add(k)
		return
	}
	i := q.item(k)
	at := q.loop.now.Add(d)
	if !i.due.IsZero() && !at.Before(i.due) {
		return
	}
	i.due = at
	q.loop.At(at, func() {
		if i.due.Equal(at) {
			i.due = time.Time{}
			q.Add(k)
		}
	})
}

// Stop drops everything.
func (q *Queue[K]) Stop() {
	q.stopped = true
	q.items, q.ready = nil, nil
}

func (q *Queue[K]) next() {
	if q.stopped || len(q.ready) == 0 || q.ready[0].at.After(q.loop.now) {
		return
	}
	k := q.pop().key
	i := q.items[k]
	i.queued, i.inWork = false, true
	err := q.work(k)
	if q.stopped {
		return
	}
	i.inWork = false
	if err != nil {
		i.failures++
		if q.Failed != nil {
			q.Failed(k, err, i.failures)
		}
		pause := lastBackoff
		if i.failures <= 11 {
			pause = min(firstBackoff<<(i.failures-1), lastBackoff)
		}
		q.AddAfter(k, pause)
	} else {
		i.failures = 0
	}
	if i.again {
		i.again = false
		q.Add(k)
	}
	if !i.queued && i.due.IsZero() && i.failures == 0 {
		delete(q.items, k)
	}
}

func (q *Queue[K]) before(a, b *ready[K]) bool {
	if !a.at.Equal(b.at) {
		return a.at.Before(b.at)
	}
	return q.compare(a.key, b.key) < 0
}

func (q *Queue[K]) push(r ready[K]) {
	q.ready = append(q.ready, r)
	for i := len(q.ready) - 1; i > 0; {
		parent := (i - 1) / 2
		if !q.before(&q.ready[i], &q.ready[parent]) {
			return
		}
		q.ready[i], q.ready[parent] = q.ready[parent], q.ready[i]
		i = parent
	}
}

func (q *Queue[K]) pop() ready[K] {
	top, last := q.ready[0], len(q.ready)-1
	q.ready[0] = q.ready[last]
	q.ready = q.ready[:last]
	for i := 0; ; {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(q.ready); c++ {
			if q.before(&q.ready[c], &q.ready[least]) {
				least = c
			}
		}
		if least == i {
			return top
		}
		q.ready[i], q.ready[least] = q.ready[least], q.ready[i]
		i = least
	}
}
