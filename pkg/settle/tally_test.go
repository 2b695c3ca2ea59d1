package settle_test

import (
	"testing"
	"time"

	"github.com/orphand/orphand/internal/stage"
	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/settle"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// One pod is proven gone before each restart, and one after the last.
func TestTheRecordCountsEveryPodOnceOverRestarts(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := stage.New(start)
	records := stage.NewRecords()
	d := s.Daemon(stage.Config{Build: stage.Recorded(settle.Defaults(), records)})
	d.Lead(true)
	yes := true
	put := func(o stage.Object) {
		if err := s.API.Put(o, stage.Delivery{}); err != nil {
			t.Fatal(err)
		}
	}
	tj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
		"metadata": map[string]any{"namespace": "team-a", "name": "tj", "uid": "11111111-T1"}}}
	js := &jobset.JobSet{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "tj", UID: "J1", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "trainer.kubeflow.org/v1alpha1", Kind: facts.KindTrainJob, Name: "tj", UID: "11111111-T1", Controller: &yes}}}}
	put(tj)
	put(js)
	put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "N1"}, Status: corev1.NodeStatus{
		NodeInfo:   corev1.NodeSystemInfo{SystemUUID: "s1", MachineID: "m1", BootID: "b1"},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}})
	var pods []*corev1.Pod
	for _, name := range []string{"p1", "p2", "p3"} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: name, UID: types.UID(name),
			Labels: map[string]string{facts.LabelJobSetName: "tj", facts.LabelJobSetUID: "J1"}},
			Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "c"}}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
				Name: "c", ContainerID: "containerd://" + name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}}
		pods = append(pods, p)
		put(p)
	}
	s.Loop.RunUntil(start)
	d.Start()
	at := start
	after := func(do func()) {
		at = at.Add(10 * time.Second)
		s.Loop.At(at, do)
	}
	after(func() { _ = s.API.Remove(tj, stage.Delivery{}); _ = s.API.Remove(js, stage.Delivery{}) })
	for i, p := range pods {
		after(func() {
			asked := metav1.NewTime(at)
			p.DeletionTimestamp = &asked
			p.Status.Phase = corev1.PodFailed
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ContainerID: "containerd://" + p.Name, ExitCode: 143}}
			put(p.DeepCopy())
		})
		if i != 1 { // the second one's object is still there after the restart
			after(func() { _ = s.API.Remove(p, stage.Delivery{}) })
		}
		if i < 2 {
			after(d.Restart)
		}
	}
	s.Loop.RunUntil(at.Add(time.Minute))
	list := records.List()
	if len(list) != 1 {
		t.Fatalf("%d records", len(list))
	}
	status := list[0].Status
	if status.Pods.Total != 3 || status.Pods.Gone != 3 {
		t.Errorf("the record counts %+v, want 3 pods, all gone", status.Pods)
	}
	counted := 0
	for _, e := range status.Evidence {
		counted += int(e.Count)
	}
	if counted != 3 {
		t.Errorf("evidence for %d pods, want 3: %+v", counted, status.Evidence)
	}
}
