package app

import (
	"bufio"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/orphand/orphand/internal/alerts"
	"github.com/orphand/orphand/pkg/informers"
	"github.com/orphand/orphand/pkg/signals"
)

// needPrometheus, set to anything, makes it a failure that Prometheus' programs are missing; make alerts-test sets it.
const needPrometheus = "ORPHAND_NEED_PROMETHEUS"

func promtool(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv(needPrometheus) != "" {
			t.Fatal(err)
		}
		t.Skip("promtool is not there: make alerts-test installs it")
	}
	return path
}

// exported is what a daemon exports, by series, beside the Go runtime's own.
func exported(t *testing.T, d *daemon) map[string]string {
	t.Helper()
	answer := httptest.NewRecorder()
	d.scrape.ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	series := map[string]string{}
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if i := strings.LastIndex(lines.Text(), "} "); i >= 0 {
			name, value = lines.Text()[:i+1], lines.Text()[i+2:]
		}
		if name == "#" || strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
			continue
		}
		series[name] = value
	}
	if answer.Code != 200 || len(series) < 100 {
		t.Fatalf("status %d, %d series", answer.Code, len(series))
	}
	return series
}

// incident is something that happens to a healthy daemon and its standby, and the alerts that it should raise.
type incident struct {
	name    string
	happens func(*daemon)
	// leads says of each replica whether it leads meanwhile; nil: the first alone.
	leads []bool
	// unheard: no replica is scraped meanwhile.
	unheard bool
	// grows adds to a series every minute meanwhile.
	grows  map[string]string
	alerts []string
}

func incidents() []incident {
	state := func(kind string, s informers.State) func(*daemon) {
		return func(d *daemon) { d.recorder.KindState(kind, string(s)) }
	}
	unproven := func(d *daemon) {
		d.recorder.PodVerdict("Alive", "Running", "Unproven", "NodeUnreachable")
		d.recorder.UnreachableNodes(func() float64 { return 1 })
	}
	list := []incident{
		{name: "nothing happens", happens: func(*daemon) {}},
		{name: "a node is cut off", happens: unproven, alerts: []string{"OrphandPodUnproven"}},
		{name: "nobody sees to it", happens: func(d *daemon) { unproven(d); d.recorder.OldestUnproven(func() float64 { return 4000 }) },
			alerts: []string{"OrphandPodUnproven", "OrphandUnprovenForLong"}},
		{name: "a job does not settle", happens: func(d *daemon) { d.recorder.JobState("Active", "Settling") }, alerts: []string{"OrphandJobsNotSettling"}},
		{name: "no replica is heard of", happens: func(*daemon) {}, unheard: true, alerts: []string{"OrphandDown"}},
		{name: "nobody leads", happens: func(*daemon) {}, leads: []bool{false, false}, alerts: []string{"OrphandNoLeader"}},
		{name: "two lead", happens: func(*daemon) {}, leads: []bool{true, true}, alerts: []string{"OrphandTwoLeaders"}},
		{name: "Nodes may not be read", happens: func(d *daemon) { d.recorder.NodesReadable(false); d.recorder.KindState("Node", "Forbidden") },
			alerts: []string{"OrphandKindNotWatched", "OrphandNodesUnreadable"}},
		{name: "the API server does not serve JobSets any more", happens: state("JobSet", informers.Failing), alerts: []string{"OrphandKindNotWatched"}},
		{name: "Trainer is not installed", happens: state("TrainJob", informers.Absent)},
		{name: "records cannot be kept", happens: state("Orphan", informers.Absent), alerts: []string{"OrphandRecordsNotKept"}},
		{name: "the API server is overloaded", happens: func(*daemon) {},
			grows:  map[string]string{`rest_client_requests_total{code="429",method="GET"}`: "3", `rest_client_requests_total{code="2xx",method="GET"}`: "7"},
			alerts: []string{"OrphandAPIErrors"}},
		{name: "something is forbidden", happens: func(*daemon) {},
			grows: map[string]string{`rest_client_requests_total{code="403",method="GET"}`: "1"}, alerts: []string{"OrphandForbidden"}},
		{name: "a webhook refuses deletes", happens: func(*daemon) {},
			grows: map[string]string{`orphand_deletes_total{kind="JobSet",outcome="Denied"}`: "1"}, alerts: []string{"OrphandDeletesFail"}},
		{name: "deleting is asked for and not permitted", happens: func(d *daemon) { d.recorder.ModeWanted(modeEnforce) }, alerts: []string{"OrphandModeNotInForce"}},
		{name: "the policy has a mistake", happens: func(d *daemon) { d.recorder.PolicyRefused(true) }, alerts: []string{"OrphandPolicyRefused"}},
		{name: "work panics", happens: func(d *daemon) { d.recorder.Panic() }, alerts: []string{"OrphandPanics"}},
		{name: "a sample is refused", happens: func(d *daemon) { d.recorder.JobState("", "Nonsense") }, alerts: []string{"OrphandMetricsRefused"}},
		{name: "a worker hangs", happens: func(d *daemon) {
			d.recorder.Queues().NewLongestRunningProcessorSecondsMetric("jobs").Set(200)
		}, alerts: []string{"OrphandWorkStuck"}},
	}
	for _, f := range signals.Findings() {
		list = append(list, incident{name: "the finding " + string(f.Code), happens: func(d *daemon) { d.recorder.Finding(string(f.Code), true) },
			alerts: []string{alerts.Prefix + string(f.Code)}})
	}
	return append(list, incident{name: "a critical finding that is over before anybody scrapes", happens: func(d *daemon) {
		d.recorder.Finding(string(signals.Overlap), true)
		d.recorder.Finding(string(signals.Overlap), false)
	}, alerts: []string{"OrphandOverlap"}})
}

// The incident lasts from minute 10 to minute 85; the alerts are looked at when the slowest of them is due, and an hour
// after the end.
const (
	incidentFrom = 10
	incidentFor  = 75
	incidentLast = 160
)

func TestEveryAlertFiresForItsIncidentAndForNoOtherAndResolves(t *testing.T) {
	tool := promtool(t)
	var b strings.Builder
	rules, err := filepath.Abs("../../../manifests/alerts/prometheus.yaml")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&b, "rule_files: [%q]\nevaluation_interval: 1m\ntests:\n", rules)
	tested := map[string]bool{}
	for _, i := range incidents() {
		writeIncident(t, &b, i)
		for _, name := range i.alerts {
			tested[name] = true
		}
	}
	for _, a := range alerts.All() {
		if !tested[a.Name] {
			t.Errorf("no incident raises %s", a.Name)
		}
	}
	file := filepath.Join(t.TempDir(), "alerts_test.yaml")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if output, err := exec.Command(tool, "test", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}

func writeIncident(t *testing.T, b *strings.Builder, i incident) {
	t.Helper()
	d, err := newDaemon(config{options: DefaultOptions(), cluster: &rest.Config{Host: "http://localhost"}, clock: clock.RealClock{}, log: newLogReader()})
	if err != nil {
		t.Fatal(err)
	}
	defer d.follower.close()
	d.recorder.Informers().NewQueuedItemMetric(cache.InformerNameAndResource{})
	for _, kind := range vocabulary().Kinds {
		d.recorder.KindState(kind, string(informers.Watching))
	}
	d.recorder.NodesReadable(true)
	leads := i.leads
	if leads == nil {
		leads = []bool{true, false}
	}
	views := func(leads []bool) (list []map[string]string) {
		for _, leader := range leads {
			d.recorder.Leader(leader)
			list = append(list, exported(t, d))
		}
		return list
	}
	named := alerts.Rules(nil) // What no rule names need not be played to promtool.
	before := views([]bool{true, false})
	d.recorder.Leader(true)
	i.happens(d)
	during := views(leads)

	fmt.Fprintf(b, "- name: %s\n  interval: 1m\n  input_series:\n", i.name)
	for replica := range before {
		for series, value := range before[replica] {
			name, labels, found := strings.Cut(strings.TrimSuffix(series, "}"), "{")
			if !strings.Contains(named, name) {
				continue
			}
			if found {
				labels += ","
			}
			changed := during[replica][series]
			after := value
			base := name[max(0, strings.LastIndexByte(name, '_')):]
			if slices.Contains([]string{"_total", "_count", "_sum", "_bucket"}, base) {
				after = changed // Counters stay where they are.
			}
			values := fmt.Sprintf("%sx%d %sx%d %sx%d", value, incidentFrom-1, changed, incidentFor-1, after, incidentLast)
			switch grows := i.grows[series]; {
			case i.unheard:
				values = fmt.Sprintf("%sx%d stale _x%d %sx%d", value, incidentFrom-1, incidentFor-2, value, incidentLast)
			case grows != "" && replica == 0:
				values = fmt.Sprintf("%sx%d %s+%sx%d", value, incidentFrom-1, changed, grows, incidentFor-1)
			}
			fmt.Fprintf(b, "  - {series: '%s{%sinstance=\"%d\"}', values: '%s'}\n", name, labels, replica, values)
		}
	}
	due := time.Duration(0)
	for _, name := range i.alerts {
		a, ok := alerts.Find(name)
		if !ok {
			t.Fatalf("no alert %s", name)
		}
		due = max(due, a.For)
	}
	b.WriteString("  promql_expr_test:\n")
	for _, look := range []struct {
		at   time.Duration
		want []string
	}{
		{(incidentFrom - 1) * time.Minute, nil},
		{incidentFrom*time.Minute + due + 2*time.Minute, i.alerts},
		{(incidentFrom + incidentFor + 60) * time.Minute, nil},
	} {
		fmt.Fprintf(b, "  - expr: count by (alertname) (ALERTS{alertstate=\"firing\"})\n    eval_time: %dm\n    exp_samples: [", int(look.at.Minutes()))
		for _, name := range look.want {
			fmt.Fprintf(b, "{labels: '{alertname=\"%s\"}', value: 1},", name)
		}
		b.WriteString("]\n")
	}
}
