package sweep

import (
	"container/heap"
	"slices"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/retention"
	"k8s.io/apimachinery/pkg/types"
)

// release holds what is due until the brakes let it go: first what became due just now, then the backlog, each with the
// longest due first.
type release struct {
	fresh turns
	// waiting is the backlog by kind, spent when those of it that went within the hour did, and base how many objects there
	// were when the first of these went.
	waiting map[string]*turns
	spent   map[string][]facts.Instant
	base    map[string]int
	// out are those that went and that no worker has taken up.
	out map[types.UID]bool
}

// outAtMost is how many may be out at a time. The queue has one line: behind all that the brakes let pass at one moment,
// whatever else happens would wait.
const outAtMost = 16

// taken notes that a worker has come to an object or a pod, so that the next may go.
func (s *Sweeper) taken(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.due.out[uid] {
		delete(s.due.out, uid)
		s.c.Queue.Add(Key{Release: true})
	}
}

// turn is one deletion that waits for its turn.
type turn struct {
	retention.Turn
	pod bool
}

type turns []turn

func (t turns) Len() int           { return len(t) }
func (t turns) Less(i, j int) bool { return t[i].Before(t[j].Turn) }
func (t turns) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }

// Push satisfies heap.Interface.
func (t *turns) Push(x any) { *t = append(*t, x.(turn)) }

// Pop satisfies heap.Interface.
func (t *turns) Pop() any {
	last := len(*t) - 1
	x := (*t)[last]
	*t = (*t)[:last]
	return x
}

// enter puts what is due in line.
func (s *Sweeper) enter(uid types.UID, due facts.Instant, backlog string, pod bool) {
	t := turn{retention.Turn{UID: uid, Due: due}, pod}
	if backlog == "" {
		heap.Push(&s.due.fresh, t)
	} else {
		if s.due.waiting[backlog] == nil {
			s.due.waiting[backlog] = &turns{}
		}
		heap.Push(s.due.waiting[backlog], t)
	}
	s.c.Queue.Add(Key{Release: true})
}

// let has what is due deleted, one after the other, for as long as nothing holds it back.
func (s *Sweeper) let() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.begun {
		return
	}
	now := s.now()
	for len(s.due.out) < outAtMost {
		line, kind, until := s.next(now)
		if line == nil {
			if until.Known() {
				s.c.Queue.AddAfter(Key{Release: true}, until.Sub(now))
			}
			return
		}
		if !s.waits((*line)[0]) {
			heap.Pop(line)
			continue
		}
		if reason, until := s.c.Brakes.Take(s.c.Clock.Now()); reason != "" {
			s.c.Queue.AddAfter(Key{Release: true}, max(until.Sub(s.c.Clock.Now()), time.Millisecond))
			return
		}
		t := heap.Pop(line).(turn)
		if kind != "" {
			s.due.spent[kind] = append(s.due.spent[kind], now)
		}
		if t.pod {
			s.pods[t.UID].queued, s.pods[t.UID].released = false, true
		} else {
			s.objects[t.UID].queued, s.objects[t.UID].released = false, true
		}
		s.due.out[t.UID] = true
		s.c.Queue.Add(Key{UID: t.UID, Pod: t.pod})
	}
}

// waits says whether a turn is still wanted.
func (s *Sweeper) waits(t turn) bool {
	if t.pod {
		p := s.pods[t.UID]
		return p != nil && p.queued
	}
	e := s.objects[t.UID]
	return e != nil && e.queued
}

// next is the line whose first is to go next, and the kind where that is a backlog; nil when none may go, with when one
// may.
func (s *Sweeper) next(now facts.Instant) (*turns, string, facts.Instant) {
	if len(s.due.fresh) > 0 {
		return &s.due.fresh, "", 0
	}
	var line *turns
	var of string
	var until facts.Instant
	for _, kind := range s.backlogs() {
		waiting := s.due.waiting[kind]
		for len(*waiting) > 0 && !s.waits((*waiting)[0]) {
			heap.Pop(waiting)
		}
		if len(*waiting) == 0 {
			continue
		}
		spent := s.due.spent[kind]
		for len(spent) > 0 && !lately(spent[0], now) {
			spent = spent[1:]
		}
		if s.due.spent[kind] = spent; len(spent) == 0 {
			s.due.base[kind] = s.totals[kind]
		}
		room, at := s.c.Share.Room(s.due.base[kind], spent, now)
		switch {
		case !room:
			// A little later than there is room, so that a share is not spent at one moment of every hour.
			at = at.Add(retention.Jitter((*waiting)[0].UID, time.Minute))
			if !until.Known() || at < until {
				until = at
			}
			s.braked(kind, len(*waiting), at)
		case line == nil || (*waiting)[0].Before((*line)[0].Turn):
			line, of = waiting, kind
		}
	}
	return line, of, until
}

// lately says whether something was within an hour of now. What is further ahead is of a clock that was wrong: a backlog would
// wait until that time has come.
func lately(at, now facts.Instant) bool {
	return now.Sub(at) <= time.Hour && at.Sub(now) <= time.Hour
}

func (s *Sweeper) backlogs() []string {
	var kinds []string
	for kind := range s.due.waiting {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	return kinds
}
