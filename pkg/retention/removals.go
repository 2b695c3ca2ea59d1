package retention

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	"k8s.io/apimachinery/pkg/types"
)

// Removal is what a later process must know of an object or a pod that retention deleted. The identities are digests: of
// two names that share one, the second is left alone.
type Removal struct {
	// Name identifies group, kind, namespace and name; 0 for a pod, whose return nobody looks for.
	Name uint64
	// UID identifies the instance.
	UID uint32
	// Backlog identifies the kind of whose backlog it was; 0 for what was due after the policy came.
	Backlog uint16
	// Again is how often the name had come back already.
	Again uint8
	// At is when the DELETE was accepted, in whole seconds once it was stored.
	At facts.Instant
}

// removalSize is the length of a stored Removal.
const removalSize = 8 + 4 + 2 + 1 + 4

// A page is stored as a whole, so that what is written does not grow with what is remembered; all of them together fit into
// one ConfigMap of 1 MiB.
const (
	pageLength = 1024
	pageCount  = 32
)

// pageMagic begins a stored page, and its last byte is the version of what follows: the page's turn in 8 bytes, then its
// removals.
const pageMagic = "orm\x01"

// Removals are the newest removals, in pages that are filled and then used again in turn. The zero value is empty. It is not
// safe for concurrent use.
type Removals struct {
	pages [pageCount][]Removal
	// turn counts the pages that were begun; turn modulo pageCount is the one that is being filled.
	turn uint64
	// turns are when each page was begun.
	turns [pageCount]uint64
	// stored is how much of each page is stored as it is.
	stored [pageCount]int
}

// Add puts one removal in. The oldest page goes when there is no room.
func (r *Removals) Add(removal Removal) {
	at := r.turn % pageCount
	if len(r.pages[at]) >= pageLength {
		r.turn++
		at = r.turn % pageCount
		r.pages[at], r.stored[at], r.turns[at] = nil, -1, r.turn // not even its emptiness is stored
	}
	r.pages[at] = append(r.pages[at], removal)
}

// Unstored is a page that has changed since it was stored, as it is to be stored, and how many removals it holds; false when
// there is none. The oldest comes first.
func (r *Removals) Unstored() (page int, data []byte, length int, changed bool) {
	for i := range uint64(pageCount) {
		at := int((r.turn + 1 + i) % pageCount)
		if len(r.pages[at]) == r.stored[at] {
			continue
		}
		data := binary.BigEndian.AppendUint64([]byte(pageMagic), r.turns[at])
		for _, x := range r.pages[at] {
			data = binary.BigEndian.AppendUint64(data, x.Name)
			data = binary.BigEndian.AppendUint32(data, x.UID)
			data = binary.BigEndian.AppendUint16(data, x.Backlog)
			data = append(data, x.Again)
			data = binary.BigEndian.AppendUint32(data, uint32(x.At.Time().Unix()))
		}
		return at, data, len(r.pages[at]), true
	}
	return 0, nil, 0, false
}

// Stored takes note that a page was stored when it held so many removals.
func (r *Removals) Stored(page, length int) { r.stored[page] = length }

// All calls f with every removal, the oldest first.
func (r *Removals) All(f func(Removal)) {
	for i := range uint64(pageCount) {
		for _, x := range r.pages[(r.turn+1+i)%pageCount] {
			f(x)
		}
	}
}

// Resume goes on from the pages that are stored, and keeps what this process has removed and not stored yet. The error names
// the pages that nobody can read; the others count all the same.
func (r *Removals) Resume(stored map[int][]byte) error {
	var mine []Removal
	for i := range uint64(pageCount) {
		if at := (r.turn + 1 + i) % pageCount; len(r.pages[at]) > max(0, r.stored[at]) {
			mine = append(mine, r.pages[at][max(0, r.stored[at]):]...)
		}
	}
	*r = Removals{}
	var damaged []int
	for page, data := range stored {
		if page < 0 || page >= pageCount || !r.read(page, data) {
			damaged = append(damaged, page)
		}
	}
	for _, x := range mine {
		r.Add(x)
	}
	if len(damaged) > 0 {
		return fmt.Errorf("%d pages of what retention removed cannot be read", len(damaged))
	}
	return nil
}

func (r *Removals) read(page int, data []byte) bool {
	const header = len(pageMagic) + 8
	if len(data) < header || string(data[:len(pageMagic)]) != pageMagic || (len(data)-header)%removalSize != 0 {
		return false
	}
	turn := binary.BigEndian.Uint64(data[len(pageMagic):])
	if turn%pageCount != uint64(page) {
		return false
	}
	for data = data[header:]; len(data) > 0; data = data[removalSize:] {
		r.pages[page] = append(r.pages[page], Removal{
			Name: binary.BigEndian.Uint64(data), UID: binary.BigEndian.Uint32(data[8:]), Backlog: binary.BigEndian.Uint16(data[12:]),
			Again: data[14], At: facts.At(time.Unix(int64(binary.BigEndian.Uint32(data[15:])), 0)),
		})
	}
	r.turns[page], r.stored[page] = turn, len(r.pages[page])
	r.turn = max(r.turn, turn)
	return true
}

// nameOf identifies an object's group, kind, namespace and name.
func nameOf(o *Object) uint64 {
	h := fnv.New64a()
	for _, part := range []string{o.Group, o.Object.Kind, o.Namespace, o.Name} {
		_, _ = h.Write([]byte(part))
		_, _ = h.Write([]byte{0})
	}
	return max(h.Sum64(), 1)
}

func instanceOf(uid types.UID) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(uid))
	return h.Sum32()
}

// BacklogOf identifies a kind of which there is a backlog: for Removal.
func BacklogOf(kind string) uint16 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(kind))
	sum := h.Sum32()
	return max(uint16(sum^sum>>16), 1)
}

func saturated(count int) uint8 { return uint8(min(count, math.MaxUint8)) }
