package scenarios_test

import (
	"context"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/orphand/orphand/e2e/cluster"
	"github.com/orphand/orphand/e2e/daemon"
	"github.com/orphand/orphand/pkg/signals"
)

// unwedger gives a user exactly what unwedge needs.
func (s *scene) unwedger(name string) string {
	s.t.Helper()
	kubeconfig, err := s.c.UserWithRules(s.t.Context(), name, append(daemon.StopPermissions(),
		rbacv1.PolicyRule{APIGroups: []string{"trainer.kubeflow.org"}, Resources: []string{"trainingruntimes"}, Verbs: []string{"create"}}))
	s.ok(err)
	return kubeconfig
}

// processes watches until the function that it returns is called, which fails the test if a process of the job lived.
func (s *scene) processes(job cluster.TrainJob) (ended func()) {
	ctx, stop := context.WithCancel(s.t.Context())
	found := make(chan string, 1)
	go func() {
		defer close(found)
		for ctx.Err() == nil {
			alive := s.c.Truth().Where(func(p cluster.Process) bool {
				return p.Pod.Namespace == job.Namespace && strings.HasPrefix(p.Pod.Name, job.Name+"-node-")
			})
			if len(alive) > 0 {
				found <- alive.String()
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	return func() {
		s.t.Helper()
		stop()
		if lived, ok := <-found; ok {
			s.t.Errorf("a process of %s lived:\n%s", job.Name, lived)
		}
	}
}

func TestUnwedgeReleasesATrainJobAndNoProcessEverStarts(t *testing.T) {
	t.Parallel()
	for _, suspended := range []bool{false, true} {
		name := map[bool]string{false: "wedged", true: "wedged-asleep"}[suspended]
		t.Run(name, func(t *testing.T) {
			s := open(t)
			user := s.unwedger("unwedge-" + name)
			spec := cluster.TrainJobSpec{Name: name, Nodes: 2, On: []string{s.node(name + "-0").Name, s.node(name + "-1").Name}, Suspend: suspended}
			var job cluster.TrainJob
			if suspended {
				var err error
				job, err = s.c.SubmitTrainJob(t.Context(), spec)
				s.ok(err)
				_, err = s.c.WaitObject(t.Context(), cluster.JobSets, job.Namespace, job.Name, func(u *unstructured.Unstructured) bool { return u != nil })
				s.ok(err)
			} else {
				job, _ = s.run(spec)
			}
			if _, _, code := s.command(user, "unwedge", job.Name, "-n", job.Namespace, "--yes"); code != 5 {
				t.Errorf("a TrainJob that lives: exit code %d, want 5", code)
			}
			s.ok(s.c.DeleteTrainJob(t.Context(), job, metav1.DeletePropagationForeground))
			s.gone(cluster.TrainingRuntimes, job.Namespace, job.Name)
			s.gone(cluster.JobSets, job.Namespace, job.Name)
			s.hears(daemon.Found(signals.ForegroundWedged, job.UID))
			ended := s.processes(job)
			if _, _, code := s.command(user, "unwedge", job.Name, "-n", job.Namespace, "--yes"); code != 0 {
				t.Errorf("exit code %d", code)
			}
			ended()
			s.gone(cluster.TrainJobs, job.Namespace, job.Name)
			s.gone(cluster.TrainingRuntimes, job.Namespace, job.Name)
			s.gone(cluster.JobSets, job.Namespace, job.Name)
			s.deletesOf("unwedge-" + name)
			s.settles(job)
		})
	}
}

func TestStopOutlastsATrainJobWhoseJobSetIsMadeAgain(t *testing.T) {
	t.Parallel()
	s := open(t)
	user := s.stopper("stop-loop")
	job, err := s.c.SubmitTrainJob(t.Context(), cluster.TrainJobSpec{Name: "looping", Suspend: true, Runtime: cluster.UnownedRuntime, Labels: map[string]string{"app": "adapter"}})
	s.ok(err)
	_, err = s.c.WaitObject(t.Context(), cluster.JobSets, job.Namespace, job.Name, func(u *unstructured.Unstructured) bool { return u != nil })
	s.ok(err)
	s.ok(s.c.DeleteTrainJob(t.Context(), job, metav1.DeletePropagationForeground))
	r := s.stop(user, job.Name, "-n", job.Namespace, "--uid", string(job.UID), "--runtime-copy-labels", "app=adapter", "--timeout", "90s")
	if r.code != 0 {
		t.Errorf("stop ended with %d: %s", r.code, r.errors)
	}
	s.gone(cluster.TrainingRuntimes, job.Namespace, job.Name)
	for _, w := range s.deletesOf("stop-loop") {
		if w.Resource == "trainjobs" {
			t.Error("a TrainJob that was being deleted was deleted again")
		}
	}
}
