package sim

import (
	"slices"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const jobTracking = "batch.kubernetes.io/job-tracking"

// jobController makes the pods of Jobs, and new ones for those that fail or terminate (podReplacementPolicy's default).
type jobController struct {
	*controller
	state map[types.UID]*jobState
	order []types.UID
}

// jobState is what a Job's spec and status say.
type jobState struct {
	name      string
	uid       types.UID
	jobSet    types.UID
	root      types.UID
	labels    map[string]string
	spec      JobPlan
	succeeded map[int]bool
	counted   map[types.UID]bool
	failures  int
	complete  bool
	failed    bool
	suspended bool
	gone      bool
}

func (s *jobState) over() bool { return s.complete || s.failed }

func newJobController(w *World) *jobController {
	c := &jobController{state: map[types.UID]*jobState{}}
	c.controller = w.controller("job", 50*time.Millisecond, 1200*time.Millisecond, c.reconcile)
	return c
}

func (c *jobController) reconcile() {
	s := c.w.api
	for _, uid := range slices.Clone(c.order) {
		st := c.state[uid]
		job, ok := s.jobs.get(st.name)
		if !ok || job.UID != uid {
			c.ended(st)
			continue
		}
		pods := c.podsOf(uid)
		if job.DeletionTimestamp == nil && !st.over() {
			c.count(st, pods)
		}
		for _, p := range pods {
			active := !ended(p) && p.DeletionTimestamp == nil
			if active && (st.suspended || st.failed) {
				s.deletePod(p.Name, p.UID, nil)
				p = s.pod(p.UID)
			}
			// The finalizer goes from a pod that has ended or only terminates, and from every pod once the Job is over.
			if p != nil && (!active || st.over() || job.DeletionTimestamp != nil) {
				c.untrack(p)
			}
		}
		if job.DeletionTimestamp != nil || st.over() || st.suspended {
			continue
		}
		for i := range st.spec.Pods {
			if !st.succeeded[i] && !c.active(uid, i) {
				c.makePod(st, i)
			}
		}
	}
}

func (c *jobController) podsOf(job types.UID) []*corev1.Pod {
	var list []*corev1.Pod
	for _, p := range c.w.api.pods.all() {
		if len(p.OwnerReferences) > 0 && p.OwnerReferences[0].UID == job {
			list = append(list, p)
		}
	}
	return list
}

func (c *jobController) active(job types.UID, index int) bool {
	for _, p := range c.podsOf(job) {
		if p.Labels[facts.LabelCompletionIndex] == itoa(index) && !ended(p) && p.DeletionTimestamp == nil {
			return true
		}
	}
	return false
}

func (c *jobController) count(st *jobState, pods []*corev1.Pod) {
	for _, p := range pods {
		if !ended(p) || st.counted[p.UID] {
			continue
		}
		st.counted[p.UID] = true
		if p.Status.Phase == corev1.PodSucceeded {
			st.succeeded[indexOf(p)] = true
		} else if p.DeletionTimestamp == nil {
			st.failures++
		}
	}
	st.complete = len(st.succeeded) == st.spec.Pods
	st.failed = !st.complete && st.failures > st.spec.Backoff
	if st.over() {
		c.w.sets.poke()
	}
}

func indexOf(p *corev1.Pod) int {
	n := 0
	for _, r := range p.Labels[facts.LabelCompletionIndex] {
		n = n*10 + int(r-'0')
	}
	return n
}

func (c *jobController) untrack(p *corev1.Pod) {
	if slices.Contains(p.Finalizers, jobTracking) && c.dice.chance(0.9) { // else at the next look
		c.w.api.editPod(p.UID, func(p *corev1.Pod) {
			p.Finalizers = slices.DeleteFunc(p.Finalizers, func(f string) bool { return f == jobTracking })
		})
	}
}

// ended: the Job is gone. Its pods lose their finalizers, and a controller whose cache is behind may make one pod more.
func (c *jobController) ended(st *jobState) {
	left := c.podsOf(st.uid)
	for _, p := range left {
		c.untrack(p)
	}
	if !st.gone {
		st.gone = true
		if !st.over() && !st.suspended && c.dice.chance(c.w.plan.StaleControllers) {
			c.w.after(c.dice.between(50*time.Millisecond, lateChildren), func() { c.late(st) })
		}
	}
	if len(c.podsOf(st.uid)) == 0 {
		c.order = slices.DeleteFunc(c.order, func(u types.UID) bool { return u == st.uid })
	}
}

// late makes a pod of a Job that is gone, which was asked to go not long ago.
func (c *jobController) late(st *jobState) {
	if i := c.dice.upTo(st.spec.Pods); c.w.at() <= c.w.leaving[st.uid]+lateChildren {
		c.makePod(st, i)
	}
}

// lateChildren is how long after its owner's end a controller with a stale cache may still make a child in a history that
// keeps to Kubernetes' assumptions: caches lag by less.
const lateChildren = 3500 * time.Millisecond

func (c *jobController) makePod(st *jobState, index int) {
	s := c.w.api
	yes := true
	labels := map[string]string{
		facts.LabelControllerUID: string(st.uid), facts.LabelJobName: st.name, facts.LabelCompletionIndex: itoa(index)}
	for k, v := range st.labels {
		labels[k] = v
	}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: st.name + "-" + itoa(index) + "-" + suffix(c.dice), Labels: labels, Finalizers: []string{jobTracking},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: facts.KindJob, Name: st.name, UID: st.uid, Controller: &yes, BlockOwnerDeletion: &yes}},
		},
		Spec: st.spec.podSpec(),
	}
	p.Status.Phase = corev1.PodPending
	s.stamp(p, "P")
	if c.w.plan.chanceGated(c.dice) {
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "kueue.x-k8s.io/topology"}}
	}
	l := c.w.truth.life(p.UID)
	l.job, l.jobSet, l.root = st.root, st.jobSet, st.spec.Name
	s.store(p)
}

// podSpec is the pod template.
func (j JobPlan) podSpec() corev1.PodSpec {
	grace := j.Grace
	spec := corev1.PodSpec{RestartPolicy: j.RestartPolicy, TerminationGracePeriodSeconds: &grace, Containers: []corev1.Container{{Name: "trainer"}}}
	if j.Second {
		spec.Containers = append(spec.Containers, corev1.Container{Name: "logger"})
	}
	if j.Init {
		spec.InitContainers = append(spec.InitContainers, corev1.Container{Name: "fetch"})
	}
	if j.Sidecar {
		always := corev1.ContainerRestartPolicyAlways
		spec.InitContainers = append(spec.InitContainers, corev1.Container{Name: "proxy", RestartPolicy: &always})
	}
	return spec
}

// mannersOf is how a process of a pod's container behaves.
func (w *World) mannersOf(p *corev1.Pod, name string) manners {
	w.serial++
	d := roll(w.plan.Seed, "process/"+p.Name+"/"+name+"/"+itoa(w.serial))
	how := manners{lasts: d.between(20*time.Minute, 24*time.Hour), obeys: d.chance(0.6), after: d.between(50*time.Millisecond, 8*time.Second)}
	switch name {
	case "fetch":
		how.lasts = d.between(time.Second, 20*time.Second)
		if d.chance(0.1) {
			how.exit = 1
		}
		return how
	case "proxy":
		return how
	}
	switch {
	case d.chance(w.plan.ShortRuns):
		how.lasts = d.between(10*time.Second, 4*time.Minute)
		if d.chance(0.5) {
			how.exit = 1
		}
	}
	if d.chance(w.plan.Unkillable) {
		how.obeys = false
		how.stuck = d.between(time.Minute, 30*time.Minute)
	}
	return how
}
