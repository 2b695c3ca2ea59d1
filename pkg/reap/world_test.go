package reap_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/orphand/orphand/internal/stage"
	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/reap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// world is an API in memory with kubelets, and a Reaper whose waits let its time pass.
type world struct {
	t *testing.T
	*stage.Stage
	reaper *reap.Reaper
	told   *reap.Told
	// deaf are the nodes whose kubelets do nothing.
	deaf map[string]bool
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, Stage: stage.New(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), deaf: map[string]bool{}}
	w.reaper = reap.New(reap.Config{API: watched{w.API.Client(), w}, Clock: &passing{w.Loop}, RuntimeCopies: labels.SelectorFromSet(labels.Set{"made-by": "adapter"})})
	w.tick()
	return w
}

// tick is the kubelets' loop: a pod that was asked to terminate ends, is reported, and goes.
func (w *world) tick() {
	for _, o := range w.API.List(stage.Pod) {
		pod := o.(*corev1.Pod)
		if pod.DeletionTimestamp == nil || w.deaf[pod.Spec.NodeName] {
			continue
		}
		final := pod.DeepCopy()
		final.Status.Phase = corev1.PodFailed
		final.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "node", ContainerID: "c://" + string(pod.UID),
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 143}}}}
		if err := w.API.Remove(final, stage.Delivery{}); err != nil {
			w.t.Fatal(err)
		}
		if w.told != nil {
			w.told.Changed(final, true)
		}
	}
	w.Loop.After(300*time.Millisecond, w.tick)
}

// watched is the API with a watch of pods.
type watched struct {
	reap.API
	w *world
}

func (a watched) WatchPods(_ context.Context, _ string, _ labels.Selector, tell reap.Told) {
	a.w.told = &tell
	tell.Synced()
}

// passing is a clock whose timers have fired when they are made: whoever waits lets the simulated time pass.
type passing struct {
	*stage.Loop
}

type fired chan time.Time

func (f fired) C() <-chan time.Time                       { return f }
func (f fired) Stop() bool                                { return false }
func (f fired) Reset(time.Duration) bool                  { return false }
func (p *passing) Sleep(d time.Duration)                  { p.RunUntil(p.Now().Add(d)) }
func (p *passing) Tick(time.Duration) <-chan time.Time    { return nil }
func (p *passing) NewTicker(time.Duration) clock.Ticker   { return nil }
func (p *passing) After(d time.Duration) <-chan time.Time { return p.NewTimer(d).C() }
func (p *passing) NewTimer(d time.Duration) clock.Timer {
	f := make(fired, 1)
	if d == 10*time.Second { // how long the watch may take to begin, which it does at once
		return f
	}
	p.Sleep(d)
	f <- p.Now()
	return f
}

func (w *world) put(objects ...stage.Object) {
	w.t.Helper()
	for _, o := range objects {
		if err := w.API.Put(o, stage.Delivery{}); err != nil {
			w.t.Fatal(err)
		}
	}
}

func owner(version, kind, name, uid string) []metav1.OwnerReference {
	yes := true
	return []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: name, UID: types.UID(uid), Controller: &yes}}
}

func ofTrainJob(name, uid string) []metav1.OwnerReference {
	return owner("trainer.kubeflow.org/v1alpha1", facts.KindTrainJob, name, uid)
}

func trainJob(ns, name, uid string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
		"metadata": map[string]any{"namespace": ns, "name": name, "uid": uid},
		"spec":     map[string]any{"runtimeRef": map[string]any{"kind": "TrainingRuntime", "name": name}}}}
}

func meta(version, kind, ns, name, uid string, owners []metav1.OwnerReference) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, UID: types.UID(uid), OwnerReferences: owners}}
}

// family is what a TrainJob has under it, with UIDs that end in gen: a JobSet, a Job, n pods on node-0..., the snapshot,
// the Service and the runtime copy.
func family(ns, name, gen string, n int) []stage.Object {
	js := &jobset.JobSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, UID: types.UID("J" + gen), OwnerReferences: ofTrainJob(name, "T"+gen)}}
	job := meta("batch/v1", "Job", ns, name+"-node-0", "B"+gen, owner("jobset.x-k8s.io/v1alpha2", "JobSet", name, "J"+gen))
	job.Labels = map[string]string{facts.LabelJobSetName: name, facts.LabelJobSetUID: "J" + gen}
	rt := meta("trainer.kubeflow.org/v1alpha1", "TrainingRuntime", ns, name, "R"+gen, ofTrainJob(name, "T"+gen))
	rt.Labels = map[string]string{"made-by": "adapter"}
	all := []stage.Object{js, job, rt,
		meta("v1", "ConfigMap", ns, name+"-runtime-snapshot", "C"+gen, ofTrainJob(name, "T"+gen)),
		meta("v1", "Service", ns, name, "S"+gen, owner("jobset.x-k8s.io/v1alpha2", "JobSet", name, "J"+gen))}
	for i := range n {
		all = append(all, pod(ns, fmt.Sprintf("%s-node-0-%d-x%s", name, i, gen), fmt.Sprintf("P%s%d", gen, i), fmt.Sprintf("node-%d", i), name, gen))
	}
	return all
}

func pod(ns, name, uid, node, job, gen string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, UID: types.UID(uid),
		Labels:          map[string]string{facts.LabelJobSetName: job, facts.LabelJobSetUID: "J" + gen},
		OwnerReferences: owner("batch/v1", "Job", job+"-node-0", "B"+gen)},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "node"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "node", ContainerID: "c://" + uid,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}}
}

func node(name string, ready corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}, Status: corev1.NodeStatus{
		NodeInfo:   corev1.NodeSystemInfo{SystemUUID: "s-" + name, MachineID: "m-" + name, BootID: "b-" + name},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}}
}

// job puts a TrainJob with its family on Ready nodes.
func (w *world) job(ns, name, gen string, n int) {
	w.t.Helper()
	for i := range n {
		w.put(node(fmt.Sprintf("node-%d", i), corev1.ConditionTrue))
	}
	w.put(trainJob(ns, name, "T"+gen))
	w.put(family(ns, name, gen, n)...)
}

// deleted lists the DELETEs, and fails the test for one that is not by UID and in the background.
func (w *world) deleted() []string {
	w.t.Helper()
	var list []string
	for _, c := range w.API.Calls() {
		if c.UID == "" || c.Propagation != metav1.DeletePropagationBackground {
			w.t.Errorf("DELETE of %s/%s has UID %q and propagation %q", c.Kind, c.Name, c.UID, c.Propagation)
		}
		list = append(list, string(c.UID))
	}
	slices.Sort(list)
	return list
}

func (w *world) wantDeleted(want ...string) {
	w.t.Helper()
	slices.Sort(want)
	if got := w.deleted(); !slices.Equal(got, want) {
		w.t.Errorf("deleted %v, want %v", got, want)
	}
}

func statuses(r *reap.Report) map[string]reap.Status {
	m := map[string]reap.Status{}
	for _, it := range r.Items {
		m[string(it.UID)] = it.Status
	}
	return m
}

func typesUID(s string) types.UID { return types.UID(s) }
