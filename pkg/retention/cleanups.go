package retention

import (
	"time"

	"github.com/orphand/orphand/pkg/facts"
	"k8s.io/apimachinery/pkg/types"
)

// Cleanups remembers what was cleaned up, to notice what comes back. The zero value remembers nothing. It is not safe for
// concurrent use.
type Cleanups struct {
	last  map[uint64]Removal
	again map[types.UID]int
}

// Deleted notes that orphand deleted an object whose name had come back so often already, and returns what a later process
// must know of it.
func (m *Cleanups) Deleted(o *Object, came int, now facts.Instant) Removal {
	r := Removal{Name: nameOf(o), UID: instanceOf(o.UID), At: now, Again: saturated(came)}
	m.Restore(r)
	return r
}

// Restore notes what an earlier process deleted. Of one name the last counts.
func (m *Cleanups) Restore(r Removal) {
	if m.last == nil {
		m.last, m.again = map[uint64]Removal{}, map[types.UID]int{}
	}
	if r.Name != 0 && r.At >= m.last[r.Name].At {
		m.last[r.Name] = r
	}
}

// Recreated counts how often, lately, the object's name came back after its clean-up, this time included: 0 for an object
// that is no re-creation. An object stays what it is once that is known.
func (m *Cleanups) Recreated(o *Object, r Recreations) int {
	if n := m.again[o.UID]; n > 0 {
		return n
	}
	if len(m.last) == 0 {
		return 0
	}
	c, known := m.last[nameOf(o)]
	if !known || c.UID == instanceOf(o.UID) || o.Created > later(c.At, r.Within) {
		return 0
	}
	m.again[o.UID] = int(c.Again) + 1
	return m.again[o.UID]
}

// Forget drops what can no longer matter: clean-ups older than within, and the counts of objects that are not there.
func (m *Cleanups) Forget(within time.Duration, there func(types.UID) bool, now facts.Instant) {
	recent := map[uint32]bool{}
	for n, c := range m.last {
		if later(c.At, within) < now {
			delete(m.last, n)
		} else {
			recent[c.UID] = true
		}
	}
	for uid := range m.again {
		if !recent[instanceOf(uid)] && !there(uid) {
			delete(m.again, uid)
		}
	}
}
