package sweep_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/reap"
	"github.com/orphand/orphand/pkg/retention"
	"github.com/orphand/orphand/pkg/sweep"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
)

// fifo is a queue as a worker sees it: one line, each key in it once.
type fifo struct {
	keys []sweep.Key
	in   map[sweep.Key]bool
}

func (q *fifo) Add(k sweep.Key) {
	if !q.in[k] {
		q.in[k] = true
		q.keys = append(q.keys, k)
	}
}

func (q *fifo) AddAfter(sweep.Key, time.Duration) {}

func (q *fifo) next() sweep.Key {
	k := q.keys[0]
	q.keys = q.keys[1:]
	delete(q.in, k)
	return k
}

// shelf is an API that holds objects by name, and deletes what it is asked to.
type shelf struct {
	sweep.Live
	objects map[string]*unstructured.Unstructured
	deleted int
}

func (s *shelf) Object(_ context.Context, _ *retention.Kind, _, name string) (*unstructured.Unstructured, error) {
	return s.objects[name], nil
}

func (s *shelf) Due(types.UID) (bool, reap.Answer) { return true, reap.Answer{} }
func (s *shelf) Gone(types.UID)                    {}

func (s *shelf) Send(_ context.Context, o reap.Order, _ reap.Cause) (reap.Answer, error) {
	s.deleted++
	delete(s.objects, o.Target().Ref.Name)
	return reap.Answer{Outcome: reap.Accepted}, nil
}

func TestWhatHappensIsNotWorkedOffBehindAllThatMayGo(t *testing.T) {
	const jobs = 1000
	policy, problems := retention.LoadInline([]byte("rules: [{name: all, ttlAfterFinished: 0s}]"))
	if policy == nil {
		t.Fatal(problems)
	}
	q, api := &fifo{in: map[sweep.Key]bool{}}, &shelf{objects: map[string]*unstructured.Unstructured{}}
	s := sweep.New(sweep.Config{Policy: policy, Clock: testclock.NewFakePassiveClock(start), Live: api, Queue: q, Deleter: api,
		Brakes: reap.NewBrakes(reap.BrakeOptions{MaxPerMinute: jobs, MaxUnreachable: 1})})
	kind := policy.KindOf("batch", facts.KindJob)
	put := func(name string) {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "batch/v1", "kind": "Job",
			"metadata": map[string]any{"namespace": "team-a", "name": name, "uid": name},
			"status": map[string]any{"conditions": []any{map[string]any{"type": "Complete", "status": "True",
				"lastTransitionTime": start.Format(time.RFC3339)}}}}}
		api.objects[name] = u
		s.ObjectSeen(policy.Read(kind, u))
	}
	work := func() sweep.Key {
		k := q.next()
		if err := s.Sync(t.Context(), k); err != nil {
			t.Fatal(err)
		}
		return k
	}
	for i := range jobs {
		put(fmt.Sprintf("job-%04d", i))
	}
	s.Begin()
	for api.deleted < jobs/2 {
		work()
	}
	put("late")
	before := api.deleted
	for work().UID != "late" {
	}
	if n := api.deleted - before; n > 20 {
		t.Errorf("%d DELETEs came before what happened after their time", n)
	}
	for len(q.keys) > 0 {
		work()
	}
	if api.deleted != jobs {
		t.Errorf("%d of %d that the brakes let pass were deleted", api.deleted, jobs)
	}
}
