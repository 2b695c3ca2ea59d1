package scenarios_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/orphand/orphand/e2e/daemon"
	"github.com/orphand/orphand/pkg/signals"
)

// What people get wrong ends at once with one line that names the cure.
func TestAWrongCommandLineEndsWithOneLineThatNamesTheCure(t *testing.T) {
	t.Parallel()
	kubeconfig := shared.AdminKubeconfig()
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("{this is no kubeconfig"), 0o600); err != nil {
		t.Fatal(err)
	}
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	for _, c := range []struct {
		name string
		args []string
		code int
		says []string
	}{
		{"no kubeconfig", []string{"run"}, 2, []string{"--kubeconfig"}},
		{"a kubeconfig that is not there", []string{"run", "--kubeconfig", "/no/such/file"}, 2, []string{"/no/such/file"}},
		{"a kubeconfig that is none", []string{"run", "--kubeconfig", broken}, 2, []string{"kubeconfig"}},
		{"a context that is not there", []string{"run", "--kubeconfig", kubeconfig, "--context", "mars"}, 2, []string{"mars"}},
		{"a port in use", []string{"run", "--kubeconfig", kubeconfig, "--http-address", busy.Addr().String()}, 1, []string{"--http-address", "in use"}},
		{"an address that is none", []string{"run", "--kubeconfig", kubeconfig, "--http-address", "everywhere"}, 2, []string{"--http-address", "host:port"}},
		{"a duration that is none", []string{"run", "--kubeconfig", kubeconfig, "--settle-quiet", "soon"}, 2, []string{"settle-quiet"}},
		{"no worker", []string{"run", "--kubeconfig", kubeconfig, "--workers", "0"}, 2, []string{"--workers"}},
		{"an unknown flag", []string{"run", "--kubeconfg", kubeconfig}, 2, []string{"--kubeconfg", "--help"}},
		{"an unknown command", []string{"walk"}, 2, []string{"walk", "--help"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stderr := command(t, c.args...)
			t.Logf("exit code %d: %s", code, stderr)
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			lines := strings.Split(strings.TrimSpace(stderr), "\n")
			if c.code == 2 && len(lines) != 1 {
				t.Errorf("%d lines, want one", len(lines))
			}
			for _, word := range c.says {
				if !strings.Contains(lines[len(lines)-1], word) {
					t.Errorf("the last line does not name %q", word)
				}
			}
		})
	}
}

// command runs orphand without any cluster in its environment.
func command(t *testing.T, args ...string) (code int, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
	var out bytes.Buffer
	cmd.Stderr = &out
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		t.Fatalf("it hangs; so far it said: %s", out.String())
	case errors.As(err, &exit):
		code = exit.ExitCode()
	case err != nil:
		t.Fatal(err)
	}
	return code, out.String()
}

// An API server that cannot be reached is waited for, with words.
func TestAnUnreachableAPIServerIsSaidAndWaitedFor(t *testing.T) {
	t.Parallel()
	s := open(t)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	s.ok(err)
	address := closed.Addr().String()
	s.ok(closed.Close())
	d := s.also(daemon.Options{Kubeconfig: s.c.AdminKubeconfig(), Flags: []string{"--server", "https://" + address}})
	e := s.hearsFrom(d, daemon.Code(signals.APIUnreachable))
	if !strings.Contains(e.Cure, "--kubeconfig") || !strings.Contains(e.Line, address) {
		t.Errorf("the line names neither the server nor the cure: %s", e.Line)
	}
	status, body, err := d.Get(t.Context(), "/readyz")
	s.ok(err)
	t.Logf("/readyz: %d\n%s", status, body)
	if status != 503 || !strings.Contains(body, address) {
		t.Error("/readyz does not say which server does not answer")
	}
	if status, _, err := d.Get(t.Context(), "/livez"); err != nil || status != 200 {
		t.Errorf("/livez: %d, %v; a restart would not help", status, err)
	}
}
