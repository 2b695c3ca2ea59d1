package sim

import (
	"slices"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// jobSetController makes the Jobs of JobSets, and makes them anew when one fails (failure policy Recreate).
type jobSetController struct {
	*controller
	// roots says from which TrainJob each JobSet came.
	roots map[types.UID]types.UID
	plans map[types.UID]JobPlan
}

func newJobSetController(w *World) *jobSetController {
	c := &jobSetController{roots: map[types.UID]types.UID{}, plans: map[types.UID]JobPlan{}}
	c.controller = w.controller("jobset", 30*time.Millisecond, 500*time.Millisecond, c.reconcile)
	return c
}

func (c *jobSetController) reconcile() {
	s := c.w.api
	for _, js := range s.jobSets.all() {
		if js.DeletionTimestamp != nil || finishedJobSet(js) {
			c.finish(js)
			continue
		}
		plan := c.plans[js.UID]
		complete, failed := 0, false
		for i := range plan.Jobs {
			name := js.Name + "-node-" + itoa(i)
			job, ok := s.jobs.get(name)
			if !ok {
				c.makeJob(js, plan, i)
				continue
			}
			if job.OwnerReferences[0].UID != js.UID || job.DeletionTimestamp != nil {
				continue // the name is taken until the old one is gone
			}
			st := c.w.jobs.state[job.UID]
			if job.Labels[facts.LabelRestartAttempt] != itoa(int(js.Status.Restarts)) {
				s.deleteOwner(job, metav1.DeletePropagationForeground)
				continue
			}
			if suspend := js.Spec.Suspend != nil && *js.Spec.Suspend; st.suspended != suspend {
				st.suspended = suspend
				c.w.jobs.poke()
			}
			if st.complete {
				complete++
			}
			failed = failed || st.failed
		}
		switch {
		case failed && int(js.Status.Restarts) < plan.MaxRestarts:
			n := js.DeepCopy()
			n.Status.Restarts++
			s.store(n)
		case failed:
			c.conclude(js, jobset.JobSetFailed, "FailedJobs")
		case complete == plan.Jobs:
			c.conclude(js, jobset.JobSetCompleted, "AllJobsCompleted")
		}
	}
}

func (c *jobSetController) conclude(js *jobset.JobSet, kind jobset.JobSetConditionType, reason string) {
	n := js.DeepCopy()
	n.Status.Conditions = append(n.Status.Conditions, metav1.Condition{Type: string(kind), Status: metav1.ConditionTrue, Reason: reason, LastTransitionTime: c.w.api.now()})
	c.w.api.store(n)
}

func finishedJobSet(js *jobset.JobSet) bool { return len(js.Status.Conditions) > 0 }

// finish: of a finished JobSet the active Jobs are deleted, in the foreground.
func (c *jobSetController) finish(js *jobset.JobSet) {
	if js.DeletionTimestamp != nil {
		return
	}
	for _, job := range c.w.api.jobs.all() {
		if job.OwnerReferences[0].UID == js.UID && !c.w.jobs.state[job.UID].over() {
			c.w.api.deleteOwner(job, metav1.DeletePropagationForeground)
		}
	}
}

func (c *jobSetController) makeJob(js *jobset.JobSet, plan JobPlan, index int) {
	s := c.w.api
	yes := true
	name := js.Name + "-node-" + itoa(index)
	labels := map[string]string{
		facts.LabelJobSetName: js.Name, facts.LabelJobSetUID: string(js.UID), facts.LabelReplicatedJob: "node",
		facts.LabelRestartAttempt: itoa(int(js.Status.Restarts)), facts.LabelJobIndex: itoa(index)}
	job := &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: facts.KindJob},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels, OwnerReferences: []metav1.OwnerReference{{
			APIVersion: jobset.GroupVersion.String(), Kind: facts.KindJobSet, Name: js.Name, UID: js.UID, Controller: &yes, BlockOwnerDeletion: &yes}}},
	}
	s.stamp(job, "B")
	c.w.jobs.state[job.UID] = &jobState{name: name, uid: job.UID, jobSet: js.UID, root: c.roots[js.UID], labels: labels, spec: plan,
		succeeded: map[int]bool{}, counted: map[types.UID]bool{}, suspended: js.Spec.Suspend != nil && *js.Spec.Suspend}
	c.w.jobs.order = append(c.w.jobs.order, job.UID)
	s.store(job)
}

// trainer makes the JobSet and the snapshot of every TrainJob that is not finished, whether or not it is being deleted: it
// never looks at deletionTimestamp.
type trainer struct {
	*controller
	plans map[string]JobPlan
}

func newTrainer(w *World) *trainer {
	c := &trainer{plans: map[string]JobPlan{}}
	c.controller = w.controller("trainer", 30*time.Millisecond, 400*time.Millisecond, c.reconcile)
	return c
}

func (c *trainer) reconcile() {
	s := c.w.api
	for _, t := range s.trainJobs.all() {
		if finishedTrainJob(t) {
			continue
		}
		if cm, ok := s.configMaps.get(snapshotOf(t.GetName())); ok {
			if cm.OwnerReferences[0].UID != t.GetUID() {
				continue // "owned by another object": nothing is reconciled until the old one is collected
			}
		} else {
			c.makeSnapshot(t.GetName(), t.GetUID())
		}
		js, ok := s.jobSets.get(t.GetName())
		switch {
		case !ok:
			c.makeJobSet(t.GetName(), t.GetUID(), suspended(t))
		case len(js.OwnerReferences) == 0 || js.OwnerReferences[0].UID != t.GetUID():
		case finishedJobSet(js):
			c.mirror(t, js)
		case (js.Spec.Suspend != nil && *js.Spec.Suspend) != suspended(t) && js.DeletionTimestamp == nil:
			n := js.DeepCopy()
			suspend := suspended(t)
			n.Spec.Suspend = &suspend
			s.store(n)
		}
	}
}

func snapshotOf(job string) string { return job + "-runtime-snapshot" }

func (c *trainer) owned(name, job string, uid types.UID) metav1.ObjectMeta {
	yes := true
	return metav1.ObjectMeta{Namespace: namespace, Name: name, OwnerReferences: []metav1.OwnerReference{{
		APIVersion: facts.TrainJobs.GroupVersion().String(), Kind: facts.KindTrainJob, Name: job, UID: uid, Controller: &yes, BlockOwnerDeletion: &yes}}}
}

func (c *trainer) makeSnapshot(job string, uid types.UID) {
	cm := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: facts.KindConfigMap}, ObjectMeta: c.owned(snapshotOf(job), job, uid)}
	c.w.api.stamp(cm, "C")
	c.w.api.store(cm)
}

func (c *trainer) makeJobSet(job string, uid types.UID, suspend bool) {
	js := &jobset.JobSet{ObjectMeta: c.owned(job, job, uid)}
	if suspend {
		js.Spec.Suspend = &suspend
	}
	c.w.api.stamp(js, "J")
	c.w.sets.roots[js.UID] = uid
	c.w.sets.plans[js.UID] = c.plans[job]
	c.w.api.store(js)
}

// late is a reconcile of a TrainJob that is gone, by a cache that is behind: it makes a JobSet that a dead UID owns.
func (c *trainer) late(job string, uid types.UID, after time.Duration) {
	c.w.after(after, func() {
		if _, taken := c.w.api.jobSets.get(job); !taken {
			c.makeJobSet(job, uid, false)
		}
	})
}

func (c *trainer) mirror(t trainJob, js *jobset.JobSet) {
	n := t.DeepCopy()
	for _, cond := range js.Status.Conditions {
		kind := "Complete"
		if cond.Type == string(jobset.JobSetFailed) {
			kind = "Failed"
		}
		setCondition(n, kind, cond.Reason, cond.LastTransitionTime)
	}
	c.w.api.store(n)
}

// collector is the garbage collector.
type collector struct{ *controller }

func newCollector(w *World) *collector {
	c := &collector{}
	c.controller = w.controller("gc", 40*time.Millisecond, 700*time.Millisecond, c.reconcile)
	return c
}

func (c *collector) reconcile() {
	s := c.w.api
	for _, o := range s.configMaps.all() {
		if c.absent(o.OwnerReferences) {
			s.deleteOwner(o, metav1.DeletePropagationBackground)
		}
	}
	for _, o := range s.jobSets.all() {
		dependents := slices.ContainsFunc(s.jobs.all(), func(j *metav1.PartialObjectMetadata) bool { return ownedBy(j.OwnerReferences, o.UID) })
		switch {
		case c.absent(o.OwnerReferences):
			s.deleteOwner(o, metav1.DeletePropagationBackground)
		case c.waiting(o.OwnerReferences) && dependents:
			s.deleteOwner(o, metav1.DeletePropagationForeground)
		case c.waiting(o.OwnerReferences):
			s.deleteOwner(o, metav1.DeletePropagationBackground)
		}
		if slices.Contains(o.Finalizers, metav1.FinalizerDeleteDependents) && !dependents {
			s.release(o, metav1.FinalizerDeleteDependents)
		}
	}
	for _, o := range s.jobs.all() {
		dependents := len(c.w.jobs.podsOf(o.UID)) > 0
		switch {
		case c.absent(o.OwnerReferences):
			s.deleteOwner(o, metav1.DeletePropagationBackground)
		case c.waiting(o.OwnerReferences) && dependents:
			s.deleteOwner(o, metav1.DeletePropagationForeground)
		case c.waiting(o.OwnerReferences):
			s.deleteOwner(o, metav1.DeletePropagationBackground)
		}
		if slices.Contains(o.Finalizers, metav1.FinalizerDeleteDependents) && !dependents {
			s.release(o, metav1.FinalizerDeleteDependents)
		}
	}
	for _, p := range s.pods.all() {
		if p.DeletionTimestamp == nil && (c.absent(p.OwnerReferences) || c.waiting(p.OwnerReferences)) {
			s.deletePod(p.Name, p.UID, nil)
		}
	}
	for _, t := range s.trainJobs.all() {
		switch {
		case slices.Contains(t.GetFinalizers(), metav1.FinalizerOrphanDependents):
			for _, js := range s.jobSets.all() {
				if ownedBy(js.OwnerReferences, t.GetUID()) {
					if known := c.w.orphaned[t.GetUID()]; !slices.Contains(known, js.UID) { // made since
						c.w.orphaned[t.GetUID()] = append(known, js.UID)
					}
					n := js.DeepCopy()
					n.OwnerReferences = nil
					s.store(n)
				}
			}
			s.release(t, metav1.FinalizerOrphanDependents)
		case slices.Contains(t.GetFinalizers(), metav1.FinalizerDeleteDependents):
			if !slices.ContainsFunc(s.jobSets.all(), func(o *jobset.JobSet) bool { return ownedBy(o.OwnerReferences, t.GetUID()) }) {
				if cm, ok := s.configMaps.get(snapshotOf(t.GetName())); ok && ownedBy(cm.OwnerReferences, t.GetUID()) {
					s.deleteOwner(cm, metav1.DeletePropagationBackground)
				}
				s.release(t, metav1.FinalizerDeleteDependents)
			}
		}
	}
}

func ownedBy(refs []metav1.OwnerReference, uid types.UID) bool {
	return len(refs) > 0 && refs[0].UID == uid
}

// absent says whether the owner is gone: not there, or another object of its name.
func (c *collector) absent(refs []metav1.OwnerReference) bool {
	return len(refs) > 0 && !c.w.api.stored(refs[0].Kind, refs[0].Name, refs[0].UID) && !c.adopted(refs)
}

// adopted says whether another owner than the first is there: nothing is collected that has one.
func (c *collector) adopted(refs []metav1.OwnerReference) bool {
	return slices.ContainsFunc(refs[1:], func(r metav1.OwnerReference) bool { return c.w.api.stored(r.Kind, r.Name, r.UID) })
}

// waiting says whether the owner waits for its dependents.
func (c *collector) waiting(refs []metav1.OwnerReference) bool {
	if len(refs) == 0 || c.adopted(refs) {
		return false
	}
	var finalizers []string
	switch r := refs[0]; r.Kind {
	case facts.KindTrainJob:
		if o, ok := c.w.api.trainJobs.get(r.Name); ok && o.GetUID() == r.UID {
			finalizers = o.GetFinalizers()
		}
	case facts.KindJobSet:
		if o, ok := c.w.api.jobSets.get(r.Name); ok && o.UID == r.UID {
			finalizers = o.Finalizers
		}
	case facts.KindJob:
		if o, ok := c.w.api.jobs.get(r.Name); ok && o.UID == r.UID {
			finalizers = o.Finalizers
		}
	}
	return slices.Contains(finalizers, metav1.FinalizerDeleteDependents)
}
