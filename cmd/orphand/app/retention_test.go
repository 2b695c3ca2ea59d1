package app

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/orphand/orphand/pkg/signals"
)

const goodPolicy = `apiVersion: orphand.dev/v1alpha1
kind: RetentionPolicy
rules: [{name: jobs, match: {kinds: [Job, Workflow]}, ttlAfterFinished: 1h}]
`

func TestAPolicyIsReadAgainWhenItChangesAndTheLastGoodOneIsKept(t *testing.T) {
	if testing.Short() {
		t.Skip("the file is read every few seconds")
	}
	file := filepath.Join(t.TempDir(), "policy.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(goodPolicy)
	api := newFakeAPI()
	api.answer(http.StatusNotFound, "workflows")
	d := startDaemon(t, serveAPI(t, api), func(o *Options) { o.RetentionPolicy = file })
	d.log.event(t, signals.PolicyLoaded)
	d.synced(t)
	d.kind(t, "retention/Job", "Watching")
	d.kind(t, "retention/Workflow", "Absent")
	d.expect(t, "/readyz?verbose", http.StatusOK, "[+]retention/policy ok: sha256:", ", 1 rules", "[+]retention/Workflow ok: Absent")

	write(goodPolicy + "rule: []\n")
	refused := d.log.await(t, "PolicyRefused", func(l line) bool { return l.text("event") == string(signals.PolicyRefused) })
	if got := refused.text("reason"); got != "4:1: rule: unknown key; did you mean rules?" {
		t.Errorf("the reason is %q", got)
	}
	d.expect(t, "/readyz?verbose", http.StatusOK, "refused, the last good one is in force: 4:1: rule: unknown key")
	d.expect(t, "/metrics", http.StatusOK, "orphand_retention_policy_refused 1", `orphand_retention_policy_loads_total{outcome="loaded"} 1`)

	write(goodPolicy)
	d.log.await(t, "the end of PolicyRefused", func(l line) bool {
		return l.text("event") == string(signals.PolicyRefused) && l.text("phase") == string(signals.Ended)
	})
	d.expect(t, "/metrics", http.StatusOK, "orphand_retention_policy_refused 0")
}

// Without a namespace's rules its objects could go that it keeps: what cannot be read is not taken to be nothing. And a file
// that is wrong stays wrong whatever becomes of the namespaces.
func TestAPolicyIsNotInForceWithoutTheRulesOfNamespaces(t *testing.T) {
	if testing.Short() {
		t.Skip("the file is read every few seconds")
	}
	file := filepath.Join(t.TempDir(), "policy.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const namespaced = goodPolicy + "namespacePolicies: {namespaces: [\"team-*\"]}\n"
	write(namespaced)
	api := newFakeAPI()
	api.answer(http.StatusForbidden, "configmaps")
	d := startDaemon(t, serveAPI(t, api), func(o *Options) { o.RetentionPolicy = file })
	last := time.Time{}
	phase := func(p signals.Phase) {
		t.Helper()
		l := d.log.await(t, "PolicyRefused "+string(p), func(l line) bool {
			at, err := time.Parse(time.RFC3339Nano, l.text("ts"))
			return l.text("event") == string(signals.PolicyRefused) && l.text("phase") == string(p) && err == nil && at.After(last)
		})
		last, _ = time.Parse(time.RFC3339Nano, l.text("ts"))
	}
	phase(signals.Started)
	d.synced(t)
	d.expect(t, "/readyz?verbose", http.StatusOK, "[+]retention/policy ok: not in force yet: reading the rules that namespaces bring", "configmaps")
	d.expect(t, "/metrics", http.StatusOK, "orphand_retention_policy_refused 1", `orphand_retention_policy_loads_total{outcome="loaded"} 1`)
	api.answer(http.StatusOK, "configmaps")
	phase(signals.Ended)
	d.expect(t, "/metrics", http.StatusOK, "orphand_retention_policy_refused 0")
	d.kind(t, "retention/Job", "Watching")
	d.expect(t, "/readyz?verbose", http.StatusOK, ", 1 rules")

	write(namespaced + "rule: []\n")
	phase(signals.Started)
	api.answer(http.StatusForbidden, "configmaps")
	phase(signals.Started)
	api.answer(http.StatusOK, "configmaps")
	phase(signals.Ended)
	d.expect(t, "/readyz?verbose", http.StatusOK, "refused, the last good one is in force: 5:1: rule: unknown key")
	d.expect(t, "/metrics", http.StatusOK, "orphand_retention_policy_refused 1")
}
