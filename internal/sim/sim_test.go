package sim

import (
	"bytes"
	"testing"
)

// A history that is played twice is the same to the last byte: without that a seed proves nothing.
func TestAHistoryIsTheSameEveryTime(t *testing.T) {
	for seed := range uint64(60) {
		var one, two bytes.Buffer
		Play(NewPlan(seed), true).Timeline(&one)
		Play(NewPlan(seed), true).Timeline(&two)
		if !bytes.Equal(one.Bytes(), two.Bytes()) {
			t.Errorf("seed %d went two ways", seed)
		}
	}
}

// The few seeds that an ordinary test run can afford; make sim plays more.
func TestNobodyIsCalledGoneWhoRuns(t *testing.T) {
	r := Run(0, 300, 2, nil, nil)
	for _, f := range r.Failed {
		t.Errorf("seed %d: %s", f.Plan.Seed, f.Violations[0])
	}
}

// A plan that does not fail is not made smaller, and the replay file of any history can be written.
func TestReplayFilesCanBeWritten(t *testing.T) {
	p := Shrink(NewPlan(1))
	var b bytes.Buffer
	if err := Play(p, true).Replay(&b); err != nil || b.Len() == 0 {
		t.Errorf("%d bytes, %v", b.Len(), err)
	}
}

// A mutant is an edit of the source, which changes: one that no longer fits must not pass for one that was caught.
func TestEveryMutantFitsTheSource(t *testing.T) {
	names := map[string]bool{}
	for _, m := range Mutants() {
		if _, err := m.Source("../.."); err != nil {
			t.Error(err)
		}
		if names[m.Name] {
			t.Errorf("two mutants are named %q", m.Name)
		}
		names[m.Name] = true
	}
}
