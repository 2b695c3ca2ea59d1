package settle_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/orphand/orphand/internal/stage"
	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/signals"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// Whoever may not read Nodes cannot prove anything, and must not accuse anyone of force either.
func TestAConfirmedPodIsNoForcedRemovalToWhoeverMayNotReadNodes(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := stage.New(start)
	var said []string
	d := s.Daemon(stage.Config{Sink: signals.SinkFunc(func(e signals.Event) {
		switch {
		case e.Finding != "":
			said = append(said, string(e.Finding))
		case e.Code == signals.PodVerdictChanged:
			said = append(said, e.Verdict+"/"+e.Reason)
		}
	})})
	yes := true
	tj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
		"metadata": map[string]any{"namespace": "team-a", "name": "tj", "uid": "T1"}}}
	js := &jobset.JobSet{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "tj", UID: "J1", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "trainer.kubeflow.org/v1alpha1", Kind: facts.KindTrainJob, Name: "tj", UID: "T1", Controller: &yes}}}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "N1"}, Status: corev1.NodeStatus{
		NodeInfo:   corev1.NodeSystemInfo{SystemUUID: "s1", MachineID: "m1", BootID: "b1"},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
	at := metav1.NewTime(start.Add(31 * time.Second))
	running := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "p1", UID: "P1",
		Labels: map[string]string{facts.LabelJobSetName: "tj", facts.LabelJobSetUID: "J1"}},
		Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "c"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "c", ContainerID: "containerd://1", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}}
	ended := running.DeepCopy()
	ended.DeletionTimestamp = &at
	ended.Status.Phase = corev1.PodFailed
	ended.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 143, ContainerID: "containerd://1"}}
	forbidden := stage.Fault{Kind: facts.KindNode, Code: http.StatusForbidden, Times: -1}
	s.API.Fail(forbidden)
	for _, o := range []stage.Object{tj, js, node} {
		if err := s.API.Put(o, stage.Delivery{}); err != nil {
			t.Fatal(err)
		}
	}
	s.Loop.RunUntil(start)
	d.Start()
	after := func(seconds int, do func()) { s.Loop.At(start.Add(time.Duration(seconds)*time.Second), do) }
	after(1, func() { _ = s.API.Put(running, stage.Delivery{}) })
	for _, o := range []stage.Object{tj, js} {
		after(2, func() { _ = s.API.Remove(o, stage.Delivery{}) })
	}
	after(3, func() { _ = s.API.Put(ended, stage.Delivery{}) })
	after(4, func() { _ = s.API.Remove(ended, stage.Delivery{}) })
	after(60, func() { s.API.Lift(forbidden) })
	s.Loop.RunUntil(start.Add(5 * time.Minute))
	if slices.Contains(said, string(signals.ForcedRemoval)) {
		t.Errorf("nobody removed the pod by force; said: %v", said)
	}
	if last := said[len(said)-1]; last != "Gone/KubeletConfirmed" {
		t.Errorf("when Nodes may be read at last, the pod is %s; said: %v", last, said)
	}
}
