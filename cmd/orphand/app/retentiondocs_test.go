package app

import (
	"os"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/yaml"

	"github.com/orphand/orphand/pkg/retention"
)

func TestDocsRetentionSchema(t *testing.T) {
	const path = "../../../docs/retention.schema.json"
	want := retention.JSONSchema()
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != string(want) {
		t.Error("docs/retention.schema.json is not what the code says: run make docs")
	}
}

func TestThePolicyThatIsShippedIsGoodAndADryRun(t *testing.T) {
	data, err := os.ReadFile("../../../manifests/components/retention/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p, problems := retention.Load(data)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if !p.DryRun() {
		t.Error("it deletes on a first installation")
	}
}

func TestThePageOnRetentionKnowsEveryKindAndReason(t *testing.T) {
	data, err := os.ReadFile("../../../docs/retention.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for _, k := range retention.Kinds() {
		if !strings.Contains(text, "| `"+k.Name+"` | `"+k.GroupResource()+"` |") {
			t.Errorf("docs/retention.md does not list %s (%s)", k.Name, k.GroupResource())
		}
	}
	for _, r := range retention.Reasons() {
		if !strings.Contains(text, "`"+string(r)+"`") && !(r == retention.OwnedByLive && strings.Contains(text, "`owned by live TrainJob`")) {
			t.Errorf("docs/retention.md does not explain %q", r)
		}
	}
	for _, example := range strings.Split(text, "```yaml\n")[1:] {
		example, _, _ = strings.Cut(example, "```")
		if _, problems := retention.Load([]byte(example)); len(problems) > 0 {
			t.Errorf("an example has problems: %v\n%s", problems, example)
		}
	}
}

func TestTheTTLBoundsAreForEveryKindWithATTLOfItsOwn(t *testing.T) {
	for _, file := range []string{"default.yaml", "limits.yaml"} {
		data, err := os.ReadFile("../../../manifests/components/ttl-bounds/" + file)
		if err != nil {
			t.Fatal(err)
		}
		text, _, _ := strings.Cut(string(data), "\n---")
		var policy struct {
			Spec struct {
				MatchConstraints admissionregistrationv1.MatchResources
			}
		}
		if err := yaml.Unmarshal([]byte(text), &policy); err != nil {
			t.Fatal(err)
		}
		var bound []string
		for _, r := range policy.Spec.MatchConstraints.ResourceRules {
			for _, resource := range r.Resources {
				bound = append(bound, resource+"."+r.APIGroups[0])
			}
		}
		var want []string
		for _, k := range retention.Kinds() {
			if k.NativeTTL != "" && k.Name != "TrainJob" { // Trainer has no such field yet
				want = append(want, k.GroupResource())
			}
		}
		slices.Sort(bound)
		slices.Sort(want)
		if !slices.Equal(bound, want) {
			t.Errorf("%s is for %v, and the kinds with a TTL of their own are %v", file, bound, want)
		}
	}
}
