package alerts

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

const (
	header = "# Made from the table in internal/alerts by make docs; edits are lost.\n"
	// runbooks is where the rules' links lead.
	runbooks = "https://github.com/orphand/orphand/blob/main/docs/runbooks/"
)

// rule is a rule as Prometheus and Loki read it.
type rule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for,omitempty"`
	Keep        string            `yaml:"keep_firing_for,omitempty"`
	Labels      map[string]string `yaml:"labels"`
	Annotations annotations       `yaml:"annotations"`
}

type annotations struct {
	Summary     string `yaml:"summary"`
	Description string `yaml:"description"`
	Runbook     string `yaml:"runbook_url"`
}

type group struct {
	Name  string `yaml:"name"`
	Rules []rule `yaml:"rules"`
}

type groups struct {
	Groups []group `yaml:"groups"`
}

func (a Alert) rule() rule {
	return rule{
		Alert: a.Name, Expr: a.Expr, For: span(a.For), Keep: span(a.Keep),
		Labels: map[string]string{"severity": string(a.Severity)},
		Annotations: annotations{
			Summary: a.Summary,
			// Prometheus expands its templates in annotations, which these commands must not be taken for.
			Description: literal(a.Meaning + " Type next: " + a.Next),
			Runbook:     runbooks + a.Name + ".md",
		},
	}
}

// literal keeps text from being taken for a template.
func literal(text string) string {
	return strings.ReplaceAll(text, "{{", `{{"{{"}}`)
}

// span is a duration as Prometheus writes it.
func span(d time.Duration) string {
	switch {
	case d == 0:
		return ""
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

func grouped(list []Alert) groups {
	own, findings := group{Name: "orphand"}, group{Name: "orphand-findings"}
	for _, a := range list {
		if isFinding(a) {
			findings.Rules = append(findings.Rules, a.rule())
		} else {
			own.Rules = append(own.Rules, a.rule())
		}
	}
	return groups{[]group{own, findings}}
}

func isFinding(a Alert) bool { return strings.Contains(a.Expr, "orphand_findings_active") }

// Rules is a rule file for Prometheus. shorten may shorten what an alert waits for, so that a test need not; nil leaves
// everything as it is.
func Rules(shorten func(time.Duration) time.Duration) string {
	list := All()
	if shorten != nil {
		for i := range list {
			list[i].For, list[i].Keep = shorten(list[i].For), shorten(list[i].Keep)
		}
	}
	return header + marshal(grouped(list))
}

// PrometheusRule is the same for the Prometheus operator.
func PrometheusRule() string {
	return header + marshal(struct {
		APIVersion string         `yaml:"apiVersion"`
		Kind       string         `yaml:"kind"`
		Metadata   map[string]any `yaml:"metadata"`
		Spec       groups         `yaml:"spec"`
	}{"monitoring.coreos.com/v1", "PrometheusRule", map[string]any{"name": "orphand", "namespace": "orphand"}, grouped(All())})
}

func marshal(v any) string {
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := encoder.Encode(v); err != nil {
		panic(err) // of strings and maps of strings, all known here
	}
	return b.String()
}

// Page is docs/alerts.md.
func Page() string {
	var b strings.Builder
	b.WriteString("<!-- " + strings.TrimPrefix(strings.TrimSuffix(header, "\n"), "# ") + " -->\n\n# Alerts\n\n" +
		"Each alert names the command to type next, and has a runbook. `critical` means that two executions may be running or that nothing is " +
		"judged at all, `warning` that a person has to act or a job does not settle, `info` that nothing waits for it.\n\n" +
		"| where they go | file |\n|---|---|\n" +
		"| Prometheus operator | the component `manifests/components/prometheus` (PodMonitor and PrometheusRule) |\n" +
		"| Prometheus | `manifests/alerts/prometheus.yaml`, under `rule_files` |\n" +
		"| Loki's ruler | `manifests/alerts/loki.yaml` |\n" +
		"| anything that reads lines | `manifests/alerts/filter.jq`: `kubectl -n orphand logs -f -l app.kubernetes.io/name=orphand \\| jq -cf manifests/alerts/filter.jq` |\n\n" +
		"What the leader alone tells is summed over replicas, so that the rules hold for any number of them. An alert outlasts a change of the leader.\n\n" +
		"| alert | severity | after | when |\n|---|---|---|---|\n")
	for _, a := range All() {
		after := span(a.For)
		if after == "" {
			after = "at once"
		}
		fmt.Fprintf(&b, "| [%s](runbooks/%s.md) | %s | %s | %s |\n", a.Name, a.Name, a.Severity, after, a.Meaning)
	}
	return b.String()
}

// Runbook is the page of one alert.
func (a Alert) Runbook() string {
	var b strings.Builder
	fmt.Fprintf(&b, "<!-- %s -->\n\n# %s\n\n", strings.TrimPrefix(strings.TrimSuffix(header, "\n"), "# "), a.Name)
	fmt.Fprintf(&b, "Severity: %s.\n\n```promql\n%s\n```\n\n## What is the case\n\n%s\n\n## What it costs\n\n%s\n\n## Look\n", a.Severity, a.Expr, a.Meaning, a.Cost)
	for _, s := range a.Look {
		fmt.Fprintf(&b, "\n%s:\n\n```sh\n%s\n```\n", strings.ToUpper(s.Shows[:1])+s.Shows[1:], s.Command)
	}
	b.WriteString("\n## Do\n\n")
	for i, step := range a.Do {
		if len(a.Do) > 1 {
			fmt.Fprintf(&b, "%d. ", i+1)
		}
		b.WriteString(step + "\n")
	}
	fmt.Fprintf(&b, "\n## It ends when\n\n%s\n", a.Ends)
	return b.String()
}

// Files is everything that is made from the table, by its path in the repository.
func Files() map[string]string {
	files := map[string]string{
		"manifests/alerts/prometheus.yaml":                    Rules(nil),
		"manifests/components/prometheus/prometheusrule.yaml": PrometheusRule(),
		"manifests/alerts/loki.yaml":                          Loki(),
		"manifests/alerts/filter.jq":                          Filter(),
		"manifests/alerts/line.schema.json":                   Schema(),
		"docs/alerts.md":                                      Page(),
	}
	for _, a := range All() {
		files["docs/runbooks/"+a.Name+".md"] = a.Runbook()
	}
	return files
}
