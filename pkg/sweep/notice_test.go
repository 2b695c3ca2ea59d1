package sweep_test

import (
	"testing"
	"time"

	"github.com/orphand/orphand/internal/stage"
	"github.com/orphand/orphand/pkg/retention"
	"github.com/orphand/orphand/pkg/signals"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const noticed = "rules: [{name: all, ttlAfterFinished: 2h, notice: 1h}]"

// notices are the Events that were made, by their objects and times, and the lines that say so.
func (s *scene) notices() (events []stage.Object, lines []signals.Event) {
	for _, e := range s.events {
		if e.Code == signals.RetentionAnnounced {
			lines = append(lines, e)
		}
	}
	return s.stage.API.List(stage.Event), lines
}

// announced fails unless so many notices were made, each told once.
func (s *scene) announced(want int) {
	s.t.Helper()
	if events, lines := s.notices(); len(events) != want || len(lines) != want {
		s.t.Errorf("%d Events and %d lines of notices, want %d", len(events), len(lines), want)
	}
}

// gone fails unless there was one DELETE, at an offset from the start.
func (s *scene) gone(at time.Duration) {
	s.t.Helper()
	calls := s.stage.API.Calls()
	if len(calls) != 1 || calls[0].At.Sub(start) != at {
		s.t.Errorf("want one DELETE at %v: %+v", at, calls)
	}
}

func TestADeletionIsAnnouncedOnceAndAsLongBeforeAsTheNoticeSays(t *testing.T) {
	s := open(t, noticed, 600, retention.DefaultShare())
	s.daemon.Start()
	s.job("a", 0)
	s.until(time.Hour - time.Second)
	s.announced(0)
	s.until(time.Hour)
	s.announced(1)
	s.daemon.Relist()
	s.until(3 * time.Hour)
	s.announced(1)
	s.gone(2 * time.Hour)
}

func TestWithoutANoticeNothingIsAnnounced(t *testing.T) {
	s := open(t, "rules: [{name: all, ttlAfterFinished: 2h}]", 600, retention.DefaultShare())
	s.daemon.Start()
	s.job("a", 0)
	s.until(3 * time.Hour)
	s.announced(0)
	s.gone(2 * time.Hour)
}

func TestWhatIsDueAlreadyGoesOnlyWhenItsNoticeHasStood(t *testing.T) {
	s := open(t, noticed, 600, retention.DefaultShare())
	s.job("a", -48*time.Hour)
	s.daemon.Start()
	s.until(59 * time.Minute)
	s.announced(1)
	if n := len(s.stage.API.Calls()); n != 0 {
		t.Errorf("%d DELETEs before the notice has stood for an hour", n)
	}
	s.until(2 * time.Hour)
	s.gone(time.Hour)
}

func TestARestartFindsTheNoticeThatWasMade(t *testing.T) {
	s := open(t, noticed, 600, retention.DefaultShare())
	s.job("a", -48*time.Hour)
	s.daemon.Start()
	s.until(30 * time.Minute)
	s.daemon.Restart()
	s.until(2 * time.Hour)
	s.announced(1)
	s.gone(time.Hour)
}

func TestANoticeThatCannotBeMadeHoldsTheObject(t *testing.T) {
	s := open(t, noticed, 600, retention.DefaultShare())
	s.daemon.Start()
	s.stage.API.Fail(stage.Fault{Verb: "create", Kind: "Event", Code: 403, Times: -1})
	s.job("a", 0)
	s.until(5 * time.Hour)
	if n := len(s.stage.API.Calls()); n != 0 {
		t.Fatalf("%d DELETEs without a word before", n)
	}
	s.stage.API.Lift(stage.Fault{Verb: "create", Kind: "Event"})
	s.until(7 * time.Hour)
	s.announced(1)
	if n := len(s.stage.API.Calls()); n != 1 {
		t.Errorf("%d DELETEs after it", n)
	}
}

func TestWhoAsksForLongerIsAnnouncedAgain(t *testing.T) {
	s := open(t, noticed, 600, retention.DefaultShare())
	s.daemon.Start()
	s.job("a", 0)
	s.until(90 * time.Minute)
	s.announced(1)
	longer := s.stage.API.Get(stage.Job, "team-a", "a").DeepCopyObject().(*unstructured.Unstructured)
	longer.SetAnnotations(map[string]string{retention.AnnotationTTL: "5h"})
	if err := s.stage.API.Put(longer, stage.Delivery{}); err != nil {
		t.Fatal(err)
	}
	s.until(4*time.Hour - time.Second)
	s.announced(1)
	s.until(6 * time.Hour)
	s.announced(2)
	s.gone(5 * time.Hour)
}

func TestNobodyWithoutTheLeaseAnnounces(t *testing.T) {
	s := open(t, noticed, 600, retention.DefaultShare())
	s.daemon.Start()
	s.daemon.Lead(false)
	s.job("a", 0)
	s.until(5 * time.Hour)
	s.announced(0)
}

func TestTheLastWordsNameTheObjectItsEndTheRuleAndItsManifest(t *testing.T) {
	s := open(t, "rules: [{name: all, ttlAfterFinished: 60s}]", 600, retention.DefaultShare())
	s.daemon.Start()
	s.job("a", 0)
	s.until(2 * time.Minute)
	var said []signals.Event
	for _, e := range s.events {
		if e.Code == signals.RetentionDeleted {
			said = append(said, e)
		}
	}
	if len(said) != 1 {
		t.Fatalf("%d lines", len(said))
	}
	got := map[string]any{}
	for _, a := range said[0].Fields() {
		got[a.Key] = a.Value
	}
	// The digest is that of {"annotations":null,"apiVersion":"batch/v1","kind":"Job","labels":null,"name":"a","namespace":"team-a","spec":null}.
	for key, want := range map[string]any{"kind": "Job", "object": "team-a/job/a", "uid": "a", "outcome": "succeeded", "finished": start, "rule": "all",
		"digest": "sha256:e5f52322bc7334fdec8f28504facb1617ccea673e96f2f731066fcbf06166775"} {
		if got[key] != want {
			t.Errorf("%s is %v, want %v", key, got[key], want)
		}
	}
}
