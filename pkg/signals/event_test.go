package signals

import (
	"slices"
	"testing"
)

func TestAFindingsLineCarriesTheFindingsCodeAndSeverity(t *testing.T) {
	e := Event{Finding: Overlap, Phase: Started, Namespace: "team-a", Job: "llm", UID: "t1", Pod: "p", PodUID: "u"}
	if e.Name() != "Overlap" || e.Level() != Error || e.Text() == "" {
		t.Errorf("got %s %s %q", e.Name(), e.Level(), e.Text())
	}
	want := []Attr{{"finding", "Overlap"}, {"phase", "started"}, {"job", "team-a/llm"}, {"uid", "t1"}, {"pod", "p"}, {"podUID", "u"}}
	if got := e.Fields(); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

func TestWhateverEndedIsOnlyInformation(t *testing.T) {
	for _, e := range []Event{
		{Finding: Overlap, Phase: Ended},
		{Code: APIUnreachable, Phase: Ended},
	} {
		if e.Level() != Info {
			t.Errorf("%s: %s", e.Name(), e.Level())
		}
	}
}

func TestFieldsKeepTheirOrderAndFurtherOnesComeLast(t *testing.T) {
	e := Event{Code: PodVerdictChanged, Verdict: "Gone", Reason: "KubeletConfirmed", From: "Alive/Terminating",
		Attrs: []Attr{{"grade", "weak"}}}
	var keys []string
	for _, f := range e.Fields() {
		keys = append(keys, f.Key)
	}
	if want := []string{"from", "verdict", "reason", "grade"}; !slices.Equal(keys, want) {
		t.Errorf("got %v, want %v", keys, want)
	}
}

func TestAnEventsOwnMessageWinsOverTheTable(t *testing.T) {
	if got := (Event{Code: Stopping, Message: "bye"}).Text(); got != "bye" {
		t.Errorf("got %q", got)
	}
	if got := (Event{Code: "Unknown"}).Level(); got != Info {
		t.Errorf("got %q", got)
	}
}
