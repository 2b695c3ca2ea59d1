package sim

import (
	"github.com/orphand/orphand/pkg/nodeproof"
	"github.com/orphand/orphand/pkg/settle"
	"github.com/orphand/orphand/pkg/signals"
)

// Tally counts what happened in histories.
type Tally struct {
	// Writes are changes of the API server's objects, Reads orphand's live reads.
	Writes, Reads int
	// Starts are processes that ran, Pods the pods, Jobs the TrainJobs.
	Starts, Pods, Jobs int
	// Trusted and Untrusted count histories without and with a lie.
	Trusted, Untrusted int
	Verdicts           map[nodeproof.Pair]int
	Weak               int
	States             map[settle.State]int
	Findings           map[string]int
	// Excused are processes that ran on after Gone because somebody had lied; Unseen and Forgotten are pods that orphand could
	// not know of, when their job was called over.
	Excused, Unseen, Forgotten int
	// Attested are the pods that a person had to vouch for at the end, by what had been said of them.
	Attested map[nodeproof.Pair]int
	// Deleting counts what became of DELETEs, and what held them back.
	Deleting map[string]int
}

func newTally() *Tally {
	return &Tally{Verdicts: map[nodeproof.Pair]int{}, States: map[settle.State]int{}, Findings: map[string]int{}, Attested: map[nodeproof.Pair]int{}, Deleting: map[string]int{}}
}

// Add adds another tally to this one.
func (t *Tally) Add(o *Tally) {
	t.Writes += o.Writes
	t.Reads += o.Reads
	t.Starts += o.Starts
	t.Pods += o.Pods
	t.Jobs += o.Jobs
	t.Trusted += o.Trusted
	t.Untrusted += o.Untrusted
	t.Weak += o.Weak
	t.Excused += o.Excused
	t.Unseen += o.Unseen
	t.Forgotten += o.Forgotten
	addAll(t.Verdicts, o.Verdicts)
	addAll(t.States, o.States)
	addAll(t.Findings, o.Findings)
	addAll(t.Attested, o.Attested)
	addAll(t.Deleting, o.Deleting)
}

func addAll[K comparable](to, from map[K]int) {
	for k, n := range from {
		to[k] += n
	}
}

// Changes counts the verdicts that were told.
func (t *Tally) Changes() int {
	n := 0
	for _, c := range t.Verdicts {
		n += c
	}
	return n
}

// Missing lists the verdicts with their reasons that never occurred, NodeReturned, ReExecution and
// OutOfServiceOnReadyNode where they were never raised, and the situations of deleting: what no history brings about, no history tests.
func (t *Tally) Missing() []string {
	var list []string
	for _, p := range nodeproof.Pairs() {
		if t.Verdicts[p] == 0 {
			list = append(list, string(p.Verdict)+"/"+string(p.Reason))
		}
	}
	for _, f := range []signals.Finding{signals.NodeReturned, signals.ReExecution, signals.OutOfServiceOnReadyNode} {
		if t.Findings[string(f)+"/started"] == 0 {
			list = append(list, string(f))
		}
	}
	return append(list, t.missingDeletes()...)
}
