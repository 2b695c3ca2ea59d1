package scenarios_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/orphand/orphand/e2e/cluster"
	"github.com/orphand/orphand/e2e/daemon"
)

// stopped is what `orphand stop -o json` printed, and how it ended.
type stopped struct {
	Items []struct {
		Reference, UID, Status, Detail, Verdict, Reason string
	}
	TimedOut bool
	code     int
	errors   string
}

// command runs orphand as a person would.
func (s *scene) command(kubeconfig string, args ...string) (stdout, stderr string, code int) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, append(args, "--kubeconfig", kubeconfig)...)
	var out, err bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &err
	var exit *exec.ExitError
	if e := cmd.Run(); e != nil && !errors.As(e, &exit) {
		s.t.Error(e)
	}
	s.t.Logf("orphand %s: %d\n%s%s", strings.Join(args, " "), cmd.ProcessState.ExitCode(), err.String(), out.String())
	return out.String(), err.String(), cmd.ProcessState.ExitCode()
}

func (s *scene) stop(kubeconfig string, args ...string) stopped {
	s.t.Helper()
	out, said, code := s.command(kubeconfig, append([]string{"stop", "--yes", "-o", "json"}, args...)...)
	r := stopped{code: code, errors: said}
	if out != "" {
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			s.t.Errorf("the report cannot be read: %v", err)
		}
	}
	return r
}

// stopper gives a user exactly what stop needs.
func (s *scene) stopper(name string, but ...string) string {
	s.t.Helper()
	rules := daemon.StopPermissions()
	for _, resource := range but {
		rules = slices.DeleteFunc(rules, func(r rbacv1.PolicyRule) bool {
			return slices.Contains(r.Verbs, "delete") && slices.Contains(r.Resources, resource)
		})
	}
	kubeconfig, err := s.c.UserWithRules(s.t.Context(), name, rules)
	s.ok(err)
	return kubeconfig
}

// deletesOf lists the user's DELETEs in the audit log, each of which must be of one UID, in the background, with the
// object's own grace.
func (s *scene) deletesOf(user string) []cluster.Write {
	s.t.Helper()
	writes, err := s.c.Writes()
	s.ok(err)
	var list []cluster.Write
	for _, w := range writes {
		if w.User != user {
			continue
		}
		switch {
		case w.Verb == "deletecollection":
			s.t.Errorf("%s deleted a collection of %s", user, w.Resource)
		case w.Verb != "delete":
			continue
		case w.Options == nil, w.Options.Preconditions == nil, w.Options.Preconditions.UID == nil, *w.Options.Preconditions.UID == "":
			s.t.Errorf("DELETE of %s %s names no UID", w.Resource, w.NamespacedName)
		case w.Options.PropagationPolicy == nil, *w.Options.PropagationPolicy != metav1.DeletePropagationBackground:
			s.t.Errorf("DELETE of %s %s is not in the background", w.Resource, w.NamespacedName)
		case w.Options.GracePeriodSeconds != nil:
			s.t.Errorf("DELETE of %s %s has a grace of %d s", w.Resource, w.NamespacedName, *w.Options.GracePeriodSeconds)
		}
		list = append(list, w)
	}
	return list
}

func TestStopEndsARunningJob(t *testing.T) {
	t.Parallel()
	s := open(t)
	user := s.stopper("stop-plain")
	job, pods := s.run(cluster.TrainJobSpec{Name: "ending", On: []string{s.node("ending-0").Name, s.node("ending-1").Name}})
	r := s.stop(user, job.Namespace+"/"+job.Name)
	if r.code != 0 || r.TimedOut {
		t.Errorf("stop ended with %d: %s", r.code, r.errors)
	}
	for _, it := range r.Items {
		if it.Status != "Gone" {
			t.Errorf("%s is %s: %s", it.Reference, it.Status, it.Detail)
		}
	}
	for _, p := range pods {
		s.dead(p)
	}
	if n := len(s.deletesOf("stop-plain")); n == 0 {
		t.Error("the audit log has no DELETE of it")
	}
	if out, _, code := s.command(user, "find", job.Name, "-n", job.Namespace, "-o", "name"); code != 0 || out != "" {
		t.Errorf("find lists %q", out)
	}
	s.settles(job)
}

func TestStopSaysUnprovenOfExactlyThePodsOnACutOffNode(t *testing.T) {
	t.Parallel()
	s := open(t)
	user := s.stopper("stop-split")
	near, far := s.node("stopsplit-0"), s.node("stopsplit-1")
	job, pods := s.run(cluster.TrainJobSpec{Name: "stopsplit", On: []string{near.Name, far.Name}})
	s.cutOff(far)
	r := s.stop(user, job.Name, "-n", job.Namespace, "--timeout", "15s")
	if r.code != 3 || !r.TimedOut {
		t.Errorf("stop ended with %d: %s", r.code, r.errors)
	}
	for _, it := range r.Items {
		want := "Gone"
		if it.UID == string(pods[1].UID) {
			want = "Unproven"
		}
		if it.Status != want {
			t.Errorf("%s is %s, want %s: %s", it.Reference, it.Status, want, it.Detail)
		}
	}
	s.lives(pods[1])
	s.ok(far.BringBack())
	if r := s.stop(user, job.Name, "-n", job.Namespace, "--uid", string(job.UID), "--timeout", "60s"); r.code != 0 {
		t.Errorf("once the node is back, stop ended with %d: %s", r.code, r.errors)
	}
	s.dead(pods[1])
	s.deletesOf("stop-split")
}

func TestStopLeavesTheNextJobOfTheNameAlone(t *testing.T) {
	t.Parallel()
	s := open(t)
	user := s.stopper("stop-reuse")
	grace := int64(10)
	on := []string{s.node("reuse-0").Name}
	old, oldPods := s.run(cluster.TrainJobSpec{Name: "reuse", On: on, IgnoreSIGTERM: true, GraceSeconds: &grace})
	done := make(chan stopped)
	go func() { done <- s.stop(user, old.Name, "-n", old.Namespace, "--uid", string(old.UID)) }()
	s.gone(cluster.TrainJobs, old.Namespace, old.Name)
	s.gone(cluster.TrainingRuntimes, old.Namespace, old.Name)
	s.lives(oldPods[0])
	next, err := s.c.SubmitTrainJob(t.Context(), cluster.TrainJobSpec{Name: "reuse", On: on})
	s.ok(err)
	nextPod, err := s.c.WaitPod(t.Context(), cluster.PodsOf(next), func(p *corev1.Pod) bool {
		return p.UID != oldPods[0].UID && p.Status.Phase == corev1.PodRunning
	})
	s.ok(err)
	r := <-done
	if r.code != 0 {
		t.Errorf("stop ended with %d: %s", r.code, r.errors)
	}
	s.dead(oldPods[0])
	s.lives(nextPod)
	for _, it := range r.Items {
		if it.UID == string(next.UID) || it.UID == string(nextPod.UID) {
			t.Errorf("%s of the new job is in the report", it.Reference)
		}
	}
	for _, w := range s.deletesOf("stop-reuse") {
		if uid := *w.Options.Preconditions.UID; uid == next.UID || uid == nextPod.UID {
			t.Errorf("%s of the new job was deleted", w.NamespacedName)
		}
	}
	s.delete(next)
	s.settles(next)
}

func TestStopWithoutPermissionToDeletePodsDeletesNothing(t *testing.T) {
	t.Parallel()
	s := open(t)
	user := s.stopper("stop-weak", "pods")
	job, pods := s.run(cluster.TrainJobSpec{Name: "weak", On: []string{s.node("weak-0").Name}})
	r := s.stop(user, job.Name, "-n", job.Namespace)
	if r.code != 5 || !strings.Contains(r.errors, "delete on pods") {
		t.Errorf("stop ended with %d: %s", r.code, r.errors)
	}
	if w := s.deletesOf("stop-weak"); len(w) > 0 {
		t.Errorf("%d DELETEs were sent", len(w))
	}
	s.lives(pods[0])
	s.delete(job)
	s.settles(job)
}

func TestStopGoesOnUntilAnAdmissionPolicyLetsIt(t *testing.T) {
	t.Parallel()
	s := open(t)
	user := s.stopper("stop-denied")
	job, pods := s.run(cluster.TrainJobSpec{Name: "denied", On: []string{s.node("denied-0").Name}})
	lift := s.deny("denied", "jobset.x-k8s.io", "jobsets", job.Name)
	done := make(chan stopped)
	go func() { done <- s.stop(user, job.Name, "-n", job.Namespace, "--timeout", "90s") }()
	refused := func() int {
		n := 0
		for _, w := range s.deletesOf("stop-denied") {
			if w.Resource == "jobsets" && w.Code >= 400 {
				n++
			}
		}
		return n
	}
	for refused() < 2 {
		select {
		case r := <-done:
			t.Fatalf("stop ended with %d: %s", r.code, r.errors)
		case <-t.Context().Done():
			t.Fatal("the test's time is up")
		case <-time.After(200 * time.Millisecond):
		}
	}
	s.lives(pods[0])
	lift()
	if r := <-done; r.code != 0 || !strings.Contains(r.errors, "denied") {
		t.Errorf("stop ended with %d, and did not say who denied: %s", r.code, r.errors)
	}
	s.dead(pods[0])
}

// deny has an admission policy refuse the deletion of one object; the function takes it back.
func (s *scene) deny(policy, group, resource, name string) func() {
	s.t.Helper()
	fail := admissionv1.Fail
	api := s.c.Client().AdmissionregistrationV1()
	_, err := api.ValidatingAdmissionPolicies().Create(s.t.Context(), &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: policy},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: &fail,
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Delete},
				Rule:       admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{resource}}}}}},
			Validations: []admissionv1.Validation{{Expression: `oldObject.metadata.name != "` + name + `"`, Message: "not yet"}},
		}}, metav1.CreateOptions{})
	s.ok(err)
	_, err = api.ValidatingAdmissionPolicyBindings().Create(s.t.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: policy},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: policy,
			ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}}}, metav1.CreateOptions{})
	s.ok(err)
	lift := func() {
		for _, err := range []error{
			api.ValidatingAdmissionPolicyBindings().Delete(s.afterwards(), policy, metav1.DeleteOptions{}),
			api.ValidatingAdmissionPolicies().Delete(s.afterwards(), policy, metav1.DeleteOptions{})} {
			if err != nil && !apierrors.IsNotFound(err) {
				s.t.Error(err)
			}
		}
	}
	s.t.Cleanup(lift)
	s.inForce(name, "not yet")
	return lift
}

// inForce waits until a trial DELETE of a JobSet of that name, which need not be there, is refused with these words: rules of
// admission take a moment.
func (s *scene) inForce(name, words string) {
	s.t.Helper()
	for {
		err := s.c.Dynamic().Resource(cluster.JobSets).Namespace(metav1.NamespaceDefault).Delete(s.t.Context(), name,
			metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil && strings.Contains(err.Error(), words) {
			return
		}
		select {
		case <-s.t.Context().Done():
			s.t.Fatalf("nothing is refused with %q", words)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
