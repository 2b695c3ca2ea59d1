package nodeproof

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	"k8s.io/apimachinery/pkg/types"
)

// script turns bytes into what happens; when they are used up, everything is zero.
type script struct{ rest []byte }

func (s *script) upTo(n int) int {
	if len(s.rest) == 0 {
		return 0
	}
	b := s.rest[0]
	s.rest = s.rest[1:]
	return int(b) % n
}

func (s *script) yes() bool { return s.upTo(2) == 1 }

func (s *script) id(prefix string, n int) string {
	if k := s.upTo(n + 1); k > 0 {
		return prefix + itoa(k)
	}
	return ""
}

// time is near now, in the future of it, long ago or unknown.
func (s *script) time(now facts.Instant) facts.Instant {
	switch s.upTo(4) {
	case 0:
		return 0
	case 1:
		return 1 * second
	case 2:
		return now.Add(-time.Duration(s.upTo(120)) * time.Second)
	}
	return now.Add(time.Duration(s.upTo(120)) * time.Second)
}

// anyNode is a state of a Node that an API server could show, however unlikely.
func (s *script) anyNode(now facts.Instant, version int) *facts.Node {
	n := &facts.Node{
		Meta:    facts.Meta{Name: "n" + itoa(1+s.upTo(2)), UID: types.UID("u" + itoa(1+s.upTo(4))), ResourceVersion: itoa(version - s.upTo(3)), Created: s.time(now)},
		Machine: facts.Machine{SystemUUID: s.id("m", 3)}, Boot: s.id("b", 4),
		Ready: facts.Ready(s.upTo(3)), ReadySince: s.time(now), Heartbeat: s.time(now),
		Unreachable: s.yes(), OutOfService: s.yes(), TaintedAt: s.time(now), TaintRewritten: s.yes(), Deleting: s.yes(),
	}
	return n
}

// anyPod is a state of one pod that an API server could show, however unlikely.
func (s *script) anyPod(now facts.Instant) *facts.Pod {
	p := &facts.Pod{
		Meta:  facts.Meta{Namespace: "ns", Name: "p", UID: "pod", Created: 1 * second},
		Phase: facts.Phase(s.upTo(5)), Scheduled: s.time(now), Started: s.time(now), PhaseAt: s.time(now),
		SpecGrace: int64(s.upTo(60)), RestartNever: s.yes(), Mirror: s.upTo(16) == 1, Inert: s.upTo(8) == 1,
	}
	if s.upTo(4) > 0 {
		p.Node = "n1"
	}
	if s.yes() {
		p.Grace = int64(s.upTo(60))
		p.Deletion = now.Add(time.Duration(p.Grace) * time.Second)
	}
	p.PhaseWriter = []string{"", "kubelet", "kube-controller-manager", "kubectl"}[s.upTo(4)]
	p.StatusWriter = []string{"", "kubelet", "kubectl"}[s.upTo(3)]
	for range s.upTo(4) {
		c := facts.Container{Role: facts.Role(s.upTo(4)), State: facts.ContainerState(s.upTo(4)), HasLast: s.yes(), Lost: s.upTo(4) == 1, Completed: s.yes()}
		if c.State != facts.Unreported && s.upTo(4) > 0 {
			c.HasID, c.ID = true, uint64(s.upTo(5))
		}
		c.Started, c.Finished = s.time(now), s.time(now)
		p.Containers = append(p.Containers, c)
	}
	return p
}

// Whatever is seen, and in whatever order, the rule answers, with a reason of the table; the same question has the same
// answer; Gone has evidence, stays, and is not said of a pod that nobody asked to terminate and that reports no end.
func FuzzJudge(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("the kubelet confirms, and the node is deleted, and another machine has the name"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &script{rest: data}
		nodes, now := NewNodes(), 1000*second
		var h *History
		for step := 1; len(s.rest) > 0; step++ {
			now = now.After(time.Duration(1 + s.upTo(64)*s.upTo(4)))
			if s.yes() {
				now = now.After(time.Duration(s.upTo(90)) * time.Second)
			}
			switch s.upTo(9) {
			case 0, 1:
				if n := s.anyNode(now, 10*step); s.upTo(4) == 1 {
					nodes.List(n, now)
				} else {
					nodes.See(n, now)
				}
			case 2:
				nodes.End("n"+itoa(1+s.upTo(2)), types.UID(s.id("u", 4)), now)
			case 3, 4:
				if p := s.anyPod(now); h == nil {
					h = NewHistory(p, now, s.yes(), nodes)
				} else {
					h.SeePod(p, now, s.yes(), nodes)
				}
			case 5:
				if h != nil {
					h.Vanish(Removal(1+s.upTo(2)), s.anyPod(now), now, nodes)
				}
			case 6:
				a := Attestation{By: "somebody", Reason: "seen off", At: s.time(now)}
				nodes.Attest([]types.UID{"pod", "u1", "u2"}[s.upTo(3)], a)
			case 7:
				nodes.Readable = s.yes()
			case 8:
				if h != nil {
					h.Resume(now, nodes)
				}
			}
			if h == nil {
				continue
			}
			h.Follow(now, nodes)
			for range 3 {
				now++
				j := held(t, h, nodes, now)
				h.Latch(j)
				if j.Need == "" {
					break
				}
				var found *facts.Node
				if s.yes() {
					found = s.anyNode(now, 10*step)
					found.Name = j.Need
				}
				nodes.SeeLive(j.Need, found, max(j.NeedFrom, now.Add(-time.Second)))
				h.Follow(now, nodes)
			}
		}
	})
}

// held judges, and holds the rule to what must be so of every word.
func held(t *testing.T, h *History, nodes *Nodes, now facts.Instant) Judgement {
	t.Helper()
	j := Judge(h, nodes, Defaults(), now)
	if again := Judge(h, nodes, Defaults(), now); !reflect.DeepEqual(j, again) {
		t.Fatalf("two answers to one question: %+v and %+v", j, again)
	}
	proof, proven := j.Proof()
	switch {
	case !slices.Contains(Pairs(), Pair{j.Verdict, j.Reason}):
		t.Fatalf("%s/%s is not in the table", j.Verdict, j.Reason)
	case j.Recheck.Known() && j.Recheck <= now:
		t.Fatalf("asks at %d to be asked again at %d", now, j.Recheck)
	case proven != (j.Verdict == Gone):
		t.Fatalf("%s/%s with the evidence %+v", j.Verdict, j.Reason, j.Evidence)
	case h.Proof != nil && j.Verdict != Gone:
		t.Fatalf("%s/%s of what was Gone/%s", j.Verdict, j.Reason, h.Proof.Reason)
	case h.Proof == nil && proven && proof.Reason != KubeletConfirmed && !h.Asked.Known():
		t.Fatalf("Gone/%s, and nobody asked it to terminate", proof.Reason)
	case h.Proof == nil && proven && proof.Reason == KubeletConfirmed && h.Pod.AnyRunning() && len(h.Runs) < 2:
		t.Fatalf("Gone/%s while a container is reported as running", proof.Reason)
	case h.Proof == nil && proven && h.Pod.Mirror && proof.Reason != Attested && h.Pod.Bound():
		t.Fatalf("Gone/%s of a mirror pod", proof.Reason)
	}
	return j
}
