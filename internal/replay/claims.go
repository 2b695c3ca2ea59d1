package replay

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/nodeproof"
	"github.com/orphand/orphand/pkg/settle"
	"github.com/orphand/orphand/pkg/signals"
	"k8s.io/apimachinery/pkg/types"
)

// Check is what must hold, and what must not, when everything due at its moment has been worked off.
type Check struct {
	Wanted, Unwanted *Claims
}

// Claims are the claims of one `expect` or `expectNot`. Lists that are nil were not given.
type Claims struct {
	Jobs          []JobClaim
	Pods          []PodClaim
	FindingsCount []CountClaim
	Retention     []RetentionClaim
	Metrics       []MetricClaim

	Findings, FindingsInclude               *CodesClaim
	Deletes, DeletesAnyOrder, DeletesWithin *DeletesClaim
}

// JobClaim says that a job has a state. UID is empty where the name alone is given.
type JobClaim struct {
	Place
	Said string
	facts.JobKey
	State settle.State
}

// PodClaim says that a pod, by name or UID, has a verdict, and a reason unless that is empty.
type PodClaim struct {
	Place
	Pod string
	nodeproof.Pair
}

// CountClaim says how often a finding was raised.
type CountClaim struct {
	Place
	Code  signals.Finding
	Count int
}

// CodesClaim lists codes of findings.
type CodesClaim struct {
	Place
	Codes []CodeClaim
}

// CodeClaim is one code of a list.
type CodeClaim struct {
	Place
	Code signals.Finding
}

// DeletesClaim lists DELETE calls.
type DeletesClaim struct {
	Place
	Deletes []DeleteClaim
}

// DeleteClaim is one DELETE call; UID is empty where any is meant.
type DeleteClaim struct {
	Place
	// Ref is <namespace>/<kind>/<name>.
	Ref string
	UID types.UID
}

// RetentionClaim says what retention decides of an object.
type RetentionClaim struct {
	Place
	Ref      string
	Decision string
}

// MetricClaim says what a series is.
type MetricClaim struct {
	Place
	Series string
	Value  float64
}

// claims reads what `expect` or `expectNot` says.
func (r *reader) claims(d *document, t *tree, what string, into **Claims) error {
	c := &Claims{}
	*into = c
	each := func(name, expected string, read func(f field) error) key {
		return key{name, func(t *tree) error {
			if err := d.want(t, what+"."+name, expected, mapping); err != nil {
				return err
			}
			for _, f := range t.fields {
				if err := read(f); err != nil {
					return err
				}
			}
			return nil
		}}
	}
	codes := func(name string, into **CodesClaim) key {
		return key{name, func(t *tree) error {
			list := &CodesClaim{Place: d.place(t.line)}
			*into = list
			return d.texts(t, what+"."+name, "a list of codes of findings", func(item *tree) error {
				code, err := d.code(item.scalar, item.line)
				list.Codes = append(list.Codes, CodeClaim{d.place(item.line), code})
				return err
			})
		}}
	}
	deletes := func(name string, into **DeletesClaim) key {
		return key{name, func(t *tree) error {
			list := &DeletesClaim{Place: d.place(t.line)}
			*into = list
			return d.texts(t, what+"."+name, "a list of <namespace>/<kind>/<name>[@uid]", func(item *tree) error {
				claim, err := d.delete(item)
				list.Deletes = append(list.Deletes, claim)
				return err
			})
		}}
	}
	err := d.read(t, what,
		each("jobs", "a mapping of namespace/name or namespace/name/uid to states", func(f field) error {
			claim, err := d.job(f)
			c.Jobs = append(c.Jobs, claim)
			return err
		}),
		each("pods", "a mapping of names or UIDs to verdicts", func(f field) error {
			claim, err := d.pod(f)
			c.Pods = append(c.Pods, claim)
			return err
		}),
		deletes("deletes", &c.Deletes),
		codes("findings", &c.Findings),
		each("findingsCount", "a mapping of codes of findings to counts", func(f field) error {
			code, err := d.code(f.name, f.line)
			if err != nil {
				return err
			}
			n, err := strconv.Atoi(f.value.scalar)
			if f.value.shape != integer || err != nil || n < 0 {
				return d.malformed(f.value.line, "the count of %s is %s: expected a whole number", f.name, f.value.say())
			}
			c.FindingsCount = append(c.FindingsCount, CountClaim{d.place(f.line), code, n})
			return nil
		}),
		each("retention", "a mapping of namespace/kind/name to decisions", func(f field) error {
			if !reference.MatchString(f.name) || strings.Contains(f.name, "@") {
				return d.malformed(f.line, "%q is no object: expected <namespace>/<kind>/<name>", f.name)
			}
			if f.value.shape != text || !decision.MatchString(f.value.scalar) {
				return d.malformed(f.value.line, "the decision is %s: expected KEEP(reason), SKIP(reason), DELETE@<offset or time>, or one of these words alone", f.value.say())
			}
			c.Retention = append(c.Retention, RetentionClaim{d.place(f.line), f.name, f.value.scalar})
			return nil
		}),
		each("metrics", "a mapping of series to values", func(f field) error {
			series, ok := canonicalSeries(f.name)
			if !ok {
				return d.malformed(f.line, "%q is no series: expected name{label=\"value\",...}", f.name)
			}
			value, err := strconv.ParseFloat(f.value.scalar, 64)
			if f.value.shape != integer && f.value.shape != number || err != nil {
				return d.malformed(f.value.line, "the value of %s is %s: expected a number", f.name, f.value.say())
			}
			c.Metrics = append(c.Metrics, MetricClaim{d.place(f.line), series, value})
			return nil
		}),
		codes("findingsInclude", &c.FindingsInclude),
		deletes("deletesAnyOrder", &c.DeletesAnyOrder),
		deletes("deletesWithin", &c.DeletesWithin),
	)
	if err == nil && len(t.fields) == 0 {
		err = d.malformed(t.line, "%s claims nothing: expected at least one of jobs, pods, deletes, findings and the like", what)
	}
	return err
}

var (
	reference = regexp.MustCompile(`^[^\s/@]+(/[^\s/@]+){1,2}(@\S+)?$`)
	decision  = regexp.MustCompile(`^((KEEP|SKIP)(\([^()]*(\([^()]*\)[^()]*)*\))?|DELETE(@\S+)?)$`)
)

func (d *document) texts(t *tree, what, expected string, each func(*tree) error) error {
	if err := d.want(t, what, expected, list); err != nil {
		return err
	}
	for _, item := range t.items {
		if item.shape != text {
			return d.malformed(item.line, "an item of %s is %s: expected text", what, item.say())
		}
		if err := each(item); err != nil {
			return err
		}
	}
	return nil
}

func (d *document) code(code string, line int) (signals.Finding, error) {
	if _, known := signals.LookupFinding(signals.Finding(code)); known {
		return signals.Finding(code), nil
	}
	var all []string
	for _, f := range signals.Findings() {
		all = append(all, string(f.Code))
	}
	return "", d.malformed(line, "%q is no finding: expected one of %s", code, strings.Join(all, ", "))
}

func (d *document) delete(t *tree) (DeleteClaim, error) {
	if !reference.MatchString(t.scalar) {
		return DeleteClaim{}, d.malformed(t.line, "%q is no object: expected <namespace>/<kind>/<name>, with @uid or without", t.scalar)
	}
	ref, uid, _ := strings.Cut(t.scalar, "@")
	return DeleteClaim{d.place(t.line), ref, types.UID(uid)}, nil
}

func (d *document) job(f field) (JobClaim, error) {
	parts := strings.SplitN(f.name, "/", 3)
	if len(parts) < 2 || parts[0] == "" || parts[1] == "" || len(parts) == 3 && parts[2] == "" {
		return JobClaim{}, d.malformed(f.line, "%q is no job: expected namespace/name or namespace/name/uid", f.name)
	}
	claim := JobClaim{Place: d.place(f.line), Said: f.name, JobKey: facts.JobKey{Namespace: parts[0], Name: parts[1]}}
	if len(parts) == 3 {
		claim.UID = types.UID(parts[2])
	}
	var states []string
	for _, s := range settle.States() {
		states = append(states, string(s))
	}
	state, err := d.one(f.value, "the state of "+f.name, states...)
	claim.State = settle.State(state)
	return claim, err
}

func (d *document) pod(f field) (PodClaim, error) {
	claim := PodClaim{Place: d.place(f.line), Pod: f.name}
	verdict, reason, reasoned := strings.Cut(f.value.scalar, "/")
	claim.Pair = nodeproof.Pair{Verdict: nodeproof.Verdict(verdict), Reason: nodeproof.Reason(reason)}
	var all []string
	for _, p := range nodeproof.Pairs() {
		if f.value.shape == text && p.Verdict == claim.Verdict && (!reasoned || p.Reason == claim.Reason) {
			return claim, nil
		}
		all = append(all, string(p.Verdict)+"/"+string(p.Reason))
	}
	return claim, d.malformed(f.value.line, "the verdict on %s is %s: expected Alive, Unproven or Gone, or one of %s", f.name, f.value.say(), strings.Join(all, ", "))
}
