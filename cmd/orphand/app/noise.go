package app

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// noiseInterval is how often one and the same trouble is written.
	noiseInterval = 10 * time.Minute
	// noiseBurst is how many different troubles are written per noiseInterval. Messages that carry changing text would
	// otherwise never count as repeated.
	noiseBurst = 20
)

// noise remembers what was written lately.
type noise struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	written map[string]*repeated
}

type repeated struct {
	at      time.Time
	leftOut int
}

func newNoise(clk clock.PassiveClock) *noise {
	return &noise{clock: clk, written: map[string]*repeated{}}
}

// admit says whether a message of this kind may be written now, and how many were left out since the last one.
func (n *noise) admit(kind string) (leftOut int, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.clock.Now()
	if last, found := n.written[kind]; found {
		if now.Sub(last.at) < noiseInterval {
			last.leftOut++
			return 0, false
		}
		leftOut = last.leftOut
		last.at, last.leftOut = now, 0
		return leftOut, true
	}
	if len(n.written) >= noiseBurst {
		n.forgetBefore(now.Add(-noiseInterval))
	}
	if len(n.written) >= noiseBurst {
		return 0, false
	}
	n.written[kind] = &repeated{at: now}
	return 0, true
}

func (n *noise) forgetBefore(t time.Time) {
	for kind, last := range n.written {
		if !last.at.After(t) {
			delete(n.written, kind)
		}
	}
}
