package reap

import (
	"context"
	"sync"
	"time"
)

// BrakeOptions are the limits on deleting without being asked by a person.
type BrakeOptions struct {
	// MaxPerMinute is how many DELETEs may be sent in any 60 seconds; 0 or less: none at all.
	MaxPerMinute int
	// MaxUnreachable is the share of nodes, from 0 to 1, above which nothing is deleted.
	MaxUnreachable float64
	// Calm is how long the share must have stayed at or below the limit after it was above.
	Calm time.Duration
}

// DefaultBrakes are the limits when nobody says otherwise.
func DefaultBrakes() BrakeOptions {
	return BrakeOptions{MaxPerMinute: 600, MaxUnreachable: 0.3, Calm: 5 * time.Minute}
}

// Brakes hold deletes back. They are safe for concurrent use.
type Brakes struct {
	o BrakeOptions

	mu      sync.Mutex
	pace    pace
	weather weather
}

// NewBrakes makes brakes for a cluster whose weather is good until it is told otherwise.
func NewBrakes(o BrakeOptions) *Brakes {
	return &Brakes{o: o, weather: weather{readable: true}}
}

// Nodes takes note of how many nodes there are at now, how many of them cannot be heard, and whether Nodes may be read at
// all.
func (b *Brakes) Nodes(silent, total int, readable bool, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.weather.see(silent, total, readable, b.o, now)
}

type turnKey struct{}

// InTurn marks the calls of one DELETE that Take let pass: the reads before it, and itself. The brakes are their limit; behind
// a limit on all calls they would wait for what is not urgent.
func InTurn(ctx context.Context) context.Context { return context.WithValue(ctx, turnKey{}, true) }

// IsInTurn says whether InTurn marked the call.
func IsInTurn(ctx context.Context) bool { return ctx.Value(turnKey{}) != nil }

// Held says why nothing may be deleted at now, or "", and when to ask again.
func (b *Brakes) Held(now time.Time) (Reason, time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held(now)
}

// Take is Held, and when nothing holds, one DELETE is on its way.
func (b *Brakes) Take(now time.Time) (Reason, time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	reason, until := b.held(now)
	if reason == "" {
		b.pace.took(b.o.MaxPerMinute, now)
	}
	return reason, until
}

func (b *Brakes) held(now time.Time) (Reason, time.Time) {
	if reason, until := b.weather.holds(b.o, now); reason != "" {
		return reason, until
	}
	if until := b.pace.next(b.o.MaxPerMinute, now); until.After(now) {
		return TooManyDeletes, until
	}
	return "", time.Time{}
}

// pace is when the last DELETEs were sent.
type pace struct {
	sent []time.Time
}

const paceWindow = time.Minute

// next is when one more DELETE may be sent: now, or when the oldest of the last limit ones is a minute old.
func (p *pace) next(limit int, now time.Time) time.Time {
	if limit <= 0 {
		return now.Add(paceWindow)
	}
	if len(p.sent) < limit {
		return now
	}
	if until := p.sent[len(p.sent)-limit].Add(paceWindow); until.After(now) {
		return until
	}
	return now
}

// took remembers the last limit DELETEs: no earlier one matters.
func (p *pace) took(limit int, now time.Time) {
	p.sent = append(p.sent, now)
	if len(p.sent) > limit {
		p.sent = p.sent[len(p.sent)-limit:]
	}
}

// weather is how the cluster's nodes fare.
type weather struct {
	readable bool
	stormy   bool
	// calmSince is when the last storm ended; the zero time when there was none.
	calmSince time.Time
}

func (w *weather) see(silent, total int, readable bool, o BrakeOptions, now time.Time) {
	w.readable = readable
	stormy := total > 0 && float64(silent) > o.MaxUnreachable*float64(total)
	if w.stormy && !stormy {
		w.calmSince = now
	}
	w.stormy = stormy
}

// askAgain is how often an obstacle is looked at that has no end of its own.
const askAgain = 30 * time.Second

func (w *weather) holds(o BrakeOptions, now time.Time) (Reason, time.Time) {
	switch {
	case !w.readable:
		return NodesUnreadable, now.Add(askAgain)
	case w.stormy:
		return NodesUnreachable, now.Add(askAgain)
	case !w.calmSince.IsZero() && now.Before(w.calmSince.Add(o.Calm)):
		return NodesUnreachable, w.calmSince.Add(o.Calm)
	}
	return "", time.Time{}
}
