package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/orphand/orphand/internal/stage"
	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/reap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// The invariants of deleting. The first is judged when the API server carries a DELETE out, by what is true at that moment;
// the second when it is sent, by what the process had been shown; the third at both.
const (
	// OnlyOrphans: no object of a job whose TrainJob is there is ever deleted, none whose owner is there, and none that no
	// job made.
	OnlyOrphans Invariant = "I5"
	// BrakesHold: no DELETE is sent that a brake, the lease, a missing permission, the garbage collector's grace, the pause
	// after a refusal, an excluded namespace, --dry-run or orphand.dev/keep holds back.
	BrakesHold Invariant = "I6"
	// NamedByUID: a DELETE names one object instance and meets no other one, in the background, without a word on its grace,
	// and not when it was asked to go before.
	NamedByUID Invariant = "I7"
)

func (h *hand) violate(i Invariant, t reap.Target, turn *turn, format string, args ...any) {
	pod := types.UID("")
	if t.Kind.Kind == facts.KindPod {
		pod = t.UID
	}
	key := turn.left.Job
	h.w.enforcing.wrong(t)
	h.w.judge.names[key.UID] = key.Name
	h.w.judge.violate(i, pod, key.UID, "%s deletes %s@%s: %s", h.who(), t.Ref, t.UID, fmt.Sprintf(format, args...))
}

// wrong keeps what was deleted before the first DELETE that was wrong.
func (e *enforcing) wrong(t reap.Target) {
	if e.before != nil {
		return
	}
	e.before = append([]string{}, e.sent...)
	for i := len(e.before) - 1; i >= 0; i-- {
		if e.before[i] == inFull(t) {
			e.before = slices.Delete(e.before, i, i+1)
			break
		}
	}
}

// inFull is an object reference with its UID.
func inFull(t reap.Target) string { return fmt.Sprintf("%s@%s", t.Ref, t.UID) }

// judgeSent judges a DELETE that leaves the process.
func (h *hand) judgeSent(t reap.Target, o metav1.DeleteOptions, turn *turn) {
	h.judgeForm(t, o, turn)
	plan, now := h.w.plan.Enforce, h.w.at()
	say := func(format string, args ...any) { h.violate(BrakesHold, t, turn, format, args...) }
	if plan.Excluded && t.Namespace == namespace {
		say("its namespace is left alone")
	}
	if plan.DryRun {
		say("with --dry-run")
	}
	if !h.leads() {
		say("it does not lead")
	}
	if !h.permitted && h.lacking < turn.at {
		say("without the permissions to delete JobSets and pods, as it has known since %s", h.lacking)
	}
	switch {
	case !h.readable:
		say("Nodes may not be read")
	case h.sky.stormy:
		say("too many nodes are silent")
	case h.sky.been && now < h.sky.calm+plan.Brakes.Calm:
		say("too many nodes were silent until %s", h.sky.calm)
	}
	if n := plan.Brakes.MaxPerMinute; len(h.sent) >= n && h.sent[len(h.sent)-n]+time.Minute > now {
		say("%d were sent in the last minute", n)
	}
	if r := h.refused[t.UID]; now < r.until {
		say("the API server refused %d times, and is not to be asked before %s", r.times, r.until)
	}
	if kept := keptBy(t.UID, turn.left); kept != "" {
		say("%s would go with it, and is to be kept", kept)
	}
	if since, over := h.orphanSince(t, turn); over && now < since+plan.GCGrace {
		say("the garbage collector has had %s of the %s that it is given", now-since, plan.GCGrace)
	}
}

func (h *hand) judgeForm(t reap.Target, o metav1.DeleteOptions, turn *turn) {
	say := func(format string, args ...any) { h.violate(NamedByUID, t, turn, format, args...) }
	if o.Preconditions == nil || o.Preconditions.UID == nil || *o.Preconditions.UID != t.UID {
		say("without its UID as a precondition")
	}
	if o.PropagationPolicy == nil || *o.PropagationPolicy != metav1.DeletePropagationBackground {
		say("not in the background")
	}
	if o.GracePeriodSeconds != nil {
		say("with a grace of %d s", *o.GracePeriodSeconds)
	}
}

// keptBy is what would go with an object, or it itself, and is to be kept, as far as the process knew when it began to
// decide; empty when there is nothing.
func keptBy(uid types.UID, left facts.Leftovers) string {
	owners := map[types.UID]types.UID{}
	for _, o := range left.Objects {
		owners[o.UID] = o.Owner.UID
	}
	for _, p := range left.Pods {
		owners[p.UID] = p.Owner.UID
	}
	goesWith := func(of types.UID) bool {
		for range owners {
			if of == uid {
				return true
			}
			if of = owners[of]; of == "" {
				return false
			}
		}
		return false
	}
	for _, o := range left.Objects {
		if o.Keep && goesWith(o.UID) {
			return o.Ref().String()
		}
	}
	for _, p := range left.Pods {
		if p.Keep && goesWith(p.UID) {
			return p.Ref().String()
		}
	}
	return ""
}

// judgeCarried judges a DELETE at the moment when the API server carries it out on the object that it holds.
func (h *hand) judgeCarried(t reap.Target, held stage.Object, turn *turn) {
	w := h.w
	live := func(format string, args ...any) { h.violate(OnlyOrphans, t, turn, format, args...) }
	if held.GetUID() != t.UID {
		h.violate(NamedByUID, t, turn, "the name is %s's by now, and that is what goes", held.GetUID())
	}
	if held.GetDeletionTimestamp() != nil {
		h.violate(NamedByUID, t, turn, "it was asked to go before")
	}
	if _, kept := held.GetAnnotations()[facts.AnnotationKeep]; kept {
		h.violate(BrakesHold, t, turn, "it is to be kept")
	}
	if root := w.rootOf(held); root != "" && w.trainJobHeld(root) {
		live("its TrainJob %s is there", root)
	}
	for _, r := range held.GetOwnerReferences() {
		if held.GetNamespace() == namespace && w.ownerStored(r) {
			live("its owner %s %s is there", strings.ToLower(r.Kind), r.UID)
		}
	}
	switch b := w.enforcing.bystander(held); {
	case b != nil:
		if why := b.stays(turn); why != "" {
			live("%s", why)
		}
	case len(held.GetOwnerReferences()) == 0:
		live("nothing says that a job made it")
	}
}

// ownerStored says whether an owner of an object in the jobs' namespace is there.
func (w *World) ownerStored(r metav1.OwnerReference) bool {
	if w.api.stored(r.Kind, r.Name, r.UID) {
		return true
	}
	for _, b := range w.enforcing.bystanders {
		if b.object.GetUID() == r.UID && b.object.GetNamespace() == namespace {
			return true
		}
	}
	return false
}

// rootOf is the UID of the TrainJob from which an object came; empty for what comes from none.
func (w *World) rootOf(o stage.Object) types.UID {
	switch o := o.(type) {
	case *jobset.JobSet:
		return w.sets.roots[o.UID]
	case *corev1.Pod:
		if l := w.truth.pods[o.UID]; l != nil {
			return l.job
		}
	case *metav1.PartialObjectMetadata:
		if st := w.jobs.state[o.UID]; st != nil {
			return st.root
		}
		if len(o.OwnerReferences) > 0 && o.OwnerReferences[0].Kind == facts.KindTrainJob {
			return o.OwnerReferences[0].UID
		}
	}
	return ""
}

// orphanSince is when the first of what stood above an object was gone; false where nothing is. In another namespace than its
// owner an object is an orphan from the beginning, and there is one grace for all that a job has there.
func (h *hand) orphanSince(t reap.Target, turn *turn) (time.Duration, bool) {
	w := h.w
	if t.Namespace == otherNamespace {
		return 0, false
	}
	above := []types.UID{turn.left.Job.UID, types.UID(strings.TrimPrefix(string(turn.left.Job.UID), facts.UnknownPrefix))}
	if o := w.stage.API.Get(t.Kind.GroupKind(), t.Namespace, t.Name); o != nil && o.GetUID() == t.UID {
		above = append(above, w.rootOf(o))
		for _, r := range o.GetOwnerReferences() {
			above = append(above, r.UID)
		}
		if st := w.jobs.state[o.GetUID()]; st != nil {
			above = append(above, st.jobSet)
		}
		if l := w.truth.pods[o.GetUID()]; l != nil {
			above = append(above, l.jobSet)
		}
	}
	first, known := time.Duration(0), false
	for _, uid := range above {
		if at, over := w.departed[uid]; over && (!known || at < first) {
			first, known = at, true
		}
	}
	return first, known
}
