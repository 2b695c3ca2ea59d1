package retention

import (
	"encoding/json"
	"testing"

	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"sigs.k8s.io/yaml"
)

// An editor that goes by the schema and orphand itself are of one mind, as far as a schema can say it.
func TestTheSchemaTakesWhatOrphandTakesAndRefusesWhatItRefuses(t *testing.T) {
	var schema spec.Schema
	if err := json.Unmarshal(JSONSchema(), &schema); err != nil {
		t.Fatal(err)
	}
	validator := validate.NewSchemaValidator(&schema, nil, "", strfmt.Default)
	for _, row := range []struct {
		policy string
		good   bool
	}{
		{`rules: []`, true},
		{`rules: [{name: a, ttlAfterFinished: 0}]`, true},
		{`rules: [{name: a, ttlAfterFinished: 1h30m}]`, true},
		{`rules: [{name: a, ttlAfterFinished: {succeeded: 1d, failed: 2w, deadlineExceeded: 0s}}]`, true},
		{`rules: [{match: {kinds: [Job], namespaces: ["team-*", "!x"], labels: {a: b}, expression: "true"}}]`, true},
		{`rules: [{match: {labels: "a in (b)"}}]`, true},
		{`rules: [{match: {labels: {matchExpressions: [{key: a, operator: Exists}]}}}]`, true},
		{`rules: [{keepLast: {succeeded: 0, failed: 3, per: "label:x"}, propagation: Background, notice: 1h, stopRunningAfter: 5m, deletePodsAfter: {failed: 1d}}]`, true},
		{`kinds: [{group: a.b, versions: [v1], resource: runs, kind: Run, finished: "true"}]`, true},
		{`namespacePolicies: {namespaces: ["*"], min: 1h, max: 2h}`, true},
		{`{dryRun: true, gitOpsMarks: [a/b], recreation: {limit: 2, within: 2h}}`, true},

		{`rules: {}`, false},
		{`rule: []`, false},
		{`dryRun: maybe`, false},
		{`rules: [{ttlAfterFinished: 3600}]`, false},
		{`rules: [{ttlAfterFinished: -5m}]`, false},
		{`rules: [{ttlAfterFinished: [1h]}]`, false},
		{`rules: [{ttlAfterFinished: {suceeded: 1h}}]`, false},
		{`rules: [{min: soon}]`, false},
		{`rules: [{match: {kind: [Job]}}]`, false},
		{`rules: [{keepLast: {succeeded: -1}}]`, false},
		{`rules: [{propagation: Foreground}]`, false},
		{`kinds: [{group: a.b, versions: [v1], resource: runs}]`, false},
		{`recreation: {limit: 0}`, false},
		{`namespacePolicies: {min: 1h}`, false},
	} {
		text := "apiVersion: " + APIVersion + "\nkind: " + DocumentKind + "\n"
		var document, heading map[string]any
		if err := yaml.Unmarshal([]byte(row.policy), &document); err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal([]byte(text), &heading); err != nil {
			t.Fatal(err)
		}
		for key, value := range heading {
			document[key] = value
		}
		if result := validator.Validate(document); result.IsValid() != row.good {
			t.Errorf("the schema says of %s: %v", row.policy, result.Errors)
		}
		if _, problems := LoadInline([]byte(row.policy)); (problems.Err() == nil) != row.good {
			t.Errorf("orphand says of %s: %v", row.policy, problems)
		}
	}
}
