package nodeproof

import (
	"testing"
	"time"

	"github.com/orphand/orphand/pkg/facts"
)

// TestWhatTheSimulatorFound holds the wrong answers that the simulator got out of the rule, each as small as it gets.
func TestWhatTheSimulatorFound(t *testing.T) {
	cases := map[string]func(*testing.T){
		"a pod that was never asked to terminate before it was removed by force has its own grace": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.seePod(running(7))
			s.endNode("n1") // its kubelet runs on and hears the API
			s.wait(60)
			s.seePod(func(p *facts.Pod) { p.Deletion, p.Grace = s.now, 0 }) // PodGC
			s.vanish(Deleted)
			s.want(Unproven, RemovedUnconfirmed)
			s.wait(39)
			s.want(Unproven, RemovedUnconfirmed)
			s.wait(1)
			s.want(Gone, NodeDeleted)
		},
		"a pod that its kubelet refused may run, though it was never seen running": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			// Its kubelet was restarted before orphand looked, and refused the pod that it found running.
			s.seePod(running(7), func(p *facts.Pod) {
				p.Phase, p.Reason, p.Containers = facts.PhaseFailed, "UnexpectedAdmissionError", []facts.Container{{Role: facts.App}}
			})
			s.want(Alive, Running)
			s.wait(29)
			s.want(Alive, Running)
			s.wait(1)
			s.want(Gone, KubeletConfirmed)
			if e, _ := s.judge().Proof(); !e.Weak {
				t.Fatalf("not weak: %+v", e)
			}
		},
		"a container that follows a state without an ID may be another machine's": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.seePod(running(7))
			// Another machine takes over the Node, and the watch of Nodes lags: its kubelet finds no container, starts one, and
			// ends it.
			s.holdNode(s.node("n1", "N1", "m2", "b2"))
			s.seePod(func(p *facts.Pod) {
				p.Containers[0] = facts.Container{Role: facts.App, State: facts.Waiting, HasLast: true}
			})
			s.seePod(running(8))
			s.seePod(s.asked(), ended)
			s.want(Unproven, NodeReplaced)
		},
		"a container that was started long after the pod was bound may be another machine's": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.seePod(running(0), func(p *facts.Pod) { p.Containers[0].State = facts.Waiting }) // m1 pulls the image, starts it, and is cut off
			s.holdNode(s.node("n1", "N1", "m2", "b2"))
			s.seePod(running(8), func(p *facts.Pod) { p.Containers[0].Started = 960 * second })
			s.seePod(s.asked(), ended)
			s.want(Unproven, NodeReplaced)
		},
		"a container that was started late costs no live read when its kubelet has posted the node's status since": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.seePod(running(8), func(p *facts.Pod) { p.Containers[0].Started = 960 * second })
			s.seeNode(s.node("n1", "N1", "m1", "b1", func(n *facts.Node) { n.Heartbeat = 1030 * second }))
			s.seePod(s.asked(), ended)
			s.want(Gone, KubeletConfirmed)
			if s.reads != 0 {
				t.Fatalf("%d live reads", s.reads)
			}
		},
		"what another machine's kubelet said of a pod is not the word of the one that has the name again": func(t *testing.T) {
			s := terminating(t)
			s.wait(10)
			s.seeNode(s.node("n1", "N1", "m2", "b7"))
			s.seePod(lost)
			s.vanish(Deleted)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.wait(100)
			s.want(Unproven, RemovedUnconfirmed)
		},
		"a Node that a machine left behind shows an earlier boot, not a later one": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n0", "N0", "m1", "b1"))
			s.seeNode(s.node("n1", "N1", "m1", "b2")) // booted, under another name
			s.seePod(running(7))
			s.seePod(s.asked())
			s.wait(2)
			s.want(Alive, Terminating)
			s.endNode("n1")
			s.wait(1)
			s.want(Unproven, NodeDeleted)
		},
		"a machine that is known in its boot under a third Node has not gone with its own": func(t *testing.T) {
			s := terminating(t)
			s.seeNode(s.node("n3", "N3", "m1", "b1", silent))
			s.nodes.List(s.node("n0", "N0", "m1", "b0", silent), s.tick()) // left behind
			s.endNode("n1")
			s.wait(100)
			if j := s.judge(); j.Verdict == Gone {
				t.Fatalf("%+v", j)
			}
		},
		"a word on a Node that another machine took over is for that machine": func(t *testing.T) {
			s := terminating(t)
			s.seeNode(s.node("n1", "N1", "m2", "b7"))
			s.vanish(Deleted)
			s.nodes.Attest("N1", Attestation{By: "ada", At: s.tick()})
			s.want(Unproven, RemovedUnconfirmed)
			s.nodes.Attest("P1", Attestation{By: "ada", At: s.tick()})
			s.want(Gone, Attested)
		},
		"a pod first seen after another machine took over its Node may have run on the former one": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.wait(10)
			s.seeNode(s.node("n1", "N1", "m2", "b7"))
			s.wait(10)
			// The watch of pods was broken meanwhile. The pod was given to m1, and m2 started it again.
			s.seePod(running(8), func(p *facts.Pod) { p.Scheduled, p.Started = 1005*second, 1005*second })
			s.seePod(s.asked())
			s.wait(2)
			s.seePod(ended)
			s.want(Unproven, NodeReplaced)
		},
		"a status in which containers of two machines meet is the last one's word": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.seePod(running(7), func(p *facts.Pod) {
				p.Containers = append(p.Containers, facts.Container{Role: facts.App, State: facts.Running, HasID: true, ID: 8, Started: 901 * second})
			})
			s.seePod(func(p *facts.Pod) { p.Containers[0].State = facts.Terminated }) // the first has done its work
			s.seeNode(s.node("n1", "N1", "m2", "b2"))
			s.seePod(func(p *facts.Pod) { p.Containers[1].ID, p.Containers[1].Started = 9, 1000*second }) // m2 starts the second again
			s.seePod(s.asked())
			s.wait(2)
			s.seePod(ended)
			s.want(Unproven, NodeReplaced)
		},
		"a sidecar that a kubelet cannot find has not ended": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.seePod(running(7), func(p *facts.Pod) {
				p.Containers = append(p.Containers, facts.Container{Role: facts.Sidecar, State: facts.Running, HasID: true, ID: 6, Started: 900 * second})
			})
			s.seePod(s.asked())
			s.wait(2)
			s.want(Alive, Terminating)
			s.seePod(func(p *facts.Pod) { p.Containers[0].State = facts.Terminated }) // m1 is cut off before the sidecar ends
			s.seeNode(s.node("n1", "N1", "m2", "b2"))
			s.seePod(func(p *facts.Pod) {
				p.Phase, p.Containers[1] = facts.PhaseFailed, facts.Container{Role: facts.Sidecar, State: facts.Waiting, HasLast: true}
			})
			s.want(Unproven, NodeReplaced)
		},
		"a deletion with a short grace may not have reached the kubelet before the pod was removed by force": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.seePod(running(7))
			s.endNode("n1")
			s.wait(60)
			s.seePod(func(p *facts.Pod) { p.Deletion, p.Grace = s.now.After(seconds(5)), 5 })
			s.seePod(func(p *facts.Pod) { p.Deletion, p.Grace = s.now, 0 })
			s.vanish(Deleted)
			s.wait(39)
			s.want(Unproven, RemovedUnconfirmed)
			s.wait(1)
			s.want(Gone, NodeDeleted)
		},
		"a pod that was missing from a list that lagged was not asked to terminate by that": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.seePod(running(7))
			s.vanish(Unseen)
			s.want(Unproven, RemovedUnseen)
			s.seePod()
			s.seeNode(s.node("n1", "N1", "m1", "b2")) // booted, and its kubelet starts the pod again
			s.wait(10)
			s.want(Alive, Running)
		},
		"a terminal phase that came long after the containers' end may be another machine's": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.seePod(running(7))
			s.seePod(s.asked())
			// The container failed, m1 is about to start it again, and is cut off. m2 takes over, which the watch is late to show.
			s.seePod(func(p *facts.Pod) { p.Containers[0].State, p.Containers[0].Finished = facts.Terminated, 1000*second })
			s.holdNode(s.node("n1", "N1", "m2", "b2"))
			s.seePod(func(p *facts.Pod) { p.Phase, p.PhaseAt = facts.PhaseFailed, 1030*second })
			s.want(Unproven, NodeReplaced)
		},
		"a word on a Node is for the machine that it showed when it was given": func(t *testing.T) {
			s := terminating(t)
			s.vanish(Deleted)
			s.holdNode(s.node("n1", "N1", "m2", "b7")) // the watch is late to show that another machine took it over
			s.nodes.Attest("N1", Attestation{By: "ada", At: s.tick()})
			s.want(Unproven, RemovedUnconfirmed)
		},
		"a kubelet that came back has the whole grace to give": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1", silent))
			s.seePod(running(7))
			s.seePod(s.asked())
			s.wait(100)
			s.want(Unproven, NodeUnreachable)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.endNode("n1")
			s.wait(39)
			s.want(Unproven, NodeDeleted)
			s.wait(1)
			s.want(Gone, NodeDeleted) // 30 s of grace and the ten that a kubelet may need
		},
		"a machine that has the name again does not own what another's kubelet said meanwhile": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.seePod(running(7))
			s.seeNode(s.node("n1", "N1", "m2", "b2")) // m2 starts the pod again, and is cut off before it can say so
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.seePod(s.asked())
			s.wait(2)
			s.seePod(ended)
			s.want(Unproven, NodeReplaced)
			s.vanish(Deleted)
			s.seeNode(s.node("n1", "N1", "m2", "b2"))
			s.want(Unproven, RemovedUnconfirmed)
		},
		"a taint that stands at first sight, and that others wrote over, may be of an earlier outage": func(t *testing.T) {
			for obscured, want := range map[bool]Pair{true: {Unproven, NodeUnreachable}, false: {Gone, OutOfService}} {
				s := newScene(t)
				s.seeNode(s.node("n1", "N1", "m1", "b1", silent, tainted, func(n *facts.Node) { n.TaintRewritten = obscured }))
				s.seePod(running(7))
				s.seePod(s.asked())
				s.want(want.Verdict, want.Reason)
			}
		},
		"a taint outlives an outage whose end the watch did not show": func(t *testing.T) {
			for what, change := range map[string]func(*facts.Node){
				"another boot":   func(n *facts.Node) { n.Boot = "b2" },
				"another outage": func(n *facts.Node) { n.ReadySince = 990 * second },
			} {
				s := newScene(t)
				began := func(n *facts.Node) { n.ReadySince = 800 * second }
				s.seeNode(s.node("n1", "N1", "m1", "b1", silent, tainted, began))
				s.seeNode(s.node("n1", "N1", "m1", "b1", silent, tainted, began, change))
				s.seePod(running(7))
				s.seePod(s.asked())
				if j := s.judge(); j.Verdict == Gone {
					t.Errorf("%s: got %s/%s", what, j.Verdict, j.Reason)
				}
			}
		},
		"what becomes of a Node that another machine took over says nothing of the first, after a restart either": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.seePod(running(7))
			s.seePod(s.asked())
			s.want(Alive, Terminating)
			s.seeNode(s.node("n1", "N1", "m2", "b2"))
			s.nodes = NewNodes()
			s.h.Resume(s.tick(), s.nodes)
			s.vanish(Deleted)
			delete(s.live, "n1")
			s.wait(200)
			s.want(Unproven, RemovedUnconfirmed)
		},
		"containers that tell no machine are those of the one that has the Node after they were seen to have ended": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.seePod(running(0))
			s.seePod(s.asked())
			s.want(Alive, Terminating)
			s.holdNode(s.node("n1", "N1", "m2", "b2")) // the watch is late to show it
			s.seePod(ended)
			s.want(Unproven, NodeReplaced)
		},
		"a Node that went after its kubelet had spoken does not tell which of two machines spoke": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.seePod(running(0))
			s.seeNode(s.node("n1", "N1", "m2", "b2"))
			s.seePod(s.asked())
			s.seePod(ended)
			s.vanish(Deleted)
			s.endNode("n1")
			s.wait(20)
			s.want(Unproven, RemovedUnconfirmed)
			if proof := s.h.Runs[1].Proof; proof != nil {
				t.Errorf("m2 is accounted for by %s", proof.Reason)
			}
		},
		"a pod first seen when its Node was gone may have run on every machine that had that Node": func(t *testing.T) {
			for machines, want := range map[int]Pair{1: {Gone, NodeDeleted}, 2: {Unproven, RemovedUnconfirmed}} {
				s := newScene(t)
				for i := range machines {
					s.seeNode(s.node("n1", "N1", "m"+itoa(i), "b"+itoa(i)))
				}
				s.endNode("n1")
				s.seePod(running(7))
				s.seePod(s.asked())
				s.vanish(Deleted)
				s.wait(200)
				s.want(want.Verdict, want.Reason)
			}
		},
		"a Node that a live read showed to be another machine's, and that the watch never did, is": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.seePod(running(7))
			s.seePod(s.asked())
			s.want(Alive, Terminating)
			s.holdNode(s.node("n1", "N1", "m2", "b2"))
			s.seePod(lost)
			s.wait(40)
			s.want(Unproven, NodeReplaced)
			s.vanish(Deleted)
			s.endNode("n1")
			s.wait(200)
			s.want(Unproven, RemovedUnconfirmed)
		},
		"a boot that the watch shows after the live read, and that was before it, may have run the pod": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.seePod(running(7))
			delete(s.live, "n1") // booted again, started the pod again, and deleted, all of which the watch is late to show
			s.seePod(s.asked())
			s.vanish(Deleted)
			s.want(Unproven, RemovedUnconfirmed)
			s.wait(5)
			s.nodes.See(s.node("n1", "N1", "m1", "b2"), s.tick())
			s.h.Follow(s.now, s.nodes)
			s.endNode("n1")
			s.seeNode(s.node("n1", "N2", "m1", "b2"))
			s.want(Unproven, RemovedUnconfirmed)
			s.seeNode(s.node("n1", "N2", "m1", "b3"))
			s.want(Gone, NodeRebooted)
		},
		"a machine that the watch shows after the live read, and that was before it, may have run the pod": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.seePod(running(7))
			second := s.node("n1", "N1", "m2", "b2")
			third := s.node("n1", "N1", "m3", "b3")
			s.holdNode(third)
			s.seePod(s.asked())
			s.wait(5)
			s.want(Unproven, NodeReplaced)
			for _, n := range []*facts.Node{second, third} {
				s.nodes.See(n, s.tick())
				s.h.Follow(s.now, s.nodes)
			}
			if len(s.h.Runs) != 3 {
				t.Errorf("got %+v", s.h.Runs)
			}
		},
		"a container that is older than what is known of the Node is not its present machine's": func(t *testing.T) {
			for back, want := range map[string]Pair{"m2": {Gone, KubeletConfirmed}, "m1": {Unproven, NodeReplaced}} {
				s := newScene(t)
				s.holdNode(s.node("n1", "N1", "m2", "b2"))
				s.nodes.List(s.live["n1"], s.tick()) // m1 had the Node before orphand was started, and runs on
				s.seePod(running(7))
				s.seePod(s.asked())
				s.wait(5)
				s.want(Alive, Terminating)
				s.seeNode(s.node("n1", "N1", back, "b2"))
				s.seePod(ended)
				s.want(want.Verdict, want.Reason)
			}
		},
		"a Node that the watch has not shown yet is not absent": func(t *testing.T) {
			s := newScene(t)
			s.seePod(running(7))
			s.wait(100)
			s.seePod(s.asked())
			s.wait(100) // The Node was deleted a moment ago, and the watch shows neither it nor its end.
			s.vanish(Deleted)
			s.want(Unproven, RemovedUnconfirmed)
			s.wait(38)
			s.want(Unproven, RemovedUnconfirmed)
			s.wait(2)
			s.want(Gone, NodeDeleted)
		},
		"a boot of a Node that went while nobody watched may be the pod's own": func(t *testing.T) {
			for back, want := range map[string]Pair{"": {Gone, NodeDeleted}, "b2": {Unproven, RemovedUnconfirmed}} {
				s := newScene(t)
				s.seeNode(s.node("n1", "N1", "m1", "b1"))
				s.seePod(running(7))
				// The machine is rebooted, and starts the pod again in boot b2; then the Node goes. The watch shows neither.
				delete(s.live, "n1")
				s.nodes.Lose("n1", "N1", s.tick())
				s.h.Follow(s.now, s.nodes)
				s.vanish(Deleted)
				s.want(Unproven, RemovedUnconfirmed)
				if back != "" {
					s.seeNode(s.node("n1", "N2", "m1", back))
				}
				s.wait(100)
				s.want(want.Verdict, want.Reason)
				if back != "" {
					s.seeNode(s.node("n1", "N2", "m1", "b3"))
					s.want(Gone, NodeRebooted)
				}
			}
		},
		"a boot that follows a Node whose end was watched is a later one": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.seePod(running(7))
			s.endNode("n1")
			s.vanish(Deleted)
			s.want(Unproven, RemovedUnconfirmed)
			s.seeNode(s.node("n1", "N2", "m1", "b2"))
			s.want(Gone, NodeRebooted)
		},
		"a container that a kubelet never had is not lost where another machine may have had the Node": func(t *testing.T) {
			again := func(p *facts.Pod) { p.Containers[0].HasLast = true }
			for name, one := range map[string]struct {
				since  facts.Instant
				change func(*facts.Pod)
				want   Pair
			}{
				"started again before anybody looked": {since: 900 * second, change: again, want: Pair{Unproven, RemovedUnconfirmed}},
				"taken up late before anybody looked": {since: 900 * second, change: func(p *facts.Pod) { p.Started = 900 * second }, want: Pair{Unproven, RemovedUnconfirmed}},
				"started once":                        {since: 900 * second, change: func(*facts.Pod) {}, want: Pair{Gone, KubeletConfirmed}},
				"started again under watch":           {since: 1 * second, change: again, want: Pair{Gone, KubeletConfirmed}},
			} {
				s := newScene(t)
				n := s.node("n1", "N1", "m1", "b1")
				s.holdNode(n)
				s.nodes.List(n, one.since)
				s.seePod(running(7), func(p *facts.Pod) { p.Started, p.Scheduled = 800*second, 800*second }, one.change)
				s.seePod(s.asked())
				s.seePod(lost, one.change)
				s.vanish(Deleted)
				s.want(Unproven, RemovedUnconfirmed)
				s.wait(100)
				if j := s.judge(); j.Verdict != one.want.Verdict || j.Reason != one.want.Reason {
					t.Errorf("%s: got %s/%s, want %v", name, j.Verdict, j.Reason, one.want)
				}
			}
		},
		"a kubelet whose Node nobody has seen speaks for the containers that were there before it": func(t *testing.T) {
			for id, want := range map[uint64]Pair{7: {Gone, KubeletConfirmed}, 8: {Unproven, NodeDeleted}} {
				s := newScene(t)
				s.seePod(running(7))
				s.seePod(running(id), ended)
				s.want(want.Verdict, want.Reason)
			}
		},
		"a kubelet whose Node nobody has seen does not speak for a container that another may have run before": func(t *testing.T) {
			s := newScene(t)
			s.seePod(running(8), func(p *facts.Pod) { p.Containers[0].HasLast, p.Containers[0].Restarts = true, 1 })
			s.seePod(ended)
			s.want(Unproven, NodeDeleted)
		},
		"a container that took the place of another before anybody looked is not that of the machine before": func(t *testing.T) {
			s := newScene(t)
			// m1 ran it, then m2 had the name, started it again, lost its Node, and has the name again.
			s.seeNode(s.node("n1", "N2", "m2", "b2", func(n *facts.Node) { n.Created = 950 * second }))
			s.seePod(running(8), func(p *facts.Pod) { p.Containers[0].HasLast, p.Containers[0].Started = true, 940*second })
			s.want(Unproven, NodeReplaced)
			s.seePod(s.asked(), ended, func(p *facts.Pod) { p.Containers[0].Started = 940 * second })
			s.want(Unproven, NodeReplaced)
		},
		"a pod that is older than the present Node ran on the machines that were seen to have the name before": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.now = 1100 * second
			// The watch of pods is broken: m1 starts the pod and is cut off, m2 takes over its Node, starts the pod again, and
			// loses the Node, which it then makes anew.
			s.seeNode(s.node("n1", "N1", "m2", "b2"))
			s.endNode("n1")
			s.now = 1150 * second
			s.seeNode(s.node("n1", "N2", "m2", "b2", func(n *facts.Node) { n.Created = 1150 * second }))
			s.seePod(running(8), func(p *facts.Pod) {
				p.Scheduled, p.Started, p.Containers[0].Started = 1050*second, 1050*second, 1120*second
			})
			s.seePod(s.asked(), ended, func(p *facts.Pod) { p.Containers[0].Started = 1120 * second })
			s.want(Unproven, NodeReplaced)
			s.seeNode(s.node("n1x", "N3", "m1", "b9")) // the boot that may have the pod, since nobody saw the last of b1
			s.want(Unproven, NodeReplaced)
			s.seeNode(s.node("n1x", "N3", "m1", "b10"))
			s.want(Gone, NodeRebooted)
		},
		"a container of a machine that has ended does not speak for another of it that a second machine replaced": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.seePod(running(7), func(p *facts.Pod) {
				p.Containers = append(p.Containers, facts.Container{Role: facts.App, State: facts.Running, HasID: true, ID: 9, Started: 901 * second})
			})
			// m1 reports that the first has ended, and is cut off; m2 starts the second again, and is asked to end the pod.
			s.seePod(func(p *facts.Pod) { p.Containers[0].State, p.Containers[0].Finished = facts.Terminated, 950*second })
			s.seeNode(s.node("n1", "N1", "m2", "b2"))
			s.wait(100)
			s.seePod(func(p *facts.Pod) {
				p.Containers[1] = facts.Container{Role: facts.App, State: facts.Running, HasID: true, ID: 8, HasLast: true, Started: s.now}
			})
			s.seePod(s.asked())
			s.seePod(func(p *facts.Pod) {
				p.Phase, p.Containers[1].State, p.Containers[1].Finished = facts.PhaseFailed, facts.Terminated, s.now
			})
			s.want(Unproven, NodeReplaced)
		},
		"a machine that is up under another name is not out of service": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.seePod(running(7))
			s.seePod(s.asked())
			s.seeNode(s.node("n1", "N1", "m1", "b1", silent))
			s.seeNode(s.node("n1x", "N2", "m1", "b1"))
			s.seeNode(s.node("n1", "N1", "m1", "b1", silent, tainted))
			s.want(Unproven, NodeUnreachable)
		},
		"a kubelet whose Node went while nobody watched may have come back just before": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.seePod(running(7), func(p *facts.Pod) { p.SpecGrace = 120 })
			s.seePod(func(p *facts.Pod) { p.Deletion, p.Grace = s.now.After(120*time.Second), 120 })
			s.seeNode(s.node("n1", "N1", "m1", "b1", silent))
			s.judge()
			s.wait(300)
			// A restart: the Node is gone.
			delete(s.live, "n1")
			s.nodes = NewNodes()
			s.h.Resume(s.tick(), s.nodes)
			s.h.Follow(s.now, s.nodes)
			s.wait(129)
			s.want(Unproven, NodeDeleted)
			s.wait(2)
			s.want(Gone, NodeDeleted)
		},
		"a Node that the watch shows late, and that was gone when the node was read, may have had the pod": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.seePod(running(7))
			// Behind the watch's back N1 goes, m2 takes the name as N2 and the pod with it, and N2 goes.
			delete(s.live, "n1")
			s.wait(50)
			made := s.now
			s.wait(5)
			s.seePod(s.asked())
			s.judge() // the node is read: there is none
			s.endNode("n1")
			s.judge()
			s.seeNode(s.node("n1", "N2", "m2", "b2", func(n *facts.Node) { n.Created = made }))
			s.endNode("n1")
			s.nodes.Watch(true, s.tick())
			s.seeNode(s.node("n2", "N3", "m2", "b2")) // under another name
			s.wait(1000)
			if j := s.judge(); j.Verdict == Gone {
				t.Fatalf("got %s/%s (runs %+v)", j.Verdict, j.Reason, s.h.Runs)
			}
		},
		"a person's word on a Node is not for the machine that has it again since": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.seePod(running(7))
			s.seePod(s.asked())
			s.judge()
			s.seeNode(s.node("n1", "N1", "m2", "b2")) // m1 is cut off
			s.nodes.Attest("N1", Attestation{By: "operator", At: s.tick()})
			s.want(Unproven, NodeReplaced)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.nodes.SeeLive("n1", s.live["n1"], s.tick()) // for another pod's sake
			s.want(Alive, Terminating)
		},
		"a machine that may have come back while nobody watched has the quarantine to show itself again": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.seePod(running(7))
			s.seeNode(s.node("n1", "N1", "m1", "b1", silent))
			s.endNode("n1")
			s.seePod(s.asked())
			s.nodes.Watch(false, s.tick()) // m1 is back as n1x
			s.wait(1000)
			s.want(Unproven, NodeDeleted)
			s.nodes.Watch(true, s.tick())
			s.want(Unproven, NodeDeleted)
			s.wait(39)
			s.want(Unproven, NodeDeleted)
			s.wait(1)
			s.want(Gone, NodeDeleted)
		},
		"another machine that nobody watched take up the pod may have been well when its Node went": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.seePod(running(7), func(p *facts.Pod) { p.SpecGrace = 120 })
			s.seeNode(s.node("n1", "N1", "m1", "b1", silent))
			s.endNode("n1")
			s.nodes.Watch(false, s.tick()) // m2 has the name, takes up the pod, and its Node is deleted
			s.nodes.Watch(true, s.tick())
			s.seePod(func(p *facts.Pod) { p.Deletion, p.Grace = s.now.After(120*time.Second), 120 })
			s.wait(129)
			s.want(Unproven, NodeDeleted)
			s.wait(2)
			s.want(Gone, NodeDeleted)
		},
		"a Node that went while nobody watched may have been Ready at its end": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.seePod(running(7), func(p *facts.Pod) { p.SpecGrace = 120 })
			s.seePod(func(p *facts.Pod) { p.Deletion, p.Grace = s.now.After(120*time.Second), 120 })
			s.wait(10)
			s.seeNode(s.node("n1", "N1", "m1", "b1", silent))
			s.wait(50)
			delete(s.live, "n1")
			s.nodes.Lose("n1", "N1", s.tick())
			s.h.Follow(s.now, s.nodes)
			s.wait(129) // m2 may have had it, with the pod, and have heard of the deletion only now
			s.want(Unproven, NodeDeleted)
			s.wait(2)
			s.want(Gone, NodeDeleted)
		},
		"a machine that nobody can name may be back under any Node that has registered since": func(t *testing.T) {
			for registered, want := range map[facts.Instant]Pair{700 * second: {Gone, NodeDeleted}, 950 * second: {Unproven, RemovedUnconfirmed}} {
				s := newScene(t)
				s.seeNode(s.node("n2", "N2", "m1", "b1", func(n *facts.Node) { n.Created = registered }))
				s.seePod(running(7))
				s.seePod(s.asked())
				s.vanish(Deleted)
				s.want(Unproven, RemovedUnconfirmed)
				s.wait(100)
				s.want(want.Verdict, want.Reason)
			}
		},
		"a machine that took over a node under watch tells of what it never ran": func(t *testing.T) {
			s := newScene(t)
			s.seeNode(s.node("n1", "N1", "m1", "b1"))
			s.seePod(running(7))
			// Its Node is deleted, another machine has the name, and only then is the pod asked to terminate.
			s.seeNode(s.node("n1", "N1", "m1", "b1", silent))
			s.endNode("n1")
			s.seeNode(s.node("n1", "N2", "m2", "b2"))
			s.seePod(func(p *facts.Pod) {
				p.Containers[0] = facts.Container{Role: facts.App, State: facts.Waiting, HasLast: true}
			})
			s.seePod(s.asked())
			s.seePod(lost)
			s.vanish(Deleted)
			s.want(Unproven, RemovedUnconfirmed)
			s.wait(100)
			s.judge()
			s.want(Gone, KubeletConfirmed)
		},
		"what takes the place of a container before the Node is not the same machine's": func(t *testing.T) {
			s := newScene(t)
			s.seePod(running(7), func(p *facts.Pod) { p.Containers[0].Started = 900 * second })
			s.seeNode(s.node("n1", "N1", "m2", "b2", func(n *facts.Node) { n.Created = 1000 * second }))
			// A machine that had the pod before the one that runs 7 has the name again, and finds its own container.
			s.seePod(running(8), func(p *facts.Pod) { p.Containers[0].Started = 800 * second })
			s.seePod(ended, func(p *facts.Pod) { p.Containers[0].Started = 800 * second })
			s.want(Unproven, NodeReplaced)
		},
	}
	for name, run := range cases {
		t.Run(name, run)
	}
}
