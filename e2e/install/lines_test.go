package install_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/orphand/orphand/e2e/cluster"
	"github.com/orphand/orphand/e2e/daemon"
	"github.com/orphand/orphand/internal/alerts"
	"github.com/orphand/orphand/pkg/access"
	"github.com/orphand/orphand/pkg/signals"
)

// tool is a program that make alerts-test provides, by its name or its path.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv(needPrometheus) != "" {
			t.Fatal(err)
		}
		t.Skipf("%s is not there: make alerts-test provides it", name)
	}
	return path
}

// jq and Loki's own parser and pipeline read the lines that a daemon wrote: they let
// through the beginnings of what somebody should see, and nothing else.
func TestTheFilterAndTheLokiRulesFindWhatSomebodyShouldSee(t *testing.T) {
	jq := tool(t, "jq")
	loki := tool(t, mustBe(t, "bin/loki"))
	rules := access.Rules(access.Observe)
	if _, err := shared.UserWithRules(t.Context(), "heard", daemon.Without(rules, "nodes")); err != nil {
		t.Fatal(err)
	}
	d, err := daemon.Start(t.Context(), shared, daemon.Options{Program: program, User: "heard"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Stop() })
	hears := func(w daemon.Want) {
		t.Helper()
		if _, err := d.Await(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	phase := func(event string, p signals.Phase) daemon.Want {
		return daemon.Line(event+" "+string(p), func(e daemon.Event) bool {
			return (e.Finding == event || string(e.Code) == event) && e.Phase == string(p)
		})
	}
	hears(phase(string(signals.NodesUnreadable), signals.Started))
	if _, err := shared.UserWithRules(t.Context(), "heard", rules); err != nil {
		t.Fatal(err)
	}
	hears(phase(string(signals.NodesUnreadable), signals.Ended))
	job, err := shared.SubmitTrainJob(t.Context(), cluster.TrainJobSpec{Name: "unprovable", GraceSeconds: ptr.To[int64](0)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := shared.WaitRunning(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	hears(phase(string(signals.UnprovableGrace), signals.Started))
	if err := shared.DeleteTrainJob(t.Context(), job, metav1.DeletePropagationBackground); err != nil {
		t.Fatal(err)
	}
	hears(phase(string(signals.ForcedRemoval), signals.Started))
	if err := d.Stop(); err != nil {
		t.Fatal(err)
	}

	var written bytes.Buffer
	var want []string
	for _, e := range d.Events() {
		written.WriteString(e.Line + "\n")
		if err := alerts.Conforms([]byte(e.Line)); err != nil {
			t.Errorf("%v\n%s", err, e.Line)
		}
		if e.Phase != string(signals.Ended) && worthSeeing(e) {
			want = append(want, alerts.Prefix+string(e.Code))
		}
	}
	if len(want) < 3 {
		t.Fatalf("only %v of %d lines: nothing was tested", want, len(d.Events()))
	}
	run := func(cmd *exec.Cmd) []string {
		t.Helper()
		cmd.Dir, cmd.Stdin = filepath.Join(root), bytes.NewReader(written.Bytes())
		output, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		return strings.Split(strings.TrimSpace(string(output)), "\n")
	}
	var filtered, counted []string
	for _, line := range run(exec.CommandContext(t.Context(), jq, "-cf", "manifests/alerts/filter.jq")) {
		var alert struct{ Alert, Severity, Runbook, Event string }
		if err := json.Unmarshal([]byte(line), &alert); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		page := "docs/runbooks/" + filepath.Base(alert.Runbook)
		if alert.Alert != alerts.Prefix+alert.Event || alert.Severity == "" || mustExist(t, page) == "" {
			t.Errorf("%+v", alert)
		}
		filtered = append(filtered, alert.Alert)
	}
	for _, line := range run(exec.CommandContext(t.Context(), loki, "manifests/alerts/loki.yaml")) {
		name, _, _ := strings.Cut(line, "\t")
		counted = append(counted, strings.TrimSuffix(name, "Line"))
	}
	if !slices.Equal(filtered, want) {
		t.Errorf("jq lets through %v, want %v", filtered, want)
	}
	if !slices.Equal(counted, want) {
		t.Errorf("Loki counts %v, want %v", counted, want)
	}
	t.Logf("%d of %d lines: %v", len(want), len(d.Events()), want)
}

// worthSeeing says whether a line is one that somebody should be woken for or look
// at in the morning.
func worthSeeing(e daemon.Event) bool {
	if f, ok := signals.LookupFinding(signals.Finding(e.Finding)); ok {
		return f.Severity != signals.Notice
	}
	info, _ := signals.LookupEvent(e.Code)
	return info.Level == signals.Error || e.Code == signals.NodesUnreadable
}

// mustBe is a path of the repository, absolute, whatever is there.
func mustBe(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return path
}
