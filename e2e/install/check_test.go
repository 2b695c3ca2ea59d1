package install_test

import (
	"context"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/orphand/orphand/e2e/cluster"
	"github.com/orphand/orphand/e2e/daemon"
	"github.com/orphand/orphand/pkg/access"
)

// inspection is the part of orphand check's JSON that tests look at.
type inspection struct {
	User     string
	Complete bool
	Add      []struct{ Role, Rules string }
}

func check(t *testing.T, kubeconfig string, flags ...string) (found inspection, code int, text string) {
	t.Helper()
	args := append([]string{"check", "--kubeconfig", kubeconfig, "-o", "json"}, flags...)
	output, err := exec.CommandContext(t.Context(), program, args...).Output()
	if err != nil {
		exit, ok := err.(*exec.ExitError)
		if !ok {
			t.Fatal(err)
		}
		code = exit.ExitCode()
	}
	if err := json.Unmarshal(output, &found); err != nil {
		t.Fatalf("exit %d: %v\n%s", code, err, output)
	}
	return found, code, string(output)
}

// With each rule taken away, check asks for exactly that rule; added as printed, it
// is content again.
func TestCheckAsksForExactlyTheRuleThatIsMissing(t *testing.T) {
	apply(t, "enforce")
	uninstall(t, "enforce")
	kubeconfig := directly(t)
	flags := []string{"--mode", "enforce", "--leader-elect"}
	found, code, text := check(t, kubeconfig, flags...)
	if code != 0 || !found.Complete || found.User != "system:serviceaccount:orphand:orphand" {
		t.Fatalf("exit %d\n%s", code, text)
	}

	roles := shared.Client().RbacV1().ClusterRoles()
	for _, feature := range []access.Feature{access.Observe, access.Records, access.Enforce} {
		for i, c := range access.Of(feature) {
			if c.Implied || c.Resource == "podgroups" {
				continue // Everyone's, and not served here.
			}
			role, err := roles.Get(t.Context(), "orphand-"+string(feature), metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			whole := role.Rules
			role.Rules = append(append([]rbacv1.PolicyRule(nil), whole[:i]...), whole[i+1:]...)
			if role, err = roles.Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			found := awaitCheck(t, kubeconfig, flags, func(found inspection, code int) bool { return code == 7 && !found.Complete })
			if len(found.Add) != 1 || found.Add[0].Role != access.RoleName(feature) {
				t.Fatalf("without %s: %+v", c, found)
			}
			var rules []rbacv1.PolicyRule
			if err := yaml.UnmarshalStrict([]byte(found.Add[0].Rules), &rules); err != nil {
				t.Fatal(err)
			}
			want := c.Rule()
			if len(rules) != 1 || rules[0].String() != want.String() {
				t.Errorf("without %v it asks for %v", want, rules)
			}
			role.Rules = append(role.Rules[:len(role.Rules):len(role.Rules)], rules...)
			if role, err = roles.Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			awaitCheck(t, kubeconfig, flags, func(found inspection, code int) bool { return code == 0 && found.Complete })
			role.Rules = whole // In the table's order again.
			if _, err = roles.Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// awaitCheck asks until the answer is as wanted: the authorizer hears of a changed
// role by a watch of its own.
func awaitCheck(t *testing.T, kubeconfig string, flags []string, is func(inspection, int) bool) inspection {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		found, code, text := check(t, kubeconfig, flags...)
		if is(found, code) {
			return found
		}
		if time.Now().After(deadline) {
			t.Fatalf("exit %d\n%s", code, text)
		}
	}
}

func TestCheckNamesTheKindsThatAreNotInstalled(t *testing.T) {
	_, code, text := check(t, shared.AdminKubeconfig())
	if code != 7 || !strings.Contains(text, "manifests/base/crds") {
		t.Errorf("exit %d\n%s", code, text)
	}
}

// The API server asks for create when an apply makes an object that is not there.
func TestWithoutCreateNoRecordIsMade(t *testing.T) {
	if err := daemon.InstallRecords(t.Context(), shared); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = command(context.Background(), shared.Kubectl(), "delete", "crd", "orphans.orphand.dev")
	})
	rules := access.Rules(access.Observe, access.Records)
	for i, r := range rules {
		for j, verb := range r.Verbs {
			if verb == "create" {
				rules[i].Verbs = append(r.Verbs[:j:j], r.Verbs[j+1:]...)
				break
			}
		}
	}
	kubeconfig, err := shared.UserWithRules(t.Context(), "no-create", rules)
	if err != nil {
		t.Fatal(err)
	}
	d, err := daemon.Start(t.Context(), shared, daemon.Options{Program: program, Kubeconfig: kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Stop() })
	job := suspended(t, "unrecorded")
	if err := shared.DeleteTrainJob(t.Context(), job, metav1.DeletePropagationBackground); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Await(t.Context(), daemon.Over(job.UID)); err != nil {
		t.Fatal(err)
	}
	m, err := d.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if m[`rest_client_requests_total{code="403",method="PATCH"}`] == 0 {
		t.Error("a record was made without the permission to create one")
	}
}

// suspended makes a TrainJob that has no pods and costs nothing.
func suspended(t *testing.T, name string) cluster.TrainJob {
	t.Helper()
	job, err := shared.SubmitTrainJob(t.Context(), cluster.TrainJobSpec{Name: name, Suspend: true})
	if err != nil {
		t.Fatal(err)
	}
	return job
}

func TestTheRetentionOverlayIsAcceptedAndLacksNothing(t *testing.T) {
	apply(t, "retention")
	uninstall(t, "retention")
	policy := mustExist(t, "manifests/components/retention/policy.yaml")
	found, code, text := check(t, directly(t), "--mode", "enforce", "--leader-elect", "--retention-policy", policy)
	if code != 0 || !found.Complete {
		t.Errorf("exit %d\n%s", code, text)
	}
}
