package app

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/orphand/orphand/pkg/signals"
)

// The reference pages of docs/ are made from the code: make docs writes them, and these tests fail while they differ.
var update = flag.Bool("update", false, "write the generated pages of docs/")

const generated = "<!-- Made from the code by make docs; edits are lost. -->\n\n"

func page(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("../../../docs", name)
	text = generated + text
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != text {
		t.Errorf("docs/%s is not what the code says: run make docs", name)
	}
}

func code(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return "`" + strings.Join(words, "`, `") + "`"
}

func TestDocsMetrics(t *testing.T) {
	d, err := newDaemon(config{options: DefaultOptions(), cluster: &rest.Config{Host: "http://localhost"}, clock: clock.RealClock{}, log: newLogReader()})
	if err != nil {
		t.Fatal(err)
	}
	defer d.follower.close()
	// Two of the three begin with their watches.
	d.recorder.Informers().NewQueuedItemMetric(cache.InformerNameAndResource{})
	d.recorder.Informers().NewProcessingLatencyMetric(cache.InformerNameAndResource{})
	entries, err := d.catalogue()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("# Metrics\n\n" +
		"Everything that `/metrics` serves, beside the usual `go_*` and `process_*`. Every series exists from the start, and no label " +
		"names a pod, a job or a node: there are as many series after ten jobs as after ten thousand.\n\n" +
		"Whoever reaches `--http-address` may read them. With `--metrics-secure-address` they are served there instead, by TLS and " +
		"only to whoever sends a bearer token that the cluster knows (401 otherwise) and may `get` the path `/metrics` (403 otherwise), " +
		"which the ClusterRole `orphand-scrape` lets them: orphand asks by TokenReview and SubjectAccessReview, and an answer stands " +
		"for ten seconds. While the Kubernetes API cannot be asked, the answer is 503. The certificate is that of `--tls-cert-file`, " +
		"which is read again within ten seconds of a change, or one that the process signs itself. The components `protected-metrics` " +
		"and `metrics-certificate` below `manifests/components` set all of this up.\n")
	for _, e := range entries {
		if strings.HasPrefix(e.Name, "go_") || strings.HasPrefix(e.Name, "process_") {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s%s. %s\n", e.Name, strings.ToUpper(e.Type[:1]), e.Type[1:], e.Help)
		for i, l := range e.Labels {
			if i == 0 {
				b.WriteString("\n")
			}
			values := code(l.Values)
			switch {
			case e.Name == "orphand_build_info":
				values = "what the binary was built from"
			case strings.HasPrefix(e.Name, "informer_") && l.Name == "name":
				values = "`orphand`"
			case strings.HasPrefix(e.Name, "informer_"):
				values = "of the kind that is watched"
			}
			fmt.Fprintf(&b, "- `%s`: %s\n", l.Name, values)
		}
	}
	page(t, "metrics.md", b.String())
}

func TestDocsEvents(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Log events\n\n" +
		"orphand writes JSON to standard error, one line per change and never one per look. Every line has `ts` (RFC 3339), `level`, " +
		"`msg` and `event`; alerts match on `event`. A field without a value is left out. The same as a JSON Schema: " +
		"[line.schema.json](../manifests/alerts/line.schema.json); rules for Loki and a filter for plain lines: [alerts](alerts.md). " +
		"Every replica follows every job and writes lines of its own.\n\n" +
		"## Fields\n\n| field | meaning |\n|---|---|\n")
	for _, f := range signals.Fields() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", f.Name, f.Meaning)
	}
	b.WriteString("\n## Events\n\nWhat lasts has a second line with `phase: ended`, at level info.\n\n| event | level | meaning | fields |\n|---|---|---|---|\n")
	for _, e := range signals.Events() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", e.Code, e.Level, e.Meaning, code(e.Fields))
	}
	b.WriteString("\nA [finding](findings.md) has lines of its own, whose `event` is the finding's code.\n")
	page(t, "events.md", b.String())
}

func TestDocsFindings(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Findings\n\n" +
		"Something a person should know. A finding is raised once per cause: one log line when it starts (`event` is its code, " +
		"`phase: started`), one when it ends, and the metrics `orphand_findings_total` and `orphand_findings_active`.\n\n" +
		"| finding | severity | log level | meaning | what to do |\n|---|---|---|---|---|\n")
	for _, f := range signals.Findings() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", f.Code, f.Severity, f.Severity.Level(), f.Meaning, f.Action)
	}
	page(t, "findings.md", b.String())
}

func TestDocsFlags(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Flags of `orphand run`\n\n| flag | default | meaning |\n|---|---|---|\n")
	options := DefaultOptions()
	own := pflag.NewFlagSet("run", pflag.ContinueOnError)
	options.AddFlags(own)
	row := func(f *pflag.Flag) {
		value := f.DefValue
		if value == "" || value == "[]" {
			value = " "
		} else {
			value = "`" + value + "`"
		}
		fmt.Fprintf(&b, "| `--%s` | %s | %s |\n", f.Name, value, strings.ReplaceAll(f.Usage, "|", `\|`))
	}
	own.VisitAll(row)
	b.WriteString("\n## Choosing the cluster\n\nAs kubectl does: the kubeconfig of `--kubeconfig`, of `$KUBECONFIG` or of the home directory; without any, the service " +
		"account of the pod that orphand runs in.\n\n| flag | default | meaning |\n|---|---|---|\n")
	cluster := pflag.NewFlagSet("cluster", pflag.ContinueOnError)
	newClusterFlags().AddFlags(cluster)
	cluster.VisitAll(row)
	page(t, "flags.md", b.String())
}

func TestDocsExitCodes(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Exit codes\n\n| code | meaning |\n|---|---|\n")
	for _, c := range ExitCodes() {
		fmt.Fprintf(&b, "| %d | %s |\n", c.Code, c.Meaning)
	}
	page(t, "exit-codes.md", b.String())
}
