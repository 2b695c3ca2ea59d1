package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/orphand/orphand/pkg/signals"
)

const (
	// reachPatience is how long requests may fail before the API counts as unreachable: a server that restarts or a
	// connection that is renewed is not worth a line.
	reachPatience = 3 * time.Second
	// reachMemory is how far apart two failures may be and still belong to one outage: longer than any pause that
	// client-go makes between attempts, so that rare failures beside healthy watches never add up to an outage.
	reachMemory = 2 * time.Minute
	// askPatience is how long the very first request may take.
	askPatience = 5 * time.Second

	unreachedCure = "check --kubeconfig and --context, and that this process can reach the server; it is tried again until it answers"
)

// errUnauthorized stands for the answer 401: the server is there, but for this process it might as well not be.
var errUnauthorized = errors.New("the server refuses the credentials (401 Unauthorized): check the kubeconfig's user or the service account")

// reach knows whether the Kubernetes API can be reached from how the requests fare that are made anyway: it costs no
// request of its own once the API has answered.
type reach struct {
	server string
	clock  clock.WithTicker
	sink   signals.Sink

	mu       sync.Mutex
	answered bool // at least once
	said     bool // APIUnreachable was said and has not ended
	// first and last failure since the last answer.
	since, last time.Time
	err         error
}

func newReach(server string, clk clock.WithTicker, sink signals.Sink) *reach {
	return &reach{server: server, clock: clk, sink: sink}
}

// transport notes how every request fares.
func (r *reach) transport(next http.RoundTripper) http.RoundTripper {
	return notingTransport{next: next, reach: r}
}

type notingTransport struct {
	next  http.RoundTripper
	reach *reach
}

// RoundTrip passes the request on.
func (t notingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	switch {
	case err == nil && response.StatusCode == http.StatusUnauthorized:
		t.reach.failure(errUnauthorized, reachPatience)
	case err == nil:
		t.reach.success()
	case request.Context().Err() == nil: // What was called off says nothing about the server.
		t.reach.failure(err, reachPatience)
	}
	return response, err
}

// WrappedRoundTripper lets client-go find the transport below.
func (t notingTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

func (r *reach) success() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.said {
		now := r.clock.Now()
		r.sink.Emit(signals.Event{Code: signals.APIUnreachable, Phase: signals.Ended, Time: now,
			Message: "The Kubernetes API answers again.",
			Attrs: []signals.Attr{{Key: "server", Value: r.server},
				{Key: "seconds", Value: now.Sub(r.since).Seconds()}}})
	}
	r.answered, r.said, r.err = true, false, nil
	r.since, r.last = time.Time{}, time.Time{}
}

// failure notes a failed request; the outage is said once it has lasted for patience.
func (r *reach) failure(err error, patience time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	if !r.said && now.Sub(r.last) > reachMemory {
		r.since = now
	}
	r.last, r.err = now, err
	if r.said || now.Sub(r.since) < patience {
		return
	}
	r.said = true
	r.sink.Emit(signals.Event{Code: signals.APIUnreachable, Phase: signals.Started, Time: now, Reason: err.Error(),
		Attrs: []signals.Attr{{Key: "server", Value: r.server}, {Key: "cure", Value: unreachedCure}}})
}

// problem says why the API counts as unreachable, or nil.
func (r *reach) problem() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.said:
		return fmt.Errorf("%s does not answer since %s: %w", r.server, r.since.UTC().Format(time.RFC3339), r.err)
	case !r.answered:
		return fmt.Errorf("%s has not been asked yet", r.server)
	default:
		return nil
	}
}

// await asks for the API's version until it gives any answer, and says at once when it does not. It returns early only
// with ctx's error.
func (r *reach) await(ctx context.Context, client *http.Client) error {
	const firstPause, lastPause = time.Second, 15 * time.Second
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := ask(ctx, client, r.server+"/version")
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		r.failure(err, 0)
		timer := r.clock.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C():
		}
	}
}

// ask makes one GET and accepts any answer but 401: 403 and 404 come from a server that is there.
func ask(ctx context.Context, client *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("no answer within %v", askPatience)
	case err != nil:
		return err
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body) // Lets the connection be used again.
	if response.StatusCode == http.StatusUnauthorized {
		return errUnauthorized
	}
	return nil
}
