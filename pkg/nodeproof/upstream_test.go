package nodeproof

import (
	"testing"

	"github.com/orphand/orphand/pkg/facts"
)

// TestWhatKubernetesDoes holds what the source of Kubernetes v1.37.2 shows a kubelet, or a cluster, to do beyond what the
// simulator's does.
func TestWhatKubernetesDoes(t *testing.T) {
	cases := map[string]func(*testing.T){
		"a sidecar that another machine's kubelet ended says nothing of when the app container did": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.seePod(running(7), func(p *facts.Pod) {
				p.Containers = append(p.Containers, facts.Container{Role: facts.Sidecar, State: facts.Running, HasID: true, ID: 20, Started: 900 * second})
			})
			// It failed, is reported as ended, and is started again by a kubelet that is cut off by then.
			s.seePod(func(p *facts.Pod) { p.Containers[0].State, p.Containers[0].Finished = facts.Terminated, s.now })
			s.wait(60)
			s.seeNode(s.node("n1", "N1", "m2", "b7"))
			// The other machine starts the sidecar, pulls the image of the app container, and is told to end the pod.
			s.seePod(func(p *facts.Pod) { p.Containers[1].ID, p.Containers[1].Started = 21, s.now })
			s.seePod(s.asked())
			s.wait(20)
			s.seePod(func(p *facts.Pod) {
				p.Phase, p.PhaseAt = facts.PhaseFailed, s.now
				p.Containers[1].State, p.Containers[1].Finished = facts.Terminated, s.now
			})
			s.judge()
			s.seeNode(s.node("n1", "N1", "m2", "b8")) // which accounts for the other machine
			s.vanish(Deleted)
			s.want(Unproven, RemovedUnconfirmed)
		},
		"a machine that has another's identity has not booted for it": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.seeNode(s.node("n2", "N2", "m1", "b2")) // made from the same image, with the same UUID
			s.seePod(running(7))
			s.seePod(s.asked())
			s.seeNode(s.node("n1", "N1", "m1", "b1", silent))
			s.want(Unproven, NodeUnreachable)
			s.wait(60)
			s.seeNode(s.node("n2", "N2", "m1", "b3"))
			s.want(Unproven, NodeUnreachable)
		},
		"a machine that tells nothing of itself may be back under any Node that tells as little": func(t *testing.T) {
			s := newScene(t)
			nameless := func(n *facts.Node) { n.Machine = facts.Machine{} }
			s.seeNode(s.node("n1", "N1", "", "b1", nameless))
			s.seePod(running(7))
			s.seePod(s.asked())
			s.want(Alive, Terminating)
			s.seeNode(s.node("n1", "N1", "", "b1", nameless, silent))
			s.endNode("n1")
			s.wait(10)
			s.seeNode(s.node("n2", "N2", "", "b1", nameless))
			s.wait(200)
			s.want(Unproven, NodeDeleted)
		},
		"a kubelet that was restarted twice has the delay of weak evidence anew": func(t *testing.T) {
			s := terminating(t)
			s.seePod(func(p *facts.Pod) { p.Phase, p.Containers = facts.PhaseFailed, []facts.Container{{Role: facts.App}} })
			s.wait(20)
			s.seePod(running(7), s.asked(), func(p *facts.Pod) { p.Phase = facts.PhaseFailed })
			s.wait(20)
			s.seePod(lost)
			s.want(Alive, Terminating)
			s.wait(30)
			s.want(Gone, KubeletConfirmed)
		},
		"a pod that no kubelet took up was not refused by one": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.seePod(running(0), func(p *facts.Pod) {
				p.Phase, p.Started, p.PhaseWriter, p.Containers = facts.PhaseFailed, 0, "some-controller", []facts.Container{{Role: facts.App}}
			})
			s.vanish(Deleted)
			s.wait(60)
			s.want(Unproven, RemovedUnconfirmed)
		},
		"an app container that waits behind a sidecar that never came up never ran": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.seePod(running(0), func(p *facts.Pod) {
				p.Phase = facts.PhasePending
				p.Containers = []facts.Container{{Role: facts.Sidecar, State: facts.Running, HasID: true, ID: 1}, {Role: facts.App, State: facts.Waiting}}
			})
			s.seePod(s.asked())
			s.seePod(func(p *facts.Pod) { p.Phase = facts.PhaseFailed; p.Containers[0].State = facts.Terminated })
			s.want(Gone, KubeletConfirmed)
		},
	}
	for name, test := range cases {
		t.Run(name, test)
	}
}
