package sim

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Report is what came of many histories.
type Report struct {
	Seeds  int
	Tally  *Tally
	Failed []Result
}

// Run plays the histories of the seeds from and after, on as many goroutines as workers. Nothing in the report depends on
// how many there are. enough ends it early, by how many have failed; nil for never. only
// chooses among the seeds' plans; nil takes all.
func Run(from uint64, seeds, workers int, enough func(failed int) bool, only func(Plan) bool) Report {
	report := Report{Tally: newTally()}
	var next, failed atomic.Int64
	var mu sync.Mutex
	var working sync.WaitGroup
	for range workers {
		working.Go(func() {
			tally, played := newTally(), 0
			var bad []Result
			for {
				i := next.Add(1) - 1
				if i >= int64(seeds) || enough != nil && enough(int(failed.Load())) {
					break
				}
				p := NewPlan(from + uint64(i))
				if only != nil && !only(p) {
					continue
				}
				r := Play(p, false)
				tally.Add(r.Tally)
				played++
				if len(r.Violations) > 0 {
					failed.Add(1)
					bad = append(bad, r)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			report.Tally.Add(tally)
			report.Seeds += played
			report.Failed = append(report.Failed, bad...)
		})
	}
	working.Wait()
	slices.SortFunc(report.Failed, func(a, b Result) int {
		if a.Plan.Seed < b.Plan.Seed {
			return -1
		}
		return 1
	})
	return report
}
