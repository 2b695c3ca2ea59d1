package retention

import (
	"strings"
	"testing"
)

const cluster = `
namespacePolicies: {namespaces: ["team-*", "!team-x"], min: 100s, max: 1000s}
rules: [{name: all, ttlAfterFinished: 500s}]`

func TestTheRulesOfANamespace(t *testing.T) {
	complete := `{type: Complete, status: "True", lastTransitionTime: @0}`
	in := func(namespace string) string {
		return strings.Replace(job(complete, ""), "kind: Job,", "kind: Job, metadata: {namespace: "+namespace+"},", 1)
	}
	for _, row := range []struct{ name, file, object, want, problem string }{
		{"come before the administrators'", "rules: [{name: mine, ttlAfterFinished: 200s}]", in("team-a"), "DELETE@200", ""},
		{"are for its own objects only", "rules: [{name: mine, ttlAfterFinished: 200s}]", in("team-b"), "DELETE@500", ""},
		{"let what they do not match fall through", "rules: [{name: mine, match: {kinds: [Workflow]}, ttlAfterFinished: 200s}]", in("team-a"), "DELETE@500", ""},
		{"are raised to the administrators' min", "rules: [{name: mine, ttlAfterFinished: 1s}]", in("team-a"), "DELETE@100", ""},
		{"are cut by the administrators' max", "rules: [{name: mine, ttlAfterFinished: 9000s}]", in("team-a"), "DELETE@1000", ""},
		{"cannot keep for ever", "rules: [{name: mine}]", in("team-a"), "DELETE@1000", ""},
		{"cannot cap below the administrators' min", "rules: [{name: mine, keepLast: {succeeded: 0}}]", in("team-a"), "DELETE@100", ""},
		{"with a mistake keep as long as the administrators' max lets them", "rules: [{name: mine, ttlAfterFinishd: 200s}]", in("team-a"), "DELETE@1000", "unknown key"},
		{"with a mistake keep nothing elsewhere", "rules: [{name: mine, ttlAfterFinishd: 200s}]", in("team-b"), "DELETE@500", "unknown key"},
		{"cannot reach into others", "rules: [{name: mine, match: {namespaces: [team-b]}, ttlAfterFinished: 1s}]", in("team-b"), "DELETE@500", "own objects"},
		{"cannot hold a job by its pods", "rules: [{name: mine, deletePodsAfter: 2000s}]", in("team-a"), "DELETE@1000", "more than the administrators' max"},
		{"cannot keep for ever what is only to be reported", "rules: [{name: mine, ttlAfterFinished: 200s, dryRun: true}]", in("team-a"), "DELETE@1000", ""},
		{"cannot keep for ever by a file that is only to be reported", "dryRun: true\nrules: [{name: mine, ttlAfterFinished: 200s}]", in("team-a"), "DELETE@1000", ""},
		{"cannot teach kinds", "kinds: []\nrules: []", in("team-a"), "DELETE@1000", "only the administrators"},
	} {
		t.Run(row.name, func(t *testing.T) {
			p, problems := policy(t, cluster).WithNamespaces(map[string][]byte{"team-a": []byte(row.file)})
			if got := problems["team-a"]; (row.problem == "") != (len(got) == 0) || !strings.Contains(got.Error(), row.problem) {
				t.Errorf("problems: %v", got)
			}
			o := object(t, p, row.object)
			c := Case{Object: o, Now: second(0)}
			c.Surplus = p.Surplus([]Case{c})[o.UID]
			if d := p.Decide(c); said(d) != row.want {
				t.Errorf("got %s, want %s (%s)", said(d), row.want, d.Explain())
			}
		})
	}
	_, problems := policy(t, cluster).WithNamespaces(map[string][]byte{"team-a": nil})
	if !strings.Contains(problems["team-a"].Error(), "has no key policy.yaml") {
		t.Errorf("a ConfigMap without the key: %v", problems)
	}
	_, problems = policy(t, cluster).WithNamespaces(map[string][]byte{"team-x": []byte("rules: []"), "kube-system": []byte("rules: []")})
	if len(problems) != 2 {
		t.Errorf("namespaces that may bring none: %v", problems)
	}
	_, problems = policy(t, hour).WithNamespaces(map[string][]byte{"team-a": []byte("rules: []")})
	if len(problems) != 1 {
		t.Errorf("where none may: %v", problems)
	}
}

// Its rules could have raised what the object itself asks for.
func TestAnObjectOfANamespaceWhoseRulesNobodyCanReadStaysUntilTheMaxWhateverItAsksFor(t *testing.T) {
	in := func(o string) string {
		return strings.Replace(o, "metadata: {", "metadata: {namespace: team-a, ", 1)
	}
	complete := `status: {conditions: [{type: Complete, status: "True", lastTransitionTime: @0}]}}`
	native := `{apiVersion: batch/v1, kind: Job, metadata: {}, spec: {ttlSecondsAfterFinished: 150}, ` + complete
	for _, row := range []struct{ name, limits, object, want string }{
		{"an annotation", "max: 1000s", in(annotated(`orphand.dev/ttl-after-finished: 150s`)), "DELETE@1000"},
		{"an annotation, without a max", "min: 100s", in(annotated(`orphand.dev/ttl-after-finished: 150s`)), "KEEP(no TTL)"},
		{"a wish to be kept", "max: 1000s", in(annotated(`orphand.dev/keep: "true"`)), "DELETE@1000"},
		{"the kind's own TTL", "max: 1000s", in(native), "DELETE@1000"},
	} {
		t.Run(row.name, func(t *testing.T) {
			p, _ := policy(t, `
namespacePolicies: {namespaces: ["team-*"], `+row.limits+`}
rules: [{name: all, ttlAfterFinished: 500s}]`).WithNamespaces(map[string][]byte{"team-a": []byte("rules: [{name: mine, ttlAfterFinishd: 9s}]")})
			if d := p.Decide(Case{Object: object(t, p, row.object), Now: second(0)}); said(d) != row.want {
				t.Errorf("got %s, want %s (%s)", said(d), row.want, d.Explain())
			}
		})
	}
}
