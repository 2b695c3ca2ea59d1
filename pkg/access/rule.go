package access

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Rule is the permission that the call needs.
func (c Call) Rule() rbacv1.PolicyRule {
	if c.Path != "" {
		return rbacv1.PolicyRule{NonResourceURLs: []string{c.Path}, Verbs: slices.Clone(c.Verbs)}
	}
	r := rbacv1.PolicyRule{APIGroups: []string{c.Group}, Resources: []string{c.Resource}, Verbs: slices.Clone(c.Verbs)}
	if c.Name != "" {
		r.ResourceNames = []string{c.Name}
	}
	return r
}

// Rules are the permissions of some features: for all namespaces, or, with Election, for orphand's own.
func Rules(features ...Feature) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for _, c := range Of(features...) {
		rules = append(rules, c.Rule())
	}
	return rules
}

// String is the resource with its group, as kubectl names it, and the object's name where there is one; or the path.
func (c Call) String() string {
	if c.Path != "" {
		return c.Path
	}
	s := c.Resource
	if c.Group != "" {
		// A subresource comes after the group: deployments.apps/scale.
		resource, sub, _ := strings.Cut(c.Resource, "/")
		s = resource + "." + c.Group
		if sub != "" {
			s += "/" + sub
		}
	}
	if c.Name != "" {
		s += " " + c.Name
	}
	return s
}

// YAML is the call's rule as lines of a role's manifest, the reason as a comment above it.
func (c Call) YAML() string {
	var b strings.Builder
	for line := range wrap(c.Why, 110) {
		fmt.Fprintf(&b, "# %s\n", line)
	}
	if c.Path != "" {
		fmt.Fprintf(&b, "- nonResourceURLs: [%s]\n  verbs: [%s]\n", c.Path, strings.Join(c.Verbs, ", "))
		return b.String()
	}
	group := c.Group
	if group == "" {
		group = `""`
	}
	fmt.Fprintf(&b, "- apiGroups: [%s]\n  resources: [%s]\n", group, c.Resource)
	if c.Name != "" {
		fmt.Fprintf(&b, "  resourceNames: [%s]\n", c.Name)
	}
	fmt.Fprintf(&b, "  verbs: [%s]\n", strings.Join(c.Verbs, ", "))
	return b.String()
}

// wrap yields the words of text in lines of at most width characters.
func wrap(text string, width int) func(func(string) bool) {
	return func(yield func(string) bool) {
		line := ""
		for word := range strings.FieldsSeq(text) {
			if line != "" && len(line)+1+len(word) > width {
				if !yield(line) {
					return
				}
				line = ""
			}
			line = strings.TrimPrefix(line+" "+word, " ")
		}
		yield(line)
	}
}
