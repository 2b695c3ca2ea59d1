package sim

import (
	"context"

	"github.com/orphand/orphand/internal/stage"
	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/informers"
	"github.com/orphand/orphand/pkg/ledger"
	"github.com/orphand/orphand/pkg/settle"
)

// spy stands between the handlers and the process, and notes what orphand gets to see.
type spy struct {
	stage.Process
	w      *World
	engine *settle.Engine
}

// newSpy makes orphand: with its records where they can be kept, else with its memory alone.
func newSpy(w *World, p stage.Parts) *spy {
	p.Live = spyLive{p.Live, w}
	if w.enforcing != nil {
		w.enforcing.taken()
		a, e := newArmed(w, true, p, w.records)
		return &spy{Process: a, w: w, engine: e}
	}
	if w.records == nil {
		e := stage.Engine(settle.Defaults())(p).(*settle.Engine)
		return &spy{Process: e, w: w, engine: e}
	}
	e := stage.Recorded(settle.Defaults(), w.records)(p).(*stage.RecordedEngine)
	return &spy{Process: e, w: w, engine: e.Engine}
}

// Begin goes on from the records.
func (s *spy) Begin() {
	if p, ok := s.Process.(interface{ Begin() }); ok {
		p.Begin()
	}
}

// End ends the writing of records, and notes whom they name: those must be remembered.
func (s *spy) End() {
	if p, ok := s.Process.(interface{ End() }); ok {
		p.End()
	}
	clear(s.w.judge.promised)
	if s.w.records == nil {
		return
	}
	for _, o := range s.w.records.List() {
		if n, err := ledger.Read(o); err == nil {
			for i := range n.Pods {
				s.w.judge.promised[n.Pods[i].History.Pod.UID] = true
			}
		}
	}
}

// PodSeen notes that orphand knows of the pod.
func (s *spy) PodSeen(p *facts.Pod, initial bool) {
	s.w.judge.seen[p.UID] = s.w.judge.life
	s.w.judge.podSeen(p)
	s.Process.PodSeen(p, initial)
}

// PodGone notes that orphand knows of the pod.
func (s *spy) PodGone(p *facts.Pod, how informers.End) {
	s.w.judge.seen[p.UID] = s.w.judge.life
	if how == informers.Unselected || !p.Terminating() && how == informers.Final { // whatever orphand makes of that
		s.w.judge.unselected[p.UID] = s.w.judge.life
	}
	s.Process.PodGone(p, how)
}

// ObjectSeen notes that orphand knows whose a JobSet is.
func (s *spy) ObjectSeen(o *facts.Object, initial bool) {
	if o.Kind == facts.KindJobSet && o.Owner.UID != "" {
		s.w.judge.fathered[o.UID] = s.w.judge.life
	}
	s.Process.ObjectSeen(o, initial)
}

// NodeSeen notes what speaks against orphand's word.
func (s *spy) NodeSeen(n *facts.Node, initial bool) {
	s.w.judge.nodeSeen(n)
	s.Process.NodeSeen(n, initial)
}

// spyLive notes what orphand reads.
type spyLive struct {
	settle.Live
	w *World
}

// Node notes that orphand knows that the machine has the Node.
func (l spyLive) Node(ctx context.Context, name string) (*facts.Node, error) {
	asked := l.w.judge.life
	n, err := l.Live.Node(ctx, name)
	if n != nil && asked == l.w.judge.life { // whoever asked is there to hear it
		l.w.judge.held[holding{n.UID, n.Machine}] = asked
		l.w.judge.nodes[n.UID] = n
	}
	return n, err
}
