package sim

import (
	"strconv"
	"time"
)

// controller is a level-triggered controller: after any change it looks at everything, a while later.
type controller struct {
	w    *World
	dice *dice
	// from and to bound how long after a change it looks.
	from, to time.Duration
	look     func()
	// stalled is until when it does nothing.
	stalled time.Duration
	waiting bool
}

func (w *World) controller(name string, from, to time.Duration, look func()) *controller {
	c := &controller{w: w, dice: roll(w.plan.Seed, "controller/"+name), from: from, to: to, look: look}
	w.controllers = append(w.controllers, c)
	return c
}

func (c *controller) poke() {
	if c.waiting {
		return
	}
	c.waiting = true
	d := c.dice.between(c.from, c.to)
	if left := c.stalled - c.w.at(); left > d {
		d = left
	}
	c.w.after(d, func() {
		c.waiting = false
		if c.w.at() < c.stalled {
			c.poke()
			return
		}
		c.look()
	})
}

// stall keeps the controller from looking for a while.
func (c *controller) stall(d time.Duration) { c.stalled = max(c.stalled, c.w.at()+d) }

func suffix(d *dice) string {
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	b := make([]byte, 5)
	for i := range b {
		b[i] = letters[d.upTo(len(letters))]
	}
	return string(b)
}

func itoa(n int) string { return strconv.Itoa(n) }
