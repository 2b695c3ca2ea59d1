package settle_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orphand/orphand/internal/stage"
	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/informers"
	"github.com/orphand/orphand/pkg/nodeproof"
	"github.com/orphand/orphand/pkg/settle"
	"github.com/orphand/orphand/pkg/signals"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// found plays what the simulator found, made as small as it gets.
type found struct {
	t      *testing.T
	stage  *stage.Stage
	daemon *stage.Daemon
	told   []string
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newFound(t *testing.T) *found {
	f := &found{t: t, stage: stage.New(epoch)}
	f.daemon = f.stage.Daemon(stage.Config{Sink: signals.SinkFunc(func(e signals.Event) {
		switch {
		case e.Finding != "" && e.Phase == signals.Started:
			f.told = append(f.told, string(e.Finding))
		case e.Code == signals.PodVerdictChanged:
			f.told = append(f.told, e.PodUID+" "+e.Verdict+"/"+e.Reason)
		case e.Code == signals.JobStateChanged:
			f.told = append(f.told, e.UID+" "+e.State)
		}
	})})
	return f
}

func (f *found) at(d time.Duration, do func()) { f.stage.Loop.At(epoch.Add(d), do) }

func (f *found) put(d time.Duration, o stage.Object, lag time.Duration) {
	f.at(d, func() {
		if err := f.stage.API.Put(o, stage.Delivery{After: lag}); err != nil {
			f.t.Error(err)
		}
	})
}

func (f *found) remove(d time.Duration, o stage.Object) {
	f.at(d, func() {
		if err := f.stage.API.Remove(o, stage.Delivery{}); err != nil {
			f.t.Error(err)
		}
	})
}

func (f *found) run(d time.Duration) { f.stage.Loop.RunUntil(epoch.Add(d)) }

func (f *found) never(what string) {
	f.t.Helper()
	for _, told := range f.told {
		if strings.HasPrefix(told, what) {
			f.t.Errorf("it was said that %s: %q", what, f.told)
			return
		}
	}
}

func trainJobOf(name, uid string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
		"metadata": map[string]any{"namespace": "team-a", "name": name, "uid": uid}}}
}

func jobSetOf(name, uid, owner string) *jobset.JobSet {
	yes := true
	js := &jobset.JobSet{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: name, UID: types.UID(uid)}}
	if owner != "" {
		js.OwnerReferences = []metav1.OwnerReference{{APIVersion: "trainer.kubeflow.org/v1alpha1", Kind: facts.KindTrainJob, Name: name, UID: types.UID(owner), Controller: &yes}}
	}
	return js
}

func nodeOf(name, uid, machine, boot string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid)}, Status: corev1.NodeStatus{
		NodeInfo:   corev1.NodeSystemInfo{SystemUUID: machine, MachineID: machine, BootID: boot},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
}

func podOf(uid, jobSet, node string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: strings.ToLower(uid), UID: types.UID(uid), Labels: map[string]string{
			facts.LabelJobSetName: "tj", facts.LabelJobSetUID: jobSet}},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "c", ContainerID: "containerd://" + uid, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func askedAt(d time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		at, grace := metav1.NewTime(epoch.Add(d+30*time.Second)), int64(30)
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &at, &grace
	}
}

func TestALiveReadThatWasAnsweredBeforeThePodWasAskedToTerminateSaysNothingOfItsBoot(t *testing.T) {
	f := newFound(t)
	f.put(0, trainJobOf("tj", "T1"), 0)
	f.put(0, jobSetOf("tj", "J1", "T1"), 0)
	f.put(0, nodeOf("n1", "N1", "m1", "b1"), 0)
	f.put(0, podOf("P0", "J1", "n1"), 0)
	f.put(0, podOf("P1", "J1", "n1"), 0)
	f.stage.API.Latency = func(_, kind, _, _ string) time.Duration {
		if kind == facts.KindNode {
			return 10 * time.Second
		}
		return 0
	}
	f.run(0)
	f.daemon.Start()
	// P0 is asked to terminate, so the node is read from 2 s on, as b1. While the answer is under way the machine boots, P1
	// is started again, and is then asked to terminate; the watch of Nodes is behind.
	f.put(time.Second, podOf("P0", "J1", "n1", askedAt(time.Second)), 0)
	f.put(4*time.Second, nodeOf("n1", "N1", "m1", "b2"), time.Minute)
	f.put(6*time.Second, podOf("P1", "J1", "n1", func(p *corev1.Pod) { p.Status.ContainerStatuses[0].ContainerID = "containerd://again" }), 0)
	f.put(8*time.Second, podOf("P1", "J1", "n1", askedAt(8*time.Second), func(p *corev1.Pod) { p.Status.ContainerStatuses[0].ContainerID = "containerd://again" }), 0)
	f.run(3 * time.Minute)
	f.never("P1 Gone")
}

func TestPodsThatTheWatchIsLateToShowKeepAJobFromBeingSettled(t *testing.T) {
	f := newFound(t)
	f.put(0, trainJobOf("tj", "T1"), 0)
	f.put(0, jobSetOf("tj", "J1", "T1"), 0)
	f.put(0, nodeOf("n1", "N1", "m1", "b1"), 0)
	f.run(0)
	f.daemon.Start()
	f.put(time.Second, podOf("P1", "J1", "n1"), time.Minute)
	f.remove(10*time.Second, trainJobOf("tj", "T1"))
	f.remove(10*time.Second, jobSetOf("tj", "J1", "T1"))
	f.put(11*time.Second, podOf("P1", "J1", "n1", askedAt(11*time.Second)), time.Minute)
	f.run(50 * time.Second)
	f.never("T1 Settled")
	f.never("T1 Cleared")
}

func TestPodsMadeAfterAJobSetWasOrphanedAreStillTheJobs(t *testing.T) {
	f := newFound(t)
	f.put(0, trainJobOf("tj", "T1"), 0)
	f.put(0, jobSetOf("tj", "J1", "T1"), 0)
	f.put(0, nodeOf("n1", "N1", "m1", "b1"), 0)
	f.run(0)
	f.daemon.Start()
	// kubectl delete trainjob --cascade=orphan
	f.put(time.Second, jobSetOf("tj", "J1", ""), 0)
	f.remove(time.Second, trainJobOf("tj", "T1"))
	f.put(10*time.Second, podOf("P1", "J1", "n1"), 0)
	f.remove(20*time.Second, jobSetOf("tj", "J1", ""))
	f.run(time.Minute)
	f.never("T1 Settled")
	f.never("T1 Cleared")
}

func TestATrainJobThatOnlyALiveReadEverFoundIsNotTakenToBeThereForEver(t *testing.T) {
	f := newFound(t)
	f.put(0, nodeOf("n1", "N1", "m1", "b1"), 0)
	f.run(0)
	f.daemon.Start()
	f.at(time.Second, func() {
		for _, verb := range []string{"watch", "list"} {
			f.stage.API.Fail(stage.Fault{Verb: verb, Kind: facts.KindTrainJob, Code: 500, Times: -1})
		}
	})
	f.put(2*time.Second, trainJobOf("tj", "T1"), 0)
	f.put(2*time.Second, jobSetOf("tj", "J1", "T1"), 0)
	f.remove(20*time.Second, trainJobOf("tj", "T1"))
	f.remove(20*time.Second, jobSetOf("tj", "J1", "T1"))
	f.at(30*time.Second, func() {
		for _, verb := range []string{"watch", "list"} {
			f.stage.API.Lift(stage.Fault{Verb: verb, Kind: facts.KindTrainJob})
		}
	})
	f.run(5 * time.Minute)
	if last := f.told[len(f.told)-1]; last != "T1 Cleared" {
		t.Errorf("the last word of it is %q", f.told)
	}
}

func TestAPodThatIsNotJudgedYetIsOnTheRecordWithAVerdict(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(epoch)
	e := settle.New(settle.Config{Options: settle.Defaults(), Clock: clk, Live: &counted{}, Queue: pile{}})
	tj, err := facts.FromTrainJob(trainJobOf("tj", "T1"))
	if err != nil {
		t.Fatal(err)
	}
	e.TrainJobSeen(tj, true)
	e.ObjectSeen(facts.FromJobSet(jobSetOf("tj", "J1", "T1")), true)
	e.TrainJobGone(tj, 0)
	if err := e.Sync(t.Context(), tj.JobKey()); err != nil {
		t.Fatal(err)
	}
	e.PodSeen(facts.FromPod(podOf("P1", "J1", "n1")), false)
	note, kept := e.Note(tj.JobKey())
	if !kept || len(note.Pods) != 1 || note.Pods[0].Said.Verdict == "" || !note.Pods[0].Since.Known() {
		t.Errorf("the record of the job: %t %+v", kept, note.Pods)
	}
}

func TestATrainJobThatALiveReadFoundGoneIsNotBroughtBackByAWatchThatIsBehind(t *testing.T) {
	f := newFound(t)
	f.put(0, nodeOf("n1", "N1", "m1", "b1"), 0)
	f.run(0)
	f.daemon.Start()
	f.put(time.Second, trainJobOf("tj", "T1"), time.Minute)
	f.remove(2*time.Second, trainJobOf("tj", "T1"))
	f.put(3*time.Second, jobSetOf("tj", "J1", "T1"), 0) // by a controller whose cache is behind as well
	f.remove(4*time.Second, jobSetOf("tj", "J1", "T1"))
	f.run(3 * time.Minute)
	if got := strings.Join(f.told, ", "); got != "T1 Settling, T1 Cleared" {
		t.Errorf("it was said: %s", got)
	}
}

func TestAJobThatWasHeldBackByUnnamedRemainsIsLookedAtWhenTheyAreNamed(t *testing.T) {
	f := newFound(t)
	f.put(0, trainJobOf("tj", "T1"), 0)
	f.put(0, jobSetOf("tj", "J1", "T1"), 0)
	f.put(0, nodeOf("n1", "N1", "m1", "b1"), 0)
	f.run(0)
	f.daemon.Start()
	f.remove(time.Second, jobSetOf("tj", "J1", "T1"))
	f.remove(time.Second, trainJobOf("tj", "T1"))
	// The next incarnation: its pod is seen first, and its JobSet long after.
	f.put(2*time.Second, trainJobOf("tj", "T2"), 0)
	f.put(2*time.Second, jobSetOf("tj", "J2", "T2"), 20*time.Second)
	f.stage.API.Fail(stage.Fault{Verb: "get", Kind: facts.KindJobSet, Code: 500, Times: 3})
	f.put(3*time.Second, podOf("P2", "J2", "n1"), 0)
	f.run(10 * time.Minute)
	if !slices.Contains(f.told, "T1 Cleared") {
		t.Errorf("it was said: %q", f.told)
	}
}

func TestPodsOfAnOrphanedJobSetAreFoundAgainByTheRecordAfterARestart(t *testing.T) {
	for name, podsFirst := range map[string]bool{"the JobSet is listed first": false, "the pods are listed first": true} {
		clk := clocktesting.NewFakePassiveClock(epoch)
		e := settle.New(settle.Config{Options: settle.Defaults(), Clock: clk, Live: &counted{}, Queue: pile{}})
		e.NodeSeen(facts.FromNode(nodeOf("n1", "N1", "m1", "b1")), true)
		lists := []func(){
			func() { e.ObjectSeen(facts.FromJobSet(jobSetOf("tj", "J1", "")), true) },
			func() { e.PodSeen(facts.FromPod(podOf("P1", "J1", "n1")), true) },
		}
		if podsFirst {
			slices.Reverse(lists)
		}
		for _, list := range lists {
			list()
		}
		job := facts.JobKey{Namespace: "team-a", Name: "tj", UID: "T1"}
		h := nodeproof.NewHistory(facts.FromPod(podOf("P1", "J1", "n1")), facts.At(epoch), false, nodeproof.NewNodes())
		e.Restore(settle.Note{Job: job, State: settle.Settling, GoneAt: facts.At(epoch), JobSets: []types.UID{"J1"},
			Pods: []settle.PodNote{{History: h, Said: nodeproof.Pair{Verdict: nodeproof.Alive, Reason: nodeproof.Running}, Since: facts.At(epoch)}}})
		if err := e.Sync(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		if jobs := e.Jobs(); len(jobs) != 1 || len(jobs[0].Pods) != 1 || jobs[0].Pods[0].Verdict != nodeproof.Alive {
			t.Errorf("%s: %+v", name, jobs)
		}
	}
}

// A survey that was made for what only a live read had shown is not the last look: children may come until the quiet is over.
func TestALookBeforeTheQuietIsOverIsNotTheLast(t *testing.T) {
	f := newFound(t)
	f.put(0, trainJobOf("tj", "T1"), 0)
	f.put(0, nodeOf("n1", "N1", "m1", "b1"), 0)
	f.run(0)
	f.daemon.Start()
	late := 10 * time.Minute
	ended := func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodFailed
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ContainerID: "containerd://P1"}}
	}
	f.put(time.Second, jobSetOf("tj", "J1", "T1"), late) // only a live read shows it
	f.put(2*time.Second, podOf("P1", "J1", "n1"), 0)
	f.put(3*time.Second, podOf("P1", "J1", "n1", askedAt(3*time.Second), ended), 0)
	f.remove(4*time.Second, podOf("P1", "J1", "n1", askedAt(3*time.Second), ended))
	f.remove(time.Minute, trainJobOf("tj", "T1"))
	f.remove(time.Minute, jobSetOf("tj", "J1", "T1"))
	f.put(63*time.Second, jobSetOf("tj", "J2", "T1"), late) // by a controller whose cache is behind
	f.put(64*time.Second, podOf("P2", "J2", "n1"), late)
	f.run(2 * time.Minute)
	f.never("T1 Settled")
	f.never("T1 Cleared")
}

// The first list of pods may be older than the record: a pod that it does not show is there until the API server says that it
// is not. A word for its Node would count for one that was asked to terminate.
func TestAPodOnRecordThatTheFirstListDoesNotShowIsAskedFor(t *testing.T) {
	for name, c := range map[string]struct {
		there *facts.Pod
		want  nodeproof.Pair
	}{
		"it is there": {facts.FromPod(podOf("P1", "J1", "n1")), nodeproof.Pair{Verdict: nodeproof.Alive, Reason: nodeproof.Running}},
		"it is gone":  {nil, nodeproof.Pair{Verdict: nodeproof.Gone, Reason: nodeproof.Attested}},
	} {
		clk := clocktesting.NewFakePassiveClock(epoch)
		n1 := facts.FromNode(nodeOf("n1", "N1", "m1", "b1"))
		e := settle.New(settle.Config{Options: settle.Defaults(), Clock: clk, Queue: pile{},
			Live: &onePod{counted: counted{nodes: map[string]*facts.Node{"n1": n1}}, pod: c.there}})
		e.NodeSeen(n1, true)
		e.ObjectSeen(facts.FromJobSet(jobSetOf("tj", "J1", "T1")), true)
		job := facts.JobKey{Namespace: "team-a", Name: "tj", UID: "T1"}
		h := nodeproof.NewHistory(facts.FromPod(podOf("P1", "J1", "n1")), facts.At(epoch), false, nodeproof.NewNodes())
		e.Restore(settle.Note{Job: job, State: settle.Settling, GoneAt: facts.At(epoch), JobSets: []types.UID{"J1"},
			Pods: []settle.PodNote{{History: h, Said: nodeproof.Pair{Verdict: nodeproof.Alive, Reason: nodeproof.Running}, Since: facts.At(epoch)}}})
		clk.SetTime(epoch.Add(time.Second))
		if err := e.Sync(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		clk.SetTime(epoch.Add(2 * time.Second))
		e.Attest("N1", nodeproof.Attestation{By: "operator", Reason: "looked", At: facts.At(epoch.Add(2 * time.Second))})
		if err := e.Sync(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		if pods := e.Jobs()[0].Pods; len(pods) != 1 || pods[0].Verdict != c.want.Verdict || pods[0].Reason != c.want.Reason {
			t.Errorf("%s: %+v", name, pods)
		}
	}
}

// onePod is an API server that may hold one pod.
type onePod struct {
	counted
	pod *facts.Pod
}

func (o *onePod) Pod(context.Context, string, string) (*facts.Pod, error) { return o.pod, nil }

// A job on record that has no TrainJob's UID, and whose JobSet the first lists tell to be a TrainJob's, is that TrainJob's:
// left without its pods, it would look as if it were over.
func TestAJobWithoutATrainJobIsItsTrainJobsOnceTheJobSetTellsWhose(t *testing.T) {
	for name, jobSetFirst := range map[string]bool{"the JobSet is in the first lists": true, "the JobSet is seen later": false} {
		clk := clocktesting.NewFakePassiveClock(epoch)
		e := settle.New(settle.Config{Options: settle.Defaults(), Clock: clk, Live: &counted{}, Queue: pile{}})
		e.NodeSeen(facts.FromNode(nodeOf("n1", "N1", "m1", "b1")), true)
		if jobSetFirst {
			e.ObjectSeen(facts.FromJobSet(jobSetOf("tj", "J1", "T1")), true)
		}
		e.PodSeen(facts.FromPod(podOf("P1", "J1", "n1")), true)
		unknown := facts.JobKey{Namespace: "team-a", Name: "tj", UID: facts.UnknownPrefix + "J1"}
		h := nodeproof.NewHistory(facts.FromPod(podOf("P1", "J1", "n1")), facts.At(epoch), false, nodeproof.NewNodes())
		e.Restore(settle.Note{Job: unknown, State: settle.Settling, GoneAt: facts.At(epoch), JobSets: []types.UID{"J1"},
			Pods: []settle.PodNote{{History: h, Said: nodeproof.Pair{Verdict: nodeproof.Alive, Reason: nodeproof.Running}, Since: facts.At(epoch)}}})
		if !jobSetFirst {
			e.ObjectSeen(facts.FromJobSet(jobSetOf("tj", "J1", "T1")), false)
		}
		if jobs := e.Jobs(); len(jobs) != 1 || jobs[0].Key.UID != "T1" || len(jobs[0].Pods) != 1 {
			t.Errorf("%s: %+v", name, jobs)
		}
	}
}

func TestAPodThatWentWhileASurveyWasUnderWayIsNotBroughtBackByIt(t *testing.T) {
	f := newFound(t)
	f.put(0, trainJobOf("tj", "T1"), 0)
	f.put(0, jobSetOf("tj", "J1", "T1"), 0)
	f.put(0, trainJobOf("tj", "T1"), 0)
	f.put(0, nodeOf("n1", "N1", "m1", "b1"), 0)
	f.stage.API.Latency = func(verb, _, _, _ string) time.Duration {
		if verb == "list" {
			return 10 * time.Second
		}
		return 0
	}
	f.run(0)
	f.daemon.Start()
	f.remove(time.Second, jobSetOf("tj", "J1", "T1"))
	f.remove(time.Second, trainJobOf("tj", "T1"))
	// While the API server is asked what is left, a pod comes and goes.
	unbound := func(p *corev1.Pod) {
		p.Spec.NodeName, p.Status = "", corev1.PodStatus{Phase: corev1.PodPending}
	}
	f.put(5*time.Second, podOf("P1", "J1", "n1", unbound), 3*time.Second)
	f.remove(9*time.Second, podOf("P1", "J1", "n1", unbound, askedAt(9*time.Second)))
	f.run(5 * time.Minute)
	f.never("P1 Unproven")
	if last := f.told[len(f.told)-1]; last != "T1 Cleared" {
		t.Errorf("it was said: %q", f.told)
	}
}

func TestWhatWentBeforeTheRecordsWereReadIsNotBroughtBackByThem(t *testing.T) {
	ended := func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodFailed
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(epoch)}}
	}
	batchJob := func() *facts.Object {
		return &facts.Object{Kind: facts.KindJob, Meta: facts.Meta{Namespace: "team-a", Name: "tj-node-0", UID: "B1"}, JobSetUID: "J1", JobSetName: "tj"}
	}
	running := func(*corev1.Pod) {}
	for _, c := range []struct {
		owner string
		final func(*corev1.Pod)
		want  settle.State
	}{{"T1", ended, settle.Cleared}, {"T1", running, settle.Unproven}, {"", ended, settle.Cleared}, {"", running, settle.Unproven}} {
		clk := clocktesting.NewFakePassiveClock(epoch)
		n1 := facts.FromNode(nodeOf("n1", "N1", "m1", "b1"))
		e := settle.New(settle.Config{Options: settle.Defaults(), Clock: clk, Live: &counted{nodes: map[string]*facts.Node{"n1": n1}}, Queue: pile{}})
		e.NodeSeen(n1, true)
		e.ObjectSeen(facts.FromJobSet(jobSetOf("tj", "J1", c.owner)), true)
		e.ObjectSeen(batchJob(), true)
		e.PodSeen(facts.FromPod(podOf("P1", "J1", "n1")), true)
		// The list of another kind takes its time.
		e.ObjectGone(facts.FromJobSet(jobSetOf("tj", "J1", c.owner)), informers.Final)
		e.ObjectGone(batchJob(), informers.Final)
		e.PodGone(facts.FromPod(podOf("P1", "J1", "n1", askedAt(0), c.final)), informers.Final)
		job := facts.JobKey{Namespace: "team-a", Name: "tj", UID: "T1"}
		h := nodeproof.NewHistory(facts.FromPod(podOf("P1", "J1", "n1")), facts.At(epoch), false, nodeproof.NewNodes())
		e.Restore(settle.Note{Job: job, State: settle.Settling, GoneAt: facts.At(epoch), JobSets: []types.UID{"J1"},
			Pods: []settle.PodNote{{History: h, Said: nodeproof.Pair{Verdict: nodeproof.Alive, Reason: nodeproof.Running}, Since: facts.At(epoch)}}})
		for _, at := range []time.Duration{0, time.Minute} {
			clk.SetTime(epoch.Add(at))
			if err := e.Sync(t.Context(), job); err != nil {
				t.Fatal(err)
			}
		}
		if jobs := e.Jobs(); len(jobs) != 1 || jobs[0].State != c.want {
			t.Errorf("a JobSet of %q: %+v, want %s", c.owner, jobs, c.want)
		}
	}
}

func TestAMachineThatComesBackIsToldAtOnceThoughTheJobIsBusyReading(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(epoch)
	var told []signals.Finding
	back := nodeOf("n1", "N1", "m1", "b1")
	off := back.DeepCopy()
	off.Status.Conditions[0].Status = corev1.ConditionUnknown
	off.Spec.Taints = []corev1.Taint{{Key: facts.TaintOutOfService, Effect: corev1.TaintEffectNoExecute}}
	live := &counted{nodes: map[string]*facts.Node{"n1": facts.FromNode(off)}}
	e := settle.New(settle.Config{Options: settle.Defaults(), Clock: clk, Live: live, Queue: pile{}, Sink: signals.SinkFunc(func(ev signals.Event) {
		if ev.Finding != "" && ev.Phase == signals.Started {
			told = append(told, ev.Finding)
		}
	})})
	e.ObjectSeen(facts.FromJobSet(jobSetOf("tj", "J1", "T1")), true)
	e.NodeSeen(facts.FromNode(back), true)
	e.PodSeen(facts.FromPod(podOf("P1", "J1", "n1", askedAt(0))), true)
	e.NodeSeen(facts.FromNode(off), false)
	if err := e.Sync(t.Context(), facts.JobKey{Namespace: "team-a", Name: "tj", UID: "T1"}); err != nil {
		t.Fatal(err)
	}
	e.NodeSeen(facts.FromNode(back), false)
	if !slices.Contains(told, signals.NodeReturned) {
		t.Errorf("told: %q", told)
	}
}

func TestALatePodHasTheJobWaitForTheNextOne(t *testing.T) {
	f := newFound(t)
	f.put(0, trainJobOf("tj", "T1"), 0)
	f.put(0, jobSetOf("tj", "J1", "T1"), 0)
	f.run(0)
	f.daemon.Start()
	f.remove(time.Second, jobSetOf("tj", "J1", "T1"))
	f.remove(time.Second, trainJobOf("tj", "T1"))
	// The Job controller is behind: it makes what it does not know to be of a deleted Job, and the garbage collector takes it.
	unbound := func(p *corev1.Pod) {
		p.Spec.NodeName, p.Status = "", corev1.PodStatus{Phase: corev1.PodPending}
	}
	f.put(time.Minute, podOf("P1", "J1", "", unbound), 0)
	f.remove(time.Minute+time.Second, podOf("P1", "J1", "", unbound, askedAt(time.Minute)))
	f.run(time.Minute + 4*time.Second)
	if last := f.told[len(f.told)-1]; last != "P1 Gone/NeverStarted" {
		t.Errorf("it was said: %q", f.told)
	}
	f.run(2 * time.Minute)
	if last := f.told[len(f.told)-1]; last != "T1 Cleared" {
		t.Errorf("it was said: %q", f.told)
	}
}

func TestALiveReadOfAPodThatWentMeanwhileDoesNotBringItBack(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(epoch)
	n1 := facts.FromNode(nodeOf("n1", "N1", "m1", "b1"))
	running := facts.FromPod(podOf("P1", "J1", "n1"))
	live := &late{counted: counted{nodes: map[string]*facts.Node{"n1": n1}}, pod: running}
	e := settle.New(settle.Config{Options: settle.Defaults(), Clock: clk, Live: live, Queue: pile{}})
	live.meanwhile = func() { e.PodGone(facts.FromPod(podOf("P1", "J1", "n1", askedAt(0))), informers.Final) }
	e.NodeSeen(n1, true)
	e.ObjectSeen(facts.FromJobSet(jobSetOf("tj", "J1", "T1")), true)
	e.PodSeen(running, true)
	e.PodGone(running, informers.Unselected)
	if err := e.Sync(t.Context(), facts.JobKey{Namespace: "team-a", Name: "tj", UID: "T1"}); err != nil {
		t.Fatal(err)
	}
	if p := e.Jobs()[0].Pods[0]; p.Verdict != nodeproof.Unproven {
		t.Errorf("%+v", p)
	}
}

// late answers a read of a pod when something else has happened.
type late struct {
	counted
	pod       *facts.Pod
	meanwhile func()
}

func (l *late) Pod(context.Context, string, string) (*facts.Pod, error) {
	if l.meanwhile != nil {
		l.meanwhile()
		l.meanwhile = nil
		return l.pod, nil
	}
	return nil, nil
}

func TestWhatLearnsLateThatItsJobIsGoneMayMakeAPodYet(t *testing.T) {
	f := newFound(t)
	f.put(0, trainJobOf("tj", "T1"), 0)
	f.put(0, jobSetOf("tj", "J1", "T1"), 0)
	f.run(0)
	f.daemon.Start()
	f.remove(time.Second, trainJobOf("tj", "T1"))
	f.remove(time.Minute, jobSetOf("tj", "J1", "T1")) // the garbage collector was stalled
	f.run(time.Minute + 4*time.Second)
	f.never("T1 Settled")
	f.never("T1 Cleared")
	f.run(2 * time.Minute)
	if last := f.told[len(f.told)-1]; last != "T1 Cleared" {
		t.Errorf("it was said: %q", f.told)
	}
}

func TestANodeIsNotAbsentBeforeTheFirstListOfNodesHasCome(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(epoch)
	e := settle.New(settle.Config{Options: settle.Defaults(), Clock: clk, Live: &counted{}, Queue: pile{}})
	e.ObjectSeen(facts.FromJobSet(jobSetOf("tj", "J1", "T1")), true)
	e.PodSeen(facts.FromPod(podOf("P1", "J1", "n1", askedAt(0))), true)
	clk.SetTime(epoch.Add(5 * time.Minute)) // the Node was deleted a moment ago
	if err := e.Sync(t.Context(), facts.JobKey{Namespace: "team-a", Name: "tj", UID: "T1"}); err != nil {
		t.Fatal(err)
	}
	if p := e.Jobs()[0].Pods[0]; p.Verdict != nodeproof.Unproven {
		t.Errorf("%+v", p)
	}
}
