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
	// later counts the waits for what is to be stored.
	later int
}

func (q *fifo) Add(k sweep.Key) {
	if !q.in[k] {
		q.in[k] = true
		q.keys = append(q.keys, k)
	}
}

func (q *fifo) AddAfter(k sweep.Key, _ time.Duration) {
	if k.Memory {
		q.later++
	}
}

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

// bench is a sweeper whose only worker is the test.
type bench struct {
	t      *testing.T
	s      *sweep.Sweeper
	q      *fifo
	api    *shelf
	policy *retention.Policy
}

func newBench(t *testing.T, perMinute int, store sweep.Store) *bench {
	policy, problems := retention.LoadInline([]byte("rules: [{name: all, ttlAfterFinished: 0s}]"))
	if policy == nil {
		t.Fatal(problems)
	}
	b := &bench{t: t, q: &fifo{in: map[sweep.Key]bool{}}, api: &shelf{objects: map[string]*unstructured.Unstructured{}}, policy: policy}
	b.s = sweep.New(sweep.Config{Policy: policy, Clock: testclock.NewFakePassiveClock(start), Live: b.api, Queue: b.q, Deleter: b.api, Store: store,
		Brakes: reap.NewBrakes(reap.BrakeOptions{MaxPerMinute: perMinute, MaxUnreachable: 1})})
	return b
}

// put puts a Job that is over.
func (b *bench) put(name string) {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "batch/v1", "kind": "Job",
		"metadata": map[string]any{"namespace": "team-a", "name": name, "uid": name},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Complete", "status": "True",
			"lastTransitionTime": start.Format(time.RFC3339)}}}}}
	b.api.objects[name] = u
	b.s.ObjectSeen(b.policy.Read(b.policy.KindOf("batch", facts.KindJob), u))
}

func (b *bench) work() sweep.Key {
	k := b.q.next()
	if err := b.s.Sync(b.t.Context(), k); err != nil {
		b.t.Fatal(err)
	}
	return k
}

func TestWhatHappensIsNotWorkedOffBehindAllThatMayGo(t *testing.T) {
	const jobs = 1000
	b := newBench(t, jobs, nil)
	for i := range jobs {
		b.put(fmt.Sprintf("job-%04d", i))
	}
	b.s.Begin()
	for b.api.deleted < jobs/2 {
		b.work()
	}
	b.put("late")
	before := b.api.deleted
	for b.work().UID != "late" {
	}
	if n := b.api.deleted - before; n > 20 {
		t.Errorf("%d DELETEs came before what happened after their time", n)
	}
	for len(b.q.keys) > 0 {
		b.work()
	}
	if b.api.deleted != jobs {
		t.Errorf("%d of %d that the brakes let pass were deleted", b.api.deleted, jobs)
	}
}

// book is a Store that counts its writes; while it writes, something else happens.
type book struct {
	writes int
	during func()
}

func (*book) Load(context.Context) (map[int][]byte, error) { return nil, nil }

func (b *book) Save(context.Context, int, []byte) error {
	b.writes++
	b.during()
	return nil
}

func TestRemovalsThatGoOnAreNotStoredWithoutAPause(t *testing.T) {
	store := &book{}
	b := newBench(t, 1000, store)
	b.s.Begin()
	more := 0
	store.during = func() { // others are removed while a page is on its way
		if more++; more < 100 {
			b.put(fmt.Sprintf("job-%04d", more))
			before := b.api.deleted
			for b.api.deleted == before {
				b.work()
			}
		}
	}
	b.put("job-0000")
	for len(b.q.keys) > 0 {
		b.work()
	}
	if b.q.later == 0 {
		t.Fatal("nothing is to be stored later")
	}
	if err := b.s.Sync(t.Context(), sweep.Key{Memory: true}); err != nil {
		t.Fatal(err)
	}
	if store.writes != 1 {
		t.Errorf("%d writes at one time", store.writes)
	}
}
