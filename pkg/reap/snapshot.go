package reap

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/orphand/orphand/pkg/facts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
)

// object is what a live read shows of an object that is neither a TrainJob nor a pod.
type object struct {
	*facts.Object
	kind   Kind
	owners []facts.Owner
}

func objectOf(k Kind, o metav1.Object) *object {
	return &object{Object: facts.FromMeta(k.Resource.Group, k.Kind, o), kind: k, owners: ownersOf(o)}
}

// ownersOf lists every owner, the controller and the others: any of them that lives is a reason to keep the object.
func ownersOf(o metav1.Object) []facts.Owner {
	var owners []facts.Owner
	for _, r := range o.GetOwnerReferences() {
		gv, _ := schema.ParseGroupVersion(r.APIVersion)
		owners = append(owners, facts.Owner{Group: gv.Group, Kind: r.Kind, Name: r.Name, UID: r.UID,
			Controller: r.Controller != nil && *r.Controller})
	}
	return owners
}

type podSeen struct {
	*facts.Pod
	owners []facts.Owner
}

// snapshot is what live reads show of one name, of a namespace or of a whole cluster.
type snapshot struct {
	trainJobs []*facts.TrainJob
	objects   []*object
	pods      []podSeen
	// unreadable are the kinds that could not be read, for want of permission only.
	unreadable map[Kind]error
	// services are the names of headless Services that are not their JobSets', as far as pods have told.
	services []string
}

// takeSnapshot reads from the bottom to the top: what owns an object that was listed is there when it is read afterwards,
// or is gone. An empty name takes every name, an empty namespace every namespace. services are names of headless Services that
// an earlier look has learnt of, besides those that the pods tell.
func takeSnapshot(ctx context.Context, api API, namespace, name string, services []string) (*snapshot, error) {
	s := &snapshot{unreadable: map[Kind]error{}}
	ofJobSets := hasLabel(facts.LabelJobSetName, name)
	list := func(k Kind, selector labels.Selector, add func(metav1.Object) error) error {
		found, err := api.List(ctx, k, namespace, selector)
		if errors.Is(err, ErrNotServed) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, o := range found {
			if err := add(o); err != nil {
				return err
			}
		}
		return nil
	}
	get := func(k Kind, name string, add func(metav1.Object) error) error {
		o, err := api.Get(ctx, k, namespace, name)
		if errors.Is(err, ErrNotServed) || err == nil && o == nil {
			return nil
		}
		if err != nil {
			return err
		}
		return add(o)
	}
	object := func(k Kind) func(metav1.Object) error {
		return func(o metav1.Object) error {
			s.objects = append(s.objects, objectOf(k, o))
			return nil
		}
	}
	trainJob := func(o metav1.Object) error {
		t, err := facts.FromTrainJob(o.(*unstructured.Unstructured))
		s.trainJobs = append(s.trainJobs, t)
		return err
	}
	pod := func(o metav1.Object) error {
		s.pods = append(s.pods, podSeen{facts.FromPod(o.(*corev1.Pod)), ownersOf(o)})
		return nil
	}

	if err := list(podKind(), ofJobSets, pod); err != nil {
		return nil, err
	}
	if err := list(jobKind(), ofJobSets, object(jobKind())); err != nil {
		return nil, err
	}
	for _, p := range s.pods {
		if p.Subdomain != "" && !slices.Contains(services, p.Subdomain) {
			services = append(services, p.Subdomain)
		}
	}
	s.services = services
	if name != "" {
		return s, firstError(
			func() error { return s.namedOf(name, services, get) },
			func() error { return get(jobSetKind(), name, object(jobSetKind())) },
			func() error { return get(runtimeKind(), name, object(runtimeKind())) },
			func() error { return get(trainJobKind(), name, trainJob) })
	}
	return s, firstError(
		func() error { return s.allNamed(list) },
		func() error { return list(jobSetKind(), labels.Everything(), object(jobSetKind())) },
		func() error { return list(runtimeKind(), labels.Everything(), object(runtimeKind())) },
		func() error { return list(trainJobKind(), labels.Everything(), trainJob) })
}

func firstError(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func hasLabel(label, value string) labels.Selector {
	op, values := selection.Exists, []string(nil)
	if value != "" {
		op, values = selection.Equals, []string{value}
	}
	r, err := labels.NewRequirement(label, op, values)
	if err != nil {
		return labels.Nothing()
	}
	return labels.NewSelector().Add(*r)
}

// namedOf reads what Trainer names after the job.
func (s *snapshot) namedOf(name string, services []string, get func(Kind, string, func(metav1.Object) error) error) error {
	for _, n := range namedKinds() {
		names := []string{name + n.suffix}
		if n.Kind.Kind == facts.KindService {
			names = append(names, services...)
		}
		for i, exact := range names {
			err := s.readable(n.Kind, get(n.Kind, exact, func(m metav1.Object) error {
				// A Service of another name may be another job's, which has the same subdomain.
				if o := objectOf(n.Kind, m); i == 0 || o.Owner.Name == name {
					s.objects = append(s.objects, o)
				}
				return nil
			}))
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// allNamed lists what has a name that Trainer could have given it, and an owner that it would have.
func (s *snapshot) allNamed(list func(Kind, labels.Selector, func(metav1.Object) error) error) error {
	var done []Kind
	for _, n := range namedKinds() {
		if contains(done, n.Kind) {
			continue
		}
		done = append(done, n.Kind)
		err := s.readable(n.Kind, list(n.Kind, labels.Everything(), func(m metav1.Object) error {
			if o := objectOf(n.Kind, m); o.namedAfterOwner() {
				s.objects = append(s.objects, o)
			}
			return nil
		}))
		if err != nil {
			return err
		}
	}
	return nil
}

// readable lets a kind be missing from the snapshot that this client may not read: none of these can start a process.
func (s *snapshot) readable(k Kind, err error) error {
	if err != nil && isForbidden(err) {
		s.unreadable[k] = err
		return nil
	}
	return err
}

// namedAfterOwner says whether the object has exactly the name and the kind of owner that Trainer or JobSet gives it. A
// headless Service may have any name (spec.network.subdomain): that a JobSet is its controller has to do.
func (o *object) namedAfterOwner() bool {
	if o.Kind == facts.KindService && o.Owner.Controller && o.Owner.Kind == facts.KindJobSet && o.Owner.Group == jobSets.Group {
		return true
	}
	for _, n := range namedKinds() {
		if n.Kind != o.kind {
			continue
		}
		base, ok := strings.CutSuffix(o.Name, n.suffix)
		if ok && o.Owner.Kind == n.owner && o.Owner.Name == base && ownerGroup(n.owner) == o.Owner.Group {
			return true
		}
	}
	return false
}

func ownerGroup(kind string) string {
	if kind == facts.KindJobSet {
		return jobSets.Group
	}
	return facts.GroupTrainer
}
