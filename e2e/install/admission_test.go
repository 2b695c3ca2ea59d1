package install_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/orphand/orphand/e2e/cluster"
)

// withComponents applies an overlay with some components, and takes it away when the
// test ends.
func withComponents(t *testing.T, overlay string, components ...string) {
	t.Helper()
	dir := kustomization(t, overlay, components...)
	kubectl(t, "apply", "--server-side", "-k", dir)
	t.Cleanup(func() {
		_, _ = command(context.Background(), shared.Kubectl(), "delete", "--wait", "--timeout=60s", "-k", dir)
	})
}

// kustomization writes one of an overlay with some components into a directory of
// the repository, which goes when the test ends.
func kustomization(t *testing.T, overlay string, components ...string) string {
	t.Helper()
	base, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(base, ".kustomize-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	text := "resources: [../manifests/overlays/" + overlay + "]\ncomponents:\n"
	for _, c := range components {
		text += "- ../manifests/components/" + c + "\n"
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func as(t *testing.T, kubeconfig string, stdin string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), shared.Kubectl(), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	cmd.Stdin = strings.NewReader(stdin)
	output, err := cmd.CombinedOutput()
	return string(output), err
}

func TestTheAdmissionComponentLetsOnlyThoseAttestWhoMayAndOnlyInTheirOwnName(t *testing.T) {
	withComponents(t, "observe", "admission", "network-policy")
	kubectl(t, "wait", "--for=condition=Established", "crd/orphans.orphand.dev", "--timeout=30s")
	record := `apiVersion: orphand.dev/v1alpha1
kind: Orphan
metadata: {name: job-12345678, namespace: default}
spec: {trainJob: {name: job, uid: 12345678-0000}}
`
	if output, err := as(t, shared.AdminKubeconfig(), record, "apply", "-f", "-"); err != nil {
		t.Fatal(output)
	}
	word := func(by string) string {
		return fmt.Sprintf(`{"spec":{"attestations":[{"kind":"Pod","uid":"u1","by":%q,"reason":"I pulled the plug","at":"2026-01-01T00:00:00Z"}]}}`, by)
	}
	patch := func(kubeconfig, by string) (string, error) {
		return as(t, kubeconfig, "", "patch", "orphan", "job-12345678", "--type=merge", "-p", word(by))
	}
	editor, err := shared.UserWithRules(t.Context(), "editor", []rbacv1.PolicyRule{{APIGroups: []string{"orphand.dev"}, Resources: []string{"orphans"}, Verbs: []string{"get", "patch"}}})
	if err != nil {
		t.Fatal(err)
	}
	oncall, err := shared.UserWithRules(t.Context(), "oncall", []rbacv1.PolicyRule{{APIGroups: []string{"orphand.dev"}, Resources: []string{"orphans"}, Verbs: []string{"get", "patch", "attest"}}})
	if err != nil {
		t.Fatal(err)
	}
	// A policy is in force only some time after it was made.
	deadline := time.Now().Add(40 * time.Second)
	for {
		output, err := patch(editor, "editor")
		if err != nil && strings.Contains(output, "verb attest on orphans.orphand.dev") {
			break
		}
		if err == nil {
			kubectl(t, "patch", "orphan", "job-12345678", "--type=merge", "-p", `{"spec":{"attestations":null}}`)
		}
		if time.Now().After(deadline) {
			t.Fatalf("who may not attest did: %v %s", err, output)
		}
	}
	if output, err := patch(oncall, "somebody-else"); err == nil || !strings.Contains(output, "by must be oncall") {
		t.Errorf("in another's name: %v %s", err, output)
	}
	if output, err := patch(oncall, "oncall"); err != nil {
		t.Errorf("in one's own name: %v %s", err, output)
	}

	job, err := shared.SubmitTrainJob(t.Context(), cluster.TrainJobSpec{Name: "forced"})
	if err != nil {
		t.Fatal(err)
	}
	pods, err := shared.WaitRunning(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	output, err := as(t, shared.AdminKubeconfig(), "", "delete", "pod", pods[0].Name, "--force", "--grace-period=0", "--wait=false")
	if err != nil || !strings.Contains(output, "a force delete proves nothing") {
		t.Errorf("no warning: %v %s", err, output)
	}
	kubectl(t, "delete", "trainjob", job.Name)
}
