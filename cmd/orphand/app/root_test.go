package app

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// command runs a command line in an environment without any cluster.
func command(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBECONFIG", "")
	t.Setenv("KUBERNETES_MASTER", "")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	var stdout, stderr bytes.Buffer
	code = Main(context.Background(), args, Streams{Out: &stdout, Err: &stderr})
	return code, stdout.String(), stderr.String()
}

func kubeconfig(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const validKubeconfig = `{apiVersion: v1, kind: Config, current-context: c,
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}], contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: {token: x}}]}`

func TestWhatPeopleGetWrongIsOneLineWithTheFlagAndTheCure(t *testing.T) {
	valid := kubeconfig(t, validKubeconfig)
	for name, test := range map[string]struct {
		args []string
		want []string
	}{
		"no kubeconfig":                {[]string{"run"}, []string{"no kubeconfig names a server", "config", "give --kubeconfig"}},
		"a kubeconfig that is missing": {[]string{"run", "--kubeconfig", "/nowhere/config"}, []string{"--kubeconfig", "/nowhere/config", "no such file", "that exists"}},
		"a kubeconfig that is empty":   {[]string{"run", "--kubeconfig", kubeconfig(t, "")}, []string{"no kubeconfig names a server"}},
		"a kubeconfig that is no YAML": {[]string{"run", "--kubeconfig", kubeconfig(t, "{{")}, []string{"the kubeconfig cannot be used"}},
		"a context that is missing":    {[]string{"run", "--kubeconfig", valid, "--context", "other"}, []string{`context "other" does not exist`}},
		"an unknown flag":              {[]string{"run", "--colour"}, []string{"--colour", "see orphand run --help"}},
		"an unknown command":           {[]string{"rnu"}, []string{`"rnu"`, "see orphand --help"}},
		"an argument too many":         {[]string{"run", "now"}, []string{"orphand run takes no arguments", "now"}},
		"a port that is none":          {[]string{"run", "--kubeconfig", valid, "--http-address", ":99999"}, []string{"--http-address", "0 to 65535"}},
		"an election nowhere":          {[]string{"run", "--kubeconfig", valid, "--leader-elect"}, []string{"--leader-elect-lease-namespace", "name the Lease's namespace"}},
		"timings that cannot work": {[]string{"run", "--kubeconfig", valid, "--leader-elect", "--leader-elect-lease-namespace", "x", "--leader-elect-renew-deadline", "20s"},
			[]string{"--leader-elect-lease-duration 15s", "more than --leader-elect-renew-deadline"}},
		"several at once": {[]string{"run", "--workers", "many", "--settle-quiet", "5", "--log-level", "loud", "--kube-api-qps", "-1", "--node-deletion-quarantine", "-1s"},
			[]string{`--workers "many": use a whole number`, `--settle-quiet "5": use a duration`, "--log-level", "--kube-api-qps", "--node-deletion-quarantine -1s: use 0s or more", "give --kubeconfig"}},
		"an output that is none": {[]string{"version", "-o", "yaml"}, []string{"--output", "json"}},
		"a shell that is none":   {[]string{"completion", "tcsh"}, []string{"tcsh", "bash"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := command(t, test.args...)
			if code != ExitUsage {
				t.Errorf("exit code %d", code)
			}
			if out != "" || strings.Count(errs, "\n") != 1 {
				t.Errorf("not one line on standard error: %q %q", out, errs)
			}
			for _, text := range test.want {
				if !strings.Contains(errs, text) {
					t.Errorf("no %q in %q", text, errs)
				}
			}
		})
	}
}

func TestAValueThatCannotBeReadIsReportedOnceOnly(t *testing.T) {
	_, _, errs := command(t, "run", "--workers", "many")
	if n := strings.Count(errs, "--workers"); n != 1 {
		t.Errorf("%d times in %q", n, errs)
	}
}

func TestVersionTellsWhatIsRunning(t *testing.T) {
	code, out, _ := command(t, "version")
	if code != ExitOK || !strings.HasPrefix(out, "orphand ") || !strings.Contains(out, "go1.") {
		t.Errorf("%d %q", code, out)
	}
	code, out, _ = command(t, "version", "-o", "json")
	var info buildInfo
	if err := json.Unmarshal([]byte(out), &info); code != ExitOK || err != nil || info.GoVersion == "" {
		t.Errorf("%d %v %q", code, err, out)
	}
}

func TestCompletionIsPrintedForEveryShell(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if code, out, _ := command(t, "completion", shell); code != ExitOK || !strings.Contains(out, "orphand") {
			t.Errorf("%s: %d, %d bytes", shell, code, len(out))
		}
	}
}

func TestHelpGoesToStandardOutput(t *testing.T) {
	for _, args := range [][]string{nil, {"--help"}, {"run", "--help"}} {
		if code, out, errs := command(t, args...); code != ExitOK || !strings.Contains(out, "Usage:") || errs != "" {
			t.Errorf("%v: %d %q", args, code, errs)
		}
	}
}
