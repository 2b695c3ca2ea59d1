// Command scale deletes one TrainJob of thousands of pods on a real control
// plane whose nodes are made up, and says what orphand spent on it: calls, writes
// of its record, the record's size, memory and processor time.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/orphand/orphand/api/v1alpha1"
	"github.com/orphand/orphand/e2e/cluster"
	"github.com/orphand/orphand/e2e/daemon"
)

// What one settled job may cost.
const (
	maxRecord = 256 << 10
	maxWrites = 10
)

func main() {
	pods := flag.Int("pods", 2000, "pods of the job")
	nodes := flag.Int("nodes", 50, "made-up nodes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *pods, *nodes); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, pods, nodes int) (failed error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	defer cancel()
	began := time.Now()
	say := func(format string, args ...any) {
		fmt.Printf("%6.1fs  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}
	quick := []string{"--kube-api-qps=1000", "--kube-api-burst=2000"}
	c, err := cluster.Start(ctx, cluster.Options{
		Nodes:        -1,
		MonitorGrace: 24 * time.Hour, // nobody posts a heartbeat for made-up nodes
		Flags:        map[cluster.Component][]string{cluster.ControllerManager: quick, cluster.Scheduler: quick},
		Progress:     say,
	})
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, c.Stop()) }()
	if err := daemon.InstallRecords(ctx, c); err != nil {
		return err
	}
	d, err := daemon.Start(ctx, c, daemon.Options{})
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, d.Stop()) }()

	kubelets, err := newKubelets(c)
	if err != nil {
		return err
	}
	if err := kubelets.nodes(ctx, nodes, pods); err != nil {
		return err
	}
	posting, stopPosting := context.WithCancel(ctx)
	defer stopPosting()
	go kubelets.run(posting)
	job, err := c.SubmitTrainJob(ctx, cluster.TrainJobSpec{Name: "big", Nodes: pods, Together: true})
	if err != nil {
		return err
	}
	say("TrainJob of %d pods on %d nodes created", pods, nodes)
	if err := kubelets.wait(ctx, pods); err != nil {
		return err
	}
	say("all pods run")
	before, err := d.Metrics(ctx)
	if err != nil {
		return err
	}
	sizes := watchRecord(ctx, c, daemon.RecordName(job))
	deleted := time.Now()
	if err := c.DeleteTrainJob(ctx, job, metav1.DeletePropagationBackground); err != nil {
		return err
	}
	if _, err := d.Await(ctx, daemon.Over(job.UID)); err != nil {
		return err
	}
	say("settled %.1f s after the deletion", time.Since(deleted).Seconds())
	if _, err := d.Await(ctx, daemon.Job(job.UID, "Cleared")); err != nil {
		return err
	}
	after, err := d.Metrics(ctx)
	if err != nil {
		return err
	}
	calls := 0.0
	var names []string
	for name, value := range after {
		if strings.HasPrefix(name, "rest_client_requests_total{") && value > before[name] && !strings.Contains(name, "WATCH") {
			calls += value - before[name]
			names = append(names, fmt.Sprintf("          %5.0f  %s", value-before[name], name))
		}
	}
	slices.Sort(names)
	say("calls of orphand for this job: %.0f, %.2f a pod", calls, calls/float64(pods))
	fmt.Println(strings.Join(names, "\n"))
	// The record's last state is written a moment after the last word.
	size, err := sizes(ctx)
	if err != nil {
		return err
	}
	all, err := c.Writes()
	if err != nil {
		return err
	}
	writes := 0
	for _, w := range all {
		if w.Resource == v1alpha1.Orphans.Resource && w.Name == daemon.RecordName(job) && w.Verb == "patch" && w.Code < 300 {
			writes++
		}
	}
	usage, err := d.Usage()
	if err != nil {
		return err
	}
	say("the record was written %d times and took %d bytes at most; orphand: %+v", writes, size, usage)
	if size > maxRecord || writes > maxWrites {
		return fmt.Errorf("the record took %d bytes (at most %d) and %d writes (at most %d)", size, maxRecord, writes, maxWrites)
	}
	return nil
}

// watchRecord measures a record until it says that the job is cleared, and then returns the largest size that it had.
func watchRecord(ctx context.Context, c *cluster.Cluster, name string) func(context.Context) (int, error) {
	type result struct {
		size int
		err  error
	}
	done := make(chan result, 1)
	go func() {
		largest := 0
		_, err := c.WaitObject(ctx, v1alpha1.Orphans, metav1.NamespaceDefault, name, func(o *unstructured.Unstructured) bool {
			if o == nil {
				return false
			}
			b, err := json.Marshal(o)
			if err == nil {
				largest = max(largest, len(b))
			}
			state, _, _ := unstructured.NestedString(o.Object, "status", "state")
			return state == "Cleared"
		})
		done <- result{largest, err}
	}()
	return func(ctx context.Context) (int, error) {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case r := <-done:
			return r.size, r.err
		}
	}
}
