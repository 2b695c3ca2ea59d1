package retention

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Policy is a policy file that was read and found right.
type Policy struct {
	document    Document
	kinds       []*Kind
	rules       []*rule
	marks       []string
	expressions map[string]*expression
	recreation  Recreations
	namespaced  *namespaced
}

// rule is a rule made ready to match.
type rule struct {
	*Rule
	kinds      []*Kind // nil for every kind
	namespaces globs
	labels     labels.Selector
	expression string
	// min and max are the tightest of the rule's own and, for a namespace's rule, the administrators'.
	min, max *Duration
	// least is what the administrators ask of a namespace's own rule, whatever it says; nil for none.
	least *Duration
	// most is how long the administrators let a namespace's own rule keep an object, whatever it says; nil for no limit.
	most *Duration
	// unclear says that it stands for the rules of a namespace that nobody can read: max alone counts.
	unclear bool
}

// namespaced are the administrators' limits for the rules of namespaces.
type namespaced struct {
	globs
	configMap string
	min, max  *Duration
}

// Named is the kind that a person means by a word: its short name, its resource with or without group, or its kind, in any
// case; nil when there is none.
func (p *Policy) Named(word string) *Kind {
	for _, k := range p.kinds {
		if strings.EqualFold(word, k.Name) || strings.EqualFold(word, k.Resource) && k.Name != "VolcanoJob" || k.named(word) {
			return k
		}
	}
	return nil
}

// Recreations says when an object that comes back after its clean-up is left alone: from the Limit-th time on that it is
// created within Within of its clean-up.
type Recreations struct {
	Limit  int
	Within time.Duration
}

// Load reads a policy file. The policy is nil when one of the problems is more than a warning.
func Load(data []byte) (*Policy, Problems) { return load(data, true) }

// LoadInline reads a policy that stands inside another document, where apiVersion and kind may be left out.
func LoadInline(data []byte) (*Policy, Problems) { return load(data, false) }

func load(data []byte, whole bool) (*Policy, Problems) {
	d := &decoder{}
	root := d.document(data)
	if root == nil {
		return nil, d.problems
	}
	var doc Document
	d.into(root, reflect.ValueOf(&doc).Elem(), "", 0)
	if whole {
		if _, given := d.places["apiVersion"]; !given {
			d.problem(at(root), "", "apiVersion is missing: use %s", APIVersion)
		}
		if _, given := d.places["kind"]; !given {
			d.problem(at(root), "", "kind is missing: use %s", DocumentKind)
		}
	}
	p := d.compile(doc)
	d.problems.sort()
	if d.problems.Err() != nil {
		return nil, d.problems
	}
	return p, d.problems
}

func (d *decoder) compile(doc Document) *Policy {
	p := &Policy{document: doc, marks: gitOpsMarks(), expressions: map[string]*expression{}}
	c, err := newCompiler()
	if err != nil {
		d.wrong("", "CEL cannot be used: %v", err)
		return nil
	}
	p.kinds = d.kinds(c, doc.Kinds)
	for i, mark := range doc.GitOpsMarks {
		if problems := validation.IsQualifiedName(mark); len(problems) > 0 {
			d.wrong(fmt.Sprintf("gitOpsMarks[%d]", i), "%q is no label or annotation: %s", mark, problems[0])
		}
		p.marks = append(p.marks, mark)
	}
	p.recreation = Recreations{Limit: 1, Within: time.Hour}
	if r := doc.Recreation; r != nil {
		if r.Limit != nil {
			p.recreation.Limit = *r.Limit
		}
		if r.Within != nil {
			p.recreation.Within = time.Duration(*r.Within)
		}
	}
	if n := doc.Namespaced; n != nil {
		p.namespaced = &namespaced{globs: d.globs(n.Namespaces, "namespacePolicies.namespaces"), configMap: n.ConfigMap, min: n.Min, max: n.Max}
		if p.namespaced.configMap == "" {
			p.namespaced.configMap = "orphand-retention"
		} else if problems := validation.IsDNS1123Subdomain(n.ConfigMap); len(problems) > 0 {
			d.wrong("namespacePolicies.configMap", "%q is no name of a ConfigMap", n.ConfigMap)
		}
		d.order(n.Min, n.Max, "namespacePolicies")
	}
	d.rules(c, p)
	return p
}

// rules makes the document's rules ready and looks for those that can never match.
func (d *decoder) rules(c compiler, p *Policy) {
	if len(p.document.Rules) == 0 {
		d.warn("rules", "no rules: everything is kept")
	}
	names := map[string]int{}
	for i := range p.document.Rules {
		path := fmt.Sprintf("rules[%d]", i)
		r := d.rule(c, p, &p.document.Rules[i], path)
		if r.Name == "" {
			r.Name = path
		} else if first, again := names[r.Name]; again {
			d.wrong(path+".name", "%q is the name of rules[%d] as well", r.Name, first)
		} else {
			names[r.Name] = i
		}
		for j, earlier := range p.rules {
			switch {
			case earlier.same(r):
				d.warn(path, "rule %q is never used: it ties with rules[%d] %q, which matches the same and comes first", r.Name, j, earlier.Name)
			case earlier.covers(r):
				d.warn(path, "rule %q is never used: rules[%d] %q matches everything that it matches and comes first", r.Name, j, earlier.Name)
			default:
				continue
			}
			break
		}
		p.rules = append(p.rules, r)
	}
}

func (d *decoder) rule(c compiler, p *Policy, given *Rule, path string) *rule {
	r := &rule{Rule: given, labels: labels.Everything(), min: given.Min, max: given.Max}
	if m := given.Match; m != nil {
		r.kinds = d.matchKinds(p.kinds, m.Kinds, path+".match.kinds")
		r.namespaces = d.globs(m.Namespaces, path+".match.namespaces")
		if m.Labels != nil {
			selector, err := labels.Parse(m.Labels.Text)
			if err != nil {
				d.wrong(path+".match.labels", "no label selector: %v", err)
			} else {
				r.labels = selector
			}
		}
		if r.expression = m.Expression; r.expression != "" {
			if compiled := d.expression(c, m.Expression, path+".match.expression", boolType()); compiled != nil {
				p.expressions[m.Expression] = compiled
			}
		}
	}
	d.times(given, path)
	if k := given.KeepLast; k != nil {
		switch per, label, isLabel := strings.Cut(k.Per, ":"); {
		case k.Per == "", k.Per == "namespace", k.Per == "owner":
		case per == "label" && isLabel:
			if problems := validation.IsQualifiedName(label); len(problems) > 0 {
				d.wrong(path+".keepLast.per", "%q is no label: %s", label, problems[0])
			}
		default:
			d.wrong(path+".keepLast.per", "%q: use namespace, owner or label:KEY", k.Per)
		}
		if k.Succeeded == nil && k.Failed == nil {
			d.wrong(path+".keepLast", "give succeeded, failed or both")
		}
	}
	return r
}

// times looks for times that contradict one another.
func (d *decoder) times(r *Rule, path string) {
	d.order(r.Min, r.Max, path)
	twice := func(field string, apart, within *Duration) {
		if apart != nil && within != nil {
			d.wrong(path+"."+field, "given as %s.ttlAfterFinished.%s as well", path, field)
		}
	}
	if r.TTL != nil {
		twice("succeeded", r.Succeeded, r.TTL.Succeeded)
		twice("failed", r.Failed, r.TTL.Failed)
		twice("deadlineExceeded", r.DeadlineExceeded, r.TTL.DeadlineExceeded)
	}
	for _, o := range []Outcome{Succeeded, Failed, DeadlineExceeded} {
		ttl := r.ttl(o)
		if ttl == nil {
			continue
		}
		field := path + ".ttlAfterFinished"
		if _, apart := d.places[path+"."+string(o)]; apart {
			field = path + "." + string(o)
		} else if o != Succeeded {
			continue // said already, or not said at all
		}
		if r.Max != nil && *ttl > *r.Max {
			d.warn(field, "%s is more than max, which cuts it to %s", FormatDuration(time.Duration(*ttl)), FormatDuration(time.Duration(*r.Max)))
		}
		if r.Notice != nil && *r.Notice > *ttl {
			then := "such objects are announced when they finish"
			if *ttl == 0 {
				then = "such objects go at once, unannounced"
			}
			d.warn(path+".notice", "%s is more than the TTL, %s: %s", FormatDuration(time.Duration(*r.Notice)), FormatDuration(time.Duration(*ttl)), then)
		}
	}
}

func (d *decoder) order(least, most *Duration, path string) {
	if least != nil && most != nil && *least > *most {
		d.wrong(path+".min", "%s is more than max, %s", FormatDuration(time.Duration(*least)), FormatDuration(time.Duration(*most)))
	}
}

func (d *decoder) matchKinds(known []*Kind, words []string, path string) []*Kind {
	var list []*Kind
	for i, word := range words {
		at := fmt.Sprintf("%s[%d]", path, i)
		if word == "*" {
			list = append(list, known...)
			continue
		}
		found := slices.IndexFunc(known, func(k *Kind) bool { return k.named(word) })
		switch {
		case found < 0:
			d.wrong(at, "unknown kind %q%s", word, suggestion(word, kindNames(known)))
		case slices.Contains(list, known[found]):
			d.warn(at, "%s is there already", known[found].Name)
		default:
			list = append(list, known[found])
		}
	}
	return list
}

func kindNames(kinds []*Kind) []string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.Name, k.GroupResource())
	}
	return names
}

func (d *decoder) globs(words []string, path string) globs {
	var g globs
	for i, word := range words {
		pattern, excludes, err := parseGlob(word)
		switch {
		case err != nil:
			d.wrong(fmt.Sprintf("%s[%d]", path, i), "%q: %v", word, err)
		case excludes:
			g.exclude = append(g.exclude, pattern)
		default:
			g.include = append(g.include, pattern)
		}
	}
	return g
}

// kinds adds the document's kinds to the built-in ones.
func (d *decoder) kinds(c compiler, given []NewKind) []*Kind {
	known := Kinds()
	for i, n := range given {
		path := fmt.Sprintf("kinds[%d]", i)
		k := &Kind{Name: n.Name, Group: n.Group, Resource: n.Resource, Kind: n.Kind, Versions: n.Versions, PodLabel: n.PodLabel}
		if k.Name == "" {
			k.Name = k.Kind
		}
		for _, other := range known {
			if other.Name == k.Name || other.GroupResource() == k.GroupResource() {
				d.wrong(path, "%s (%s) is there already; give it another name", other.Name, other.GroupResource())
			}
		}
		for _, f := range []struct{ field, text string }{{"group", n.Group}, {"resource", n.Resource}} {
			if f.text != "" && len(validation.IsDNS1123Subdomain(f.text)) > 0 {
				d.wrong(path+"."+f.field, "%q is none: use lower-case letters, digits, - and .", f.text)
			}
		}
		read := custom{}
		for _, e := range []struct {
			to          **expression
			field, text string
			wanted      []*celType
		}{
			{&read.finished, "finished", n.Finished, boolType()},
			{&read.outcome, "outcome", n.Outcome, textType()},
			{&read.finishTime, "finishTime", n.FinishTime, timeType()},
			{&read.suspended, "suspended", n.Suspended, boolType()},
			{&read.ttl, "ttl", n.TTL, numberType()},
		} {
			if e.text != "" {
				*e.to = d.expression(c, e.text, path+"."+e.field, e.wanted)
			}
		}
		k.read = read.read
		if n.TTL != "" {
			k.NativeTTL = n.TTL
		}
		known = append(known, k)
	}
	return known
}

func (d *decoder) expression(c compiler, text, path string, wanted []*celType) *expression {
	e, err := c.compile(text, wanted...)
	if err != nil {
		d.wrong(path, "no CEL over object: %v", err)
		return nil
	}
	return e
}

// matches says whether the rule is for the object.
func (r *rule) matches(o *Object) bool {
	return (r.kinds == nil || slices.ContainsFunc(r.kinds, o.Of.is)) &&
		r.namespaces.match(o.Namespace) &&
		r.labels.Matches(o.Labels) &&
		(r.expression == "" || o.expressions[r.expression])
}

// same says that two rules match the same objects by the same words.
func (r *rule) same(other *rule) bool {
	return slices.Equal(r.kinds, other.kinds) && slices.Equal(r.namespaces.include, other.namespaces.include) &&
		slices.Equal(r.namespaces.exclude, other.namespaces.exclude) && r.labels.String() == other.labels.String() &&
		r.expression == other.expression
}

// covers says that whatever the other rule matches, this one matches as well. It may fail to see it.
func (r *rule) covers(other *rule) bool {
	if r.expression != "" && r.expression != other.expression {
		return false
	}
	if r.kinds != nil {
		if other.kinds == nil {
			return false
		}
		for _, k := range other.kinds {
			if !slices.Contains(r.kinds, k) {
				return false
			}
		}
	}
	asked, _ := other.labels.Requirements()
	mine, _ := r.labels.Requirements()
	for _, m := range mine {
		if !slices.ContainsFunc(asked, func(a labels.Requirement) bool { return a.Equal(m) }) {
			return false
		}
	}
	return r.namespaces.covers(other.namespaces)
}

// Rules are the names of the rules, in their order.
func (p *Policy) Rules() []string {
	var names []string
	for _, r := range p.rules {
		names = append(names, r.Name)
	}
	return names
}

// DryRun says whether nothing is to be deleted at all.
func (p *Policy) DryRun() bool { return p.document.DryRun }

// Kinds are the kinds that some rule is for: those worth watching.
func (p *Policy) Kinds() []*Kind {
	return slices.DeleteFunc(slices.Clone(p.kinds), func(k *Kind) bool {
		return !slices.ContainsFunc(p.rules, func(r *rule) bool { return r.kinds == nil || slices.Contains(r.kinds, k) })
	})
}

// KnownKinds are the kinds that rules can be for: the built-in ones and those of the policy.
func (p *Policy) KnownKinds() []*Kind { return slices.Clone(p.kinds) }

// KindOf is the kind of a group and kind, or nil when the policy knows none.
func (p *Policy) KindOf(group, kind string) *Kind {
	for _, k := range p.kinds {
		if k.Group == group && k.Kind == kind {
			return k
		}
	}
	return nil
}

// Recreations says when an object that comes back after its clean-up is left alone.
func (p *Policy) Recreations() Recreations { return p.recreation }

// rule is the first that matches, or nil.
func (p *Policy) rule(o *Object) *rule {
	for _, r := range p.rules {
		if r.matches(o) {
			return r
		}
	}
	return nil
}

// PodStages says whether any rule looks at pods beyond whether they run.
func (p *Policy) PodStages() bool {
	return slices.ContainsFunc(p.rules, func(r *rule) bool { return r.StopRunning != nil || r.DeletePods != nil })
}

// instantOf keeps the record's own zero for what is unknown.
func instantOf(finish facts.Instant, d *Duration) facts.Instant {
	return later(finish, time.Duration(*d))
}
