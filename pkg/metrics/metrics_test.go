package metrics

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

func words() Vocabulary {
	return Vocabulary{
		Verdicts:     []VerdictReason{{"Alive", "Running"}, {"Alive", "Terminating"}, {"Gone", "KubeletConfirmed"}},
		JobStates:    []string{"Active", "Settled"},
		Findings:     []string{"Overlap", "ClockSkew"},
		Kinds:        []string{"Pod", "Node"},
		KindStates:   []string{"syncing", "watching", "forbidden"},
		LiveReads:    []string{"Node"},
		LiveOutcomes: []string{"found", "absent"},
		Modes:        []string{"observe", "enforce"},
	}
}

func newRecorder(t *testing.T) (*Recorder, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	r, err := New(registry, Build{"v1", "abc", "go1"}, words())
	if err != nil {
		t.Fatal(err)
	}
	return r, registry
}

func expect(t *testing.T, registry *prometheus.Registry, names []string, want string) {
	t.Helper()
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}

// use touches everything once per round, with n different jobs' worth of samples.
func use(r *Recorder, n int) {
	for range n {
		r.PodVerdict("", "", "Alive", "Running")
		r.PodVerdict("Alive", "Running", "Alive", "Terminating")
		r.JobState("", "Active")
		r.JobState("Active", "Settled")
		r.Settled(3 * time.Second)
		r.VerdictLatency(3 * time.Millisecond)
		r.Finding("Overlap", true)
		r.KindState("Pod", "watching")
		r.LiveRead("Node", "absent")
		r.Mode("observe")
		r.ModeWanted("enforce")
		r.NodesReadable(true)
		r.Leader(false)
		r.Panic()
	}
}

func TestTheNumberOfSeriesIsTheSameAfterTenJobsAndTenThousand(t *testing.T) {
	r, registry := newRecorder(t)
	count := func() int {
		n, err := testutil.GatherAndCount(registry)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := count()
	use(r, 10)
	if n := count(); n != before {
		t.Errorf("%d series after ten jobs, %d before", n, before)
	}
	use(r, 10_000)
	if n := count(); n != before {
		t.Errorf("%d series after ten thousand jobs, %d before", n, before)
	}
}

// Whatever a method is told, in whatever words, makes no series: there is none but those that are made at the start.
func TestNoWordMakesASeries(t *testing.T) {
	r, registry := newRecorder(t)
	before, err := testutil.GatherAndCount(registry)
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	recorder := reflect.ValueOf(r)
	for i := range recorder.NumMethod() {
		method := recorder.Method(i)
		for n := range 1000 {
			var args []reflect.Value
			for j := range method.Type().NumIn() {
				switch in := method.Type().In(j); in.Kind() {
				case reflect.String:
					args = append(args, reflect.ValueOf(fmt.Sprintf("job-%d", n)))
				case reflect.Bool:
					args = append(args, reflect.ValueOf(n%2 == 0))
				case reflect.Int64:
					args = append(args, reflect.ValueOf(int64(n)).Convert(in))
				}
			}
			if len(args) < method.Type().NumIn() || method.Type().NumOut() > 0 {
				break // it is told a function, or gives a part that is told things by others
			}
			method.Call(args)
			told++
		}
	}
	if told < 15*1000 {
		t.Fatalf("only %d words were told", told)
	}
	if after, err := testutil.GatherAndCount(registry); err != nil || after != before {
		t.Errorf("%d series, were %d: %v", after, before, err)
	}
}

func TestNamesAndHelpPassPrometheussOwnLinter(t *testing.T) {
	r, registry := newRecorder(t)
	r.Queues().NewDepthMetric("q")
	name, err := cache.NewInformerName(t.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer name.Release()
	resource := name.WithResource(schema.GroupVersionResource{Version: "v1", Resource: "pods"})
	r.Informers().NewQueuedItemMetric(resource)
	r.Informers().NewProcessingLatencyMetric(resource)
	use(r, 1)
	problems, err := testutil.GatherAndLint(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestAPodIsCountedUnderItsLastVerdictOnly(t *testing.T) {
	r, registry := newRecorder(t)
	r.PodVerdict("", "", "Alive", "Running")
	r.PodVerdict("", "", "Alive", "Running")
	r.PodVerdict("Alive", "Running", "Gone", "KubeletConfirmed")
	r.PodVerdict("Gone", "KubeletConfirmed", "", "")
	expect(t, registry, []string{"orphand_pods", "orphand_metrics_refused_total"}, `
# HELP orphand_metrics_refused_total Samples refused because a label value was outside its closed set, which is a bug in orphand.
# TYPE orphand_metrics_refused_total counter
orphand_metrics_refused_total 0
# HELP orphand_pods Pods of jobs that are followed, by verdict and reason. Unproven ones hold their job back. Told by the leader only: sum over replicas.
# TYPE orphand_pods gauge
orphand_pods{reason="KubeletConfirmed",verdict="Gone"} 0
orphand_pods{reason="Running",verdict="Alive"} 1
orphand_pods{reason="Terminating",verdict="Alive"} 0
`)
}

func TestAFindingIsActiveUntilItEndsAndCountedOnce(t *testing.T) {
	r, registry := newRecorder(t)
	r.Finding("Overlap", true)
	r.Finding("Overlap", true)
	r.Finding("Overlap", false)
	expect(t, registry, []string{"orphand_findings_total", "orphand_findings_active"}, `
# HELP orphand_findings_active Findings that have started and not ended. Told by the leader only: sum over replicas.
# TYPE orphand_findings_active gauge
orphand_findings_active{finding="ClockSkew"} 0
orphand_findings_active{finding="Overlap"} 1
# HELP orphand_findings_total Findings raised, once per cause. Alert on its increase. Told by the leader only: sum over replicas.
# TYPE orphand_findings_total counter
orphand_findings_total{finding="ClockSkew"} 0
orphand_findings_total{finding="Overlap"} 2
`)
}

func TestAKindIsInOneStateAtATime(t *testing.T) {
	r, registry := newRecorder(t)
	r.KindState("Pod", "syncing")
	r.KindState("Node", "forbidden")
	r.KindState("Pod", "watching")
	expect(t, registry, []string{"orphand_kind_state"}, `
# HELP orphand_kind_state 1 for the state that the watch of a kind is in. Anything but watching means that orphand is blind to that kind.
# TYPE orphand_kind_state gauge
orphand_kind_state{kind="Node",state="forbidden"} 1
orphand_kind_state{kind="Node",state="syncing"} 0
orphand_kind_state{kind="Node",state="watching"} 0
orphand_kind_state{kind="Pod",state="forbidden"} 0
orphand_kind_state{kind="Pod",state="syncing"} 0
orphand_kind_state{kind="Pod",state="watching"} 1
`)
}

func TestAValueOutsideItsSetMakesNoSeriesAndIsCounted(t *testing.T) {
	r, registry := newRecorder(t)
	before, _ := testutil.GatherAndCount(registry)
	r.PodVerdict("Alive", "Invented", "Gone", "Invented")
	r.JobState("", "Invented")
	r.KindState("Invented", "watching")
	r.Mode("invented")
	if after, _ := testutil.GatherAndCount(registry); after != before {
		t.Errorf("%d series, were %d", after, before)
	}
	expect(t, registry, []string{"orphand_metrics_refused_total"}, `
# HELP orphand_metrics_refused_total Samples refused because a label value was outside its closed set, which is a bug in orphand.
# TYPE orphand_metrics_refused_total counter
orphand_metrics_refused_total 5
`)
}

func TestDurationsAreObservedInSeconds(t *testing.T) {
	r, registry := newRecorder(t)
	r.Settled(90 * time.Second)
	r.VerdictLatency(4 * time.Millisecond)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{"orphand_settlement_seconds": 90, "orphand_verdict_latency_seconds": .004}
	for _, family := range families {
		if sum, ok := want[family.GetName()]; ok {
			delete(want, family.GetName())
			if got := family.GetMetric()[0].GetHistogram().GetSampleSum(); got != sum {
				t.Errorf("%s: sum %v, want %v", family.GetName(), got, sum)
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}

func TestValuesThatOthersKnowAreAskedForAtEachScrape(t *testing.T) {
	r, registry := newRecorder(t)
	age := 0.0
	r.OldestUnproven(func() float64 { age++; return age })
	scrape := func() string {
		answer := httptest.NewRecorder()
		Handler(registry).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return answer.Body.String()
	}
	for _, want := range []string{"orphand_unproven_oldest_seconds 1\n", "orphand_unproven_oldest_seconds 2\n"} {
		if body := scrape(); !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
}

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestRequestsAreCountedByMethodAndAnswerAndNeverByHost(t *testing.T) {
	r, registry := newRecorder(t)
	before, _ := testutil.GatherAndCount(registry)
	status := 0
	transport := r.ClientTransport(transportFunc(func(*http.Request) (*http.Response, error) {
		if status == 0 {
			return nil, errors.New("connection refused")
		}
		return &http.Response{StatusCode: status, Body: http.NoBody}, nil
	}))
	for _, status = range []int{200, 201, 404, 418, 429, 503, 0} {
		request := httptest.NewRequest(http.MethodGet, "https://host-of-no-interest/api", nil)
		_, _ = transport.RoundTrip(request)
	}
	if after, _ := testutil.GatherAndCount(registry); after != before {
		t.Errorf("%d series, were %d", after, before)
	}
	want := map[pair]float64{{"2xx", "GET"}: 2, {"404", "GET"}: 1, {"4xx", "GET"}: 1, {"429", "GET"}: 1, {"5xx", "GET"}: 1, {"<error>", "GET"}: 1}
	for key, counter := range r.client.requests.series {
		if got := testutil.ToFloat64(counter); got != want[key] {
			t.Errorf("%v: %v, want %v", key, got, want[key])
		}
	}
}

func TestAnInformersSeriesCarryItsResource(t *testing.T) {
	r, registry := newRecorder(t)
	name, err := cache.NewInformerName(t.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer name.Release()
	r.Informers().NewQueuedItemMetric(name.WithResource(schema.GroupVersionResource{Version: "v1", Resource: "pods"})).Set(7)
	expect(t, registry, []string{"informer_queued_items"}, `
# HELP informer_queued_items Watch events received and not yet handed on.
# TYPE informer_queued_items gauge
informer_queued_items{group="",name="`+t.Name()+`",resource="pods",version="v1"} 7
`)
}

func TestTheCatalogueListsEveryLabelsValues(t *testing.T) {
	_, registry := newRecorder(t)
	entries, err := Catalogue(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name != "orphand_mode" {
			continue
		}
		if e.Type != "gauge" || e.Series != 2 || len(e.Labels) != 1 || strings.Join(e.Labels[0].Values, " ") != "enforce observe" {
			t.Errorf("%+v", e)
		}
		return
	}
	t.Error("orphand_mode is missing")
}

func TestRegisteringTwiceIsAnErrorAndNoPanic(t *testing.T) {
	_, registry := newRecorder(t)
	if _, err := New(registry, Build{}, words()); err == nil {
		t.Error("no error")
	}
}
