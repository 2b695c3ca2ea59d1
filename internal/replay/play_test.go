package replay_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/orphand/orphand/cmd/orphand/app"
	"github.com/orphand/orphand/internal/replay"
)

// The objects of a small job, for histories that are about the format.
const (
	trainJob = `type: ADDED
object: {apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, metadata: {namespace: team-a, name: tj, uid: T1}}
`
	jobSet = `type: ADDED
object: {apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {namespace: team-a, name: tj, uid: J1, ownerReferences: [{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, name: tj, uid: T1, controller: true}]}}
`
	node = `type: ADDED
object: {apiVersion: v1, kind: Node, metadata: {name: n1, uid: N1}, status: {nodeInfo: {systemUUID: s1, machineID: m1, bootID: b1}, conditions: [{type: Ready, status: "True"}]}}
`
	pod = `type: ADDED
object: {apiVersion: v1, kind: Pod, metadata: {namespace: team-a, name: p1, uid: P1, labels: {jobset.sigs.k8s.io/jobset-name: tj, jobset.sigs.k8s.io/jobset-uid: J1}}, spec: {nodeName: n1, containers: [{name: c}]}, status: {phase: Running, containerStatuses: [{name: c, containerID: x://1, state: {running: {}}}]}}
`
	podEnds = `type: MODIFIED
object: {apiVersion: v1, kind: Pod, metadata: {namespace: team-a, name: p1, uid: P1, deletionTimestamp: "2026-01-01T00:00:31Z", labels: {jobset.sigs.k8s.io/jobset-name: tj, jobset.sigs.k8s.io/jobset-uid: J1}}, spec: {nodeName: n1, containers: [{name: c}]}, status: {phase: Failed, containerStatuses: [{name: c, containerID: x://1, state: {terminated: {exitCode: 0}}}]}}
`
	job = "at: 0s\n" + trainJob + "---\nat: 0s\n" + jobSet + "---\nat: 0s\n" + node + "---\nat: 0s\n" + pod

	trainJobGone = "type: DELETED\nobject: {apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, metadata: {namespace: team-a, name: tj, uid: T1}}\n"
	jobSetGone   = "type: DELETED\nobject: {apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {namespace: team-a, name: tj, uid: J1}}\n"
	podGone      = "type: DELETED\nobject: {apiVersion: v1, kind: Pod, metadata: {namespace: team-a, name: p1, uid: P1}}\n"
)

func history(t *testing.T, documents ...string) *replay.History {
	t.Helper()
	h, err := replay.Read("f", []byte(strings.Join(documents, "---\n")), app.ReplayProgram().Flags())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// failures plays a history and lists what failed.
func failures(t *testing.T, documents ...string) []string {
	t.Helper()
	var list []string
	for _, f := range play(t, app.ReplayProgram(), history(t, documents...)).Failures {
		list = append(list, f.String())
	}
	return list
}

func TestWhatTheFormatPromises(t *testing.T) {
	for name, documents := range map[string][]string{
		"documents of the first instant are the initial list": {job,
			"at: 0s\nexpect: {jobs: {team-a/tj: Active}, pods: {p1: Alive/Running}}\n"},
		"the first instant need not be the start": {"at: 1h\n" + node, "at: 1h\n" + pod,
			"at: 1h\nexpect: {jobs: {team-a/tj: Settling}}\n"},
		"the daemon starts later when a start comes first": {job, "at: 5s\nexpectNot: {jobs: {team-a/tj: Active}, pods: {p1: Alive}}\n",
			"at: 10s\ndaemon: start\n", "at: 10s\nexpect: {jobs: {team-a/tj: Active}, pods: {p1: Alive/Running}}\n"},
		"the daemon can stand by from the first instant": {"mode: enforce\n", job, "at: 0s\ndaemon: lease-lost\n", "at: 1s\n" + trainJobGone,
			"at: 200s\nexpect: {deletes: [], jobs: {team-a/tj: Settling}}\n", "at: 201s\ndaemon: lead\n", "at: 202s\nexpect: {deletesWithin: [team-a/jobset/tj@J1, team-a/pod/p1@P1]}\n", "at: 202s\nexpectNot: {findings: [Overlap]}\n"},
		"the daemon can be stopped at the first instant": {job, "at: 0s\ndaemon: stop\n", "at: 1s\nexpectNot: {jobs: {team-a/tj: Active}}\n", "at: 2s\ndaemon: start\n", "at: 2s\nexpect: {jobs: {team-a/tj: Active}}\n"},
		"a daemon that is stopped later runs before":     {job, "at: 5s\nexpect: {jobs: {team-a/tj: Active}}\n", "at: 6s\ndaemon: stop\n", "at: 7s\ndaemon: start\n", "at: 7s\nexpect: {jobs: {team-a/tj: Active}}\n"},
		"a stopped daemon says nothing, a restarted one everything anew": {job, "at: 5s\ndaemon: stop\n", "at: 6s\nexpectNot: {pods: {p1: Alive}}\n",
			"at: 7s\ndaemon: start\n", "at: 7s\nexpect: {pods: {p1: Alive/Running}}\n"},
		"a check comes after everything of its moment, wherever it stands": {job, "at: 5s\nexpect: {jobs: {team-a/tj: Settling}}\n", "at: 5s\n" + trainJobGone},
		"what is watched late is held at once":                             {job, "at: 5s\nwatch: 10s\n" + trainJobGone, "at: 14s\nexpect: {jobs: {team-a/tj: Active}}\n", "at: 15s\nexpect: {jobs: {team-a/tj: Settling}}\n"},
		"a list lags as the watch does":                                    {job, "at: 5s\nwatch: 10s\n" + trainJobGone, "at: 7s\ndaemon: restart\n", "at: 14s\nexpect: {jobs: {team-a/tj: Active}}\n", "at: 15s\nexpect: {jobs: {team-a/tj: Settling}}\n"},
		"what is never watched is lost": {job, "at: 5s\nwatch: never\n" + trainJobGone,
			"at: 100s\nexpect: {jobs: {team-a/tj: Active}}\n"},
		"what is never watched is found by a relist": {job, "at: 5s\nwatch: never\n" + trainJobGone, "at: 100s\ndaemon: relist\n", "at: 100s\nexpect: {jobs: {team-a/tj: Settling}}\n"},
		"what is never watched is not there at a start": {job, "at: 5s\nwatch: never\n" + trainJobGone, "at: 6s\nwatch: never\n" + jobSetGone, "at: 7s\nwatch: never\n" + podEnds, "at: 8s\nwatch: never\n" + podGone,
			"at: 100s\ndaemon: restart\n", "at: 100s\nexpectNot: {jobs: {team-a/tj: Active}, pods: {p1: Alive}}\n"},
		"one object's documents never overtake one another": {job, "at: 5s\nwatch: 20s\n" + trainJobGone,
			"at: 6s\n" + strings.ReplaceAll(trainJob, "T1", "T2"), "at: 24s\nexpect: {jobs: {team-a/tj: Active}}\n", "at: 25s\nexpect: {jobs: {team-a/tj/T1: Settling, team-a/tj/T2: Active}}\n"},
		"another UID is a replacement": {job, "at: 5s\n" + strings.ReplaceAll(strings.Replace(trainJob, "ADDED", "MODIFIED", 1), "T1", "T2"),
			"at: 5s\nexpect: {jobs: {team-a/tj/T1: Settling, team-a/tj/T2: Active}}\n"},
		"a bare deletion ends what was held": {job, "at: 1s\n" + trainJobGone, "at: 1s\n" + jobSetGone, "at: 5s\n" + podEnds, "at: 6s\n" + podGone,
			"at: 20s\nexpect: {jobs: {team-a/tj: Cleared}, pods: {p1: Gone/KubeletConfirmed}, findings: []}\n"},
		"requests fail as often as it says": {job, "at: 1s\napi: {verb: get, kind: TrainJob, code: 500, times: 2}\n", "at: 2s\n" + trainJobGone,
			"at: 2.1s\nexpect: {jobs: {team-a/tj: Active}}\n", "at: 3s\nexpect: {jobs: {team-a/tj: Settling}}\n"},
		"requests fail until it is lifted": {job, "at: 1s\napi: {verb: get, kind: TrainJob, timeout: true, times: -1}\n", "at: 2s\n" + trainJobGone,
			"at: 100s\nexpect: {jobs: {team-a/tj: Active}}\n", "at: 100s\napi: {verb: get, kind: TrainJob, timeout: true, times: 0}\n", "at: 200s\nexpect: {jobs: {team-a/tj: Settling}}\n"},
		"requests for another object do not fail": {job, "at: 1s\napi: {verb: any, kind: TrainJob, namespace: team-a, name: other, code: 500, times: -1}\n", "at: 2s\n" + trainJobGone,
			"at: 3s\nexpect: {jobs: {team-a/tj: Settling}}\n"},
		"a cascade collects what is owned": {"cascade: true\n", job, "at: 1s\n" + trainJobGone,
			"at: 70s\nexpect: {jobs: {team-a/tj: Settling}}\n", "at: 80s\nexpectNot: {jobs: {team-a/tj: Active}}\n"},
		"flags are the daemon's": {"flags: {settle-quiet: 60s}\n", job, "at: 1s\n" + trainJobGone, "at: 1s\n" + jobSetGone, "at: 5s\n" + podEnds,
			"at: 60s\nexpect: {jobs: {team-a/tj: Settling}}\n", "at: 61s\nexpect: {jobs: {team-a/tj: Settled}}\n"},
		"metrics are the daemon's":                                 {job, "at: 1s\nexpect: {metrics: {'orphand_jobs{state=\"Active\"}': 1, 'orphand_pods{reason=\"Running\", verdict=\"Alive\"}': 1}}\n"},
		"pods are named by name, by namespace and name, or by UID": {job, "at: 1s\nexpect: {pods: {p1: Alive, team-a/p1: Alive/Running, P1: Alive}}\n"},
		"what was forgotten long ago was said all the same": {job, "at: 1s\n" + trainJobGone, "at: 1s\n" + jobSetGone, "at: 5s\n" + podEnds, "at: 6s\n" + podGone,
			"at: 100h\nexpect: {jobs: {team-a/tj: Cleared}, pods: {p1: Gone/KubeletConfirmed}}\n"},
		"an object without a UID has one": {job, "at: 1s\ntype: ADDED\nobject: {apiVersion: v1, kind: ConfigMap, metadata: {namespace: team-a, name: x}}\n", "at: 2s\nexpect: {jobs: {team-a/tj: Active}}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if list := failures(t, documents...); len(list) > 0 {
				t.Error(strings.Join(list, "\n"))
			}
		})
	}
}

func TestAnExpectationThatDoesNotHoldSaysWhatIsThere(t *testing.T) {
	for claim, want := range map[string]string{
		"expect: {jobs: {team-a/tj: Settled}}":      "f:18: document 5: at 1s: expect.jobs team-a/tj: got Active, want Settled",
		"expect: {jobs: {team-a/other: Active}}":    "expect.jobs team-a/other: got nothing, want Active",
		"expect: {jobs: {team-a/tj/T9: Active}}":    "expect.jobs team-a/tj/T9: got nothing, want Active",
		"expect: {pods: {p1: Gone}}":                "expect.pods p1: got Alive/Running, want Gone",
		"expect: {pods: {P9: Alive}}":               "expect.pods P9: got nothing, want Alive",
		"expect: {findings: [Overlap]}":             "expect.findings\n  - Overlap (wanted, not there)",
		"expect: {findingsInclude: [Overlap]}":      "expect.findingsInclude\n  - Overlap (wanted, not there)",
		"expect: {findingsCount: {Overlap: 1}}":     "expect.findingsCount Overlap: got 0, want 1",
		"expect: {deletes: [team-a/pod/p1]}":        "expect.deletes\n  - team-a/pod/p1 (wanted, not there)",
		"expect: {deletesAnyOrder: [a/pod/p1@P1]}":  "expect.deletesAnyOrder\n  - a/pod/p1@P1 (wanted, not there)",
		"expect: {metrics: {nonsense: 1}}":          "expect.metrics nonsense: got no such series, want 1",
		"expect: {metrics: {orphand_mode: 1}}":      "got no such series, want 1",
		"expectNot: {jobs: {team-a/tj: Active}}":    "expectNot.jobs team-a/tj: got Active, want anything else",
		"expectNot: {pods: {p1: Alive}}":            "expectNot.pods p1: got Alive/Running, want anything else",
		"expectNot: {findingsCount: {Overlap: 0}}":  "expectNot.findingsCount Overlap: got 0, want anything else",
		`expectNot: {metrics: {orphand_leader: 1}}`: "expectNot.metrics orphand_leader: got 1, want anything else",
	} {
		t.Run(claim, func(t *testing.T) {
			list := failures(t, job, "at: 1s\n"+claim+"\n")
			if len(list) != 1 || !strings.Contains(list[0], want) {
				t.Errorf("got  %q\nwant %q", list, want)
			}
		})
	}
}

func TestWhatIsNotKnownDoesNotHold(t *testing.T) {
	for _, claim := range []string{
		"expectNot: {jobs: {team-a/other: Active}}", "expectNot: {pods: {p9: Alive}}", "expectNot: {findings: [Overlap]}", "expectNot: {findingsInclude: [Overlap]}",
		"expectNot: {findingsCount: {Overlap: 1}}", "expectNot: {deletes: [team-a/pod/p1]}", "expectNot: {deletesWithin: [team-a/pod/p1]}", "expectNot: {deletesAnyOrder: [team-a/pod/p1]}",
		"expectNot: {metrics: {nonsense: 1}}", "expectNot: {retention: {team-a/trainjob/tj: DELETE}}", "expect: {deletesWithin: [team-a/pod/p1], deletes: [], findings: []}",
	} {
		t.Run(claim, func(t *testing.T) {
			if list := failures(t, job, "at: 1s\n"+claim+"\n"); len(list) > 0 {
				t.Error(list)
			}
		})
	}
}

func TestANameThatSeveralHaveNeedsTheUID(t *testing.T) {
	second := []string{job, "at: 1s\n" + strings.ReplaceAll(strings.Replace(trainJob, "ADDED", "MODIFIED", 1), "T1", "T2"),
		"at: 1s\n" + strings.ReplaceAll(strings.Replace(pod, "ADDED", "MODIFIED", 1), "P1", "P2")}
	for claim, want := range map[string]string{
		"expect: {jobs: {team-a/tj: Active}}":     "got 2 jobs of that name (T1, T2; add the UID), want Active",
		"expectNot: {jobs: {team-a/tj: Cleared}}": "got 2 jobs of that name (T1, T2; add the UID)",
		"expect: {pods: {p1: Alive}}":             "got 2 pods of that name (P1, P2; give the UID), want Alive",
		"expectNot: {pods: {p1: Gone}}":           "got 2 pods of that name (P1, P2; give the UID)",
	} {
		list := failures(t, append(slices.Clone(second), "at: 2s\n"+claim+"\n")...)
		if len(list) != 1 || !strings.Contains(list[0], want) {
			t.Errorf("%s\ngot  %q\nwant %q", claim, list, want)
		}
	}
	if list := failures(t, append(slices.Clone(second), "at: 2s\nexpect: {jobs: {team-a/tj/T2: Active}, pods: {P2: Alive/Running, P1: Unproven/RemovedUnseen}}\n")...); len(list) > 0 {
		t.Error(list)
	}
}

func TestFindingsAreCountedOverRestarts(t *testing.T) {
	// A grace of 0 is found out at once, by every process that sees it.
	h := history(t, strings.Replace(job, "containers: [{name: c}]", "terminationGracePeriodSeconds: 0, containers: [{name: c}]", 1),
		"at: 1s\ndaemon: restart\n", "at: 2s\nexpect: {findings: [UnprovableGrace], findingsCount: {UnprovableGrace: 2}}\n")
	for _, f := range play(t, app.ReplayProgram(), h).Failures {
		t.Error(f)
	}
}

func TestAHistoryEndsWithItsLastDocument(t *testing.T) {
	r := play(t, app.ReplayProgram(), history(t, job, "at: 5s\n"+podEnds))
	if last := r.Lines[len(r.Lines)-1]; last.At.Seconds() != 5 {
		t.Errorf("the last line is at %v", last.At)
	}
}

// A year of a busy namespace: 50,000 changes, and timers for as long.
func BenchmarkAYear(b *testing.B) {
	var documents strings.Builder
	documents.WriteString("at: 0s\n" + node)
	const jobs = 5000
	for i := range jobs {
		at := i * 365 * 24 * 3600 / jobs
		of := func(s string) string {
			return strings.NewReplacer("T1", fmt.Sprintf("T%d", i), "J1", fmt.Sprintf("J%d", i), "P1", fmt.Sprintf("P%d", i), "p1", fmt.Sprintf("p%d", i), "tj", fmt.Sprintf("tj-%d", i)).Replace(s)
		}
		for j, s := range []string{trainJob, jobSet, pod, pod, pod, trainJobGone, jobSetGone, podEnds, podGone, podGone} {
			fmt.Fprintf(&documents, "---\nat: %ds\n%s", at+j, of(s))
		}
	}
	data := []byte(documents.String())
	b.ResetTimer()
	for range b.N {
		program := app.ReplayProgram()
		h, err := replay.Read("f", data, program.Flags())
		if err != nil {
			b.Fatal(err)
		}
		if r := play(b, program, h); len(r.Lines) < jobs {
			b.Fatalf("%d lines", len(r.Lines))
		}
	}
}
