package reap_test

import (
	"testing"
	"time"

	"github.com/orphand/orphand/internal/stage"
	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/reap"
)

// counted counts refusals by reason.
type counted map[string]int

func (c counted) Deleted(_, _ string)   {}
func (c counted) Removed(_, _ string)   {}
func (c counted) Refused(reason string) { c[reason]++ }

// left is what the engine would offer of a job whose TrainJob is gone and whose garbage nobody collects.
func left(name, gen string, pods ...*facts.Pod) facts.Leftovers {
	return facts.Leftovers{Job: facts.JobKey{Namespace: "team", Name: name, UID: typesUID("T" + gen)}, Pods: pods, Whole: true}
}

func TestARefusalIsCountedAndToldOnceForAsLongAsItStays(t *testing.T) {
	w := newWorld(t)
	p := pod("team", "llm-node-0-0-x1", "P10", "node-0", "llm", "1")
	w.put(node("node-0", "True"), p)
	counts, told := counted{}, 0
	brakes := reap.NewBrakes(reap.DefaultBrakes())
	permitted := false
	e := reap.NewEnforcer(reap.EnforcerConfig{API: w.API.Client(), Clock: w.Loop, Recorder: counts, Brakes: brakes,
		Deleter: reap.NewDeleter(w.API.Client(), w.Loop, nil, counts),
		Mode:    func(string) (reap.Reason, bool) { return reap.NotPermitted, permitted },
		Changed: func(facts.JobKey) { told++ }})
	offer := func(want reap.Reason, changes int) {
		t.Helper()
		e.Reap(t.Context(), left("llm", "1", facts.FromPod(p)))
		refused := e.Refusals(left("llm", "1").Job)
		switch {
		case want == "" && len(refused) != 0, want != "" && (len(refused) != 1 || refused[0].Reason != want):
			t.Errorf("refused: %+v, want %s", refused, want)
		case told != changes:
			t.Errorf("told %d times of a change, want %d", told, changes)
		}
		w.Loop.RunUntil(w.Loop.Now().Add(time.Minute))
	}
	offer(reap.NotPermitted, 1)
	since := e.Refusals(left("llm", "1").Job)[0].Since
	offer(reap.NotPermitted, 1)
	if r := e.Refusals(left("llm", "1").Job)[0]; !r.Since.Equal(since) || r.Words() != "the permission to delete is missing" {
		t.Errorf("refused since %v, want %v: %s", r.Since, since, r.Words())
	}
	permitted = true
	e.Nodes(1, 2, true)
	offer(reap.NodesUnreachable, 2)
	e.Nodes(0, 2, true)
	offer(reap.NodesUnreachable, 2) // not calm yet
	w.Loop.RunUntil(w.Loop.Now().Add(5 * time.Minute))
	w.API.Fail(stage.Fault{Verb: "delete", Kind: "Pod", Code: 403, Message: `admission webhook "x" denied the request: not now`, Times: 1})
	offer(reap.Pausing, 3)
	offer("", 4)
	w.wantDeleted("P10", "P10")
	if counts["NotPermitted"] != 1 || counts["NodesUnreachable"] != 1 || counts["Pausing"] != 1 || len(counts) != 3 {
		t.Errorf("counted %v", counts)
	}
}
