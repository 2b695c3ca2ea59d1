package app

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/orphand/orphand/pkg/signals"
)

func TestTheLinesOfAMassFailureAreBoundedAndWhatIsLeftOutIsCounted(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	written := map[string]int{}
	counted := make(chan int, 1)
	f := newFlood(signals.SinkFunc(func(e signals.Event) {
		written[e.Name()]++
		if e.Code == signals.LinesLeftOut {
			counted <- e.Attrs[1].Value.(int)
		}
	}), clk)
	const pods = 10_000
	for range pods {
		f.Emit(signals.Event{Code: signals.PodVerdictChanged})
		f.Emit(signals.Event{Finding: signals.Overlap, Phase: signals.Started})
		f.Emit(signals.Event{Code: signals.JobStateChanged})
	}
	if written["PodVerdictChanged"] != floodBurst || written["Overlap"] != pods || written["JobStateChanged"] != pods {
		t.Errorf("%v", written)
	}
	clk.Step(floodPause)
	if n := <-counted; n != pods-floodBurst {
		t.Errorf("%d lines left out, want %d", n, pods-floodBurst)
	}
	for range pods {
		f.Emit(signals.Event{Code: signals.PodVerdictChanged})
	}
	if want := floodBurst + int(floodPause.Seconds()*floodRate); written["PodVerdictChanged"] != want {
		t.Errorf("%d lines, want %d: the burst, and five seconds at the rate", written["PodVerdictChanged"], want)
	}
}
