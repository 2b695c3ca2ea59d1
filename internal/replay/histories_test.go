package replay_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/orphand/orphand/cmd/orphand/app"
	"github.com/orphand/orphand/internal/replay"
	"github.com/orphand/orphand/pkg/nodeproof"
	"github.com/orphand/orphand/pkg/settle"
)

const testdata = "../../testdata"

// histories lists the histories of the project: reported faults, and the rules of the proof. What is in a directory named
// pending waits for something that does not exist yet, and is not played.
func histories(t testing.TB) []string {
	t.Helper()
	var all []string
	for _, dir := range []string{"cases", "rules"} {
		files, err := filepath.Glob(filepath.Join(testdata, dir, "*.yaml"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no histories in %s: %v", dir, err)
		}
		all = append(all, files...)
	}
	return all
}

func read(t testing.TB, program replay.Program, file string) *replay.History {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	h, err := replay.Read(file, data, program.Flags())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func play(t testing.TB, program replay.Program, h *replay.History) *replay.Result {
	t.Helper()
	r, err := program.Play(h)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestEveryHistoryEndsAsExpected(t *testing.T) {
	for _, file := range histories(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			program := app.ReplayProgram()
			h := read(t, program, file)
			for _, w := range h.Warnings {
				t.Error(w)
			}
			r := play(t, program, h)
			for _, f := range r.Failures {
				t.Error(f)
			}
			if r.Checked == 0 {
				t.Error("it expects nothing")
			}
		})
	}
}

// What is pending is well formed: it waits for the daemon, not for its author.
func TestWhatIsPendingCanBeRead(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testdata, "*", "pending", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		read(t, app.ReplayProgram(), file)
	}
}

// A history plays the same at every time, to the byte, in both outputs.
func TestTwoRunsPrintTheSame(t *testing.T) {
	for _, file := range histories(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			program := app.ReplayProgram()
			var first string
			for i := range 5 {
				h := read(t, program, file)
				r := play(t, program, h)
				var out bytes.Buffer
				if err := replay.WriteTable(&out, r.Lines); err != nil {
					t.Fatal(err)
				}
				if err := replay.WriteJSON(&out, file, h.Start, r.Lines); err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					first = out.String()
				} else if out.String() != first {
					t.Fatalf("it printed\n%s\nand then\n%s", first, out.String())
				}
			}
		})
	}
}

// Every expectation of every history would fail were it another: none of them holds by not being looked at.
func TestEveryOtherExpectationFails(t *testing.T) {
	program := app.ReplayProgram()
	for _, file := range histories(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			h := read(t, program, file)
			spoilt := map[int]int{}
			for i := range h.Steps {
				if c := h.Steps[i].Check; c != nil && c.Wanted != nil {
					spoil(c.Wanted, spoilt)
				}
			}
			for _, f := range play(t, program, h).Failures {
				spoilt[f.Line]--
			}
			for line, held := range spoilt {
				if held != 0 {
					t.Errorf("of what was spoilt in line %d, %d held", line, held)
				}
			}
		})
	}
}

// spoil makes every claim another, and counts them by line.
func spoil(c *replay.Claims, spoilt map[int]int) {
	note := func(p replay.Place) { spoilt[p.Line]++ }
	for i := range c.Jobs {
		j := &c.Jobs[i]
		note(j.Place)
		if j.State == settle.Elsewhere {
			j.State = settle.Settled
		} else {
			j.State = settle.Elsewhere
		}
	}
	for i := range c.Pods {
		p := &c.Pods[i]
		note(p.Place)
		p.Reason = "" // which accepts any
		if p.Verdict == nodeproof.Gone {
			p.Verdict = nodeproof.Alive
		} else {
			p.Verdict = nodeproof.Gone
		}
	}
	for i := range c.FindingsCount {
		note(c.FindingsCount[i].Place)
		c.FindingsCount[i].Count += 7
	}
	for i := range c.Metrics {
		note(c.Metrics[i].Place)
		c.Metrics[i].Value += 7
	}
	if c.Findings != nil {
		note(c.Findings.Place)
		c.Findings.Codes = append(c.Findings.Codes, replay.CodeClaim{Code: "NoSuchFinding"})
	}
	if c.Deletes != nil {
		note(c.Deletes.Place)
		c.Deletes.Deletes = append(c.Deletes.Deletes, replay.DeleteClaim{Ref: "team-x/pod/none"})
	}
}

func BenchmarkHistories(b *testing.B) {
	program := app.ReplayProgram()
	var all []*replay.History
	for _, file := range histories(b) {
		all = append(all, read(b, program, file))
	}
	b.ResetTimer()
	for range b.N {
		for _, h := range all {
			play(b, program, h)
		}
	}
	b.ReportMetric(float64(b.N*len(all))/b.Elapsed().Seconds(), "histories/s")
}
