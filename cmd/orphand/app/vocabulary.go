package app

import (
	"slices"

	"github.com/orphand/orphand/api/v1alpha1"
	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/informers"
	"github.com/orphand/orphand/pkg/metrics"
	"github.com/orphand/orphand/pkg/nodeproof"
	"github.com/orphand/orphand/pkg/reap"
	"github.com/orphand/orphand/pkg/retention"
	"github.com/orphand/orphand/pkg/settle"
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
		Kinds:        []string{facts.KindTrainJob, facts.KindJobSet, facts.KindJob, facts.KindPod, facts.KindTrainingRuntime, facts.KindNode, v1alpha1.KindOrphan},
		LiveReads:    informers.LiveKinds(),
		LiveOutcomes: informers.Outcomes(),
		Modes:        []string{modeObserve, modeEnforce},
	}
	words.DeletedKinds = reap.KindNames()
	for _, kind := range retention.Kinds() {
		if !slices.Contains(words.DeletedKinds, kind.Kind) {
			words.DeletedKinds = append(words.DeletedKinds, kind.Kind)
		}
	}
	words.DeletedKinds = append(words.DeletedKinds, metrics.OtherKind)
	words.Decisions = append(words.Decisions, metrics.Decision{Verb: string(retention.Delete)})
	for _, reason := range retention.Reasons() {
		words.Decisions = append(words.Decisions, metrics.Decision{Verb: string(reason.Verb()), Reason: string(reason)})
	}
	for _, outcome := range reap.Outcomes() {
		words.DeleteOutcomes = append(words.DeleteOutcomes, string(outcome))
	}
	for _, cause := range reap.Causes() {
		words.DeleteCauses = append(words.DeleteCauses, string(cause))
	}
	for _, reason := range reap.Reasons() {
		words.Refusals = append(words.Refusals, string(reason))
	}
	for _, pair := range nodeproof.Pairs() {
		words.Verdicts = append(words.Verdicts, metrics.VerdictReason{Verdict: string(pair.Verdict), Reason: string(pair.Reason)})
	}
	for _, state := range settle.States() {
		words.JobStates = append(words.JobStates, string(state))
	}
	for _, state := range informers.States() {
		words.KindStates = append(words.KindStates, string(state))
	}
	for _, finding := range signals.Findings() {
		words.Findings = append(words.Findings, string(finding.Code))
	}
	return words
}
