package install_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"

	"github.com/orphand/orphand/e2e/cluster"
)

// tried asks the API server to make an object, without making it, and returns what
// it would be.
func tried(t *testing.T, text string) (*unstructured.Unstructured, error) {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if u.GetNamespace() == "" {
		u.SetNamespace("default")
	}
	return shared.Dynamic().Resource(resourceOf(u)).Namespace(u.GetNamespace()).
		Create(t.Context(), u, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

// until repeats what depends on a policy, which is in force only some time after it
// was made or changed.
func until(t *testing.T, what string, holds func() (bool, string)) {
	t.Helper()
	var got string
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, 40*time.Second, true, func(context.Context) (done bool, _ error) {
		done, got = holds()
		return done, nil
	})
	if err != nil {
		t.Fatalf("%s: %s", what, got)
	}
}

const podOfJob = `template: {spec: {restartPolicy: Never, containers: [{name: c, image: none}]}}`

func batchJob(metadata, spec string) string {
	return fmt.Sprintf("{apiVersion: batch/v1, kind: Job, metadata: {name: bounded%s}, spec: {%s%s}}", metadata, podOfJob, spec)
}

func TestTheTTLBoundsGiveADefaultAndRefuseWhatIsOutOfBounds(t *testing.T) {
	installGuests(t)
	withComponents(t, "observe", "ttl-bounds")
	number := func(u *unstructured.Unstructured, path string) any {
		v, _, _ := unstructured.NestedFieldNoCopy(u.Object, strings.Split(path, ".")...)
		return v
	}
	until(t, "no default", func() (bool, string) {
		u, err := tried(t, batchJob("", ""))
		return err == nil && number(u, "spec.ttlSecondsAfterFinished") == int64(604800), fmt.Sprint(u, err)
	})
	until(t, "no bounds", func() (bool, string) {
		_, err := tried(t, batchJob("", ", ttlSecondsAfterFinished: 5"))
		return err != nil, "accepted"
	})

	object := func(apiVersion, kind, spec string) string {
		return fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {name: bounded}, spec: {%s}}", apiVersion, kind, spec)
	}
	jobSet := func(spec string) string {
		return object("jobset.x-k8s.io/v1alpha2", "JobSet", "replicatedJobs: [{name: a, template: {spec: {"+podOfJob+"}}}]"+spec)
	}
	workflow := func(spec string) string { return object("argoproj.io/v1alpha1", "Workflow", spec) }
	const owner = `, ownerReferences: [{apiVersion: batch/v1, kind: CronJob, name: nightly, uid: 11111111-2222-3333-4444-555555555555, controller: true}]`
	const week = int64(604800)
	for _, row := range []struct {
		name, object string
		// at and value are a field of what is made; want is what a refusal says, empty for none.
		at    string
		value any
		want  string
	}{
		{"a Job without a TTL gets the default", batchJob("", ""), "spec.ttlSecondsAfterFinished", week, ""},
		{"a Job with a TTL within the bounds keeps it", batchJob("", ", ttlSecondsAfterFinished: 600"), "spec.ttlSecondsAfterFinished", int64(600), ""},
		{"a Job with too short a TTL is refused", batchJob("", ", ttlSecondsAfterFinished: 0"), "", nil, "spec.ttlSecondsAfterFinished is too short: set a TTL between 10m and 720h, in seconds (ConfigMap orphand/orphand-ttl-bounds)"},
		{"a Job with too long a TTL is refused", batchJob("", ", ttlSecondsAfterFinished: 2592001"), "", nil, "spec.ttlSecondsAfterFinished is too long: set a TTL between 10m and 720h"},
		{"a Job that a CronJob controls is the CronJob's", batchJob(owner, ""), "spec.ttlSecondsAfterFinished", nil, ""},
		{"a Job that a CronJob controls may have any TTL", batchJob(owner, ", ttlSecondsAfterFinished: 1"), "spec.ttlSecondsAfterFinished", int64(1), ""},
		{"a Job that is to be kept gets no TTL", batchJob(`, annotations: {orphand.dev/keep: "true"}`, ""), "spec.ttlSecondsAfterFinished", nil, ""},
		{"a Job of kube-system is left alone", batchJob(", namespace: kube-system", ""), "spec.ttlSecondsAfterFinished", nil, ""},
		{"a JobSet without a TTL gets the default", jobSet(""), "spec.ttlSecondsAfterFinished", week, ""},
		{"a JobSet with too short a TTL is refused", jobSet(", ttlSecondsAfterFinished: 1"), "", nil, "too short"},
		{"a PyTorchJob without a runPolicy gets the default", object("kubeflow.org/v1", "PyTorchJob", ""), "spec.runPolicy.ttlSecondsAfterFinished", week, ""},
		{"a TFJob keeps the rest of its runPolicy", object("kubeflow.org/v1", "TFJob", "runPolicy: {cleanPodPolicy: None}"), "spec.runPolicy", map[string]any{"cleanPodPolicy": "None", "ttlSecondsAfterFinished": week}, ""},
		{"an MPIJob in another version gets the default", object("kubeflow.org/v1", "MPIJob", ""), "spec.runPolicy.ttlSecondsAfterFinished", week, ""},
		{"a JAXJob with too long a TTL is refused", object("kubeflow.org/v1", "JAXJob", "runPolicy: {ttlSecondsAfterFinished: 99999999}"), "", nil, "spec.runPolicy.ttlSecondsAfterFinished is too long"},
		{"a Workflow without a strategy gets the default", workflow(""), "spec.ttlStrategy.secondsAfterCompletion", week, ""},
		{"a Workflow with a TTL for success gets the default for the rest", workflow("ttlStrategy: {secondsAfterSuccess: 3600}"), "spec.ttlStrategy", map[string]any{"secondsAfterSuccess": int64(3600), "secondsAfterCompletion": week}, ""},
		{"a Workflow with a TTL for either outcome has them all", workflow("ttlStrategy: {secondsAfterSuccess: 3600, secondsAfterFailure: 7200}"), "spec.ttlStrategy.secondsAfterCompletion", nil, ""},
		{"a Workflow with too short a TTL for failure is refused", workflow("ttlStrategy: {secondsAfterCompletion: 3600, secondsAfterFailure: 1}"), "", nil, "spec.ttlStrategy.secondsAfterFailure is too short"},
		{"a Volcano Job without a TTL gets the default", object("batch.volcano.sh/v1alpha1", "Job", ""), "spec.ttlSecondsAfterFinished", week, ""},
		{"a SparkApplication without a TTL gets the default", object("sparkoperator.k8s.io/v1beta2", "SparkApplication", ""), "spec.timeToLiveSeconds", week, ""},
		{"a SparkApplication with too short a TTL is refused", object("sparkoperator.k8s.io/v1beta2", "SparkApplication", "timeToLiveSeconds: 1"), "", nil, "spec.timeToLiveSeconds is too short"},
		{"a RayJob, whose TTL removes only its cluster, is left alone", object("ray.io/v1", "RayJob", ""), "spec.ttlSecondsAfterFinished", nil, ""},
	} {
		var u *unstructured.Unstructured
		var err error
		// The API server takes some seconds to learn the schema of a new kind, and until then nothing of it can be changed.
		until(t, row.name, func() (bool, string) {
			u, err = tried(t, row.object)
			return !apierrors.IsServiceUnavailable(err), fmt.Sprint(err)
		})
		switch {
		case row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)):
			t.Errorf("%s: %v", row.name, err)
		case row.want == "" && err != nil:
			t.Errorf("%s: %v", row.name, err)
		case row.want == "" && fmt.Sprint(number(u, row.at)) != fmt.Sprint(row.value):
			t.Errorf("%s: %s is %v", row.name, row.at, number(u, row.at))
		}
	}

	// An update that leaves the TTL alone is never refused: controllers must go on with jobs that are older than the bounds.
	kubectl(t, "label", "namespace", "default", "orphand.dev/ttl-bounds=off")
	t.Cleanup(func() {
		_, _ = command(context.Background(), shared.Kubectl(), "label", "namespace", "default", "orphand.dev/ttl-bounds-")
	})
	until(t, "a namespace that goes its own way", func() (bool, string) {
		_, err := tried(t, batchJob("", ", ttlSecondsAfterFinished: 5"))
		return err == nil, fmt.Sprint(err)
	})
	old := put(t, object("kubeflow.org/v1", "PyTorchJob", "runPolicy: {ttlSecondsAfterFinished: 5}"), 0)
	kubectl(t, "label", "namespace", "default", "orphand.dev/ttl-bounds-")
	until(t, "the namespace's bounds again", func() (bool, string) {
		_, err := tried(t, batchJob("", ", ttlSecondsAfterFinished: 5"))
		return err != nil, "accepted"
	})
	kubectl(t, "patch", "pytorchjob", old.GetName(), "--type=merge", "-p", `{"spec":{"runPolicy":{"suspend":true}}}`)
	if output, err := as(t, shared.AdminKubeconfig(), "", "patch", "pytorchjob", old.GetName(), "--type=merge", "-p", `{"spec":{"runPolicy":{"ttlSecondsAfterFinished":6}}}`); err == nil || !strings.Contains(output, "is too short") {
		t.Errorf("changed to another that is out of bounds: %v %s", err, output)
	}

	// A TrainJob's JobSet gets no TTL, and a runtime cannot bring one.
	job, err := shared.SubmitTrainJob(t.Context(), cluster.TrainJobSpec{Name: "unbounded"})
	if err != nil {
		t.Fatal(err)
	}
	made, err := shared.WaitObject(t.Context(), cluster.JobSets, job.Namespace, job.Name, isThere)
	if err != nil {
		t.Fatal(err)
	}
	if ttl := number(made, "spec.ttlSecondsAfterFinished"); ttl != nil {
		t.Errorf("the JobSet of a TrainJob has a TTL of %v s", ttl)
	}
	kubectl(t, "delete", "trainjob", job.Name)
	_, err = shared.SubmitTrainJob(t.Context(), cluster.TrainJobSpec{Name: "rerun", Edit: func(_, runtime *unstructured.Unstructured) {
		if err := unstructured.SetNestedField(runtime.Object, int64(60), "spec", "template", "spec", "ttlSecondsAfterFinished"); err != nil {
			t.Fatal(err)
		}
	}})
	if err == nil || !strings.Contains(err.Error(), "leave spec.template.spec.ttlSecondsAfterFinished out") {
		t.Errorf("a runtime with a TTL for its JobSets: %v", err)
	}

	// Without a default the field is required; bounds that nobody could read are refused themselves.
	bounds := func(data string) (string, error) {
		return as(t, shared.AdminKubeconfig(), "", "-n", "orphand", "patch", "configmap", "orphand-ttl-bounds", "--type=merge", "-p", `{"data":`+data+`}`)
	}
	for data, want := range map[string]string{`{"max":"30d"}`: "durations in h, m and s", `{"maximum":"1h"}`: "use the keys", `{"min":"800h"}`: "min is more than max", `{"default":"5m"}`: "default is not between"} {
		if output, err := bounds(data); err == nil || !strings.Contains(output, want) {
			t.Errorf("bounds %s: %v %s", data, err, output)
		}
	}
	if output, err := bounds(`{"default":null}`); err != nil {
		t.Fatal(output)
	}
	until(t, "the field is not required", func() (bool, string) {
		_, err := tried(t, batchJob("", ""))
		return err != nil && strings.Contains(err.Error(), "spec.ttlSecondsAfterFinished is missing: set a TTL between 10m and 720h"), fmt.Sprint(err)
	})
	if _, err := tried(t, workflow("")); err == nil || !strings.Contains(err.Error(), "spec.ttlStrategy.secondsAfterCompletion is missing") {
		t.Errorf("a Workflow without a TTL: %v", err)
	}
	if _, err := tried(t, batchJob(`, annotations: {orphand.dev/keep: "true"}`, "")); err != nil {
		t.Errorf("what is to be kept needs no TTL: %v", err)
	}
}
