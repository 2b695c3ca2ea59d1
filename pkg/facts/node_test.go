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

func TestNobodyCanTellWhenATaintWasSetThatTheNodeLifecycleControllerWroteOver(t *testing.T) {
	added := metav1.Unix(1000, 0)
	for _, c := range []struct {
		name, by  string
		at        int64
		status    []string
		rewritten bool
	}{
		{"a person, after the controller", "kubectl-taint", 1100, []string{"kubelet", "kube-controller-manager"}, false},
		{"a person, just before the controller that wrote no more", "kubectl-taint", 990, []string{"kubelet"}, false},
		{"the controller", "kube-controller-manager", 1000, []string{"kubelet"}, true},
		{"a program that is kubelet and controllers", "k3s", 1000, []string{"k3s"}, true},
		{"such a program, which takes taints away as well", "k3s", 1100, []string{"k3s"}, true},
	} {
		n := taintedNode(c.by)
		n.Spec.Taints[0].TimeAdded = &added
		at := metav1.Unix(c.at, 0)
		n.ManagedFields[0].Time = &at
		for _, m := range c.status {
			n.ManagedFields = append(n.ManagedFields, metav1.ManagedFieldsEntry{Manager: m, Subresource: "status", Time: &at,
				FieldsV1: metav1.NewFieldsV1(`{"f:status":{}}`)})
		}
		got := FromNode(n)
		if got.TaintRewritten != c.rewritten || got.TaintedAt.Known() == c.rewritten {
			t.Errorf("%s: rewritten %v, set at %v", c.name, got.TaintRewritten, got.TaintedAt)
		}
	}
}
