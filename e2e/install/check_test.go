package install_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

// With each verb of each rule taken away, check asks for exactly that one, in the
// role that it is missing from. Added as printed, it is content again.
func TestCheckAsksForExactlyTheVerbThatIsMissing(t *testing.T) {
	if err := daemon.InstallRecords(t.Context(), shared); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = command(context.Background(), shared.Kubectl(), "delete", "crd", "orphans.orphand.dev")
	})
	gangs(t)
	for r, kind := range otherKinds() {
		define(t, r, kind)
	}
	policy := mustExist(t, "manifests/components/retention/policy.yaml")
	flags := []string{"--mode=enforce", "--leader-elect", "--leader-elect-lease-namespace=" + access.Namespace,
		"--retention-policy=" + policy, "--metrics-secure-address=:8443", "--kube-api-qps=0"}
	features := append(access.ForMode("enforce", true), access.Retention, access.Memory, access.Guard)
	calls := access.Of(features...)
	if all := access.Calls(); len(calls) != len(all) {
		t.Fatalf("%d calls of %d are looked at", len(calls), len(all))
	}
	begun, verbs := time.Now(), 0
	added := map[access.Feature]*atomic.Bool{}
	for _, f := range features {
		added[f] = &atomic.Bool{}
	}
	t.Run("each", func(t *testing.T) {
		for i, c := range calls {
			if c.Implied {
				continue // it is everyone's
			}
			for _, verb := range c.Verbs {
				verbs++
				t.Run(fmt.Sprintf("%s %s %s", c.Feature, verb, c), func(t *testing.T) {
					t.Parallel()
					rules := access.Rules(features...)
					rules[i].Verbs = slices.DeleteFunc(slices.Clone(rules[i].Verbs), func(v string) bool { return v == verb })
					if len(rules[i].Verbs) == 0 {
						rules = slices.Delete(rules, i, i+1)
					}
					user := fmt.Sprintf("lacks-%d-%s", i, verb)
					kubeconfig, err := shared.UserWithRules(t.Context(), user, rules)
					if err != nil {
						t.Fatal(err)
					}
					// Until the authorizer has heard of the role, all is missing.
					found := awaitCheck(t, kubeconfig, flags, func(found inspection, code int) bool { return code == 7 && len(found.Add) == 1 })
					if found.Add[0].Role != access.RoleName(c.Feature) || found.User != user {
						t.Fatalf("%+v", found)
					}
					var asked []rbacv1.PolicyRule
					if err := yaml.UnmarshalStrict([]byte(found.Add[0].Rules), &asked); err != nil {
						t.Fatal(err)
					}
					want := c
					want.Verbs = []string{verb}
					rule := want.Rule()
					if len(asked) != 1 || asked[0].String() != rule.String() {
						t.Fatalf("it asks for %v", asked)
					}
					if !added[c.Feature].CompareAndSwap(false, true) {
						return // one verb of each feature shows that it can be added as printed
					}
					if _, err := shared.UserWithRules(t.Context(), user, append(rules, asked...)); err != nil {
						t.Fatal(err)
					}
					awaitCheck(t, kubeconfig, flags, func(found inspection, code int) bool { return code == 0 && found.Complete })
				})
			}
		}
	})
	t.Logf("%d verbs, in %v", verbs, time.Since(begun).Round(time.Second))
}

// otherKinds are the kinds that retention alone knows, by where they are served.
func otherKinds() map[schema.GroupVersionResource]string {
	list := map[schema.GroupVersionResource]string{}
	for _, c := range access.Of(access.Retention) {
		for kind := range others() {
			if c.Group != "batch" && c.Group != "trainer.kubeflow.org" && c.Resource == strings.ToLower(kind)+"s" {
				list[schema.GroupVersionResource{Group: c.Group, Version: c.Version, Resource: c.Resource}] = kind
			}
		}
	}
	return list
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

// suspended makes a TrainJob that has no pods and costs nothing.
func suspended(t *testing.T, name string) cluster.TrainJob {
	t.Helper()
	job, err := shared.SubmitTrainJob(t.Context(), cluster.TrainJobSpec{Name: name, Suspend: true})
	if err != nil {
		t.Fatal(err)
	}
	return job
}
