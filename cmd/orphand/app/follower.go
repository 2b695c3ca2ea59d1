package app

import (
	"context"
	"time"
)

// follower is the part that watches the cluster and judges.
type follower interface {
	// Run follows until ctx ends, then finishes what it has begun.
	Run(ctx context.Context) error
	// Kinds is the state of every kind's watch, in a fixed order.
	Kinds() []kindStatus
	// Stuck says which work has hung for too long, or nil.
	Stuck() error
}

// kindStatus is the state of one kind's watch.
type kindStatus struct {
	Kind, State string
	Since       time.Time
	// Ready is whether orphand can do its work with the kind in this state, perhaps less well.
	Ready bool
	// Detail says what is amiss and what would cure it; empty when nothing is.
	Detail string
}
