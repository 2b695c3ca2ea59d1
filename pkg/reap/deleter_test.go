package reap_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/reap"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"
)

// hasty is an API whose watch tells of an end before the DELETE is answered, as a real one may.
type hasty struct {
	reap.API
	tell   func()
	answer error
}

func (h *hasty) Delete(context.Context, reap.Order) error {
	h.tell()
	return h.answer
}

type removals struct{ removed []string }

func (*removals) Deleted(_, _ string)          {}
func (*removals) Refused(string)               {}
func (r *removals) Removed(kind, cause string) { r.removed = append(r.removed, kind+" "+cause) }

func TestAnObjectThatIsSeenGoneBeforeTheAnswerIsCountedOnce(t *testing.T) {
	for name, c := range map[string]struct {
		answer error
		want   []string
	}{
		"accepted":   {nil, []string{"Job retention"}},
		"unanswered": {errors.New("the connection broke"), nil},
	} {
		counts := &removals{}
		api := &hasty{answer: c.answer}
		d := reap.NewDeleter(api, testclock.NewFakePassiveClock(noon), nil, counts)
		api.tell = func() { d.Gone("B1") }
		order, err := reap.NewOrder(reap.Target{
			Kind: reap.Kind{Kind: facts.KindJob, Resource: schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}},
			Ref:  facts.Ref{Namespace: "team-a", Kind: facts.KindJob, Name: "b", UID: "B1"}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Send(t.Context(), order, reap.CauseRetention); err != nil {
			t.Fatal(err)
		}
		d.Gone("B1") // another watch tells of it too
		if !slices.Equal(counts.removed, c.want) {
			t.Errorf("%s: counted %v, want %v", name, counts.removed, c.want)
		}
		if left := d.Asked(); len(left) != 0 {
			t.Errorf("%s: %v is waited for for ever", name, left)
		}
		if due, _ := d.Due("B1"); !due {
			t.Errorf("%s: a try is remembered of an object that is gone", name)
		}
	}
}
