package scenarios_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/orphand/orphand/e2e/cluster"
	"github.com/orphand/orphand/e2e/daemon"
)

// shared is the cluster of all scenarios that need none of their own, and watcher
// the orphand that follows it from before the first to after the last. Each
// scenario adds nodes for its accidents, and places its pods on them.
var (
	shared  *cluster.Cluster
	watcher *daemon.Daemon
	program string
)

// patience is how long a node may be silent before it counts as unreachable: more
// than by default, since several scenarios run beside each other.
const patience = 10 * time.Second

func TestMain(m *testing.M) {
	// Scenarios mostly wait. More of them at a time than there are processors is
	// what makes the whole take minutes.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	code, err := run(ctx, m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func run(ctx context.Context, m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "orphand-scenarios-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	if program, err = daemon.Build(ctx, dir); err != nil {
		return 1, err
	}
	shared, err = cluster.Start(ctx, cluster.Options{Nodes: 1, MonitorGrace: patience, Progress: progress})
	if err != nil {
		return 1, err
	}
	defer func() {
		if stopErr := shared.Stop(); err == nil {
			err = stopErr
		}
	}()
	if err := daemon.InstallRecords(ctx, shared); err != nil {
		return 1, err
	}
	if watcher, err = daemon.Start(ctx, shared, daemon.Options{Program: program}); err != nil {
		return 1, err
	}
	code = m.Run()
	if lies := watcher.Judge().Lies(); len(lies) > 0 {
		code = 1
		fmt.Fprintln(os.Stderr, "orphand's words and the truth differ:", lies)
	}
	if wrong, auditErr := wrongDeletes(shared); auditErr != nil || len(wrong) > 0 {
		code = 1
		fmt.Fprintln(os.Stderr, "orphand's writes in the audit log:", wrong, auditErr)
	}
	if keep := os.Getenv("ORPHAND_E2E_LOG"); keep != "" {
		text, _ := os.ReadFile(filepath.Join(shared.Dir, "log", "orphand.log"))
		_ = os.WriteFile(keep, text, 0o644)
	}
	return code, watcher.Stop()
}

func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
