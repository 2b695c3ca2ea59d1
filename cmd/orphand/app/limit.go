package app

import (
	"context"

	"k8s.io/client-go/util/flowcontrol"

	"github.com/orphand/orphand/pkg/reap"
)

// limit is a rate limit that can be lifted: work in hand at a stop must not wait behind what is never asked any more, since
// the Lease is given back only after it.
type limit struct {
	flowcontrol.RateLimiter
	lifted context.Context
	lift   context.CancelFunc
}

func newLimit(qps float32, burst int) *limit {
	l := &limit{RateLimiter: flowcontrol.NewTokenBucketRateLimiter(qps, burst)}
	l.lifted, l.lift = context.WithCancel(context.Background())
	return l
}

// Wait waits for the request's turn, or until the limit is lifted. What the brakes on deletes let pass has had its turn: their
// limit holds for it, and not that on what it takes to follow the jobs that were deleted before.
func (l *limit) Wait(ctx context.Context) error {
	if reap.IsInTurn(ctx) {
		return ctx.Err()
	}
	turn, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.lifted, cancel)()
	err := l.RateLimiter.Wait(turn)
	if l.lifted.Err() != nil {
		return ctx.Err()
	}
	return err
}
