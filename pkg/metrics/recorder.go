package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type pair [2]string

// Recorder takes what happens and keeps the metrics. Its methods are safe for concurrent use and never block.
type Recorder struct {
	pods             closed[VerdictReason, prometheus.Gauge]
	jobs             closed[string, prometheus.Gauge]
	findingsTotal    closed[string, prometheus.Counter]
	findingsActive   closed[string, prometheus.Gauge]
	kindState        closed[pair, prometheus.Gauge]
	liveReads        closed[pair, prometheus.Counter]
	mode             closed[string, prometheus.Gauge]
	modeWanted       closed[string, prometheus.Gauge]
	deletes          closed[pair, prometheus.Counter]
	removed          closed[pair, prometheus.Counter]
	refusals         closed[string, prometheus.Counter]
	decisions        closed[Decision, prometheus.Gauge]
	lateness         prometheus.Histogram
	policyRefused    prometheus.Gauge
	policyLoads      closed[string, prometheus.Counter]
	nodesReadable    prometheus.Gauge
	leader           prometheus.Gauge
	panics           prometheus.Counter
	settlement       prometheus.Histogram
	verdictLatency   prometheus.Histogram
	oldestUnproven   gaugeSource
	unreachableNodes gaugeSource

	led      led
	client   clientMetrics
	queue    queueMetrics
	informer informerMetrics
}

// gaugeSource is a value that is asked for when metrics are scraped; 0 until someone offers it.
type gaugeSource struct {
	ask atomic.Pointer[func() float64]
}

func (g *gaugeSource) value() float64 {
	if ask := g.ask.Load(); ask != nil {
		return (*ask)()
	}
	return 0
}

// New registers every metric with the registerer, each series at its zero. It fails when one of them is already there.
func New(registerer prometheus.Registerer, build Build, words Vocabulary) (*Recorder, error) {
	r := &Recorder{}
	r.led.leads.Store(true) // until told otherwise: whoever elects no leader leads
	refused := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "orphand_metrics_refused_total",
		Help: "Samples refused because a label value was outside its closed set, which is a bug in orphand.",
	})
	collectors := []prometheus.Collector{refused}
	gaugeVec := func(name, help string, labels ...string) *prometheus.GaugeVec {
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
		collectors = append(collectors, v)
		return v
	}
	// What is told by the leader only is right when summed over replicas.
	const leaderOnly = " Told by the leader only: sum over replicas."
	ledVec := func(name, help string, labels ...string) ledGauges {
		v := r.led.gauges(prometheus.GaugeOpts{Name: name, Help: help + leaderOnly}, labels)
		collectors = append(collectors, v)
		return v
	}
	counterVec := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		collectors = append(collectors, v)
		return v
	}
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
		collectors = append(collectors, g)
		return g
	}
	histogram := func(name, help string, buckets ...float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
		collectors = append(collectors, h)
		return h
	}

	pods := ledVec("orphand_pods",
		"Pods of jobs that are followed, by verdict and reason. Unproven ones hold their job back.", "verdict", "reason")
	r.pods = newClosed(refused, words.Verdicts, func(v VerdictReason) prometheus.Gauge {
		return pods.with(v.Verdict, v.Reason)
	})
	jobs := ledVec("orphand_jobs", "Jobs that are followed, by state. Only Settled and Cleared ones are safe to run again.", "state")
	r.jobs = newClosed(refused, words.JobStates, func(s string) prometheus.Gauge { return jobs.with(s) })

	findingsTotal := counterVec("orphand_findings_total", "Findings raised, once per cause. Alert on its increase."+leaderOnly, "finding")
	r.findingsTotal = newClosed(refused, words.Findings, func(f string) prometheus.Counter { return findingsTotal.WithLabelValues(f) })
	findingsActive := ledVec("orphand_findings_active", "Findings that have started and not ended.", "finding")
	r.findingsActive = newClosed(refused, words.Findings, func(f string) prometheus.Gauge { return findingsActive.with(f) })

	kindState := gaugeVec("orphand_kind_state", "1 for the state that the watch of a kind is in. Anything but watching means that orphand is blind to that kind.", "kind", "state")
	r.kindState = newClosed(refused, product(words.Kinds, words.KindStates), func(p pair) prometheus.Gauge {
		return kindState.WithLabelValues(p[0], p[1])
	})
	liveReads := counterVec("orphand_live_reads_total", "Reads past the cache before an irreversible word, by answer.", "kind", "outcome")
	r.liveReads = newClosed(refused, product(words.LiveReads, words.LiveOutcomes), func(p pair) prometheus.Counter {
		return liveReads.WithLabelValues(p[0], p[1])
	})
	mode := gaugeVec("orphand_mode", "1 for the mode in force: what this process may do to the cluster.", "mode")
	r.mode = newClosed(refused, words.Modes, func(m string) prometheus.Gauge { return mode.WithLabelValues(m) })
	wanted := gaugeVec("orphand_mode_wanted", "1 for the mode that --mode asks for. Where orphand_mode differs, a permission to delete is missing and nothing is deleted.", "mode")
	r.modeWanted = newClosed(refused, words.Modes, func(m string) prometheus.Gauge { return wanted.WithLabelValues(m) })

	deletes := counterVec("orphand_deletes_total", "DELETE calls, by answer. Accepted and Absent are successes.", "kind", "outcome")
	r.deletes = newClosed(refused, product(words.DeletedKinds, words.DeleteOutcomes), func(p pair) prometheus.Counter {
		return deletes.WithLabelValues(p[0], p[1])
	})
	removed := counterVec("orphand_removed_total", "Objects that this process deleted and then saw gone, once for each, by what they were deleted for.", "kind", "cause")
	r.removed = newClosed(refused, product(words.DeletedKinds, words.DeleteCauses), func(p pair) prometheus.Counter {
		return removed.WithLabelValues(p[0], p[1])
	})
	refusals := counterVec("orphand_refusals_total", "Decisions not to delete what is left of a job, once for each object and reason.", "reason")
	r.refusals = newClosed(refused, words.Refusals, func(w string) prometheus.Counter { return refusals.WithLabelValues(w) })

	decisions := ledVec("orphand_retention_objects", "Objects and pods that the retention policy looks at, by what it says of them now.", "decision", "reason")
	r.decisions = newClosed(refused, words.Decisions, func(d Decision) prometheus.Gauge { return decisions.with(d.Verb, d.Reason) })
	r.lateness = histogram("orphand_retention_lateness_seconds",
		"Time from when an object was due, and could be known to be, to its DELETE. Backlogs are left out.",
		.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600)
	r.policyRefused = gauge("orphand_retention_policy_refused", "1 while the retention policy cannot be put in force: its file cannot be read or has mistakes, or what namespaces bring cannot be read. The last good one stays in force.")
	loads := counterVec("orphand_retention_policy_loads_total", "Attempts to load a retention policy that had changed.", "outcome")
	r.policyLoads = newClosed(refused, []string{"loaded", "refused"}, func(o string) prometheus.Counter { return loads.WithLabelValues(o) })

	r.nodesReadable = gauge("orphand_nodes_readable", "1 while Nodes may be read. At 0 nothing can be proven.")
	r.leader = gauge("orphand_leader", "1 while this replica leads.")
	r.panics = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "orphand_panics_total", Help: "Panics contained while working on a job, each of which is a bug in orphand."})
	collectors = append(collectors, r.panics)
	r.settlement = histogram("orphand_settlement_seconds",
		"Time from a TrainJob seen gone to its job settled."+leaderOnly,
		1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 4*3600, 12*3600, 24*3600)
	r.verdictLatency = histogram("orphand_verdict_latency_seconds",
		"Time from the watch event that carries the proof to the verdict said."+leaderOnly,
		.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60)

	collectors = append(collectors,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "orphand_unproven_oldest_seconds",
			Help: "Age of the oldest Unproven verdict in force, 0 when there is none." + leaderOnly,
		}, r.led.value(&r.oldestUnproven)),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "orphand_unreachable_nodes",
			Help: "Nodes that cannot be heard and hold pods that are not Gone." + leaderOnly,
		}, r.led.value(&r.unreachableNodes)))

	info := gaugeVec("orphand_build_info", "1, labelled with what is running.", "version", "revision", "go_version")
	info.WithLabelValues(build.Version, build.Revision, build.GoVersion).Set(1)

	collectors = append(collectors, r.client.make(refused)...)
	collectors = append(collectors, r.queue.make()...)
	collectors = append(collectors, r.informer.make()...)
	for _, c := range collectors {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// product pairs every value of a with every value of b.
func product(a, b []string) []pair {
	pairs := make([]pair, 0, len(a)*len(b))
	for _, x := range a {
		for _, y := range b {
			pairs = append(pairs, pair{x, y})
		}
	}
	return pairs
}

// PodVerdict moves one pod from one verdict and reason to another; "" as verdict stands for not followed.
func (r *Recorder) PodVerdict(fromVerdict, fromReason, toVerdict, toReason string) {
	if fromVerdict != "" {
		r.pods.on(VerdictReason{fromVerdict, fromReason}, prometheus.Gauge.Dec)
	}
	if toVerdict != "" {
		r.pods.on(VerdictReason{toVerdict, toReason}, prometheus.Gauge.Inc)
	}
}

// JobState moves one job from one state to another; "" stands for not followed.
func (r *Recorder) JobState(from, to string) {
	if from != "" {
		r.jobs.on(from, prometheus.Gauge.Dec)
	}
	if to != "" {
		r.jobs.on(to, prometheus.Gauge.Inc)
	}
}

// Settled records how long a job took from its TrainJob seen gone until it was settled.
func (r *Recorder) Settled(d time.Duration) {
	if r.led.leads.Load() {
		r.settlement.Observe(d.Seconds())
	}
}

// VerdictLatency records the time from the arrival of the event that carries a proof to the verdict.
func (r *Recorder) VerdictLatency(d time.Duration) {
	if r.led.leads.Load() {
		r.verdictLatency.Observe(d.Seconds())
	}
}

// Finding records that a finding started or ended.
func (r *Recorder) Finding(code string, started bool) {
	if !started {
		r.findingsActive.on(code, prometheus.Gauge.Dec)
		return
	}
	if r.led.leads.Load() {
		r.findingsTotal.on(code, prometheus.Counter.Inc)
	}
	r.findingsActive.on(code, prometheus.Gauge.Inc)
}

// KindState records the state that the watch of a kind is in now.
func (r *Recorder) KindState(kind, state string) {
	choose(r.kindState, pair{kind, state}, func(p pair) bool { return p[0] == kind })
}

// LiveRead counts one read past the cache.
func (r *Recorder) LiveRead(kind, outcome string) {
	r.liveReads.on(pair{kind, outcome}, prometheus.Counter.Inc)
}

// Mode records the mode in force.
func (r *Recorder) Mode(mode string) {
	choose(r.mode, mode, func(string) bool { return true })
}

// ModeWanted records the mode that was asked for.
func (r *Recorder) ModeWanted(mode string) {
	choose(r.modeWanted, mode, func(string) bool { return true })
}

// Deleted counts a DELETE by its answer.
func (r *Recorder) Deleted(kind, outcome string) {
	r.deletes.on(pair{r.kindOrOther(kind, outcome), outcome}, prometheus.Counter.Inc)
}

// OtherKind stands in a label for the kinds that a retention policy teaches: the set stays closed.
const OtherKind = "Other"

func (r *Recorder) kindOrOther(kind, outcome string) string {
	if _, known := r.deletes.series[pair{kind, outcome}]; !known {
		return OtherKind
	}
	return kind
}

// Removed counts an object that this process deleted and then saw gone.
func (r *Recorder) Removed(kind, cause string) {
	if _, known := r.removed.series[pair{kind, cause}]; !known {
		kind = OtherKind
	}
	r.removed.on(pair{kind, cause}, prometheus.Counter.Inc)
}

// Refused counts a decision not to delete an object.
func (r *Recorder) Refused(reason string) { r.refusals.on(reason, prometheus.Counter.Inc) }

// Retention moves one object from one decision to another; "" as verb stands for not looked at.
func (r *Recorder) Retention(fromVerb, fromReason, toVerb, toReason string) {
	if fromVerb != "" {
		r.decisions.on(Decision{fromVerb, fromReason}, prometheus.Gauge.Dec)
	}
	if toVerb != "" {
		r.decisions.on(Decision{toVerb, toReason}, prometheus.Gauge.Inc)
	}
}

// RetentionLateness records how late an object was deleted.
func (r *Recorder) RetentionLateness(d time.Duration) { r.lateness.Observe(max(d, 0).Seconds()) }

// Policy counts an attempt to load a retention policy that had changed.
func (r *Recorder) Policy(loaded bool) {
	outcome := "refused"
	if loaded {
		outcome = "loaded"
	}
	r.policyLoads.on(outcome, prometheus.Counter.Inc)
}

// PolicyRefused records whether something keeps the retention policy that is there now from being in force.
func (r *Recorder) PolicyRefused(refused bool) { r.policyRefused.Set(bit(refused)) }

// NodesReadable records whether Nodes may be read.
func (r *Recorder) NodesReadable(readable bool) { r.nodesReadable.Set(bit(readable)) }

// Leader records whether this replica leads.
func (r *Recorder) Leader(leads bool) {
	r.led.leads.Store(leads)
	r.leader.Set(bit(leads))
}

// Panic counts a panic that was contained.
func (r *Recorder) Panic() { r.panics.Inc() }

// OldestUnproven names who knows the age, in seconds, of the oldest Unproven verdict. It is asked at every scrape.
func (r *Recorder) OldestUnproven(ask func() float64) { r.oldestUnproven.ask.Store(&ask) }

// UnreachableNodes names who knows how many unreachable nodes hold pods that are not Gone. It is asked at every scrape.
func (r *Recorder) UnreachableNodes(ask func() float64) { r.unreachableNodes.ask.Store(&ask) }

func bit(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
