package scenarios_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/orphand/orphand/e2e/cluster"
	"github.com/orphand/orphand/e2e/daemon"
	"github.com/orphand/orphand/pkg/signals"
)

// scene is a cluster and an orphand that follows it, during one test. What fails
// ends the test.
type scene struct {
	t *testing.T
	c *cluster.Cluster
	d *daemon.Daemon

	began time.Time
}

// open begins a scene on the shared cluster. It ends with the comparison of all
// that was said with the processes that live.
func open(t *testing.T) *scene { return openOn(t, shared, watcher) }

func openOn(t *testing.T, c *cluster.Cluster, d *daemon.Daemon) *scene {
	t.Helper()
	t.Cleanup(func() {
		for _, lie := range d.Judge().Lies() {
			t.Error(lie)
		}
		t.Logf("%d words compared with the truth", d.Judge().Words())
	})
	return &scene{t: t, c: c, d: d, began: time.Now()}
}

// also starts another orphand on the scene's cluster, for this test.
func (s *scene) also(o daemon.Options) *daemon.Daemon {
	s.t.Helper()
	o.Program = program
	d, err := daemon.Launch(s.t.Context(), s.c, o)
	s.ok(err)
	s.t.Cleanup(func() {
		for _, lie := range d.Judge().Lies() {
			s.t.Error(lie)
		}
		if err := d.Stop(); err != nil {
			s.t.Error(err)
		}
	})
	return d
}

// ok ends the test unless err is nil.
func (s *scene) ok(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// node adds a node for this test, and takes it away afterwards.
func (s *scene) node(name string) *cluster.Node {
	s.t.Helper()
	n, err := s.c.AddNode(s.t.Context(), cluster.NodeSpec{Name: name})
	s.ok(err)
	s.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		for _, m := range s.c.Machines() {
			if m.Node() == name {
				if err := m.PowerOff(); err != nil {
					s.t.Error(err)
				}
			}
		}
		if o, err := n.Object(ctx); err == nil && o != nil {
			if err := n.Delete(ctx); err != nil {
				s.t.Error(err)
			}
		}
	})
	return n
}

// afterwards is a context for tidying up, when the test's own has ended.
func (s *scene) afterwards() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	s.t.Cleanup(cancel)
	return ctx
}

// run submits a TrainJob and waits until its pods run. They are sorted as the
// nodes in spec.On are.
func (s *scene) run(spec cluster.TrainJobSpec) (cluster.TrainJob, []*corev1.Pod) {
	s.t.Helper()
	spec.Nodes = max(spec.Nodes, len(spec.On), 1)
	job, err := s.c.SubmitTrainJob(s.t.Context(), spec)
	s.ok(err)
	pods, err := s.c.WaitRunning(s.t.Context(), job)
	s.ok(err)
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return slices.Index(spec.On, a.Spec.NodeName) - slices.Index(spec.On, b.Spec.NodeName)
	})
	s.t.Logf("%s runs: %s", job.Name, names(pods))
	return job, pods
}

func names(pods []*corev1.Pod) string {
	var all []string
	for _, p := range pods {
		all = append(all, p.Name+" on "+p.Spec.NodeName)
	}
	return strings.Join(all, ", ")
}

// delete deletes a TrainJob in the background.
func (s *scene) delete(job cluster.TrainJob) {
	s.t.Helper()
	s.ok(s.c.DeleteTrainJob(s.t.Context(), job, metav1.DeletePropagationBackground))
	s.t.Logf("%s deleted", job.Name)
}

// asked waits until pods are asked to terminate, or are gone: until then no evidence of their nodes counts, and no person's
// word. That they are Unproven may have been said before.
func (s *scene) asked(pods ...*corev1.Pod) {
	s.t.Helper()
	for _, pod := range pods {
		s.ok(s.c.WaitPods(s.t.Context(), cluster.PodSelector{Namespace: pod.Namespace, Name: pod.Name}, func(there []*corev1.Pod) bool {
			return !slices.ContainsFunc(there, func(p *corev1.Pod) bool { return p.UID == pod.UID && p.DeletionTimestamp == nil })
		}))
	}
}

// refuses is a command that goes on after SIGTERM and shows it by a process more, for [scene.refused].
func refuses() []string {
	return []string{"sh", "-c", "trap '" + refusal + " &' TERM; sleep infinity & while :; do wait; done"}
}

const refusal = "sleep 100000"

// refused waits until a process of the pod has been sent SIGTERM. That the API server has asked for it, and that orphand has
// heard of it, does not say that the kubelet has: where the API server goes away just then, the pod runs on.
func (s *scene) refused(pod *corev1.Pod) {
	s.t.Helper()
	_, err := s.c.WaitTruth(s.t.Context(), func(now cluster.Truth) bool {
		return slices.ContainsFunc(now.OfPod(pod.UID), func(p cluster.Process) bool { return p.Command == refusal })
	})
	s.ok(err)
}

// cutOff cuts a node off and waits until that is noticed.
func (s *scene) cutOff(n *cluster.Node) {
	s.t.Helper()
	s.ok(n.CutOff())
	s.ok(n.WaitUnreachable(s.t.Context()))
	s.t.Logf("%s is cut off", n.Name)
}

// gone waits until an object is gone from the API.
func (s *scene) gone(kind schema.GroupVersionResource, namespace, name string) {
	s.t.Helper()
	s.ok(s.c.WaitGone(s.t.Context(), kind, namespace, name))
}

// says waits until orphand has given the pod the verdict.
func (s *scene) says(p *corev1.Pod, verdict, reason string) daemon.Event {
	s.t.Helper()
	return s.hears(daemon.Pod(p.UID, verdict, reason))
}

// settles waits until orphand has called the job settled.
func (s *scene) settles(job cluster.TrainJob) daemon.Event {
	s.t.Helper()
	return s.hears(daemon.Over(job.UID))
}

func (s *scene) hears(w daemon.Want) daemon.Event {
	s.t.Helper()
	return s.hearsFrom(s.d, w)
}

func (s *scene) hearsFrom(d *daemon.Daemon, w daemon.Want) daemon.Event {
	s.t.Helper()
	e, err := d.Await(s.t.Context(), w)
	s.ok(err)
	s.t.Logf("said after %.1fs: %s", time.Since(s.began).Seconds(), e)
	return e
}

// stillSays fails unless the last word on the pod is this one.
func (s *scene) stillSays(p *corev1.Pod, verdict, reason string) {
	s.t.Helper()
	if v, r := s.d.Verdict(p.UID); v != verdict || r != reason {
		s.t.Errorf("orphand says %s/%s of pod %s, want %s/%s", v, r, p.Name, verdict, reason)
	}
}

// lives fails unless a process of the pod lives.
func (s *scene) lives(p *corev1.Pod) {
	s.t.Helper()
	if truth := s.c.Truth(); !truth.Alive(p.UID) {
		s.t.Fatalf("no process of pod %s lives, so the scene shows nothing; what runs:\n%s", p.Name, truth)
	}
}

// dead fails if a process of the pod lives.
func (s *scene) dead(p *corev1.Pod) {
	s.t.Helper()
	if truth := s.c.Truth(); truth.Alive(p.UID) {
		s.t.Errorf("a process of pod %s lives:\n%s", p.Name, truth.OfPod(p.UID))
	}
}

// never fails if orphand has said the verdict of the pod, for any reason or the
// one given.
func (s *scene) never(d *daemon.Daemon, p *corev1.Pod, verdict, reason string) {
	s.t.Helper()
	for _, e := range d.Events() {
		if e.Code == signals.PodVerdictChanged && e.PodUID == p.UID && e.Verdict == verdict && (reason == "" || e.Reason == reason) {
			s.t.Errorf("orphand said %s/%s of pod %s: %s", e.Verdict, e.Reason, p.Name, e.Line)
		}
	}
}

// notSettled fails if orphand's last word on the job is that it is settled.
func (s *scene) notSettled(d *daemon.Daemon, job cluster.TrainJob) {
	s.t.Helper()
	if state := d.State(job.UID); state == "Settled" || state == "Cleared" {
		s.t.Errorf("job %s is %s too early", job.Name, state)
	}
}
