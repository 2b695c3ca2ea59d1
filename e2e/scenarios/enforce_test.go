package scenarios_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/orphand/orphand/e2e/cluster"
	"github.com/orphand/orphand/e2e/daemon"
	"github.com/orphand/orphand/pkg/signals"
)

// A cluster without a garbage collector leaves everything of a deleted TrainJob as it is.
func TestEnforceClearsWhatTheGarbageCollectorLeaves(t *testing.T) {
	c := uncollected(t, 3)
	const user = "enforcer"
	rules := daemon.EnforcePermissions()
	withoutPods := slices.DeleteFunc(slices.Clone(rules), func(r rbacv1.PolicyRule) bool {
		return slices.Contains(r.Verbs, "delete") && slices.Contains(r.Resources, "pods")
	})
	if _, err := c.UserWithRules(t.Context(), user, withoutPods); err != nil {
		t.Fatal(err)
	}
	d, err := daemon.Start(t.Context(), c, daemon.Options{Program: program, User: user,
		Flags: []string{"--mode", "enforce", "--gc-grace", "3s", "--runtime-copy-labels", "app=adapter", "--runtime-copy-grace", "3s"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Stop(); err != nil {
			t.Error(err)
		}
	})
	s := openOn(t, c, d)

	live, livePods := s.run(cluster.TrainJobSpec{Name: "run-10", Nodes: 1})
	marked := map[string]string{"app": "adapter"}
	job, pods := s.run(cluster.TrainJobSpec{Name: "run-1", Nodes: 2, Labels: marked})
	kept, keptPods := s.run(cluster.TrainJobSpec{Name: "kept", Nodes: 1})
	s.annotate(cluster.Pods, keptPods[0].Namespace, keptPods[0].Name, "orphand.dev/keep", "true")
	byHand := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "run-1-debug", Labels: map[string]string{"app": "train"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "sh", Image: "none", Command: []string{"sleep", "1000"}}}}}
	byHand, err = c.Client().CoreV1().Pods("default").Create(t.Context(), byHand, metav1.CreateOptions{})
	s.ok(err)

	s.delete(job)
	s.delete(kept)
	s.hears(daemon.Found(signals.GarbageCollectorStalled, job.UID))
	time.Sleep(2 * time.Second) // what must not happen has no event to wait for
	if w := s.deletesOf(user); len(w) > 0 {
		t.Errorf("without permission to delete pods, %d DELETEs were sent", len(w))
	}
	s.lives(pods[0])

	_, err = c.UserWithRules(t.Context(), user, rules)
	s.ok(err)
	s.ok(d.Stop())
	// A word that nobody has used yet can be taken back, and is then never used.
	words := func(n int) {
		t.Helper()
		s.record(kept, func(o *unstructured.Unstructured) bool {
			if o == nil {
				return false
			}
			list, _, _ := unstructured.NestedSlice(o.Object, "spec", "attestations")
			return len(list) == n
		})
	}
	words(0)
	word := []string{"attest", "pod", keptPods[0].Name, "--uid", string(keptPods[0].UID), "-n", kept.Namespace, "--yes"}
	if _, _, code := s.command(c.AdminKubeconfig(), append(word, "--reason", "I mistook it for another")...); code != 0 {
		t.Errorf("attest ended with %d", code)
	}
	words(1)
	if _, _, code := s.command(c.AdminKubeconfig(), append(word, "--revoke")...); code != 0 {
		t.Errorf("attest --revoke ended with %d", code)
	}
	words(0)
	d, err = daemon.Start(t.Context(), c, daemon.Options{Program: program, User: user,
		Flags: []string{"--mode", "enforce", "--gc-grace", "3s", "--runtime-copy-labels", "app=adapter", "--runtime-copy-grace", "3s"}})
	s.ok(err)
	s.d = d
	s.hears(daemon.Line("enforce", func(e daemon.Event) bool { return e.Code == signals.ModeChanged && e.State == "enforce" }))
	s.hears(daemon.Job(job.UID, "Cleared"))
	for _, p := range pods {
		s.says(p, "Gone", "KubeletConfirmed")
		s.dead(p)
	}
	s.lives(livePods[0])
	s.lives(keptPods[0])
	s.never(d, keptPods[0], "Gone", "")
	_, err = c.WaitPod(t.Context(), cluster.PodSelector{Namespace: "default", Name: byHand.Name}, func(p *corev1.Pod) bool { return p.DeletionTimestamp == nil })
	s.ok(err)
	for _, w := range s.deletesOf(user) {
		if uid := *w.Options.Preconditions.UID; w.Resource == "trainjobs" || uid == livePods[0].UID || uid == keptPods[0].UID || uid == byHand.UID || w.Name == live.Name || w.Resource == "jobsets" && w.Name == kept.Name {
			t.Errorf("%s %s was deleted", w.Resource, w.NamespacedName)
		}
		if w.Options.Preconditions.ResourceVersion == nil && w.Resource != "orphans" {
			t.Errorf("DELETE of %s %s names no resourceVersion", w.Resource, w.NamespacedName)
		}
	}
	m, err := d.Metrics(t.Context())
	s.ok(err)
	if n := m[`orphand_removed_total{cause="orphan",kind="Pod"}`]; n != 2 {
		t.Errorf("orphand_removed_total of pods is %v, want 2", n)
	}
	if n := m[`orphand_refusals_total{reason="Kept"}`]; n == 0 {
		t.Error("no refusal is counted for what is kept")
	}
	// What the daemon refuses stands on the record, and is written no further while it stays.
	recorded := s.record(kept, func(o *unstructured.Unstructured) bool {
		list, _, _ := unstructured.NestedSlice(o.Object, "status", "refusals")
		return len(list) == 1 && list[0].(map[string]any)["reason"] == "Kept"
	})
	out, _, code := s.command(c.AdminKubeconfig(), "explain", "trainjob", kept.Name, "-n", kept.Namespace)
	if code != 0 || !strings.Contains(out, "not deleted (Kept)") || !strings.Contains(out, "jobset/"+kept.Name) || !strings.Contains(out, "orphand.dev/keep") {
		t.Errorf("explain does not repeat why the JobSet is kept: %d\n%s", code, out)
	}
	time.Sleep(35 * time.Second) // longer than a change would wait to be written
	again, err := c.Dynamic().Resource(daemon.Orphans).Namespace(kept.Namespace).Get(t.Context(), recorded.GetName(), metav1.GetOptions{})
	s.ok(err)
	if again.GetResourceVersion() != recorded.GetResourceVersion() {
		t.Errorf("the record was written again although nothing changed: %v, then %v", recorded.Object["status"], again.Object["status"])
	}
}

// annotate sets an annotation.
func (s *scene) annotate(kind schema.GroupVersionResource, namespace, name, key, value string) {
	s.t.Helper()
	_, err := s.c.WaitObject(s.t.Context(), kind, namespace, name, func(u *unstructured.Unstructured) bool {
		if u == nil {
			return false
		}
		a := u.GetAnnotations()
		if a == nil {
			a = map[string]string{}
		}
		a[key] = value
		u.SetAnnotations(a)
		_, err := s.c.Dynamic().Resource(kind).Namespace(namespace).Update(s.t.Context(), u, metav1.UpdateOptions{})
		return err == nil
	})
	s.ok(err)
}
