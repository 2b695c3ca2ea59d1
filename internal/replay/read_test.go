package replay_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/orphand/orphand/cmd/orphand/app"
	"github.com/orphand/orphand/internal/replay"
	"sigs.k8s.io/yaml"
)

const podOne = "{apiVersion: v1, kind: Pod, metadata: {name: p1, uid: P1}}"

func TestAMalformedFileNamesThePlaceAndWhatWasExpected(t *testing.T) {
	event := "at: 0s\ntype: ADDED\nobject: " + podOne + "\n---\n"
	for name, c := range map[string]struct{ file, want string }{
		"nothing":                          {"", "f:1: document 1: it is empty: expected documents"},
		"only a comment":                   {"# nothing\n---\n# here\n", "f:1: document 1: it is empty"},
		"no YAML":                          {"at: 0s\n  x: [\n", "f:2: document 1: not YAML"},
		"YAML that breaks later":           {event + "at: 1s\ndaemon: {\n", "document 2: not YAML"},
		"a list":                           {"- at: 0s\n", "f:1: document 1: the document is a list: expected a mapping"},
		"an unknown key":                   {event + "at: 1s\ntyp: ADDED\nobject: " + podOne, `f:6: document 2: unknown key "typ" in the document: expected one of at, type, watch, object, daemon, api, expect, expectNot`},
		"an unknown setting":               {"mode: observe\nflagz: {}\n---\n" + event, `f:2: document 1: unknown key "flagz" in the settings: expected one of start, mode, flags, policy, cascade`},
		"a key twice":                      {event + "at: 1s\nat: 2s\ndaemon: stop\n", `f:6: document 2: the key "at" is there twice`},
		"settings later":                   {event + "mode: enforce\n", "f:5: document 2: "},
		"settings with a time":             {"at: 0s\nmode: enforce\n", `unknown key "mode"`},
		"an unknown mode":                  {"mode: dry\n---\n" + event, `f:1: document 1: mode is "dry": expected one of observe, enforce`},
		"a start that is no time":          {"start: yesterday\n---\n" + event, `f:1: document 1: start is "yesterday": expected a time such as 2026-01-01T00:00:00Z`},
		"an unknown flag":                  {"flags:\n  settle-quiet: 5s\n  settle-quite: 5s\n---\n" + event, `f:3: document 1: orphand run has no flag "settle-quite"`},
		"a flag that cannot be read":       {"flags: {settle-quiet: soon}\n---\n" + event, `f:1: document 1: the flag settle-quiet is "soon": use a duration such as 40s or 5m`},
		"a flag that makes no sense":       {"flags: {settle-quiet: -5s}\n---\n" + event, "--settle-quiet -5s: use 0s or more"},
		"a flag that is a list":            {"flags: {settle-quiet: [5s]}\n---\n" + event, "the flag settle-quiet is a list: expected its value"},
		"cascade that is text":             {"cascade: maybe\n---\n" + event, `cascade is "maybe": expected true or false`},
		"no time":                          {event + "daemon: stop\n", "f:5: document 2: at is missing: expected an offset such as 10s, or a time"},
		"a time without a unit":            {event + "at: 10\ndaemon: stop\n", `f:5: document 2: at is "10": expected an offset such as 10s, or a time such as`},
		"a negative time":                  {event + "at: -10s\ndaemon: stop\n", `at is "-10s": expected an offset`},
		"a time before the start":          {event + "at: 2025-12-31T00:00:00Z\ndaemon: stop\n", "expected a time from the start on, which is 2026-01-01T00:00:00Z"},
		"time that runs backwards":         {event + "at: 10s\ndaemon: stop\n---\nat: 9s\ndaemon: start\n", "f:8: document 3: at is 9s, before the document above it (10s): expected time order"},
		"nothing that happens":             {event + "at: 1s\n", "f:5: document 2: the document has at: expected exactly one of object (with type), daemon, api, expect and expectNot"},
		"two things that happen":           {event + "at: 1s\ndaemon: stop\napi: {verb: get, code: 500}\n", "the document has daemon, api, at: expected exactly one of"},
		"an object without a type":         {event + "at: 1s\nobject: " + podOne, "f:5: document 2: type is missing: expected one of ADDED, MODIFIED, DELETED"},
		"a type without an object":         {event + "at: 1s\ntype: ADDED\n", "object is missing"},
		"an unknown type":                  {event + "at: 1s\ntype: CHANGED\nobject: " + podOne, `f:6: document 2: type is "CHANGED": expected one of ADDED, MODIFIED, DELETED`},
		"a watch that is no delay":         {event + "at: 1s\ntype: ADDED\nwatch: later\nobject: " + podOne, `f:7: document 2: watch is "later": expected a delay such as 30s, or never`},
		"a watch of the daemon":            {event + "at: 1s\nwatch: 1s\ndaemon: stop\n", "type and watch belong to an object"},
		"an unknown daemon verb":           {event + "at: 1s\ndaemon: kill\n", `daemon is "kill": expected one of stop, start, restart, relist, lease-lost, lead`},
		"an object that is text":           {"at: 0s\ntype: ADDED\nobject: pod\n", `f:3: document 1: object is "pod": expected a Kubernetes object`},
		"an object without a kind":         {"at: 0s\ntype: ADDED\nobject: {apiVersion: v1, metadata: {name: x}}\n", "object.kind is missing or no text"},
		"an object without metadata":       {"at: 0s\ntype: ADDED\nobject: {apiVersion: v1, kind: Pod}\n", "object.metadata is missing"},
		"an object without a name":         {"at: 0s\ntype: ADDED\nobject:\n  apiVersion: v1\n  kind: Pod\n  metadata: {uid: P1}\n", "f:6: document 1: object.metadata.name is missing"},
		"a list of objects":                {"at: 0s\ntype: ADDED\nobject: {apiVersion: v1, kind: PodList, metadata: {}, items: []}\n", "object is a PodList: expected one object"},
		"a field of the wrong type":        {"at: 0s\ntype: ADDED\nobject:\n  apiVersion: v1\n  kind: Node\n  metadata: {name: n}\n  status:\n    conditions:\n    - type: Ready\n      status: True\n", "f:10: document 1: object cannot be read: status.conditions.status is a bool: expected text"},
		"a time of an object that is none": {"at: 0s\ntype: ADDED\nobject:\n  apiVersion: v1\n  kind: Pod\n  metadata:\n    name: p\n    deletionTimestamp: soon\n", "f:8: document 1: object cannot be read"},
		"metadata of any kind":             {"at: 0s\ntype: ADDED\nobject:\n  apiVersion: batch/v1\n  kind: Job\n  metadata:\n    name: p\n    deletionTimestamp: soon\n", "f:8: document 1: object.metadata cannot be read"},
		"a TrainJob that cannot be read":   {"at: 0s\ntype: ADDED\nobject:\n  apiVersion: trainer.kubeflow.org/v1alpha1\n  kind: TrainJob\n  metadata: {name: t}\n  spec: {suspend: 7}\n", "document 1: reading TrainJob default/t"},
		"an api without a verb":            {event + "at: 1s\napi: {code: 500}\n", "f:6: document 2: verb is missing in api"},
		"an api with a plural":             {event + "at: 1s\napi: {verb: get, kind: Nodes, code: 500}\n", `f:6: document 2: "Nodes" is no kind: expected Node, as objects name it`},
		"an api with code and timeout":     {event + "at: 1s\napi: {verb: get, code: 500, timeout: true}\n", "api has timeout and code: expected one of them"},
		"an api without code and timeout":  {event + "at: 1s\napi: {verb: get}\n", "api has neither code nor timeout"},
		"an api with a strange code":       {event + "at: 1s\napi: {verb: get, code: 200}\n", `code is "200": expected an HTTP status from 400 to 599`},
		"an api with strange times":        {event + "at: 1s\napi: {verb: get, code: 500, times: -2}\n", `times is "-2"`},
		"an unknown claim":                 {event + "at: 1s\nexpect: {job: {a/b: Active}}\n", `f:6: document 2: unknown key "job" in expect`},
		"no claim":                         {event + "at: 1s\nexpect: {}\n", "expect claims nothing"},
		"expect that is nothing":           {event + "at: 1s\nexpect:\n", "expect is nothing: expected a mapping"},
		"a job without a namespace":        {event + "at: 1s\nexpect: {jobs: {tj: Active}}\n", `"tj" is no job: expected namespace/name or namespace/name/uid`},
		"an unknown state":                 {event + "at: 1s\nexpect:\n  jobs:\n    a/b: Done\n", `f:8: document 2: the state of a/b is "Done": expected one of Active, Finished`},
		"an unknown verdict":               {event + "at: 1s\nexpect: {pods: {p1: Dead}}\n", `the verdict on p1 is "Dead": expected Alive, Unproven or Gone, or one of Alive/Pending`},
		"a reason of another verdict":      {event + "at: 1s\nexpect: {pods: {p1: Gone/NodeUnreachable}}\n", `the verdict on p1 is "Gone/NodeUnreachable"`},
		"an unknown finding":               {event + "at: 1s\nexpect: {findings: [ForcedRemovals]}\n", `"ForcedRemovals" is no finding: expected one of ForegroundWedged`},
		"a count that is none":             {event + "at: 1s\nexpectNot: {findingsCount: {Overlap: some}}\n", `the count of Overlap is "some": expected a whole number`},
		"a delete without a kind":          {event + "at: 1s\nexpect: {deletes: [tj]}\n", `"tj" is no object: expected <namespace>/<kind>/<name>`},
		"a decision that is none":          {event + "at: 1s\nexpect: {retention: {a/job/b: LATER}}\n", `the decision is "LATER": expected KEEP(reason), SKIP(reason), DELETE@`},
		"a series that is none":            {event + "at: 1s\nexpect: {metrics: {'a{b=c}': 1}}\n", `"a{b=c}" is no series`},
		"a value that is none":             {event + "at: 1s\nexpect: {metrics: {a: much}}\n", `the value of a is "much": expected a number`},
		"broken JSON":                      {`{"at": "0s", "type": "ADDED",` + "\n" + `"object": }`, "f:2: document 1: not JSON"},
		"JSON that ends early":             {`{"at": "0s",` + "\n", "f:2: document 1: not JSON: it ends too early"},
		"a later line of JSON":             {`{"at": "0s", "daemon": "stop"}` + "\n" + `{"at": "1s", "demon": "start"}` + "\n", `f:2: document 2: unknown key "demon"`},
		"a watch event with more":          {`{"type": "ADDED", "object": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}}` + "\n" + `{"at": "1s", "expect": {"pods": {"p": "Gone"}}}`, "f:2: document 2: unknown key \"at\" in the watch event"},
		"a tag":                            {"at: !!binary aGVsbG8=\ndaemon: stop\n", "a value with the tag !!binary: expected plain YAML"},
		"an alias to itself":               {"at: &a [*a]\n", "nested more than 100 deep"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := replay.Read("f", []byte(c.file), app.ReplayProgram().Flags())
			var m *replay.Malformed
			if !errors.As(err, &m) {
				t.Fatalf("it was read: %v", err)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %s\nwant %s", err, c.want)
			}
			if m.Line < 1 || m.Document < 1 {
				t.Errorf("no place in %v", err)
			}
		})
	}
}

func TestUnknownFieldsOfAnObjectAreNamedAndNoError(t *testing.T) {
	h, err := replay.Read("f", []byte("at: 0s\ntype: ADDED\nobject:\n  apiVersion: v1\n  kind: Pod\n  metadata:\n    name: p\n    deletiontimestamp: 2026-01-01T00:00:00Z\n"), app.ReplayProgram().Flags())
	if err != nil {
		t.Fatal(err)
	}
	if want := `f:8: document 1: object: unknown field "metadata.deletiontimestamp"`; len(h.Warnings) != 1 || h.Warnings[0] != want {
		t.Errorf("got %q, want %q", h.Warnings, want)
	}
}

func TestYAMLAndJSONAreReadAlike(t *testing.T) {
	yaml := "start: 2026-02-01T00:00:00Z\n---\nat: 0s\ntype: ADDED\nobject: " + podOne + "\n---\nat: 2026-02-01T00:01:00Z\ndaemon: stop\n"
	json := `{"start": "2026-02-01T00:00:00Z"}
{"at": "0s", "type": "ADDED", "object": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p1", "uid": "P1"}}}
{"at": "2026-02-01T00:01:00Z", "daemon": "stop"}
`
	for name, file := range map[string]string{"YAML": yaml, "JSON": json, "JSON in YAML documents": strings.ReplaceAll(json, "\n{", "\n---\n{"), "with a byte order mark": "\ufeff" + json} {
		h, err := replay.Read("f", []byte(file), app.ReplayProgram().Flags())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(h.Steps) != 2 || h.Steps[0].Event == nil || h.Steps[0].Event.Object.GetUID() != "P1" || h.Steps[1].At != time.Minute || h.Steps[1].Daemon != "stop" || h.Start.Month() != 2 {
			t.Errorf("%s: %+v", name, h)
		}
	}
}

// What `kubectl get pods -w --output-watch-events -o json` prints: indented objects, one after another.
const watched = `{
    "type": "ADDED",
    "object": {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "creationTimestamp": "2026-03-01T10:00:00Z",
            "labels": {"jobset.sigs.k8s.io/jobset-name": "tj", "jobset.sigs.k8s.io/jobset-uid": "J1"},
            "name": "p1",
            "namespace": "team-a",
            "resourceVersion": "4711",
            "uid": "P1"
        },
        "spec": {"aFieldOfTheFuture": true, "containers": [{"name": "c"}]},
        "status": {"phase": "Pending"}
    }
}
{
    "type": "MODIFIED",
    "object": {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "creationTimestamp": "2026-03-01T10:00:00Z",
            "labels": {"jobset.sigs.k8s.io/jobset-name": "tj", "jobset.sigs.k8s.io/jobset-uid": "J1"},
            "managedFields": [{"manager": "kubelet", "operation": "Update", "time": "2026-03-01T10:00:07Z", "fieldsV1": {"f:status": {"f:phase": {}}}, "subresource": "status"}],
            "name": "p1",
            "namespace": "team-a",
            "uid": "P1"
        },
        "spec": {"containers": [{"name": "c"}]},
        "status": {"phase": "Pending"}
    }
}
{
    "type": "DELETED",
    "object": {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "creationTimestamp": "2026-03-01T10:00:00Z",
            "deletionTimestamp": "2026-03-01T10:00:05Z",
            "deletionGracePeriodSeconds": 0,
            "labels": {"jobset.sigs.k8s.io/jobset-name": "tj", "jobset.sigs.k8s.io/jobset-uid": "J1"},
            "name": "p1",
            "namespace": "team-a",
            "uid": "P1"
        },
        "spec": {"containers": [{"name": "c"}]},
        "status": {"phase": "Pending"}
    }
}
`

func TestWhatKubectlWatchedIsPlacedByTheNewestTimeAndNeverBackwards(t *testing.T) {
	var lines bytes.Buffer
	for _, indented := range strings.SplitAfter(watched, "\n}\n") {
		if indented != "" {
			if err := json.Compact(&lines, []byte(indented)); err != nil {
				t.Fatal(err)
			}
			lines.WriteByte('\n')
		}
	}
	var documents []string
	for line := range strings.Lines(lines.String()) {
		document, err := yaml.JSONToYAML([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, string(document))
	}
	for name, file := range map[string]string{"indented": watched, "one per line": lines.String(), "YAML": strings.Join(documents, "---\n")} {
		t.Run(name, func(t *testing.T) {
			h, err := replay.Read("f", []byte(file), app.ReplayProgram().Flags())
			if err != nil {
				t.Fatal(err)
			}
			if want := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC); !h.Start.Equal(want) {
				t.Errorf("it starts at %s", h.Start)
			}
			var at []string
			for _, s := range h.Steps {
				at = append(at, replay.Offset(s.At))
			}
			if got := strings.Join(at, " "); got != "0s 7s 7s" {
				t.Errorf("the events are at %s", got)
			}
			if len(h.Warnings) != 0 {
				t.Errorf("a newer cluster's fields are worth a word: %q", h.Warnings)
			}
			var last string
			for _, l := range play(t, app.ReplayProgram(), h).Lines {
				if l.What == "pod/p1" {
					last = l.To
				}
			}
			if last != "Gone/NeverStarted" {
				t.Errorf("the pod's last verdict is %q", last)
			}
		})
	}
}

func TestOffsetsAreWrittenShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", time.Second: "1s", 90 * time.Second: "1m30s", time.Minute: "1m", time.Hour: "1h", time.Hour + time.Second: "1h0m1s",
		time.Hour + time.Minute: "1h1m", 8760 * time.Hour: "8760h", 1350 * time.Millisecond: "1.35s", 10 * time.Minute: "10m", 20 * time.Hour: "20h",
	} {
		if got := replay.Offset(d); got != want {
			t.Errorf("%v is written %q, want %q", d, got, want)
		}
		if back, err := time.ParseDuration(want); err != nil || back != d {
			t.Errorf("%q is read as %v, %v", want, back, err)
		}
	}
}
