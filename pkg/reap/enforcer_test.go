package reap_test

import (
	"context"
	"testing"
	"time"

	"github.com/orphand/orphand/internal/stage"
	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/reap"
)

// meanwhile is an API whose DELETEs are under way while something else is done.
type meanwhile struct {
	reap.API
	do func()
}

func (m *meanwhile) Delete(ctx context.Context, o reap.Order) error {
	if m.do != nil {
		m.do()
	}
	return m.API.Delete(ctx, o)
}

func newEnforcer(w *world, api reap.API) *reap.Enforcer {
	return reap.NewEnforcer(reap.EnforcerConfig{API: api, Clock: w.Loop, Deleter: reap.NewDeleter(api, w.Loop, nil, nil),
		Brakes: reap.NewBrakes(reap.DefaultBrakes()), Mode: func(string) (reap.Reason, bool) { return "", true }})
}

// An object may be two jobs' for a moment: of the one that stands in for a JobSet, and of the one that the JobSet turns out to
// be of. A DELETE that the one waits for must not have the other ask again without a pause.
func TestADeleteThatIsUnderWayIsWaitedFor(t *testing.T) {
	w := newWorld(t)
	w.put(family("team-a", "llm", "1", 0)...)
	api := &meanwhile{API: w.API.Client()}
	e := newEnforcer(w, api)
	js := stage.Object(w.API.Get(stage.JobSet, "team-a", "llm"))
	record, err := stage.Record(js)
	if err != nil {
		t.Fatal(err)
	}
	left := func(uid string) facts.Leftovers {
		return facts.Leftovers{Job: facts.JobKey{Namespace: "team-a", Name: "llm", UID: typesUID(uid)}, Objects: []*facts.Object{record.(*facts.Object)}}
	}
	w.API.Fail(stage.Fault{Verb: "delete", Code: 500, Times: 1})
	if again := e.Reap(t.Context(), left("T1")); !again.After(w.Loop.Now()) {
		t.Errorf("after a refusal it asks at %s, now is %s", again, w.Loop.Now())
	}
	w.Loop.RunUntil(w.Loop.Now().Add(10 * time.Second))
	asked := 0
	api.do = func() {
		asked++
		w.Loop.RunUntil(w.Loop.Now().Add(5 * time.Second))
		if again := e.Reap(t.Context(), left("jobset:J1")); !again.After(w.Loop.Now()) {
			t.Errorf("while a DELETE is under way, the other job asks at %s, now is %s", again, w.Loop.Now())
		}
	}
	e.Reap(t.Context(), left("T1"))
	if asked != 1 {
		t.Errorf("%d DELETEs reached the API server", asked)
	}
	w.wantDeleted("J1", "J1")
}

// The end of a TrainJob in another namespace is a change of another job: nobody offers this one again for it.
func TestAnObjectWhoseOwnerLivesInAnotherNamespaceIsAskedAboutAgain(t *testing.T) {
	w := newWorld(t)
	w.put(family("team-a", "llm", "1", 0)...)
	w.put(trainJob("team-b", "llm", "T1"))
	e := newEnforcer(w, w.API.Client())
	record, err := stage.Record(stage.Object(w.API.Get(stage.JobSet, "team-a", "llm")))
	if err != nil {
		t.Fatal(err)
	}
	left := facts.Leftovers{Job: facts.JobKey{Namespace: "team-a", Name: "llm", UID: "T1"}, Objects: []*facts.Object{record.(*facts.Object)}, Elsewhere: true}
	if again := e.Reap(t.Context(), left); !again.After(w.Loop.Now()) {
		t.Errorf("it asks at %s, now is %s", again, w.Loop.Now())
	}
	w.wantDeleted()
}

// removedKinds counts what was deleted and seen gone.
type removedKinds map[string]int

func (removedKinds) Deleted(_, _ string)      {}
func (r removedKinds) Removed(kind, _ string) { r[kind]++ }
func (removedKinds) Refused(string)           {}

// The watch may tell of an object's end, and the job be forgotten with it, before the DELETE is answered.
func TestAJobThatEndsBeforeItsDeleteIsAnsweredIsCounted(t *testing.T) {
	w := newWorld(t)
	w.put(family("team-a", "llm", "1", 0)...)
	record, err := stage.Record(w.API.Get(stage.TrainingRuntime, "team-a", "llm"))
	if err != nil {
		t.Fatal(err)
	}
	left := facts.Leftovers{Job: facts.JobKey{Namespace: "team-a", Name: "llm", UID: "T1"}, Objects: []*facts.Object{record.(*facts.Object)}, Whole: true}
	counts := removedKinds{}
	api := &meanwhile{API: w.API.Client()}
	e := reap.NewEnforcer(reap.EnforcerConfig{API: api, Clock: w.Loop, Deleter: reap.NewDeleter(api, w.Loop, nil, counts),
		Brakes: reap.NewBrakes(reap.DefaultBrakes()), Mode: func(string) (reap.Reason, bool) { return "", true }})
	api.do = func() { e.Forget(left.Job) }
	e.Reap(t.Context(), left)
	w.wantDeleted("R1")
	if counts["TrainingRuntime"] != 1 {
		t.Errorf("counted %v", counts)
	}
}
