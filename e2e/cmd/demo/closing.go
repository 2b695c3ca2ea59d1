package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/orphand/orphand/e2e/cluster"
	"github.com/orphand/orphand/e2e/daemon"
)

// seconds writes a duration for people.
func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// closing prints the figures, and returns what went wrong.
func (t *timeline) closing(ctx context.Context, results []result, d *daemon.Daemon, told time.Duration) error {
	t.heading("What it took")
	for _, r := range results {
		state := "right"
		if r.err != nil {
			state = "WRONG"
		}
		t.text("  %s. %-30s %6s  %s", r.letter, r.title, seconds(r.took), state)
		for _, f := range r.facts {
			t.text("     %s", f)
		}
	}
	t.text("")
	if m, err := d.Metrics(ctx); err != nil {
		t.text("  no metrics: %v", err)
	} else {
		const latency = "orphand_verdict_latency_seconds"
		if median := m.Quantile(latency, 0.5); !math.IsNaN(median) {
			t.text("  from the watch event that carries the proof to the log line: median %.1f ms, of %.0f verdicts (%s)",
				1000*median, m[latency+"_count"], latency)
		}
	}
	if u, err := d.Usage(); err != nil {
		t.text("  no figures of the process: %v", err)
	} else {
		t.text("  orphand: %.0f MiB of memory (peak %.0f MiB), %.1f s of CPU in %.0f s",
			float64(u.ResidentBytes)/(1<<20), float64(u.PeakBytes)/(1<<20), u.CPU.Seconds(), told.Seconds())
	}
	t.text("  the truth was asked at each of %d words that had to agree with it, and at the end: %d contradictions",
		d.Judge().Words(), len(d.Judge().Lies()))
	err := failures(results)
	if err == nil {
		t.text("\nEach step came out right.")
	}
	return err
}

// playground says what to do with what was left running.
func (t *timeline) playground(c *cluster.Cluster, log string) {
	t.heading("The cluster and orphand go on, for you to play with")
	t.text(`  export KUBECONFIG=%s
  kubectl for it:   %s
  orphand's log:    tail -f %s

  alias k='go run ./e2e/cmd/cluster kubectl -name %[4]s --'
  k get orphans -A                    # orphand's records of the stories
  k get nodes                         # node-1 is off and tainted, node-2 was deleted
  go run ./e2e/cmd/cluster job -name %[4]s -nodes 2 mine
  go run ./e2e/cmd/cluster node -name %[4]s cut-off node-3
  k delete trainjob mine
  k get pods                          # what Kubernetes shows
  go run ./e2e/cmd/cluster truth -name %[4]s   # what really lives
  k get orphans                       # what orphand says
  k wait --for=condition=Settled --timeout=5m orphan --all
  go run ./e2e/cmd/cluster node -name %[4]s bring-back node-3

  go run ./e2e/cmd/cluster down -name %[4]s    # end all of it`, c.AdminKubeconfig(), c.Kubectl(), log, name)
}
