package sim

import "time"

// dice is a stream of random numbers. Every draw of the world comes from a stream that is named after what it is for, so
// that leaving out one action of a history disturbs the rest of it as little as possible.
type dice struct{ state uint64 }

// roll begins the stream of the given name.
func roll(seed uint64, name string) *dice {
	h := seed ^ 0xcbf29ce484222325
	for i := 0; i < len(name); i++ {
		h = (h ^ uint64(name[i])) * 0x100000001b3
	}
	d := &dice{state: h}
	d.next()
	return d
}

// next is splitmix64.
func (d *dice) next() uint64 {
	d.state += 0x9e3779b97f4a7c15
	z := d.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// upTo is a number below n.
func (d *dice) upTo(n int) int { return int(d.next() % uint64(n)) }

// chance is true with probability p.
func (d *dice) chance(p float64) bool { return float64(d.next()>>11)/(1<<53) < p }

// between is a duration from a to b, in whole milliseconds.
func (d *dice) between(a, b time.Duration) time.Duration {
	if b <= a {
		return a
	}
	return a + time.Duration(d.next()%uint64((b-a)/time.Millisecond))*time.Millisecond
}

// pick is one of the choices.
func pick[T any](d *dice, choices ...T) T { return choices[d.upTo(len(choices))] }
