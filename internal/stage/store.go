package stage

import (
	"bytes"
	"context"
	"maps"

	"github.com/orphand/orphand/pkg/reap"
	"github.com/orphand/orphand/pkg/sweep"
)

// Store keeps what retention removed. It outlives every process.
type Store struct{ pages map[int][]byte }

// NewStore makes an empty store.
func NewStore() *Store { return &Store{pages: map[int][]byte{}} }

// Of is the store as a process sees it that may write when leads says so.
func (s *Store) Of(leads func() bool) sweep.Store { return &storeOf{s, leads} }

type storeOf struct {
	*Store
	leads func() bool
}

// Load satisfies sweep.Store.
func (s *storeOf) Load(context.Context) (map[int][]byte, error) { return maps.Clone(s.pages), nil }

// Save satisfies sweep.Store.
func (s *storeOf) Save(_ context.Context, page int, data []byte) error {
	if !s.leads() {
		return reap.ErrNotLeading
	}
	s.pages[page] = bytes.Clone(data)
	return nil
}
