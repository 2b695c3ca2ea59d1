package retention

import (
	"time"

	"github.com/orphand/orphand/pkg/facts"
	"k8s.io/apimachinery/pkg/types"
)

// Cleanups remembers what was cleaned up, to notice what comes back. The zero value remembers nothing. It is not safe for
// concurrent use.
type Cleanups struct {
	last  map[name]cleanup
	again map[types.UID]int
}

type name struct {
	group, kind, namespace, name string
}

type cleanup struct {
	uid types.UID
	at  facts.Instant
	// count is how often what was cleaned up had come back already.
	count int
}

func nameOf(o *Object) name { return name{o.Group, o.Object.Kind, o.Namespace, o.Name} }

// Deleted notes that orphand deleted an object.
func (m *Cleanups) Deleted(o *Object, now facts.Instant) {
	if m.last == nil {
		m.last, m.again = map[name]cleanup{}, map[types.UID]int{}
	}
	m.last[nameOf(o)] = cleanup{uid: o.UID, at: now, count: m.again[o.UID]}
}

// Recreated counts how often, lately, the object's name came back after its clean-up, this time included: 0 for an object
// that is no re-creation. An object stays what it is once that is known.
func (m *Cleanups) Recreated(o *Object, r Recreations) int {
	if n := m.again[o.UID]; n > 0 {
		return n
	}
	c, known := m.last[nameOf(o)]
	if !known || c.uid == o.UID || o.Created > later(c.at, r.Within) {
		return 0
	}
	m.again[o.UID] = c.count + 1
	return c.count + 1
}

// Forget drops what can no longer matter: clean-ups older than within, and the counts of objects that are not there.
func (m *Cleanups) Forget(within time.Duration, there func(types.UID) bool, now facts.Instant) {
	recent := map[types.UID]bool{}
	for n, c := range m.last {
		if later(c.at, within) < now {
			delete(m.last, n)
		} else {
			recent[c.uid] = true
		}
	}
	for uid := range m.again {
		if !recent[uid] && !there(uid) {
			delete(m.again, uid)
		}
	}
}
