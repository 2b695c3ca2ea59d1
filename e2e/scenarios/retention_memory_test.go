package scenarios_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/orphand/orphand/e2e/daemon"
	"github.com/orphand/orphand/pkg/access"
	"github.com/orphand/orphand/pkg/signals"
	"github.com/orphand/orphand/pkg/sweep"
)

var plainJobs = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}

// ended puts a Job that is over, as nobody's: the Job controller makes no pods for it.
func (s *scene) ended(name, label string) types.UID {
	s.t.Helper()
	jobs := s.c.Dynamic().Resource(plainJobs).Namespace(metav1.NamespaceDefault)
	made, err := jobs.Create(s.t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "batch/v1", "kind": "Job", "metadata": map[string]any{"name": name, "labels": map[string]any{"scenario": label}},
		"spec": map[string]any{"managedBy": "example.com/nobody", "template": map[string]any{"spec": map[string]any{
			"restartPolicy": "Never", "containers": []any{map[string]any{"name": "c", "image": "none"}}}}},
	}}, metav1.CreateOptions{})
	s.ok(err)
	now := time.Now().UTC().Truncate(time.Second).Format(time.RFC3339)
	over := func(kind string) map[string]any {
		return map[string]any{"type": kind, "status": "True", "reason": "CompletionsReached", "lastTransitionTime": now}
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"startTime": now, "completionTime": now, "succeeded": 1,
		"conditions": []any{over("SuccessCriteriaMet"), over("Complete")}}})
	s.ok(err)
	_, err = jobs.Patch(s.t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	s.ok(err)
	return made.GetUID()
}

func TestWhatComesBackWhileOrphandIsDownIsLeftAlone(t *testing.T) {
	s := open(t)
	const user, label = "rememberer", "memory"
	_, err := s.c.UserWithRules(t.Context(), user, access.Rules(access.Observe, access.Records, access.Enforce, access.Retention, access.Memory))
	s.ok(err)
	file := filepath.Join(t.TempDir(), "policy.yaml")
	s.ok(os.WriteFile(file, []byte(fmt.Sprintf(`apiVersion: orphand.dev/v1alpha1
kind: RetentionPolicy
rules:
- name: jobs
  match: {kinds: [Job], labels: {scenario: %s}}
  ttlAfterFinished: 0s
`, label)), 0o600))
	d := s.also(daemon.Options{User: user, Flags: []string{"--mode", "enforce", "--retention-policy", file, "--leader-elect-lease-namespace", metav1.NamespaceDefault}})

	first := s.ended("memory-boot", label)
	s.hearsFrom(d, swept(first))
	_, err = s.c.WaitObject(t.Context(), corev1.SchemeGroupVersion.WithResource("configmaps"), metav1.NamespaceDefault, sweep.StoreName,
		func(o *unstructured.Unstructured) bool { return o != nil })
	s.ok(err)
	s.gone(plainJobs, metav1.NamespaceDefault, "memory-boot")

	// Nothing is said at the end: what is known is what was written before it.
	s.ok(d.Kill())
	again, other := s.ended("memory-boot", label), s.ended("memory-other", label)
	s.ok(d.Restart(t.Context()))
	s.hearsFrom(d, daemon.Line("RecreateLoop of the Job that came back", func(e daemon.Event) bool {
		return e.Finding == string(signals.RecreateLoop) && e.JobUID == again
	}))
	s.hearsFrom(d, swept(other))
	o, err := s.c.Dynamic().Resource(plainJobs).Namespace(metav1.NamespaceDefault).Get(t.Context(), "memory-boot", metav1.GetOptions{})
	s.ok(err)
	if o.GetUID() != again || o.GetDeletionTimestamp() != nil {
		t.Error("the Job that came back did not stay")
	}
	deleted := 0
	for _, w := range s.deletesOf(user) {
		if w.Resource == plainJobs.Resource {
			deleted++
		}
	}
	if deleted != 2 {
		t.Errorf("%d DELETEs of Jobs, for 2 that went", deleted)
	}
}
