package scenarios_test

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/orphand/orphand/e2e/cluster"
	"github.com/orphand/orphand/e2e/daemon"
	"github.com/orphand/orphand/pkg/signals"
)

// record waits until a TrainJob's record meets the condition.
func (s *scene) record(job cluster.TrainJob, cond func(*unstructured.Unstructured) bool) *unstructured.Unstructured {
	s.t.Helper()
	o, err := s.c.WaitObject(s.t.Context(), daemon.Orphans, job.Namespace, daemon.RecordName(job), cond)
	s.ok(err)
	return o
}

// kubectl is what a person types.
func (s *scene) kubectl(args ...string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, s.c.Kubectl(), args...).CombinedOutput()
	s.t.Logf("$ kubectl %s\n%s", strings.Join(args, " "), out)
	if err != nil {
		s.t.Fatalf("kubectl %s: %v", strings.Join(args, " "), err)
	}
	return string(out)
}

func TestAPersonWithKubectlSeesWhatIsUnprovenAndWaitsForTheSettlement(t *testing.T) {
	t.Parallel()
	s := open(t)
	far := s.node("watched-0")
	job, pods := s.run(cluster.TrainJobSpec{Name: "watched", On: []string{far.Name}})
	s.cutOff(far)
	s.delete(job)
	s.asked(pods...)
	s.says(pods[0], "Unproven", "NodeUnreachable")
	s.record(job, func(o *unstructured.Unstructured) bool {
		if o == nil {
			return false
		}
		state, _, _ := unstructured.NestedString(o.Object, "status", "state")
		return state == "Unproven"
	})
	name := daemon.RecordName(job)
	for _, word := range []string{name, "watched", "Unproven", far.Name} {
		if out := s.kubectl("get", "orphans", "-A"); !strings.Contains(out, word) {
			t.Errorf("the table does not show %q", word)
		}
	}
	for _, word := range []string{string(pods[0].UID), "NodeUnreachable", "waiting for " + far.Name} {
		if out := s.kubectl("describe", "orphan", name); !strings.Contains(out, word) {
			t.Errorf("the description does not show %q", word)
		}
	}
	waited := make(chan string, 1)
	go func() {
		out, err := exec.CommandContext(t.Context(), s.c.Kubectl(), "wait", "--for=condition=Settled", "--timeout=2m", "orphan/"+name).CombinedOutput()
		if err != nil {
			out = append(out, err.Error()...)
		}
		waited <- string(out)
	}()
	s.ok(far.BringBack())
	settled := s.settles(job)
	if out := <-waited; !strings.Contains(out, "condition met") {
		t.Errorf("kubectl wait: %s", out)
	}
	t.Logf("kubectl wait has returned %s after orphand's word", time.Since(settled.At))
}

// podPair is the pod of a job on the node that stays, and the one on the node that
// is cut off.
type podPair struct{ near, far *corev1.Pod }

// last is the last line so far.
func (s *scene) last() daemon.Event {
	events := s.d.Events()
	return events[len(events)-1]
}

// unsettledRecord fails if there is a record that calls the job settled.
func (s *scene) unsettledRecord(job cluster.TrainJob) {
	s.t.Helper()
	o, err := s.c.Dynamic().Resource(daemon.Orphans).Namespace(job.Namespace).Get(s.t.Context(), daemon.RecordName(job), metav1.GetOptions{})
	if err == nil && daemon.Settled(o) {
		s.t.Errorf("the record of %s says that it is settled: %v", job.Name, o.Object["status"])
	}
}

// What a restart must not lose: which pods went without proof, and on what machine
// in what boot they ran.
func recordsSurviveKills(s *scene) {
	t := s.t
	near, far := s.node("kills-0"), s.node("kills-1")
	jobs := map[string]cluster.TrainJob{}
	pods := map[string]podPair{}
	for _, name := range []string{"before", "during", "after", "forced"} {
		job, p := s.run(cluster.TrainJobSpec{Name: name, On: []string{near.Name, far.Name}})
		jobs[name], pods[name] = job, podPair{p[0], p[1]}
	}
	s.cutOff(far)
	for _, name := range []string{"before", "forced"} {
		s.delete(jobs[name])
		s.says(pods[name].near, "Gone", "KubeletConfirmed")
		s.says(pods[name].far, "Unproven", "NodeUnreachable")
		s.record(jobs[name], func(o *unstructured.Unstructured) bool {
			if o == nil {
				return false
			}
			unproven, _, _ := unstructured.NestedInt64(o.Object, "status", "pods", "unproven")
			gone, _, _ := unstructured.NestedInt64(o.Object, "status", "pods", "gone")
			return unproven == 1 && gone == 1
		})
	}

	s.ok(s.d.Kill())
	t.Log("orphand is killed")
	s.ok(s.c.ForceDeletePod(t.Context(), pods["forced"].far))
	s.gone(cluster.Pods, "default", pods["forced"].far.Name)
	s.delete(jobs["during"])
	s.gone(cluster.JobSets, "default", "during")
	s.gone(cluster.Pods, "default", pods["during"].near.Name)
	mark := s.last()
	s.ok(s.d.Restart(t.Context()))
	resumed := s.hears(daemon.Code(signals.RecordsResumed).After(mark))
	if resumed.Records < 2 {
		t.Errorf("%d records were read, want those of before and forced at least", resumed.Records)
	}
	s.hears(daemon.Pod(pods["forced"].far.UID, "Unproven", "RemovedUnseen").After(mark))
	s.hears(daemon.Pod(pods["during"].far.UID, "Unproven", "NodeUnreachable").After(mark))
	s.delete(jobs["after"])
	s.says(pods["after"].near, "Gone", "KubeletConfirmed")
	s.says(pods["after"].far, "Unproven", "NodeUnreachable")

	s.ok(s.d.Kill())
	t.Log("orphand is killed again")
	mark = s.last()
	s.ok(s.d.Restart(t.Context()))
	s.hears(daemon.Code(signals.RecordsResumed).After(mark))
	for name, p := range pods {
		s.lives(p.far)
		s.never(s.d, p.far, "Gone", "")
		s.notSettled(s.d, jobs[name])
		s.unsettledRecord(jobs[name])
	}

	s.ok(far.BringBack())
	for _, name := range []string{"before", "during", "after"} {
		s.says(pods[name].far, "Gone", "KubeletConfirmed")
	}
	s.settles(jobs["before"])
	s.settles(jobs["after"])
	s.hears(daemon.OverByName("default/during"))
	// Nobody saw this one's end, and its kubelet has forgotten it. The boot that it
	// ran in stands on the record.
	s.stillSays(pods["forced"].far, "Unproven", "RemovedUnseen")
	s.notSettled(s.d, jobs["forced"])
	_, err := far.Reboot()
	s.ok(err)
	s.says(pods["forced"].far, "Gone", "NodeRebooted")
	s.settles(jobs["forced"])
	for _, name := range []string{"before", "after", "forced"} {
		s.record(jobs[name], func(o *unstructured.Unstructured) bool {
			if !daemon.Settled(o) {
				return false
			}
			total, _, _ := unstructured.NestedInt64(o.Object, "status", "pods", "total")
			gone, _, _ := unstructured.NestedInt64(o.Object, "status", "pods", "gone")
			return total == 2 && gone == 2 // whoever saw them go
		})
	}
	s.kubectl("wait", "--for=condition=Settled", "--timeout=1m", "orphan", "--all")
	s.kubectl("get", "orphans", "-o", "wide")
}
