package facts

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func taintedNode(lastWriter string) *corev1.Node {
	n := &corev1.Node{}
	n.Spec.Taints = []corev1.Taint{{Key: TaintUnreachable}, {Key: TaintOutOfService}}
	n.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager:  lastWriter,
		FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:taints":{}}}`),
	}}
	return n
}

// A node's taints are one atomic list, and the node lifecycle controller writes it too.
func TestWhoeverSetAnOtherTaintLastIsNotTakenForThePersonWhoSetThisOne(t *testing.T) {
	if got := FromNode(taintedNode("kubectl-taint")).TaintedBy; got != "kubectl-taint" {
		t.Errorf("set by %q, want kubectl-taint", got)
	}
	if got := FromNode(taintedNode("kube-controller-manager")).TaintedBy; got != "" {
		t.Errorf("set by %q, want nobody known", got)
	}
}
