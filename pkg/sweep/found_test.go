package sweep_test

import (
	"testing"
	"time"

	"github.com/orphand/orphand/internal/stage"
	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/retention"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

const hourly = "rules: [{name: all, ttlAfterFinished: 1h}]"

// object is an object of one of the kinds of these tests, with its own name as its UID.
func object(apiVersion, kind, name string, owners ...map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind,
		"metadata": map[string]any{"namespace": "team-a", "name": name, "uid": name}}}
	if len(owners) > 0 {
		list := make([]any, 0, len(owners))
		for _, o := range owners {
			list = append(list, o)
		}
		u.Object["metadata"].(map[string]any)["ownerReferences"] = list
	}
	return u
}

func workflow(name string) *unstructured.Unstructured {
	return object("argoproj.io/v1alpha1", "Workflow", name)
}

func controlledBy(apiVersion, kind, name string) map[string]any {
	return map[string]any{"apiVersion": apiVersion, "kind": kind, "name": name, "uid": name, "controller": true}
}

func byWorkflow(name string) map[string]any {
	return controlledBy("argoproj.io/v1alpha1", "Workflow", name)
}

// completed is a Job that completed at the start.
func completed(name string, owners ...map[string]any) *unstructured.Unstructured {
	u := object("batch/v1", "Job", name, owners...)
	u.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Complete", "status": "True",
		"lastTransitionTime": start.Format(time.RFC3339)}}}
	return u
}

func (s *scene) put(o *unstructured.Unstructured, d ...stage.Delivery) {
	s.t.Helper()
	if err := s.stage.API.Put(o.DeepCopy(), append(d, stage.Delivery{})[0]); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) remove(o *unstructured.Unstructured) {
	s.t.Helper()
	if err := s.stage.API.Remove(o.DeepCopy(), stage.Delivery{}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) deletes(want int) {
	s.t.Helper()
	if calls := s.stage.API.Calls(); len(calls) != want {
		s.t.Errorf("%d DELETEs, want %d: %+v", len(calls), want, calls)
	}
}

// `kubectl delete --cascade=orphan` takes the owner off first.
func TestAnObjectThatLostItsOwnerAndWentIsNotLookedForWhenTheOwnerGoes(t *testing.T) {
	s := open(t, hourly, 600, retention.DefaultShare())
	s.daemon.Start()
	s.put(workflow("x"))
	s.put(completed("a", byWorkflow("x")))
	s.put(completed("a"))
	s.until(time.Second)
	s.remove(completed("a"))
	s.remove(workflow("x"))
	s.until(time.Minute)
	s.deletes(0)
}

func TestAnObjectThatWasAdoptedLaterGoesByPolicyOnceItsOwnerIsGone(t *testing.T) {
	s := open(t, hourly, 600, retention.DefaultShare())
	s.daemon.Start()
	s.put(workflow("x"))
	s.put(completed("a"))
	s.put(completed("a", byWorkflow("x")))
	s.until(90 * time.Minute)
	s.deletes(0)
	s.remove(workflow("x"))
	s.until(100 * time.Minute)
	s.deletes(1)
}

// The watch is behind: of the owner that it shows nobody is left, and the object has another one.
func TestAnObjectWhoseNewOwnerLivesIsKeptThoughTheWatchStillShowsTheOld(t *testing.T) {
	s := open(t, hourly, 600, retention.DefaultShare())
	s.daemon.Start()
	x, y := controlledBy("example.com/v1", "Run", "x"), controlledBy("example.com/v1", "Run", "y")
	s.put(object("example.com/v1", "Run", "y"))
	s.put(completed("a", x))
	s.until(59 * time.Minute)
	s.put(completed("a", y), stage.Delivery{After: 10 * time.Minute})
	s.until(3 * time.Hour)
	s.deletes(0)
	if got := s.decision("a"); got != "SKIP(owned by live Run)" {
		t.Errorf("it is %s", got)
	}
}

// of is what is decided of the object with a UID.
func (s *scene) of(uid types.UID) string {
	for _, v := range s.sweeper.Views() {
		if v.UID == uid {
			return v.Decision.String()
		}
	}
	return ""
}

// trainJob puts one that failed at the start, with its JobSet.
func (s *scene) trainJob(name string) {
	s.t.Helper()
	t := object("trainer.kubeflow.org/v1alpha1", "TrainJob", name)
	t.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Failed", "status": "True", "reason": "DeadlineExceeded",
		"lastTransitionTime": start.Format(time.RFC3339)}}}
	s.put(t)
	controls := true
	of := metav1.ObjectMeta{Namespace: "team-a", Name: name, UID: types.UID(name + "-js"),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "trainer.kubeflow.org/v1alpha1", Kind: "TrainJob", Name: name, UID: types.UID(name), Controller: &controls}}}
	if err := s.stage.API.Put(&jobset.JobSet{ObjectMeta: of}, stage.Delivery{}); err != nil {
		s.t.Fatal(err)
	}
}

// A finished TrainJob may have pods that run (kubeflow/trainer#3994). Of those that came while nobody could list pods, a
// cache says nothing.
func TestATrainJobIsKeptWhileItsPodsCannotBeSeen(t *testing.T) {
	s := open(t, hourly, 600, retention.DefaultShare())
	s.daemon.Start()
	for _, verb := range []string{"list", "watch"} {
		s.stage.API.Fail(stage.Fault{Verb: verb, Kind: "Pod", Code: 500, Times: -1})
	}
	s.until(time.Minute)
	s.trainJob("a")
	s.pod("a-node-0-0", false, ofTrainJob("a"))
	s.until(2 * time.Hour)
	s.deletes(0)
	if got := s.of("a"); got != "KEEP(pods unknown)" {
		t.Errorf("it is %s", got)
	}
	for _, verb := range []string{"list", "watch"} {
		s.stage.API.Lift(stage.Fault{Verb: verb, Kind: "Pod"})
	}
	s.until(3 * time.Hour)
	s.deletes(0)
	if got := s.of("a"); got != "KEEP(running pods)" {
		t.Errorf("it is %s", got)
	}
}

// Without the JobSet that stands between them nobody knows whose the pods are.
func TestATrainJobIsKeptForPodsOfItsNameThatNobodyCanAssign(t *testing.T) {
	s := open(t, hourly, 600, retention.DefaultShare())
	s.daemon.Start()
	for _, verb := range []string{"get", "list", "watch"} {
		s.stage.API.Fail(stage.Fault{Verb: verb, Kind: "JobSet", Code: 500, Times: -1})
	}
	s.until(time.Minute)
	s.trainJob("a")
	s.pod("a-node-0-0", false, ofTrainJob("a"))
	s.until(2 * time.Hour)
	s.deletes(0)
	if got := s.of("a"); got != "KEEP(running pods)" {
		t.Errorf("it is %s", got)
	}
}

// pod puts a pod that ended at the start, or runs.
func (s *scene) pod(name string, ended bool, meta metav1.ObjectMeta) {
	s.t.Helper()
	meta.Namespace, meta.Name, meta.UID = "team-a", name, types.UID(name)
	p := &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "c"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "c", ContainerID: "c",
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(start)}}}}}}
	if ended {
		p.Status.Phase = corev1.PodSucceeded
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(start)}}
	}
	if err := s.stage.API.Put(p, stage.Delivery{}); err != nil {
		s.t.Fatal(err)
	}
}

func ofJob(job string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Labels: map[string]string{facts.LabelJobName: job},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: job, UID: types.UID(job), Controller: new(true)}}}
}

func ofTrainJob(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Labels: map[string]string{facts.LabelJobSetName: name, facts.LabelJobSetUID: name + "-js"}}
}

func keep(u *unstructured.Unstructured) *unstructured.Unstructured {
	u.SetAnnotations(map[string]string{retention.AnnotationKeep: "true"})
	return u
}

func TestAJobStaysForAPodThatIsToBeKept(t *testing.T) {
	s := open(t, hourly, 600, retention.DefaultShare())
	s.daemon.Start()
	s.put(completed("a"))
	kept := ofJob("a")
	kept.Annotations = map[string]string{retention.AnnotationKeep: "true"}
	s.pod("p", true, kept)
	s.until(2 * time.Hour)
	s.deletes(0)
	if got := s.of("a"); got != "SKIP(excluded)" {
		t.Errorf("it is %s", got)
	}
	s.pod("p", true, ofJob("a"))
	s.until(2*time.Hour + time.Second)
	s.deletes(1)
}

func TestAnObjectStaysForWhatItOwnsThatIsToBeKept(t *testing.T) {
	s := open(t, hourly, 600, retention.DefaultShare())
	s.daemon.Start()
	w := workflow("w")
	w.Object["status"] = map[string]any{"phase": "Succeeded", "finishedAt": start.Format(time.RFC3339)}
	s.put(w)
	s.put(keep(completed("a", byWorkflow("w"))))
	s.until(2 * time.Hour)
	s.deletes(0)
}

func TestATrainJobStaysForAJobSetThatIsToBeKept(t *testing.T) {
	s := open(t, "rules: [{name: all, match: {kinds: [TrainJob]}, ttlAfterFinished: 1h}]", 600, retention.DefaultShare())
	s.daemon.Start()
	s.trainJob("a")
	js := s.stage.API.Get(stage.JobSet, "team-a", "a").(*jobset.JobSet).DeepCopy()
	js.Annotations = map[string]string{retention.AnnotationKeep: "true"}
	if err := s.stage.API.Put(js, stage.Delivery{}); err != nil {
		t.Fatal(err)
	}
	s.until(2 * time.Hour)
	s.deletes(0)
}

func TestPodsOfAJobAreKeptThatIsToBeKeptThoughTheWatchIsBehind(t *testing.T) {
	s := open(t, "rules: [{name: all, ttlAfterFinished: 9h, deletePodsAfter: 1h}]", 600, retention.DefaultShare())
	s.daemon.Start()
	s.put(completed("a"))
	s.pod("p", true, ofJob("a"))
	s.until(59 * time.Minute)
	s.put(keep(completed("a")), stage.Delivery{After: 10 * time.Minute})
	s.until(2 * time.Hour)
	s.deletes(0)
}

// managedBy names any controller, not only one of another cluster.
func TestAJobOfAnotherControllerStaysWhilePodsOfItRunHere(t *testing.T) {
	s := open(t, hourly, 600, retention.DefaultShare())
	s.daemon.Start()
	a := completed("a")
	a.Object["spec"] = map[string]any{"managedBy": "example.com/runner"}
	s.put(a)
	s.pod("p", false, ofJob("a"))
	s.until(2 * time.Hour)
	s.deletes(0)
	if got := s.of("a"); got != "KEEP(running pods)" {
		t.Errorf("it is %s", got)
	}
}

// The CRD is removed, and the watch breaks before it tells of its objects' ends.
func TestWhatIsDueOfAKindThatIsServedNoMoreWaitsInSilence(t *testing.T) {
	s := open(t, hourly, 600, retention.DefaultShare())
	s.daemon.Start()
	s.put(completed("a"))
	s.until(time.Minute)
	var job *retention.Kind
	for _, k := range retention.Kinds() {
		if k.Name == "Job" {
			job = k
		}
	}
	s.sweeper.SetUnserved(job, true)
	reads := 0
	s.stage.API.Latency = func(verb, kind, _, _ string) time.Duration {
		if verb == "get" && kind == "Job" {
			reads++
		}
		return 0
	}
	s.until(2 * time.Hour)
	s.deletes(0)
	if reads > 0 {
		t.Errorf("it is read %d times", reads)
	}
	s.sweeper.SetUnserved(job, false)
	s.until(2*time.Hour + time.Second)
	s.deletes(1)
}

// The pods of a RayJob carry the name of its cluster. It may be kept running after the job, for whoever looks at it.
func TestARayJobStaysWhileItsClusterRuns(t *testing.T) {
	for _, row := range []struct {
		name, cluster string
		selector      map[string]any
		deletes       int
	}{
		{"its own", "r-x2k4p", nil, 0},
		{"another's", "other", nil, 1},
		{"one that it was given", "r-x2k4p", map[string]any{"ray.io/cluster": "r-x2k4p"}, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := open(t, hourly, 600, retention.DefaultShare())
			s.daemon.Start()
			r := object("ray.io/v1", "RayJob", "r")
			s.put(r)
			r.Object["spec"] = map[string]any{"clusterSelector": row.selector}
			r.Object["status"] = map[string]any{"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED", "rayClusterName": "r-x2k4p",
				"endTime": start.Format(time.RFC3339)}
			s.put(r)
			s.pod("head", false, metav1.ObjectMeta{Labels: map[string]string{"ray.io/cluster": row.cluster},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "ray.io/v1", Kind: "RayCluster", Name: row.cluster, UID: "c", Controller: new(true)}}})
			s.until(2 * time.Hour)
			s.deletes(row.deletes)
		})
	}
}
