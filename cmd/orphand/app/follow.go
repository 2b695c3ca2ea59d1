package app

import "context"

// newFollower is wired to the engine once that exists.
func newFollower(parts) (follower, error) { return idle{}, nil }

// idle follows nothing.
type idle struct{}

func (idle) Run(ctx context.Context) error { <-ctx.Done(); return nil }
func (idle) Kinds() []kindStatus           { return nil }
func (idle) Stuck() error                  { return nil }
