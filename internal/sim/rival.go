package sim

import (
	"time"

	"github.com/orphand/orphand/internal/stage"
	"github.com/orphand/orphand/pkg/facts"
)

// How long after its last renewal a leader knows that it leads no more, and how long another waits before it leads: the
// defaults of the flags renew-deadline and lease-duration.
const (
	renewDeadline = 10 * time.Second
	leaseDuration = 15 * time.Second
)

func newEnforcing(w *World) *enforcing {
	if !w.plan.Enforce.On {
		return nil
	}
	e := &enforcing{w: w, bystanders: map[place]*bystander{}}
	w.watchD[stage.TrainingRuntime] = roll(w.plan.Seed, "watch/"+facts.KindTrainingRuntime)
	if w.plan.Enforce.Rival {
		e.rival = w.stage.Daemon(stage.Config{
			Build: func(p stage.Parts) stage.Process {
				a, _ := newArmed(w, false, p, nil)
				return a
			},
			Prepare: func(q *stage.Queue[facts.JobKey]) {
				q.Pause = func() time.Duration {
					return roll(w.plan.Seed, "rival/"+w.at().String()).between(w.plan.Workers.From, w.plan.Workers.To)
				}
			},
		})
		w.after(w.plan.Start+time.Second, func() {
			e.rival.Start()
			e.rival.Lead(!w.daemon.Leads())
		})
	}
	return e
}

// pause stops orphand's process for a while, between two instructions: what it is about to do it does when it wakes. A pause
// that is longer than its lease ends its leadership, which it finds out when it asks the next time.
func (e *enforcing) pause(d time.Duration, dice *dice) {
	e.asleep = max(e.asleep, e.w.at()+d)
	if d > renewDeadline {
		e.loseLease(d, dice)
	}
}

// drowsy is d, or the rest of the pause where that is longer.
func (w *World) drowsy(d time.Duration) time.Duration {
	if e := w.enforcing; e != nil {
		return max(d, e.asleep-w.at())
	}
	return d
}

// late says that everything is to be put right by now, and that what orphand waits for keeps it from that.
func (w *World) late() bool { return w.enforcing != nil && !w.righting && w.at() >= w.plan.End }

// loseLease keeps orphand from renewing its lease for a while, after which it leads again.
func (e *enforcing) loseLease(d time.Duration, dice *dice) {
	w := e.w
	e.terms++
	term := e.terms
	in := func(d time.Duration, do func()) {
		w.after(d, func() {
			if term == e.terms && !w.righting {
				do()
			}
		})
	}
	in(renewDeadline, func() { w.lead(false) })
	in(leaseDuration, func() { e.rivalLeads(true) })
	in(max(d, leaseDuration)+dice.between(time.Second, 20*time.Second), func() {
		e.rivalLeads(false)
		w.lead(true)
	})
}

// lead has orphand lead, or stand by.
func (w *World) lead(leads bool) {
	if !w.daemon.Running() || w.daemon.Leads() == leads {
		return
	}
	what := "lease-lost"
	if leads {
		what = "lead"
	}
	w.film.daemon(what)
	w.daemon.Lead(leads)
}

// vacant: orphand runs no more.
func (e *enforcing) vacant() {
	e.terms++
	term := e.terms
	e.w.after(leaseDuration, func() {
		if term == e.terms && !e.w.daemon.Running() {
			e.rivalLeads(true)
		}
	})
}

// taken: orphand starts, and leads.
func (e *enforcing) taken() {
	e.terms++
	e.rivalLeads(false)
}

func (e *enforcing) rivalLeads(leads bool) {
	if e.rival != nil {
		e.rival.Lead(leads)
	}
}

// right ends every trouble with deleting.
func (e *enforcing) right() {
	if e == nil {
		return
	}
	e.asleep = 0
	e.taken()
	e.w.lead(true)
	p := &e.w.plan.Enforce
	p.Travel, p.Refused, p.Lost, p.Meddle = Slowness{}, 0, 0, 0
	e.dismissAll()
}
