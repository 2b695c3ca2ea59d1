package sim

import (
	"slices"
	"time"
)

// Shrink makes the smallest history it can find that breaks the same invariant: it leaves out actions, then makes the world
// simpler, and keeps what still fails.
func Shrink(p Plan) Plan {
	r := Play(p, false)
	if len(r.Violations) == 0 {
		return p
	}
	broken := r.Violations[0].Invariant
	honest := r.Trusted
	fails := func(q Plan) bool {
		r := Play(q, false)
		return len(r.Violations) > 0 && r.Violations[0].Invariant == broken && (!honest || r.Trusted)
	}
	for {
		n := len(p.Actions)
		p = fewer(p, fails)
		p = simpler(p, fails)
		if len(p.Actions) == n {
			return p
		}
	}
}

// fewer leaves out actions, many at once first.
func fewer(p Plan, fails func(Plan) bool) Plan {
	for size := max(1, len(p.Actions)/2); ; size /= 2 {
		for from := 0; from < len(p.Actions); {
			q := p
			q.Actions = slices.Delete(slices.Clone(p.Actions), from, min(from+size, len(p.Actions)))
			if len(q.Actions) > 0 && fails(q) {
				p = q
			} else {
				from += size
			}
		}
		if size <= 1 {
			return p
		}
	}
}

// simpler takes away what makes the world uneven.
func simpler(p Plan, fails func(Plan) bool) Plan {
	try := func(change func(*Plan)) {
		q := p
		q.Machines = slices.Clone(p.Machines)
		q.Jobs = slices.Clone(p.Jobs)
		q.Actions = slices.Clone(p.Actions)
		change(&q)
		if fails(q) {
			p = q
		}
	}
	try(func(q *Plan) { q.Latency = Slowness{} })
	try(func(q *Plan) { q.Workers = Slowness{} })
	for _, k := range watched() {
		try(func(q *Plan) {
			lag := map[string]Slowness{}
			for o, s := range q.Lag {
				if o != k {
					lag[o] = s
				}
			}
			q.Lag = lag
		})
	}
	try(func(q *Plan) { q.APISkew = 0 })
	simplerEnforce(try)
	for i := range p.Machines {
		try(func(q *Plan) { q.Machines[i].Skew = 0 })
	}
	try(func(q *Plan) { q.LatePosts = 0 })
	try(func(q *Plan) { q.ShortRuns = 0 })
	try(func(q *Plan) { q.Unkillable = 0 })
	try(func(q *Plan) { q.StaleControllers = 0 })
	try(func(q *Plan) { q.Gated = 0 })
	try(func(q *Plan) { q.Kueue = false })
	try(func(q *Plan) { q.NodeFinalizers = false })
	try(func(q *Plan) { q.Start = 0 })
	for i := range p.Jobs {
		try(func(q *Plan) { q.Jobs[i].Jobs, q.Jobs[i].Pods = 1, 1 })
		try(func(q *Plan) { q.Jobs[i].Pods = 1 })
		try(func(q *Plan) { q.Jobs[i].Second, q.Jobs[i].Init, q.Jobs[i].Sidecar = false, false, false })
	}
	for n := 1; n < len(p.Machines); n++ {
		try(func(q *Plan) { q.Machines = q.Machines[:n] })
	}
	try(func(q *Plan) { q.End = q.Actions[len(q.Actions)-1].At + 5*time.Second })
	return p
}
