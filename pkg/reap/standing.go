package reap

import (
	"context"
	"errors"
	"fmt"

	"github.com/orphand/orphand/pkg/facts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// presence says what a live read told of an owner.
type presence uint8

const (
	presenceUnknown presence = iota
	here
	absent
	misplaced // it is in another namespace than what names it as its owner
)

// owned is an owner reference with what a live read told of the owner.
type owned struct {
	facts.Owner
	is presence
}

// makers are the kinds of which an owner is looked up.
func makers() []Kind { return []Kind{trainJobKind(), jobSetKind(), jobKind()} }

// standing is all that the decision on one object rests on. Everything in it was read live.
type standing struct {
	kind   string
	keep   bool
	mirror bool
	owners []owned
	// copy: a runtime that nothing owns and that carries the labels of the adapter's copies. users are the TrainJobs that
	// have its name or name it as their runtime.
	copy  bool
	users []string
}

// decide says why the object must not be deleted, or "" when it may be. Only a root may: whatever has an owner that
// lives is left to that owner, and whatever has none was made by a person.
func (s standing) decide() (Reason, string) {
	switch {
	case s.keep:
		return Kept, ""
	case s.mirror:
		return MirrorPod, ""
	case s.kind == facts.KindTrainJob:
		return "", "" // the root of roots: only a person or a policy that names it gets here
	case s.copy && len(s.users) > 0:
		return RuntimeInUse, s.users[0]
	case s.copy:
		return "", ""
	}
	ofJob := false
	for _, o := range s.owners {
		switch o.is {
		case here:
			return OwnerLives, lower(o.Kind) + "/" + o.Name
		case misplaced:
			return OwnerElsewhere, lower(o.Kind) + "/" + o.Name
		case presenceUnknown:
			return OwnerUnknown, lower(o.Kind) + "/" + o.Name
		}
		ofJob = ofJob || makes(o.Kind, s.kind)
	}
	if !ofJob {
		return NoOwner, ""
	}
	return "", ""
}

// makes says whether a controller of the owner's kind makes objects of the other kind for a TrainJob.
func makes(owner, kind string) bool {
	switch kind {
	case facts.KindPod:
		return owner == facts.KindJob
	case facts.KindJob, facts.KindService:
		return owner == facts.KindJobSet
	}
	return owner == facts.KindTrainJob
}

// inspector reads what decisions rest on, the same owner once: it lives for one look at a job, no longer.
type inspector struct {
	api    API
	copies labels.Selector
	owners map[ownerKey]presence
	// far looks for owners in all namespaces; nil where the caller knows from elsewhere that a reference points there.
	far *far
}

// ownerKey: an absence is true of one UID under one name of one namespace only.
type ownerKey struct {
	namespace string
	facts.Owner
}

func newInspector(api API, copies labels.Selector) *inspector {
	return &inspector{api: api, copies: copies, owners: map[ownerKey]presence{}}
}

// owner asks whether an owner is there: 404 and another UID mean that it is not. The reference's version is not looked
// at: the kind may be served in another one.
func (i *inspector) owner(ctx context.Context, namespace string, o facts.Owner) (presence, error) {
	k := ownerKey{namespace, o}
	if is, known := i.owners[k]; known {
		return is, nil
	}
	is := presenceUnknown
	for _, kind := range makers() {
		if kind.Kind != o.Kind || kind.Resource.Group != o.Group {
			continue
		}
		found, err := i.api.Get(ctx, kind, namespace, o.Name)
		switch {
		case errors.Is(err, ErrNotServed):
		case err != nil:
			return presenceUnknown, err
		case found != nil && found.GetUID() == o.UID:
			is = here
		default:
			is = absent
			if away, err := i.far.has(ctx, i.api, kind, o.UID); err != nil {
				return presenceUnknown, err
			} else if away {
				is = misplaced
			}
		}
	}
	i.owners[k] = is
	return is, nil
}

// far knows which owners are in no namespace at all. An owner reference does not name a namespace, and one that points into
// another is wrong (kubernetes#65200): whoever looks only where the object is takes an owner that lives for one that is gone.
type far struct {
	// nowhere remembers what was not found: no UID comes back. there is what one look has shown of each kind.
	nowhere map[types.UID]bool
	there   map[Kind]map[types.UID]bool
}

func newFar() *far { return &far{nowhere: map[types.UID]bool{}, there: map[Kind]map[types.UID]bool{}} }

// again is for the next look.
func (f *far) again() *far { return &far{nowhere: f.nowhere, there: map[Kind]map[types.UID]bool{}} }

// has says whether an object of the kind with the UID is there, in whatever namespace. Whoever may not list a kind in all
// namespaces knows only of its own: the answer is no.
//
// One list of a kind does for a look: an owner is made before what it owns, so that none is newer than the list.
func (f *far) has(ctx context.Context, api API, k Kind, uid types.UID) (bool, error) {
	if f == nil || f.nowhere[uid] {
		return false, nil
	}
	if f.there[k] == nil {
		selector := labels.Everything()
		if k == jobKind() {
			selector = hasLabel(facts.LabelJobSetName, "") // no other Job makes pods for a TrainJob
		}
		list, err := api.List(ctx, k, "", selector)
		if err != nil && !isForbidden(err) && !errors.Is(err, ErrNotServed) {
			return false, err
		}
		f.there[k] = map[types.UID]bool{}
		for _, o := range list {
			f.there[k][o.GetUID()] = true
		}
	}
	f.nowhere[uid] = !f.there[k][uid]
	return f.there[k][uid], nil
}

// stand gathers what the decision on an object rests on.
func (i *inspector) stand(ctx context.Context, t Target, owners []facts.Owner, keep, mirror bool, labelled map[string]string) (standing, error) {
	s := standing{kind: t.Ref.Kind, keep: keep, mirror: mirror}
	if s.keep || s.mirror || s.kind == facts.KindTrainJob {
		return s, nil
	}
	if (t.Kind == runtimeKind() || t.Kind == clusterRuntimeKind()) && len(owners) == 0 && i.copies != nil && !i.copies.Empty() && i.copies.Matches(labels.Set(labelled)) {
		s.copy = true
		var err error
		s.users, err = i.users(ctx, t)
		return s, err
	}
	for _, o := range owners {
		is, err := i.owner(ctx, t.Namespace, o)
		if err != nil {
			return s, fmt.Errorf("whether the owner of %s is there: %w", t.Ref, err)
		}
		s.owners = append(s.owners, owned{o, is})
	}
	return s, nil
}

// users lists the TrainJobs that a runtime copy may be needed by: Trainer's webhook refuses every update of a TrainJob
// whose runtime is gone.
func (i *inspector) users(ctx context.Context, t Target) ([]string, error) {
	list, err := i.api.List(ctx, trainJobKind(), t.Namespace, labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("which TrainJobs name %s: %w", t.Ref, err)
	}
	var users []string
	for _, o := range list {
		u, err := facts.FromTrainJob(o.(*unstructured.Unstructured))
		if err != nil {
			return nil, err
		}
		if t.Namespace != "" && u.Name == t.Name || u.RuntimeKind == t.Kind.Kind && u.RuntimeName == t.Name {
			users = append(users, u.Ref().String())
		}
	}
	return users, nil
}

// keeps and mirror read the annotations of any object.
func keeps(o metav1.Object) bool { return facts.FromMeta("", "", o).Keep }

func mirror(o metav1.Object) bool {
	_, yes := o.GetAnnotations()["kubernetes.io/config.mirror"]
	return yes
}
