package replay

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orphand/orphand/internal/stage"
	"github.com/orphand/orphand/pkg/nodeproof"
	"github.com/orphand/orphand/pkg/settle"
	"github.com/orphand/orphand/pkg/signals"
	"k8s.io/apimachinery/pkg/types"
)

// Failure is a claim that did not hold.
type Failure struct {
	Place
	At time.Duration
	// What is claimed of what; Got and Want are what was there and what was claimed. Where lists are compared, Missing were
	// claimed and are not there, Surplus are there and were not claimed.
	What, Got, Want  string
	Missing, Surplus []string
}

// String is the difference, over several lines where lists are compared.
func (f Failure) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: at %s: %s", f.Place, Offset(f.At), f.What)
	if f.Got != "" || f.Want != "" {
		fmt.Fprintf(&b, ": got %s, want %s", f.Got, f.Want)
	}
	for _, s := range f.Missing {
		b.WriteString("\n  - " + s + " (wanted, not there)")
	}
	for _, s := range f.Surplus {
		b.WriteString("\n  + " + s + " (there, not wanted)")
	}
	return b.String()
}

// check holds the claims of one document against what there is now.
func (p *play) check(s *Step) {
	before := len(p.result.Failures)
	p.remember()
	c := &checker{play: p, at: s.At}
	if s.Check.Wanted != nil {
		c.all(s.Check.Wanted)
	}
	if s.Check.Unwanted != nil {
		c.none(s.Check.Unwanted)
	}
	slices.SortStableFunc(p.result.Failures[before:], func(a, b Failure) int { return cmp.Compare(a.Line, b.Line) })
}

// remember takes what the engine holds into its last words: some of it, such as what was there at the start, it never told.
func (p *play) remember() {
	if p.engine == nil {
		return
	}
	for _, j := range p.engine.Jobs() {
		if j.State != "" {
			p.words.jobs[j.Key] = j.State
		}
		for _, v := range j.Pods {
			if v.Verdict != "" {
				p.words.pods[v.UID] = v
			}
		}
	}
}

type checker struct {
	*play
	at time.Duration
}

func (c *checker) fail(f Failure) {
	f.At = c.at
	c.result.Failures = append(c.result.Failures, f)
}

// verdict fails the claim unless it holds; got is what there is, "" where that is nothing at all.
func (c *checker) verdict(place Place, what string, holds bool, got, want string) {
	c.result.Checked++
	if !holds {
		c.fail(Failure{Place: place, What: what, Got: cmp.Or(got, "nothing"), Want: want})
	}
}

func (c *checker) all(claims *Claims) {
	for _, j := range claims.Jobs {
		got, err := c.job(j)
		if err != nil {
			c.verdict(j.Place, "expect.jobs "+j.Said, false, err.Error(), string(j.State))
			continue
		}
		c.verdict(j.Place, "expect.jobs "+j.Said, got == j.State, string(got), string(j.State))
	}
	for _, v := range claims.Pods {
		got, err := c.pod(v.Pod)
		if err != nil {
			c.verdict(v.Place, "expect.pods "+v.Pod, false, err.Error(), pair(v.Pair))
			continue
		}
		c.verdict(v.Place, "expect.pods "+v.Pod, v.holds(got), pair(got), pair(v.Pair))
	}
	if l := claims.Findings; l != nil {
		c.set(l.Place, "expect.findings", slices.Collect(maps.Keys(c.raised)), l.codes(), true)
	}
	if l := claims.FindingsInclude; l != nil {
		c.set(l.Place, "expect.findingsInclude", slices.Collect(maps.Keys(c.raised)), l.codes(), false)
	}
	for _, n := range claims.FindingsCount {
		c.verdict(n.Place, "expect.findingsCount "+string(n.Code), c.raised[n.Code] == n.Count, strconv.Itoa(c.raised[n.Code]), strconv.Itoa(n.Count))
	}
	calls := c.deleted()
	if l := claims.Deletes; l != nil {
		c.ordered(l, calls)
	}
	if l := claims.DeletesAnyOrder; l != nil {
		missing, surplus := l.match(calls, false)
		c.lists(l.Place, "expect.deletesAnyOrder", missing, surplus)
	}
	if l := claims.DeletesWithin; l != nil {
		_, surplus := l.match(calls, true)
		c.lists(l.Place, "expect.deletesWithin", nil, surplus)
	}
	for _, r := range claims.Retention {
		got, holds := c.retention(r)
		c.verdict(r.Place, "expect.retention "+r.Ref, holds, got, r.Decision)
	}
	series := c.series(claims.Metrics)
	for _, m := range claims.Metrics {
		got, known := series[m.Series]
		text := "no such series"
		if known {
			text = number64(got)
		}
		c.verdict(m.Place, "expect.metrics "+m.Series, known && m.holds(got), text, number64(m.Value))
	}
}

// none fails each claim that holds. What is not known does not hold; what is ambiguous is no claim and fails too.
func (c *checker) none(claims *Claims) {
	not := func(place Place, what string, holds bool, got string) {
		c.verdict(place, "expectNot."+what, !holds, got, "anything else")
	}
	for _, j := range claims.Jobs {
		got, err := c.job(j)
		if err != nil {
			not(j.Place, "jobs "+j.Said, true, err.Error())
			continue
		}
		not(j.Place, "jobs "+j.Said, got == j.State, string(got))
	}
	for _, v := range claims.Pods {
		got, err := c.pod(v.Pod)
		if err != nil {
			not(v.Place, "pods "+v.Pod, true, err.Error())
			continue
		}
		not(v.Place, "pods "+v.Pod, v.holds(got), pair(got))
	}
	for _, l := range []*CodesClaim{claims.Findings, claims.FindingsInclude} {
		if l != nil {
			for _, code := range l.Codes {
				not(code.Place, "findings "+string(code.Code), c.raised[code.Code] > 0, "it was raised")
			}
		}
	}
	for _, n := range claims.FindingsCount {
		not(n.Place, "findingsCount "+string(n.Code), c.raised[n.Code] == n.Count, strconv.Itoa(n.Count))
	}
	calls := c.deleted()
	for _, l := range []*DeletesClaim{claims.Deletes, claims.DeletesAnyOrder, claims.DeletesWithin} {
		if l != nil {
			for _, d := range l.Deletes {
				not(d.Place, "deletes "+d.String(), slices.ContainsFunc(calls, d.is), "it was deleted")
			}
		}
	}
	for _, r := range claims.Retention {
		got, holds := c.retention(r)
		not(r.Place, "retention "+r.Ref, holds, got)
	}
	series := c.series(claims.Metrics)
	for _, m := range claims.Metrics {
		got, known := series[m.Series]
		not(m.Place, "metrics "+m.Series, known && m.holds(got), number64(got))
	}
}

// job is the state of the job that a claim means; "" when none is known.
func (c *checker) job(claim JobClaim) (settle.State, error) {
	if claim.UID != "" {
		return c.words.jobs[claim.JobKey], nil
	}
	var found settle.State
	var uids []string
	for k, state := range c.words.jobs {
		if k.Namespace == claim.Namespace && k.Name == claim.Name {
			found = state
			uids = append(uids, string(k.UID))
		}
	}
	if len(uids) > 1 {
		slices.Sort(uids)
		return "", fmt.Errorf("%d jobs of that name (%s; add the UID)", len(uids), strings.Join(uids, ", "))
	}
	return found, nil
}

// pod is the verdict on the pod that a claim means, by UID, by name, or by namespace/name.
func (c *checker) pod(name string) (nodeproof.Pair, error) {
	if v, ok := c.words.pods[types.UID(name)]; ok {
		return v.Pair, nil
	}
	var found nodeproof.Pair
	var uids []string
	for _, v := range c.words.pods {
		if v.Name == name || v.Namespace+"/"+v.Name == name {
			found = v.Pair
			uids = append(uids, string(v.UID))
		}
	}
	if len(uids) > 1 {
		slices.Sort(uids)
		return nodeproof.Pair{}, fmt.Errorf("%d pods of that name (%s; give the UID)", len(uids), strings.Join(uids, ", "))
	}
	return found, nil
}

// holds says whether the claim is the verdict; a claim without a reason accepts any.
func (v PodClaim) holds(got nodeproof.Pair) bool {
	return got.Verdict == v.Verdict && (v.Reason == "" || got.Reason == v.Reason)
}

func pair(p nodeproof.Pair) string {
	if p.Reason == "" {
		return string(p.Verdict)
	}
	return string(p.Verdict) + "/" + string(p.Reason)
}

// holds says whether the claim is the value. Seconds are compared to the microsecond: the moments between which they lie
// may be some nanoseconds apart for the sake of their order.
func (m MetricClaim) holds(got float64) bool { return math.Abs(got-m.Value) < 1e-6 }

func number64(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

func (l *CodesClaim) codes() []signals.Finding {
	list := make([]signals.Finding, len(l.Codes))
	for i, c := range l.Codes {
		list[i] = c.Code
	}
	return list
}

func (c *checker) set(place Place, what string, got, want []signals.Finding, complete bool) {
	var missing, surplus []string
	for _, w := range want {
		if !slices.Contains(got, w) {
			missing = append(missing, string(w))
		}
	}
	for _, g := range got {
		if complete && !slices.Contains(want, g) {
			surplus = append(surplus, string(g))
		}
	}
	slices.Sort(missing)
	slices.Sort(surplus)
	c.lists(place, what, missing, surplus)
}

func (c *checker) lists(place Place, what string, missing, surplus []string) {
	c.result.Checked++
	if len(missing)+len(surplus) > 0 {
		c.fail(Failure{Place: place, What: what, Missing: missing, Surplus: surplus})
	}
}

// String is the claim as it is written.
func (d DeleteClaim) String() string {
	if d.UID == "" {
		return d.Ref
	}
	return d.Ref + "@" + string(d.UID)
}

func (d DeleteClaim) is(call stage.Call) bool {
	return refOf(call).String() == d.Ref && (d.UID == "" || d.UID == call.UID)
}

func called(c stage.Call) string {
	if c.UID == "" {
		return refOf(c).String()
	}
	return refOf(c).String() + "@" + string(c.UID)
}

// match pairs claims with calls, each once, or, where several calls may be of one claim, as often as they come.
func (l *DeletesClaim) match(calls []stage.Call, often bool) (missing, surplus []string) {
	used := make([]bool, len(l.Deletes))
	for _, call := range calls {
		i := -1
		for j, d := range l.Deletes {
			if d.is(call) && (often || !used[j]) && (i < 0 || d.UID != "") {
				i = j // one with the UID before one without
			}
		}
		if i < 0 {
			surplus = append(surplus, called(call))
			continue
		}
		used[i] = true
	}
	for j, d := range l.Deletes {
		if !used[j] {
			missing = append(missing, d.String())
		}
	}
	return missing, surplus
}

// ordered compares calls with a list, in order.
func (c *checker) ordered(l *DeletesClaim, calls []stage.Call) {
	holds := len(calls) == len(l.Deletes)
	for i := 0; holds && i < len(calls); i++ {
		holds = l.Deletes[i].is(calls[i])
	}
	if holds {
		c.lists(l.Place, "expect.deletes", nil, nil)
		return
	}
	missing, surplus := l.match(calls, false)
	if len(missing)+len(surplus) > 0 {
		c.lists(l.Place, "expect.deletes", missing, surplus)
		return
	}
	got, want := make([]string, len(calls)), make([]string, len(l.Deletes))
	for i := range calls {
		got[i], want[i] = called(calls[i]), l.Deletes[i].String()
	}
	c.verdict(l.Place, "expect.deletes", false, strings.Join(got, ", "), strings.Join(want, ", ")+" in this order")
}

// series are the daemon's metrics, when any are claimed.
func (c *checker) series(claims []MetricClaim) map[string]float64 {
	if len(claims) == 0 || c.endpoint == nil {
		return nil
	}
	series, err := scrape(c.endpoint)
	if err != nil {
		c.failed = err
	}
	return series
}
