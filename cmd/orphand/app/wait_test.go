package app

import (
	"bytes"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/utils/clock"

	"github.com/orphand/orphand/api/v1alpha1"
	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/informers"
)

func recordOf(uid, state string, alive, unproven int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "orphand.dev/v1alpha1", "kind": "Orphan",
		"metadata": map[string]any{"namespace": "team-a", "name": "llm-" + uid},
		"spec":     map[string]any{"trainJob": map[string]any{"name": "llm", "uid": uid}},
		"status": map[string]any{"state": state, "waitingFor": "gpu-1",
			"pods": map[string]any{"total": alive + unproven + 1, "alive": alive, "unproven": unproven, "gone": int64(1)}},
	}}
}

func trainJobOf(uid string, change func(map[string]any)) *unstructured.Unstructured {
	o := map[string]any{"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
		"metadata": map[string]any{"namespace": "team-a", "name": "llm", "uid": uid}, "spec": map[string]any{}}
	if change != nil {
		change(o)
	}
	return &unstructured.Unstructured{Object: o}
}

func TestWaitLooksOnceAndSaysHowTheJobStands(t *testing.T) {
	cases := map[string]struct {
		objects []runtime.Object
		uid     types.UID
		cleared bool
		code    int
	}{
		"settled":                            {objects: []runtime.Object{recordOf("u1", "Settled", 0, 0)}},
		"settled is not cleared":             {objects: []runtime.Object{recordOf("u1", "Settled", 0, 0)}, cleared: true, code: ExitAlive},
		"cleared":                            {objects: []runtime.Object{recordOf("u1", "Cleared", 0, 0)}, cleared: true},
		"a pod is unproven":                  {objects: []runtime.Object{recordOf("u1", "Unproven", 1, 1)}, code: ExitUnproven},
		"a pod is alive":                     {objects: []runtime.Object{recordOf("u1", "Settling", 1, 0)}, code: ExitAlive},
		"another incarnation is not settled": {objects: []runtime.Object{recordOf("u1", "Cleared", 0, 0), recordOf("u2", "Unproven", 0, 1)}, code: ExitUnproven},
		"another incarnation does not matter by UID": {objects: []runtime.Object{recordOf("u1", "Cleared", 0, 0), recordOf("u2", "Unproven", 0, 1)}, uid: "u1"},
		"a leftover of nobody knows which incarnation matters always": {objects: []runtime.Object{recordOf("u1", "Cleared", 0, 0),
			recordOf("jobset:j1", "Unproven", 0, 1)}, uid: "u1", code: ExitUnproven},
		"the TrainJob is there": {objects: []runtime.Object{trainJobOf("u1", nil)}, code: ExitAlive},
		"the next TrainJob of the name is there, and the one that is meant is settled": {objects: []runtime.Object{
			trainJobOf("u2", nil), recordOf("u1", "Settled", 0, 0)}, uid: "u1"},
		"an earlier record says nothing of a TrainJob that is there": {objects: []runtime.Object{trainJobOf("u2", nil), recordOf("u1", "Settled", 0, 0)}, code: ExitAlive},
		"it runs in another cluster": {objects: []runtime.Object{trainJobOf("u1", func(o map[string]any) {
			o["spec"] = map[string]any{"managedBy": "kueue.x-k8s.io/multikueue"}
		})}, code: ExitElsewhere},
		"its record says that it ran in another cluster": {objects: []runtime.Object{recordOf("u1", "Elsewhere", 0, 0)}, code: ExitElsewhere},
		"nothing is known of it":                         {code: ExitFailure},
		"nothing is known of this incarnation":           {objects: []runtime.Object{recordOf("u1", "Settled", 0, 0)}, uid: "u9", code: ExitFailure},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
				v1alpha1.Orphans: "OrphanList", facts.TrainJobs: "TrainJobList"}, c.objects...)
			var out, errs bytes.Buffer
			w := &waiter{session: &session{namespace: "team-a", clients: informers.Clients{Dynamic: client}}, streams: Streams{Out: &out, Err: &errs},
				clock: clock.RealClock{}, namespace: "team-a", name: "llm", uid: c.uid, cleared: c.cleared}
			err := w.wait(t.Context(), 0)
			code := ExitOK
			var f *failure
			if errors.As(err, &f) {
				code = f.Code
			}
			if code != c.code {
				t.Errorf("exit code %d, want %d: %v, %s%s", code, c.code, err, out.String(), errs.String())
			}
		})
	}
}
