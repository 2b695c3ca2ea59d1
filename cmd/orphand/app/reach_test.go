package app

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"

	"github.com/orphand/orphand/pkg/signals"
)

// reaching is a reach whose requests fare as the test says, under a clock that the test moves.
func reaching(t *testing.T) (r *reach, clk *testclock.FakeClock, request func(status int, err error), said func() []signals.Phase) {
	t.Helper()
	clk = testclock.NewFakeClock(time.Unix(1e9, 0))
	var phases []signals.Phase
	r = newReach("https://api", clk, signals.SinkFunc(func(e signals.Event) { phases = append(phases, e.Phase) }))
	request = func(status int, err error) {
		transport := r.transport(transportFunc(func(*http.Request) (*http.Response, error) {
			if err != nil {
				return nil, err
			}
			return &http.Response{StatusCode: status, Body: http.NoBody}, nil
		}))
		_, _ = transport.RoundTrip(httptest.NewRequest(http.MethodGet, "https://api/x", nil))
	}
	return r, clk, request, func() []signals.Phase { return phases }
}

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestAnOutageIsSaidOnceAndItsEndOnce(t *testing.T) {
	r, clk, request, said := reaching(t)
	request(200, nil)
	for range 1000 {
		request(0, errors.New("connection refused"))
		clk.Step(20 * time.Second)
	}
	if r.problem() == nil {
		t.Error("no problem during the outage")
	}
	request(503, nil) // Any answer comes from a server that is there.
	request(200, nil)
	if got := said(); len(got) != 2 || got[0] != signals.Started || got[1] != signals.Ended {
		t.Errorf("said %v", got)
	}
	if err := r.problem(); err != nil {
		t.Error(err)
	}
}

func TestABlipIsNotWorthALine(t *testing.T) {
	r, clk, request, said := reaching(t)
	request(200, nil)
	request(0, errors.New("EOF"))
	clk.Step(2 * time.Second)
	request(0, errors.New("EOF"))
	request(200, nil)
	if got := said(); len(got) != 0 || r.problem() != nil {
		t.Errorf("said %v, problem %v", got, r.problem())
	}
}

func TestRareFailuresBesideHealthyWatchesNeverAddUpToAnOutage(t *testing.T) {
	r, clk, request, said := reaching(t)
	request(200, nil)
	for range 10 {
		request(0, errors.New("EOF"))
		clk.Step(10 * time.Minute)
	}
	if got := said(); len(got) != 0 || r.problem() != nil {
		t.Errorf("said %v, problem %v", got, r.problem())
	}
}

func TestARequestThatWasCalledOffSaysNothingOfTheServer(t *testing.T) {
	r, clk, request, said := reaching(t)
	request(200, nil)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	transport := r.transport(transportFunc(func(*http.Request) (*http.Response, error) { return nil, context.Canceled }))
	for range 3 {
		_, _ = transport.RoundTrip(httptest.NewRequest(http.MethodGet, "https://api/x", nil).WithContext(ctx))
		clk.Step(reachPatience)
	}
	if got := said(); len(got) != 0 || r.problem() != nil {
		t.Errorf("said %v, problem %v", got, r.problem())
	}
}

func TestCredentialsThatAreRefusedForAWhileCountAsAnOutage(t *testing.T) {
	r, clk, request, said := reaching(t)
	request(200, nil)
	request(401, nil)
	clk.Step(reachPatience)
	request(401, nil)
	if got := said(); len(got) != 1 || !errors.Is(r.problem(), errUnauthorized) {
		t.Errorf("said %v, problem %v", got, r.problem())
	}
}
