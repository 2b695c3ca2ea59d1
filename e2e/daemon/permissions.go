package daemon

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/orphand/orphand/pkg/access"
)

// User is the user that orphand is on the test bed.
const User = "orphand"

// Permissions are exactly what orphand needs to observe and to keep records: what
// its published roles allow, and no more.
func Permissions() []rbacv1.PolicyRule { return access.Rules(access.Observe, access.Records) }

// Without returns the rules without those on a resource.
func Without(rules []rbacv1.PolicyRule, resource string) []rbacv1.PolicyRule {
	var out []rbacv1.PolicyRule
	for _, r := range rules {
		r.Resources = slices.DeleteFunc(slices.Clone(r.Resources), func(name string) bool { return name == resource })
		if len(r.Resources) > 0 {
			out = append(out, r)
		}
	}
	return out
}

// StopPermissions are exactly what a person needs who stops jobs. To delete is a rule
// apart from to read, so that a scenario can take it away.
func StopPermissions() []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for _, r := range access.RulesOf("orphand-stop") {
		if i := slices.Index(r.Verbs, "delete"); i >= 0 {
			removing := *r.DeepCopy()
			removing.Verbs = []string{"delete"}
			rules = append(rules, removing)
			r.Verbs = slices.Delete(r.Verbs, i, i+1)
		}
		rules = append(rules, r)
	}
	return rules
}

// EnforcePermissions are exactly what orphand needs to delete what is left.
func EnforcePermissions() []rbacv1.PolicyRule {
	return access.Rules(access.Observe, access.Records, access.Enforce)
}
