package app

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	quietHistory = "at: 0s\ntype: ADDED\nobject: {apiVersion: v1, kind: Pod, metadata: {namespace: team-a, name: p1, uid: P1, labels: {jobset.sigs.k8s.io/jobset-name: tj, jobset.sigs.k8s.io/jobset-uid: J1}}}\n---\n" +
		"at: 10s\nexpect: {jobs: {team-a/tj: Settling}, pods: {p1: Alive/Pending}}\n"
	wrongHistory = "at: 0s\ndaemon: stop\n---\nat: 10s\nexpect:\n  jobs:\n    team-a/tj: Settled\n"
	noHistory    = "at: 0s\ndaemon: halt\n"
)

func historyFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "history.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReplayExitsWithTheGravestOfWhatItMet(t *testing.T) {
	quiet, wrong, no := historyFile(t, quietHistory), historyFile(t, wrongHistory), historyFile(t, noHistory)
	missing := filepath.Join(t.TempDir(), "missing.yaml")
	for name, test := range map[string]struct {
		args []string
		code int
		errs []string
	}{
		"what holds":             {[]string{quiet}, ExitOK, nil},
		"what does not hold":     {[]string{wrong}, ExitFailure, []string{wrong + ":7: document 2: at 10s: expect.jobs team-a/tj: got nothing, want Settled", "1 of 1 expectations did not hold"}},
		"what is malformed":      {[]string{no}, ExitUsage, []string{no + `:2: document 1: daemon is "halt": expected one of stop, start`}},
		"a file that is missing": {[]string{missing}, ExitUsage, []string{missing + ": no such file or directory"}},
		"all of them at once":    {[]string{quiet, wrong, no}, ExitUsage, []string{wrong + ":7", no + ":2"}},
		"no file":                {nil, ExitUsage, []string{"replay needs a FILE"}},
		"an output that is none": {[]string{"-o", "yaml", quiet}, ExitUsage, []string{`-o "yaml": use table or json`}},
		"a misspelt field, in passing": {[]string{historyFile(t, strings.Replace(quietHistory, "uid: P1,", "uid: P1, lables: {},", 1))}, ExitOK,
			[]string{`warning: `, `unknown field "metadata.lables"`}},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, errs := command(t, append([]string{"replay"}, test.args...)...)
			if code != test.code {
				t.Errorf("it exits with %d, not %d: %s", code, test.code, errs)
			}
			for _, want := range test.errs {
				if !strings.Contains(errs, want) {
					t.Errorf("it says\n%sand not\n%s", errs, want)
				}
			}
			if test.errs == nil && errs != "" {
				t.Errorf("it says %s", errs)
			}
		})
	}
}

func TestReplayPrintsATableWithTheFilesNames(t *testing.T) {
	quiet := historyFile(t, quietHistory)
	_, out, _ := command(t, "replay", quiet)
	want := `OFFSET   JOB         UID         WHAT     FROM   TO              DETAIL
0s       team-a/tj   jobset:J1   pod/p1   -      Alive/Pending   -
0s       team-a/tj   jobset:J1   job      -      Settling        -
`
	if out != want {
		t.Errorf("it prints\n%s\nand not\n%s", out, want)
	}
	_, out, _ = command(t, "replay", quiet, quiet)
	if got := "==> " + quiet + " <==\n" + want + "\n==> " + quiet + " <==\n" + want; out != got {
		t.Errorf("of two files it prints\n%s", out)
	}
}

func TestReplayPrintsTheFieldsOfTheLogAsJSONLines(t *testing.T) {
	quiet := historyFile(t, quietHistory)
	_, out, _ := command(t, "replay", "-o", "json", quiet)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 2 {
		t.Fatalf("it prints %q", out)
	}
	var first map[string]any
	if err := json.Unmarshal([]byte(lines[0]), &first); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{"file": quiet, "offset": "0s", "time": "2026-01-01T00:00:00Z", "event": "PodVerdictChanged", "job": "team-a/tj",
		"uid": "jobset:J1", "pod": "p1", "podUID": "P1", "verdict": "Alive", "reason": "Pending"} {
		if first[key] != want {
			t.Errorf("%s is %v, not %v", key, first[key], want)
		}
	}
}

func TestReplayReadsStandardInput(t *testing.T) {
	var out, errs bytes.Buffer
	root := NewCommand(Streams{Out: &out, Err: &errs})
	root.SetIn(strings.NewReader(quietHistory))
	root.SetArgs([]string{"replay", "-"})
	if err := root.Execute(); err != nil {
		t.Fatal(err, errs.String())
	}
	if !strings.Contains(out.String(), "Alive/Pending") {
		t.Errorf("it prints %q", out.String())
	}
}
