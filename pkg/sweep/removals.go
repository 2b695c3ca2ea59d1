package sweep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/reap"
	"github.com/orphand/orphand/pkg/retention"
)

// Store keeps, outside of this process, what retention removed: what came back after its clean-up would otherwise run and be
// removed once more after every restart, and every restart would bring a backlog another share.
type Store interface {
	// Load reads every page; none when nothing was stored yet. ErrNoStore, wrapped, says that nothing can be stored here.
	Load(context.Context) (map[int][]byte, error)
	// Save writes one page in the place of what it was. reap.ErrNotLeading says that another process writes now.
	Save(ctx context.Context, page int, data []byte) error
}

// ErrNoStore says that what was removed is remembered in this process only, since it may not be stored or cannot be.
var ErrNoStore = errors.New("what was removed is remembered in memory only")

const (
	// saveSoon gathers what goes at one moment, and saveEvery is the pause between two writes: what a crash may forget.
	saveSoon  = time.Second
	saveEvery = 5 * time.Second
	// storeAgain is how often a store is tried that could not be used.
	storeAgain = time.Minute
)

// memory is what this process knows of what was removed, by itself and by those before it.
type memory struct {
	removals retention.Removals
	// recalled says that everything that others removed is known. Nothing is deleted before. It ends with leadership: another
	// may remove things meanwhile.
	recalled bool
	// term counts how often that ended, so that what was read before says nothing of what is true after.
	term    int
	waiting bool
	saved   facts.Instant
	// lacking says that there is nowhere to store anything, and trouble what is wrong; empty for nothing.
	lacking bool
	trouble string
}

// Trouble is why what was removed is remembered in this process only, or "".
func (s *Sweeper) Trouble() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c.Store == nil {
		return ErrNoStore.Error()
	}
	return s.memory.trouble
}

// known says whether everything that others removed is known, and has it read when not.
func (s *Sweeper) known() bool {
	if s.memory.recalled || s.c.Store == nil {
		return true
	}
	s.c.Queue.Add(Key{Memory: true})
	return false
}

// unsure says that others may have removed things since.
func (s *Sweeper) unsure() {
	s.memory.recalled = false
	s.memory.term++
	if s.c.Store != nil {
		s.c.Queue.Add(Key{Memory: true})
	}
}

// remember notes a removal, and has it stored a little later.
func (s *Sweeper) remember(r retention.Removal) {
	s.memory.removals.Add(r)
	if s.c.Store != nil {
		s.saveLater()
	}
}

// saveLater has what is not stored yet stored, at its time.
func (s *Sweeper) saveLater() {
	if !s.memory.waiting {
		s.memory.waiting = true
		s.c.Queue.AddAfter(Key{Memory: true}, max(saveSoon, s.memory.saved.Add(saveEvery).Sub(s.now())))
	}
}

// syncMemory reads what others removed when that is not known, and stores what this process did.
func (s *Sweeper) syncMemory(ctx context.Context) error {
	s.mu.Lock()
	term, recalled, store := s.memory.term, s.memory.recalled && !s.memory.lacking, s.c.Store
	s.memory.waiting = false
	s.mu.Unlock()
	if store == nil {
		return nil
	}
	if !recalled {
		pages, err := store.Load(ctx)
		if err != nil && !errors.Is(err, ErrNoStore) {
			return fmt.Errorf("reading what retention removed: %w", err)
		}
		if !s.recall(term, pages, err) {
			s.c.Queue.Add(Key{Memory: true})
			return nil
		}
	}
	return s.save(ctx)
}

// recall goes on from what others removed; false when that may have changed since it was read.
func (s *Sweeper) recall(term int, pages map[int][]byte, trouble error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.memory.term != term {
		return false
	}
	s.memory.trouble, s.memory.lacking = "", trouble != nil
	if trouble == nil {
		trouble = s.memory.removals.Resume(pages)
	} else {
		s.c.Queue.AddAfter(Key{Memory: true}, storeAgain)
	}
	if trouble != nil {
		s.memory.trouble = trouble.Error()
	}
	// Those before may have removed something until just now: who does not lead does not know.
	s.memory.recalled = s.c.Leads()
	backlogs := map[uint16]string{retention.BacklogOf(facts.KindPod): facts.KindPod}
	for _, k := range s.policy.KnownKinds() {
		backlogs[retention.BacklogOf(k.Name)] = k.Name
	}
	clear(s.due.spent)
	now := s.now()
	s.memory.removals.All(func(r retention.Removal) {
		s.cleanups.Restore(r)
		if kind := backlogs[r.Backlog]; kind != "" && lately(r.At, now) {
			s.due.spent[kind] = append(s.due.spent[kind], r.At)
		}
	})
	for kind, spent := range s.due.spent {
		s.due.base[kind] = s.totals[kind] + len(spent) // as many as there were when the first of these went
	}
	// Before the oldest are dropped: an object that came back is one for as long as it is there.
	for _, e := range s.objects {
		s.cleanups.Recreated(e.o, s.policy.Recreations())
	}
	s.all()
	return true
}

// save stores what is not stored yet, page by page. A page that grows meanwhile waits for the next time.
func (s *Sweeper) save(ctx context.Context) error {
	for done := map[int]bool{}; ; {
		s.mu.Lock()
		store := s.c.Store
		page, data, length, changed := s.memory.removals.Unstored()
		if s.memory.lacking || !s.memory.recalled || store == nil {
			changed = false
		}
		if changed && done[page] {
			s.saveLater()
			changed = false
		}
		done[page] = true
		s.mu.Unlock()
		if !changed {
			return nil
		}
		err := store.Save(ctx, page, data)
		if errors.Is(err, reap.ErrNotLeading) {
			return nil // kept, and stored if this process leads again
		}
		s.mu.Lock()
		s.memory.saved = s.now()
		switch {
		case err == nil:
			s.memory.removals.Stored(page, length)
		case errors.Is(err, ErrNoStore):
			s.memory.trouble, s.memory.lacking = err.Error(), true
			s.c.Queue.AddAfter(Key{Memory: true}, storeAgain)
			err = nil
		}
		s.mu.Unlock()
		if err != nil {
			return fmt.Errorf("storing what retention removed: %w", err)
		}
	}
}

// Flush stores what this process removed, before it ends.
func (s *Sweeper) Flush(ctx context.Context) error { return s.save(ctx) }
