// Command mutants tests the judge: it builds the simulator with each deliberately broken variant of the rule, and fails when
// one of them gets through. What only a test can tell is put before the tests.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/orphand/orphand/internal/sim"
	"k8s.io/utils/clock"
)

func main() {
	seeds := flag.Int("seeds", 10000, "how many histories a mutant may survive")
	from := flag.Uint64("from", 0, "first seed")
	root := flag.String("root", ".", "the module's directory")
	only := flag.String("only", "", "only mutants whose names or files contain this")
	flag.Parse()
	if err := run(os.Stdout, *root, *only, *from, *seeds); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(out io.Writer, root, only string, from uint64, seeds int) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	began := clock.RealClock{}.Now()
	caught, survived := 0, 0
	for _, m := range sim.Mutants() {
		if !strings.Contains(m.Name, only) && !strings.Contains(m.File, only) {
			continue
		}
		by, err := try(dir, root, m, from, seeds)
		switch {
		case err != nil:
			return err
		case by == "":
			survived++
			fmt.Fprintf(out, "SURVIVED  %s\n", m.Name)
		default:
			caught++
			fmt.Fprintf(out, "caught    %s: %s\n", m.Name, by)
		}
	}
	fmt.Fprintf(out, "%d mutants caught, %d survived %d seeds each, in %.0f s\n", caught, survived, seeds, clock.RealClock{}.Since(began).Seconds())
	if survived > 0 {
		return errors.New("a mutant survived: the simulator would not notice that mistake")
	}
	return nil
}

// try builds the simulator with the mutant in the place of the source, and plays until it is caught. It returns what caught
// it, or nothing.
func try(dir, root string, m sim.Mutant, from uint64, seeds int) (string, error) {
	source, err := m.Source(root)
	if err != nil {
		return "", err
	}
	mutated := filepath.Join(dir, filepath.Base(m.File))
	if err := os.WriteFile(mutated, source, 0o600); err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(root, m.File): mutated}})
	if err != nil {
		return "", err
	}
	plan, program := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "sim")
	if err := os.WriteFile(plan, overlay, 0o600); err != nil {
		return "", err
	}
	if len(m.Tests) > 0 {
		return test(root, plan, m)
	}
	build := exec.Command("go", "build", "-overlay", plan, "-o", program, "./internal/sim/cmd/sim")
	build.Dir = root
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("mutant %q does not build: %w\n%s", m.Name, err, text)
	}
	play := exec.Command(program, "-quiet", "-seeds", strconv.Itoa(seeds), "-from", strconv.FormatUint(from, 10))
	text, err := play.Output()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "", nil
	case errors.As(err, &exit) && exit.ExitCode() == 1:
		return "seed " + strings.TrimSpace(string(text)), nil
	}
	return "", fmt.Errorf("mutant %q: %w\n%s", m.Name, err, text)
}

// test runs the tests that catch the mutant. It returns the first that fails, or nothing.
func test(root, plan string, m sim.Mutant) (string, error) {
	run := exec.Command("go", append([]string{"test", "-overlay", plan, "-count=1"}, m.Tests...)...)
	run.Dir = root
	text, err := run.CombinedOutput()
	if err == nil {
		return "", nil
	}
	if first := failing.FindString(string(text)); first != "" {
		return strings.TrimPrefix(strings.TrimSpace(first), "--- FAIL: "), nil
	}
	return "", fmt.Errorf("mutant %q: %w\n%s", m.Name, err, text)
}

// failing is the line of a subtest that fails.
var failing = regexp.MustCompile(`(?m)^ +--- FAIL: \S+`)
