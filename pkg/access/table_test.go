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
