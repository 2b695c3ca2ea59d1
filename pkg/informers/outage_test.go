package informers

import (
	"context"
	"errors"
	"net"
	"net/url"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clocktesting "k8s.io/utils/clock/testing"
)

func refused() error {
	return &url.Error{Op: "Get", URL: "https://api", Err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}}
}

// However long the server was away, it is asked again within seconds.
func TestAServerThatWasAwayForLongIsFoundAgainWithinSeconds(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	back := clk.Now().Add(time.Hour)
	failures := 0
	asked := make(chan struct{})
	type answer struct {
		at  time.Time
		err error
	}
	answers := make(chan answer)
	go func() {
		at, err := whenBack(t.Context(), clk, func(err error) {
			if err != nil {
				failures++
			}
		}, func() (time.Time, error) {
			asked <- struct{}{}
			if clk.Now().Before(back) {
				return time.Time{}, refused()
			}
			return clk.Now(), nil
		})
		answers <- answer{at, err}
	}()
	for {
		select {
		case <-asked:
			continue
		case a := <-answers:
			if a.err != nil || a.at.Sub(back) > 5*time.Second {
				t.Errorf("answered %s after the server was back, with %v", a.at.Sub(back), a.err)
			}
			if failures < 100 {
				t.Errorf("%d failed attempts were told", failures)
			}
			return
		default:
			if clk.HasWaiters() {
				clk.Step(100 * time.Millisecond)
			}
		}
	}
}

func TestWhatAServerAnswersIsLeftToTheReflector(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	for _, answer := range []error{apierrors.NewResourceExpired("too old"), apierrors.NewTooManyRequests("slow down", 1), errors.New("cannot be decoded")} {
		times := 0
		_, err := whenBack(t.Context(), clk, func(error) {}, func() (bool, error) { times++; return false, answer })
		if times != 1 || !errors.Is(err, answer) {
			t.Errorf("%v: asked %d times, and %v was returned", answer, times, err)
		}
	}
}

func TestWhoeverWaitsForAServerStopsWhenAskedTo(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	ctx, cancel := context.WithCancel(t.Context())
	_, err := whenBack(ctx, clk, func(error) { cancel() }, func() (bool, error) { return false, refused() })
	if err == nil {
		t.Error("no error although nobody answered")
	}
}
