package reap

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/nodeproof"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"
)

// witness judges pods by live reads alone: what it has seen of them itself, and what became of their nodes meanwhile.
type witness struct {
	api     API
	clock   clock.PassiveClock
	options nodeproof.Options

	mu    sync.Mutex
	last  facts.Instant
	nodes *nodeproof.Nodes
	pods  map[types.UID]*testimony
	// asked is when each node was last read.
	asked map[string]facts.Instant
}

// testimony is what was seen of one pod.
type testimony struct {
	history   *nodeproof.History
	judgement nodeproof.Judgement
}

func newWitness(api API, clk clock.PassiveClock, options nodeproof.Options) *witness {
	return &witness{api: api, clock: clk, options: options, nodes: nodeproof.NewNodes(), pods: map[types.UID]*testimony{},
		asked: map[string]facts.Instant{}}
}

// now never is the same twice: a live read counts only for what was seen before it.
func (w *witness) now() facts.Instant {
	w.last = max(facts.At(w.clock.Now()), w.last+1)
	return w.last
}

// sees takes a state of a pod; initial marks the first look, whose states may be old. A list and a watch are not in step,
// so a state that is older than the one known is dropped, and so is anything after the final one.
func (w *witness) sees(p *facts.Pod, initial bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.pods[p.UID]
	switch {
	case t == nil:
		w.pods[p.UID] = &testimony{history: nodeproof.NewHistory(p, w.now(), initial, w.nodes)}
	case t.history.Removal != nodeproof.Deleted && !older(p, t.history.Pod):
		t.history.SeePod(p, w.now(), initial, w.nodes)
	}
}

func older(p, known *facts.Pod) bool {
	c, err := resourceversion.CompareResourceVersion(p.ResourceVersion, known.ResourceVersion)
	return err == nil && c < 0
}

// misses takes the end of a pod's object: final is its last state, nil when nobody saw that. The final state counts even
// when a read has found the object gone before it came.
func (w *witness) misses(uid types.UID, final *facts.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.pods[uid]
	switch {
	case t == nil:
	case final == nil:
		t.history.Vanish(nodeproof.Unseen, nil, w.now(), w.nodes)
	case t.history.Removal != nodeproof.Deleted:
		if t.history.Removal == nodeproof.Unseen {
			t.history.SeePod(final, w.now(), false, w.nodes)
		}
		t.history.Vanish(nodeproof.Deleted, final, w.now(), w.nodes)
	}
}

// recalls goes on from a record: what is known of a pod already stands, and people's words are taken.
func (w *witness) recalls(rec Recorded) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for uid, a := range rec.Attestations {
		w.nodes.Attest(uid, a)
	}
	now := w.now()
	for _, h := range rec.Pods {
		if w.pods[h.Pod.UID] == nil {
			h.Resume(now, w.nodes)
			w.pods[h.Pod.UID] = &testimony{history: h}
		}
	}
}

// known is what was seen of a pod: its last state, and whether its object is there as far as anybody knows.
func (w *witness) known(uid types.UID) (p *facts.Pod, present bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.pods[uid]
	if t == nil {
		return nil, false
	}
	return t.history.Pod, t.history.Removal == nodeproof.Present
}

// uids lists the pods that were seen.
func (w *witness) uids() []types.UID {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := make([]types.UID, 0, len(w.pods))
	for uid := range w.pods {
		list = append(list, uid)
	}
	slices.Sort(list)
	return list
}

const (
	// nodeEvery is how often a node that holds pods that are not Gone is read, and manyNodes from how many on they are
	// listed instead, with one request.
	nodeEvery = 5 * time.Second
	manyNodes = 20
	// maxRounds bounds how often one look reads and judges again.
	maxRounds = 5
)

// judge judges every pod that is not Gone, reading the nodes live that it needs.
func (w *witness) judge(ctx context.Context) error {
	if err := w.readNodes(ctx, w.wanted(nil)); err != nil {
		return err
	}
	for range maxRounds {
		var needs []string
		w.mu.Lock()
		now := w.now()
		for _, t := range w.pods {
			if t.history.Proof != nil && t.judgement.Verdict == nodeproof.Gone {
				continue
			}
			t.history.Follow(now, w.nodes)
			t.judgement = nodeproof.Judge(t.history, w.nodes, w.options, now)
			t.history.Latch(t.judgement)
			if need := t.judgement.Need; need != "" && t.judgement.NeedFrom <= now && !slices.Contains(needs, need) {
				needs = append(needs, need)
			}
		}
		w.mu.Unlock()
		if len(needs) == 0 {
			return nil
		}
		slices.Sort(needs)
		if err := w.readNodes(ctx, needs); err != nil {
			return err
		}
	}
	return nil
}

// wanted lists the nodes of pods that are not Gone and that were not read lately.
func (w *witness) wanted(names []string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	for _, t := range w.pods {
		if t.history.Proof != nil {
			continue
		}
		on := []string{t.history.Pod.Node}
		for i := range t.history.Runs {
			on = append(on, t.history.Runs[i].Node)
		}
		for _, name := range on {
			if at := w.asked[name]; name != "" && (!at.Known() || now >= at.Add(nodeEvery)) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

func (w *witness) readNodes(ctx context.Context, names []string) error {
	w.mu.Lock()
	readable, begun := w.nodes.Readable, w.now()
	w.mu.Unlock()
	if !readable || len(names) == 0 {
		return nil
	}
	found := map[string]*facts.Node{}
	if len(names) > manyNodes {
		list, err := w.api.List(ctx, nodeKind(), "", labels.Everything())
		if w.forbidden(err) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, o := range list {
			found[o.GetName()] = facts.FromNode(o.(*corev1.Node))
		}
	} else {
		for _, name := range names {
			o, err := w.api.Get(ctx, nodeKind(), "", name)
			if w.forbidden(err) {
				return nil
			}
			if err != nil {
				return err
			}
			if o != nil {
				found[name] = facts.FromNode(o.(*corev1.Node))
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	for _, name := range names {
		n := found[name]
		w.asked[name] = now
		if n != nil {
			w.nodes.See(n, now)
		} else {
			w.nodes.End(name, "", now)
		}
		w.nodes.SeeLive(name, n, begun)
	}
	for _, t := range w.pods {
		t.history.Follow(now, w.nodes)
	}
	return nil
}

// forbidden takes note that Nodes may not be read: nothing is proven then.
func (w *witness) forbidden(err error) bool {
	if err == nil || !isForbidden(err) {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes.Readable = false
	return true
}

// describe fills in what is known of a pod's processes.
func (w *witness) describe(r *Remain) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.pods[r.UID]
	if t == nil {
		return
	}
	r.Verdict, r.Reason = t.judgement.Verdict, t.judgement.Reason
	if p := t.history.Proof; p != nil {
		r.Evidence = p.Describe()
	}
}
