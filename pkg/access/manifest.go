package access

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
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
		{Name: "orphand-stop", Calls: stopping()},
		{Name: "orphand-scrape", Calls: []Call{
			{Path: "/metrics", Verbs: []string{"get"},
				Why: "Whoever scrapes, where the metrics are protected."},
		}},
	}
}

// stopping is what `orphand find`, `stop`, `wait` and `explain` need: to see all that is left of a job, and to delete it
// under its UIDs.
func stopping() []Call {
	read, remove := []string{"get", "list", "watch"}, []string{"get", "delete"}
	all := []string{"get", "list", "watch", "delete"}
	return []Call{
		{Group: groupTrainer, Version: "v1alpha1", Resource: "trainjobs", Verbs: all, Spare: true,
			Why: "The job itself."},
		{Group: groupTrainer, Version: "v1alpha1", Resource: "trainingruntimes", Verbs: all, Spare: true,
			Why: "Its own copy of a runtime, which Trainer wants gone before a job of that name comes again."},
		{Group: groupJobSet, Version: "v1alpha2", Resource: "jobsets", Verbs: all, Spare: true,
			Why: "Its JobSets, orphans included."},
		{Group: groupBatch, Version: "v1", Resource: "jobs", Verbs: all,
			Why: "Its Jobs, orphans included."},
		{Version: "v1", Resource: "pods", Verbs: all,
			Why: "Its pods, orphans included, and whether they are gone."},
		{Version: "v1", Resource: "nodes", Verbs: read,
			Why: "The evidence of nodes; without it nothing is proven, and a stop never ends by itself."},
		{Version: "v1", Resource: "configmaps", Verbs: remove, Why: "Its snapshot and MPI or Flux files, by name."},
		{Version: "v1", Resource: "secrets", Verbs: remove, Why: "Its MPI or Flux keys, by name; the content is never asked for."},
		{Version: "v1", Resource: "services", Verbs: remove, Why: "The headless Service of its JobSet, by name."},
		{Group: groupScheduling, Version: "v1alpha1", Resource: "podgroups", Verbs: remove, Spare: true, Why: "The scheduler plugins' PodGroup, by name."},
		{Group: groupVolcano, Version: "v1beta1", Resource: "podgroups", Verbs: remove, Spare: true, Why: "Volcano's PodGroup, by name."},
		{Group: groupOrphand, Version: "v1alpha1", Resource: "orphans", Verbs: read, Why: "What the daemon knows of it."},
	}
}

// RulesOf are the permissions of one of People; none of a name that is not there.
func RulesOf(person string) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for _, p := range People() {
		for _, c := range p.Calls {
			if p.Name == person {
				rules = append(rules, c.Rule())
			}
		}
	}
	return rules
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
		"no permission. What is missing does not stop orphand: the log and `/readyz?verbose` say what it cannot do without it. Each verb is needed in a " +
		"[scenario](#scenarios) of the end-to-end tests, which fail when it is not.\n")
	for _, f := range Features() {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| resource | verbs | why | needed in |\n|---|---|---|---|\n", f, f.Purpose())
		for _, c := range Of(f) {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", c.String(), strings.Join(c.Verbs, ", "), c.Why, neededIn(c))
		}
	}
	b.WriteString("\n## Scenarios\n\nEach is played on a real control plane, by orphand under exactly the roles of some features: " +
		"`go -C e2e test ./install -run 'TestEachPermissionIsNeeded/NAME'`. `orphand check` names each missing verb and prints the lines to add.\n\n" +
		"| scenario | under the roles of | what happens | where one of its permissions is missing |\n|---|---|---|---|\n")
	for _, s := range Scenarios() {
		var features []string
		for _, f := range s.Features {
			features = append(features, string(f))
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.Name, strings.Join(features, ", "), s.Story, s.Without)
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

// neededIn names the scenarios that need a call: one for all verbs, or each verb's own.
func neededIn(c Call) string {
	var names, all []string
	for _, verb := range c.Verbs {
		for _, s := range c.Needs(verb) {
			all = append(all, "`"+s.Name+"` ("+verb+")")
			if name := "`" + s.Name + "`"; !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	if len(names) == 1 {
		return names[0]
	}
	return strings.Join(all, ", ")
}
