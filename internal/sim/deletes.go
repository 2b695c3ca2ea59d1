package sim

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/orphand/orphand/internal/stage"
	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/reap"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// Delete sends a DELETE. It is under way for a while, in which the world goes on, and so is its answer.
func (h *hand) Delete(ctx context.Context, o reap.Order) error {
	w, plan := h.w, h.w.plan.Enforce
	t := o.Target()
	turn := ctx.Value(turnKey{}).(*turn)
	h.judgeSent(t, o.Options(), turn)
	h.sent = append(h.sent, w.at())
	w.enforcing.sent = append(w.enforcing.sent, inFull(t))
	d := roll(w.plan.Seed, "delete/"+itoa(len(w.enforcing.sent)))
	w.film.say("%s sends DELETE of %s@%s", h.who(), t.Ref, t.UID)
	if d.chance(plan.Meddle) && !w.righting {
		w.meddle(t, d)
	}
	travel := func() {
		if l := d.between(plan.Travel.From, plan.Travel.To); l > 0 && !w.righting && !w.late() {
			w.stage.Loop.RunUntil(w.stage.Loop.Now().Add(l))
		}
		h.sleep()
	}
	awake := w.at()
	travel()
	if h.first && w.enforcing.asleep > awake {
		w.judge.tally.Deleting[sleptOnWay]++
	}
	err := w.stage.API.Request("delete", t.Kind.GroupKind(), t.Namespace, t.Name)
	if err == nil && d.chance(plan.Refused) && !w.righting {
		err = refusing(t, d)
	}
	if err == nil {
		err = h.carryOut(t, o.Options(), turn)
		if err == nil && d.chance(plan.Lost) && !w.righting {
			w.judge.tally.Deleting[answerLost]++
			err = fmt.Errorf("delete %s: %w", t.Ref, context.DeadlineExceeded)
		}
	}
	w.film.say("DELETE of %s@%s is answered %v", t.Ref, t.UID, err)
	travel()
	h.answered(t, err)
	return err
}

// refusing is an answer of an API server that does not do it this time.
func refusing(t reap.Target, d *dice) error {
	resource := t.Kind.Resource.GroupResource()
	status := func(code, after int, message string) error {
		e := apierrors.NewGenericServerResponse(code, "delete", resource, t.Name, message, after, true)
		e.ErrStatus.Message = message
		return e
	}
	switch d.upTo(6) {
	case 0:
		return apierrors.NewConflict(resource, t.Name, fmt.Errorf("the object has been modified"))
	case 1:
		return status(http.StatusTooManyRequests, 1+d.upTo(40), "too many requests")
	case 2:
		return status(http.StatusInternalServerError, 0, "etcdserver: leader changed")
	case 3:
		return status(http.StatusServiceUnavailable, 1+d.upTo(5), "apiserver is shutting down")
	case 4:
		return apierrors.NewForbidden(resource, t.Name, fmt.Errorf("admission webhook \"guard.example.com\" denied the request: not now"))
	}
	return fmt.Errorf("delete %s: %w", t.Ref, context.DeadlineExceeded)
}

// carryOut is what the API server does with a DELETE: its preconditions hold of the object as it is at this moment.
func (h *hand) carryOut(t reap.Target, o metav1.DeleteOptions, turn *turn) error {
	w := h.w
	resource := schema.GroupResource{Group: t.Kind.Resource.Group, Resource: t.Kind.Resource.Resource}
	held := w.stage.API.Get(t.Kind.GroupKind(), t.Namespace, t.Name)
	if held == nil {
		return apierrors.NewNotFound(resource, t.Name)
	}
	if p := o.Preconditions; p != nil {
		if p.UID != nil && *p.UID != held.GetUID() {
			w.judge.tally.Deleting[otherObject]++
			return apierrors.NewConflict(resource, t.Name, fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s)", *p.UID, held.GetUID()))
		}
		if p.ResourceVersion != nil && *p.ResourceVersion != held.GetResourceVersion() {
			w.judge.tally.Deleting[hasChanged]++
			return apierrors.NewConflict(resource, t.Name, fmt.Errorf("the ResourceVersion in the precondition does not match"))
		}
	}
	h.judgeCarried(t, held, turn)
	w.judge.tally.Deleting[carriedOut+t.Kind.Kind]++
	if !h.leads() {
		w.judge.tally.Deleting[leaderNoMore]++
	}
	if !h.first {
		w.judge.tally.Deleting[byRival]++
	}
	w.film.say("DELETE of %s@%s is carried out", t.Ref, held.GetUID())
	// On a replay orphand does this itself.
	defer func(on bool) { w.film.on = on }(w.film.on)
	w.film.on = false
	if b := w.enforcing.bystander(held); b != nil {
		w.enforcing.dismiss(b)
		return nil
	}
	if p, ok := held.(*corev1.Pod); ok {
		w.api.deletePod(p.Name, p.UID, o.GracePeriodSeconds)
		return nil
	}
	policy := metav1.DeletePropagationBackground
	if o.PropagationPolicy != nil {
		policy = *o.PropagationPolicy
	}
	w.api.deleteOwner(held, policy)
	return nil
}

// meddle is what somebody does to an object while a DELETE of it is under way.
func (w *World) meddle(t reap.Target, d *dice) {
	o := w.stage.API.Get(t.Kind.GroupKind(), t.Namespace, t.Name)
	if o == nil || o.GetUID() != t.UID {
		return
	}
	what := pick(d, append(changes(), "replaced")...)
	w.film.comment("in flight: " + t.Ref.String() + " is " + what)
	w.judge.tally.Deleting[inFlight+what]++
	switch what {
	case "replaced":
		w.replaceObject(o)
	case "adopted":
		w.adopt(o)
	case "kept":
		w.keep(o)
	case "touched":
		w.edit(o, func(o stage.Object) { annotate(o, "example.com/seen", w.at().String()) })
	case "deleted":
		w.removeObject(o)
	}
}

// removeObject is somebody else's deletion.
func (w *World) removeObject(o stage.Object) {
	if b := w.enforcing.bystander(o); b != nil {
		w.enforcing.dismiss(b)
		return
	}
	if p, ok := o.(*corev1.Pod); ok {
		w.api.deletePod(p.Name, p.UID, nil)
		return
	}
	w.api.deleteOwner(o, metav1.DeletePropagationBackground)
}

// replaceObject is the end of an object and a new one of its name: of the TrainJob of that name that lives, which is made
// where there is none; or, where its controller would give it another name, a person's.
func (w *World) replaceObject(o stage.Object) {
	s := w.api
	if b := w.enforcing.bystander(o); b != nil {
		w.enforcing.dismiss(b)
		w.enforcing.byHand(b.object, "somebody made it by hand")
		return
	}
	if p, ok := o.(*corev1.Pod); ok {
		none := int64(0)
		s.deletePod(p.Name, p.UID, &none)
		if s.pod(p.UID) != nil {
			s.editPod(p.UID, func(p *corev1.Pod) { p.Finalizers = nil })
		}
		if _, taken := s.pods.get(p.Name); !taken {
			w.enforcing.byHand(p, "somebody made it by hand")
		}
		return
	}
	s.deleteOwner(o, metav1.DeletePropagationBackground)
	if w.stage.API.Get(stage.KindOf(o), o.GetNamespace(), o.GetName()) != nil {
		return // a finalizer holds it
	}
	switch o := o.(type) {
	case *jobset.JobSet:
		w.jobSetOf(o.Name)
	case *metav1.PartialObjectMetadata:
		if o.Kind != facts.KindJob {
			name := strings.TrimSuffix(o.Name, "-runtime-snapshot")
			w.trainer.makeSnapshot(name, w.trainJobOf(name).GetUID())
			return
		}
		if js := w.jobSetOf(w.jobs.state[o.UID].spec.Name); js.DeletionTimestamp == nil && !finishedJobSet(js) {
			w.sets.makeJob(js, w.sets.plans[js.UID], int(o.Labels[facts.LabelJobIndex][0]-'0'))
		}
	}
}

// trainJobOf is the TrainJob of the name, which is made where there is none.
func (w *World) trainJobOf(name string) trainJob {
	t, there := w.api.trainJobs.get(name)
	if !there {
		t = newTrainJob(name)
		w.api.stamp(t, "T")
		w.api.store(t)
	}
	return t
}

// jobSetOf is the JobSet of the name, which its TrainJob's controller makes where there is none.
func (w *World) jobSetOf(name string) *jobset.JobSet {
	t := w.trainJobOf(name)
	if _, there := w.api.jobSets.get(name); !there {
		w.trainer.makeJobSet(name, t.GetUID(), suspended(t))
	}
	js, _ := w.api.jobSets.get(name)
	return js
}

// answered keeps how a DELETE fared, by the rule that every client of an API server owes it: a pause that grows, and never
// less than was asked for.
func (h *hand) answered(t reap.Target, err error) {
	if err == nil || apierrors.IsNotFound(err) {
		delete(h.refused, t.UID)
		return
	}
	r := h.refused[t.UID]
	r.times++
	pause := min(time.Second<<min(r.times-1, 6), time.Minute)
	if seconds, asked := apierrors.SuggestsClientDelay(err); asked {
		pause = max(pause, time.Duration(seconds)*time.Second)
	}
	r.until = h.w.at() + pause
	h.refused[t.UID] = r
}
