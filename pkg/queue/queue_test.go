package queue

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// journal records which key was worked on, and when, counted from the start of the test.
type journal struct {
	start time.Time
	mu    sync.Mutex
	lines []entry
}

type entry struct {
	key string
	at  time.Duration
}

func newJournal() *journal { return &journal{start: time.Now()} }

func (j *journal) note(key string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, entry{key, time.Since(j.start)})
	return len(j.lines)
}

func (j *journal) expect(t *testing.T, want ...entry) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	if !slices.Equal(j.lines, want) {
		t.Errorf("worked on %v, want %v", j.lines, want)
	}
}

// running starts Run and returns a function that stops it and gives what it returned.
func running[K comparable](q *Queue[K], work Work[K]) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error)
	go func() { result <- q.Run(ctx, work) }()
	return func() error {
		cancel()
		return <-result
	}
}

// Inside a synctest bubble time stands still until every goroutine waits, so the delays below are exact.

func TestAFailingKeyIsTriedAgainWithGrowingDelayUntilItSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		var failures []Failure[string]
		q := New(Options[string]{BackoffMin: time.Second, BackoffMax: 3 * time.Second,
			OnFailure: func(f Failure[string]) { failures = append(failures, f) }})
		stop := running(q, func(_ context.Context, key string) error {
			if n := j.note(key); n <= 4 {
				return errors.New("not yet")
			}
			return nil
		})
		q.Add("a")
		time.Sleep(time.Minute)
		j.expect(t, entry{"a", 0}, entry{"a", time.Second}, entry{"a", 3 * time.Second}, entry{"a", 6 * time.Second}, entry{"a", 9 * time.Second})
		if len(failures) != 4 || failures[3].Attempt != 4 || failures[3].Stack != nil {
			t.Errorf("failures %+v", failures)
		}

		q.Add("a") // Success has forgotten the failures.
		synctest.Wait()
		if n := q.keys.NumRequeues("a"); n != 0 {
			t.Errorf("%d failures remembered after success", n)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestAPanicIsContainedReportedWithItsStackAndTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		var failures []Failure[string]
		q := New(Options[string]{BackoffMin: time.Second,
			OnFailure: func(f Failure[string]) { failures = append(failures, f) }})
		stop := running(q, func(_ context.Context, key string) error {
			if j.note(key) == 1 {
				panic("boom")
			}
			return nil
		})
		q.Add("a")
		time.Sleep(10 * time.Second)
		j.expect(t, entry{"a", 0}, entry{"a", time.Second})
		if len(failures) != 1 || failures[0].Err.Error() != "panic: boom" || !strings.Contains(string(failures[0].Stack), "queue_test.go") {
			t.Errorf("failures %+v", failures)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestTheEarlierOfTwoWaitsForAKeyWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		q := New(Options[string]{})
		stop := running(q, func(_ context.Context, key string) error { j.note(key); return nil })
		q.AddAfter("a", 40*time.Second)
		q.AddAfter("a", 5*time.Second)
		q.AddAfter("a", 20*time.Second)
		q.AddAfter("b", 0)
		time.Sleep(2 * time.Minute)
		j.expect(t, entry{"b", 0}, entry{"a", 5 * time.Second})
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestAKeyIsNeverWorkedOnTwiceAtATimeAndChangesMeanwhileAreNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		q := New(Options[string]{Workers: 4})
		stop := running(q, func(_ context.Context, key string) error {
			j.note(key)
			time.Sleep(10 * time.Second)
			return nil
		})
		q.Add("a")
		synctest.Wait()
		for range 100 {
			q.Add("a")
		}
		q.Add("b")
		time.Sleep(time.Minute)
		j.expect(t, entry{"a", 0}, entry{"b", 0}, entry{"a", 10 * time.Second})
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestAStopFinishesWhatIsInWorkAndBeginsNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		q := New(Options[string]{DrainTimeout: time.Minute})
		finished := false
		stop := running(q, func(ctx context.Context, key string) error {
			j.note(key)
			select {
			case <-ctx.Done():
			case <-time.After(30 * time.Second):
				finished = true
			}
			return nil
		})
		q.Add("a")
		q.Add("b")
		synctest.Wait()
		if err := stop(); err != nil {
			t.Error(err)
		}
		j.expect(t, entry{"a", 0})
		if !finished {
			t.Error("the work in hand was cut off")
		}
	})
}

func TestAStopGivesUpOnWorkThatDoesNotEndAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options[string]{DrainTimeout: 7 * time.Second})
		stop := running(q, func(ctx context.Context, _ string) error {
			<-ctx.Done() // Ends only because Run cancels its context on giving up.
			return ctx.Err()
		})
		q.Add("a")
		synctest.Wait()
		before := time.Now()
		err := stop()
		if err == nil || err.Error() != "1 key(s) still in work 7s after the stop" {
			t.Errorf("got %v", err)
		}
		if waited := time.Since(before); waited != 7*time.Second {
			t.Errorf("waited %v", waited)
		}
	})
}

func TestOnlyWorkThatHangsLooksStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options[string]{Workers: 2})
		stop := running(q, func(_ context.Context, key string) error {
			if key == "slow" {
				time.Sleep(time.Minute)
			}
			return nil
		})
		time.Sleep(time.Hour)
		if d := q.LongestInWork(); d != 0 {
			t.Errorf("idle, but %v", d)
		}
		q.Add("slow")
		time.Sleep(20 * time.Second)
		q.Add("quick")
		synctest.Wait()
		if d := q.LongestInWork(); d != 20*time.Second {
			t.Errorf("got %v", d)
		}
		time.Sleep(time.Hour)
		if d := q.LongestInWork(); d != 0 {
			t.Errorf("idle again, but %v", d)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
