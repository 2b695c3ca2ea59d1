package stage

import (
	"time"

	"k8s.io/utils/clock"
)

// Loop is a simulated clock and the functions that wait for their time. Of those due at one moment, what watches were late
// to show comes first, then what happens, then work: a key of the queue is worked on when everything that happens at that
// moment has been delivered.
type Loop struct {
	now   time.Time
	seq   uint64
	queue []entry
}

var _ clock.PassiveClock = (*Loop)(nil)

type lane uint8

const (
	shows lane = iota
	events
	work
)

type entry struct {
	at   int64
	lane lane
	seq  uint64
	do   func()
}

func (e *entry) before(o *entry) bool {
	switch {
	case e.at != o.at:
		return e.at < o.at
	case e.lane != o.lane:
		return e.lane < o.lane
	}
	return e.seq < o.seq
}

// NewLoop makes a loop whose clock stands at start.
func NewLoop(start time.Time) *Loop { return &Loop{now: start} }

// Now is the simulated time.
func (l *Loop) Now() time.Time { return l.now }

// Since is the simulated time since t.
func (l *Loop) Since(t time.Time) time.Duration { return l.now.Sub(t) }

// At has do called at t, or at once in the loop when t has passed. Those of one moment are called in the order of their
// calls of At.
func (l *Loop) At(t time.Time, do func()) { l.at(t, events, do) }

// After has do called d from now.
func (l *Loop) After(d time.Duration, do func()) { l.at(l.now.Add(d), events, do) }

func (l *Loop) at(t time.Time, in lane, do func()) {
	if t.Before(l.now) {
		t = l.now
	}
	l.seq++
	l.queue = append(l.queue, entry{at: t.UnixNano(), lane: in, seq: l.seq, do: do})
	l.up(len(l.queue) - 1)
}

// Next is when the next function is due; false when none waits.
func (l *Loop) Next() (time.Time, bool) {
	if len(l.queue) == 0 {
		return time.Time{}, false
	}
	return time.Unix(0, l.queue[0].at).UTC(), true
}

// Step moves the clock to the next function and calls it. It is false when none waits.
func (l *Loop) Step() bool {
	if len(l.queue) == 0 {
		return false
	}
	e := l.queue[0]
	last := len(l.queue) - 1
	l.queue[0] = l.queue[last]
	l.queue[last] = entry{}
	l.queue = l.queue[:last]
	l.down(0)
	if now := l.now.UnixNano(); e.at > now {
		l.now = l.now.Add(time.Duration(e.at - now))
	}
	e.do()
	return true
}

// RunUntil calls everything that is due up to and including t, then moves the clock to t. A function may call it for a
// later time: others happen while it waits.
func (l *Loop) RunUntil(t time.Time) {
	end := t.UnixNano()
	for len(l.queue) > 0 && l.queue[0].at <= end {
		l.Step()
	}
	if t.After(l.now) {
		l.now = t
	}
}

func (l *Loop) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !l.queue[i].before(&l.queue[parent]) {
			return
		}
		l.queue[i], l.queue[parent] = l.queue[parent], l.queue[i]
		i = parent
	}
}

func (l *Loop) down(i int) {
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(l.queue); c++ {
			if l.queue[c].before(&l.queue[least]) {
				least = c
			}
		}
		if least == i {
			return
		}
		l.queue[i], l.queue[least] = l.queue[least], l.queue[i]
		i = least
	}
}
