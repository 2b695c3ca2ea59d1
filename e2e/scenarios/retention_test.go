package scenarios_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/orphand/orphand/e2e/cluster"
	"github.com/orphand/orphand/e2e/daemon"
	"github.com/orphand/orphand/pkg/access"
	"github.com/orphand/orphand/pkg/signals"
)

// retainer starts an orphand that carries out a policy, and returns it with the policy's file.
func (s *scene) retainer(policy string) (*daemon.Daemon, string) {
	s.t.Helper()
	_, err := s.c.UserWithRules(s.t.Context(), "retainer", access.Rules(access.Observe, access.Records, access.Enforce, access.Retention))
	s.ok(err)
	file := filepath.Join(s.t.TempDir(), "policy.yaml")
	s.ok(os.WriteFile(file, []byte(policy), 0o600))
	return s.also(daemon.Options{User: "retainer", Flags: []string{"--mode", "enforce", "--retention-policy", file}}), file
}

func swept(uid types.UID) daemon.Want {
	return daemon.Line("RetentionDeleted of "+string(uid), func(e daemon.Event) bool {
		return e.Code == signals.RetentionDeleted && e.JobUID == uid
	})
}

func TestFinishedTrainJobsGoByTheirOutcome(t *testing.T) {
	s := open(t)
	node := s.node("retention-0")
	d, file := s.retainer(`apiVersion: orphand.dev/v1alpha1
kind: RetentionPolicy
rules:
- name: training
  match: {kinds: [TrainJob], labels: {scenario: retention}}
  succeeded: 2s
  failed: 6s
`)
	submit := func(name string, edit func(*cluster.TrainJobSpec)) cluster.TrainJob {
		spec := cluster.TrainJobSpec{Name: "retention-" + name, Nodes: 1, Labels: map[string]string{"scenario": "retention"}, On: []string{node.Name}, Command: []string{"true"}}
		edit(&spec)
		job, err := s.c.SubmitTrainJob(t.Context(), spec)
		s.ok(err)
		return job
	}
	good := submit("good", func(*cluster.TrainJobSpec) {})
	bad := submit("bad", func(spec *cluster.TrainJobSpec) {
		spec.Command, spec.BackoffLimit = []string{"false"}, ptr.To(int32(0))
	})
	kept := submit("kept", func(spec *cluster.TrainJobSpec) { spec.Annotations = map[string]string{"orphand.dev/keep": "true"} })
	paused := submit("paused", func(spec *cluster.TrainJobSpec) { spec.Suspend = true })

	// Deleted by the policy, then followed like any other deletion.
	e := s.hearsFrom(d, swept(good.UID))
	s.hearsFrom(d, daemon.Over(good.UID).After(e))
	s.gone(cluster.TrainJobs, good.Namespace, good.Name)
	e = s.hearsFrom(d, swept(bad.UID))
	s.hearsFrom(d, daemon.Over(bad.UID).After(e))
	s.gone(cluster.TrainJobs, bad.Namespace, bad.Name)
	for _, job := range []cluster.TrainJob{kept, paused} {
		o, err := s.c.Dynamic().Resource(cluster.TrainJobs).Namespace(job.Namespace).Get(t.Context(), job.Name, metav1.GetOptions{})
		s.ok(err)
		if o.GetDeletionTimestamp() != nil || o.GetUID() != job.UID {
			t.Errorf("%s did not stay", job.Name)
		}
	}

	// A file with a mistake changes nothing but what is said of it.
	good2, err := os.ReadFile(file)
	s.ok(err)
	s.ok(os.WriteFile(file, []byte(strings.Replace(string(good2), "succeeded", "suceeded", 1)), 0o600))
	refused := s.hearsFrom(d, daemon.Code(signals.PolicyRefused))
	again := submit("again", func(*cluster.TrainJobSpec) {})
	s.hearsFrom(d, swept(again.UID).After(refused))

	// A job that was suspended goes once it was resumed and has ended.
	s.ok(resume(s, paused))
	s.hearsFrom(d, swept(paused.UID))

	deleted := 0
	for _, w := range s.deletesOf("retainer") {
		if w.Resource == "trainjobs" {
			deleted++
		}
	}
	if deleted != 4 {
		t.Errorf("%d DELETEs of TrainJobs, for 4 that went", deleted)
	}
}

func resume(s *scene, job cluster.TrainJob) error {
	_, err := s.c.Dynamic().Resource(cluster.TrainJobs).Namespace(job.Namespace).Patch(s.t.Context(), job.Name, types.MergePatchType,
		[]byte(`{"spec":{"suspend":false}}`), metav1.PatchOptions{})
	return err
}

// JobSet deletes a finished JobSet after its own TTL, and Trainer makes another for a TrainJob that failed. The policy below
// would have every JobSet gone at once; that of a TrainJob is the TrainJob's.
func TestAFailedTrainJobIsNotExecutedAgainBecauseOfThePolicy(t *testing.T) {
	s := open(t)
	node := s.node("retention-1")
	d, _ := s.retainer(`apiVersion: orphand.dev/v1alpha1
kind: RetentionPolicy
rules:
- name: jobsets
  match: {kinds: [JobSet, Job], expression: "object.metadata.name.startsWith('rerun')"}
  ttlAfterFinished: 0s
- name: training
  match: {kinds: [TrainJob], labels: {scenario: rerun}}
  failed: 8s
`)
	job, err := s.c.SubmitTrainJob(t.Context(), cluster.TrainJobSpec{Name: "rerun", Nodes: 1, Labels: map[string]string{"scenario": "rerun"},
		On: []string{node.Name}, Command: []string{"false"}, BackoffLimit: ptr.To(int32(0)),
		Edit: func(_, runtime *unstructured.Unstructured) {
			s.ok(unstructured.SetNestedField(runtime.Object, int64(3600), "spec", "template", "spec", "ttlSecondsAfterFinished"))
		}})
	s.ok(err)
	e := s.hearsFrom(d, swept(job.UID))
	s.hearsFrom(d, daemon.Over(job.UID).After(e))
	s.gone(cluster.TrainJobs, job.Namespace, job.Name)

	writes, err := s.c.Writes()
	s.ok(err)
	made := map[string]int{}
	for _, w := range writes {
		if w.Code == http.StatusCreated && w.Subresource == "" && (w.Name == job.Name || strings.HasPrefix(w.Name, job.Name+"-node-")) {
			made[w.Resource]++
		}
		if w.User == "retainer" && w.Verb == "delete" && w.Resource != "trainjobs" && strings.HasPrefix(w.Name, job.Name) {
			t.Errorf("the policy deleted %s %s of a live TrainJob", w.Resource, w.NamespacedName)
		}
	}
	if made["jobsets"] != 1 || made["jobs"] != 1 {
		t.Errorf("%d JobSets and %d Jobs were made for one execution", made["jobsets"], made["jobs"])
	}
	if d.Judge().Words() == 0 {
		t.Error("nothing was said of its pod")
	}
}
