package cluster

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// Node is a node name of the cluster, whether a Node object of that name exists
// or not. Accidents happen to the machine that has the name at present.
type Node struct {
	Name string

	c *Cluster
}

// NodeSpec describes a node to add.
type NodeSpec struct {
	Name string
	// Identity of its machine; empty fields are made up.
	Identity Identity
	// Labels of the Node object, besides the kubelet's own and a zone label: each
	// node is a zone of its own, so that one that is down does not slow down the
	// taints of another.
	Labels map[string]string
}

// OutOfService is the taint by which a person asserts that a machine is off.
func OutOfService() corev1.Taint {
	return corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}
}

// Node returns the node of that name, or nil if there never was one.
func (c *Cluster) Node(name string) *Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.state.Nodes[name]; !ok {
		return nil
	}
	return &Node{Name: name, c: c}
}

// AddNode starts another node and returns when it is Ready.
func (c *Cluster) AddNode(ctx context.Context, spec NodeSpec) (*Node, error) {
	n, err := c.addNode(spec)
	if err != nil {
		return nil, err
	}
	return n, n.WaitReady(ctx)
}

func (c *Cluster) addNode(spec NodeSpec) (*Node, error) {
	if c.Node(spec.Name) != nil {
		return nil, fmt.Errorf("node %s is there already", spec.Name)
	}
	m, err := c.newMachine(spec.Name, spec.Name, spec.Identity)
	if err != nil {
		return nil, err
	}
	if err := c.setMachine(spec.Name, m.Name, spec.Labels); err != nil {
		return nil, err
	}
	return c.Node(spec.Name), m.StartKubelet()
}

// setMachine records which machine a node name stands for; nil labels stay as
// they are.
func (c *Cluster) setMachine(node, machine string, labels map[string]string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.state.Nodes[node]
	n.Machine = machine
	if labels != nil || n.Labels == nil {
		n.Labels = map[string]string{corev1.LabelTopologyZone: node}
		for k, v := range labels {
			n.Labels[k] = v
		}
	}
	if n.Machines == 0 {
		n.Machines = 1
	}
	c.state.Nodes[node] = n
	return c.save()
}

// Machine is the one that has the node's name at present.
func (n *Node) Machine() *Machine {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	return n.c.machine(n.c.state.Nodes[n.Name].Machine)
}

// CutOff is [Machine.CutOff]: the control plane hears nothing more of the node,
// and its processes live on.
func (n *Node) CutOff() error { return n.Machine().CutOff() }

// BringBack is [Machine.BringBack]: the same machine in the same boot is heard
// again.
func (n *Node) BringBack() error { return n.Machine().BringBack() }

// PowerOff is [Machine.PowerOff]: kubelet and container processes are dead when
// it returns.
func (n *Node) PowerOff() error { return n.Machine().PowerOff() }

// Reboot is [Machine.Reboot]: everything on the machine dies, and it comes up
// with another boot ID.
func (n *Node) Reboot() (bootID string, err error) { return n.Machine().Reboot() }

// KillKubelet is [Machine.KillKubelet].
func (n *Node) KillKubelet() error { return n.Machine().KillKubelet() }

// StartKubelet is [Machine.StartKubelet].
func (n *Node) StartKubelet() error { return n.Machine().StartKubelet() }

// Delete deletes the Node object, as a person or an autoscaler does. The machine
// notices nothing; a kubelet registers again only when it is started anew.
func (n *Node) Delete(ctx context.Context) error {
	return n.c.client.CoreV1().Nodes().Delete(ctx, n.Name, metav1.DeleteOptions{})
}

// Reregister restarts the kubelet of the same machine in the same boot, which
// makes the Node object if that is gone, and waits until it is Ready.
func (n *Node) Reregister(ctx context.Context) error {
	m := n.Machine()
	if err := m.KillKubelet(); err != nil {
		return err
	}
	if err := m.StartKubelet(); err != nil {
		return err
	}
	return n.WaitReady(ctx)
}

// AsAnotherMachine gives the node's name to a new machine, with nothing on it,
// starts its kubelet and waits until the Node reports it. Empty fields of its
// identity are made up. The Node object, if it is still there, keeps its UID.
//
// The machine that had the name is cut off if it is up, and its processes live
// on; power it off, before or after, where they should not. It stays reachable
// in [Cluster.Machines] and can come back: see [Machine.Join].
func (n *Node) AsAnotherMachine(ctx context.Context, id Identity) (*Machine, error) {
	old := n.Machine()
	if old.Status() == "up" {
		if err := old.CutOff(); err != nil {
			return nil, err
		}
	}
	n.c.mu.Lock()
	s := n.c.state.Nodes[n.Name]
	s.Machines++
	n.c.state.Nodes[n.Name] = s
	n.c.mu.Unlock()
	m, err := n.c.newMachine(fmt.Sprintf("%s.%d", n.Name, s.Machines), n.Name, id)
	if err != nil {
		return nil, err
	}
	if err := n.c.setMachine(n.Name, m.Name, nil); err != nil {
		return nil, err
	}
	if err := m.StartKubelet(); err != nil {
		return nil, err
	}
	return m, n.WaitReady(ctx)
}

// Taint adds a taint to the Node, in place of one with its key and effect.
func (n *Node) Taint(ctx context.Context, taint corev1.Taint) error {
	return n.update(ctx, func(o *corev1.Node) {
		o.Spec.Taints = slices.DeleteFunc(o.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) })
		o.Spec.Taints = append(o.Spec.Taints, taint)
	})
}

// Untaint removes all taints with a key.
func (n *Node) Untaint(ctx context.Context, key string) error {
	return n.update(ctx, func(o *corev1.Node) {
		o.Spec.Taints = slices.DeleteFunc(o.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
	})
}

func (n *Node) update(ctx context.Context, change func(*corev1.Node)) error {
	nodes := n.c.client.CoreV1().Nodes()
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		o, err := nodes.Get(ctx, n.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(o)
		_, err = nodes.Update(ctx, o, metav1.UpdateOptions{})
		return err
	})
}

// Object returns the Node object, or nil if there is none.
func (n *Node) Object(ctx context.Context) (*corev1.Node, error) {
	o, err := n.c.client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return o, err
}

// WaitReady waits until the Node is Ready, reports the identity of its present
// machine, and has none of the taints that say otherwise.
func (n *Node) WaitReady(ctx context.Context) error {
	id, err := n.Machine().Identity()
	if err != nil {
		return err
	}
	_, err = n.c.WaitNode(ctx, n.Name, func(o *corev1.Node) bool {
		info := o.Status.NodeInfo
		return readyOf(o).Status == corev1.ConditionTrue &&
			info.BootID == id.BootID && info.SystemUUID == id.SystemUUID && info.MachineID == id.MachineID &&
			!slices.ContainsFunc(o.Spec.Taints, func(t corev1.Taint) bool {
				return t.Key == corev1.TaintNodeUnreachable || t.Key == corev1.TaintNodeNotReady
			})
	})
	return err
}

// WaitUnreachable waits until the control plane has noticed that it does not hear
// the node: its Ready condition is Unknown. That takes Options.MonitorGrace.
func (n *Node) WaitUnreachable(ctx context.Context) error {
	_, err := n.c.WaitNode(ctx, n.Name, func(o *corev1.Node) bool {
		return readyOf(o).Status == corev1.ConditionUnknown
	})
	return err
}

// readyOf returns the Ready condition; the zero value if there is none.
func readyOf(n *corev1.Node) corev1.NodeCondition {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c
		}
	}
	return corev1.NodeCondition{}
}

func taintKeys(n *corev1.Node) []string {
	var keys []string
	for _, t := range n.Spec.Taints {
		keys = append(keys, t.Key)
	}
	return keys
}
