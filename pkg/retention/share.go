package retention

import (
	"cmp"
	"hash/fnv"
	"math"
	"slices"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	"k8s.io/apimachinery/pkg/types"
)

// Share bounds what a policy may remove of a kind's backlog: of the objects that were due before the policy came. A
// policy that says something other than what was meant is noticed before everything is gone.
type Share struct {
	// PerHour is the part of a kind's objects, from 0 to 1, that may go within an hour.
	PerHour float64
	// Floor is how many may go within an hour in any case: a part of a few is none.
	Floor int
}

// DefaultShare lets a large backlog go in hours rather than minutes.
func DefaultShare() Share { return Share{PerHour: 0.25, Floor: 100} }

// Room says whether one more object of a kind may go now. total is how many objects there were when the first of those
// spent went, and spent when those of the backlog did, in order. Where there is no room it says when there will be.
func (s Share) Room(total int, spent []facts.Instant, now facts.Instant) (bool, facts.Instant) {
	allowed := max(s.Floor, int(math.Ceil(s.PerHour*float64(total))))
	if allowed <= 0 {
		return false, later(now, time.Hour)
	}
	first := now.Add(-time.Hour)
	begin, _ := slices.BinarySearchFunc(spent, first, func(a, b facts.Instant) int { return cmp.Compare(a, b+1) })
	within := spent[begin:]
	if len(within) < allowed {
		return true, now
	}
	return false, within[len(within)-allowed].Add(time.Hour + 1)
}

// Backlogged says whether something that is due at a time was so well before the policy came that nobody waits for it to
// go now.
func Backlogged(due, since facts.Instant) bool { return since.Sub(due) > 10*time.Minute }

// Jitter spreads what is due at one moment over a span: always the same part of it for one UID.
func Jitter(uid types.UID, span time.Duration) time.Duration {
	if span <= 0 {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(uid))
	return time.Duration(h.Sum64() % uint64(span))
}

// Turn is something to be done at a time.
type Turn struct {
	UID types.UID
	Due facts.Instant
}

// Before says whose turn comes first: what has been due for longer, and of a tie the lower UID.
func (t Turn) Before(o Turn) bool {
	return cmp.Or(cmp.Compare(t.Due, o.Due), cmp.Compare(t.UID, o.UID)) < 0
}
