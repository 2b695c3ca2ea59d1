// Package queue runs work by key: each key at most once at a time, again when it changes meanwhile, and with growing
// delay when it fails.
package queue

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
)

// Options configure a Queue. The zero value of each field is usable.
type Options[K comparable] struct {
	// Name labels the queue's metrics; without it there are none.
	Name string
	// Clock drives delays and backoff alike; the real one by default.
	Clock clock.WithTicker
	// Workers is how many keys are worked on at a time; 1 by default.
	Workers int
	// Metrics receives depth, latency and the like, under client-go's names.
	Metrics workqueue.MetricsProvider
	// BackoffMin is the delay after a key's first failure, 50 ms by default; it doubles with each failure in a row up
	// to BackoffMax, 1 minute by default.
	BackoffMin, BackoffMax time.Duration
	// DrainTimeout is how long Run waits for keys in work once its context has ended; 10 s by default.
	DrainTimeout time.Duration
	// Later says of a key whether it may wait for those of which it does not say so; nil for none. It is asked whenever a key is
	// added, under the queue's own lock: it must not call the queue, nor wait for somebody who does.
	Later func(K) bool
	// OnFailure is told of every failure before the key is put back. It is called by several workers at once.
	OnFailure func(Failure[K])
}

// Failure is one failed attempt at a key.
type Failure[K comparable] struct {
	Key K
	Err error
	// Attempt counts failures in a row, from 1.
	Attempt int
	// Stack is the stack of a panic, nil after an ordinary error.
	Stack []byte
}

// Work is called with one key at a time. An error puts the key back with growing delay; nil forgets its failures. Its
// context ends DrainTimeout after Run's, so that a call to the API that has begun is not cut off.
type Work[K comparable] func(ctx context.Context, key K) error

// Queue is a set of keys to be worked on, now or later. Its methods are safe for concurrent use.
type Queue[K comparable] struct {
	options Options[K]
	keys    workqueue.TypedRateLimitingInterface[K]

	mu     sync.Mutex
	inWork map[K]time.Time
}

// New makes a queue. It holds goroutines until Run has returned or ShutDown was called.
func New[K comparable](options Options[K]) *Queue[K] {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	if options.Workers <= 0 {
		options.Workers = 1
	}
	if options.BackoffMin <= 0 {
		options.BackoffMin = 50 * time.Millisecond
	}
	if options.BackoffMax <= 0 {
		options.BackoffMax = time.Minute
	}
	if options.DrainTimeout <= 0 {
		options.DrainTimeout = 10 * time.Second
	}
	return &Queue[K]{
		options: options,
		keys: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[K](options.BackoffMin, options.BackoffMax),
			workqueue.TypedRateLimitingQueueConfig[K]{
				Name:            options.Name,
				MetricsProvider: options.Metrics,
				Clock:           options.Clock,
				DelayingQueue:   delaying(options),
			}),
		inWork: map[K]time.Time{},
	}
}

// delaying is the queue below the one with backoff; nil for client-go's own, where every key is like every other.
func delaying[K comparable](options Options[K]) workqueue.TypedDelayingInterface[K] {
	if options.Later == nil {
		return nil
	}
	return workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[K]{
		Name: options.Name, MetricsProvider: options.Metrics, Clock: options.Clock,
		Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[K]{
			Name: options.Name, MetricsProvider: options.Metrics, Clock: options.Clock, Queue: newOrder(options.Later)}),
	})
}

// Add asks for work on key as soon as a worker is free. A key in work is worked on once more afterwards.
func (q *Queue[K]) Add(key K) { q.keys.Add(key) }

// AddAfter asks for work on key after d. Of several waits for one key only the earliest is kept, so whoever works on a
// key asks anew for the next moment that matters.
func (q *Queue[K]) AddAfter(key K, d time.Duration) { q.keys.AddAfter(key, d) }

// Len is the number of keys that wait for a worker now; it does not count those that wait for their time.
func (q *Queue[K]) Len() int { return q.keys.Len() }

// LongestInWork is how long the oldest key in work has been at it, 0 when none is: a worker that hangs shows here,
// while an idle queue never looks stuck.
func (q *Queue[K]) LongestInWork() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.options.Clock.Now()
	var longest time.Duration
	for _, since := range q.inWork {
		longest = max(longest, now.Sub(since))
	}
	return longest
}

// ShutDown makes the queue refuse further keys and Run return. Only needed where Run is never called.
func (q *Queue[K]) ShutDown() { q.keys.ShutDown() }

// Run works on keys until ctx ends, then lets the keys in work finish and drops the rest. It returns nil once every
// worker has stopped, or an error that names how many keys were still in work after DrainTimeout. Call it once.
func (q *Queue[K]) Run(ctx context.Context, work Work[K]) error {
	workCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()

	var workers sync.WaitGroup
	for range q.options.Workers {
		workers.Go(func() {
			for q.next(ctx, workCtx, work) {
			}
		})
	}
	stopped := make(chan struct{})
	go func() {
		workers.Wait()
		close(stopped)
	}()

	select {
	case <-ctx.Done():
	case <-stopped:
		return nil
	}
	q.keys.ShutDown()
	timeout := q.options.Clock.NewTimer(q.options.DrainTimeout)
	defer timeout.Stop()
	select {
	case <-stopped:
		return nil
	case <-timeout.C():
		q.mu.Lock()
		defer q.mu.Unlock()
		return fmt.Errorf("%d key(s) still in work %v after the stop", len(q.inWork), q.options.DrainTimeout)
	}
}

// next works on one key and says whether there may be another.
func (q *Queue[K]) next(ctx, workCtx context.Context, work Work[K]) bool {
	key, shutdown := q.keys.Get()
	if shutdown {
		return false
	}
	defer q.keys.Done(key)
	if ctx.Err() != nil {
		return true // Not begun before the stop, so not begun at all: Get hands out the rest only to be emptied.
	}

	q.mu.Lock()
	q.inWork[key] = q.options.Clock.Now()
	q.mu.Unlock()
	stack, err := contain(workCtx, key, work)
	q.mu.Lock()
	delete(q.inWork, key)
	q.mu.Unlock()

	if err == nil {
		q.keys.Forget(key)
		return true
	}
	if q.options.OnFailure != nil {
		q.options.OnFailure(Failure[K]{Key: key, Err: err, Attempt: q.keys.NumRequeues(key) + 1, Stack: stack})
	}
	q.keys.AddRateLimited(key)
	return true
}

// contain turns a panic into an error: one key that meets a bug must not take the others down with it.
func contain[K comparable](ctx context.Context, key K, work Work[K]) (stack []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			stack, err = debug.Stack(), fmt.Errorf("panic: %v", p)
		}
	}()
	return nil, work(ctx, key)
}
