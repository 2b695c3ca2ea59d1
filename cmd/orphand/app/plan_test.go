package app

import (
	"strings"
	"testing"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/retention"
	"github.com/orphand/orphand/pkg/sweep"
	"k8s.io/apimachinery/pkg/types"
)

func TestAPlanSumsUpWhatGoesByRuleAndKindAndWhatStaysByReason(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	job := retention.Kinds()[2]
	view := func(name string, d retention.Decision) sweep.View {
		o := &retention.Object{Of: job, Finished: true, Outcome: retention.Failed, FinishedAt: facts.At(now.Add(-time.Hour))}
		return sweep.View{Ref: facts.Ref{Namespace: "team-a", Kind: "Job", Name: name, UID: types.UID(name)}, Decision: d, Object: o}
	}
	goes := func(in time.Duration) retention.Decision {
		return retention.Decision{Verb: retention.Delete, Rule: "all", Due: facts.At(now.Add(in)), Source: retention.FromRule, Notice: time.Minute}
	}
	plan := planOf([]sweep.View{view("a", goes(-time.Minute)), view("b", goes(time.Hour)), view("c", goes(48*time.Hour)),
		view("d", retention.Decision{Verb: retention.Keep, Reason: retention.NotFinished}), view("e", retention.Decision{Verb: retention.Skip, Reason: retention.OwnedByLive, Owner: "JobSet"})},
		map[types.UID]int64{"a": 100, "b": 20, "c": 3}, false, now, now.Add(24*time.Hour))
	var out strings.Builder
	if err := plan.print(&out, true); err != nil {
		t.Fatal(err)
	}
	const want = `RULE   KIND   DUE NOW   BY 2026-01-02T00:00Z   LATER   BYTES
all    Job    1         1                      1       120

STAYS   BECAUSE                OBJECTS
KEEP    not finished           1
SKIP    owned by live JobSet   1

OBJECT         DUE                    RULE   WHY
team-a/job/a   2025-12-31T23:59:00Z   all    goes at 2025-12-31T23:59:00Z by rule "all" (rule); an Event on it announces that 1m before
team-a/job/b   2026-01-01T01:00:00Z   all    goes at 2026-01-01T01:00:00Z by rule "all" (rule); an Event on it announces that 1m before
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	if a := plan.Objects[0]; a.Outcome != "failed" || a.Finished == nil || !a.Finished.Equal(now.Add(-time.Hour)) {
		t.Errorf("%+v", a)
	}
	out.Reset()
	plan.DryRun = true
	if err := plan.print(&out, false); err != nil || !strings.HasPrefix(out.String(), "The policy is a dry run: nothing of this is deleted.\n") {
		t.Errorf("%v\n%s", err, out.String())
	}
}
