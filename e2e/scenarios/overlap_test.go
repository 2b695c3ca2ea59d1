package scenarios_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/orphand/orphand/e2e/cluster"
	"github.com/orphand/orphand/e2e/daemon"
	"github.com/orphand/orphand/pkg/signals"
)

// leavesAfter makes the pods of a TrainJob tolerate an unreachable node for some
// seconds only, where Kubernetes gives them five minutes.
func leavesAfter(seconds int64) func(job, runtime *unstructured.Unstructured) {
	return func(_, runtime *unstructured.Unstructured) {
		jobs, _, _ := unstructured.NestedSlice(runtime.Object, "spec", "template", "spec", "replicatedJobs")
		for _, j := range jobs {
			_ = unstructured.SetNestedSlice(j.(map[string]any), []any{map[string]any{
				"key": corev1.TaintNodeUnreachable, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds,
			}}, "template", "spec", "template", "spec", "tolerations")
		}
		_ = unstructured.SetNestedSlice(runtime.Object, jobs, "spec", "template", "spec", "replicatedJobs")
	}
}

// The Job controller starts a rank anew while the process of the evicted pod runs
// on, where nobody can reach it: two executions, in a job that nobody has deleted.
func TestAnEvictedRankThatStartsAgainBesideItsOldProcessIsAnOverlapWithinASecond(t *testing.T) {
	t.Parallel()
	s := open(t)
	far, near := s.node("evicts-0"), s.node("evicts-1")
	s.ok(near.Taint(t.Context(), corev1.Taint{Key: "not-yet", Effect: corev1.TaintEffectNoSchedule}))
	spec := cluster.TrainJobSpec{Name: "evicts", Nodes: 1, On: []string{far.Name, near.Name}, Edit: leavesAfter(2)}
	job, err := s.c.SubmitTrainJob(t.Context(), spec)
	s.ok(err)
	pods, err := s.c.WaitRunning(t.Context(), job)
	s.ok(err)
	old := pods[0]
	s.ok(near.Untaint(t.Context(), "not-yet"))
	s.cutOff(far)

	next, err := s.c.WaitPod(t.Context(), cluster.PodsOf(job), func(p *corev1.Pod) bool { return p.UID != old.UID && p.Spec.NodeName != "" })
	s.ok(err)
	bound := time.Now()
	overlap := s.hears(daemon.Found(signals.Overlap, job.UID))
	t.Logf("said %s after the replacement was bound", overlap.At.Sub(bound))
	if overlap.At.After(bound.Add(time.Second)) {
		t.Errorf("the overlap was said %s after the replacement was bound", overlap.At.Sub(bound))
	}
	for _, name := range []string{old.Name, next.Name, far.Name, near.Name} {
		if !strings.Contains(overlap.Message, name) {
			t.Errorf("the overlap does not name %s: %s", name, overlap.Message)
		}
	}
	_, err = s.c.WaitTruth(t.Context(), func(now cluster.Truth) bool { return now.Alive(old.UID) && now.Alive(next.UID) })
	s.ok(err) // it is true: two executions of one rank

	s.ok(far.BringBack())
	s.says(old, "Gone", "KubeletConfirmed")
	s.hears(daemon.Line("the overlap is over", func(e daemon.Event) bool {
		return e.Finding == string(signals.Overlap) && e.JobUID == job.UID && e.Phase == string(signals.Ended)
	}))
	s.delete(job)
	s.settles(job)
}
