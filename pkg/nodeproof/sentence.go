package nodeproof

import "strings"

// Sentence says the verdict and its reason to a person, about a pod on a node.
func (p Pair) Sentence(pod, node string) string {
	return strings.NewReplacer("POD", pod, "NODE", node).Replace(p.sentence())
}

func (p Pair) sentence() string {
	switch p {
	case Pair{Alive, Pending}:
		return "Pod POD waits for a node."
	case Pair{Alive, Running}:
		return "Pod POD runs on node NODE."
	case Pair{Alive, Terminating}:
		return "Pod POD was asked to end, and its kubelet on node NODE has not confirmed that it did."
	case Pair{Alive, NodesUnreadable}:
		return "Pod POD counts as alive, since Nodes may not be read and so nothing can be proven."
	case Pair{Unproven, RemovedUnseen}:
		return "Pod POD vanished while nobody watched; its processes may run on node NODE."
	case Pair{Unproven, RemovedUnconfirmed}:
		return "Pod POD was removed without its kubelet's confirmation; its processes may run on node NODE."
	case Pair{Unproven, NodeReplaced}:
		return "Node NODE is another machine now; processes of pod POD may run on the former one."
	case Pair{Unproven, NodeDeleted}:
		return "Node NODE was deleted, which proves nothing yet; processes of pod POD may run on its machine."
	case Pair{Unproven, NodeUnreachable}:
		return "Node NODE cannot be heard; processes of pod POD may run on it."
	case Pair{Gone, NeverStarted}:
		return "Pod POD is gone: it was never given to a node, and never will be."
	case Pair{Gone, KubeletConfirmed}:
		return "Pod POD is gone: its kubelet on node NODE confirmed that its containers have ended."
	case Pair{Gone, NodeRebooted}:
		return "Pod POD is gone: the machine that it ran on has been rebooted since."
	case Pair{Gone, NodeDeleted}:
		return "Pod POD is gone: node NODE was deleted, and its machine has not been seen since."
	case Pair{Gone, OutOfService}:
		return "Pod POD is gone: node NODE cannot be heard and is marked as out of service."
	case Pair{Gone, Attested}:
		return "Pod POD is gone: somebody vouches for it."
	}
	return ""
}
