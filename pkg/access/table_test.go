package access

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// make docs writes the manifests, and these tests fail while they differ.
var update = flag.Bool("update", false, "write what is made from the table")

func TestNoRuleHasAWildcardAndEachSaysWhy(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Calls() {
		if strings.Contains(c.Group+c.Resource+strings.Join(c.Verbs, ""), "*") {
			t.Errorf("%+v", c)
		}
		if !strings.HasSuffix(c.Why, ".") || len(c.Verbs) == 0 {
			t.Errorf("%s %s: why %q, verbs %q", c.Feature, c.Resource, c.Why, c.Verbs)
		}
		for _, verb := range c.Verbs {
			key := strings.Join([]string{c.Group, c.Resource, c.Name, verb}, "/")
			if seen[key] {
				t.Errorf("%s stands in the table twice", key)
			}
			seen[key] = true
		}
		if !slices.Contains(Features(), c.Feature) {
			t.Errorf("%s is no feature", c.Feature)
		}
	}
}

// files are what is made from the table.
func files() map[string]string {
	return map[string]string{
		"manifests/base/rbac/observe.yaml":           Manifest(Observe),
		"manifests/base/rbac/records.yaml":           Manifest(Records),
		"manifests/base/rbac/election.yaml":          Manifest(Election),
		"manifests/base/rbac/people.yaml":            PeopleManifest(),
		"manifests/components/enforce/rbac.yaml":     Manifest(Enforce),
		"manifests/components/retention/rbac.yaml":   Manifest(Retention),
		"manifests/components/retention/memory.yaml": Manifest(Memory),

		"manifests/components/protected-metrics/rbac.yaml": Manifest(Guard),
		"docs/permissions.md":                              Page(),
	}
}

func TestDocsManifestsAndThePageAreWhatTheTableSays(t *testing.T) {
	for name, text := range files() {
		path := filepath.Join("../..", name)
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		have, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(have) != text {
			t.Errorf("%s is not what the table says: run make docs", name)
		}
	}
}

func TestAManifestIsTheRulesAsKubernetesReadsThem(t *testing.T) {
	for _, f := range Features() {
		role, _, _ := strings.Cut(Manifest(f), "\n---\n")
		var read rbacv1.ClusterRole
		if err := yaml.UnmarshalStrict([]byte(role), &read); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		want := Rules(f)
		if len(read.Rules) != len(want) {
			t.Fatalf("%s: %d rules, want %d", f, len(read.Rules), len(want))
		}
		for i, r := range read.Rules {
			if r.String() != want[i].String() {
				t.Errorf("%s: %v, want %v", f, r, want[i])
			}
		}
	}
}

func TestEachVerbIsNeededInAScenarioAndEachScenarioNeedsWhatIsInTheTable(t *testing.T) {
	wanted := map[string]bool{}
	for _, s := range Scenarios() {
		for _, call := range s.Calls {
			if wanted[call] {
				t.Errorf("%s stands in two scenarios", call)
			}
			wanted[call] = true
		}
	}
	for _, c := range Calls() {
		for _, verb := range c.Verbs {
			if len(c.Needs(verb)) != 1 {
				t.Errorf("%s %s is needed in %d scenarios", verb, c, len(c.Needs(verb)))
			}
			delete(wanted, verb+" "+c.String())
		}
	}
	for call := range wanted {
		t.Errorf("%s is in no role", call)
	}
}

// What another rule of the same features allows anyway is a rule that can go: taken away, it breaks nothing.
func TestNoRuleIsAllowedByAnotherAnyway(t *testing.T) {
	for _, c := range Calls() {
		for _, verb := range c.Verbs {
			for _, o := range Calls() {
				always := o.Feature == Observe || o.Feature == c.Feature
				if always && o.Group == c.Group && o.Resource == c.Resource && o.Name == "" && c.Name != "" && slices.Contains(o.Verbs, verb) {
					t.Errorf("%s %s of %s is part of %s %s of %s", verb, c, c.Feature, verb, o, o.Feature)
				}
			}
		}
	}
}
