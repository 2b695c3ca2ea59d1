package install_test

import (
	"context"
	"maps"
	"slices"
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
	compare(t, r, access.ForMode("observe", true), seldom())
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
	excused := seldom()
	excused["delete secrets"] = "this job has no MPI or Flux keys"
	excused["delete podgroups.scheduling.x-k8s.io"] = "not installed here"
	excused["delete podgroups.scheduling.volcano.sh"] = "not installed here"
	compare(t, r, access.ForMode("enforce", true), excused)
}

// seldom are the calls that a plain job needs not make, each with why it is in the
// table all the same.
func seldom() map[string]string {
	const streamed = "a watch brings what a list would; without it, or after a gap, client-go lists"
	return map[string]string{
		"get pods":                    "only a pod that leaves the watch without a deletionTimestamp is read live",
		"get nodes":                   "only evidence from a node is worth a live read, and here the kubelet confirmed",
		"get jobsets.jobset.x-k8s.io": "only a JobSet that leaves the cache without a word is read live",
		"delete orphans.orphand.dev":  "a record is deleted an hour after its job settled",
		"create orphans.orphand.dev":  "asked for by the API server itself when an apply makes a record: see TestWithoutCreateNoRecordIsMade",

		"create events.events.k8s.io": "only a finding is told as an Event",
		"patch events.events.k8s.io":  "only a finding that is told again",

		"list trainjobs.trainer.kubeflow.org":        streamed,
		"list trainingruntimes.trainer.kubeflow.org": streamed,
		"list jobsets.jobset.x-k8s.io":               streamed,
		"list jobs.batch":                            streamed,
		"list pods":                                  streamed,
		"list nodes":                                 streamed,
		"list orphans.orphand.dev":                   streamed,
	}
}

// compare fails for a call that is not in the table, for one that was forbidden,
// and for one in the table that was not made and is not excused.
func compare(t *testing.T, r *recorder, features []access.Feature, excused map[string]string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	made := map[string]int{}
	for c, n := range r.calls {
		if r.forbidden[c] {
			t.Errorf("forbidden: %+v", c)
		}
		found := slices.ContainsFunc(access.Of(features...), func(a access.Call) bool {
			return a.Group == c.group && a.Resource == c.resource && slices.Contains(a.Verbs, c.verb) && (a.Name == "" || a.Name == c.name)
		})
		if !found {
			t.Errorf("not in the table: %+v", c)
		}
		made[c.verb+" "+access.Call{Group: c.group, Resource: c.resource}.String()] += n
	}
	for _, a := range access.Of(features...) {
		for _, verb := range a.Verbs {
			a.Name = ""
			key := verb + " " + a.String()
			if _, ok := excused[key]; made[key] == 0 && !ok {
				t.Errorf("in the table, but never made: %s", key)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(made)) {
		t.Logf("%4d  %s", made[key], key)
	}
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
