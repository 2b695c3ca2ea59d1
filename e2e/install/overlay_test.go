package install_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/orphand/orphand/e2e/cluster"
	"github.com/orphand/orphand/e2e/daemon"
	"github.com/orphand/orphand/pkg/access"
	"github.com/orphand/orphand/pkg/signals"
)

// apply installs an overlay as an administrator does, and waits until the
// ReplicaSet has made its pods: a pod that the namespace's Pod Security level does
// not admit is never made.
func apply(t *testing.T, overlay string) {
	t.Helper()
	kubectl(t, "apply", "--server-side", "-k", "manifests/overlays/"+overlay)
	kubectl(t, "wait", "--for=condition=Established", "crd/orphans.orphand.dev", "--timeout=30s")
	err := shared.WaitPods(t.Context(), cluster.PodSelector{Namespace: access.Namespace, Labels: map[string]string{"app.kubernetes.io/name": "orphand"}},
		func(pods []*corev1.Pod) bool { return len(pods) >= 2 })
	if err != nil {
		t.Fatalf("%v\n%s", err, kubectl(t, "-n", access.Namespace, "get", "events"))
	}
}

// uninstall takes an overlay away, so that the next test begins with nothing.
func uninstall(t *testing.T, overlay string) {
	t.Cleanup(func() {
		_, err := command(context.Background(), shared.Kubectl(), "delete", "--wait", "--timeout=60s", "-k", "manifests/overlays/"+overlay)
		if err != nil {
			t.Log(err)
		}
	})
}

// launch runs orphand as the Deployment would, as the overlay's service account,
// and returns when its caches are filled and it leads.
func launch(t *testing.T, kubeconfig string, flags ...string) *daemon.Daemon {
	t.Helper()
	d, err := daemon.Launch(t.Context(), shared, daemon.Options{Program: program, Kubeconfig: kubeconfig, Flags: append(arguments(t)[1:], flags...)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Stop() })
	for _, code := range []signals.Code{signals.CachesSynced, signals.LeadershipChanged} {
		if _, err := d.Await(t.Context(), daemon.Code(code)); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func TestTheObserveOverlayIsAllThatAWholeJobNeeds(t *testing.T) {
	apply(t, "observe")
	uninstall(t, "observe")
	r := record(t)
	d := launch(t, account(t, r.server.URL, r.ca()))

	job, err := shared.SubmitTrainJob(t.Context(), cluster.TrainJobSpec{Name: "whole"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := shared.WaitRunning(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	if err := shared.DeleteTrainJob(t.Context(), job, metav1.DeletePropagationBackground); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Await(t.Context(), daemon.Over(job.UID)); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "wait", "--for=condition=Settled", "--timeout=30s", "orphan/"+daemon.RecordName(job))
	kubectl(t, "wait", "--for=condition=Cleared", "--timeout=60s", "orphan/"+daemon.RecordName(job))
	if status, text, err := d.Get(t.Context(), "/readyz?verbose"); err != nil || status != 200 {
		t.Errorf("%d %v\n%s", status, err, text)
	}
	if lies := d.Judge().Lies(); len(lies) > 0 {
		t.Error(lies)
	}
	if used, err := d.Usage(); err == nil {
		t.Logf("%d MiB resident, %d MiB at most, %v of CPU", used.ResidentBytes>>20, used.PeakBytes>>20, used.CPU)
	}
	if err := d.Stop(); err != nil {
		t.Error(err)
	}
	allInRoles(t, r, access.ForMode("observe", true))
	for c := range r.calls {
		if c.verb == "delete" && c.group != "orphand.dev" {
			t.Errorf("observing, it deleted %+v", c)
		}
	}
}

func TestTheEnforceOverlayIsAllThatDeletingNeeds(t *testing.T) {
	apply(t, "enforce")
	uninstall(t, "enforce")
	// Without its garbage collector, Kubernetes leaves everything to orphand.
	// (The migrator refuses to start without it.)
	restart(t, "--enable-garbage-collector=false", "--controllers=*,-storage-version-migrator-controller")
	t.Cleanup(func() { restart(t) })
	r := record(t)
	d := launch(t, account(t, r.server.URL, r.ca()), "--gc-grace=1s")
	if _, err := d.Await(t.Context(), daemon.Line("the mode to be enforce", func(e daemon.Event) bool {
		return e.Code == signals.ModeChanged && e.State == "enforce"
	})); err != nil {
		t.Fatal(err)
	}

	job, err := shared.SubmitTrainJob(t.Context(), cluster.TrainJobSpec{Name: "left", Nodes: 2})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := shared.WaitRunning(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	if err := shared.DeleteTrainJob(t.Context(), job, metav1.DeletePropagationBackground); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Await(t.Context(), daemon.Job(job.UID, "Cleared")); err != nil {
		t.Fatal(err)
	}
	if err := shared.WaitGone(t.Context(), cluster.JobSets, job.Namespace, job.Name); err != nil {
		t.Error(err)
	}
	if lies := d.Judge().Lies(); len(lies) > 0 {
		t.Error(lies)
	}
	if err := d.Stop(); err != nil {
		t.Error(err)
	}
	allInRoles(t, r, access.ForMode("enforce", true))
}

// The policy is the manifest's own, but for its times, and for its being tried out.
func TestTheRetentionOverlayIsAllThatCleaningUpNeeds(t *testing.T) {
	apply(t, "retention")
	uninstall(t, "retention")
	policy, err := shared.Client().CoreV1().ConfigMaps(access.Namespace).Get(t.Context(), "orphand-retention", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	text := policy.Data["policy.yaml"]
	for from, to := range map[string]string{"dryRun: true": "dryRun: false", "succeeded: 3d": "succeeded: 1s", "min: 1h": "min: 0s"} {
		if !strings.Contains(text, from) {
			t.Fatalf("no %q in the policy\n%s", from, text)
		}
		text = strings.Replace(text, from, to, 1)
	}
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := record(t)
	kubeconfig := account(t, r.server.URL, r.ca())
	if found, code, text := check(t, kubeconfig, "--mode=enforce", "--leader-elect", "--retention-policy="+file); code != 0 || !found.Complete {
		t.Errorf("check: exit %d\n%s", code, text)
	}
	d := launch(t, kubeconfig, "--retention-policy="+file)
	job, err := shared.SubmitTrainJob(t.Context(), cluster.TrainJobSpec{Name: "done", Command: []string{"true"}})
	if err != nil {
		t.Fatal(err)
	}
	gone, err := d.Await(t.Context(), daemon.Line("the policy to delete the job", func(e daemon.Event) bool {
		return e.Code == signals.RetentionDeleted && e.JobUID == job.UID
	}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Await(t.Context(), daemon.Job(job.UID, "Cleared").After(gone)); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "-n", access.Namespace, "wait", "--for=create", "--timeout=60s", "configmap/orphand-removals")
	if lies := d.Judge().Lies(); len(lies) > 0 {
		t.Error(lies)
	}
	if err := d.Stop(); err != nil {
		t.Error(err)
	}
	// What check asks is the account's own, and not the daemon's.
	r.mu.Lock()
	for c := range r.calls {
		if c.resource == "selfsubjectreviews" {
			delete(r.calls, c)
		}
	}
	r.mu.Unlock()
	allInRoles(t, r, append(access.ForMode("enforce", true), access.Retention, access.Memory))
}

// allInRoles fails for a call that is in none of the features' roles, and for one
// that was forbidden.
func allInRoles(t *testing.T, r *recorder, features []access.Feature) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := 0
	for c, n := range r.calls {
		calls += n
		if r.forbidden[c] {
			t.Errorf("forbidden: %+v", c)
		}
		if !inTable(c, features) {
			t.Errorf("in no role: %+v", c)
		}
	}
	t.Logf("%d calls of %d sorts", calls, len(r.calls))
}

// restart starts the controller manager anew, with further flags.
func restart(t *testing.T, flags ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := shared.StopComponent(cluster.ControllerManager); err != nil {
		t.Fatal(err)
	}
	if err := shared.StartComponent(ctx, cluster.ControllerManager, flags...); err != nil {
		t.Fatal(err)
	}
}
