package daemon

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Get asks its HTTP endpoint, and returns the status and the body.
func (d *Daemon) Get(ctx context.Context, path string) (int, string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.Address()+path, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// Metrics are the series of /metrics by name and labels, as they are written there.
type Metrics map[string]float64

// Metrics reads /metrics.
func (d *Daemon) Metrics(ctx context.Context) (Metrics, error) {
	status, body, err := d.Get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		return nil, fmt.Errorf("/metrics: status %d: %s", status, body)
	}
	m := Metrics{}
	for lines := bufio.NewScanner(strings.NewReader(body)); lines.Scan(); {
		series, value, ok := cutLast(lines.Text(), " ")
		if !ok || strings.HasPrefix(series, "#") {
			continue
		}
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			m[series] = v
		}
	}
	return m, nil
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// Quantile estimates a quantile of a histogram without labels, as PromQL's
// histogram_quantile does. NaN says that it is empty.
func (m Metrics) Quantile(name string, q float64) float64 {
	type bucket struct{ upTo, count float64 }
	var buckets []bucket
	for series, count := range m {
		le, ok := strings.CutPrefix(series, name+`_bucket{le="`)
		if !ok {
			continue
		}
		upTo, err := strconv.ParseFloat(strings.TrimSuffix(le, `"}`), 64)
		if err == nil {
			buckets = append(buckets, bucket{upTo, count})
		}
	}
	slices.SortFunc(buckets, func(a, b bucket) int {
		if a.upTo < b.upTo {
			return -1
		}
		return 1
	})
	if len(buckets) == 0 || buckets[len(buckets)-1].count == 0 {
		return math.NaN()
	}
	rank := q * buckets[len(buckets)-1].count
	var from, below float64
	for _, b := range buckets {
		if b.count >= rank && b.count > below {
			if math.IsInf(b.upTo, 1) {
				return from
			}
			return from + (b.upTo-from)*(rank-below)/(b.count-below)
		}
		from, below = b.upTo, b.count
	}
	return from
}

// Usage is what a process has taken so far.
type Usage struct {
	ResidentBytes, PeakBytes int64
	CPU                      time.Duration
}

// Usage reads what the present process has taken so far.
func (d *Daemon) Usage() (Usage, error) {
	var u Usage
	dir := fmt.Sprintf("/proc/%d/", d.PID())
	status, err := os.ReadFile(dir + "status")
	if err != nil {
		return u, err
	}
	for line := range strings.Lines(string(status)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		kilobytes, _ := strconv.ParseInt(f[1], 10, 64)
		switch f[0] {
		case "VmRSS:":
			u.ResidentBytes = kilobytes << 10
		case "VmHWM:":
			u.PeakBytes = kilobytes << 10
		}
	}
	stat, err := os.ReadFile(dir + "stat")
	if err != nil {
		return u, err
	}
	_, rest, _ := cutLast(string(stat), ")")
	f := strings.Fields(rest)
	if len(f) < 13 {
		return u, fmt.Errorf("%sstat: %q", dir, stat)
	}
	// Linux counts these in hundredths of a second on every architecture.
	for _, ticks := range f[11:13] {
		n, err := strconv.ParseInt(ticks, 10, 64)
		if err != nil {
			return u, err
		}
		u.CPU += time.Duration(n) * 10 * time.Millisecond
	}
	return u, nil
}
