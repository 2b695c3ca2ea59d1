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
	// TaintRewritten says that the node lifecycle controller wrote the list of taints last, as it does when an outage begins
	// and ends: of when this one was set, the object tells nothing.
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
		n.readTaintWriter(node)
	}
	return n
}

// readTaintWriter reads who set the out-of-service taint, and when. A node's taints are one atomic list, whose owner is
// whoever wrote it last, and whose time is that of the owner's last write: an upper bound of when the taint was set.
//
// The node lifecycle controller writes the list too, and never this taint (v1.37.2). Where it wrote last, all is lost. It is
// known by its name; where kubelet and controllers are one program with one name, by the node's status, which a person who
// sets a taint does not write.
func (n *Node) readTaintWriter(node *corev1.Node) {
	for i := range node.ManagedFields {
		e := &node.ManagedFields[i]
		if e.FieldsV1 == nil || !bytes.Contains(e.FieldsV1.GetRawBytes(), []byte(`"f:taints"`)) {
			continue
		}
		at := atMeta(e.Time)
		n.TaintRewritten = e.Manager == "kube-controller-manager" || writesStatus(node, e.Manager)
		n.TaintedBy = ""
		if n.TaintRewritten {
			continue
		}
		n.TaintedBy = e.Manager
		if !n.TaintedAt.Known() {
			n.TaintedAt = at
		}
	}
	if n.TaintedAt.Known() {
		n.TaintRewritten = false
	}
}

// writesStatus says whether a manager has written the node's status: a kubelet, or a program that is one among others.
func writesStatus(node *corev1.Node, manager string) bool {
	for i := range node.ManagedFields {
		if e := &node.ManagedFields[i]; e.Manager == manager && e.Subresource == "status" {
			return true
		}
	}
	return false
}
