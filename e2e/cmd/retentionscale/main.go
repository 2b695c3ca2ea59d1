// Command retentionscale has thousands of TrainJobs finish in one second on a real control plane, lets orphand delete as
// many a second as it is allowed, and then lets others become due all the time with no limit. Beside each TrainJob a plain
// Job does the same under Kubernetes' own TTL-after-finished controller, and what both took stands side by side.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/orphand/orphand/e2e/cluster"
	"github.com/orphand/orphand/e2e/daemon"
	"github.com/orphand/orphand/pkg/access"
)

// What removing finished jobs may cost.
const (
	maxOverIdeal = 1.10                   // of the time that the rate alone takes
	maxLateness  = 100 * time.Millisecond // at p99, with no limit
	maxCalls     = 2.0                    // on each object that is removed: to read it, and to delete it
	maxProbe     = 5 * time.Second        // until another job's events are handled
)

// settings are what the flags say.
type settings struct {
	jobs, rate int
	spread     int
	window     time.Duration
	clients    int
	qps        float64
}

func main() {
	var s settings
	flag.IntVar(&s.jobs, "n", 10_000, "TrainJobs, and as many plain Jobs, that finish in one second")
	flag.IntVar(&s.rate, "rate", 20, "deletes a second that are allowed of them")
	flag.IntVar(&s.spread, "spread", 3000, "TrainJobs, and as many plain Jobs, that become due one after the other, with no limit; 0 for none")
	flag.DurationVar(&s.window, "window", 2*time.Minute, "how long those take to become due")
	flag.IntVar(&s.clients, "clients", 16, "how many requests of this command are on their way at a time")
	flag.Float64Var(&s.qps, "kube-api-qps", 50, "--kube-api-qps of orphand")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "retentionscale:", err)
		os.Exit(1)
	}
}

// bench is a cluster with an orphand that carries a policy out.
type bench struct {
	settings
	c      *cluster.Cluster
	policy string
	kube   string
	began  time.Time
}

func (b *bench) say(format string, args ...any) {
	fmt.Printf("%6.1fs  %s\n", time.Since(b.began).Seconds(), fmt.Sprintf(format, args...))
}

func run(ctx context.Context, s settings) (failed error) {
	b := &bench{settings: s, began: time.Now()}
	dir, err := os.MkdirTemp("", "orphand-retentionscale-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	audit := filepath.Join(dir, "audit.yaml")
	if err := os.WriteFile(audit, []byte(auditPolicy), 0o600); err != nil {
		return err
	}
	b.policy = filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(b.policy, []byte(policy), 0o600); err != nil {
		return err
	}
	b.c, err = cluster.Start(ctx, cluster.Options{
		Nodes: -1,
		Flags: map[cluster.Component][]string{
			cluster.APIServer:         {"--audit-policy-file=" + audit, "--audit-log-maxsize=8000"},
			cluster.ControllerManager: b.limited(),
		},
		Progress: b.say,
	})
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, b.c.Stop()) }()
	if err := standBy(ctx, b.c); err != nil {
		return err
	}
	b.say("Trainer's manager stands by for a Lease that another holds: its webhooks answer, its controllers do not work, so that TrainJobs have no JobSets and are finished by this command alone")
	if err := daemon.InstallRecords(ctx, b.c); err != nil {
		return err
	}
	if b.kube, err = b.c.UserWithRules(ctx, user, access.Rules(access.Observe, access.Records, access.Enforce, access.Retention, access.Memory)); err != nil {
		return err
	}
	if err := b.prepare(ctx); err != nil {
		return err
	}
	missed := b.atOnce(ctx)
	if s.spread > 0 && !errors.As(missed, new(broken)) {
		missed = errors.Join(missed, b.spreadOut(ctx))
	}
	return missed
}

// limited lets each controller of Kubernetes make as many calls a second as the rate takes: one to read a Job, and one to
// delete it.
func (b *bench) limited() []string {
	return []string{fmt.Sprintf("--kube-api-qps=%d", 2*b.rate), fmt.Sprintf("--kube-api-burst=%d", 2*b.rate)}
}

// orphand starts one that carries the policy out.
func (b *bench) orphand(ctx context.Context, flags ...string) (*daemon.Daemon, error) {
	return daemon.Start(ctx, b.c, daemon.Options{User: user, Kubeconfig: b.kube, Flags: append([]string{
		"--mode", "enforce", "--retention-policy", b.policy, "--leader-elect-lease-namespace", "default",
		fmt.Sprintf("--kube-api-qps=%g", b.qps), fmt.Sprintf("--kube-api-burst=%g", 2*b.qps)}, flags...)})
}

// broken is an error after which nothing can be measured, unlike a target that was missed.
type broken struct{ error }

func (e broken) Unwrap() error { return e.error }

// atOnce has all jobs finish in one second, with a limit on deletes.
func (b *bench) atOnce(ctx context.Context) (missed error) {
	train, plain := b.batch(trainJobs, "once", b.jobs), b.batch(plainJobs, "once", b.jobs)
	if err := b.create(ctx, train, plain); err != nil {
		return broken{err}
	}
	b.say("%d TrainJobs and %d plain Jobs created", b.jobs, b.jobs)
	d, err := b.orphand(ctx, fmt.Sprintf("--max-deletes-per-minute=%d", 60*b.rate))
	if err != nil {
		return broken{err}
	}
	defer func() { missed = errors.Join(missed, d.Stop()) }()
	train.watch(ctx, b.c)
	plain.watch(ctx, b.c)
	finish := time.Now().Truncate(time.Second)
	if err := b.finish(ctx, func(int) time.Time { return finish }, train, plain); err != nil {
		return broken{err}
	}
	b.say("all finished, by their status, at %s; it took %.0f s to say so", finish.Format(time.TimeOnly), time.Since(finish).Seconds())

	ideal := time.Duration(float64(b.jobs) / float64(b.rate) * float64(time.Second))
	waiting, cancel := context.WithTimeout(ctx, 3*ideal+2*time.Minute)
	defer cancel()
	probes := b.probe(waiting, d, train.gone)
	for _, batch := range []*batch{train, plain} {
		select {
		case <-batch.gone:
			b.say("all %s are gone %.0f s after their finish", batch.kind.words, time.Since(finish).Seconds())
		case <-waiting.Done():
			b.say("%d %s are left after %.0f s", batch.left(), batch.kind.words, time.Since(finish).Seconds())
		}
	}
	worst, err := probes()
	if err != nil {
		return broken{err}
	}
	at := func(string) time.Time { return finish }
	r, err := b.report("at once", train, plain, at, at)
	if err != nil {
		return broken{err}
	}
	usage, err := d.Usage()
	if err != nil {
		return broken{err}
	}
	r.print(b)
	fmt.Printf("          ideal %.0f s; a probe was called finished within %.2f s, and decided on within %.2f s; orphand took %.0f MiB at most and %.0f s of processor time\n",
		ideal.Seconds(), worst.finished.Seconds(), worst.decided.Seconds(), float64(usage.PeakBytes)/(1<<20), usage.CPU.Seconds())
	missed = errors.Join(missed, r.calls())
	if len(r.ours.late) != b.jobs {
		missed = errors.Join(missed, fmt.Errorf("%d of %d TrainJobs were deleted", len(r.ours.late), b.jobs))
	} else if took := r.ours.last.Sub(finish); took.Seconds() > maxOverIdeal*ideal.Seconds() {
		missed = errors.Join(missed, fmt.Errorf("the last DELETE came after %.0f s, at most %.0f are wanted", took.Seconds(), maxOverIdeal*ideal.Seconds()))
	}
	if slowest := max(worst.finished, worst.decided); slowest > maxProbe {
		missed = errors.Join(missed, fmt.Errorf("a probe's events were handled after %.1f s, at most %s are wanted", slowest.Seconds(), maxProbe))
	}
	return missed
}

// offset is how long after the first a job of the second part is due.
func (b *bench) offset(i int) time.Duration {
	return (b.window * time.Duration(i) / time.Duration(b.spread)).Truncate(time.Millisecond)
}

// spreadOut has jobs become due one after the other, with no limit on deletes.
func (b *bench) spreadOut(ctx context.Context) (missed error) {
	if err := b.c.StopComponent(cluster.ControllerManager); err != nil {
		return broken{err}
	}
	if err := b.c.StartComponent(ctx, cluster.ControllerManager, "--kube-api-qps=1000", "--kube-api-burst=2000"); err != nil {
		return broken{err}
	}
	train, plain := b.batch(trainJobs, "spread", b.spread), b.batch(plainJobs, "spread", b.spread)
	if err := b.create(ctx, train, plain); err != nil {
		return broken{err}
	}
	d, err := b.orphand(ctx, "--max-deletes-per-minute=1000000")
	if err != nil {
		return broken{err}
	}
	defer func() { missed = errors.Join(missed, d.Stop()) }()
	train.watch(ctx, b.c)
	plain.watch(ctx, b.c)
	first := time.Now().Truncate(time.Second).Add(ttlOfSpread - time.Second)
	second := func(i int) time.Time { return first.Add(b.offset(i).Truncate(time.Second)) }
	if err := b.finish(ctx, func(i int) time.Time { return second(i).Add(-ttlOfSpread) }, train, plain); err != nil {
		return broken{err}
	}
	if late := time.Since(first); late > 0 {
		return broken{fmt.Errorf("it took %s longer to finish %d jobs than they had until the first was due: use a smaller -spread", late, b.spread)}
	}
	b.say("%d TrainJobs and %d plain Jobs become due from %s on, in %s; plain Jobs at whole seconds, since Kubernetes knows no others, TrainJobs in between, by annotation",
		b.spread, b.spread, first.Format(time.TimeOnly), b.window)
	waiting, cancel := context.WithDeadline(ctx, first.Add(b.window+2*time.Minute))
	defer cancel()
	for _, batch := range []*batch{train, plain} {
		select {
		case <-batch.gone:
		case <-waiting.Done():
			b.say("%d %s are left", batch.left(), batch.kind.words)
		}
	}
	r, err := b.report("one after the other", train, plain,
		func(name string) time.Time { return first.Add(b.offset(numberOf(name))) },
		func(name string) time.Time { return second(numberOf(name)) })
	if err != nil {
		return broken{err}
	}
	r.print(b)
	missed = errors.Join(missed, r.calls())
	if len(r.ours.late) != b.spread {
		missed = errors.Join(missed, fmt.Errorf("%d of %d TrainJobs were deleted", len(r.ours.late), b.spread))
	} else if late := r.ours.quantile(0.99); late > maxLateness {
		missed = errors.Join(missed, fmt.Errorf("lateness at p99 is %s, at most %s are wanted", late, maxLateness))
	}
	return missed
}
