package daemon

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/orphand/orphand/pkg/signals"
)

// DefaultWait bounds a wait whose context has no deadline: long, since what is
// waited for may take a minute on a busy host, and who waits in vain has lost anyway.
const DefaultWait = 2 * time.Minute

// record is all that a daemon said, over all of its runs.
type record struct {
	mu     sync.Mutex
	events []Event
	// news is closed when there is more, or when a run has ended.
	news chan struct{}
	// ended is why nothing more will come, until the next run begins.
	ended error
	// listeners hear each line before anyone who awaits it.
	listeners []func(Event)
}

func newRecord() *record { return &record{news: make(chan struct{})} }

// read takes in the lines of one run until they end.
func (r *record) read(run int, lines io.Reader) {
	scanner := bufio.NewScanner(lines)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		e := parse(scanner.Text())
		r.mu.Lock()
		e.Run, e.Index = run, len(r.events)
		listeners := r.listeners
		r.mu.Unlock()
		for _, hear := range listeners {
			hear(e)
		}
		r.mu.Lock()
		r.events = append(r.events, e)
		r.tell()
		r.mu.Unlock()
	}
}

// tell wakes everyone who waits. Call it with mu held.
func (r *record) tell() {
	close(r.news)
	r.news = make(chan struct{})
}

func (r *record) end(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = why
	r.tell()
}

func (r *record) listen(hear func(Event)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listeners = append(r.listeners, hear)
}

func (r *record) all() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.events[:len(r.events):len(r.events)]
}

func (r *record) await(ctx context.Context, w Want) (Event, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, DefaultWait, fmt.Errorf("not said within %s", DefaultWait))
		defer cancel()
	}
	for next := w.after + 1; ; {
		r.mu.Lock()
		events, news, ended := r.events, r.news, r.ended
		r.mu.Unlock()
		for ; next < len(events); next++ {
			if w.Is(events[next]) {
				return events[next], nil
			}
		}
		if ended != nil {
			return Event{}, fmt.Errorf("waiting for orphand to say %s: %w%s", w.What, ended, ending(events))
		}
		select {
		case <-ctx.Done():
			return Event{}, fmt.Errorf("waiting for orphand to say %s: %w%s", w.What, context.Cause(ctx), ending(events))
		case <-news:
		}
	}
}

// ending is the end of the log, for a message.
func ending(events []Event) string {
	const lines = 25
	var b strings.Builder
	b.WriteString("\nthe end of its log:")
	for _, e := range events[max(0, len(events)-lines):] {
		b.WriteString("\n  ")
		b.WriteString(e.Line)
	}
	return b.String()
}

// Await returns the first line that meets the condition, of those that were said
// and those to come. It fails early when the process has ended.
func (d *Daemon) Await(ctx context.Context, w Want) (Event, error) { return d.said.await(ctx, w) }

// Events returns all lines so far.
func (d *Daemon) Events() []Event { return d.said.all() }

// Listen has a function called with each line to come, before anyone who awaits it.
func (d *Daemon) Listen(hear func(Event)) { d.said.listen(hear) }

// Verdict is what was said last of a pod; empty if nothing was.
func (d *Daemon) Verdict(pod types.UID) (verdict, reason string) {
	for _, e := range d.said.all() {
		if e.Code == signals.PodVerdictChanged && e.PodUID == pod {
			verdict, reason = e.Verdict, e.Reason
		}
	}
	return verdict, reason
}

// State is what was said last of a job; empty if nothing was.
func (d *Daemon) State(job types.UID) string {
	state := ""
	for _, e := range d.said.all() {
		if e.Code == signals.JobStateChanged && e.JobUID == job {
			state = e.State
		}
	}
	return state
}
