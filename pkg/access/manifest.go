package access

import (
	"fmt"
	"strings"
)

// Namespace and Account are where the manifests put orphand, and as whom it runs.
const (
	Namespace = "orphand"
	Account   = "orphand"
)

// RoleName is the kind and name of the feature's role.
func RoleName(f Feature) string {
	if f.Namespaced() {
		return "Role orphand-" + string(f)
	}
	return "ClusterRole orphand-" + string(f)
}

const header = "# Made from the table in pkg/access by make docs; edits are lost.\n"

// Manifest is the role of a feature and its binding to orphand's service account: cluster-wide, or in orphand's own
// namespace for a feature that needs no more.
func Manifest(f Feature) string {
	kind, namespace := "ClusterRole", ""
	if f.Namespaced() {
		kind, namespace = "Role", "  namespace: "+Namespace+"\n"
	}
	name := "orphand-" + string(f)
	var b strings.Builder
	fmt.Fprintf(&b, "%sapiVersion: rbac.authorization.k8s.io/v1\nkind: %s\nmetadata:\n  name: %s\n%srules:\n", header, kind, name, namespace)
	for _, c := range Of(f) {
		b.WriteString(c.YAML())
	}
	fmt.Fprintf(&b, "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: %sBinding\nmetadata:\n  name: %s\n%s", kind, name, namespace)
	fmt.Fprintf(&b, "roleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: %s\n  name: %s\n", kind, name)
	fmt.Fprintf(&b, "subjects:\n- kind: ServiceAccount\n  name: %s\n  namespace: %s\n", Account, Namespace)
	return b.String()
}

// Person is a role for people and programs that use what orphand says.
type Person struct {
	Name string
	// Into are the default roles of Kubernetes that the role becomes part of.
	Into  []string
	Calls []Call
}

// People lists the roles for those who use what orphand says.
func People() []Person {
	return []Person{
		{Name: "orphand-view", Into: []string{"view", "edit", "admin"}, Calls: []Call{
			{Group: groupOrphand, Version: "v1alpha1", Resource: "orphans", Verbs: []string{"get", "list", "watch"},
				Why: "Whoever may see a namespace's jobs may see, and wait for, what is left of them."},
		}},
		{Name: "orphand-attest", Calls: []Call{
			{Group: groupOrphand, Version: "v1alpha1", Resource: "orphans", Verbs: []string{"attest", "get", "list", "patch", "watch"},
				Why: "To vouch that a machine is off is a word that starts jobs again: it is nobody's by default. Bind it to those who can look at the machine."},
		}},
	}
}

// PeopleManifest is the roles of People. Nobody is bound to one by it.
func PeopleManifest() string {
	var b strings.Builder
	b.WriteString(header)
	for i, p := range People() {
		if i > 0 {
			b.WriteString("---\n")
		}
		fmt.Fprintf(&b, "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: %s\n", p.Name)
		if len(p.Into) > 0 {
			b.WriteString("  labels:\n")
		}
		for _, role := range p.Into {
			fmt.Fprintf(&b, "    rbac.authorization.k8s.io/aggregate-to-%s: \"true\"\n", role)
		}
		b.WriteString("rules:\n")
		for _, c := range p.Calls {
			b.WriteString(c.YAML())
		}
	}
	return b.String()
}

// Page is docs/permissions.md: the permissions as a table for people.
func Page() string {
	var b strings.Builder
	b.WriteString("<!-- Made from the table in pkg/access by make docs; edits are lost. -->\n\n# Permissions\n\n" +
		"Every call that orphand makes to the Kubernetes API. The roles below `manifests/` are made from the same table, `orphand check` " +
		"asks for it, and the end-to-end tests run under it with Kubernetes' own authorizer. A resource that this cluster does not serve needs " +
		"no permission. What is missing does not stop orphand: the log and `/readyz?verbose` say what it cannot do without it.\n")
	for _, f := range Features() {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| resource | verbs | why |\n|---|---|---|\n", f, f.Purpose())
		for _, c := range Of(f) {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", c.String(), strings.Join(c.Verbs, ", "), c.Why)
		}
	}
	b.WriteString("\n## People\n\nNobody is bound to these by the manifests; what is part of a default role holds for whoever has that.\n\n" +
		"| role | part of | resource | verbs | why |\n|---|---|---|---|---|\n")
	for _, p := range People() {
		for _, c := range p.Calls {
			fmt.Fprintf(&b, "| `%s` | %s | `%s` | %s | %s |\n", p.Name, strings.Join(p.Into, ", "), c.String(), strings.Join(c.Verbs, ", "), c.Why)
		}
	}
	return b.String()
}
