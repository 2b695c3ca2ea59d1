package retention

import (
	"maps"
	"testing"
)

// store stores every page that has changed.
func store(r *Removals, pages map[int][]byte) (written int) {
	for {
		page, data, length, changed := r.Unstored()
		if !changed {
			return written
		}
		pages[page] = data
		r.Stored(page, length)
		written++
	}
}

func listed(r *Removals) []Removal {
	var list []Removal
	r.All(func(x Removal) { list = append(list, x) })
	return list
}

func TestPagesHoldTheNewestRemovalsInOrder(t *testing.T) {
	var r Removals
	pages := map[int][]byte{}
	const all = pageLength*pageCount + 5000
	for i := range all {
		r.Add(Removal{Name: uint64(i + 1), UID: uint32(i), Backlog: uint16(i % 3), Again: uint8(i % 7), At: second(i)})
		if i%500 == 0 {
			if n := store(&r, pages); n > 2 {
				t.Fatalf("%d pages written for 500 removals", n)
			}
		}
	}
	store(&r, pages)
	var next Removals
	if err := next.Resume(pages); err != nil {
		t.Fatal(err)
	}
	list := listed(&next)
	if least := pageLength * (pageCount - 1); len(list) < least {
		t.Fatalf("%d removals are remembered, at least %d wanted", len(list), least)
	}
	for i, x := range list {
		n := all - len(list) + i
		if want := (Removal{Name: uint64(n + 1), UID: uint32(n), Backlog: uint16(n % 3), Again: uint8(n % 7), At: second(n)}); x != want {
			t.Fatalf("removal %d is %+v, want %+v", i, x, want)
		}
	}
	size := 0
	for _, data := range pages {
		size += len(data)
	}
	if size > 1<<20 {
		t.Errorf("%d bytes, more than a ConfigMap may hold", size)
	}
	if _, _, _, changed := next.Unstored(); changed {
		t.Error("what was just read is to be stored again")
	}
}

func TestWhatIsNotStoredYetOutlivesWhatAnotherStored(t *testing.T) {
	pages := map[int][]byte{}
	var mine, others Removals
	mine.Add(Removal{Name: 1, At: second(1)})
	store(&mine, pages)
	mine.Add(Removal{Name: 2, At: second(2)})
	if err := others.Resume(pages); err != nil {
		t.Fatal(err)
	}
	others.Add(Removal{Name: 3, At: second(3)})
	store(&others, pages)

	if err := mine.Resume(pages); err != nil {
		t.Fatal(err)
	}
	store(&mine, pages)
	var next Removals
	if err := next.Resume(pages); err != nil {
		t.Fatal(err)
	}
	names := map[uint64]bool{}
	for _, x := range listed(&next) {
		names[x.Name] = true
	}
	if want := map[uint64]bool{1: true, 2: true, 3: true}; !maps.Equal(names, want) {
		t.Errorf("%v are remembered, want %v", names, want)
	}
}

func TestADamagedPageCostsOnlyItself(t *testing.T) {
	pages := map[int][]byte{}
	var r Removals
	for i := range pageLength + 1 {
		r.Add(Removal{Name: uint64(i + 1)})
	}
	store(&r, pages)
	for name, damage := range map[string]func(map[int][]byte){
		"cut off":         func(p map[int][]byte) { p[0] = p[0][:len(p[0])-3] },
		"of another form": func(p map[int][]byte) { p[0] = append([]byte("orm\x02"), p[0][4:]...) },
		"empty":           func(p map[int][]byte) { p[0] = nil },
		"elsewhere":       func(p map[int][]byte) { p[7], p[0] = p[0], nil },
	} {
		damaged := maps.Clone(pages)
		damage(damaged)
		var next Removals
		if err := next.Resume(damaged); err == nil {
			t.Errorf("%s: nobody says so", name)
		}
		if list := listed(&next); len(list) != 1 || list[0].Name != pageLength+1 {
			t.Errorf("%s: %d removals are left", name, len(list))
		}
	}
}
