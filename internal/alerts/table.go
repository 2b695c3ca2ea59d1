package alerts

import (
	"fmt"
	"slices"
	"time"

	"github.com/orphand/orphand/pkg/signals"
)

// Alert is one rule and what whoever it wakes needs to know.
type Alert struct {
	Name     string
	Severity signals.Severity
	// Expr is what fires it, in PromQL.
	Expr string
	// For is how long Expr must hold first, and Keep how long the alert stays after it ceased: long enough that a change of
	// the leader does not end it and begin it anew.
	For, Keep time.Duration
	// Summary is one line, with the labels of Expr.
	Summary string
	// Next is the command to type next.
	Next string

	// Meaning and Cost are a few sentences each: what is the case, and what it does to whom.
	Meaning, Cost string
	// Look are the commands that show more, and Do what to do then, step by step.
	Look []Step
	Do   []string
	// Ends says when the alert ends by itself.
	Ends string
}

// Step is a command and what it shows.
type Step struct {
	Shows, Command string
}

// Prefix begins the name of every alert.
const Prefix = "Orphand"

// keep is long enough for a leader that crashed to be replaced, with the default lease of 15 s and a scrape every 30 s.
const keep = 2 * time.Minute

// For all that is told by the leader only, sum is over replicas, of which all but one tell 0.

// All lists every alert: one for each finding, in the findings' order, after those on orphand itself and on pods.
func All() []Alert {
	list := own()
	for _, f := range signals.Findings() {
		list = append(list, ofFinding(f))
	}
	return list
}

// Find finds an alert by its name.
func Find(name string) (Alert, bool) {
	list := All()
	i := slices.IndexFunc(list, func(a Alert) bool { return a.Name == name })
	if i < 0 {
		return Alert{}, false
	}
	return list[i], true
}

// ofFinding is the alert on a finding. A critical one is raised at once, and also when it was over before anybody scraped.
func ofFinding(f signals.FindingInfo) Alert {
	code := string(f.Code)
	active := fmt.Sprintf(`sum(orphand_findings_active{finding=%q}) > 0`, code)
	a := Alert{
		Name: Prefix + code, Severity: f.Severity, Keep: keep, Expr: active,
		Summary: f.Meaning,
		Next:    fmt.Sprintf(`kubectl get orphans -A -o json | jq -r '.items[] | select(any(.status.findings[]?; .code == "%s" and .until == null)) | .metadata.namespace + "/" + .metadata.name'`, code),
		Meaning: f.Meaning,
		Cost:    cost(f),
		Do:      []string{f.Action},
		Ends:    "The finding ends when its cause does; orphand writes a line with `\"phase\":\"ended\"`.",
	}
	switch f.Severity {
	case signals.Critical:
		a.Expr = fmt.Sprintf("(%s)\nor\n(sum(increase(orphand_findings_total{finding=%q}[10m])) > 0)", active, code)
	case signals.Warning:
		a.For = 2 * time.Minute
	default:
		a.For = 15 * time.Minute
	}
	a.Look = []Step{
		{"the jobs that it is about", a.Next},
		{"each cause, in the words of the record", fmt.Sprintf(`kubectl get orphans -A -o json | jq -r '.items[] | .metadata.name as $job | .status.findings[]? | select(.code == "%s") | $job + ": " + .message'`, code)},
		{"the lines in the log, with pod and node", fmt.Sprintf(`kubectl -n orphand logs -l app.kubernetes.io/name=orphand --tail=-1 | jq -c 'select(.event == "%s")'`, code)},
	}
	return a
}

// cost says what follows from a finding as long as nobody acts.
func cost(f signals.FindingInfo) string {
	switch f.Code {
	case signals.ReExecution, signals.Overlap, signals.NodeReturned:
		return "Two executions may write the same checkpoint and hold the same devices. Do not trust the job's output until it is cleared up."
	case signals.RecreateLoop:
		return "Each round may start processes next to those of the round before, and loads the API server and the scheduler."
	case signals.ForegroundWedged, signals.HeldByFinalizer, signals.GarbageCollectorStalled, signals.StuckTerminating:
		return "The job does not settle, so that whoever waits to run it again waits on."
	case signals.FinishedButRunning:
		return "The job's devices are held by processes that nobody waits for."
	case signals.ForcedRemoval, signals.UnprovableGrace, signals.HealthyNodeDeleted, signals.OutOfServiceOnReadyNode:
		return "What would prove the pod gone is lost or worth nothing: its job may be held back until a person or its node helps."
	case signals.ClockSkew:
		return "Delays and ages are measured wrongly; nothing is called Gone because of it, but it may take longer."
	}
	return "Nothing waits for it, but it will be missed or be in the way one day."
}
