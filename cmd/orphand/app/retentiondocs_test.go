package app

import (
	"os"
	"strings"
	"testing"

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
