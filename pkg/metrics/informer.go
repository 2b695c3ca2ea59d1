package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/cache"
)

// informerMetrics are client-go's informer metrics under their usual names.
type informerMetrics struct {
	queued, version *prometheus.GaugeVec
	latency         *prometheus.HistogramVec
}

func (m *informerMetrics) make() []prometheus.Collector {
	labels := []string{"name", "group", "version", "resource"}
	m.queued = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "informer_queued_items", Help: "Watch events received and not yet handed on."}, labels)
	m.latency = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "informer_processing_latency_seconds", Help: "Time to hand one batch of watch events on.",
		Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}}, labels)
	m.version = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "informer_store_resource_version", Help: "Resource version that the cache has reached."}, labels)
	return []prometheus.Collector{m.queued, m.latency, m.version}
}

type informerProvider struct{ *informerMetrics }

// Informers is the provider to hand to a shared informer. Each informer's series exist once it is made.
func (r *Recorder) Informers() cache.InformerMetricsProvider { return informerProvider{&r.informer} }

func (p informerProvider) NewQueuedItemMetric(id cache.InformerNameAndResource) cache.GaugeMetric {
	return p.queued.WithLabelValues(identity(id)...)
}

func (p informerProvider) NewProcessingLatencyMetric(id cache.InformerNameAndResource) cache.HistogramMetric {
	return p.latency.WithLabelValues(identity(id)...)
}

func (p informerProvider) NewStoreResourceVersionMetric(id cache.InformerNameAndResource) cache.GaugeMetric {
	return p.version.WithLabelValues(identity(id)...)
}

func identity(id cache.InformerNameAndResource) []string {
	gvr := id.GroupVersionResource()
	return []string{id.Name(), gvr.Group, gvr.Version, gvr.Resource}
}
