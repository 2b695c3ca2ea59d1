package alerts

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/orphand/orphand/pkg/signals"
)

// lineAlert is an alert on a log line.
type lineAlert struct {
	Name     string
	Severity signals.Severity
	// Events are the codes whose lines raise it, at the start of what lasts.
	Events  []string
	Summary string
}

// lines are the alerts on log lines: each critical or warning finding, and the process's own troubles.
func lines() []lineAlert {
	var list []lineAlert
	for _, f := range signals.Findings() {
		if f.Severity == signals.Notice {
			continue
		}
		list = append(list, lineAlert{Prefix + string(f.Code), f.Severity, []string{string(f.Code)}, f.Meaning})
	}
	for _, e := range signals.Events() {
		if e.Level != signals.Error && e.Code != signals.NodesUnreadable {
			continue
		}
		list = append(list, lineAlert{Prefix + string(e.Code), signals.Warning, []string{string(e.Code)}, e.Meaning})
	}
	return list
}

// Loki is a file of rules for Loki's ruler. Each replica writes lines of its own: the count is over all of them.
func Loki() string {
	g := group{Name: "orphand-lines"}
	for _, l := range lines() {
		r := rule{
			Alert: l.Name + "Line",
			Expr: fmt.Sprintf(`sum by (trainjob) (count_over_time({namespace="orphand", container="orphand"} | json event="event", phase="phase", trainjob="job" | event=~"%s" | phase!="ended" [5m])) > 0`,
				strings.Join(l.Events, "|")),
			Labels: map[string]string{"severity": string(l.Severity)},
			Annotations: annotations{Summary: l.Summary,
				Description: fmt.Sprintf("orphand wrote a line with the event %s. Type next: kubectl get orphans -A", strings.Join(l.Events, " or ")),
				Runbook:     runbooks + runbookOf(l.Name) + ".md"},
		}
		g.Rules = append(g.Rules, r)
	}
	return header + marshal(groups{[]group{g}})
}

// runbookOf is the alert on metrics whose runbook fits the one on lines.
func runbookOf(name string) string {
	if _, ok := Find(name); ok {
		return name
	}
	switch strings.TrimPrefix(name, Prefix) {
	case string(signals.APIUnreachable):
		return "OrphandAPIErrors"
	case string(signals.WorkPanicked):
		return "OrphandPanics"
	}
	return "OrphandDown"
}

// Filter is a program for jq that lets through what somebody should be woken for, each line with the alert that it raises.
func Filter() string {
	var b strings.Builder
	b.WriteString(header +
		"# Lets through the lines that somebody should see, each with its alert, severity and runbook:\n" +
		"#   kubectl -n orphand logs -f -l app.kubernetes.io/name=orphand | jq -cf manifests/alerts/filter.jq\n{\n")
	for _, l := range lines() {
		for _, event := range l.Events {
			fmt.Fprintf(&b, "  %q: [%q, %q, %q],\n", event, l.Name, l.Severity, runbooks+runbookOf(l.Name)+".md")
		}
	}
	text := strings.TrimSuffix(b.String(), ",\n") + "\n"
	return text + "} as $alerts\n| select(.phase != \"ended\")\n| $alerts[.event] as $alert\n| select($alert)\n" +
		"| {alert: $alert[0], severity: $alert[1], runbook: $alert[2]} + .\n"
}

// Schema is the JSON Schema of a log line. What is not in it is not written.
func Schema() string {
	type object = map[string]any
	text := object{"type": "string"}
	of := func(words ...string) object { return object{"enum": words} }
	var codes []string
	var rules []object
	common := []string{"ts", "level", "msg", signals.FieldEvent}
	for _, e := range signals.Events() {
		codes = append(codes, string(e.Code))
		rules = append(rules, lineRule(string(e.Code), append(slices.Clone(common), e.Fields...)))
	}
	for _, f := range signals.Findings() {
		codes = append(codes, string(f.Code))
		rules = append(rules, object{
			"if":   object{"properties": object{signals.FieldEvent: object{"const": string(f.Code)}}},
			"then": object{"properties": object{signals.FieldFinding: object{"const": string(f.Code)}}, "required": []string{signals.FieldFinding, signals.FieldPhase, signals.FieldJob, signals.FieldUID}},
		})
	}
	properties := object{
		"ts":    object{"type": "string", "format": "date-time"},
		"level": of("info", "warn", "error"),
		"msg":   text,
	}
	for _, f := range signals.Fields() {
		property := object{"type": "string", "description": f.Meaning}
		switch f.Name {
		case signals.FieldEvent:
			property["enum"] = codes
		case signals.FieldPhase:
			property["enum"] = []string{string(signals.Started), string(signals.Ended)}
		case signals.FieldVerdict:
			property["enum"] = []string{"Alive", "Unproven", "Gone"}
		case signals.FieldJob:
			property["pattern"] = "^[^/]+/[^/]+$"
		}
		properties[f.Name] = property
	}
	out, err := json.MarshalIndent(object{
		"$schema":     "https://json-schema.org/draft/2020-12/schema",
		"title":       "A log line of orphand run",
		"description": "Made from the table in pkg/signals by make docs; edits are lost.",
		"type":        "object",
		"required":    common,
		"properties":  properties,
		"allOf":       rules,
	}, "", "  ")
	if err != nil {
		panic(err) // of maps and strings, all known here
	}
	return string(out) + "\n"
}

// lineRule says which fields an event's line may have. The client library's own trouble may have any.
func lineRule(code string, fields []string) map[string]any {
	then := map[string]any{}
	if code != string(signals.ClientTrouble) {
		then["propertyNames"] = map[string]any{"enum": fields}
	}
	return map[string]any{
		"if":   map[string]any{"properties": map[string]any{signals.FieldEvent: map[string]any{"const": code}}},
		"then": then,
	}
}
