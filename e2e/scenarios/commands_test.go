package scenarios_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/orphand/orphand/e2e/cluster"
	"github.com/orphand/orphand/e2e/daemon"
	"github.com/orphand/orphand/pkg/access"
)

// The way of a person on call: what is left, why, may it run again, and the word
// that only a person can give.
func TestAPersonFindsExplainsWaitsAndVouches(t *testing.T) {
	t.Parallel()
	s := open(t)
	const user = "on-call"
	person, err := s.c.UserWithRules(t.Context(), user, append(daemon.StopPermissions(), access.RulesOf("orphand-attest")...))
	s.ok(err)
	says := func(code int, words []string, args ...string) {
		t.Helper()
		out, errors, got := s.command(person, args...)
		if got != code {
			t.Errorf("orphand %s: exit code %d, want %d", strings.Join(args, " "), got, code)
		}
		for _, word := range words {
			if !strings.Contains(out+errors, word) {
				t.Errorf("orphand %s does not say %q", strings.Join(args, " "), word)
			}
		}
	}
	far := s.node("vouched-0")
	node, err := far.Object(t.Context())
	s.ok(err)
	job, pods := s.run(cluster.TrainJobSpec{Name: "vouched", On: []string{far.Name}})
	pod := pods[0]
	says(4, nil, "wait", job.Name, "--uid", string(job.UID), "--timeout", "1s")
	s.cutOff(far)
	s.delete(job)
	s.asked(pod)
	s.says(pod, "Unproven", "NodeUnreachable")
	s.gone(cluster.JobSets, job.Namespace, job.Name)
	says(0, []string{"default/pod/" + pod.Name}, "find", job.Name, "-o", "name")
	says(0, []string{"Unproven", "NodeUnreachable"}, "find", job.Name)
	says(0, []string{"Unproven", "out-of-service"}, "explain", "pod", pod.Name)
	says(3, []string{far.Name}, "wait", job.Name, "--uid", string(job.UID), "--timeout", "1s")

	s.ok(s.c.ForceDeletePod(t.Context(), pod))
	s.says(pod, "Unproven", "RemovedUnconfirmed")
	says(3, nil, "wait", job.Name, "--uid", string(job.UID), "--timeout", "1s")
	s.record(job, func(o *unstructured.Unstructured) bool {
		return o != nil && strings.Contains(fmt.Sprint(o.Object["status"]), "RemovedUnconfirmed")
	})
	says(0, []string{"Unproven", "RemovedUnconfirmed"}, "explain", "orphan", daemon.RecordName(job))
	s.lives(pod)

	s.ok(far.PowerOff())
	says(0, nil, "attest", "node", far.Name, "--yes", "--uid", string(node.UID), "--reason", "pulled the plug")
	gone := s.says(pod, "Gone", "Attested")
	for _, word := range []string{user, "pulled the plug"} {
		if !strings.Contains(gone.Evidence, word) {
			t.Errorf("the evidence does not name %q: %s", word, gone.Evidence)
		}
	}
	s.settles(job)
	says(0, nil, "wait", job.Name, "--uid", string(job.UID), "--timeout", "1m")
}
