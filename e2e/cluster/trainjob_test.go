package cluster_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/orphand/orphand/e2e/cluster"
)

func TestWebhooksRefuseBadTrainJob(t *testing.T) {
	t.Parallel()
	_, err := shared.SubmitTrainJob(t.Context(), cluster.TrainJobSpec{
		Name: "no-runtime",
		Edit: func(job, _ *unstructured.Unstructured) {
			must(t, unstructured.SetNestedField(job.Object, "missing", "spec", "runtimeRef", "name"))
		},
	})
	if err == nil || !strings.Contains(err.Error(), `admission webhook "validator.trainjob.trainer.kubeflow.org" denied`) {
		t.Errorf("a TrainJob without runtime: got %v, want Trainer's webhook to refuse it", err)
	}
}

func TestTruthFollowsPod(t *testing.T) {
	t.Parallel()
	a, b := newNode(t, "truth-a"), newNode(t, "truth-b")
	began := time.Now()
	job, pods := runJob(t, cluster.TrainJobSpec{Name: "truth", Nodes: 2, On: []string{a.Name, b.Name}})
	t.Logf("TrainJob created to %d pods running: %s", len(pods), time.Since(began))
	if pods[0].Spec.NodeName == pods[1].Spec.NodeName {
		t.Errorf("both pods are on %s, want one on each node", pods[0].Spec.NodeName)
	}
	for _, p := range pods {
		live := shared.Truth().OfPod(p.UID)
		if len(live) != 1 {
			t.Fatalf("pod %s: %d live processes, want 1:\n%s", p.Name, len(live), live)
		}
		got := live[0]
		if got.Pod.Name != p.Name || got.Pod.Namespace != p.Namespace || got.Container != "node" ||
			got.Node != p.Spec.NodeName || got.Machine != p.Spec.NodeName || !got.Leader || got.Command != "sleep infinity" {
			t.Errorf("process of pod %s on %s: %+v", p.Name, p.Spec.NodeName, got)
		}
	}

	began = time.Now()
	must(t, shared.DeleteTrainJob(t.Context(), job, metav1.DeletePropagationBackground))
	last, err := shared.WaitPod(t.Context(), cluster.PodSelector{Namespace: job.Namespace, Name: pods[0].Name}, func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodFailed
	})
	if err != nil {
		t.Fatal(err)
	}
	if code := exitCode(last); code != 143 {
		t.Errorf("exit code after SIGTERM: %d, want 143", code)
	}
	must(t, shared.WaitPods(t.Context(), cluster.PodsOf(job), func(p []*corev1.Pod) bool { return len(p) == 0 }))
	t.Logf("deleted to pods gone: %s", time.Since(began))
	for _, p := range pods {
		if shared.Truth().Alive(p.UID) {
			t.Errorf("pod %s is gone, its kubelet confirmed, and a process lives:\n%s", p.Name, shared.Truth())
		}
	}
	must(t, shared.WaitGone(t.Context(), cluster.TrainingRuntimes, job.Namespace, job.Name))
	checkWrites(t, job, pods[0])
}

// checkWrites looks at who deleted what, and how, in the audit log.
func checkWrites(t *testing.T, job cluster.TrainJob, pod *corev1.Pod) {
	t.Helper()
	writes, err := shared.Writes()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(writes, func(w cluster.Write) bool {
		return w.Verb == "delete" && w.Resource == "trainjobs" && w.Name == job.Name
	})
	if i < 0 {
		t.Fatal("the audit log has no delete of the TrainJob")
	}
	w := writes[i]
	if w.User != "admin" || w.Code != 200 || w.Options == nil || w.Options.PropagationPolicy == nil ||
		*w.Options.PropagationPolicy != metav1.DeletePropagationBackground ||
		w.Options.Preconditions == nil || *w.Options.Preconditions.UID != job.UID {
		t.Errorf("delete of the TrainJob in the audit log: %+v, options %+v", w, w.Options)
	}
	kubelet := "system:node:" + pod.Spec.NodeName
	if !slices.ContainsFunc(writes, func(w cluster.Write) bool {
		return w.Verb == "delete" && w.Resource == "pods" && w.Name == pod.Name && w.User == kubelet
	}) {
		t.Errorf("the audit log has no delete of pod %s by its kubelet", pod.Name)
	}
}

func TestIgnoredSIGTERMLastsForTheGrace(t *testing.T) {
	t.Parallel()
	n := newNode(t, "deaf")
	job, pods := runJob(t, cluster.TrainJobSpec{
		Name: "deaf", On: []string{n.Name}, IgnoreSIGTERM: true, GraceSeconds: ptr.To[int64](2), Runtime: cluster.ClusterRuntime,
	})
	began := time.Now()
	must(t, shared.DeleteTrainJob(t.Context(), job, metav1.DeletePropagationBackground))
	_, err := shared.WaitTruth(t.Context(), func(now cluster.Truth) bool { return !now.Alive(pods[0].UID) })
	must(t, err)
	if took := time.Since(began); took < 2*time.Second {
		t.Errorf("a process deaf to SIGTERM went after %s, with a grace of 2s", took)
	}
	last, err := shared.WaitPod(t.Context(), cluster.PodsOf(job), func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	if err != nil {
		t.Fatal(err)
	}
	if code := exitCode(last); code != 137 {
		t.Errorf("exit code after SIGKILL: %d, want 137", code)
	}
}

func TestForceDeleteForgetsALiveProcess(t *testing.T) {
	t.Parallel()
	n := newNode(t, "forced")
	job, pods := runJob(t, cluster.TrainJobSpec{Name: "forced", On: []string{n.Name}, Command: []string{"sh", "-c", "sleep 1000 & wait"}})
	must(t, n.CutOff())
	must(t, shared.DeleteTrainJob(t.Context(), job, metav1.DeletePropagationBackground))
	must(t, shared.ForceDeletePod(t.Context(), pods[0]))
	must(t, shared.WaitGone(t.Context(), cluster.Pods, job.Namespace, pods[0].Name))
	if live := shared.Truth().OfPod(pods[0].UID); len(live) != 2 {
		t.Errorf("the shell and its child should live on the frozen node; live:\n%s", live)
	}
	must(t, n.BringBack())
	_, err := shared.WaitTruth(t.Context(), func(now cluster.Truth) bool { return !now.Alive(pods[0].UID) })
	must(t, err)
}

func exitCode(p *corev1.Pod) int32 {
	for _, s := range p.Status.ContainerStatuses {
		if s.State.Terminated != nil {
			return s.State.Terminated.ExitCode
		}
	}
	return -1
}
