package reap

import (
	"github.com/orphand/orphand/pkg/facts"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// lineage finds the job of each object by UID: by owner references, then by JobSet's UID label. A name only ever
// preselects.
type lineage struct {
	// trainJobs are the TrainJobs that are there, by UID.
	trainJobs map[types.UID]*facts.TrainJob
	// jobSets says whose each JobSet is; the zero key is nobody's.
	jobSets map[types.UID]facts.JobKey
	// batchJobs says which JobSet each Job is of.
	batchJobs map[types.UID]types.UID
	// copies selects the adapter's runtime copies; nil selects none.
	copies labels.Selector
}

func newLineage(copies labels.Selector) *lineage {
	return &lineage{
		trainJobs: map[types.UID]*facts.TrainJob{}, jobSets: map[types.UID]facts.JobKey{},
		batchJobs: map[types.UID]types.UID{}, copies: copies,
	}
}

// relate lists the remains among what a snapshot shows. What earlier snapshots told of the JobSets counts: they go before
// their pods do.
func (l *lineage) relate(s *snapshot) []Remain {
	l.trainJobs = map[types.UID]*facts.TrainJob{}
	names := map[types.NamespacedName]bool{}
	for _, t := range s.trainJobs {
		l.trainJobs[t.UID] = t
		names[t.JobKey().Incarnations()] = true
	}
	for _, o := range s.objects {
		switch o.kind {
		case jobSetKind():
			key, _ := ofTrainJob(o)
			l.jobSets[o.UID] = key
		case jobKind():
			if uid := jobSetOf(o); uid != "" {
				l.batchJobs[o.UID] = uid
			}
		}
	}
	var list []Remain
	for _, o := range s.objects {
		key, neverOwned, ours := l.jobOf(o, names)
		if !ours {
			continue
		}
		r := l.remain(Target{o.kind, o.Ref()}, key, o.owners)
		r.NeverOwned, r.Created, r.Deletion, r.Keep = neverOwned, o.Created, o.Deletion, o.Keep
		r.Foreign = r.Foreign || neverOwned
		if o.Terminating() {
			r.HeldBy = o.Finalizers
		}
		list = append(list, r)
	}
	for _, p := range s.pods {
		key, ours := l.jobOfPod(p.Pod)
		if !ours {
			continue
		}
		r := l.remain(Target{podKind(), p.Ref()}, key, p.owners)
		r.Created, r.Deletion, r.Keep, r.mirror, r.Node = p.Created, p.Deletion, p.Keep, p.Mirror, p.Node
		if p.Terminating() {
			r.HeldBy = p.Finalizers
		}
		list = append(list, r)
	}
	sortRemains(list)
	return list
}

func (l *lineage) remain(t Target, key facts.JobKey, owners []facts.Owner) Remain {
	root := l.trainJobs[key.UID]
	return Remain{Target: t, Job: key, Foreign: root == nil || root.Namespace != key.Namespace, owners: owners}
}

// ofTrainJob is the job of an object that a TrainJob owns, in whatever version of Trainer's group.
func ofTrainJob(o *object) (facts.JobKey, bool) {
	if o.Owner.Kind == facts.KindTrainJob && o.Owner.Group == facts.GroupTrainer && o.Owner.UID != "" {
		return facts.JobKey{Namespace: o.Namespace, Name: o.Owner.Name, UID: o.Owner.UID}, true
	}
	return facts.JobKey{}, false
}

// jobSetOf is the UID of the JobSet that a Job is of. Label and owner must not contradict each other: labels can be
// inherited by somebody else's object.
func jobSetOf(o *object) types.UID {
	owner := types.UID("")
	if o.Owner.Kind == facts.KindJobSet && o.Owner.Group == jobSets.Group {
		owner = o.Owner.UID
	}
	switch {
	case owner == "":
		return o.JobSetUID
	case o.JobSetUID != "" && o.JobSetUID != owner:
		return ""
	}
	return owner
}

// jobOf is the job of an object that is not a pod.
func (l *lineage) jobOf(o *object, live map[types.NamespacedName]bool) (key facts.JobKey, neverOwned, ours bool) {
	switch o.kind {
	case jobSetKind():
		key, ours = ofTrainJob(o)
		return key, false, ours
	case jobKind():
		uid := jobSetOf(o)
		if uid == "" {
			return key, false, false
		}
		key, ours = l.ofJobSet(uid, o.Namespace, o.JobSetName)
		return key, false, ours
	case runtimeKind():
		if key, ours = ofTrainJob(o); ours {
			return key, false, o.Name == key.Name
		}
		// Never owned: no owner at all, the adapter's labels, and no TrainJob of that name that could be using it.
		name := types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
		if len(o.owners) == 0 && l.copies != nil && !l.copies.Empty() && l.copies.Matches(labels.Set(o.Labels)) && !live[name] {
			return facts.JobKey{Namespace: o.Namespace, Name: o.Name, UID: RuntimePrefix + o.UID}, true, true
		}
		return key, false, false
	}
	if !o.namedAfterOwner() {
		return key, false, false
	}
	if o.Owner.Kind == facts.KindJobSet {
		key, ours = l.ofJobSet(o.Owner.UID, o.Namespace, o.Owner.Name)
		return key, false, ours
	}
	key, ours = ofTrainJob(o)
	return key, false, ours
}

// RuntimePrefix starts the identity of a runtime copy that never had an owner: it belongs to no incarnation.
const RuntimePrefix = "runtime:"

// ofJobSet is the job of a JobSet. One that nobody has seen stands for a job of its own, so that its things are never
// taken for another incarnation's.
func (l *lineage) ofJobSet(uid types.UID, namespace, name string) (facts.JobKey, bool) {
	if key, known := l.jobSets[uid]; known {
		return key, key != facts.JobKey{}
	}
	if name == "" {
		return facts.JobKey{}, false
	}
	return facts.JobKey{Namespace: namespace, Name: name, UID: facts.UnknownPrefix + uid}, true
}

func (l *lineage) jobOfPod(p *facts.Pod) (facts.JobKey, bool) {
	uid := p.JobSetUID
	if p.Owner.Kind == facts.KindJob {
		if of, known := l.batchJobs[p.Owner.UID]; known {
			if uid != "" && uid != of {
				return facts.JobKey{}, false // labels and owner contradict each other
			}
			uid = of
		}
	}
	if uid == "" {
		return facts.JobKey{}, false
	}
	return l.ofJobSet(uid, p.Namespace, p.JobSetName)
}
