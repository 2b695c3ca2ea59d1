// Command demo tells what becomes of deleted TrainJobs on a real control plane, as
// a timeline with four voices: what is done to the cluster, what Kubernetes shows,
// which processes really live, and what orphand says.
//
//	go run ./e2e/cmd/demo         tell the stories, and take everything down
//	KEEP=1 go run ./e2e/cmd/demo  leave the cluster and orphand running
//
// It ends with status 0 only if each step came out right.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/orphand/orphand/e2e/cluster"
	"github.com/orphand/orphand/e2e/daemon"
)

// name is that of the cluster that is kept.
const name = "demo"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// Asked a second time, it ends at once; the next start of any cluster sweeps up.
	context.AfterFunc(ctx, stop)
	keep := os.Getenv("KEEP") != "" && os.Getenv("KEEP") != "0"
	err := run(ctx, newTimeline(os.Stdout), keep)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "demo: interrupted; everything is taken down")
		os.Exit(130)
	default:
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// run tells all stories. It takes down what it started, unless all went well and
// it is to be kept.
func run(ctx context.Context, t *timeline, keep bool) (err error) {
	t.heading("What deleted TrainJobs leave behind, and when it is provably gone")
	t.text("Getting ready: a Kubernetes of plain processes on this machine, with Kubeflow Trainer and JobSet.")
	options := cluster.Options{Nodes: 4, Progress: t.progress}
	if keep {
		options.Name, options.Detached = name, true
	}
	c, err := cluster.Start(ctx, options)
	if errors.Is(err, cluster.ErrExists) {
		return fmt.Errorf("%w, left by an earlier demo; end it with: go run ./e2e/cmd/cluster down -name %s", err, name)
	}
	if err != nil {
		return err
	}
	kept := false
	defer func() {
		if !kept {
			err = errors.Join(err, c.Stop())
		}
	}()
	t.progress("building orphand")
	program, err := daemon.Build(ctx, filepath.Join(c.Dir, "bin"))
	if err != nil {
		return err
	}
	if err := daemon.InstallRecords(ctx, c); err != nil {
		return err
	}
	d, err := daemon.Start(ctx, c, daemon.Options{Program: program})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Stop()) }()
	t.progress("orphand runs, with permission to read and to write down its findings, and nothing else")

	began := time.Now()
	told := newTeller(ctx, t, c, d)
	defer told.close()
	results := told.all()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	failed := t.closing(ctx, results, d, time.Since(began))
	if failed != nil || !keep {
		return failed
	}
	told.close()
	if kept, err = true, d.Stop(); err != nil {
		return err
	}
	log, err := d.Detach()
	if err != nil {
		return err
	}
	t.playground(c, log)
	return nil
}
