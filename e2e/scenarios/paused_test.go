package scenarios_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/orphand/orphand/e2e/cluster"
	"github.com/orphand/orphand/e2e/daemon"
	"github.com/orphand/orphand/pkg/access"
	"github.com/orphand/orphand/pkg/signals"
)

// uncollected starts a cluster of the test's own, without a garbage collector: everything of a deleted TrainJob stays.
func uncollected(t *testing.T, nodes int) *cluster.Cluster {
	t.Helper()
	c, err := cluster.Start(t.Context(), cluster.Options{Nodes: nodes, MonitorGrace: patience, Progress: t.Logf,
		Flags: map[cluster.Component][]string{cluster.ControllerManager: {"--controllers=*,-garbage-collector-controller"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if wrong, err := wrongDeletes(c); err != nil || len(wrong) > 0 {
			t.Errorf("orphand's writes in the audit log: %q, %v", wrong, err)
		}
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := daemon.InstallRecords(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return c
}

// replica starts an orphand that stands for election, under a user of its own, so that the audit log tells it from others.
func replica(t *testing.T, c *cluster.Cluster, user string, flags ...string) *daemon.Daemon {
	t.Helper()
	if _, err := c.UserWithRules(t.Context(), user, access.Rules(access.Observe, access.Records, access.Election, access.Enforce)); err != nil {
		t.Fatal(err)
	}
	d, err := daemon.Start(t.Context(), c, daemon.Options{Program: program, User: user, Flags: append([]string{
		"--leader-elect", "--leader-elect-lease-namespace=default", "--gc-grace=4s", "--settle-quiet=1s",
		"--leader-elect-lease-duration=4s", "--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=1s"}, flags...)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Stop(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func leads(state string) func(daemon.Event) bool {
	return func(e daemon.Event) bool { return e.Code == signals.LeadershipChanged && e.State == state }
}

// A leader is stopped with deletes before it, sleeps for longer than its lease, and wakes up: another leads by then, and what
// was to be deleted is still there. The API server's audit log says what it did.
func TestALeaderThatSleptThroughItsLeaseWritesNothingWhenItWakes(t *testing.T) {
	c := uncollected(t, 1)
	a := replica(t, c, "sleeper", "--mode=enforce")
	s := openOn(t, c, a)
	leading := s.hears(daemon.Line("the sleeper to lead", leads("Leading")))
	s.hears(daemon.Line("enforce", func(e daemon.Event) bool { return e.Code == signals.ModeChanged && e.State == "enforce" }))
	// The other deletes nothing, so that all is there still when the first wakes.
	b := replica(t, c, "waker", "--mode=observe")
	job, pods := s.run(cluster.TrainJobSpec{Name: "slept", Nodes: 1})
	s.delete(job)
	s.hears(daemon.Job(job.UID, "Settling"))
	s.ok(syscall.Kill(a.PID(), syscall.SIGSTOP))
	asleep := true
	t.Cleanup(func() {
		if asleep {
			_ = syscall.Kill(a.PID(), syscall.SIGCONT)
		}
	})
	s.hearsFrom(b, daemon.Line("the other to lead", leads("Leading")))
	s.hearsFrom(b, daemon.Found(signals.GarbageCollectorStalled, job.UID)) // it is past its grace
	if w := s.deletesOf("sleeper"); len(w) > 0 {
		t.Fatalf("%d DELETEs were sent before the pause: nothing was tested", len(w))
	}
	last := a.Events()[len(a.Events())-1]
	woken := time.Now()
	s.ok(syscall.Kill(a.PID(), syscall.SIGCONT))
	asleep = false
	s.hears(daemon.Line("the sleeper to stand by", leads("StandingBy")).After(leading))
	s.hears(daemon.Found(signals.GarbageCollectorStalled, job.UID).After(last)) // it looked at what it would have deleted
	metrics, err := a.Metrics(t.Context())
	s.ok(err)
	for deadline := time.Now().Add(20 * time.Second); metrics[`orphand_refusals_total{reason="NotLeading"}`] == 0; {
		if time.Now().After(deadline) {
			t.Fatal("the sleeper was never offered what it would have deleted: nothing was tested")
		}
		metrics, err = a.Metrics(t.Context())
		s.ok(err)
	}
	s.wroteNothing("sleeper", woken)
	s.lives(pods[0])

	// Once it leads again, it does what it is for.
	before := a.Events()[len(a.Events())-1]
	s.ok(b.Kill())
	s.hears(daemon.Line("the sleeper to lead again", leads("Leading")).After(before))
	s.hears(daemon.Job(job.UID, "Cleared"))
	s.dead(pods[0])
	if len(s.deletesOf("sleeper")) == 0 {
		t.Error("it cleared the job without a DELETE")
	}
}

// wroteNothing fails if a user wrote since then anything but what asks whether it may.
func (s *scene) wroteNothing(user string, since time.Time) {
	s.t.Helper()
	writes, err := s.c.Writes()
	s.ok(err)
	for _, w := range writes {
		if w.User == user && w.Time.After(since) && w.Group != "authorization.k8s.io" {
			s.t.Errorf("%s sent a %s of %s %s/%s %v after it woke", user, w.Verb, w.Resource, w.Namespace, w.Name, w.Time.Sub(since))
		}
	}
}
