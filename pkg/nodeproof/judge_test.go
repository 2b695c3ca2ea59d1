package nodeproof

import (
	"testing"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	"k8s.io/apimachinery/pkg/types"
)

// scene is one pod and the nodes of a cluster, with a clock that stands until it is moved.
type scene struct {
	t     *testing.T
	now   facts.Instant
	nodes *Nodes
	h     *History
	pod   facts.Pod
	rv    int
	reads int
	// live answers live reads; nil for a node that is not there.
	live map[string]*facts.Node
}

const second = facts.Instant(time.Second)

func newScene(t *testing.T) *scene {
	return &scene{t: t, now: 1000 * second, nodes: NewNodes(), live: map[string]*facts.Node{}}
}

func (s *scene) wait(n int) { s.now = s.now.After(time.Duration(n) * time.Second) }

// tick keeps the order of what happens while the clock stands.
func (s *scene) tick() facts.Instant { s.now++; return s.now }

func (s *scene) node(name, uid, machine, boot string, change ...func(*facts.Node)) *facts.Node {
	s.rv++
	n := &facts.Node{Meta: facts.Meta{Name: name, UID: types.UID(uid), ResourceVersion: itoa(s.rv), Created: 1 * second},
		Machine: facts.Machine{SystemUUID: machine, MachineID: machine}, Boot: boot, Ready: facts.ReadyTrue}
	for _, c := range change {
		c(n)
	}
	return n
}

// seeNode: the API server holds it, and the watch delivers it.
func (s *scene) seeNode(n *facts.Node) {
	s.live[n.Name] = n
	s.nodes.See(n, s.tick())
	if in := s.nodes.Instance(n.UID); in.Seen == s.now && !in.HeldSince.Known() {
		in.Seen = n.Created // it has been watched since it was made
	}
	if s.h != nil {
		s.h.Follow(s.now, s.nodes)
	}
}

// holdNode: the API server holds it, and the watch has not delivered it yet.
func (s *scene) holdNode(n *facts.Node) { s.live[n.Name] = n }

func (s *scene) endNode(name string) {
	delete(s.live, name)
	s.nodes.End(name, "", s.tick())
	if s.h != nil {
		s.h.Follow(s.now, s.nodes)
	}
}

func (s *scene) seePod(change ...func(*facts.Pod)) {
	for _, c := range change {
		c(&s.pod)
	}
	p := s.pod
	p.Containers = append([]facts.Container(nil), s.pod.Containers...)
	if s.h == nil {
		s.h = NewHistory(&p, s.tick(), false, s.nodes)
		return
	}
	s.h.SeePod(&p, s.tick(), false, s.nodes)
}

func (s *scene) vanish(how Removal) {
	p := s.pod
	s.h.Vanish(how, &p, s.tick(), s.nodes)
}

// judge judges with live reads as the engine does.
func (s *scene) judge() Judgement {
	for range 5 {
		j := Judge(s.h, s.nodes, Defaults(), s.now)
		if j.Need == "" {
			s.h.Latch(j)
			return j
		}
		s.reads++
		s.nodes.SeeLive(j.Need, s.live[j.Need], s.tick())
		s.h.Follow(s.now, s.nodes)
	}
	s.t.Fatal("the rule wants reads for ever")
	return Judgement{}
}

func (s *scene) want(v Verdict, r Reason) {
	s.t.Helper()
	if j := s.judge(); j.Verdict != v || j.Reason != r {
		s.t.Fatalf("at %v: got %s/%s, want %s/%s (runs %+v)", (s.now-1000*second)/second, j.Verdict, j.Reason, v, r, s.h.Runs)
	}
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + itoa(n%10)
}

func running(id uint64) func(*facts.Pod) {
	return func(p *facts.Pod) {
		p.Node, p.Phase, p.SpecGrace, p.UID, p.Name, p.Namespace = "n1", facts.PhaseRunning, 30, "P1", "p1", "team"
		p.Started, p.Scheduled = 900*second, 900*second
		p.Containers = []facts.Container{{Role: facts.App, State: facts.Running, HasID: id != 0, ID: id, Started: 901 * second}}
	}
}

func (s *scene) asked() func(*facts.Pod) {
	return func(p *facts.Pod) { p.Deletion, p.Grace = s.now.After(30*time.Second), 30 }
}

func ended(p *facts.Pod) {
	p.Phase = facts.PhaseFailed
	for i := range p.Containers {
		p.Containers[i].State, p.Containers[i].Finished = facts.Terminated, 1*second
	}
}

func lost(p *facts.Pod) {
	ended(p)
	for i := range p.Containers {
		p.Containers[i].Lost, p.Containers[i].HasID = true, false
	}
}

func silent(n *facts.Node)  { n.Ready, n.Unreachable = facts.ReadyUnknown, true }
func tainted(n *facts.Node) { n.OutOfService = true }

// terminating is a pod that ran on n1/N1, machine m1, boot b1, and was asked to terminate; the node can be heard.
func terminating(t *testing.T) *scene {
	s := newScene(t)
	s.seeNode(s.node("n1", "N1", "m1", "b1"))
	s.seePod(running(7))
	s.want(Alive, Running)
	s.seePod(s.asked())
	s.want(Alive, Terminating)
	s.wait(4)
	s.want(Alive, Terminating)
	return s
}

func TestTheRule(t *testing.T) {
	cases := map[string]func(*testing.T){
		"a pod that is not bound and not asked to terminate is pending": func(t *testing.T) {
			s := newScene(t)
			s.seePod(func(p *facts.Pod) { p.UID, p.Phase = "P1", facts.PhasePending })
			s.want(Alive, Pending)
		},
		"a pod that was never bound is gone once it is asked to terminate, object or not": func(t *testing.T) {
			s := newScene(t)
			s.seePod(func(p *facts.Pod) { p.UID, p.Phase = "P1", facts.PhasePending })
			s.seePod(s.asked())
			s.want(Gone, NeverStarted)
		},
		"a pod last seen unbound whose deletion nobody saw may have been bound since": func(t *testing.T) {
			s := newScene(t)
			s.seePod(func(p *facts.Pod) { p.UID, p.Phase = "P1", facts.PhasePending })
			s.vanish(Unseen)
			s.want(Unproven, RemovedUnseen)
		},
		"a pod behind orphand's own gate was never bound, whoever saw its end": func(t *testing.T) {
			s := newScene(t)
			s.seePod(func(p *facts.Pod) { p.UID, p.Phase, p.Gated, p.Inert = "P1", facts.PhasePending, true, true })
			s.want(Alive, Pending)
			s.vanish(Unseen)
			s.want(Gone, NeverStarted)
		},
		"a kubelet that says so is believed, and costs no live read beyond the one that fixes the machine": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.seePod(running(7))
			s.seePod(s.asked())
			s.want(Alive, Terminating)
			s.seePod(ended)
			s.want(Gone, KubeletConfirmed)
			if s.reads != 0 {
				t.Fatalf("%d live reads", s.reads)
			}
		},
		"a terminal phase over a running container is nobody's confirmation": func(t *testing.T) {
			s := terminating(t)
			s.seePod(func(p *facts.Pod) { p.Phase = facts.PhaseFailed })
			s.want(Alive, Terminating)
		},
		"a sidecar, an init or an ephemeral container that runs keeps the pod alive": func(t *testing.T) {
			for _, role := range []facts.Role{facts.Sidecar, facts.Init, facts.Ephemeral} {
				s := terminating(t)
				s.seePod(ended, func(p *facts.Pod) {
					p.Containers = append(p.Containers, facts.Container{Role: role, State: facts.Running, HasID: true, ID: 9})
				})
				s.want(Alive, Terminating)
			}
		},
		"an app container that waits behind an unfinished init container never ran": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.seePod(running(0), func(p *facts.Pod) {
				p.Phase = facts.PhasePending
				p.Containers = []facts.Container{{Role: facts.Init, State: facts.Running, HasID: true, ID: 1}, {Role: facts.App, State: facts.Waiting}}
			})
			s.seePod(s.asked())
			s.seePod(func(p *facts.Pod) { p.Phase = facts.PhaseFailed; p.Containers[0].State = facts.Terminated })
			s.want(Gone, KubeletConfirmed)
		},
		"an app container that waits although its init containers are done proves nothing": func(t *testing.T) {
			s := terminating(t)
			s.seePod(func(p *facts.Pod) {
				p.Phase = facts.PhaseFailed
				p.Containers = []facts.Container{{Role: facts.Init, State: facts.Terminated, Completed: true}, {Role: facts.App, State: facts.Waiting}}
			})
			s.want(Alive, Terminating)
		},
		"a mirror pod is never proven by its status": func(t *testing.T) {
			s := terminating(t)
			s.seePod(ended, func(p *facts.Pod) { p.Mirror = true })
			s.want(Alive, Terminating)
		},
		"a phase that PodGC, Kueue or a person wrote is no confirmation": func(t *testing.T) {
			for name, forge := range map[string]func(*facts.Pod){
				"PodGC's mark":                      func(p *facts.Pod) { p.Disruption = "DeletionByPodGC" },
				"PodGC by its name":                 func(p *facts.Pod) { p.PhaseWriter = "kube-controller-manager" },
				"Kueue":                             func(p *facts.Pod) { p.PhaseWriter = "kueue" },
				"kubectl":                           func(p *facts.Pod) { p.PhaseWriter = "kubectl-edit" },
				"another than wrote the containers": func(p *facts.Pod) { p.PhaseWriter, p.StatusWriter = "curl", "kubelet" },
			} {
				s := terminating(t)
				s.seePod(ended, forge)
				if j := s.judge(); j.Verdict == Gone {
					t.Errorf("%s: %+v", name, j)
				}
			}
		},
		"unreachable is never turned into gone by time": func(t *testing.T) {
			s := terminating(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1", silent))
			for range 10 {
				s.want(Unproven, NodeUnreachable)
				s.wait(4000)
			}
		},
		"Ready False is a kubelet that talks": func(t *testing.T) {
			s := terminating(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1", func(n *facts.Node) { n.Ready = facts.ReadyFalse }))
			s.want(Alive, Terminating)
		},
		"a node without the taint but with Ready Unknown is unreachable": func(t *testing.T) {
			s := terminating(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1", func(n *facts.Node) { n.Ready = facts.ReadyUnknown }))
			s.want(Unproven, NodeUnreachable)
		},
		"a force-deleted pod is unproven for ever": func(t *testing.T) {
			s := terminating(t)
			s.vanish(Deleted)
			s.want(Unproven, RemovedUnconfirmed)
			s.wait(100000)
			s.want(Unproven, RemovedUnconfirmed)
		},
		"a pod whose deletion nobody saw is unproven whatever was last seen of it": func(t *testing.T) {
			s := terminating(t)
			s.vanish(Unseen)
			s.want(Unproven, RemovedUnseen)
		},
		"another boot of the same machine proves it when the termination was asked for before": func(t *testing.T) {
			s := terminating(t)
			s.seeNode(s.node("n1", "N1", "m1", "b2"))
			s.want(Gone, NodeRebooted)
		},
		"another boot that was there before the termination was asked for is the pod's own": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.seePod(running(7))
			s.seeNode(s.node("n1", "N1", "m1", "b2"))
			s.seePod(s.asked())
			s.wait(5)
			s.want(Alive, Terminating)
		},
		"another boot that the watch of Nodes was late to deliver is not taken for a reboot": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.holdNode(s.node("n1", "N1", "m1", "b2")) // rebooted, the pod was started again, and the watch lags
			s.seePod(running(7))
			s.seePod(s.asked())
			s.wait(2)
			s.want(Alive, Terminating)
			s.seeNode(s.live["n1"])
			s.wait(60)
			s.want(Alive, Terminating)
		},
		"a reboot proves nothing for a pod that was not asked to terminate": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.seePod(running(7))
			s.seeNode(s.node("n1", "N1", "m1", "b2"))
			s.wait(100)
			s.want(Alive, Running)
		},
		"a Node that was silent when it was deleted proves it after the quarantine": func(t *testing.T) {
			s := terminating(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1", silent))
			s.want(Unproven, NodeUnreachable)
			s.endNode("n1")
			s.want(Unproven, NodeDeleted)
			s.wait(39)
			s.want(Unproven, NodeDeleted)
			s.wait(1)
			s.want(Gone, NodeDeleted)
		},
		"a Node that was Ready when it was deleted proves it only when the pod's grace is over as well": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.seePod(running(7))
			s.seePod(func(p *facts.Pod) { p.Deletion, p.Grace = s.now.After(600*time.Second), 600 })
			s.wait(2)
			s.want(Alive, Terminating)
			s.endNode("n1")
			s.seePod(func(p *facts.Pod) { p.Deletion, p.Grace = s.now, 0 }) // a later forced delete shortens nothing
			s.vanish(Deleted)
			s.wait(607)
			s.want(Unproven, RemovedUnconfirmed)
			s.wait(1)
			s.want(Gone, NodeDeleted) // ten seconds after the grace, which is how long a kubelet may need
		},
		"a Node that is being deleted is not deleted": func(t *testing.T) {
			s := terminating(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1", silent, func(n *facts.Node) { n.Deleting = true }))
			s.wait(10000)
			s.want(Unproven, NodeUnreachable)
		},
		"a deleted Node whose live read finds it again proves nothing": func(t *testing.T) {
			s := terminating(t)
			n := s.node("n1", "N1", "m1", "b1", silent)
			s.seeNode(n)
			s.endNode("n1")
			s.holdNode(n)
			s.wait(1000)
			if j := s.judge(); j.Verdict == Gone {
				t.Fatalf("%+v", j)
			}
		},
		"the same machine in the same boot under a new Node is the pod's node again": func(t *testing.T) {
			s := terminating(t)
			s.endNode("n1")
			s.wait(10)
			s.seeNode(s.node("n1", "N9", "m1", "b1"))
			s.want(Alive, Terminating)
			s.wait(1000)
			s.want(Alive, Terminating)
		},
		"the same machine in the same boot under another name is not gone": func(t *testing.T) {
			s := terminating(t)
			s.endNode("n1")
			s.wait(10)
			s.seeNode(s.node("n2", "N9", "m1", "b1"))
			s.wait(1000)
			if j := s.judge(); j.Verdict == Gone {
				t.Fatalf("%+v", j)
			}
			s.seeNode(s.node("n2", "N9", "m1", "b2"))
			s.want(Gone, NodeRebooted)
		},
		"another machine under the name says nothing of the first": func(t *testing.T) {
			s := terminating(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1", silent))
			s.endNode("n1")
			s.wait(3)
			s.seeNode(s.node("n1", "N2", "m2", "b7", func(n *facts.Node) { n.Created = s.now }))
			s.seePod(lost) // its kubelet finds no container of the pod and says that it ended
			s.want(Unproven, NodeReplaced)
			s.wait(36)
			s.want(Unproven, NodeReplaced)
			s.wait(1)
			s.want(Gone, NodeDeleted) // the Node that stood for the machine is gone
		},
		"another machine that took over the Node object itself leaves the first unaccounted for": func(t *testing.T) {
			s := terminating(t)
			s.seeNode(s.node("n1", "N1", "m2", "b7"))
			s.seePod(lost)
			s.wait(100000)
			s.want(Unproven, NodeReplaced)
			s.endNode("n1")
			s.wait(1000)
			if j := s.judge(); j.Verdict == Gone {
				t.Fatalf("the Node's last machine was not the pod's: %+v", j)
			}
		},
		"a pod that ran on two machines needs both": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.seePod(running(7))
			s.seeNode(s.node("n1", "N1", "m1", "b1", silent))
			s.endNode("n1")
			s.seeNode(s.node("n1", "N2", "m2", "b2"))
			s.seePod(running(8), func(p *facts.Pod) { p.Containers[0].Started = s.now.After(seconds(1)) })
			s.want(Alive, Running)
			s.seePod(s.asked())
			s.seePod(ended)
			s.wait(2)
			s.want(Unproven, NodeReplaced)
			s.wait(40)
			s.want(Gone, NodeDeleted)
		},
		"a kubelet's word is another machine's when the watch of Nodes is late to show the change": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.seePod(running(7))
			s.holdNode(s.node("n1", "N2", "m2", "b2"))
			s.seePod(running(8)) // m2's kubelet started it again, and ended it
			s.seePod(s.asked(), ended)
			s.want(Unproven, NodeReplaced)
		},
		"a container that the kubelet lost sight of counts only after half a minute of a Ready node": func(t *testing.T) {
			s := terminating(t)
			s.seePod(lost)
			s.want(Alive, Terminating)
			s.wait(29)
			s.want(Alive, Terminating)
			s.wait(1)
			s.want(Gone, KubeletConfirmed)
			if e, _ := s.judge().Proof(); !e.Weak {
				t.Fatalf("not weak: %+v", e)
			}
		},
		"the half minute starts anew when the node falls silent, and does not end with the object": func(t *testing.T) {
			s := terminating(t)
			s.seePod(lost)
			s.vanish(Deleted)
			s.wait(20)
			s.seeNode(s.node("n1", "N1", "m1", "b1", silent))
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.wait(29)
			s.want(Unproven, RemovedUnconfirmed)
			s.wait(1)
			s.want(Gone, KubeletConfirmed)
		},
		"statuses that were erased from a pod that had run are weak": func(t *testing.T) {
			s := terminating(t)
			s.seePod(func(p *facts.Pod) { p.Phase = facts.PhaseFailed; p.Containers[0] = facts.Container{Role: facts.App} })
			s.want(Alive, Terminating)
			s.wait(30)
			s.want(Gone, KubeletConfirmed)
		},
		"out of service proves it, and stays proof when the taint is gone a minute later": func(t *testing.T) {
			s := terminating(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1", silent))
			s.wait(60)
			s.want(Unproven, NodeUnreachable)
			s.seeNode(s.node("n1", "N1", "m1", "b1", silent, tainted))
			s.want(Gone, OutOfService)
			s.wait(60)
			s.seeNode(s.node("n1", "N1", "m1", "b1", silent))
			s.want(Gone, OutOfService)
		},
		"a taint on a Ready node proves nothing, not even when the node falls silent later": func(t *testing.T) {
			s := terminating(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1", tainted))
			s.want(Alive, Terminating)
			s.seeNode(s.node("n1", "N1", "m1", "b1", tainted, silent))
			s.want(Unproven, NodeUnreachable)
			s.seeNode(s.node("n1", "N1", "m1", "b1", silent))
			s.seeNode(s.node("n1", "N1", "m1", "b1", tainted, silent))
			s.want(Gone, OutOfService)
		},
		"a taint older than the pod is of an earlier outage": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1", tainted, silent))
			s.wait(10)
			s.seePod(running(7), func(p *facts.Pod) { p.Started, p.Scheduled = s.now, s.now })
			s.seePod(s.asked())
			s.wait(100)
			s.want(Unproven, NodeUnreachable)
		},
		"a taint that a live read no longer finds proves nothing": func(t *testing.T) {
			s := terminating(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1", silent, tainted))
			s.holdNode(s.node("n1", "N1", "m1", "b1"))
			s.want(Alive, Terminating)
		},
		"out of service counts for no pod that was not asked to terminate": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.seePod(running(7))
			s.seeNode(s.node("n1", "N1", "m1", "b1", silent, tainted))
			s.want(Unproven, NodeUnreachable)
		},
		"nothing is proven while Nodes may not be read": func(t *testing.T) {
			s := newScene(t)
			s.nodes.Readable = false
			s.seePod(running(7))
			s.seePod(s.asked())
			s.want(Alive, NodesUnreadable)
			s.vanish(Deleted)
			s.want(Alive, NodesUnreadable)
		},
		"a pod on a node that never existed is gone after the quarantine": func(t *testing.T) {
			s := newScene(t)
			s.seePod(running(7))
			s.seePod(s.asked())
			s.want(Unproven, NodeDeleted)
			s.wait(40)
			s.want(Gone, NodeDeleted)
		},
		"a pod that was started before its Node existed ran on a machine that nobody knows": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N2", "m2", "b2", func(n *facts.Node) { n.Created = 950 * second }))
			s.seePod(running(7))
			s.seePod(s.asked())
			s.wait(10)
			s.want(Unproven, NodeReplaced)
			s.endNode("n1")
			s.wait(1000)
			if j := s.judge(); j.Verdict == Gone {
				t.Fatalf("%+v", j)
			}
		},
		"a container's own end, told by the kubelet that has it, accounts for a machine that nobody knows": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N2", "m1", "b1", func(n *facts.Node) { n.Created = 950 * second }))
			s.seePod(running(7))
			s.seePod(s.asked())
			s.seePod(ended)
			s.want(Gone, KubeletConfirmed)
		},
		"a person's word for the pod is taken": func(t *testing.T) {
			s := terminating(t)
			s.vanish(Deleted)
			s.nodes.Attest("P1", Attestation{By: "ada", Reason: "rack is dark", At: s.tick()})
			s.want(Gone, Attested)
		},
		"a person's word for the Node is taken for pods that were asked to terminate": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.seePod(running(7))
			s.nodes.Attest("N1", Attestation{By: "ada", At: s.tick()})
			s.want(Alive, Running)
			s.seePod(s.asked())
			s.wait(2)
			s.want(Alive, Terminating) // it may have been started again since
			s.nodes.Attest("N1", Attestation{By: "ada", At: s.tick()})
			s.want(Gone, Attested)
		},
	}
	for name, run := range cases {
		t.Run(name, run)
	}
}

func TestAnExplanationAgreesWithTheJudgementAndSaysWhatWouldChangeIt(t *testing.T) {
	s := terminating(t)
	s.seeNode(s.node("n1", "N1", "m1", "b1", silent))
	s.want(Unproven, NodeUnreachable)
	x := Explain(s.h, s.nodes, Defaults(), s.now)
	if x.Verdict != Unproven || len(x.Facts) == 0 {
		t.Fatalf("%+v", x)
	}
	for _, step := range x.Steps {
		if step.Holds || step.Why == "" || step.Would == "" && step.Rule != NeverStarted {
			t.Errorf("%+v", step)
		}
	}
	s.seeNode(s.node("n1", "N1", "m1", "b1", silent, tainted))
	s.nodes.SeeLive("n1", s.live["n1"], s.tick())
	x = Explain(s.h, s.nodes, Defaults(), s.now)
	if x.Verdict != Gone || x.Reason != OutOfService {
		t.Fatalf("%+v", x)
	}
	holds := 0
	for _, step := range x.Steps {
		if step.Holds {
			holds++
			if step.Rule != OutOfService {
				t.Errorf("%+v", step)
			}
		}
	}
	if holds != 1 {
		t.Errorf("%d rules hold: %+v", holds, x.Steps)
	}
}
