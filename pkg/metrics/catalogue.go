package metrics

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Entry describes one metric as a scraper sees it.
type Entry struct {
	Name, Type, Help string
	Labels           []Label
	// Series is how many there are, a histogram counting as one.
	Series int
}

// Label is a label with the values that it takes, in alphabetical order.
type Label struct {
	Name   string
	Values []string
}

// Catalogue lists every metric that the gatherer holds, by name.
func Catalogue(gatherer prometheus.Gatherer) ([]Entry, error) {
	families, err := gatherer.Gather()
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, 0, len(families))
	for _, family := range families {
		entry := Entry{
			Name:   family.GetName(),
			Type:   strings.ToLower(family.GetType().String()),
			Help:   family.GetHelp(),
			Series: len(family.GetMetric()),
		}
		for _, metric := range family.GetMetric() {
			for i, label := range metric.GetLabel() {
				if i == len(entry.Labels) {
					entry.Labels = append(entry.Labels, Label{Name: label.GetName()})
				}
				if values := &entry.Labels[i].Values; !slices.Contains(*values, label.GetValue()) {
					*values = append(*values, label.GetValue())
				}
			}
		}
		for i := range entry.Labels {
			slices.Sort(entry.Labels[i].Values)
		}
		entries = append(entries, entry)
	}
	return entries, nil
}
