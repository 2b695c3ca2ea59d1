package cluster_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/orphand/orphand/e2e/cluster"
)

// shared is the cluster of all tests that need none of their own. Each test adds
// nodes for its accidents, and places its pods on them.
var shared *cluster.Cluster

func TestMain(m *testing.M) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if os.Getenv(crashVariable) != "" {
		startAndHang(ctx)
	}
	os.Exit(run(ctx, m))
}

func run(ctx context.Context, m *testing.M) (code int) {
	var err error
	shared, err = cluster.Start(ctx, cluster.Options{Nodes: 1, Progress: progress})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := shared.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}()
	return m.Run()
}

func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// newNode adds a node for one test, and takes it away afterwards.
func newNode(t *testing.T, name string) *cluster.Node {
	t.Helper()
	n, err := shared.AddNode(t.Context(), cluster.NodeSpec{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		for _, m := range shared.Machines() {
			if m.Node() == name {
				must(t, m.PowerOff())
			}
		}
		if o, err := n.Object(ctx); err == nil && o != nil {
			must(t, n.Delete(ctx))
		}
	})
	return n
}

// runJob submits a TrainJob and waits until its pods run.
func runJob(t *testing.T, spec cluster.TrainJobSpec) (cluster.TrainJob, []*corev1.Pod) {
	t.Helper()
	job, err := shared.SubmitTrainJob(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	pods, err := shared.WaitRunning(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	return job, pods
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}
