package install_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/orphand/orphand/e2e/cluster"
	"github.com/orphand/orphand/e2e/daemon"
)

// shared is the cluster of all tests, and program the orphand that they run.
var (
	shared  *cluster.Cluster
	program string
)

// root is the repository.
const root = "../.."

func TestMain(m *testing.M) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	code, err := run(ctx, m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(ctx context.Context, m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "orphand-install-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	if program, err = daemon.Build(ctx, dir); err != nil {
		return 1, err
	}
	shared, err = cluster.Start(ctx, cluster.Options{Nodes: 2, Progress: progress})
	if err != nil {
		return 1, err
	}
	defer func() {
		if stopErr := shared.Stop(); err == nil {
			err = stopErr
		}
	}()
	return m.Run(), nil
}

func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// kubectl runs kubectl as administrator in the repository.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	output, err := command(t.Context(), shared.Kubectl(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return output
}

// command runs a program in the repository, and returns what it wrote.
func command(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, _ = filepath.Abs(root)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+shared.AdminKubeconfig())
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w\n%s%s", filepath.Base(name), strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String(), nil
}
