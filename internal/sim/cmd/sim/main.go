// Command sim plays simulated histories before orphand's rule and engine, and fails when orphand lies in one.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/orphand/orphand/internal/sim"
	"github.com/orphand/orphand/pkg/nodeproof"
	"k8s.io/utils/clock"
)

type options struct {
	from             uint64
	seeds, workers   int
	show             int
	cover, quiet     bool
	enforce          bool
	timeline, shrink bool
	replay           string
}

func main() {
	var o options
	flag.Uint64Var(&o.from, "from", 0, "first seed")
	flag.IntVar(&o.seeds, "seeds", 1000, "how many seeds to play")
	flag.IntVar(&o.workers, "workers", runtime.GOMAXPROCS(0), "how many to play at a time")
	flag.IntVar(&o.show, "show", 10, "how many failures to show")
	flag.BoolVar(&o.cover, "cover", false, "fail when a verdict with one of its reasons never occurs")
	flag.BoolVar(&o.enforce, "enforce", false, "play only the histories in which orphand deletes")
	flag.BoolVar(&o.quiet, "quiet", false, "print nothing but the first failure's seed")
	flag.BoolVar(&o.timeline, "timeline", false, "play the first seed only, and print everything that happens")
	flag.BoolVar(&o.shrink, "shrink", false, "make the history smaller before -timeline prints it")
	flag.StringVar(&o.replay, "replay", "sim-failure.yaml", "where to write the smallest history of the first failure, as a replay file; empty for nowhere")
	flag.Parse()
	debug.SetGCPercent(400) // histories live for milliseconds: memory is cheaper than its collection
	os.Exit(run(o, os.Stdout))
}

func run(o options, out io.Writer) int {
	if o.timeline {
		return timeline(o, out)
	}
	began := clock.RealClock{}.Now()
	var enough func(int) bool
	if o.quiet {
		enough = func(failed int) bool { return failed > 0 }
	}
	var only func(sim.Plan) bool
	if o.enforce {
		only = func(p sim.Plan) bool { return p.Enforce.On }
	}
	r := sim.Run(o.from, o.seeds, o.workers, enough, only)
	took := clock.RealClock{}.Since(began)
	if o.quiet {
		if len(r.Failed) == 0 {
			return 0
		}
		fmt.Fprintf(out, "%d %s\n", r.Failed[0].Plan.Seed, r.Failed[0].Violations[0])
		return 1
	}
	fmt.Fprintf(out, "%d seeds from %d in %.1f s: %.0f a second with %d workers\n", r.Seeds, o.from, took.Seconds(), float64(r.Seeds)/took.Seconds(), o.workers)
	describe(r.Tally, out)
	code := 0
	if missing := r.Tally.Missing(); o.cover && len(missing) > 0 {
		fmt.Fprintf(out, "NOT COVERED: %v\n", missing)
		code = 1
	}
	if len(r.Failed) == 0 {
		fmt.Fprintln(out, "no violation")
		return code
	}
	fmt.Fprintf(out, "VIOLATIONS in %d histories\n", len(r.Failed))
	for i, f := range r.Failed {
		if i == o.show {
			break
		}
		fmt.Fprintf(out, "  seed %d (%s): %s\n", f.Plan.Seed, trust(f), f.Violations[0])
	}
	first := r.Failed[0].Plan
	fmt.Fprintf(out, "see it: go run ./internal/sim/cmd/sim -from %d -timeline -shrink\n", first.Seed)
	if o.replay != "" {
		if err := write(o.replay, first); err != nil {
			fmt.Fprintln(out, err)
		} else {
			fmt.Fprintf(out, "replay it: orphand replay %s\n", o.replay)
		}
	}
	return 1
}

func trust(r sim.Result) string {
	if r.Trusted {
		return "nobody lied"
	}
	return "somebody lied"
}

func write(path string, p sim.Plan) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := sim.Play(sim.Shrink(p), true).Replay(f); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

func timeline(o options, out io.Writer) int {
	p := sim.NewPlan(o.from)
	if o.shrink {
		p = sim.Shrink(p)
	}
	r := sim.Play(p, true)
	fmt.Fprintf(out, "%s\n", p)
	r.Timeline(out)
	for _, v := range r.Violations {
		fmt.Fprintln(out, v)
	}
	if len(r.Violations) > 0 {
		return 1
	}
	return 0
}

// describe prints what happened, so that it is seen which rules were put to the test.
func describe(t *sim.Tally, out io.Writer) {
	fmt.Fprintf(out, "histories: %d without a lie, %d with one\n", t.Trusted, t.Untrusted)
	fmt.Fprintf(out, "%d TrainJobs, %d pods, %d processes, %d writes, %d live reads, %d changes of a verdict\n", t.Jobs, t.Pods, t.Starts, t.Writes, t.Reads, t.Changes())
	fmt.Fprintf(out, "not held against it: %d processes that a lie covers, %d pods that nobody could see, %d that were forgotten in a restart without records\n", t.Excused, t.Unseen, t.Forgotten)
	for _, p := range nodeproof.Pairs() {
		fmt.Fprintf(out, "  %-9s %-19s %d\n", p.Verdict, p.Reason, t.Verdicts[p])
	}
	fmt.Fprintf(out, "  of these weak: %d\n", t.Weak)
	table(out, "states", t.States)
	table(out, "findings", t.Findings)
	table(out, "deletes", t.Deleting)
	fmt.Fprint(out, "vouched for by a person at the end:\n")
	for _, p := range nodeproof.Pairs() {
		if n := t.Attested[p]; n > 0 {
			fmt.Fprintf(out, "  %s/%s: %d\n", p.Verdict, p.Reason, n)
		}
	}
}

func table[K cmp.Ordered](out io.Writer, name string, counts map[K]int) {
	keys := make([]K, 0, len(counts))
	for k := range counts {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	fmt.Fprintf(out, "%s:\n", name)
	for _, k := range keys {
		fmt.Fprintf(out, "  %v: %d\n", k, counts[k])
	}
}
