package stage

import (
	"cmp"
	"slices"
	"time"

	"github.com/orphand/orphand/pkg/facts"
)

// Stage is a clock, an API, and the daemons on it. It is not safe for concurrent use.
type Stage struct {
	Loop *Loop
	API  *API
}

// New makes an empty stage whose clock stands at start.
func New(start time.Time) *Stage {
	loop := NewLoop(start)
	return &Stage{Loop: loop, API: newAPI(loop)}
}

// Daemon puts a daemon on the stage. It does not run yet.
func (s *Stage) Daemon(c Config) *Daemon { return &Daemon{config: c, stage: s} }

func sortedKeys(m map[key]facts.Record) []key {
	list := make([]key, 0, len(m))
	for k := range m {
		list = append(list, k)
	}
	slices.SortFunc(list, func(a, b key) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
	return list
}

// named lists the kinds of that name, in whatever group.
func (a *API) named(kind string) []Kind {
	var list []Kind
	for k := range a.kinds {
		if k.Kind == kind {
			list = append(list, k)
		}
	}
	slices.SortFunc(list, func(a, b Kind) int { return cmp.Compare(a.Group, b.Group) })
	return list
}
