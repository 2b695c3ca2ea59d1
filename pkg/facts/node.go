package facts

import (
	"bytes"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Taints that a decision reads.
const (
	TaintUnreachable  = corev1.TaintNodeUnreachable
	TaintOutOfService = corev1.TaintNodeOutOfService
)

// Ready is a node's Ready condition.
type Ready uint8

// The values of Ready. ReadyUnknown is also a node that has no such condition.
const (
	ReadyUnknown Ready = iota
	ReadyFalse
	ReadyTrue
)

// String is Kubernetes' own word.
func (r Ready) String() string {
	switch r {
	case ReadyTrue:
		return "True"
	case ReadyFalse:
		return "False"
	}
	return "Unknown"
}

// Machine is a machine's identity, by systemUUID and machineID. The zero Machine is an unknown one.
type Machine struct {
	SystemUUID, MachineID string
}

// Known says whether the node told anything of its machine.
func (m Machine) Known() bool { return m != Machine{} }

// Node is what a decision reads of a node.
type Node struct {
	Meta
	Machine Machine
	// Boot is the boot ID of the machine's kernel; empty when unknown.
	Boot  string
	Ready Ready
	// ReadySince is the Ready condition's last transition, by the writer's clock.
	ReadySince Instant
	// Heartbeat is when its kubelet last posted its status, by the kubelet's clock; at least every five minutes (v1.37.2).
	Heartbeat Instant
	// Unreachable says that the node carries the unreachable taint (any effect).
	Unreachable bool
	// OutOfService says that the node carries the out-of-service taint (any value, any effect: the attach-detach controller
	// and PodGC ask for no more).
	OutOfService bool
	// TaintedAt is when the out-of-service taint was set, where the object tells (timeAdded, or its manager's last
	// write); TaintedBy the field manager that set it, as far as that is known.
	TaintedAt Instant
	TaintedBy string
	// TaintRewritten says that kube-controller-manager wrote the list of taints last, as it does when an outage begins and ends:
	// of when this one was set, the object tells nothing.
	TaintRewritten bool
	// Deleting says that the Node was asked to go but a finalizer holds it.
	Deleting bool
}

// Heard says whether the node's kubelet talks to the API: a Ready of False is a kubelet that says so itself.
func (n *Node) Heard() bool { return n.Ready != ReadyUnknown && !n.Unreachable }

// MachineID is the machine's identity; where the node tells none, the Node object stands for its machine.
func (n *Node) MachineID() Machine {
	if n.Machine.Known() {
		return n.Machine
	}
	return Machine{MachineID: nodeAsMachine + string(n.UID)}
}

const nodeAsMachine = "node:"

// OfNode says whether the identity is not a machine's own but that of the Node with the given UID.
func (m Machine) OfNode(uid types.UID) bool { return m.MachineID == nodeAsMachine+string(uid) }

// Ref names the node.
func (n *Node) Ref() Ref { return Ref{Kind: "Node", Name: n.Name, UID: n.UID} }

// FromNode makes the record of a node.
func FromNode(node *corev1.Node) *Node {
	n := &Node{
		Meta:     metaOf(node),
		Machine:  Machine{SystemUUID: node.Status.NodeInfo.SystemUUID, MachineID: node.Status.NodeInfo.MachineID},
		Boot:     node.Status.NodeInfo.BootID,
		Deleting: node.DeletionTimestamp != nil,
	}
	n.Name = intern(n.Name)
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			n.ReadySince, n.Heartbeat = At(c.LastTransitionTime.Time), At(c.LastHeartbeatTime.Time)
			switch c.Status {
			case corev1.ConditionTrue:
				n.Ready = ReadyTrue
			case corev1.ConditionFalse:
				n.Ready = ReadyFalse
			}
		}
	}
	for i := range node.Spec.Taints {
		switch t := &node.Spec.Taints[i]; t.Key {
		case TaintUnreachable:
			n.Unreachable = true
		case TaintOutOfService:
			n.OutOfService = true
			n.TaintedAt = max(n.TaintedAt, atMeta(t.TimeAdded))
		}
	}
	if n.OutOfService {
		exact := n.TaintedAt.Known()
		for i := range node.ManagedFields {
			e := &node.ManagedFields[i]
			if e.FieldsV1 == nil || !bytes.Contains(e.FieldsV1.GetRawBytes(), []byte(`"f:taints"`)) {
				continue
			}
			// The taints are one atomic list: its owner is whoever wrote it last. The entry's time is the last write of
			// that manager, so it is an upper bound of when the taint was set.
			// kube-controller-manager v1.37.2 sets other taints, never this one: where it wrote last, who set this is lost.
			n.TaintedBy, n.TaintRewritten = "", e.Manager == "kube-controller-manager" && !exact
			if e.Manager != "kube-controller-manager" {
				n.TaintedBy = e.Manager
			}
			if !n.TaintedAt.Known() {
				n.TaintedAt = atMeta(e.Time)
			}
		}
	}
	return n
}
