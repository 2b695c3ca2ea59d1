package stage

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// API is an API server in memory: the objects that it holds, the watches of them, and the faults that it has.
//
// What it holds is true at once: live reads and preconditions see it. What lists and watches show of it may lag (see
// Delivery).
type API struct {
	loop    *Loop
	version uint64
	kinds   map[Kind]*collection
	faults  []*Fault
	calls   []Call
	watches []*watcher

	// Latency is how long a request takes; nil for none. The answer is what the server held when the request was made.
	// Others happen while the caller waits.
	Latency func(verb, kind, namespace, name string) time.Duration
	// Deliver says how the watches learn of a write that a client of the API made; nil for at once. Writes that whoever
	// plays makes by Put and Remove say so themselves.
	Deliver func(Object) Delivery
	// Cascade has the dependents of an object deleted in the background when it is removed, as the garbage collector does.
	Cascade bool
}

// Delivery says how the watches learn of a write.
type Delivery struct {
	// After is how long after the write lists and watches show it. Writes of one object never overtake one another.
	After time.Duration
	// Lost has no watch ever tell of the write. Lists show it: a relist, or a daemon that starts, learns of it.
	Lost bool
}

type key struct {
	namespace, name string
}

// version is one state of an object, with the record made of it. Both are never changed.
type version struct {
	object Object
	record facts.Record
}

// collection is the objects of one kind.
type collection struct {
	kind    Kind
	objects map[key]*series
}

// series is what became of one name.
type series struct {
	// held is what the API server holds; shown is what lists show, which may be behind. Nil: no such object.
	held, shown *version
	// waits counts the writes that are not shown yet; the last of them is due at due.
	waits int
	due   time.Time
}

func newAPI(loop *Loop) *API { return &API{loop: loop, kinds: map[Kind]*collection{}} }

func (a *API) collection(k Kind) *collection {
	c := a.kinds[k]
	if c == nil {
		c = &collection{kind: k, objects: map[key]*series{}}
		a.kinds[k] = c
	}
	return c
}

func keyOf(o metav1.Object) key { return key{o.GetNamespace(), o.GetName()} }

// Put writes an object: what the API server holds of that name from now on. Another UID than the one that is held makes
// it another object, without a word to the watches about the end of the former. The object is taken over, with a
// resourceVersion of its own; change a copy of it for the next write.
func (a *API) Put(o Object, d Delivery) error {
	c := a.collection(KindOf(o))
	o.SetResourceVersion(a.nextVersion())
	record, err := Record(o)
	if err != nil {
		return err
	}
	a.write(c, keyOf(o), &version{o, record}, nil, d)
	return nil
}

// Remove deletes an object whose final state is o. The name stays with whoever holds it when that is another UID.
func (a *API) Remove(o Object, d Delivery) error {
	c := a.collection(KindOf(o))
	o.SetResourceVersion(a.nextVersion())
	if o.GetDeletionTimestamp() != nil && KindOf(o) == Pod {
		o.SetDeletionGracePeriodSeconds(new(int64)) // the API server ends the grace in the write before
	}
	record, err := Record(o)
	if err != nil {
		return err
	}
	a.write(c, keyOf(o), nil, &version{o, record}, d)
	if a.Cascade {
		a.loop.At(a.loop.now, func() { a.collect(o.GetUID()) })
	}
	return nil
}

func (a *API) nextVersion() string {
	a.version++
	return strconv.FormatUint(a.version, 10)
}

// write makes next what is held under the name, nil for nothing; final is then the last state of what is gone.
func (a *API) write(c *collection, k key, next, final *version, d Delivery) {
	s := c.objects[k]
	if s == nil {
		s = &series{}
		c.objects[k] = s
	}
	before := s.held
	switch {
	case next != nil:
		s.held = next
	case before == nil || before.object.GetUID() == final.object.GetUID():
		s.held = nil
	}
	show := func() {
		switch {
		case next != nil:
			s.shown = next
		case s.shown == nil || s.shown.object.GetUID() == final.object.GetUID():
			s.shown = nil
		}
		if s.held == nil && s.shown == nil && s.waits == 0 {
			delete(c.objects, k)
		}
		if d.Lost {
			return
		}
		for _, w := range a.watches {
			if w.kind.Kind == c.kind {
				w.changed(before, next, final)
			}
		}
	}
	at := a.loop.now
	if !d.Lost {
		at = at.Add(d.After)
	}
	if s.waits > 0 && at.Before(s.due) {
		at = s.due
	}
	if s.waits == 0 && !at.After(a.loop.now) {
		show()
		return
	}
	s.due = at
	s.waits++
	a.loop.at(at, shows, func() {
		s.waits--
		show()
	})
}

// Get is what the API server holds of a name, nil for nothing. It is not a request: no fault, no latency. It must not be
// changed.
func (a *API) Get(k Kind, namespace, name string) Object {
	if v := a.held(k, namespace, name); v != nil {
		return v.object
	}
	return nil
}

func (a *API) held(k Kind, namespace, name string) *version {
	if c := a.kinds[k]; c != nil {
		if s := c.objects[key{namespace, name}]; s != nil {
			return s.held
		}
	}
	return nil
}

// List is what the API server holds of a kind, by namespace and name. It is not a request. The objects must not be
// changed.
func (a *API) List(k Kind) []Object {
	c := a.kinds[k]
	if c == nil {
		return nil
	}
	list := make([]Object, 0, len(c.objects))
	for _, s := range c.objects {
		if s.held != nil {
			list = append(list, s.held.object)
		}
	}
	slices.SortFunc(list, func(a, b Object) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return list
}

// Kinds lists the kinds of which the API server has ever held an object.
func (a *API) Kinds() []Kind {
	list := make([]Kind, 0, len(a.kinds))
	for k := range a.kinds {
		list = append(list, k)
	}
	slices.SortFunc(list, func(a, b Kind) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Group, b.Group)) })
	return list
}

// showing lists what a list request shows of a kind.
func (a *API) showing(k Kind, selects func(Object) bool) []*version {
	c := a.kinds[k]
	if c == nil {
		return nil
	}
	list := make([]*version, 0, len(c.objects))
	for _, s := range c.objects {
		if s.shown != nil && selects(s.shown.object) {
			list = append(list, s.shown)
		}
	}
	slices.SortFunc(list, func(a, b *version) int {
		x, y := a.record.Identity(), b.record.Identity()
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	return list
}

// exists says whether an object with the UID is held.
func (a *API) exists(uid types.UID) bool {
	for _, c := range a.kinds {
		for _, s := range c.objects {
			if s.held != nil && s.held.object.GetUID() == uid {
				return true
			}
		}
	}
	return false
}
