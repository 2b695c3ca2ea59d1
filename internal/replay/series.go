package replay

import (
	"bytes"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	seriesName  = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?$`)
	seriesLabel = regexp.MustCompile(`^\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)`)
)

// canonicalSeries writes a series with its labels in order; false where it is none.
func canonicalSeries(s string) (string, bool) {
	m := seriesName.FindStringSubmatch(strings.TrimSpace(s))
	if m == nil {
		return "", false
	}
	var labels []string
	for rest := m[2]; strings.TrimSpace(rest) != ""; {
		l := seriesLabel.FindStringSubmatch(rest)
		if l == nil {
			return "", false
		}
		labels = append(labels, l[1]+`="`+l[2]+`"`)
		rest = rest[len(l[0]):]
	}
	if len(labels) == 0 {
		return m[1], true
	}
	slices.Sort(labels)
	return m[1] + "{" + strings.Join(labels, ",") + "}", true
}

// scrape asks a metrics endpoint for every series that it has.
func scrape(endpoint http.Handler) (map[string]float64, error) {
	request, err := http.NewRequest(http.MethodGet, "/metrics", nil)
	if err != nil {
		return nil, err
	}
	page := &page{header: http.Header{}, status: http.StatusOK}
	endpoint.ServeHTTP(page, request)
	if page.status != http.StatusOK {
		return nil, fmt.Errorf("the metrics cannot be read: %s", page.body.String())
	}
	series := map[string]float64{}
	for line := range strings.Lines(page.body.String()) {
		line = strings.TrimSpace(line)
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || strings.HasPrefix(line, "#") {
			continue
		}
		name, ok := canonicalSeries(line[:at])
		value, err := strconv.ParseFloat(line[at+1:], 64)
		if ok && err == nil {
			series[name] = value
		}
	}
	return series, nil
}

// page is an answer over HTTP that goes nowhere.
type page struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (p *page) Header() http.Header         { return p.header }
func (p *page) WriteHeader(status int)      { p.status = status }
func (p *page) Write(b []byte) (int, error) { return p.body.Write(b) }
