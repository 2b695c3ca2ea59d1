package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// counts are tests without subtests, and subtests.
type counts struct {
	passed, failed, skipped int
}

func (c *counts) add(o counts) {
	c.passed += o.passed
	c.failed += o.failed
	c.skipped += o.skipped
}

func (c counts) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", c.passed, c.failed, c.skipped)
}

// event is a line of go test -json (go doc test2json, and go help buildjson for the build's).
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Elapsed    float64
	Output     string
}

// report reads the events of one go test.
type report struct {
	counts   counts
	w        io.Writer
	tests    map[string]*test
	packages map[string]*pkg
}

type test struct {
	output strings.Builder
	parent bool
	done   bool
}

type pkg struct {
	output                  strings.Builder
	passed, failed, skipped int
}

func newReport(w io.Writer) *report {
	return &report{w: w, tests: map[string]*test{}, packages: map[string]*pkg{}}
}

// slow is from how many seconds on a test that passed has a line of its own.
const slow = 2

func (r *report) read(from io.Reader) error {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) == nil && e.Action != "" {
				r.take(e)
			} else {
				_, _ = r.w.Write(line)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the tests' output: %w", err)
		}
	}
}

func (r *report) take(e event) {
	switch {
	case e.Action == "build-output":
		fmt.Fprint(r.w, e.Output)
	case e.Package == "":
	case e.Test == "":
		r.takePackage(e)
	default:
		r.takeTest(e)
	}
}

func (r *report) pkg(path string) *pkg {
	p := r.packages[path]
	if p == nil {
		p = &pkg{}
		r.packages[path] = p
	}
	return p
}

func (r *report) test(path, name string) *test {
	key := path + "\x00" + name
	t := r.tests[key]
	if t == nil {
		t = &test{}
		r.tests[key] = t
		if i := strings.LastIndexByte(name, '/'); i >= 0 {
			r.test(path, name[:i]).parent = true
		}
	}
	return t
}

func (r *report) takeTest(e event) {
	t, p := r.test(e.Package, e.Test), r.pkg(e.Package)
	switch e.Action {
	case "output":
		t.output.WriteString(e.Output)
		return
	case "pass", "fail", "skip":
		t.done = true
	default:
		return
	}
	top := !strings.Contains(e.Test, "/")
	switch e.Action {
	case "pass":
		if !t.parent {
			r.counts.passed++
			p.passed++
		}
		if top && e.Elapsed >= slow {
			fmt.Fprintf(r.w, "pass %s (%.1fs)\n", e.Test, e.Elapsed)
		}
	case "skip":
		if !t.parent {
			r.counts.skipped++
			p.skipped++
		}
		fmt.Fprint(r.w, t.output.String())
	case "fail":
		// A parent fails with its children, and also by itself; either way at least one failure is counted.
		if !t.parent || p.failed == 0 {
			r.counts.failed++
			p.failed++
		}
		fmt.Fprint(r.w, t.output.String())
	}
	t.output.Reset()
}

func (r *report) takePackage(e event) {
	p := r.pkg(e.Package)
	switch e.Action {
	case "output":
		p.output.WriteString(e.Output)
	case "skip":
		// No test files: worth no line.
	case "pass":
		fmt.Fprintf(r.w, "ok   %s (%.1fs): %d passed%s\n", e.Package, e.Elapsed, p.passed, also(p.skipped, "skipped"))
		fmt.Fprint(r.w, ofNote(p.output.String()))
	case "fail":
		r.unfinished(e.Package)
		if p.failed == 0 { // It did not build, or ended outside of any test.
			r.counts.failed++
			p.failed++
		}
		fmt.Fprint(r.w, p.output.String())
		fmt.Fprintf(r.w, "FAIL %s (%.1fs): %d passed, %d failed%s\n", e.Package, e.Elapsed, p.passed, p.failed, also(p.skipped, "skipped"))
	}
}

// unfinished shows what tests had written that neither passed nor failed: the process ended under them.
func (r *report) unfinished(path string) {
	for key, t := range r.tests {
		if name, ok := strings.CutPrefix(key, path+"\x00"); ok && !t.done {
			fmt.Fprintf(r.w, "%s%s did not finish\n", t.output.String(), name)
		}
	}
}

func also(n int, what string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", %d %s", n, what)
}

// ofNote keeps what a package's tests wrote outside of any test, without go test's own closing words.
func ofNote(output string) string {
	var keep strings.Builder
	for line := range strings.Lines(output) {
		switch {
		case line == "PASS\n", strings.HasPrefix(line, "ok  \t"), strings.HasPrefix(line, "coverage:"), strings.HasPrefix(line, "testing: warning: no tests"):
		default:
			keep.WriteString(line)
		}
	}
	return keep.String()
}
