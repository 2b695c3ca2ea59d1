package alerts

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/orphand/orphand/pkg/signals"
)

// make docs writes what is made from the table, and these tests fail while it differs.
var update = flag.Bool("update", false, "write what is made from the table")

const root = "../.."

func TestDocsRulesAndRunbooksAreWhatTheTableSays(t *testing.T) {
	for name, text := range Files() {
		path := filepath.Join(root, name)
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		have, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(have) != text {
			t.Errorf("%s is not what the table says: run make docs", name)
		}
	}
}

func TestDocsNoRunbookIsOfAnAlertThatIsNoMore(t *testing.T) {
	pages, err := filepath.Glob(root + "/docs/runbooks/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		name := strings.TrimSuffix(filepath.Base(page), ".md")
		if _, ok := Find(name); ok {
			continue
		}
		if !*update {
			t.Errorf("docs/runbooks/%s.md is of no alert: run make docs", name)
		} else if err := os.Remove(page); err != nil {
			t.Fatal(err)
		}
	}
}

func TestEveryFindingHasAnAlertAndEveryAlertSaysWhatToTypeNext(t *testing.T) {
	var names []string
	for _, a := range All() {
		if slices.Contains(names, a.Name) {
			t.Errorf("%s stands in the table twice", a.Name)
		}
		names = append(names, a.Name)
		shown := slices.ContainsFunc(a.Look, func(s Step) bool { return strings.HasPrefix(a.Next, s.Command) || strings.HasPrefix(s.Command, a.Next) })
		if a.Next == "" || !shown {
			t.Errorf("%s: the next command is not in its runbook", a.Name)
		}
		for what, text := range map[string]string{"summary": a.Summary, "meaning": a.Meaning, "cost": a.Cost, "end": a.Ends} {
			if !strings.HasSuffix(text, ".") {
				t.Errorf("%s: the %s is no sentence: %q", a.Name, what, text)
			}
		}
		if len(a.Do) == 0 || !strings.HasPrefix(a.Name, Prefix) {
			t.Errorf("%s: nothing to do", a.Name)
		}
	}
	for _, f := range signals.Findings() {
		a, ok := Find(Prefix + string(f.Code))
		if !ok || a.Severity != f.Severity {
			t.Errorf("%s has no alert of its severity", f.Code)
		}
	}
}
