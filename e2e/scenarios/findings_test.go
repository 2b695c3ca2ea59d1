package scenarios_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/orphand/orphand/e2e/cluster"
	"github.com/orphand/orphand/e2e/daemon"
	"github.com/orphand/orphand/pkg/signals"
)

// Trainer's webhook refuses to lift the finalizer of a TrainJob whose runtime went
// with it: kubeflow/trainer#4203.
func TestAForegroundDeletionThatTheWebhookWedgesIsFoundWithItsCure(t *testing.T) {
	t.Parallel()
	s := open(t)
	job, pods := s.run(cluster.TrainJobSpec{Name: "stuck", On: []string{s.node("stuck-0").Name}})
	runtimes := s.c.Dynamic().Resource(cluster.TrainingRuntimes).Namespace(job.Namespace)
	runtime, err := runtimes.Get(t.Context(), job.Name, metav1.GetOptions{})
	s.ok(err)
	s.ok(s.c.DeleteTrainJob(t.Context(), job, metav1.DeletePropagationForeground))
	s.hears(daemon.Job(job.UID, "Deleting"))
	s.says(pods[0], "Gone", "KubeletConfirmed")
	s.gone(cluster.TrainingRuntimes, job.Namespace, job.Name)
	found := s.hears(daemon.Found(signals.ForegroundWedged, job.UID))
	for _, word := range []string{"webhook", "TrainingRuntime stuck", "orphand unwedge"} {
		if !strings.Contains(found.Message, word) {
			t.Errorf("the finding does not name %q: %s", word, found.Message)
		}
	}
	s.notSettled(s.d, job)
	s.record(job, func(o *unstructured.Unstructured) bool {
		return o != nil && strings.Contains(fmt.Sprint(o.Object["status"]), string(signals.ForegroundWedged))
	})

	// The cure: a runtime of that name whose pods can never be scheduled.
	s.ok(createAgain(t, s, runtime))
	s.gone(cluster.TrainJobs, job.Namespace, job.Name)
	s.hears(over(signals.ForegroundWedged, job))
	s.settles(job)
	for _, e := range s.d.Events() {
		if e.JobUID == job.UID && e.Finding == string(signals.ReExecution) {
			t.Errorf("nothing ran again: %s", e.Line)
		}
	}
	s.ok(runtimes.Delete(t.Context(), job.Name, metav1.DeleteOptions{}))
}

// createAgain creates a runtime that was there before, with pods that wait for a
// gate that nobody opens.
func createAgain(t *testing.T, s *scene, runtime *unstructured.Unstructured) error {
	again := &unstructured.Unstructured{Object: map[string]any{"apiVersion": runtime.GetAPIVersion(), "kind": runtime.GetKind(), "spec": runtime.Object["spec"]}}
	again.SetName(runtime.GetName())
	again.SetLabels(runtime.GetLabels())
	jobs, _, _ := unstructured.NestedSlice(again.Object, "spec", "template", "spec", "replicatedJobs")
	for _, j := range jobs {
		err := unstructured.SetNestedSlice(j.(map[string]any), []any{map[string]any{"name": "orphand.dev/inert"}},
			"template", "spec", "template", "spec", "schedulingGates")
		if err != nil {
			return err
		}
	}
	if err := unstructured.SetNestedSlice(again.Object, jobs, "spec", "template", "spec", "replicatedJobs"); err != nil {
		return err
	}
	_, err := s.c.Dynamic().Resource(cluster.TrainingRuntimes).Namespace(runtime.GetNamespace()).Create(t.Context(), again, metav1.CreateOptions{})
	return err
}

// over wants a finding of a job to end.
func over(finding signals.Finding, job cluster.TrainJob) daemon.Want {
	return daemon.Line("the end of the finding "+string(finding), func(e daemon.Event) bool {
		return e.Finding == string(finding) && e.JobUID == job.UID && e.Phase == string(signals.Ended)
	})
}

// Trainer never looks at a deletionTimestamp: for as long as a suspended TrainJob is
// held, it makes a new JobSet each time somebody deletes one.
func TestASuspendedTrainJobWhoseJobSetIsMadeAgainAndAgainIsFoundWithTheCount(t *testing.T) {
	t.Parallel()
	s := open(t)
	job, err := s.c.SubmitTrainJob(t.Context(), cluster.TrainJobSpec{Name: "recreated", Suspend: true, Runtime: cluster.ClusterRuntime,
		Edit: func(job, _ *unstructured.Unstructured) { job.SetFinalizers([]string{"example.com/hold"}) }})
	s.ok(err)
	seen := map[types.UID]bool{}
	nextJobSet := func() types.UID {
		o, err := s.c.WaitObject(t.Context(), cluster.JobSets, job.Namespace, job.Name, func(o *unstructured.Unstructured) bool {
			return o != nil && o.GetDeletionTimestamp() == nil && !seen[o.GetUID()]
		})
		s.ok(err)
		seen[o.GetUID()] = true
		return o.GetUID()
	}
	first := nextJobSet()
	s.ok(s.c.DeleteTrainJob(t.Context(), job, metav1.DeletePropagationBackground))
	s.hears(daemon.Job(job.UID, "Deleting"))
	// By hand, since the garbage collector of a foreground deletion stops at the first
	// look that comes before Trainer's next JobSet.
	for uid, n := first, 1; n < 3; n++ {
		s.ok(s.c.Dynamic().Resource(cluster.JobSets).Namespace(job.Namespace).Delete(t.Context(), job.Name,
			metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(uid)), PropagationPolicy: new(metav1.DeletePropagationBackground)}))
		uid = nextJobSet()
	}
	found := s.hears(daemon.Found(signals.RecreateLoop, job.UID))
	t.Logf("%s (count %d)", found.Message, found.Count)
	if found.Count < 3 {
		t.Errorf("the finding counts %d JobSets, want 3 at least: %s", found.Count, found.Line)
	}
	trainJobs := s.c.Dynamic().Resource(cluster.TrainJobs).Namespace(job.Namespace)
	s.ok(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		o, err := trainJobs.Get(t.Context(), job.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		o.SetFinalizers(nil)
		_, err = trainJobs.Update(t.Context(), o, metav1.UpdateOptions{})
		return err
	}))
	s.gone(cluster.TrainJobs, job.Namespace, job.Name)
	s.settles(job)
}

// An adapter that died before it set the owner leaves a runtime that keeps Trainer
// from accepting the next TrainJob of the name: the job is Settled, and not Cleared.
func TestARuntimeThatNobodyEverOwnedIsFound(t *testing.T) {
	t.Parallel()
	s := open(t)
	const user = "adapter"
	_, err := s.c.UserWithRules(t.Context(), user, daemon.Without(daemon.Without(daemon.Permissions(), "orphans"), "orphans/status"))
	s.ok(err)
	d := s.also(daemon.Options{User: user, Flags: []string{"--runtime-copy-labels=app=adapter", "--runtime-copy-grace=5s"}})
	s.hearsFrom(d, daemon.Code(signals.CachesSynced))
	job, pods := s.run(cluster.TrainJobSpec{Name: "unowned", On: []string{s.node("unowned-0").Name},
		Runtime: cluster.UnownedRuntime, Labels: map[string]string{"app": "adapter"}})
	s.delete(job)
	s.hearsFrom(d, daemon.Pod(pods[0].UID, "Gone", "KubeletConfirmed"))
	s.hearsFrom(d, daemon.Over(job.UID))
	found := s.hearsFrom(d, daemon.Line("the finding NeverOwnedRuntime", func(e daemon.Event) bool {
		return e.Finding == string(signals.NeverOwnedRuntime) && strings.Contains(e.Line, "unowned")
	}))
	if !strings.Contains(found.Message, "default/trainingruntime/unowned") {
		t.Errorf("the finding does not name the reference: %s", found.Message)
	}
	if state := d.State(job.UID); state != "Settled" {
		t.Errorf("the job is %s while its runtime is left, want Settled", state)
	}
	s.ok(s.c.Dynamic().Resource(cluster.TrainingRuntimes).Namespace(job.Namespace).Delete(t.Context(), job.Name, metav1.DeleteOptions{}))
	s.hearsFrom(d, daemon.Job(job.UID, "Cleared"))
}
