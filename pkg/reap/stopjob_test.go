package reap_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orphand/orphand/internal/stage"
	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/nodeproof"
	"github.com/orphand/orphand/pkg/reap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func key(name, uid string) facts.JobKey {
	return facts.JobKey{Namespace: "team", Name: name, UID: typesUID(uid)}
}

func (w *world) stop(name, uid string, o reap.StopOptions) *reap.Report {
	w.t.Helper()
	r, err := w.reaper.StopJob(w.t.Context(), key(name, uid), o)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func TestARunningJobIsStoppedByDeletingItsTrainJob(t *testing.T) {
	w := newWorld(t)
	w.API.Cascade = true
	w.job("team", "llm", "1", 2)
	r := w.stop("llm", "", reap.StopOptions{})
	if r.Class() != reap.Cleared || r.TimedOut {
		t.Errorf("the job came to %v after %v", statuses(r), r.Elapsed)
	}
	w.wantDeleted("T1")
	for _, it := range r.Items {
		if it.Ref.Kind == facts.KindPod && (it.Verdict != nodeproof.Gone || it.Reason != nodeproof.KubeletConfirmed) {
			t.Errorf("%s is %s/%s", it.Ref, it.Verdict, it.Reason)
		}
	}
	if r.Elapsed < 5*time.Second {
		t.Errorf("late children were given only %v", r.Elapsed)
	}
}

func TestWithoutAGarbageCollectorEveryRemainIsDeletedOnce(t *testing.T) {
	w := newWorld(t)
	w.job("team", "llm", "1", 2)
	r := w.stop("llm", "T1", reap.StopOptions{})
	if r.Class() != reap.Cleared {
		t.Errorf("the job came to %v", statuses(r))
	}
	w.wantDeleted("T1", "J1", "B1", "P10", "P11", "C1", "S1", "R1")
}

func TestTheNextJobOfTheNameIsNotTouched(t *testing.T) {
	for _, cascade := range []bool{true, false} {
		w := newWorld(t)
		w.API.Cascade = cascade
		w.job("team", "llm", "1", 2)
		w.Loop.After(2*time.Second, func() {
			if w.API.Get(stage.TrainJob, "team", "llm") != nil {
				t.Fatal("the first is still there")
			}
			w.job("team", "llm", "2", 2)
		})
		r := w.stop("llm", "T1", reap.StopOptions{Timeout: time.Minute})
		if r.Class() != reap.Cleared {
			t.Errorf("the job came to %v", statuses(r))
		}
		for _, uid := range w.deleted() {
			if uid == "T2" || uid == "J2" || uid == "B2" || uid == "R2" || uid == "P20" || uid == "P21" {
				t.Errorf("%s was deleted", uid)
			}
		}
		for kind, name := range map[stage.Kind]string{stage.TrainJob: "llm", stage.JobSet: "llm", stage.Job: "llm-node-0", stage.TrainingRuntime: "llm"} {
			if w.API.Get(kind, "team", name) == nil {
				t.Errorf("the new %s is gone", kind)
			}
		}
	}
}

func TestANodeThatIsCutOffLeavesExactlyItsPodUnproven(t *testing.T) {
	w := newWorld(t)
	w.API.Cascade = true
	w.job("team", "llm", "1", 3)
	w.deaf["node-1"] = true
	w.put(node("node-1", corev1.ConditionUnknown))
	r := w.stop("llm", "T1", reap.StopOptions{Timeout: 30 * time.Second})
	got := statuses(r)
	if r.Class() != reap.StillUnproven || !r.TimedOut || got["P11"] != reap.StatusUnproven || got["P10"] != reap.StatusGone || got["P12"] != reap.StatusGone {
		t.Errorf("the job came to %v", got)
	}
}

func TestADeniedDeleteIsRepeatedMoreAndMoreSlowly(t *testing.T) {
	w := newWorld(t)
	w.job("team", "llm", "1", 1)
	w.API.Fail(stage.Fault{Verb: "delete", Kind: "JobSet", Code: 403, Message: `admission webhook "x" denied the request: not now`, Times: 2})
	w.API.Fail(stage.Fault{Verb: "delete", Kind: "JobSet", Code: 429, RetryAfter: 7 * time.Second, Times: 1})
	r := w.stop("llm", "T1", reap.StopOptions{})
	if r.Class() != reap.Cleared {
		t.Errorf("the job came to %v", statuses(r))
	}
	var at []time.Duration
	for _, c := range w.API.Calls() {
		if c.UID == "J1" {
			at = append(at, c.At.Sub(w.Loop.Now()))
		}
	}
	if len(at) != 4 || at[1]-at[0] < time.Second || at[2]-at[1] < 2*time.Second || at[3]-at[2] < 7*time.Second {
		t.Errorf("JobSet was asked to go at %v", at)
	}
}

func TestWithoutAPermissionNothingIsHalfStopped(t *testing.T) {
	w := newWorld(t)
	w.job("team", "llm", "1", 1)
	w.API.Fail(stage.Fault{Verb: "delete", Kind: "Pod", Code: 403, Times: -1})
	_, err := w.reaper.StopJob(t.Context(), key("llm", ""), reap.StopOptions{})
	if !errors.Is(err, reap.ErrNotPermitted) {
		t.Errorf("the error is %v", err)
	}
	w.wantDeleted()
}

func TestLookalikesAreLeftAlone(t *testing.T) {
	w := newWorld(t)
	w.job("team", "run-1", "1", 1)
	w.job("team", "run-10", "3", 1)
	w.job("team-core", "run-1", "4", 1)
	byHand := pod("team", "run-1-debug", "PH", "node-0", "run-1", "1")
	byHand.Labels, byHand.OwnerReferences = map[string]string{"app": "train"}, nil
	inherited := pod("team", "somebody", "PI", "node-0", "run-1", "1")
	inherited.OwnerReferences = nil
	w.put(byHand, inherited, meta("v1", "ConfigMap", "team", "run-1-mpi-hostfile", "CX", nil))
	r := w.stop("run-1", "T1", reap.StopOptions{Timeout: time.Minute})
	if got := statuses(r); got["PI"] != reap.StatusFailed {
		t.Errorf("the pod that inherited its labels is %s", got["PI"])
	}
	w.wantDeleted("T1", "J1", "B1", "P10", "C1", "S1", "R1")
}

func TestAServiceOfAnotherNameIsFoundByThePodsThatUseIt(t *testing.T) {
	w := newWorld(t)
	w.job("team", "llm", "1", 1)
	w.job("team", "other", "2", 1)
	for _, name := range []string{"llm", "other"} {
		gen := map[string]string{"llm": "1", "other": "2"}[name]
		p := pod("team", name+"-node-0-0-x"+gen, "P"+gen+"0", "node-0", name, gen)
		p.Spec.Subdomain = "ring"
		w.put(p)
	}
	ring := meta("v1", "Service", "team", "ring", "SR", owner("jobset.x-k8s.io/v1alpha2", "JobSet", "llm", "J1"))
	w.put(ring)
	found := func(name string) bool {
		list, err := w.reaper.Find(t.Context(), key(name, ""))
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(list, func(r reap.Remain) bool { return r.UID == "SR" })
	}
	if !found("llm") || found("other") {
		t.Error("the Service is not found as the one job's and no other's")
	}
	if r := w.stop("llm", "", reap.StopOptions{}); r.Class() != reap.Cleared {
		t.Errorf("the job came to %v", statuses(r))
	}
	w.wantDeleted("T1", "J1", "B1", "P10", "C1", "S1", "SR", "R1")
}

func TestCopiesInAnotherNamespaceAreNotOrphans(t *testing.T) {
	w := newWorld(t)
	w.job("team-a", "llm", "1", 1)
	// What was there was applied to team-b, owner references and all.
	w.put(family("team-b", "llm", "1", 1)[0], family("team-b", "llm", "1", 1)[1])
	copied := pod("team-b", "llm-node-0-0-x1", "PC", "node-0", "llm", "1")
	w.put(copied)
	for uid, name := range map[string]string{"T1": "llm", "": "llm"} {
		r, err := w.reaper.StopJob(t.Context(), facts.JobKey{Namespace: "team-b", Name: name, UID: typesUID(uid)}, reap.StopOptions{Timeout: time.Minute})
		if err != nil || r.Class() != reap.NotStopped || !strings.Contains(r.Items[0].Detail, "another namespace") {
			t.Errorf("the copies came to %+v, %v", r, err)
		}
	}
	jobSets, _ := reap.ParseKind("jobset")
	target := reap.Target{Kind: jobSets, Ref: facts.Ref{Namespace: "team-b", Kind: facts.KindJobSet, Name: "llm", UID: "J1"}}
	if _, err := w.reaper.Stop(t.Context(), target); !errors.Is(err, reap.ErrRefused) {
		t.Errorf("a copy by its reference: %v", err)
	}
	w.wantDeleted()
	// A person who may look into one namespace only sees what the garbage collector would.
	w.API.Fail(stage.Fault{Verb: "list", Kind: "TrainJob", Code: 403, Times: 1})
	if r, err := w.reaper.Stop(t.Context(), target); err != nil || r.Status != reap.StatusGone {
		t.Errorf("%v, %v", r, err)
	}
}

func TestWhatIsToBeKeptIsKeptWithWhatItWouldGoWith(t *testing.T) {
	w := newWorld(t)
	w.job("team", "llm", "1", 1)
	p := pod("team", "llm-node-0-0-x1", "P10", "node-0", "llm", "1")
	p.Annotations = map[string]string{facts.AnnotationKeep: "true"}
	w.put(p)
	r := w.stop("llm", "T1", reap.StopOptions{Timeout: time.Minute})
	if r.Class() != reap.NotStopped {
		t.Errorf("the job came to %v", statuses(r))
	}
	w.wantDeleted()
}

func TestANeverOwnedCopyIsDeletedOnlyWhenNobodyNeedsIt(t *testing.T) {
	labelled := func(uid string) stage.Object {
		o := meta("trainer.kubeflow.org/v1alpha1", "TrainingRuntime", "team", "llm", uid, nil)
		o.Labels = map[string]string{"made-by": "adapter"}
		return o
	}
	w := newWorld(t)
	w.put(labelled("R1"))
	w.stop("llm", "", reap.StopOptions{})
	w.wantDeleted("R1")

	w = newWorld(t)
	w.put(meta("trainer.kubeflow.org/v1alpha1", "TrainingRuntime", "team", "llm", "R1", nil))
	if _, err := w.reaper.StopJob(t.Context(), key("llm", ""), reap.StopOptions{}); !errors.Is(err, reap.ErrNoSuchJob) {
		t.Errorf("an administrator's runtime was taken for a copy: %v", err)
	}
	w.wantDeleted()

	w = newWorld(t)
	user := trainJob("team", "other", "T9")
	user.Object["spec"] = map[string]any{"runtimeRef": map[string]any{"kind": "TrainingRuntime", "name": "llm"}}
	w.put(labelled("R1"), user)
	if r := w.stop("llm", "", reap.StopOptions{Timeout: time.Minute}); r.Class() != reap.NotStopped {
		t.Errorf("a runtime in use came to %v", statuses(r))
	}
	w.wantDeleted()
}

func TestANameWithALiveJobAndLeftoversOfAnotherIsAmbiguous(t *testing.T) {
	w := newWorld(t)
	w.job("team", "llm", "2", 1)
	w.put(pod("team", "llm-node-0-0-x1", "P10", "node-0", "llm", "1"))
	if _, err := w.reaper.StopJob(t.Context(), key("llm", ""), reap.StopOptions{}); !errors.Is(err, reap.ErrAmbiguous) {
		t.Errorf("the error is %v", err)
	}
	w.wantDeleted()
	w.stop("llm", "jobset:J1", reap.StopOptions{})
	w.wantDeleted("P10")
}

func TestATrainJobHeldByAFinalizerKeepsItsChildren(t *testing.T) {
	w := newWorld(t)
	w.job("team", "llm", "1", 1)
	tj := trainJob("team", "llm", "T1")
	tj.SetFinalizers([]string{"queue.example/held"})
	w.put(tj)
	r := w.stop("llm", "T1", reap.StopOptions{Timeout: time.Minute})
	if r.Class() != reap.StillAlive || !r.TimedOut {
		t.Errorf("the job came to %v", statuses(r))
	}
	w.wantDeleted("T1")
}

func TestATrialDeletesNothing(t *testing.T) {
	for _, trial := range []reap.Trial{reap.TryOnClient, reap.TryOnServer} {
		w := newWorld(t)
		w.job("team", "llm", "1", 1)
		if r := w.stop("llm", "", reap.StopOptions{Trial: trial}); !r.DryRun || len(r.Items) != 7 {
			t.Errorf("the trial reports %v", statuses(r))
		}
		w.wantDeleted()
	}
}

func TestOneObjectIsStoppedByItsUID(t *testing.T) {
	at := func(kind reap.Kind, name, uid string) reap.Target {
		return reap.Target{Kind: kind, Ref: facts.Ref{Namespace: "team", Kind: kind.Kind, Name: name, UID: typesUID(uid)}}
	}
	jobSets, _ := reap.ParseKind("jobset")
	pods, _ := reap.ParseKind("pod")
	w := newWorld(t)
	w.job("team", "llm", "1", 1)
	if _, err := w.reaper.Stop(t.Context(), at(jobSets, "llm", "")); !errors.Is(err, reap.ErrNoUID) {
		t.Errorf("a stop without a UID: %v", err)
	}
	if _, err := w.reaper.Stop(t.Context(), at(jobSets, "llm", "J1")); !errors.Is(err, reap.ErrRefused) {
		t.Errorf("a JobSet whose TrainJob lives: %v", err)
	}
	for uid, want := range map[string]reap.Status{"J0": reap.StatusReplaced} {
		if r, err := w.reaper.Stop(t.Context(), at(jobSets, "llm", uid)); err != nil || r.Status != want {
			t.Errorf("%s is %v, %v", uid, r, err)
		}
	}
	if r, err := w.reaper.Stop(t.Context(), at(jobSets, "absent", "J1")); err != nil || r.Status != reap.StatusGone {
		t.Errorf("an absent one is %v, %v", r, err)
	}
	w.wantDeleted()
	orphan := pod("team", "old-node-0-0-x7", "P70", "node-0", "old", "7")
	w.put(orphan)
	for range 3 { // asked to go once, whoever asks again
		if r, err := w.reaper.Stop(t.Context(), at(pods, orphan.Name, "P70")); err != nil || r.Status != reap.StatusTerminating {
			t.Errorf("an orphan is %v, %v", r, err)
		}
	}
	w.wantDeleted("P70")
}

func TestFindTellsWhatIsForeign(t *testing.T) {
	w := newWorld(t)
	w.job("team", "llm", "2", 1)
	w.put(pod("team", "llm-node-0-0-x1", "P10", "node-0", "llm", "1"))
	w.Loop.RunUntil(w.Loop.Now().Add(time.Second))
	list, err := w.reaper.Find(t.Context(), key("llm", ""))
	if err != nil {
		t.Fatal(err)
	}
	foreign := map[string]bool{}
	for _, r := range list {
		foreign[string(r.UID)] = r.Foreign
	}
	if len(list) != 7 || !foreign["P10"] || foreign["P20"] || foreign["J2"] {
		t.Errorf("found %v", foreign)
	}
	if list, err = w.reaper.Find(t.Context(), key("llm", "T2")); err != nil || len(list) != 6 {
		t.Errorf("of T2: %d remains, %v", len(list), err)
	}
	// What nobody can assign any more counts for an incarnation that is gone.
	if list, err = w.reaper.Find(t.Context(), key("llm", "T1")); err != nil || len(list) != 1 || list[0].UID != "P10" {
		t.Errorf("of T1: %v, %v", list, err)
	}
	if list, err = w.reaper.Find(t.Context(), facts.JobKey{}); err != nil || len(list) != 7 {
		t.Errorf("of all: %d remains, %v", len(list), err)
	}
}

var _ metav1.Object = (*corev1.Pod)(nil)

// Whoever is asked before the job is found is asked about another one: a queue may submit the next one of the name at once.
func TestTheTrainJobThatIsConfirmedIsTheOneThatIsDeleted(t *testing.T) {
	w := newWorld(t)
	w.API.Cascade = true
	w.job("team", "llm", "1", 1)
	refused := errors.New("no")
	var asked []string
	confirm := func(t *facts.TrainJob) error {
		asked = append(asked, string(t.UID))
		return refused
	}
	if _, err := w.reaper.StopJob(t.Context(), key("llm", ""), reap.StopOptions{Confirm: confirm}); !errors.Is(err, refused) {
		t.Errorf("a stop that is not confirmed ends with %v", err)
	}
	w.wantDeleted()
	if !slices.Equal(asked, []string{"T1"}) {
		t.Errorf("asked about %v", asked)
	}
	// While a person thinks, the job ends and the next one of its name comes.
	r := w.stop("llm", "", reap.StopOptions{Confirm: func(*facts.TrainJob) error {
		if err := w.API.Remove(trainJob("team", "llm", "T1"), stage.Delivery{}); err != nil {
			return err
		}
		w.job("team", "llm", "2", 1)
		return nil
	}})
	if r.Job.UID != "T1" || slices.Contains(w.deleted(), "T2") {
		t.Errorf("of %v was deleted %v", r.Job, w.deleted())
	}
	// The remains of one that is gone need no word.
	w.stop("llm", "T1", reap.StopOptions{Confirm: func(*facts.TrainJob) error { t.Error("asked about a TrainJob that is gone"); return nil }})
}
