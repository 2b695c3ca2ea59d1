package retention

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
)

// NamespacePolicies is the name of the ConfigMap in which a namespace may bring rules of its own, and policy.yaml their
// key; empty when none may.
func (p *Policy) NamespacePolicies() string {
	if p.namespaced == nil {
		return ""
	}
	return p.namespaced.configMap
}

// NamespaceKey is the key of a namespace's rules in its ConfigMap.
const NamespaceKey = "policy.yaml"

// WithNamespaces is the policy with the rules that namespaces bring, by namespace. Each namespace's rules are for its own
// objects only, come before the policy's, and stay within its limits. Of a namespace that may bring none no rule counts;
// where a file has a mistake, or is nil since its ConfigMap has no such key, the namespace's objects stay for as long as its
// rules could have kept them, as what is unclear is read as a wish to keep. The problems say why.
func (p *Policy) WithNamespaces(files map[string][]byte) (*Policy, map[string]Problems) {
	with := *p
	with.rules = nil
	problems := map[string]Problems{}
	c, err := newCompiler()
	for _, namespace := range slices.Sorted(maps.Keys(files)) {
		d := &decoder{}
		var rules []*rule
		switch {
		case err != nil:
			d.wrong("", "CEL cannot be used: %v", err)
		case p.namespaced == nil || !p.namespaced.match(namespace):
			d.wrong("", "the administrators' policy lets this namespace bring no rules")
		case files[namespace] == nil:
			d.wrong("", "the ConfigMap %s has no key %s: put the rules under it", p.namespaced.configMap, NamespaceKey)
		default:
			rules = d.ofNamespace(c, p, namespace, files[namespace])
		}
		d.problems.sort()
		if len(d.problems) > 0 {
			problems[namespace] = d.problems
		}
		switch {
		case d.problems.Err() == nil:
			with.rules = append(with.rules, rules...)
		case p.namespaced != nil && p.namespaced.match(namespace):
			with.rules = append(with.rules, p.unclear(namespace))
		}
	}
	with.rules = append(with.rules, p.rules...)
	return &with, problems
}

// unclear is the rule for a namespace whose file has a mistake.
func (p *Policy) unclear(namespace string) *rule {
	r := &rule{Rule: &Rule{Name: namespace + "/" + p.namespaced.configMap + " has mistakes"}, namespaces: globs{include: []string{namespace}}, labels: labels.Everything(), unclear: true}
	(&decoder{}).limit(r, p.namespaced, "")
	return r
}

// ofNamespace reads a namespace's file.
func (d *decoder) ofNamespace(c compiler, p *Policy, namespace string, data []byte) []*rule {
	root := d.document(data)
	if root == nil {
		return nil
	}
	var doc Document
	d.into(root, reflect.ValueOf(&doc).Elem(), "", 0)
	for _, field := range []string{"kinds", "gitOpsMarks", "recreation", "namespacePolicies"} {
		if _, given := d.places[field]; given {
			d.wrong(field, "only the administrators' policy may say this")
		}
	}
	var rules []*rule
	for i := range doc.Rules {
		path := fmt.Sprintf("rules[%d]", i)
		given := &doc.Rules[i]
		if m := given.Match; m != nil {
			if len(m.Namespaces) > 0 {
				d.wrong(path+".match.namespaces", "the rules of a namespace are for its own objects")
				m.Namespaces = nil
			}
			if m.Expression != "" {
				d.wrong(path+".match.expression", "only the administrators' policy may have expressions")
				m.Expression = ""
			}
		}
		r := d.rule(c, p, given, path)
		if r.Name == "" {
			r.Name = path
		}
		r.Name = namespace + "/" + r.Name
		r.DryRun = r.DryRun || doc.DryRun
		r.namespaces = globs{include: []string{namespace}}
		d.limit(r, p.namespaced, path)
		rules = append(rules, r)
	}
	return rules
}

// limit holds a namespace's rule within the administrators' limits.
func (d *decoder) limit(r *rule, within *namespaced, path string) {
	if least := within.min; least != nil {
		r.least = least
		if r.min == nil || *r.min < *least {
			r.min = least
		}
	}
	if most := within.max; most != nil {
		r.most = most
		if r.max == nil || *r.max > *most {
			r.max = most
		}
		for _, o := range []Outcome{Succeeded, Failed} {
			if keep := r.DeletePods.of(o); keep != nil && *keep > *most {
				d.wrong(path+".deletePodsAfter", "%s is more than the administrators' max, %s", FormatDuration(time.Duration(*keep)), FormatDuration(time.Duration(*most)))
				break
			}
		}
	}
	if r.max != nil && r.min != nil && *r.max < *r.min {
		r.max = r.min
	}
}
