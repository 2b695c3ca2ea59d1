package retention

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// second is the instant that many seconds after the start of a test's time.
func second(n int) facts.Instant {
	return facts.At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)).Add(time.Duration(n) * time.Second)
}

func stamp(n int) string { return second(n).Time().Format(time.RFC3339) }

// said is a decision in the words of the tests: times as seconds, and no rule.
func said(d Decision) string {
	if d.Verb == Delete {
		return fmt.Sprintf("DELETE@%d", int(d.Due.Sub(second(0))/time.Second))
	}
	return d.String()
}

func policy(t testing.TB, text string) *Policy {
	t.Helper()
	p, problems := LoadInline([]byte(text))
	if p == nil {
		t.Fatalf("the policy has problems:\n%s", problems.Error())
	}
	return p
}

// object reads an object of the policy's kinds. @N in the text is the time N seconds after the start.
func object(t testing.TB, p *Policy, text string) *Object {
	t.Helper()
	u := manifest(t, text)
	gvk := u.GroupVersionKind()
	k := p.KindOf(gvk.Group, gvk.Kind)
	if k == nil {
		t.Fatalf("no kind %v", gvk)
	}
	return p.Read(k, u)
}

func manifest(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	for {
		before, after, found := strings.Cut(text, "@")
		if !found {
			break
		}
		var n int
		if _, err := fmt.Sscanf(after, "%d", &n); err != nil {
			t.Fatal(err)
		}
		text = before + `"` + stamp(n) + `"` + strings.TrimLeft(after, "-0123456789")
	}
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	// The API machinery knows whole numbers as int64 only.
	text2, err := u.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if err := u.UnmarshalJSON(text2); err != nil {
		t.Fatal(err)
	}
	if u.GetName() == "" {
		u.SetName("x")
	}
	if u.GetNamespace() == "" {
		u.SetNamespace("team-a")
	}
	if u.GetUID() == "" {
		u.SetUID("U1")
	}
	return u
}

const (
	hour      = `rules: [{name: all, ttlAfterFinished: 3600s}]`
	byOutcome = `rules: [{name: all, succeeded: 60s, failed: 600s}]`
	minute    = `rules: [{name: all, ttlAfterFinished: 60s}]`
)

func job(conditions, rest string) string {
	return "{apiVersion: batch/v1, kind: Job, status: {conditions: [" + conditions + "]" + rest + "}}"
}

func annotated(annotation string) string {
	return `{apiVersion: batch/v1, kind: Job, metadata: {annotations: {` + annotation + `}}, status: {conditions: [{type: Complete, status: "True", lastTransitionTime: @0}]}}`
}

func owned(owner string) string {
	return `{apiVersion: batch/v1, kind: Job, metadata: {ownerReferences: [` + owner + `]}, status: {conditions: [{type: Complete, status: "True", lastTransitionTime: @0}]}}`
}

// running is a pod whose container runs; ended one whose container ended at a time.
func running(name string) Pod {
	return Pod{Pod: &facts.Pod{Meta: facts.Meta{Name: name, UID: types.UID(name)}, Node: "n1", Phase: facts.PhaseRunning,
		Containers: []facts.Container{{State: facts.Running}}}}
}

func ended(phase facts.Phase, at ...int) Pod {
	p := &facts.Pod{Meta: facts.Meta{Name: "p", UID: "p"}, Node: "n1", Phase: phase}
	for _, n := range at {
		p.Containers = append(p.Containers, facts.Container{State: facts.Terminated, Finished: second(n)})
	}
	return Pod{Pod: p, Over: true}
}

// Each row is a case of real life. What a policy must not do stands in the row's name.
func TestAnObject(t *testing.T) {
	complete := `{type: Complete, status: "True", lastTransitionTime: @0}`
	trainJob := func(rest string) string {
		return "{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, " + rest + "}"
	}
	failedTrainJob := trainJob(`status: {conditions: [{type: Failed, status: "True", reason: DeadlineExceeded, lastTransitionTime: @0}]}`)
	jobSetOf := `{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {ownerReferences: [{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, name: tj, uid: T1, controller: true}]},
		spec: {ttlSecondsAfterFinished: 60}, status: {conditions: [{type: %s, status: "True", reason: ReachedMaxRestarts, lastTransitionTime: @0}]}}`
	pytorch := func(spec, conditions string) string {
		return "{apiVersion: kubeflow.org/v1, kind: PyTorchJob, spec: {" + spec + "}, status: {conditions: [" + conditions + "]}}"
	}
	workflow := func(spec, status string) string {
		return "{apiVersion: argoproj.io/v1alpha1, kind: Workflow, spec: {" + spec + "}, status: {" + status + "}}"
	}
	argoTTL := "ttlStrategy: {secondsAfterCompletion: 86400, secondsAfterSuccess: 86400, secondsAfterFailure: 604800}"

	for _, row := range []struct {
		name, policy, object string
		now                  int
		owner                OwnerState
		pods                 []Pod
		recreated            int
		want                 string
	}{
		{name: "JobSet whose TrainJob lives is the TrainJob's, when it failed", policy: minute, object: fmt.Sprintf(jobSetOf, "Failed"), now: 61, owner: OwnerLive, want: "SKIP(owned by live TrainJob)"},
		{name: "JobSet whose TrainJob lives is the TrainJob's, when it completed", policy: minute, object: fmt.Sprintf(jobSetOf, "Completed"), now: 61, owner: OwnerLive, want: "SKIP(owned by live TrainJob)"},
		{name: "JobSet whose TrainJob is gone goes after the smaller TTL", policy: hour, object: fmt.Sprintf(jobSetOf, "Failed"), now: 61, owner: OwnerGone, want: "DELETE@60"},

		{name: "TrainJob that failed with pods running stays, an hour on", policy: minute, object: failedTrainJob, now: 3600, pods: []Pod{running("a"), running("b"), running("c"), running("d")}, want: "KEEP(running pods)"},
		{name: "Job that failed with a ready and a terminating pod stays", policy: minute, object: job(`{type: Failed, status: "True", lastTransitionTime: @0}`, ", ready: 1, terminating: 1"), now: 60, pods: []Pod{running("a"), running("b")}, want: "KEEP(running pods)"},
		{name: "Job that completed with a running pod stays", policy: minute, object: job(complete, ", succeeded: 1"), now: 60, pods: []Pod{ended(facts.PhaseSucceeded, 0), running("b")}, want: "KEEP(running pods)"},
		{name: "Job goes at once when its last pod is over and the TTL has passed", policy: minute, object: job(complete, ""), now: 900, pods: []Pod{ended(facts.PhaseSucceeded, 0), ended(facts.PhaseSucceeded, 890)}, want: "DELETE@60"},
		{name: "MPIJob with an evicted worker and seven active ones stays", policy: `rules: [{name: all, ttlAfterFinished: 10800s}]`, object: `{apiVersion: kubeflow.org/v2beta1, kind: MPIJob, spec: {runPolicy: {cleanPodPolicy: Running, ttlSecondsAfterFinished: 10800}}, status: {conditions: [{type: Failed, status: "True", reason: MPIJobEvicted, lastTransitionTime: @0}]}}`,
			now: 10800, pods: []Pod{running("w0"), running("w1")}, want: "KEEP(running pods)"},

		{name: "workflow that was retried is not deleted by its first failure's timer", policy: `rules: [{name: all, failed: 300s}]`, object: workflow("", "phase: Running, finishedAt: null"), now: 300, want: "KEEP(not finished)"},
		{name: "workflow that was retried is counted from its last failure", policy: `rules: [{name: all, failed: 300s}]`, object: workflow("", "phase: Failed, finishedAt: @500"), now: 500, want: "DELETE@800"},
		{name: "v1 job whose failure was taken back is not finished", policy: minute, object: pytorch("", `{type: Failed, status: "False", lastTransitionTime: @0}, {type: Running, status: "True", lastTransitionTime: @100}`), now: 300, want: "KEEP(not finished)"},
		{name: "v1 job that restarts after a failure that still stands is not finished", policy: minute, object: pytorch("", `{type: Failed, status: "True", lastTransitionTime: @0}, {type: Restarting, status: "True", lastTransitionTime: @100}`), now: 300, want: "KEEP(not finished)"},

		{name: "Job whose deadline passed has no completion time and failed, whatever it counts as succeeded", policy: byOutcome, object: job(`{type: Failed, status: "True", reason: DeadlineExceeded, lastTransitionTime: @0}`, ", succeeded: 1"), now: 60, want: "DELETE@600"},
		{name: "Job that failed has no completion time", policy: byOutcome, object: job(`{type: Failed, status: "True", reason: BackoffLimitExceeded, lastTransitionTime: @0}`, ", failed: 1"), now: 60, want: "DELETE@600"},
		{name: "Job that counts an active pod and has none goes", policy: byOutcome, object: job(complete, ", completionTime: @0, active: 1"), now: 60, want: "DELETE@60"},
		{name: "PyTorchJob that failed has no completion time", policy: byOutcome, object: pytorch("", `{type: Failed, status: "True", lastTransitionTime: @0}`), now: 60, want: "DELETE@600"},
		{name: "TFJob that failed has no completion time", policy: byOutcome, object: `{apiVersion: kubeflow.org/v1, kind: TFJob, status: {completionTime: null, conditions: [{type: Failed, status: "True", lastTransitionTime: @0}]}}`, now: 60, want: "DELETE@600"},
		{name: "Job that finished at no time anybody knows stays", policy: byOutcome, object: `{apiVersion: batch/v1, kind: Job, metadata: {creationTimestamp: @-9000}, status: {conditions: [{type: Complete, status: "True"}]}}`, now: 9000, want: "KEEP(no finish time)"},
		{name: "workflow that finished at no time anybody knows stays", policy: byOutcome, object: workflow("", "phase: Succeeded"), now: 9000, want: "KEEP(no finish time)"},
		{name: "deadline that passed can have a time of its own", policy: `rules: [{name: all, failed: 600s, deadlineExceeded: 10s}]`, object: failedTrainJob, now: 0, want: "DELETE@10"},

		{name: "Job that came back after its clean-up is left alone", policy: minute, object: job(`{type: Complete, status: "True", lastTransitionTime: @70}`, ""), now: 200, recreated: 1, want: "SKIP(re-created after clean-up)"},
		{name: "Job that came back fewer times than the policy bears goes again", policy: minute + "\nrecreation: {limit: 2}", object: job(`{type: Complete, status: "True", lastTransitionTime: @70}`, ""), now: 200, recreated: 1, want: "DELETE@130"},
		{name: "Job that Argo CD tracks is Argo CD's", policy: minute, object: annotated(`argocd.argoproj.io/tracking-id: "app:batch/Job:team-a/x"`), now: 60, want: "SKIP(externally managed)"},
		{name: "Job that Flux tracks is Flux's", policy: minute, object: `{apiVersion: batch/v1, kind: Job, metadata: {labels: {kustomize.toolkit.fluxcd.io/name: apps}}, status: {conditions: [{type: Complete, status: "True", lastTransitionTime: @0}]}}`, now: 60, want: "SKIP(externally managed)"},
		{name: "Job that Argo CD tracks goes when it asks for it", policy: minute, object: annotated(`argocd.argoproj.io/tracking-id: "app:batch/Job:team-a/x", orphand.dev/include: "true"`), now: 60, want: "DELETE@60"},
		{name: "Job with a mark of the house is its tool's", policy: minute + "\ngitOpsMarks: [example.com/app]", object: annotated(`example.com/app: x`), now: 60, want: "SKIP(externally managed)"},

		{name: "Job that still retries is not finished because a pod failed", policy: minute, object: `{apiVersion: batch/v1, kind: Job, spec: {backoffLimit: 3}, status: {failed: 1, active: 1}}`, now: 9000, pods: []Pod{ended(facts.PhaseFailed, 0), running("b")}, want: "KEEP(not finished)"},
		{name: "Job whose pods vanished with their node goes by its own condition", policy: minute, object: job(complete, ""), now: 0, want: "DELETE@60"},
		{name: "Job with a failed pod and no condition is not finished", policy: minute, object: `{apiVersion: batch/v1, kind: Job, spec: {backoffLimit: 3}, status: {failed: 1}}`, now: 9000, want: "KEEP(not finished)"},

		{name: "PyTorchJob that is suspended is not finished because nothing is active", policy: minute, object: pytorch("runPolicy: {suspend: true, ttlSecondsAfterFinished: 60}", `{type: Suspended, status: "True", lastTransitionTime: @0}`), now: 9000, want: "KEEP(suspended)"},
		{name: "TFJob to be suspended is suspended before its status says so", policy: minute, object: `{apiVersion: kubeflow.org/v1, kind: TFJob, spec: {runPolicy: {suspend: true}}}`, now: 9000, want: "KEEP(suspended)"},
		{name: "suspended Job stays", policy: minute, object: `{apiVersion: batch/v1, kind: Job, spec: {suspend: true}, status: {active: 0}}`, now: 9000, want: "KEEP(suspended)"},
		{name: "suspended JobSet stays", policy: minute, object: `{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, spec: {suspend: true}}`, now: 9000, want: "KEEP(suspended)"},
		{name: "suspended TrainJob stays", policy: minute, object: trainJob(`spec: {suspend: true}`), now: 9000, want: "KEEP(suspended)"},
		{name: "PyTorchJob that was resumed goes after its end", policy: minute, object: pytorch("runPolicy: {suspend: false}", `{type: Suspended, status: "False", lastTransitionTime: @50}, {type: Succeeded, status: "True", lastTransitionTime: @900}`), now: 900, want: "DELETE@960"},

		{name: "Job of a CronJob is the CronJob's", policy: hour, object: owned(`{apiVersion: batch/v1, kind: CronJob, name: c1, uid: C1, controller: true}`), now: 9000, owner: OwnerLive, want: "SKIP(controlled by CronJob)"},
		{name: "Job started by hand from a CronJob does not stay for ever", policy: hour, object: owned(`{apiVersion: batch/v1, kind: CronJob, name: c1, uid: C1}`), now: 9000, owner: OwnerNone, want: "DELETE@3600"},
		{name: "Job whose CronJob is gone goes", policy: hour, object: owned(`{apiVersion: batch/v1, kind: CronJob, name: c1, uid: C1, controller: true}`), now: 9000, owner: OwnerGone, want: "DELETE@3600"},
		{name: "Job whose owner nobody could read stays", policy: hour, object: owned(`{apiVersion: example.com/v1, kind: Run, name: r, uid: R1, controller: true}`), now: 9000, owner: OwnerUnread, want: "KEEP(owner unknown)"},
		{name: "Job whose owner lives in another namespace is not judged by it", policy: hour, object: owned(`{apiVersion: example.com/v1, kind: Run, name: r, uid: R1, controller: true}`), now: 9000, owner: OwnerElsewhere, want: "SKIP(invalid owner reference)"},
		{name: "Job with any other live controller is that one's", policy: hour, object: owned(`{apiVersion: example.com/v1, kind: Run, name: r, uid: R1, controller: true}`), now: 9000, owner: OwnerLive, want: "SKIP(owned by live Run)"},

		{name: "annotation that is no duration falls back to the policy", policy: hour, object: annotated(`orphand.dev/ttl-after-finished: 10ay`), now: 0, want: "DELETE@3600"},
		{name: "empty annotation falls back to the policy", policy: hour, object: annotated(`orphand.dev/ttl-after-finished: ""`), now: 0, want: "DELETE@3600"},
		{name: "negative annotation falls back to the policy", policy: hour, object: annotated(`orphand.dev/ttl-after-finished: "-5m"`), now: 0, want: "DELETE@3600"},
		{name: "annotation of 0s lets it go at once", policy: hour, object: annotated(`orphand.dev/ttl-after-finished: 0s`), now: 0, want: "DELETE@0"},
		{name: "annotation that overflows falls back to the policy", policy: hour, object: annotated(`orphand.dev/ttl-after-finished: 999999999999h`), now: 0, want: "DELETE@3600"},
		{name: "annotation to keep wins over one to go", policy: hour, object: annotated(`orphand.dev/ttl-after-finished: 1h, orphand.dev/keep: "true"`), now: 9000, want: "SKIP(excluded)"},
		{name: "object without annotation goes by the policy", policy: hour, object: annotated(""), now: 0, want: "DELETE@3600"},
		{name: "annotation to keep that nobody understands is granted", policy: hour, object: annotated(`orphand.dev/keep: "yes please"`), now: 9000, want: "SKIP(excluded)"},
		{name: "annotation not to keep changes nothing", policy: hour, object: annotated(`orphand.dev/keep: "false"`), now: 0, want: "DELETE@3600"},
		{name: "annotation below min is raised to it", policy: `rules: [{name: all, ttlAfterFinished: 1h, min: 100s}]`, object: annotated(`orphand.dev/ttl-after-finished: 1s`), now: 0, want: "DELETE@100"},
		{name: "annotation above max is cut by it", policy: `rules: [{name: all, ttlAfterFinished: 1h, max: 2h}]`, object: annotated(`orphand.dev/ttl-after-finished: 52w`), now: 0, want: "DELETE@7200"},
		{name: "annotation to keep is cut by max", policy: `rules: [{name: all, ttlAfterFinished: 1h, max: 2h}]`, object: annotated(`orphand.dev/keep: "true"`), now: 0, want: "DELETE@7200"},
		{name: "annotation to keep until a time puts the end off", policy: hour, object: annotated(`orphand.dev/keep-until: @9000`), now: 0, want: "DELETE@9000"},
		{name: "annotation to keep until a time before the end changes nothing", policy: hour, object: annotated(`orphand.dev/keep-until: @9`), now: 0, want: "DELETE@3600"},
		{name: "annotation to keep until a time is cut by max", policy: `rules: [{name: all, ttlAfterFinished: 1h, max: 2h}]`, object: annotated(`orphand.dev/keep-until: @9000`), now: 0, want: "DELETE@7200"},
		{name: "annotation to keep until no time falls back to the policy", policy: hour, object: annotated(`orphand.dev/keep-until: tomorrow`), now: 0, want: "DELETE@3600"},

		{name: "TTL of 0 means at the finish", policy: `rules: [{name: all, ttlAfterFinished: 0}]`, object: job(complete, ""), now: 0, want: "DELETE@0"},
		{name: "own TTL of 0 means at the finish", policy: hour, object: `{apiVersion: batch/v1, kind: Job, spec: {ttlSecondsAfterFinished: 0}, status: {conditions: [` + complete + `]}}`, now: 0, want: "DELETE@0"},
		{name: "own TTL that is smaller wins", policy: hour, object: `{apiVersion: batch/v1, kind: Job, spec: {ttlSecondsAfterFinished: 100}, status: {conditions: [` + complete + `]}}`, now: 0, want: "DELETE@100"},
		{name: "own TTL that is larger loses", policy: hour, object: `{apiVersion: batch/v1, kind: Job, spec: {ttlSecondsAfterFinished: 90000}, status: {conditions: [` + complete + `]}}`, now: 0, want: "DELETE@3600"},
		{name: "TTL that Trainer will have one day counts already", policy: hour, object: trainJob(`spec: {ttlSecondsAfterFinished: 5}, status: {conditions: [{type: Complete, status: "True", lastTransitionTime: @0}]}`), now: 0, want: "DELETE@5"},
		{name: "success has its own TTL beside that for every end", policy: `rules: [{name: all, ttlAfterFinished: 86400s, succeeded: 86400s, failed: 604800s}]`, object: job(complete, ""), now: 0, want: "DELETE@86400"},
		{name: "failure has its own TTL beside that for every end", policy: `rules: [{name: all, ttlAfterFinished: 86400s, succeeded: 86400s, failed: 604800s}]`, object: failedTrainJob, now: 0, want: "DELETE@604800"},
		{name: "workflow that succeeded goes by its own TTL for success", policy: `rules: [{name: all}]`, object: workflow(argoTTL, "phase: Succeeded, finishedAt: @0"), now: 0, want: "DELETE@86400"},
		{name: "workflow that failed goes by its own TTL for failure", policy: `rules: [{name: all}]`, object: workflow(argoTTL, "phase: Failed, finishedAt: @0"), now: 0, want: "DELETE@604800"},
		{name: "workflow with one TTL goes by it after a failure", policy: `rules: [{name: all}]`, object: workflow("ttlStrategy: {secondsAfterCompletion: 86400}", "phase: Error, finishedAt: @0"), now: 0, want: "DELETE@86400"},
		{name: "workflow with one TTL goes by it after a success", policy: `rules: [{name: all}]`, object: workflow("ttlStrategy: {secondsAfterCompletion: 86400}", "phase: Succeeded, finishedAt: @0"), now: 0, want: "DELETE@86400"},

		{name: "finish in the future is waited for", policy: `rules: [{name: all, ttlAfterFinished: 0s}]`, object: job(`{type: Complete, status: "True", lastTransitionTime: @120}`, ""), now: 0, want: "DELETE@120"},
		{name: "own TTL that is negative is not set", policy: hour, object: `{apiVersion: batch/v1, kind: Job, spec: {ttlSecondsAfterFinished: -1}, status: {conditions: [` + complete + `]}}`, now: 0, want: "DELETE@3600"},
		{name: "job that never ends is never touched by a TTL after the end", policy: minute, object: trainJob(`metadata: {creationTimestamp: @-900000}, status: {conditions: [{type: Suspended, status: "False", lastTransitionTime: @-900000}]}`), now: 900000, want: "KEEP(not finished)"},
		{name: "object that is terminating is not deleted again", policy: minute, object: `{apiVersion: batch/v1, kind: Job, metadata: {deletionTimestamp: @61, finalizers: [x/y]}, status: {conditions: [` + complete + `]}}`, now: 9000, want: "SKIP(terminating)"},

		{name: "copy that MultiKueue made elsewhere is not ours", policy: minute, object: `{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {labels: {kueue.x-k8s.io/multikueue-origin: multikueue}}, status: {conditions: [{type: Completed, status: "True", lastTransitionTime: @0}]}}`, now: 9000, want: "SKIP(remote copy)"},
		{name: "JobSet that ran elsewhere goes once its end was mirrored", policy: minute, object: `{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, spec: {managedBy: kueue.x-k8s.io/multikueue}, status: {conditions: [{type: Completed, status: "True", lastTransitionTime: @0}]}}`, now: 0, want: "DELETE@60"},
		{name: "JobSet that runs elsewhere is not finished before its end was mirrored", policy: minute, object: `{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, spec: {managedBy: kueue.x-k8s.io/multikueue}}`, now: 9000, want: "KEEP(not finished)"},

		{name: "pod inside its log time keeps its parent", policy: `rules: [{name: all, ttlAfterFinished: 180s, deletePodsAfter: 1800s}]`, object: job(`{type: Failed, status: "True", lastTransitionTime: @3600}`, ""), now: 3780, pods: []Pod{ended(facts.PhaseFailed, 3600)}, want: "KEEP(pod log time)"},
		{name: "pod past its log time does not keep its parent", policy: `rules: [{name: all, ttlAfterFinished: 180s, deletePodsAfter: 1800s}]`, object: job(`{type: Failed, status: "True", lastTransitionTime: @3600}`, ""), now: 5400, pods: []Pod{ended(facts.PhaseFailed, 3600)}, want: "DELETE@3780"},
		{name: "pod whose log time ends before its parent's does not hold it up", policy: `rules: [{name: all, ttlAfterFinished: 1h, deletePodsAfter: 60s}]`, object: job(complete, ""), now: 10, pods: []Pod{ended(facts.PhaseSucceeded, 0)}, want: "DELETE@3600"},
		{name: "pod that someone else removed keeps nothing", policy: `rules: [{name: all, ttlAfterFinished: 180s, deletePodsAfter: 1800s}]`, object: job(complete, ""), now: 200, pods: []Pod{{Pod: ended(facts.PhaseFailed, 0).Pod, Over: true, Removed: true}}, want: "DELETE@180"},

		{name: "object that no rule matches stays", policy: `rules: [{name: w, match: {kinds: [Workflow]}, ttlAfterFinished: 1s}]`, object: job(complete, ""), now: 9000, want: "KEEP(no rule)"},
		{name: "object whose rule says nothing of time stays", policy: `rules: [{name: all, failed: 1s}]`, object: job(complete, ""), now: 9000, want: "KEEP(no TTL)"},
		{name: "object goes by max alone", policy: `rules: [{name: all, max: 7d}]`, object: job(complete, ""), now: 0, want: "DELETE@604800"},
		{name: "object of a namespace with a rule of its own goes by the first that matches", policy: `rules: [{name: a, match: {namespaces: ["team-?"]}, ttlAfterFinished: 5s}, {name: all, ttlAfterFinished: 1h}]`, object: job(complete, ""), now: 0, want: "DELETE@5"},
		{name: "object of an excluded namespace falls through", policy: `rules: [{name: a, match: {namespaces: ["!team-a"]}, ttlAfterFinished: 5s}, {name: all, ttlAfterFinished: 1h}]`, object: job(complete, ""), now: 0, want: "DELETE@3600"},
		{name: "object goes by the rule that its labels match", policy: `rules: [{name: a, match: {labels: {app: other}}, ttlAfterFinished: 5s}, {name: b, match: {labels: "tier in (a, b)"}, ttlAfterFinished: 7s}, {name: all, ttlAfterFinished: 1h}]`,
			object: `{apiVersion: batch/v1, kind: Job, metadata: {labels: {app: train, tier: b}}, status: {conditions: [` + complete + `]}}`, now: 0, want: "DELETE@7"},
		{name: "object goes by the rule whose expression holds", policy: `rules: [{name: a, match: {expression: "object.spec.parallelism > 8"}, ttlAfterFinished: 5s}, {name: all, ttlAfterFinished: 1h}]`,
			object: `{apiVersion: batch/v1, kind: Job, spec: {parallelism: 16}, status: {conditions: [` + complete + `]}}`, now: 0, want: "DELETE@5"},
		{name: "object without the expression's field does not match", policy: `rules: [{name: a, match: {expression: "object.spec.parallelism > 8"}, ttlAfterFinished: 5s}, {name: all, ttlAfterFinished: 1h}]`,
			object: `{apiVersion: batch/v1, kind: Job, spec: {}, status: {conditions: [` + complete + `]}}`, now: 0, want: "DELETE@3600"},
		{name: "object that cannot be read stays", policy: minute, object: `{apiVersion: batch/v1, kind: Job, status: {conditions: gone}}`, now: 9000, want: "KEEP(unreadable)"},
		{name: "Volcano Job is not batch/v1's", policy: `rules: [{name: a, match: {kinds: [Job]}, ttlAfterFinished: 5s}, {name: v, match: {kinds: [VolcanoJob]}, ttlAfterFinished: 7s}]`,
			object: `{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, status: {state: {phase: Completed, lastTransitionTime: @0}}}`, now: 0, want: "DELETE@7"},
		{name: "Volcano Job that was aborted can be resumed", policy: minute, object: `{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, status: {state: {phase: Aborted, lastTransitionTime: @0}}}`, now: 9000, want: "KEEP(suspended)"},
		{name: "RayJob that succeeded goes after its end", policy: byOutcome, object: `{apiVersion: ray.io/v1, kind: RayJob, status: {jobDeploymentStatus: Complete, jobStatus: SUCCEEDED, endTime: @10}}`, now: 0, want: "DELETE@70"},
		{name: "RayJob that was stopped failed", policy: byOutcome, object: `{apiVersion: ray.io/v1, kind: RayJob, status: {jobDeploymentStatus: Complete, jobStatus: STOPPED, endTime: @10}}`, now: 0, want: "DELETE@610"},
		{name: "SparkApplication that completed goes after its termination", policy: byOutcome, object: `{apiVersion: sparkoperator.k8s.io/v1beta2, kind: SparkApplication, spec: {timeToLiveSeconds: 9000}, status: {terminationTime: @10, applicationState: {state: COMPLETED}}}`, now: 0, want: "DELETE@70"},
		{name: "SparkApplication that is submitted again is not finished", policy: byOutcome, object: `{apiVersion: sparkoperator.k8s.io/v1beta2, kind: SparkApplication, status: {applicationState: {state: PENDING_RERUN}}}`, now: 9000, want: "KEEP(not finished)"},
		{name: "object of a kind by configuration goes by its usual condition", policy: minute + "\nkinds: [{group: example.com, versions: [v1], resource: runs, kind: Run}]", object: `{apiVersion: example.com/v1, kind: Run, status: {conditions: [{type: Finished, status: "True", lastTransitionTime: @30}]}}`, now: 0, want: "DELETE@90"},
		{name: "object of a kind by configuration goes by the words of CEL", policy: byOutcome + `
kinds:
- {group: example.com, versions: [v1], resource: runs, kind: Run, finished: "object.status.done", outcome: "object.status.code == 0 ? 'succeeded' : 'failed'", finishTime: "timestamp(object.status.end)", ttl: "object.spec.keep"}`,
			object: `{apiVersion: example.com/v1, kind: Run, spec: {keep: 500}, status: {done: true, code: 3, end: @30}}`, now: 0, want: "DELETE@530"},
		{name: "object of a kind by configuration whose field is missing is not finished", policy: byOutcome + `
kinds: [{group: example.com, versions: [v1], resource: runs, kind: Run, finished: "object.status.done"}]`, object: `{apiVersion: example.com/v1, kind: Run}`, now: 9000, want: "KEEP(not finished)"},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := policy(t, row.policy)
			d := p.Decide(Case{Object: object(t, p, row.object), Owner: row.owner, Pods: row.pods, Recreated: row.recreated, Now: second(row.now)})
			if got := said(d); got != row.want {
				t.Errorf("got %s, want %s (%s)", got, row.want, d.Explain())
			}
		})
	}
}

func TestAPod(t *testing.T) {
	logs := `rules: [{name: all, deletePodsAfter: {succeeded: 1800s, failed: 3600s}}]`
	one := `rules: [{name: all, deletePodsAfter: 1800s}]`
	finished := func(at int) string {
		return job(fmt.Sprintf(`{type: Complete, status: "True", lastTransitionTime: @%d}`, at), "")
	}
	tracked := ended(facts.PhaseSucceeded, 0)
	tracked.Finalizers = []string{"batch.kubernetes.io/job-tracking"}
	mirror := ended(facts.PhaseFailed, 0)
	mirror.Mirror = true
	terminating := running("p")
	terminating.Deletion = second(5)
	for _, row := range []struct {
		name, policy, job string
		pod               Pod
		controller        ControllerState
		want              string
	}{
		{"that is over stays until its owner has noted it, whatever its age", one, job("", ""), ended(facts.PhaseSucceeded, 0), ControllerOver, "KEEP(owner not finished)"},
		{"whose own controller works would be made again", one, finished(30), running("p"), ControllerWorking, "KEEP(owner not finished)"},
		{"that the Job controller has not counted stays", one, finished(30), tracked, ControllerOver, "KEEP(job tracking)"},
		{"is kept from its own end, not its owner's", one, finished(30), ended(facts.PhaseSucceeded, 0), ControllerOver, "DELETE@1800"},
		{"is kept from its end, not its start", one, finished(3600), ended(facts.PhaseSucceeded, 3600), ControllerOver, "DELETE@5400"},
		{"that was short is not kept longer", one, finished(300), ended(facts.PhaseSucceeded, 300), ControllerOver, "DELETE@2100"},
		{"ends when the last of its containers ends", one, finished(400), ended(facts.PhaseSucceeded, 100, 400), ControllerOver, "DELETE@2200"},
		{"that failed can be kept longer", logs, finished(0), ended(facts.PhaseFailed, 0), ControllerOver, "DELETE@3600"},
		{"that succeeded can go earlier", logs, finished(0), ended(facts.PhaseSucceeded, 0), ControllerOver, "DELETE@1800"},
		{"that still runs is none of deletePodsAfter", logs, finished(0), running("p"), ControllerOver, "KEEP(running pods)"},
		{"that still runs is stopped a while after its job's end", `rules: [{name: all, stopRunningAfter: 300s}]`, finished(30), running("p"), ControllerOver, "DELETE@330"},
		{"that is asked to end already is not asked again", `rules: [{name: all, stopRunningAfter: 300s}]`, finished(30), terminating, ControllerOver, "SKIP(terminating)"},
		{"of a static manifest comes back by itself", one, finished(0), mirror, ControllerOver, "SKIP(mirror pod)"},
		{"without an end that anybody knows stays", one, finished(0), ended(facts.PhaseFailed), ControllerOver, "KEEP(no finish time)"},
		{"whose controller nobody could read stays", one, finished(0), ended(facts.PhaseFailed, 0), ControllerUnknown, "KEEP(owner unknown)"},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := policy(t, row.policy)
			d := p.DecidePod(PodCase{Pod: row.pod, Job: object(t, p, row.job), Controller: row.controller, Now: second(10)})
			if got := said(d); got != row.want {
				t.Errorf("got %s, want %s (%s)", got, row.want, d.Explain())
			}
		})
	}
	p := policy(t, one)
	if got := said(p.DecidePod(PodCase{Pod: ended(facts.PhaseFailed, 0), Controller: ControllerOver})); got != "KEEP(owner unknown)" {
		t.Errorf("a pod of no known job: %s", got)
	}
}

func TestADecisionNamesTheRuleAndTheClamp(t *testing.T) {
	p := policy(t, `rules: [{name: short, ttlAfterFinished: 1h, max: 2h}]`)
	o := object(t, p, annotated(`orphand.dev/ttl-after-finished: 3h`))
	d := p.Decide(Case{Object: o, Now: second(0)})
	if got, want := d.String(), "DELETE@2026-01-01T02:00:00Z(short)"; got != want {
		t.Errorf("String: got %s, want %s", got, want)
	}
	want := `goes at 2026-01-01T02:00:00Z by rule "short" (annotation orphand.dev/ttl-after-finished); 3h is cut by max 2h`
	if got := d.Explain(); got != want {
		t.Errorf("Explain: got %s, want %s", got, want)
	}
}

func TestADeletionIsAnnouncedAheadButNotBeforeTheFinish(t *testing.T) {
	for _, row := range []struct {
		name, policy string
		otherwise    time.Duration
		notice       time.Duration
		announce     int
		// goes is when it may go when it was announced 4000 s after the start.
		goes int
	}{
		{"no notice", minute, 0, 0, 60, 4000},
		{"a rule's notice", `rules: [{name: all, ttlAfterFinished: 7200s, notice: 3600s}]`, 0, time.Hour, 3600, 7600},
		{"that of the flag", `rules: [{name: all, ttlAfterFinished: 7200s}]`, time.Hour, time.Hour, 3600, 7600},
		{"a rule that wants none", `rules: [{name: all, ttlAfterFinished: 7200s, notice: 0s}]`, time.Hour, 0, 7200, 7200},
		{"a notice longer than the TTL", `rules: [{name: all, ttlAfterFinished: 60s, notice: 3600s}]`, 0, time.Minute, 0, 4060},
		{"an announcement in good time", `rules: [{name: all, ttlAfterFinished: 9000s, notice: 3600s}]`, 0, time.Hour, 5400, 9000},
	} {
		p := policy(t, row.policy)
		d := p.Decide(Case{Object: object(t, p, annotated("")), Notice: row.otherwise, Now: second(0)})
		if d.Notice != row.notice || d.Announce() != second(row.announce) || d.Goes(second(4000)) != second(row.goes) {
			t.Errorf("%s: notice %v, announced at %v, goes at %v", row.name, d.Notice, d.Announce().Time(), d.Goes(second(4000)).Time())
		}
	}
}

func TestAnAnnotationThatIsNotUnderstoodWarnsOfItsValue(t *testing.T) {
	p := policy(t, hour)
	for value, warns := range map[string]bool{`10ay`: true, `""`: true, `"-5m"`: true, `0s`: false, `999999999999h`: true, `1h`: false} {
		d := p.Decide(Case{Object: object(t, p, annotated("orphand.dev/ttl-after-finished: "+value)), Now: second(0)})
		if got := len(d.Warnings) == 1; got != warns || len(d.Warnings) > 1 {
			t.Errorf("%s: warnings %v", value, d.Warnings)
		}
	}
}

func TestAFinishInTheFutureIsSkewed(t *testing.T) {
	p := policy(t, `rules: [{name: all, ttlAfterFinished: 0s}]`)
	o := object(t, p, job(`{type: Complete, status: "True", lastTransitionTime: @120}`, ""))
	if d := p.Decide(Case{Object: o, Now: second(0)}); !d.Skewed || d.Acts(second(0)) {
		t.Errorf("at 0: %+v", d)
	}
	if d := p.Decide(Case{Object: o, Now: second(120)}); d.Skewed || !d.Acts(second(120)) {
		t.Errorf("at 120: %+v", d)
	}
}

func TestADryRunDecidesAndDoesNotAct(t *testing.T) {
	for _, text := range []string{`{dryRun: true, rules: [{name: all, ttlAfterFinished: 0s}]}`, `rules: [{name: all, ttlAfterFinished: 0s, dryRun: true}]`} {
		p := policy(t, text)
		d := p.Decide(Case{Object: object(t, p, annotated("")), Now: second(5)})
		if said(d) != "DELETE@0" || d.Acts(second(5)) {
			t.Errorf("%s: %+v", text, d)
		}
	}
}

// A policy that reads as the one before it did takes over its records.
func TestAnObjectThatAnotherPolicyReadIsDecidedOnAllTheSame(t *testing.T) {
	before, after := policy(t, hour), policy(t, `rules: [{name: all, match: {kinds: [Job]}, ttlAfterFinished: 5s, keepLast: {succeeded: 0}}]`)
	if before.Reading() != after.Reading() {
		t.Fatal("they do not read alike")
	}
	o := object(t, before, annotated(""))
	if got := said(after.Decide(Case{Object: o, Now: second(0)})); got != "DELETE@5" {
		t.Error(got)
	}
	if surplus := after.Surplus([]Case{{Object: o, Now: second(0)}}); len(surplus) != 1 {
		t.Error(surplus)
	}
}
