package metrics

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// clientMetrics count requests to the Kubernetes API where they leave the process. client-go's own hooks are process
// globals, so a transport does it instead; the names are the usual ones, the host label is left out.
type clientMetrics struct {
	requests closed[pair, prometheus.Counter]
	duration closed[string, prometheus.Observer]
}

// noAnswer is the code label of a request that got no answer.
const noAnswer = "<error>"

// namedCodes are the answers that tell troubles apart; the others are counted by class.
func namedCodes() []string { return []string{"401", "403", "404", "409", "410", "429"} }

func (m *clientMetrics) make(refused prometheus.Counter) []prometheus.Collector {
	methods := []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
	codes := append(namedCodes(), "2xx", "3xx", "4xx", "5xx", noAnswer)
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rest_client_requests_total",
		Help: "Requests to the Kubernetes API, by method and answer. Other codes than the named ones are counted by class.",
	}, []string{"code", "method"})
	duration := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "rest_client_request_duration_seconds",
		Help:    "Time until the Kubernetes API's answer begins.",
		Buckets: []float64{.005, .025, .1, .25, .5, 1, 2, 4, 8, 15, 30, 60},
	}, []string{"method"})
	m.requests = newClosed(refused, product(codes, methods), func(p pair) prometheus.Counter {
		return requests.WithLabelValues(p[0], p[1])
	})
	m.duration = newClosed(refused, methods, func(method string) prometheus.Observer { return duration.WithLabelValues(method) })
	return []prometheus.Collector{requests, duration}
}

// ClientTransport wraps a transport so that its requests are counted and timed; it fits rest.Config's Wrap.
func (r *Recorder) ClientTransport(next http.RoundTripper) http.RoundTripper {
	return countingTransport{next: next, metrics: &r.client}
}

type countingTransport struct {
	next    http.RoundTripper
	metrics *clientMetrics
}

// RoundTrip passes the request on.
func (t countingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	begin := time.Now() // Network time, which no simulated clock could stand for.
	response, err := t.next.RoundTrip(request)
	code := noAnswer
	if err == nil {
		code = codeLabel(response.StatusCode)
	}
	t.metrics.requests.on(pair{code, request.Method}, prometheus.Counter.Inc)
	t.metrics.duration.on(request.Method, func(o prometheus.Observer) { o.Observe(time.Since(begin).Seconds()) })
	return response, err
}

// WrappedRoundTripper lets client-go find the transport below, for instance to close its idle connections.
func (t countingTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

func codeLabel(status int) string {
	if code := strconv.Itoa(status); slices.Contains(namedCodes(), code) {
		return code
	}
	switch {
	case status < 300:
		return "2xx"
	case status < 400:
		return "3xx"
	case status < 500:
		return "4xx"
	default:
		return "5xx"
	}
}
