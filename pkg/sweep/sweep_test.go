package sweep_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/orphand/orphand/internal/stage"
	"github.com/orphand/orphand/pkg/reap"
	"github.com/orphand/orphand/pkg/retention"
	"github.com/orphand/orphand/pkg/settle"
	"github.com/orphand/orphand/pkg/signals"
	"github.com/orphand/orphand/pkg/sweep"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// scene is a sweeper in a daemon on a stage.
type scene struct {
	t       testing.TB
	stage   *stage.Stage
	daemon  *stage.Daemon
	sweeper *sweep.Sweeper
	store   *stage.Store
	events  []signals.Event
}

func open(t testing.TB, policy string, perMinute int, share retention.Share) *scene {
	p, problems := retention.LoadInline([]byte(policy))
	if p == nil {
		t.Fatal(problems)
	}
	s := &scene{t: t, stage: stage.New(start)}
	store := stage.NewStore()
	s.store = store
	s.daemon = s.stage.Daemon(stage.Config{
		Sink: signals.SinkFunc(func(e signals.Event) { s.events = append(s.events, e) }),
		Build: func(parts stage.Parts) stage.Process {
			engine := settle.New(settle.Config{Options: settle.Defaults(), Clock: parts.Clock, Live: parts.Live, Queue: parts.Queue, Sink: parts.Sink, Recorder: parts.Recorder, Readers: 1})
			gate := func() error {
				if !parts.Leads() {
					return reap.ErrNotLeading
				}
				return nil
			}
			sweeping := stage.Sweep(parts, engine, sweep.Config{Policy: p, Pods: engine, Share: share, Store: store.Of(parts.Leads), Leads: parts.Leads,
				Deleter:   reap.NewDeleter(parts.API.Client(), parts.Clock, gate, nil),
				Brakes:    reap.NewBrakes(reap.BrakeOptions{MaxPerMinute: perMinute, MaxUnreachable: 1}),
				MayDelete: func(string) reap.Reason { return map[bool]reap.Reason{false: reap.NotLeading}[parts.Leads()] },
			})
			s.sweeper = sweeping.Sweeper
			return sweeping
		},
	})
	return s
}

// job puts a Job that completed at an offset from the start.
func (s *scene) job(name string, finished time.Duration) {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "batch/v1", "kind": "Job",
		"metadata": map[string]any{"namespace": "team-a", "name": name, "uid": name},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Complete", "status": "True",
			"lastTransitionTime": start.Add(finished).Format(time.RFC3339)}}}}}
	if err := s.stage.API.Put(u, stage.Delivery{}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) until(at time.Duration) { s.stage.Loop.RunUntil(start.Add(at)) }

func (s *scene) decision(name string) string {
	for _, v := range s.sweeper.Views() {
		if v.Name == name {
			return v.Decision.String()
		}
	}
	return ""
}

func TestTenThousandJobsOfOneSecondGoWithinTheLimit(t *testing.T) {
	const jobs, perMinute = 10_000, 20 * 60
	s := open(t, "rules: [{name: all, ttlAfterFinished: 0s}]", perMinute, retention.DefaultShare())
	s.daemon.Start()
	s.until(time.Second)
	for i := range jobs {
		s.job(fmt.Sprintf("job-%05d", i), time.Second)
	}
	s.until(100 * time.Second)
	s.job("late", 100*time.Second)
	s.until(105 * time.Second)
	if got := s.decision("late"); got == "" {
		t.Error("an event is not handled within 5 s meanwhile")
	}
	ideal := jobs * time.Minute / perMinute
	s.until(time.Second + ideal*11/10)
	calls := s.stage.API.Calls()
	if len(calls) != jobs+1 {
		t.Fatalf("%d DELETEs by %v, of %d jobs", len(calls), s.stage.Loop.Since(start), jobs+1)
	}
	for i := perMinute; i < len(calls); i++ {
		if d := calls[i].At.Sub(calls[i-perMinute].At); d < time.Minute {
			t.Fatalf("%d DELETEs within %v", perMinute+1, d)
		}
	}
	if len(s.stage.API.List(stage.Job)) != 0 {
		t.Error("some are left")
	}
}

func TestABacklogGoesOldestFirstAndByItsShare(t *testing.T) {
	const jobs = 1000
	s := open(t, "rules: [{name: all, ttlAfterFinished: 1h}]", 600, retention.Share{PerHour: 0.1, Floor: 10})
	for i := range jobs {
		s.job(fmt.Sprintf("job-%04d", i), -time.Duration(i+100)*time.Hour)
	}
	s.daemon.Start()
	s.job("fresh", -time.Hour+30*time.Minute)
	s.until(50 * time.Minute)
	calls := s.stage.API.Calls()
	if len(calls) != jobs/10+2 { // a tenth of them all, rounded up, and the fresh one
		t.Fatalf("%d DELETEs in the first hour", len(calls))
	}
	for _, c := range calls[:jobs/10+1] { // within one moment by name
		if oldest := fmt.Sprintf("job-%04d", jobs-jobs/10-1); c.Name < oldest {
			t.Fatalf("%s goes before others that are older", c.Name)
		}
	}
	if last := calls[len(calls)-1]; last.Name != "fresh" || last.At.Sub(start) != 30*time.Minute {
		t.Errorf("what is due while the backlog waits: %+v", last)
	}
	paused := 0
	for _, e := range s.events {
		if e.Code == signals.RetentionPaused {
			paused++
		}
	}
	if paused != 1 {
		t.Errorf("said %d times that the backlog waits", paused)
	}
	s.until(100 * time.Minute)
	if n := len(s.stage.API.Calls()); n < 2*jobs/10-10 || n > 2*jobs/10+1 {
		t.Errorf("%d DELETEs by the second hour", n)
	}
}

func TestNothingGoesWhileAnotherLeads(t *testing.T) {
	s := open(t, "rules: [{name: all, ttlAfterFinished: 60s}]", 600, retention.DefaultShare())
	s.daemon.Start()
	s.job("a", 0)
	s.until(30 * time.Second)
	s.daemon.Lead(false)
	s.until(10 * time.Minute)
	if n := len(s.stage.API.Calls()); n != 0 {
		t.Fatalf("%d DELETEs without the lease", n)
	}
	s.daemon.Lead(true)
	s.until(10*time.Minute + time.Second)
	if n := len(s.stage.API.Calls()); n != 1 {
		t.Errorf("%d DELETEs with the lease", n)
	}
}

func TestAPolicyThatChangesIsInForceAtOnce(t *testing.T) {
	s := open(t, "rules: [{name: all, ttlAfterFinished: 1h}]", 600, retention.DefaultShare())
	s.daemon.Start()
	s.job("a", 0)
	s.until(30 * time.Second)
	p, _ := retention.LoadInline([]byte("rules: [{name: all, ttlAfterFinished: 40s}]"))
	s.sweeper.SetPolicy(p)
	s.until(39 * time.Second)
	if n := len(s.stage.API.Calls()); n != 0 {
		t.Errorf("%d DELETEs too early", n)
	}
	s.until(40 * time.Second)
	if n := len(s.stage.API.Calls()); n != 1 {
		t.Errorf("%d DELETEs by the new policy", n)
	}
}

func TestAConflictIsANewDecision(t *testing.T) {
	s := open(t, "rules: [{name: all, ttlAfterFinished: 60s}]", 600, retention.DefaultShare())
	s.daemon.Start()
	s.job("a", 0)
	s.stage.API.Fail(stage.Fault{Verb: "delete", Kind: "Job", Code: 409, Times: 2})
	s.until(5 * time.Minute)
	calls := s.stage.API.Calls()
	if len(calls) != 3 {
		t.Fatalf("%d DELETEs after two conflicts", len(calls))
	}
	if calls[0].At.Sub(start) != time.Minute || calls[2].Err != nil {
		t.Errorf("%+v", calls)
	}
}

func BenchmarkTenThousandJobs(b *testing.B) {
	for b.Loop() {
		s := open(b, "rules: [{name: all, ttlAfterFinished: 0s}]", 1_000_000, retention.DefaultShare())
		s.daemon.Start()
		for i := range 10_000 {
			s.job(fmt.Sprintf("job-%05d", i), 0)
		}
		s.until(time.Second)
		if n := len(s.stage.API.Calls()); n != 10_000 {
			b.Fatal(n)
		}
	}
}
