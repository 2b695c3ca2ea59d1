package install_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/orphand/orphand/e2e/cluster"
	"github.com/orphand/orphand/e2e/daemon"
	"github.com/orphand/orphand/pkg/access"
	"github.com/orphand/orphand/pkg/signals"
)

// without is orphand under the roles of some features but for one verb.
type without struct {
	*testing.T
	d *daemon.Daemon
}

func (w *without) hears(want daemon.Want) daemon.Event {
	w.Helper()
	e, err := w.d.Await(w.Context(), want)
	if err != nil {
		w.Fatal(err)
	}
	return e
}

// until asks for a path until its answer has a status and all of these words.
func (w *without) until(path string, status int, words ...string) {
	w.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for {
		got, text, err := w.d.Get(w.Context(), path)
		missing := ""
		for _, word := range words {
			if !strings.Contains(text, word) {
				missing = word
			}
		}
		if err == nil && got == status && missing == "" {
			return
		}
		if time.Now().After(deadline) {
			w.Fatalf("%s: %d, %v, no %q in\n%s", path, got, err, missing, text)
		}
		select {
		case <-w.Context().Done():
			w.Fatal(w.Context().Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// deleted is a job without pods that has been deleted.
func (w *without) deleted(name string) cluster.TrainJob {
	w.Helper()
	w.hears(daemon.Code(signals.CachesSynced)) // what comes and goes before is seen by nobody
	job := suspended(w.T, name)
	if err := shared.DeleteTrainJob(w.Context(), job, metav1.DeletePropagationBackground); err != nil {
		w.Fatal(err)
	}
	return job
}

// What the page of permissions says of a missing one is what is seen: for each way
// of saying it, one verb taken away from the whole.
func TestWithoutAPermissionOrphandSaysWhatItCannotDo(t *testing.T) {
	if err := daemon.InstallRecords(t.Context(), shared); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = command(context.Background(), shared.Kubectl(), "delete", "crd", "orphans.orphand.dev")
	})
	ownNamespace(t)
	observe := []access.Feature{access.Observe, access.Records}
	enforce := append(observe, access.Enforce)
	for _, c := range []struct {
		verb, resource string
		features       []access.Feature
		flags          []string
		sees           func(w *without)
	}{
		{"watch", "pods", observe, nil, func(w *without) {
			if e := w.hears(daemon.Kind("Pod", "Forbidden")); !strings.Contains(e.Cure, "watch on pods") {
				w.Errorf("no cure in %s", e.Line)
			}
			w.until("/readyz", http.StatusServiceUnavailable, "[-]kind/Pod failed: Forbidden")
			w.until("/metrics", http.StatusOK, `orphand_kind_state{kind="Pod",state="Forbidden"} 1`)
		}},
		{"watch", "trainingruntimes", observe, nil, func(w *without) {
			w.hears(daemon.Kind("TrainingRuntime", "Forbidden"))
			w.until("/readyz?verbose", http.StatusOK, "kind/TrainingRuntime ok: Forbidden")
		}},
		{"get", "secrets", observe, nil, func(w *without) {
			job := w.deleted("uncleared")
			w.hears(daemon.Over(job.UID))
			w.until("/metrics", http.StatusOK, `orphand_live_reads_total{kind="Secret",outcome="Forbidden"}`, `rest_client_requests_total{code="403",method="GET"}`)
			for _, e := range w.d.Events() {
				if e.JobUID == job.UID && e.State == "Cleared" {
					w.Errorf("cleared without having looked: %s", e.Line)
				}
			}
			m, err := w.d.Metrics(w.Context())
			if err != nil || m[`orphand_live_reads_total{kind="Secret",outcome="Forbidden"}`] == 0 {
				w.Errorf("no forbidden read is counted: %v", err)
			}
		}},
		{"patch", "orphans/status", observe, nil, func(w *without) {
			w.hears(daemon.Over(w.deleted("without-status").UID))
			w.until("/readyz?verbose", http.StatusOK, "records ok: cannot be written", "orphans", "forbidden")
		}},
		{"delete", "orphans", observe, []string{"--record-ttl=1s"}, func(w *without) {
			w.deleted("kept-on-record")
			// Of one of all records that are old: such lines are not written for each.
			if e := w.hears(daemon.Code(signals.WorkFailed)); !strings.Contains(e.Reason, "forgetting record") || !strings.Contains(e.Reason, "forbidden") {
				w.Error(e.Line)
			}
		}},
		{"get", "leases", append(observe, access.Election), []string{"--leader-elect"}, func(w *without) {
			e := w.hears(daemon.Line("that the Lease cannot be read", func(e daemon.Event) bool {
				return e.Code == signals.ClientTrouble && strings.Contains(e.Reason, `resource "leases"`)
			}))
			if !strings.Contains(e.Reason, "forbidden") {
				w.Error(e.Line)
			}
			w.until("/metrics", http.StatusOK, "orphand_leader 0")
			w.until("/readyz?verbose", http.StatusOK, "leadership ok: standing by; no leader seen yet")
		}},
		{"create", "events", observe, nil, func(w *without) {
			job, err := shared.SubmitTrainJob(w.Context(), cluster.TrainJobSpec{Name: "untold", GraceSeconds: new(int64)})
			if err != nil {
				w.Fatal(err)
			}
			w.hears(daemon.Found(signals.UnprovableGrace, job.UID))
			w.hears(daemon.Line("that the Event is refused", func(e daemon.Event) bool {
				return e.Code == signals.ClientTrouble && strings.Contains(e.Reason, `cannot create resource "events"`)
			}))
			if err := shared.DeleteTrainJob(w.Context(), job, metav1.DeletePropagationBackground); err != nil {
				w.Fatal(err)
			}
		}},
		{"delete", "pods", enforce, []string{"--mode=enforce"}, func(w *without) {
			e := w.hears(daemon.Code(signals.ModeChanged))
			if e.State != "observe" || !strings.Contains(e.Reason, "delete on pods") {
				w.Error(e.Line)
			}
			w.until("/readyz?verbose", http.StatusOK, "mode ok: observe although --mode is enforce: not permitted: delete on pods in all namespaces")
			w.until("/metrics", http.StatusOK, `orphand_mode{mode="observe"} 1`, `orphand_mode{mode="enforce"} 0`, `orphand_mode_wanted{mode="enforce"} 1`)
		}},
		{"list", "configmaps", append(enforce, access.Retention), []string{"--mode=enforce"}, func(w *without) {
			if e := w.hears(daemon.Code(signals.PolicyRefused)); !strings.Contains(e.Reason, "forbidden") || !strings.Contains(e.Reason, "configmaps") {
				w.Error(e.Line)
			}
			w.until("/readyz?verbose", http.StatusOK, "retention/policy ok: not in force yet", "cannot list resource \"configmaps\"")
		}},
	} {
		t.Run(c.verb+" "+c.resource, func(t *testing.T) {
			user := "without-" + c.verb + "-" + strings.ReplaceAll(c.resource, "/", "-")
			kubeconfig, err := shared.UserWithRules(t.Context(), user, lacking(access.Rules(c.features...), c.verb, c.resource))
			if err != nil {
				t.Fatal(err)
			}
			flags := append(c.flags, "--settle-quiet=1s", "--leader-elect-lease-namespace="+access.Namespace)
			if c.features[len(c.features)-1] == access.Retention {
				file := filepath.Join(t.TempDir(), "policy.yaml")
				if err := os.WriteFile(file, []byte(everything), 0o600); err != nil {
					t.Fatal(err)
				}
				flags = append(flags, "--retention-policy="+file)
			}
			d, err := daemon.Launch(t.Context(), shared, daemon.Options{Program: program, Kubeconfig: kubeconfig, Flags: flags})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if lies := d.Judge().Lies(); len(lies) > 0 {
					t.Error(lies)
				}
				_ = d.Stop()
			})
			c.sees(&without{t, d})
		})
	}
}
