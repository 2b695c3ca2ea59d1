package retention

import (
	"strings"
	"testing"
	"time"
)

// Twenty mistakes of twenty kinds in one file, each told with its place.
const wrong = `apiVersion: orphand.dev/v1
kind: RetentionPolice
dryrun: true
gitOpsMarks: ["not a label"]
recreation: {limit: 0}
rules:
- name: first
  match:
    kinds: [TrainJobs, Job]
    namespaces: [Team-A]
    labels: "app in train"
    expression: object.spec. >
  ttlAfterFinished: 3600
  failed: -5m
- name: first
  min: 7d
  max: 1d
- name: keep
  keepLast: {per: cluster}
  propagation: Foreground
- name: never
  match: {kinds: [Workflow], expression: "'text'"}
  succeeded: 999999999999h
  succeeded: 1h
  stopRunningAfter: [1h]
  dryRun: maybe
kinds:
- {group: batch, versions: [v1], resource: jobs, kind: Job, finished: "1"}
- {group: example.com, versions: [v1], resource: Runs}
`

func TestAFileWithTwentyMistakesYieldsTwentyLocatedMessages(t *testing.T) {
	want := strings.Split(`1:1: apiVersion: "orphand.dev/v1": use orphand.dev/v1alpha1
2:1: kind: "RetentionPolice": use RetentionPolicy
3:1: dryrun: unknown key; did you mean dryRun?
4:15: gitOpsMarks[0]: "not a label" is no label or annotation: *
5:14: recreation.limit: 0: use 1 or more
9:13: rules[0].match.kinds[0]: unknown kind "TrainJobs"; did you mean TrainJob?
10:18: rules[0].match.namespaces[0]: "Team-A": use a namespace *
11:5: rules[0].match.labels: no label selector: *
12:5: rules[0].match.expression: no CEL over object: *
13:21: rules[0].ttlAfterFinished: 3600 has no unit: use 3600s for seconds, *
14:11: rules[0].failed: "-5m": use a duration *
15:3: rules[1].name: "first" is the name of rules[0] as well
16:3: rules[1].min: 1w is more than max, 1d
19:3: rules[2].keepLast: give succeeded, failed or both
19:14: rules[2].keepLast.per: "cluster": use namespace, owner or label:KEY
20:3: rules[2].propagation: "Foreground": use Background
22:30: rules[3].match.expression: no CEL over object: gives string, not bool
23:14: rules[3].succeeded: "999999999999h": use a duration *
24:3: rules[3].succeeded: given twice, first in line 23
25:21: rules[3].stopRunningAfter: use a duration such as 12h or 7d, not a list
26:11: rules[3].dryRun: use true or false, not "maybe"
28:3: kinds[0]: Job (jobs.batch) is there already; give it another name
28:61: kinds[0].finished: no CEL over object: gives int, not bool
29:3: kinds[1]: kind is missing
29:40: kinds[1].resource: "Runs" is none: use lower-case letters, digits, - and .`, "\n")
	p, problems := Load([]byte(wrong))
	if p != nil {
		t.Error("a policy was made of it")
	}
	var got []string
	for _, p := range problems {
		if !p.Warning {
			got = append(got, p.String())
		}
	}
	if len(got) < 20 {
		t.Errorf("%d messages", len(got))
	}
	for i := range max(len(got), len(want)) {
		var g, w string
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if begin, open := strings.CutSuffix(w, "*"); g != w && !(open && strings.HasPrefix(g, begin)) {
			t.Errorf("message %d:\n got %s\nwant %s", i, g, w)
		}
	}
}

func TestAFileThatIsNoYAMLIsToldWithItsLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "1:1: the file is empty; a policy begins with apiVersion: orphand.dev/v1alpha1",
		"rules:\n- name: [\n":         "no YAML",
		"a: 1\n---\nb: 2\n":           "a second document",
		"[]":                          "use a mapping, not a list",
		"rules: {}":                   "rules: use a list, not a mapping",
		"rules: [{name: 5}]":          `rules[0].name: use text, not "5"`,
		strings.Repeat("#", 1<<20+1):  "the most that a ConfigMap holds",
		"rules: [{name: &a {b: *a}}]": "",
	} {
		_, problems := LoadInline([]byte(text))
		if problems.Err() == nil || !strings.Contains(problems.Error(), want) {
			t.Errorf("%.40q: %v", text, problems)
		}
	}
}

func TestAWholeFileNamesItsVersion(t *testing.T) {
	_, problems := Load([]byte("rules: []"))
	if got := problems.Error(); got != "1:1: apiVersion is missing: use orphand.dev/v1alpha1\n1:1: kind is missing: use RetentionPolicy" {
		t.Error(got)
	}
}

func TestRulesThatCanNeverMatchAreWarnedOf(t *testing.T) {
	for _, row := range []struct{ name, rules, want string }{
		{"a tie", `[{name: a, match: {kinds: [Job], namespaces: ["!x"]}}, {name: b, match: {kinds: [Job], namespaces: ["!x"]}}]`,
			`rules[1]: warning: rule "b" is never used: it ties with rules[0] "a", which matches the same and comes first`},
		{"everything first", `[{name: a}, {name: b, match: {kinds: [Job]}}]`,
			`rules[1]: warning: rule "b" is never used: rules[0] "a" matches everything that it matches and comes first`},
		{"a wider glob first", `[{name: a, match: {namespaces: ["team-*"]}}, {name: b, match: {namespaces: [team-a, "team-x-*"]}}]`, `rule "b" is never used`},
		{"fewer labels first", `[{name: a, match: {labels: {x: a}}}, {name: b, match: {labels: {x: a, y: b}}}]`, `rule "b" is never used`},
		{"more labels first", `[{name: a, match: {labels: {x: a, y: b}}}, {name: b, match: {labels: {x: a}}}]`, ""},
		{"another kind first", `[{name: a, match: {kinds: [Job]}}, {name: b, match: {kinds: [Job, TrainJob]}}]`, ""},
		{"an expression first", `[{name: a, match: {expression: "true"}}, {name: b}]`, ""},
		{"an exclusion first", `[{name: a, match: {namespaces: ["!x"]}}, {name: b}]`, ""},
		{"a TTL above max", `[{name: a, ttlAfterFinished: 10d, max: 5d}]`, "10d is more than max, which cuts it to 5d"},
		{"a notice above the TTL", `[{name: a, ttlAfterFinished: 10m, notice: 1h}]`, "1h is more than the TTL, 10m: such objects are announced when they finish"},
		{"a notice of what goes at once", `[{name: a, failed: 0s, notice: 1h}]`, "1h is more than the TTL, 0s: such objects go at once, unannounced"},
		{"no rules", `[]`, "no rules: everything is kept"},
	} {
		p, problems := LoadInline([]byte("rules: " + row.rules))
		if p == nil {
			t.Errorf("%s: %v", row.name, problems)
			continue
		}
		var all []string
		for _, w := range problems.Warnings() {
			all = append(all, w.String())
		}
		if got := strings.Join(all, "\n"); !strings.Contains(got, row.want) || (row.want == "") != (got == "") {
			t.Errorf("%s: got %q", row.name, got)
		}
	}
}

func TestADuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "90s": 90 * time.Second, "1h30m": 90 * time.Minute, "7d": 7 * 24 * time.Hour, "2w": 14 * 24 * time.Hour,
		"1.5d": 36 * time.Hour, "1d12h": 36 * time.Hour, ".5h": 30 * time.Minute, "15250w": 15250 * Week,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "5", "-5m", "+5m", "10ay", "1M", "h", "1..5h", ".h", "1e3s", "999999999999h", "15251w", "1h ", " 1h", strings.Repeat("9", 70) + "s", "5m3"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
	for d, want := range map[time.Duration]string{0: "0s", time.Hour: "1h", 90 * time.Minute: "1h30m", 48 * time.Hour: "2d", 21 * Day: "3w", 61 * time.Second: "1m1s"} {
		if got := FormatDuration(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

func TestAGlob(t *testing.T) {
	for _, row := range []struct {
		pattern, name string
		want          bool
	}{
		{"*", "", true}, {"team-*", "team-a", true}, {"team-*", "team", false}, {"*-a", "team-a", true}, {"a*b*c", "axxbyyc", true},
		{"a*b*c", "axxbyy", false}, {"team-?", "team-a", true}, {"team-?", "team-ab", false}, {"*a*a*", "aba", true}, {"abc", "abc", true}, {"abc", "abcd", false},
	} {
		if got := glob(row.pattern, row.name); got != row.want {
			t.Errorf("%s on %s: %v", row.pattern, row.name, got)
		}
	}
}

func TestKindsAreNamedShortOrByResource(t *testing.T) {
	p := policy(t, `rules: [{name: a, match: {kinds: [Job, workflows.argoproj.io, jobs.batch.volcano.sh]}}]`)
	var names []string
	for _, k := range p.Kinds() {
		names = append(names, k.Name)
	}
	if got := strings.Join(names, " "); got != "Job Workflow VolcanoJob" {
		t.Error(got)
	}
	if n := len(policy(t, `rules: [{name: a}]`).Kinds()); n != len(Kinds()) {
		t.Errorf("a rule for every kind is for %d", n)
	}
}
