package metrics

import "github.com/prometheus/client_golang/prometheus"

// closed is a set of series that were all made at the start.
type closed[K comparable, M any] struct {
	series  map[K]M
	refused prometheus.Counter
}

func newClosed[K comparable, M any](refused prometheus.Counter, keys []K, series func(K) M) closed[K, M] {
	c := closed[K, M]{series: make(map[K]M, len(keys)), refused: refused}
	for _, key := range keys {
		c.series[key] = series(key)
	}
	return c
}

// on calls f with the series of key, or counts a refusal where there is none.
func (c closed[K, M]) on(key K, f func(M)) {
	m, ok := c.series[key]
	if !ok {
		c.refused.Inc()
		return
	}
	f(m)
}

// choose sets the series of key to 1 and all others that belong to it to 0.
func choose[K comparable](c closed[K, prometheus.Gauge], key K, sameGroup func(K) bool) {
	if _, ok := c.series[key]; !ok {
		c.refused.Inc()
		return
	}
	for k, gauge := range c.series {
		switch {
		case k == key:
			gauge.Set(1)
		case sameGroup(k):
			gauge.Set(0)
		}
	}
}
