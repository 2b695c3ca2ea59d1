package house

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// renamed is one thing that others rely on, called otherwise in the code alone, and the test of make docs-check that must
// notice.
type renamed struct {
	what, file, from, to, notices string
}

// renames are in two rounds: the name of a finding is in what is made from the metrics and from the alerts too, and that of
// an event in what is made from the alerts, where they would hide that the test there notices nothing else.
func renames() [][]renamed {
	return [][]renamed{{
		{"a metric", "pkg/metrics/recorder.go", `"orphand_panics_total"`, `"orphand_panicked_total"`, "TestDocsMetrics"},
		{"a flag", "cmd/orphand/app/options.go", `"settle-quiet", o.SettleQuiet,`, `"settle-pause", o.SettleQuiet,`, "TestDocsFlags"},
		{"an exit code", "cmd/orphand/app/exit.go", "ExitIncomplete = 7", "ExitIncomplete = 8", "TestDocsExitCodes"},
		{"a permission", "pkg/access/table.go", `Resource: "cronjobs"`, `Resource: "cronworks"`, "TestDocsManifestsAndThePageAreWhatTheTableSays"},
		{"an alert", "internal/alerts/own.go", `"OrphandWorkStuck"`, `"OrphandWorkHangs"`, "TestDocsRulesAndRunbooksAreWhatTheTableSays"},
	}, {
		{"an event", "pkg/signals/events.go", `= "CachesSynced"`, `= "CachesFilled"`, "TestDocsEvents"},
		{"a finding", "pkg/signals/findings.go", `= "ClockSkew"`, `= "ClockDrift"`, "TestDocsFindings"},
	}}
}

// The check is run as the Makefile runs it, on code that is renamed and pages that are not.
func TestDocsCheckFailsForWhatIsRenamedInTheCodeOnly(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	documented := regexp.MustCompile(`(?m)^DOCUMENTED\s*=\s*(.+)$`).FindSubmatch(makefile)
	check := regexp.MustCompile(`(?m)^docs-check:.*\n\t\$\(GO\) test \$\(DOCUMENTED\) (.+)$`).FindSubmatch(makefile)
	if documented == nil || check == nil {
		t.Fatal("the Makefile's docs-check is not what this test knows")
	}
	for _, round := range renames() {
		args := []string{"test", "-overlay=" + overlay(t, round)}
		args = append(args, strings.Fields(string(documented[1]))...)
		args = append(args, strings.Fields(strings.ReplaceAll(string(check[1]), "'", ""))...)
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = root
		output, err := cmd.CombinedOutput()
		if err == nil {
			t.Errorf("it passes\n%s", output)
		}
		for _, r := range round {
			if !strings.Contains(string(output), "--- FAIL: "+r.notices+" ") {
				t.Errorf("%s: %s did not notice\n%s", r.what, r.notices, output)
			}
		}
	}
}

// overlay has the go command see renamed files in the places of those that are there, and returns its file.
func overlay(t *testing.T, round []renamed) string {
	t.Helper()
	dir := t.TempDir()
	var replace struct{ Replace map[string]string }
	replace.Replace = map[string]string{}
	for i, r := range round {
		path, err := filepath.Abs(filepath.Join(root, r.file))
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(string(text), r.from) != 1 {
			t.Fatalf("%s: %s stands %d times in %s", r.what, r.from, strings.Count(string(text), r.from), r.file)
		}
		replace.Replace[path] = filepath.Join(dir, strconv.Itoa(i)+".go")
		if err := os.WriteFile(replace.Replace[path], []byte(strings.Replace(string(text), r.from, r.to, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	data, err := json.Marshal(replace)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
