package daemon

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

// User is the user that orphand is on the test bed.
const User = "orphand"

// Permissions are exactly what orphand needs to observe and to keep records.
func Permissions() []rbacv1.PolicyRule {
	read := []string{"get", "list", "watch"}
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"trainer.kubeflow.org"}, Resources: []string{"trainjobs", "trainingruntimes"}, Verbs: read},
		{APIGroups: []string{"jobset.x-k8s.io"}, Resources: []string{"jobsets"}, Verbs: read},
		{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"pods", "nodes"}, Verbs: read},
		{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets", "services"}, Verbs: []string{"get"}},
		{APIGroups: []string{"scheduling.x-k8s.io", "scheduling.volcano.sh"}, Resources: []string{"podgroups"}, Verbs: []string{"get"}},
		{APIGroups: []string{"orphand.dev"}, Resources: []string{"orphans"}, Verbs: append(slices.Clone(read), "create", "patch", "delete")},
		{APIGroups: []string{"orphand.dev"}, Resources: []string{"orphans/status"}, Verbs: []string{"patch"}},
	}
}

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

// StopPermissions are exactly what a person needs who stops jobs.
func StopPermissions() []rbacv1.PolicyRule {
	read := []string{"get", "list", "watch"}
	remove := []string{"delete"}
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods", "nodes"}, Verbs: read},
		{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: read},
		{APIGroups: []string{"jobset.x-k8s.io"}, Resources: []string{"jobsets"}, Verbs: read},
		{APIGroups: []string{"trainer.kubeflow.org"}, Resources: []string{"trainjobs", "trainingruntimes"}, Verbs: read},
		{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets", "services"}, Verbs: []string{"get"}},
		{APIGroups: []string{"scheduling.x-k8s.io", "scheduling.volcano.sh"}, Resources: []string{"podgroups"}, Verbs: []string{"get"}},
		{APIGroups: []string{"orphand.dev"}, Resources: []string{"orphans"}, Verbs: read},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: remove},
		{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: remove},
		{APIGroups: []string{"jobset.x-k8s.io"}, Resources: []string{"jobsets"}, Verbs: remove},
		{APIGroups: []string{"trainer.kubeflow.org"}, Resources: []string{"trainjobs", "trainingruntimes"}, Verbs: remove},
		{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets", "services"}, Verbs: remove},
		{APIGroups: []string{"scheduling.x-k8s.io", "scheduling.volcano.sh"}, Resources: []string{"podgroups"}, Verbs: remove},
	}
}

// EnforcePermissions are exactly what orphand needs to delete what is left.
func EnforcePermissions() []rbacv1.PolicyRule {
	rules := Permissions()
	for _, r := range StopPermissions() {
		if slices.Contains(r.Verbs, "delete") {
			r.Resources = slices.DeleteFunc(slices.Clone(r.Resources), func(name string) bool { return name == "trainjobs" })
			rules = append(rules, r)
		}
	}
	return append(rules, rbacv1.PolicyRule{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: []string{"get"}})
}
