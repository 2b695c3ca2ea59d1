package scenarios_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/orphand/orphand/e2e/cluster"
	"github.com/orphand/orphand/e2e/daemon"
	"github.com/orphand/orphand/pkg/access"
)

// A machine that is off and that nobody will bring back: only a person can know.
func TestAPersonsWordNeedsItsVerbAndCarriesTheNameThatTheServerKnows(t *testing.T) {
	t.Parallel()
	s := open(t)
	far := s.node("attested-0")
	job, pods := s.run(cluster.TrainJobSpec{Name: "attested", On: []string{far.Name}})
	s.ok(far.PowerOff())
	s.ok(far.WaitUnreachable(t.Context()))
	s.delete(job)
	s.asked(pods...)
	s.says(pods[0], "Unproven", "NodeUnreachable")
	s.dead(pods[0])
	s.record(job, func(o *unstructured.Unstructured) bool { return o != nil && len(nodesOf(o)) > 0 })

	s.kubectl("apply", "-f", "../../manifests/components/admission/attestation.yaml")
	t.Cleanup(func() {
		cmd := exec.CommandContext(s.afterwards(), s.c.Kubectl(), "delete", "-f", "../../manifests/components/admission/attestation.yaml")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	may := access.RulesOf("orphand-attest")
	mayNot := access.RulesOf("orphand-attest")
	for i := range mayNot {
		mayNot[i].Verbs = slices.DeleteFunc(slices.Clone(mayNot[i].Verbs), func(v string) bool { return v == "attest" })
	}
	bystander, err := s.c.UserWithRules(t.Context(), "bystander", mayNot)
	s.ok(err)
	oncall, err := s.c.UserWithRules(t.Context(), "oncall", may)
	s.ok(err)
	node, err := far.Object(t.Context())
	s.ok(err)
	vouch := func(kubeconfig string, more ...string) (string, int) {
		_, said, code := s.command(kubeconfig, append([]string{"attest", "node", far.Name, "--uid", string(node.UID), "-n", job.Namespace, "--yes"}, more...)...)
		return said, code
	}
	reason := []string{"--reason", "its plug is in my hand"}
	// A policy is in force only some time after it was made: a trial by who may not shows when it is.
	trial := `{"spec":{"attestations":[{"kind":"Node","uid":"` + string(node.UID) + `","by":"bystander","reason":"a trial","at":"2026-01-01T00:00:00Z"}]}}`
	for {
		out, err := s.kubectlAs(bystander, "patch", "orphan", daemon.RecordName(job), "-n", job.Namespace, "--type=merge", "--dry-run=server", "-p", trial)
		if err != nil && strings.Contains(out, "verb attest on orphans.orphand.dev") {
			break
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("who may not attest could: %v %s", err, out)
		case <-time.After(200 * time.Millisecond):
		}
	}
	if said, code := vouch(bystander, reason...); code != 5 || !strings.Contains(said, "verb attest on orphans.orphand.dev") {
		t.Errorf("who may not attest got %d: %s", code, said)
	}
	s.stillSays(pods[0], "Unproven", "NodeUnreachable")
	if said, code := vouch(oncall, reason...); code != 0 {
		t.Errorf("who may attest got %d: %s", code, said)
	}
	said := s.says(pods[0], "Gone", "Attested")
	if !strings.Contains(said.Evidence, "oncall") {
		t.Errorf("the evidence does not say who vouched: %s", said.Line)
	}
	s.settles(job)
	s.record(job, func(o *unstructured.Unstructured) bool {
		words, _, _ := unstructured.NestedSlice(o.Object, "spec", "attestations")
		if len(words) != 1 {
			return false
		}
		w := words[0].(map[string]any)
		return w["by"] == "oncall" && w["reason"] == "its plug is in my hand" && w["uid"] == string(node.UID) && daemon.Settled(o)
	})
}

// kubectlAs is what another person types.
func (s *scene) kubectlAs(kubeconfig string, args ...string) (string, error) {
	out, err := exec.CommandContext(s.t.Context(), s.c.Kubectl(), append(args, "--kubeconfig", kubeconfig)...).CombinedOutput()
	return string(out), err
}

func nodesOf(record *unstructured.Unstructured) []any {
	list, _, _ := unstructured.NestedSlice(record.Object, "status", "nodes")
	return list
}
