package app

import (
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/orphand/orphand/pkg/signals"
)

// When a rack fails, thousands of pods change their verdict at once. Their lines are written as fast as floodRate allows
// after a burst of floodBurst, and the rest is counted. What jobs come to and what a person should know is always written:
// nobody has to count lines to know it.
const (
	floodBurst = 1000
	floodRate  = 100 // lines per second
	// floodPause is how long after the first line that was left out their number is written.
	floodPause = 5 * time.Second
)

// flood bounds the lines of PodVerdictChanged.
type flood struct {
	next  signals.Sink
	clock clock.WithTicker

	mu      sync.Mutex
	tokens  float64
	at      time.Time
	leftOut int
}

func newFlood(next signals.Sink, clk clock.WithTicker) *flood {
	return &flood{next: next, clock: clk, tokens: floodBurst, at: clk.Now()}
}

// Emit passes the event on, or counts it.
func (f *flood) Emit(e signals.Event) {
	if e.Code != signals.PodVerdictChanged || f.admit() {
		f.next.Emit(e)
	}
}

func (f *flood) admit() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock.Now()
	f.tokens = min(floodBurst, f.tokens+now.Sub(f.at).Seconds()*floodRate)
	f.at = now
	if f.tokens >= 1 {
		f.tokens--
		return true
	}
	if f.leftOut++; f.leftOut == 1 {
		timer := f.clock.NewTimer(floodPause)
		go func() {
			<-timer.C()
			f.tell()
		}()
	}
	return false
}

// tell writes how many lines were left out.
func (f *flood) tell() {
	f.mu.Lock()
	leftOut := f.leftOut
	f.leftOut = 0
	f.mu.Unlock()
	f.next.Emit(signals.Event{Code: signals.LinesLeftOut, Attrs: []signals.Attr{
		{Key: "of", Value: string(signals.PodVerdictChanged)}, {Key: "leftOut", Value: leftOut}}})
}
