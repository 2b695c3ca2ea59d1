package app

import (
	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/metrics"
	"github.com/orphand/orphand/pkg/nodeproof"
	"github.com/orphand/orphand/pkg/signals"
)

// The modes: what this process may do to the cluster.
const (
	modeObserve = "observe"
	modeEnforce = "enforce"
)

// vocabulary gathers every value that a metric's label may take from the packages that define them.
func vocabulary() metrics.Vocabulary {
	words := metrics.Vocabulary{
		JobStates:    []string{"Active", "Finished", "Deleting", "Unproven", "Settling", "Settled", "Cleared", "Elsewhere"},
		Kinds:        []string{facts.KindTrainJob, facts.KindJobSet, facts.KindJob, facts.KindPod, facts.KindTrainingRuntime, facts.KindNode},
		KindStates:   []string{"Syncing", "Watching", "Absent", "Forbidden", "Failing"},
		LiveReads:    []string{facts.KindNode, facts.KindTrainJob, facts.KindPod},
		LiveOutcomes: []string{"Found", "Absent", "Forbidden", "Failed"},
		Modes:        []string{modeObserve, modeEnforce},
	}
	for _, pair := range nodeproof.Pairs() {
		words.Verdicts = append(words.Verdicts, metrics.VerdictReason{Verdict: string(pair.Verdict), Reason: string(pair.Reason)})
	}
	for _, finding := range signals.Findings() {
		words.Findings = append(words.Findings, string(finding.Code))
	}
	return words
}
