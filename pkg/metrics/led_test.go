package metrics

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// sums adds up each metric's series over replicas, labels left aside.
func sums(t *testing.T, registries ...*prometheus.Registry) (total map[string]float64, series map[string]int) {
	t.Helper()
	total, series = map[string]float64{}, map[string]int{}
	for _, registry := range registries {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.Metric {
				series[f.GetName()]++
				total[f.GetName()] += m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return total, series
}

func TestWhatTwoReplicasSeeIsCountedOnceInTheSum(t *testing.T) {
	var registries []*prometheus.Registry
	var recorders []*Recorder
	for range 2 {
		registry := prometheus.NewRegistry()
		r, err := New(registry, Build{}, Vocabulary{
			Verdicts: []VerdictReason{{"Unproven", "NodeUnreachable"}}, JobStates: []string{"Unproven"}, Findings: []string{"Overlap"}})
		if err != nil {
			t.Fatal(err)
		}
		r.Leader(false)
		registries, recorders = append(registries, registry), append(recorders, r)
	}
	recorders[0].Leader(true)
	_, before := sums(t, registries...)
	for _, r := range recorders {
		r.PodVerdict("", "", "Unproven", "NodeUnreachable")
		r.JobState("", "Unproven")
		r.Finding("Overlap", true)
		r.Settled(1)
		r.VerdictLatency(1)
		r.OldestUnproven(func() float64 { return 1 })
		r.UnreachableNodes(func() float64 { return 1 })
	}
	names := []string{"orphand_pods", "orphand_jobs", "orphand_findings_active", "orphand_findings_total", "orphand_settlement_seconds",
		"orphand_verdict_latency_seconds", "orphand_unproven_oldest_seconds", "orphand_unreachable_nodes", "orphand_leader"}
	check := func(when string) {
		t.Helper()
		total, series := sums(t, registries...)
		for _, name := range names {
			if total[name] != 1 {
				t.Errorf("%s: the sum of %s is %v, want 1", when, name, total[name])
			}
			if series[name] != before[name] {
				t.Errorf("%s: %d series of %s, before %d", when, series[name], name, before[name])
			}
		}
	}
	check("the first leads")
	recorders[0].Leader(false)
	recorders[1].Leader(true)
	check("the second leads: it has seen the same, and what the first has counted stays counted")
}
