package sweep

import (
	"slices"
	"sync"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/reap"
	"github.com/orphand/orphand/pkg/retention"
	"github.com/orphand/orphand/pkg/signals"
	"k8s.io/apimachinery/pkg/types"
)

// Sweeper remembers objects and pods and decides on them. It is safe for concurrent use.
type Sweeper struct {
	c Config

	mu     sync.Mutex
	policy *retention.Policy
	// since is when the policy came: what was due long before is its backlog.
	since facts.Instant
	// begun says that every kind has been listed: nothing is decided before.
	begun   bool
	objects map[types.UID]*entry
	// totals counts the objects of each kind.
	totals map[string]int
	pods   map[types.UID]*pod
	// ofName finds pods by their label and its value, which is the name of their job; named finds the jobs by the same.
	ofName map[label]map[types.UID]*pod
	named  map[label]map[types.UID]bool
	// ofOwner finds objects by their controller owner.
	ofOwner map[types.UID]map[types.UID]bool
	groups  map[string]map[types.UID]*entry
	// blind are the labels of pods that cannot be watched.
	blind map[string]bool
	// unserved are the kinds, by resource and group, that the API server does not serve now.
	unserved map[string]bool
	cleanups retention.Cleanups
	memory   memory
	due      release
	warned   map[warning]bool
	pruned   facts.Instant
	// saidBraked is until when a kind's backlog waits, as it was said.
	saidBraked map[string]facts.Instant
}

// entry is one object.
type entry struct {
	o *retention.Object
	// owner is what the last look at its controller owner found, at looked.
	owner  retention.OwnerState
	looked facts.Instant
	// orphaned is when its owner was first seen to be gone.
	orphaned facts.Instant
	// known is since when everything that its decision reads was known: nobody can be late before.
	known facts.Instant
	// surplus is since when keepLast wants it gone.
	surplus facts.Instant
	said    retention.Decision
	queued  bool
	// released says that it may be deleted as soon as a worker comes to it.
	released bool
	refused  reap.Reason
	// deleted is when a DELETE of it was accepted.
	deleted facts.Instant
	raised  map[signals.Finding]bool
	// noticed says that the log has it that the object would go, were it not for dryRun.
	noticed bool
	// announced is the notice of its deletion.
	announced announcement
	// backlog says that it was due long before the policy came.
	backlog bool
}

// pod is one pod of an object, with the labels by which watches selected it.
type pod struct {
	*facts.Pod
	labels   []label
	said     retention.Decision
	queued   bool
	released bool
	refused  reap.Reason
	deleted  facts.Instant
	known    facts.Instant
	backlog  bool
}

type label struct {
	key, namespace, value string
}

type warning struct {
	uid               types.UID
	annotation, value string
}

// New makes a Sweeper that knows no object yet. Nothing is decided before Begin.
func New(c Config) *Sweeper {
	if c.Recorder == nil {
		c.Recorder = uncounted{}
	}
	if c.Sink == nil {
		c.Sink = signals.Discard{}
	}
	if c.Notices == nil {
		c.Notices = spoken{}
	}
	if c.Leads == nil {
		c.Leads = func() bool { return true }
	}
	if c.MayDelete == nil {
		c.MayDelete = func(string) reap.Reason { return "" }
	}
	s := &Sweeper{c: c, policy: c.Policy, objects: map[types.UID]*entry{}, totals: map[string]int{}, pods: map[types.UID]*pod{}, ofName: map[label]map[types.UID]*pod{}, named: map[label]map[types.UID]bool{},
		ofOwner: map[types.UID]map[types.UID]bool{}, groups: map[string]map[types.UID]*entry{}, blind: map[string]bool{}, unserved: map[string]bool{}, warned: map[warning]bool{}, saidBraked: map[string]facts.Instant{}}
	s.since = s.now()
	s.due = release{spent: map[string][]facts.Instant{}, waiting: map[string]*turns{}, base: map[string]int{}, out: map[types.UID]bool{}}
	return s
}

func (s *Sweeper) now() facts.Instant { return facts.At(s.c.Clock.Now()) }

// Begin starts decisions: every kind has been listed.
func (s *Sweeper) Begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = true
	s.unsure()
	s.all()
}

// Again has every decision made anew: this replica may write now, or may not any more.
func (s *Sweeper) Again() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsure()
	s.all()
}

// Remembering makes a Sweeper that knows what another cleaned up, to take its place.
func (s *Sweeper) Remembering(c Config) *Sweeper {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := New(c)
	next.cleanups, s.cleanups = s.cleanups, retention.Cleanups{}
	next.memory.removals, s.memory.removals = s.memory.removals, retention.Removals{}
	next.due.spent, next.due.base = s.due.spent, s.due.base
	return next
}

// End takes everything back that was said of objects: nobody looks at them any more.
func (s *Sweeper) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = false
	for _, e := range s.objects {
		s.count(e.said, retention.Decision{})
		for f := range e.raised {
			s.c.Recorder.Finding(string(f), false)
		}
	}
	for _, p := range s.pods {
		s.count(p.said, retention.Decision{})
	}
	clear(s.objects)
	clear(s.pods)
}

// SetPolicy puts another policy in force. Objects must be read anew where its Reading is another.
func (s *Sweeper) SetPolicy(p *retention.Policy) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.policy, s.since = p, s.now()
	clear(s.groups)
	for _, e := range s.objects {
		e.surplus, e.noticed, e.backlog = 0, false, false
		s.intoGroup(e)
	}
	s.all()
}

func (s *Sweeper) all() {
	for name := range s.groups {
		s.c.Queue.Add(Key{Group: name})
	}
	for uid, e := range s.objects {
		e.refused = ""
		s.c.Queue.Add(Key{UID: uid})
	}
	for uid, p := range s.pods {
		p.refused = ""
		s.c.Queue.Add(Key{UID: uid, Pod: true})
	}
	s.c.Queue.Add(Key{Release: true})
}

// SetBlind says whether the pods of a label cannot be seen. Nothing whose pods cannot be seen is deleted.
func (s *Sweeper) SetBlind(podLabel string, blind bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.blind[podLabel] == blind {
		return
	}
	s.blind[podLabel] = blind
	for uid, e := range s.objects {
		if e.o.Of.PodSelector() == podLabel {
			s.c.Queue.Add(Key{UID: uid})
		}
	}
}

// SetUnserved says whether the API server does not serve a kind. Of its objects, which may be gone with their CRD without a
// word, or come back with it, none is read or deleted until it does: they would be asked for again and again.
func (s *Sweeper) SetUnserved(k *retention.Kind, unserved bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unserved[k.GroupResource()] == unserved {
		return
	}
	s.unserved[k.GroupResource()] = unserved
	for uid, e := range s.objects {
		if e.o.Of.GroupResource() == k.GroupResource() {
			e.queued, e.released = false, false
			s.c.Queue.Add(Key{UID: uid})
		}
	}
}

// Touch has an object looked at again: a verdict on a pod of it changed. It never blocks.
func (s *Sweeper) Touch(uid types.UID) { s.c.Queue.Add(Key{UID: uid}) }

// ObjectSeen takes note of an object's present state.
func (s *Sweeper) ObjectSeen(o *retention.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.objects[o.UID]
	if e == nil {
		e = &entry{known: s.now(), raised: map[signals.Finding]bool{}}
		s.objects[o.UID] = e
		s.totals[o.Of.Name]++
	}
	s.replace(e, o)
	s.c.Queue.Add(Key{UID: o.UID})
	// Whatever it owns may have waited for it.
	for uid := range s.ofOwner[o.UID] {
		s.c.Queue.Add(Key{UID: uid})
	}
	s.touchPods(e)
}

// replace makes o the object's state.
func (s *Sweeper) replace(e *entry, o *retention.Object) {
	if e.o == nil || e.o.Finished != o.Finished || e.o.Terminating() != o.Terminating() {
		e.known = s.now()
	}
	if e.o == nil || e.o.Owner != o.Owner {
		// What was found out about one owner says nothing of another.
		if e.o != nil {
			removeFrom(s.ofOwner, e.o.Owner.UID, o.UID)
			e.owner, e.looked, e.orphaned = retention.OwnerUnread, 0, 0
		}
		if o.Owner.Controller {
			addTo(s.ofOwner, o.Owner.UID, o.UID)
		}
	}
	if e.o == nil || podsOf(e.o) != podsOf(o) {
		if e.o != nil {
			removeFrom(s.named, podsOf(e.o), o.UID)
		}
		addTo(s.named, podsOf(o), o.UID)
	}
	e.o = o
	s.intoGroup(e)
}

func groupOf(o *retention.Object) string { return o.Of.Name + "/" + o.Namespace }

func (s *Sweeper) intoGroup(e *entry) {
	name := groupOf(e.o)
	if s.policy.Capped(e.o) && e.o.Finished {
		if s.groups[name] == nil {
			s.groups[name] = map[types.UID]*entry{}
		}
		s.groups[name][e.o.UID] = e
		s.c.Queue.Add(Key{Group: name})
		return
	}
	if s.groups[name][e.o.UID] != nil {
		delete(s.groups[name], e.o.UID)
		s.c.Queue.Add(Key{Group: name})
	}
}

// ObjectGone takes note that an object is gone. Without a UID, whatever has its kind and name is.
func (s *Sweeper) ObjectGone(k *retention.Kind, m facts.Meta) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.UID != "" {
		s.forget(m.UID)
		return
	}
	for uid, e := range s.objects {
		if e.o.Of.GroupResource() == k.GroupResource() && e.o.Namespace == m.Namespace && e.o.Name == m.Name {
			s.forget(uid)
		}
	}
}

func (s *Sweeper) forget(uid types.UID) {
	e := s.objects[uid]
	if e == nil {
		return
	}
	s.c.Deleter.Gone(uid)
	for f := range e.raised {
		s.end(e, f)
	}
	s.count(e.said, retention.Decision{})
	s.drop(e)
	if name := groupOf(e.o); s.groups[name][uid] != nil {
		delete(s.groups[name], uid)
		s.c.Queue.Add(Key{Group: name})
	}
	for w := range s.warned {
		if w.uid == uid {
			delete(s.warned, w)
		}
	}
	for owned := range s.ofOwner[uid] {
		s.objects[owned].looked = 0
		s.c.Queue.Add(Key{UID: owned})
	}
	s.touchPods(e)
	if now := s.now(); now.Sub(s.pruned) > pruneEvery {
		s.pruned = now
		s.cleanups.Forget(s.policy.Recreations().Within, func(uid types.UID) bool { return s.objects[uid] != nil }, now)
	}
}

// pruneEvery is how often what can no longer matter is dropped.
const pruneEvery = time.Minute

func (s *Sweeper) drop(e *entry) {
	uid := e.o.UID
	delete(s.objects, uid)
	s.totals[e.o.Of.Name]--
	removeFrom(s.ofOwner, e.o.Owner.UID, uid)
	removeFrom(s.named, podsOf(e.o), uid)
}

// podsOf is the label that the pods of an object have.
func podsOf(o *retention.Object) label { return label{o.Of.PodSelector(), o.Namespace, o.PodsNamed} }

// PodSeen takes note of a pod's present state; key is the label by which a watch selects it, value the label's value.
// Several watches may select one pod.
func (s *Sweeper) PodSeen(key, value string, f *facts.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pods[f.UID]
	if p == nil {
		p = &pod{known: s.now()}
		s.pods[f.UID] = p
	}
	if l := (label{key, f.Namespace, value}); !slices.Contains(p.labels, l) {
		p.labels = append(p.labels, l)
		if s.ofName[l] == nil {
			s.ofName[l] = map[types.UID]*pod{}
		}
		s.ofName[l][f.UID] = p
	}
	p.Pod = f
	s.touchJobs(p)
	s.c.Queue.Add(Key{UID: f.UID, Pod: true})
}

// PodGone takes note that a pod's object is gone. Without a UID, whatever has its name is.
func (s *Sweeper) PodGone(m facts.Meta) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.UID != "" {
		s.forgetPod(m.UID)
		return
	}
	for uid, p := range s.pods {
		if p.Namespace == m.Namespace && p.Name == m.Name {
			s.forgetPod(uid)
		}
	}
}

func (s *Sweeper) forgetPod(uid types.UID) {
	p := s.pods[uid]
	if p == nil {
		return
	}
	s.c.Deleter.Gone(uid)
	s.logsLost(p)
	s.touchJobs(p)
	s.count(p.said, retention.Decision{})
	delete(s.pods, uid)
	for _, l := range p.labels {
		delete(s.ofName[l], uid)
		if len(s.ofName[l]) == 0 {
			delete(s.ofName, l)
		}
	}
}

// touchJobs has the objects that the pod may be of looked at again.
func (s *Sweeper) touchJobs(p *pod) {
	for _, l := range p.labels {
		for uid := range s.named[l] {
			s.c.Queue.Add(Key{UID: uid})
		}
	}
}

func (s *Sweeper) touchPods(e *entry) {
	for uid := range s.ofName[podsOf(e.o)] {
		s.c.Queue.Add(Key{UID: uid, Pod: true})
	}
}

func addTo[K, V comparable](m map[K]map[V]bool, k K, v V) {
	if m[k] == nil {
		m[k] = map[V]bool{}
	}
	m[k][v] = true
}

func removeFrom[K, V comparable](m map[K]map[V]bool, k K, v V) {
	delete(m[k], v)
	if len(m[k]) == 0 {
		delete(m, k)
	}
}
