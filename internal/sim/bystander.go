package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/orphand/orphand/internal/stage"
	"github.com/orphand/orphand/pkg/facts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// bystander is an object that no controller of the world works on: it looks like a job's, and is not.
type bystander struct {
	object stage.Object
	// stays says why it must not be deleted, at the moment when that is asked; empty when it may be.
	stays func(*turn) string
}

// place is where an object is.
type place struct {
	kind            stage.Kind
	namespace, name string
}

func placeOf(o stage.Object) place { return place{stage.KindOf(o), o.GetNamespace(), o.GetName()} }

// bystander is the bystander that an object is; nil when it is none.
func (e *enforcing) bystander(o stage.Object) *bystander {
	if b := e.bystanders[placeOf(o)]; b != nil && b.object.GetUID() == o.GetUID() {
		return b
	}
	return nil
}

// otherNamespace is one in which nothing of the world lives.
const otherNamespace = "team-b"

// bystand makes one that is like something of the action's job.
func (e *enforcing) bystand(a Action) {
	w := e.w
	name := w.plan.Jobs[a.Job].Name
	js, there := w.api.jobSets.get(name)
	if !there {
		return
	}
	marks := map[string]string{facts.LabelJobSetName: name, facts.LabelJobSetUID: string(js.UID), facts.LabelReplicatedJob: "node"}
	var batch *metav1.PartialObjectMetadata
	for _, b := range w.api.jobs.all() {
		if w.jobs.state[b.UID].jobSet == js.UID {
			batch = b
		}
	}
	always := func(why string) func(*turn) string { return func(*turn) string { return why } }
	switch a.Pod % 8 {
	case 0: // kubectl debug --copy-to --keep-labels: the marks of the job's pods, and no owner
		e.add(barePod(namespace, name+"-node-0-0-debug", marks), always("a person made it, and nothing owns it"))
	case 1:
		e.add(bareJob(name+"-node-9", marks), always("a person made it, and nothing owns it"))
	case 2: // a pod of a Job that a person made with the JobSet's marks
		b := bareJob(name+"-node-8", marks)
		if e.add(b, always("a person made it, and nothing owns it")) {
			p := barePod(namespace, name+"-node-8-0-xxxxx", marks)
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: facts.KindJob, Name: b.Name, UID: b.UID}}
			e.add(p, always("the Job that owns it is there"))
		}
	case 3:
		p := barePod(namespace, name+"-node-0-0-static", marks)
		p.Annotations = map[string]string{"kubernetes.io/config.mirror": "0"}
		if batch != nil {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: facts.KindJob, Name: batch.Name, UID: batch.UID}}
		}
		e.add(p, always("it is the mirror of a static pod"))
	case 4: // a copy in another namespace, with the owner that it had
		if batch == nil {
			return
		}
		p := barePod(otherNamespace, name+"-node-0-0-copied", marks)
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: facts.KindJob, Name: batch.Name, UID: batch.UID}}
		e.add(p, func(t *turn) string { return w.standsElsewhere(p, t) })
	case 5:
		c := &jobset.JobSet{ObjectMeta: metav1.ObjectMeta{Namespace: otherNamespace, Name: name, OwnerReferences: slices.Clone(js.OwnerReferences)}}
		e.add(c, func(t *turn) string {
			if len(c.OwnerReferences) == 0 {
				return "nothing owns it"
			}
			return w.standsElsewhere(c, t)
		})
	case 6: // an administrator's runtime
		e.add(bareRuntime(name, nil), always("it is an administrator's runtime"))
	case 7: // the adapter's copy, which it could not give its owner; and where it is slow, its TrainJob comes when time is up
		if a.Flag {
			name = "copied"
			w.after(w.plan.Enforce.CopyGrace-time.Duration(a.Pod)*100*time.Millisecond, func() {
				if !w.righting {
					w.finishedTrainJob(name)
				}
			})
		}
		r := bareRuntime(name, map[string]string{"example.com/copied-for": "trainjob"})
		e.add(r, func(t *turn) string {
			// No precondition speaks of another object: one that is made after the process has looked is not seen.
			if j, there := w.api.trainJobs.get(name); there && w.made(j)+time.Second <= t.listed {
				return "the TrainJob of its name is there"
			}
			return ""
		})
	}
}

// made is when an object was made, up to a second early.
func (w *World) made(o stage.Object) time.Duration {
	return o.GetCreationTimestamp().Sub(w.start) - w.plan.APISkew
}

// standsElsewhere says whether the owner of an object is there, in another namespace, and the process knew that when it began
// to decide. Where it did not, it does what the garbage collector does, which looks for an owner in the object's own namespace.
func (w *World) standsElsewhere(o stage.Object, t *turn) string {
	if len(o.GetOwnerReferences()) == 0 {
		return "nothing owns it"
	}
	r := o.GetOwnerReferences()[0]
	if since, shown := t.by.shown[r.UID]; shown && since < t.at && w.api.stored(r.Kind, r.Name, r.UID) {
		return "its owner " + r.Kind + " " + string(r.UID) + " is there, in another namespace"
	}
	return ""
}

// add puts a bystander into the world, unless its name is taken.
func (e *enforcing) add(o stage.Object, stays func(*turn) string) bool {
	at := placeOf(o)
	if e.w.stage.API.Get(at.kind, at.namespace, at.name) != nil {
		return false
	}
	e.w.api.stamp(o, "X")
	e.bystanders[at] = &bystander{o, stays}
	e.w.put(o)
	return true
}

// byHand makes another object of the same kind and name, which nothing owns.
func (e *enforcing) byHand(like stage.Object, why string) {
	var o stage.Object
	switch like := like.(type) {
	case *corev1.Pod:
		o = barePod(like.Namespace, like.Name, nil)
	case *jobset.JobSet:
		o = &jobset.JobSet{ObjectMeta: metav1.ObjectMeta{Namespace: like.Namespace, Name: like.Name}}
	default:
		m := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: like.GetNamespace(), Name: like.GetName()}}
		m.SetGroupVersionKind(like.GetObjectKind().GroupVersionKind())
		o = m
	}
	e.add(o, func(*turn) string { return why })
}

// dismiss ends a bystander.
func (e *enforcing) dismiss(b *bystander) {
	w := e.w
	o := copyOf(b.object)
	delete(e.bystanders, placeOf(o))
	if p, ok := o.(*corev1.Pod); ok {
		at, none := w.api.now(), int64(0)
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &at, &none
		w.put(p)
		o = copyOf(p)
	}
	w.remove(o)
}

// dismissAll ends them all.
func (e *enforcing) dismissAll() {
	list := make([]*bystander, 0, len(e.bystanders))
	for _, b := range e.bystanders {
		list = append(list, b)
	}
	slices.SortFunc(list, func(a, b *bystander) int { return cmp.Compare(a.object.GetUID(), b.object.GetUID()) })
	for _, b := range list {
		e.dismiss(b)
	}
}

// barePod is a pod that waits for a node, and that the world's scheduler never gives one.
func barePod(namespace, name string, marks map[string]string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: marks}}
	p.Spec.Containers = []corev1.Container{{Name: "shell"}}
	p.Status.Phase = corev1.PodPending
	return p
}

func bareJob(name string, marks map[string]string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: facts.KindJob},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: marks}}
}

func bareRuntime(name string, marks map[string]string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: facts.TrainJobs.GroupVersion().String(), Kind: facts.KindTrainingRuntime},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: marks}}
}
