package stage_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/orphand/orphand/internal/stage"
	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/signals"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func trainJob(uid string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
		"metadata": map[string]any{"namespace": "team-a", "name": "tj", "uid": uid},
	}}
}

func jobSet(uid, owner string) *jobset.JobSet {
	yes := true
	return &jobset.JobSet{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "tj", UID: types.UID(uid), OwnerReferences: []metav1.OwnerReference{{
		APIVersion: "trainer.kubeflow.org/v1alpha1", Kind: "TrainJob", Name: "tj", UID: types.UID(owner), Controller: &yes}}}}
}

func node(uid string, ready corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: types.UID(uid)}, Status: corev1.NodeStatus{
		NodeInfo:   corev1.NodeSystemInfo{SystemUUID: "s1", MachineID: "m1", BootID: "b1"},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}},
	}}
}

func pod(uid string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "p1", UID: types.UID(uid), Labels: map[string]string{
			facts.LabelJobSetName: "tj", facts.LabelJobSetUID: "J1"}},
		Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "c"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(start.Add(-time.Minute))}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "c", ContainerID: "containerd://1",
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(start.Add(-time.Minute))}}}}},
	}
}

func ended(p *corev1.Pod) *corev1.Pod {
	p = p.DeepCopy()
	p.Status.Phase = corev1.PodFailed
	p.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137}}
	return p
}

func terminating(p *corev1.Pod, at time.Time) *corev1.Pod {
	p = p.DeepCopy()
	t := metav1.NewTime(at)
	p.DeletionTimestamp = &t
	return p
}

// told writes down what a daemon tells of pods and jobs.
type told struct {
	stage *stage.Stage
	lines []string
}

func (t *told) Emit(e signals.Event) {
	switch {
	case e.Finding != "":
		t.add(string(e.Finding) + " " + string(e.Phase))
	case e.Code == signals.PodVerdictChanged:
		t.add(e.Pod + " " + e.Verdict + "/" + e.Reason)
	case e.Code == signals.JobStateChanged:
		t.add(e.State)
	}
}

func (t *told) add(what string) {
	t.lines = append(t.lines, fmt.Sprintf("%s %s", t.stage.Loop.Now().Sub(start), what))
}

type play struct {
	*stage.Stage
	daemon *stage.Daemon
	told   *told
}

func newPlay() *play {
	s := stage.New(start)
	t := &told{stage: s}
	return &play{Stage: s, told: t, daemon: s.Daemon(stage.Config{Sink: t})}
}

func (p *play) put(t *testing.T, at time.Duration, o stage.Object, d stage.Delivery) {
	t.Helper()
	p.Loop.At(start.Add(at), func() {
		if err := p.API.Put(o, d); err != nil {
			t.Error(err)
		}
	})
}

func (p *play) remove(t *testing.T, at time.Duration, o stage.Object, d stage.Delivery) {
	t.Helper()
	p.Loop.At(start.Add(at), func() {
		if err := p.API.Remove(o, d); err != nil {
			t.Error(err)
		}
	})
}

func (p *play) until(t *testing.T, at time.Duration, want ...string) {
	t.Helper()
	p.Loop.RunUntil(start.Add(at))
	if got := strings.Join(p.told.lines, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("by %s the daemon told\n%s\nand not\n%s", at, got, strings.Join(want, "\n"))
	}
}

var now = stage.Delivery{}

func (p *play) running(t *testing.T) {
	t.Helper()
	p.put(t, 0, trainJob("T1"), now)
	p.put(t, 0, jobSet("J1", "T1"), now)
	p.put(t, 0, node("N1", corev1.ConditionTrue), now)
	p.put(t, 0, pod("P1"), now)
	p.Loop.RunUntil(start)
	p.daemon.Start()
}

func (p *play) stopped(t *testing.T) {
	t.Helper()
	p.remove(t, time.Second, trainJob("T1"), now)
	p.remove(t, time.Second, jobSet("J1", "T1"), now)
	p.put(t, time.Second, terminating(pod("P1"), start.Add(31*time.Second)), now)
}

func TestJobSettlesWhenItsKubeletConfirms(t *testing.T) {
	p := newPlay()
	p.running(t)
	p.stopped(t)
	p.put(t, 10*time.Second, ended(terminating(pod("P1"), start.Add(31*time.Second))), now)
	p.remove(t, 11*time.Second, ended(terminating(pod("P1"), start.Add(31*time.Second))), now)
	p.until(t, time.Hour,
		"1s p1 Alive/Terminating", "1s Settling",
		"10s p1 Gone/KubeletConfirmed", "10s Settled", "11s Cleared")
}

func TestDeletionThatIsNeverDeliveredIsUnseen(t *testing.T) {
	for _, learn := range []struct {
		name string
		how  func(*play)
	}{
		{"by a relist", func(p *play) { p.daemon.Relist() }},
		{"by a watch that ends", func(p *play) { p.API.Fail(stage.Fault{Verb: "watch", Kind: "Pod", Code: 410, Times: 1}) }},
	} {
		t.Run(learn.name, func(t *testing.T) {
			p := newPlay()
			p.running(t)
			p.stopped(t)
			p.remove(t, 10*time.Second, ended(terminating(pod("P1"), start.Add(31*time.Second))), stage.Delivery{Lost: true})
			p.until(t, time.Minute, "1s p1 Alive/Terminating", "1s Settling")
			learn.how(p)
			p.Loop.RunUntil(start.Add(2 * time.Minute))
			if got := p.told.lines[2:]; len(got) != 2 || !strings.Contains(got[0], "p1 Unproven/RemovedUnseen") || !strings.Contains(got[1], "Unproven") {
				t.Errorf("the daemon told %v", got)
			}
		})
	}
}

func TestRestartForgetsWhatIsGone(t *testing.T) {
	p := newPlay()
	p.running(t)
	p.stopped(t)
	p.Loop.RunUntil(start.Add(5 * time.Second))
	p.daemon.Stop()
	p.remove(t, 10*time.Second, terminating(pod("P1"), start.Add(31*time.Second)), now)
	p.Loop.RunUntil(start.Add(20 * time.Second))
	p.told.lines = nil
	p.daemon.Start()
	p.until(t, time.Minute)
}

func TestNothingIsDecidedBeforeTheListsHaveCome(t *testing.T) {
	p := newPlay()
	p.API.Fail(stage.Fault{Verb: "list", Kind: "JobSet", Code: 500, Times: 3})
	p.running(t)
	p.stopped(t)
	// 0.8 s, 1.6 s and 3.2 s after one another.
	p.until(t, 5*time.Second)
	// The JobSet was gone by then, so the pod is of a job of its own.
	p.until(t, time.Minute, "5.6s Settling", "5.6s p1 Alive/Terminating", "5.6s Settling")
}

func TestAFailedLiveReadIsRepeatedWithGrowingPauses(t *testing.T) {
	p := newPlay()
	p.running(t)
	p.API.Fail(stage.Fault{Verb: "get", Kind: "TrainJob", Code: 500, Times: 3})
	p.remove(t, time.Second, trainJob("T1"), now)
	// 50, 100 and 200 ms after one another.
	p.until(t, 2*time.Second, "1.35s Settling")
}

func TestNodesThatMayNotBeReadProveNothing(t *testing.T) {
	p := newPlay()
	p.API.Fail(stage.Fault{Verb: stage.Any, Kind: "Node", Code: 403, Times: -1})
	p.running(t)
	p.stopped(t)
	p.put(t, 10*time.Second, ended(terminating(pod("P1"), start.Add(31*time.Second))), now)
	p.until(t, time.Minute, "1s Settling")
	p.API.Lift(stage.Fault{Verb: stage.Any, Kind: "Node"})
	// The sixth attempt in a row, 24.8 s after the start, failed; the next is 30 s after the one that followed it.
	p.until(t, 2*time.Minute, "1s Settling", "1m20.4s p1 Gone/KubeletConfirmed", "1m20.4s Settled")
}

func TestAnotherObjectOfTheSameNameIsAnUpdateToTheHandlers(t *testing.T) {
	p := newPlay()
	p.running(t)
	p.put(t, time.Second, trainJob("T2"), now)
	p.Loop.RunUntil(start.Add(time.Minute))
	if got := strings.Join(p.told.lines, "\n"); !strings.Contains(got, "1s Active") || !strings.Contains(got, "Settling") {
		t.Errorf("the daemon told\n%s", got)
	}
}

func TestAPodThatLeavesTheSelectorIsReadLive(t *testing.T) {
	p := newPlay()
	p.running(t)
	p.remove(t, time.Second, trainJob("T1"), now)
	bare := pod("P1")
	bare.Labels = nil
	p.put(t, 2*time.Second, bare, now)
	p.until(t, 20*time.Second, "1s Settling")
	p.remove(t, 20*time.Second, bare, now)
	p.Loop.RunUntil(start.Add(2 * time.Minute))
	if got := strings.Join(p.told.lines, "\n"); !strings.Contains(got, "p1 Unproven/RemovedUnseen") {
		t.Errorf("the daemon told\n%s", got)
	}
}

func TestWritesOfOneObjectNeverOvertakeOneAnother(t *testing.T) {
	p := newPlay()
	p.running(t)
	p.remove(t, time.Second, trainJob("T1"), stage.Delivery{After: 30 * time.Second})
	p.put(t, 2*time.Second, trainJob("T2"), now)
	p.until(t, 30*time.Second)
	p.Loop.RunUntil(start.Add(31 * time.Second))
	if got := strings.Join(p.told.lines, "\n"); !strings.Contains(got, "31s Settling") || !strings.Contains(got, "31s Active") {
		t.Errorf("the daemon told\n%s", got)
	}
}

func TestADeleteRespectsGraceAndPreconditions(t *testing.T) {
	p := newPlay()
	p.running(t)
	p.Loop.RunUntil(start.Add(time.Second))
	uid := func(s string) metav1.DeleteOptions {
		return metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(s)}
	}
	if err := p.API.Delete(stage.Pod, "team-a", "p1", uid("P9")); err == nil {
		t.Error("a delete of another UID was answered")
	}
	if err := p.API.Delete(stage.Pod, "team-a", "p1", uid("P1")); err != nil {
		t.Error(err)
	}
	held := p.API.Get(stage.Pod, "team-a", "p1")
	if at := held.GetDeletionTimestamp(); at == nil || !at.Time.Equal(start.Add(31*time.Second)) {
		t.Errorf("the pod is to go at %v", at)
	}
	if err := p.API.Delete(stage.JobSet, "team-a", "tj", uid("J1")); err != nil {
		t.Error(err)
	}
	if p.API.Get(stage.JobSet, "team-a", "tj") != nil {
		t.Error("the JobSet is there")
	}
	if got := len(p.API.Calls()); got != 3 {
		t.Errorf("%d calls are remembered", got)
	}
}

func TestLatencyLetsOthersHappenMeanwhile(t *testing.T) {
	p := newPlay()
	p.API.Latency = func(verb, _, _, _ string) time.Duration {
		if verb == "get" {
			return 3 * time.Second
		}
		return 0
	}
	p.running(t)
	p.stopped(t)
	// The kubelet confirms while the TrainJob is being read. The pod ran before anybody looked: its node is read as well.
	p.put(t, 2*time.Second, ended(terminating(pod("P1"), start.Add(31*time.Second))), now)
	p.until(t, 9*time.Second, "7s p1 Gone/KubeletConfirmed", "7s Settling", "10s Settled")
}

func BenchmarkLifeOfAJob(b *testing.B) {
	b.ReportAllocs()
	for range b.N {
		s := stage.New(start)
		d := s.Daemon(stage.Config{})
		put := func(o stage.Object) {
			if err := s.API.Put(o, now); err != nil {
				b.Fatal(err)
			}
		}
		put(trainJob("T1"))
		put(jobSet("J1", "T1"))
		put(node("N1", corev1.ConditionTrue))
		d.Start()
		const pods = 30
		name := func(p *corev1.Pod, i int) *corev1.Pod {
			p.Name, p.UID = fmt.Sprintf("p%d", i), types.UID(fmt.Sprintf("P%d", i))
			return p
		}
		for i := range pods {
			put(name(pod(""), i))
			s.Loop.RunUntil(s.Loop.Now().Add(time.Second))
		}
		if err := s.API.Remove(trainJob("T1"), now); err != nil {
			b.Fatal(err)
		}
		_ = s.API.Remove(jobSet("J1", "T1"), now)
		for i := range pods {
			put(name(terminating(pod(""), s.Loop.Now()), i))
			s.Loop.RunUntil(s.Loop.Now().Add(time.Second))
			put(name(ended(terminating(pod(""), s.Loop.Now())), i))
			_ = s.API.Remove(name(ended(terminating(pod(""), s.Loop.Now())), i), now)
		}
		s.Loop.RunUntil(s.Loop.Now().Add(time.Minute))
	}
}
