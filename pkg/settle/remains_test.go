package settle_test

import (
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

// A job is cleared without any further event when the last thing to happen is that its pod, whose object went long
// before, is proven gone.
func TestAJobWhoseLastPodIsProvenLateIsCleared(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := stage.New(start)
	var states []string
	d := s.Daemon(stage.Config{Sink: signals.SinkFunc(func(e signals.Event) {
		if e.Code == signals.JobStateChanged {
			states = append(states, e.State)
		}
	})})
	yes := true
	tj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
		"metadata": map[string]any{"namespace": "team-a", "name": "tj", "uid": "T1"}}}
	js := &jobset.JobSet{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "tj", UID: "J1", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "trainer.kubeflow.org/v1alpha1", Kind: facts.KindTrainJob, Name: "tj", UID: "T1", Controller: &yes}}}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "N1"}, Status: corev1.NodeStatus{
		NodeInfo:   corev1.NodeSystemInfo{SystemUUID: "s1", MachineID: "m1", BootID: "b1"},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}}}
	at := metav1.NewTime(start.Add(31 * time.Second))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "p1", UID: "P1", DeletionTimestamp: &at,
		Labels: map[string]string{facts.LabelJobSetName: "tj", facts.LabelJobSetUID: "J1"}},
		Spec: corev1.PodSpec{NodeName: "n1"}}
	for _, o := range []stage.Object{tj, js, node, pod} {
		if err := s.API.Put(o, stage.Delivery{}); err != nil {
			t.Fatal(err)
		}
	}
	s.Loop.RunUntil(start)
	d.Start()
	for i, o := range []stage.Object{tj, js, pod, node} {
		s.Loop.At(start.Add(time.Duration(i+1)*time.Second), func() { _ = s.API.Remove(o, stage.Delivery{}) })
	}
	s.Loop.RunUntil(start.Add(10 * time.Minute))
	if n := len(states); n == 0 || states[n-1] != "Cleared" {
		t.Errorf("the job went through %v", states)
	}
}
