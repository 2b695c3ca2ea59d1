// Command tally runs suites of Go tests, shows what failed, and counts what ran.
//
//	tally SUITE [GO TEST ARGUMENT...] [, SUITE [GO TEST ARGUMENT...]]...
//
// Every suite runs, whatever became of the ones before. The last line counts all of them together:
//
//	unit+e2e: 123 passed, 0 failed, 0 skipped
//
// It ends with status 0 only if every suite ran at least one test and none failed.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	suites, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "tally:", err)
		os.Exit(2)
	}
	var total counts
	var names []string
	for _, s := range suites {
		c := run(ctx, s, os.Stdout)
		total.add(c)
		names = append(names, s.name)
		if len(suites) > 1 {
			fmt.Printf("%s: %s\n", s.name, c)
		}
	}
	fmt.Printf("%s: %s\n", strings.Join(names, "+"), total)
	if total.failed > 0 {
		os.Exit(1)
	}
}

// suite is one call of go test.
type suite struct {
	name      string
	arguments []string
}

func parse(arguments []string) ([]suite, error) {
	var suites []suite
	for len(arguments) > 0 {
		end := slices.Index(arguments, ",")
		if end < 0 {
			end = len(arguments)
		}
		if end == 0 {
			return nil, fmt.Errorf("a suite has no name")
		}
		suites = append(suites, suite{name: arguments[0], arguments: arguments[1:end]})
		arguments = arguments[min(end+1, len(arguments)):]
	}
	if len(suites) == 0 {
		return nil, fmt.Errorf("usage: tally SUITE [GO TEST ARGUMENT...] [, SUITE ...]")
	}
	return suites, nil
}

// run runs one suite. Whatever goes wrong counts as at least one failure.
func run(ctx context.Context, s suite, w io.Writer) counts {
	// -C must come first, so -json goes behind it.
	arguments := []string{"test"}
	rest := s.arguments
	if len(rest) > 1 && rest[0] == "-C" {
		arguments, rest = append(arguments, rest[:2]...), rest[2:]
	}
	command := exec.CommandContext(ctx, "go", append(append(arguments, "-json"), rest...)...)
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		fmt.Fprintf(w, "%s: %v\n", s.name, err)
		return counts{failed: 1}
	}
	report := newReport(w)
	readErr := report.read(output)
	waitErr := command.Wait()
	c := report.counts
	switch {
	case c.failed > 0:
	case waitErr != nil:
		fmt.Fprintf(w, "%s: go test: %v\n", s.name, waitErr)
		c.failed++
	case readErr != nil:
		fmt.Fprintf(w, "%s: %v\n", s.name, readErr)
		c.failed++
	case c.passed == 0:
		fmt.Fprintf(w, "%s: no test ran\n", s.name)
		c.failed++
	}
	return c
}
