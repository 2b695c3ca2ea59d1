package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/orphand/orphand/e2e/cluster"
)

// auditPolicy keeps every call of the two who delete, reads included. Others are not looked at.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  verbs: [watch]
- level: Request
  users: [` + user + `, "system:serviceaccount:kube-system:ttl-after-finished-controller"]
  verbs: [delete]
- level: Metadata
  users: [` + user + `, "system:serviceaccount:kube-system:ttl-after-finished-controller"]
- level: None
`

// taken is what it took one who deletes to remove the jobs of a batch, by the API server's audit log.
type taken struct {
	words string
	// late is how much later than they were due the accepted DELETEs arrived, in order.
	late        []time.Duration
	first, last time.Time
	// own are the calls on the jobs until their DELETE was accepted, and all counts every other call by what it is.
	own int
	all map[string]int
	// unsafe are DELETEs that could have removed another object of the name.
	unsafe int
}

func (t *taken) quantile(q float64) time.Duration {
	if len(t.late) == 0 {
		return 0
	}
	return t.late[min(len(t.late)-1, int(q*float64(len(t.late))))]
}

// rate is how many were deleted a second.
func (t *taken) rate() float64 {
	if span := t.last.Sub(t.first).Seconds(); span > 0 {
		return float64(len(t.late)) / span
	}
	return 0
}

func (t *taken) perObject(calls int) float64 {
	return float64(calls) / float64(max(len(t.late), 1))
}

func (t *taken) others() int {
	sum := 0
	for _, n := range t.all {
		sum += n
	}
	return sum
}

// result is one part of the measurement.
type result struct {
	part         string
	ours, theirs *taken
}

// report reads the audit log for what became of two batches.
func (b *bench) report(part string, train, plain *batch, dueTrain, duePlain func(name string) time.Time) (*result, error) {
	calls, err := b.c.Writes()
	if err != nil {
		return nil, err
	}
	// The log has them as they were answered, and a watch may tell of a DELETE before it is.
	slices.SortStableFunc(calls, func(x, y cluster.Write) int { return x.Time.Compare(y.Time) })
	return &result{part: part, ours: count(calls, train, dueTrain), theirs: count(calls, plain, duePlain)}, nil
}

func count(calls []cluster.Write, t *batch, due func(name string) time.Time) *taken {
	r := &taken{words: t.kind.words, all: map[string]int{}}
	deleted := map[string]bool{}
	prefix := t.part + "-"
	begun := false
	for _, c := range calls {
		if c.User != t.kind.who {
			continue
		}
		mine := c.Resource == t.kind.resource.Resource && c.Group == t.kind.resource.Group && strings.HasPrefix(c.Name, prefix)
		begun = begun || mine
		switch {
		case mine && !deleted[c.Name] && (c.Verb == "get" || c.Verb == "delete"):
			r.own++
			if c.Verb == "delete" && c.Code < 300 {
				deleted[c.Name] = true
				r.late = append(r.late, c.Time.Sub(due(c.Name)))
				if r.first.IsZero() || c.Time.Before(r.first) {
					r.first = c.Time
				}
				if c.Time.After(r.last) {
					r.last = c.Time
				}
				if c.Options == nil || c.Options.Preconditions == nil || c.Options.Preconditions.UID == nil {
					r.unsafe++
				}
			}
		case begun:
			resource := c.Resource
			if c.Subresource != "" {
				resource += "/" + c.Subresource
			}
			r.all[c.Verb+" "+resource]++
		}
	}
	slices.Sort(r.late)
	return r
}

// calls is an error when the calls on the objects are more than may be, or one could have met another object.
func (r *result) calls() error {
	if n := r.ours.perObject(r.ours.own); n > maxCalls {
		return fmt.Errorf("%.3f calls on each object that was removed, at most %.1f are wanted", n, maxCalls)
	}
	if r.ours.unsafe > 0 {
		return fmt.Errorf("%d DELETEs without a UID", r.ours.unsafe)
	}
	return nil
}

// print writes both side by side, and the ratio of ours to theirs.
func (r *result) print(b *bench) {
	b.say("%s, by the API server's audit log:", r.part)
	row := func(name, format string, of func(*taken) float64) {
		ours, theirs := of(r.ours), of(r.theirs)
		ratio := "-"
		if theirs != 0 {
			ratio = fmt.Sprintf("%.2f", ours/theirs)
		}
		fmt.Printf("          %-38s %12s %12s %8s\n", name, fmt.Sprintf(format, ours), fmt.Sprintf(format, theirs), ratio)
	}
	fmt.Printf("          %-38s %12s %12s %8s\n", "", "orphand", "TTL contr.", "ratio")
	row("removed", "%.0f", func(t *taken) float64 { return float64(len(t.late)) })
	row("DELETEs a second", "%.1f", (*taken).rate)
	row("calls on each object, until it is deleted", "%.3f", func(t *taken) float64 { return t.perObject(t.own) })
	row("other calls for each object", "%.3f", func(t *taken) float64 { return t.perObject(t.others()) })
	for _, q := range []struct {
		name string
		of   float64
	}{{"lateness p50, s", 0.5}, {"lateness p99, s", 0.99}, {"lateness, longest, s", 1}} {
		row(q.name, "%.3f", func(t *taken) float64 { return t.quantile(q.of).Seconds() })
	}
	names := slices.SortedFunc(maps.Keys(r.ours.all), func(x, y string) int { return cmp.Compare(r.ours.all[y], r.ours.all[x]) })
	var others []string
	for _, name := range names[:min(len(names), 12)] {
		others = append(others, fmt.Sprintf("%s %.3f", name, r.ours.perObject(r.ours.all[name])))
	}
	if len(others) > 0 {
		fmt.Printf("          orphand's other calls, for each object: %s\n", strings.Join(others, ", "))
	}
}
