package install_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/orphand/orphand/e2e/cluster"
	"github.com/orphand/orphand/e2e/daemon"
	"github.com/orphand/orphand/pkg/access"
	"github.com/orphand/orphand/pkg/signals"
)

// The lease of the crash test is short so that twenty crashes take minutes; what is
// added to its duration does not depend on it.
const leaseDuration = 4 * time.Second

var kills = flag.Int("kills", 20, "how often the leader is killed")

// replica is one of two orphands, under a user of its own, so that the audit log
// tells them apart.
type replica struct {
	*daemon.Daemon
	user string
}

func startReplica(t *testing.T, user string) *replica {
	t.Helper()
	rules := access.Rules(access.Observe, access.Records, access.Election)
	kubeconfig, err := shared.UserWithRules(t.Context(), user, rules)
	if err != nil {
		t.Fatal(err)
	}
	d, err := daemon.Start(t.Context(), shared, daemon.Options{Program: program, Kubeconfig: kubeconfig, Flags: []string{
		"--leader-elect", "--leader-elect-lease-namespace=default", "--settle-quiet=1s",
		"--leader-elect-lease-duration=" + leaseDuration.String(), "--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=1s"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Stop() })
	return &replica{d, user}
}

// leading is the line by which the replica began to lead in its present run; false
// when it does not lead.
func (r *replica) leading() (daemon.Event, bool) {
	var last daemon.Event
	for _, e := range r.Events() {
		if e.Code == signals.Starting {
			last = daemon.Event{}
		}
		if e.Code == signals.LeadershipChanged {
			last = e
		}
	}
	return last, last.State == "Leading"
}

// leaderOf waits until one of the two leads.
func leaderOf(t *testing.T, replicas []*replica) (leader, standby *replica) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for time.Now().Before(deadline) {
		for i, r := range replicas {
			if _, yes := r.leading(); yes {
				return r, replicas[1-i]
			}
		}
	}
	t.Fatal("nobody leads")
	return nil, nil
}

// churn deletes a job without pods several times a second, until stop is called:
// there is always something to write.
func churn(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			job, err := shared.SubmitTrainJob(ctx, cluster.TrainJobSpec{Name: fmt.Sprintf("churn-%d", n), Suspend: true})
			if err == nil {
				err = shared.DeleteTrainJob(ctx, job, metav1.DeletePropagationBackground)
			}
			if err != nil && ctx.Err() == nil {
				t.Log(err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(150 * time.Millisecond): // the rate of the load, not a wait
			}
		}
	})
	return func() { cancel(); running.Wait() }
}

func TestOneReplicaWritesAtATimeThroughTwentyCrashes(t *testing.T) {
	if err := daemon.InstallRecords(t.Context(), shared); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = command(context.Background(), shared.Kubectl(), "delete", "crd", "orphans.orphand.dev")
	})
	replicas := []*replica{startReplica(t, "replica-a"), startReplica(t, "replica-b")}
	before := series(t, replicas)
	stop := churn(t)
	defer stop()

	var crash, graceful []time.Duration
	for n := range *kills {
		leader, standby := leaderOf(t, replicas)
		// Somewhere in the life of a leader: after it has written some more.
		written(t, leader.user, 2)
		before := len(standby.Events())
		at := time.Now()
		if err := leader.Kill(); err != nil {
			t.Fatal(err)
		}
		e := awaitLead(t, standby, before)
		took := e.At.Sub(at)
		crash = append(crash, took)
		t.Logf("crash %2d: the standby leads after %v", n+1, took.Round(10*time.Millisecond))
		if took > leaseDuration+time.Second {
			t.Errorf("crash %d: took over after %v, want at most %v", n+1, took, leaseDuration+time.Second)
		}
		if err := leader.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 5 {
		leader, standby := leaderOf(t, replicas)
		written(t, leader.user, 2)
		before := len(standby.Events())
		at := time.Now()
		if err := syscall.Kill(leader.PID(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		e := awaitLead(t, standby, before)
		took := e.At.Sub(at)
		graceful = append(graceful, took)
		released, err := leader.Await(t.Context(), daemon.Line(leader.user+" to give the Lease back", func(e daemon.Event) bool {
			return e.Code == signals.LeadershipChanged && e.State == "StandingBy" && e.At.After(at)
		}))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("stop %d: the standby leads after %v, of which work in hand took %v", n+1, took.Round(time.Millisecond), released.At.Sub(at).Round(time.Millisecond))
		if took > 3*time.Second {
			t.Errorf("stop %d: took over after %v, want at most 3s", n+1, took)
		}
		// It has ended, or is about to.
		if _, err := leader.Await(t.Context(), daemon.Line("the end of "+leader.user, func(e daemon.Event) bool {
			return e.Code == signals.Stopped && !e.At.Before(at)
		})); err != nil {
			t.Fatal(err)
		}
		if err := leader.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := leader.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	summed(t, replicas)
	if after := series(t, replicas); after != before {
		t.Errorf("%d series after all these jobs, %d before", after, before)
	}
	slices.Sort(crash)
	slices.Sort(graceful)
	t.Logf("takeover after a crash, lease %v: median %v, worst %v; after a stop: median %v, worst %v", leaseDuration,
		crash[len(crash)/2], crash[len(crash)-1], graceful[len(graceful)/2], graceful[len(graceful)-1])

	noOverlap(t, replicas, 2*(*kills+5))
}

func awaitLead(t *testing.T, r *replica, from int) daemon.Event {
	t.Helper()
	e, err := r.Await(t.Context(), daemon.Line(r.user+" to lead", func(e daemon.Event) bool {
		return e.Index >= from && e.Code == signals.LeadershipChanged && e.State == "Leading"
	}))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// writesOf are the writes of records by both replicas, oldest first.
func writesOf(t *testing.T) []cluster.Write {
	t.Helper()
	all, err := shared.Writes()
	if err != nil {
		t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(w cluster.Write) bool {
		return w.Group != "orphand.dev" || w.User != "replica-a" && w.User != "replica-b"
	})
	slices.SortFunc(all, func(a, b cluster.Write) int { return a.Time.Compare(b.Time) })
	return all
}

// written waits until a user has written more records than now.
func written(t *testing.T, user string, more int) {
	t.Helper()
	count := func() (n int) {
		for _, w := range writesOf(t) {
			if w.User == user {
				n++
			}
		}
		return n
	}
	want, deadline := count()+more, time.Now().Add(time.Minute)
	for count() < want {
		if time.Now().After(deadline) {
			t.Fatalf("%s writes nothing", user)
		}
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(100 * time.Millisecond): // the audit log can only be read again
		}
	}
}

// noOverlap fails when one replica wrote between two writes of the same reign of the
// other: the writer may change as often as the leader did, and no more.
func noOverlap(t *testing.T, replicas []*replica, changes int) {
	t.Helper()
	writes := writesOf(t)
	// Reigns, by what each replica said of itself.
	type reign struct {
		user     string
		from, to time.Time
	}
	var reigns []reign
	for _, r := range replicas {
		for _, e := range r.Events() {
			if e.Code == signals.LeadershipChanged && e.State == "Leading" {
				reigns = append(reigns, reign{user: r.user, from: e.At})
			}
		}
	}
	slices.SortFunc(reigns, func(a, b reign) int { return a.from.Compare(b.from) })
	for i := range reigns[:len(reigns)-1] {
		reigns[i].to = reigns[i+1].from
	}
	overlaps, at := 0, 0
	for _, w := range writes {
		for at+1 < len(reigns) && !w.Time.Before(reigns[at+1].from) {
			at++
		}
		if w.User != reigns[at].user {
			overlaps++
			t.Errorf("%s wrote %s/%s at %v, in the reign of %s since %v", w.User, w.Namespace, w.Name, w.Time, reigns[at].user, reigns[at].from)
		}
	}
	t.Logf("%d writes of records in %d reigns: %d by another than the leader", len(writes), len(reigns), overlaps)
	if len(reigns) > changes || len(writes) < len(reigns) {
		t.Errorf("%d reigns, %d writes: nothing was tested", len(reigns), len(writes))
	}
}

// summed fails when the sum of the jobs over both replicas is not what each sees.
func summed(t *testing.T, replicas []*replica) {
	t.Helper()
	leaders, jobs := 0.0, [2]float64{}
	for i, r := range replicas {
		m, err := r.Metrics(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		leaders += m["orphand_leader"]
		for _, state := range []string{"Settled", "Cleared", "Settling", "Deleting"} {
			jobs[i] += m[fmt.Sprintf("orphand_jobs{state=%q}", state)]
		}
	}
	if leaders != 1 || min(jobs[0], jobs[1]) != 0 || max(jobs[0], jobs[1]) == 0 {
		t.Errorf("%v leaders; jobs told by each: %v: want one leader, and jobs told by that one only", leaders, jobs)
	}
}

// series counts what a replica exports; both do the same.
func series(t *testing.T, replicas []*replica) int {
	t.Helper()
	var counts [2]int
	for i, r := range replicas {
		m, err := r.Metrics(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		counts[i] = len(m)
	}
	if counts[0] != counts[1] || counts[0] < 100 {
		t.Errorf("%v series", counts)
	}
	return counts[0]
}
