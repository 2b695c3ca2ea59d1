package app

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap/zapcore"
	testclock "k8s.io/utils/clock/testing"
)

// library is a logger as the client library has it, and what came of it.
func library() (logr.Logger, *logReader, *testclock.FakeClock) {
	clk := testclock.NewFakeClock(time.Unix(1e9, 0))
	log := newLogReader()
	return logr.New(newQuietSink(zapr.NewLogger(newLogger(log, zapcore.InfoLevel)).GetSink(), clk)), log, clk
}

func TestAnAPIServerThatIsAwayForHoursFillsNoLog(t *testing.T) {
	logger, log, clk := library()
	reflector := logger.WithName("reflector")
	const hours, every = 10, 30 * time.Second
	for range hours * int(time.Hour/every) {
		for _, kind := range []string{"*v1.Pod", "*v1.Node"} {
			reflector.Error(errors.New("connection refused"), "Failed to watch", "type", kind)
		}
		clk.Step(every)
	}
	if n, limit := len(log.all()), 2*(hours*6+1); n > limit || n < hours {
		t.Errorf("%d lines in %d hours, want at most %d", n, hours, limit)
	}
	last := log.all()[len(log.all())-1]
	if last.text("event") != "ClientTrouble" || last.text("level") != "warn" || last.text("reason") != "connection refused" ||
		last.text("logger") != "reflector" || last["repeated"] != float64(noiseInterval/every-1) {
		t.Errorf("%v", last)
	}
	checkAgainstTable(t, log.all())
}

func TestMessagesWithChangingTextAreBoundedToo(t *testing.T) {
	logger, log, clk := library()
	for i := range 1000 {
		logger.Info(fmt.Sprintf("attempt %d failed", i))
	}
	if n := len(log.all()); n != noiseBurst {
		t.Errorf("%d lines", n)
	}
	clk.Step(noiseInterval)
	logger.Info("something else")
	if n := len(log.all()); n != noiseBurst+1 {
		t.Errorf("%d lines after the pause", n)
	}
}

func TestTheLibrarysChatterIsLeftOut(t *testing.T) {
	logger, log, _ := library()
	logger.V(2).Info("Caches populated")
	if n := len(log.all()); n != 0 {
		t.Errorf("%v", log.all())
	}
}

// client-go's recorder of Events names what it could not write "event".
func TestAFieldOfTheLibraryHidesNoneOfTheLinesOwn(t *testing.T) {
	logger, log, _ := library()
	logger.WithValues("job", 7).Error(errors.New("forbidden"), "Server rejected event", "event", "&Event{}", "reason", "theirs", "type", "*v1.Pod")
	all := log.all()
	if len(all) != 1 {
		t.Fatalf("%v", all)
	}
	for key, want := range map[string]any{"event": "ClientTrouble", "reason": "forbidden", "clientEvent": "&Event{}", "clientReason": "theirs", "clientJob": 7.0, "type": "*v1.Pod"} {
		if all[0][key] != want {
			t.Errorf("%s is %v, want %v", key, all[0][key], want)
		}
	}
	checkAgainstTable(t, all)
}
