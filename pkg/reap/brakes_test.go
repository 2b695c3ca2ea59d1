package reap_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/orphand/orphand/pkg/reap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func TestNeverMoreDeletesInAnyMinuteThanAllowed(t *testing.T) {
	const limit = 7
	b := reap.NewBrakes(reap.BrakeOptions{MaxPerMinute: limit, MaxUnreachable: 0.3})
	dice := rand.New(rand.NewPCG(1, 2))
	var sent []time.Time
	for now := noon; now.Before(noon.Add(time.Hour)); now = now.Add(time.Duration(dice.IntN(4000)) * time.Millisecond) {
		reason, until := b.Take(now)
		if reason == "" {
			sent = append(sent, now)
			continue
		}
		if !until.After(now) {
			t.Fatalf("held at %v until %v", now, until)
		}
		if r, _ := b.Held(until); r != "" {
			t.Fatalf("held until %v, and then %s", until, r)
		}
	}
	for i := limit; i < len(sent); i++ {
		if gap := sent[i].Sub(sent[i-limit]); gap < time.Minute {
			t.Fatalf("%d deletes within %v", limit+1, gap)
		}
	}
	if len(sent) < 60*limit-2*limit {
		t.Errorf("only %d deletes in an hour", len(sent))
	}
}

func TestNothingIsDeletedInAStormNorRightAfterIt(t *testing.T) {
	b := reap.NewBrakes(reap.BrakeOptions{MaxPerMinute: 10, MaxUnreachable: 0.3, Calm: 5 * time.Minute})
	for _, step := range []struct {
		after         time.Duration
		silent, total int
		readable      bool
		want          reap.Reason
	}{
		{0, 0, 0, true, ""},
		{time.Second, 3, 10, true, ""}, // at the limit is not above it
		{2 * time.Second, 4, 10, true, reap.NodesUnreachable},
		{time.Hour, 4, 10, true, reap.NodesUnreachable},
		{time.Hour + time.Second, 0, 10, true, reap.NodesUnreachable},
		{time.Hour + 5*time.Minute, 0, 10, true, reap.NodesUnreachable},
		{time.Hour + 5*time.Minute + time.Second, 0, 10, true, ""},
		{2 * time.Hour, 0, 10, false, reap.NodesUnreadable},
		{2*time.Hour + time.Second, 1, 1, true, reap.NodesUnreachable},
	} {
		now := noon.Add(step.after)
		b.Nodes(step.silent, step.total, step.readable, now)
		if got, until := b.Held(now); got != step.want || got != "" && !until.After(now) {
			t.Errorf("after %v with %d of %d silent: %q until %v, want %q", step.after, step.silent, step.total, got, until, step.want)
		}
	}
	if reason, _ := reap.NewBrakes(reap.BrakeOptions{}).Take(noon); reason != reap.TooManyDeletes {
		t.Errorf("with a limit of 0: %q", reason)
	}
}

func TestPausesGrowAndHonourWhatTheServerAsksFor(t *testing.T) {
	last := time.Duration(0)
	for n := 1; n < 12; n++ {
		d := reap.Pause(n, nil)
		if d < last || d > time.Minute || n < 7 && d != time.Second<<(n-1) {
			t.Errorf("after %d failures: %v", n, d)
		}
		last = d
	}
	if d := reap.Pause(1, apierrors.NewTooManyRequests("slowly", 90)); d != 90*time.Second {
		t.Errorf("the server asked for 90 s and got %v", d)
	}
}
