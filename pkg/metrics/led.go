package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// led is what only the leader tells. Every replica sees the same jobs, so that sums over replicas would count them twice:
// the one that leads shows what it sees, the others show zeros and count nothing. All see all the time, so that a new
// leader shows everything at once.
type led struct{ leads atomic.Bool }

// ledGauges are gauges that another set, all zeros, stands in for while this replica does not lead.
type ledGauges struct {
	*prometheus.GaugeVec
	zeros *prometheus.GaugeVec
	led   *led
}

func (l *led) gauges(opts prometheus.GaugeOpts, labels []string) ledGauges {
	return ledGauges{prometheus.NewGaugeVec(opts, labels), prometheus.NewGaugeVec(opts, labels), l}
}

// with returns the series with these values; it exists from now on.
func (g ledGauges) with(values ...string) prometheus.Gauge {
	g.zeros.WithLabelValues(values...)
	return g.WithLabelValues(values...)
}

// Collect satisfies prometheus.Collector.
func (g ledGauges) Collect(out chan<- prometheus.Metric) {
	if g.led.leads.Load() {
		g.GaugeVec.Collect(out)
		return
	}
	g.zeros.Collect(out)
}

// value asks the source while this replica leads.
func (l *led) value(source *gaugeSource) func() float64 {
	return func() float64 {
		if !l.leads.Load() {
			return 0
		}
		return source.value()
	}
}
