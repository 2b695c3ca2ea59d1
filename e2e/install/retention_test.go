package install_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/orphand/orphand/e2e/cluster"
	"github.com/orphand/orphand/e2e/daemon"
	"github.com/orphand/orphand/pkg/access"
	"github.com/orphand/orphand/pkg/retention"
	"github.com/orphand/orphand/pkg/signals"
)

// guests are the kinds of other projects that the policy knows, as schemas only: no
// controller works on them here, so that a test gives their objects every end there
// is. The preferred version of MPIJob is not served, as where mpi-operator has not
// been installed and training-operator has.
func guests() []cluster.CustomKind {
	var list []cluster.CustomKind
	for _, k := range retention.Kinds() {
		if k.Name == "TrainJob" || k.Name == "JobSet" || k.Name == "Job" {
			continue
		}
		guest := cluster.CustomKind{Group: k.Group, Kind: k.Kind, Resource: k.Resource, Versions: k.Versions}
		if k.Name == "MPIJob" {
			guest.Unserved = k.Versions[:1]
		}
		list = append(list, guest)
	}
	return append(list, cluster.CustomKind{Group: "argoproj.io", Kind: "CronWorkflow", Resource: "cronworkflows", Versions: []string{"v1alpha1"}},
		cluster.CustomKind{Group: "example.com", Kind: "Run", Resource: "runs", Versions: []string{"v1"}})
}

func installGuests(t *testing.T) {
	t.Helper()
	for _, k := range guests() {
		if err := shared.InstallKind(t.Context(), k); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := shared.UninstallKind(ctx, k); err != nil {
				t.Log(err)
			}
		})
	}
}

// put creates an object from its manifest, and then its status. $T in it is the time
// ago.
func put(t *testing.T, text string, ago time.Duration) *unstructured.Unstructured {
	t.Helper()
	text = strings.ReplaceAll(text, "$T", `"`+time.Now().Add(-ago).UTC().Format(time.RFC3339)+`"`)
	u := &unstructured.Unstructured{}
	data, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = u.UnmarshalJSON(data)
	}
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if u.GetNamespace() == "" {
		u.SetNamespace("default")
	}
	objects := shared.Dynamic().Resource(resourceOf(u)).Namespace(u.GetNamespace())
	status := u.Object["status"]
	made, err := objects.Create(t.Context(), u, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if status != nil {
		made.Object["status"] = status
		if made, err = objects.UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
	}
	return made
}

func resourceOf(u *unstructured.Unstructured) schema.GroupVersionResource {
	return u.GroupVersionKind().GroupVersion().WithResource(strings.ToLower(u.GetKind()) + "s")
}

// planned asks orphand plan what becomes of every object, by the administrator.
func planned(t *testing.T, file string) map[string]string {
	t.Helper()
	text, err := command(t.Context(), program, "plan", "--kubeconfig", shared.AdminKubeconfig(), "--policy", file, "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var plan struct {
		Objects []struct{ Object, Decision string }
	}
	if err := json.Unmarshal([]byte(text), &plan); err != nil {
		t.Fatal(err)
	}
	decisions := map[string]string{}
	for _, o := range plan.Objects {
		decisions[o.Object] = o.Decision
	}
	return decisions
}

func policyFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func await(t *testing.T, d *daemon.Daemon, w daemon.Want) daemon.Event {
	t.Helper()
	e, err := d.Await(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func deleted(uid types.UID) daemon.Want {
	return daemon.Line("RetentionDeleted of "+string(uid), func(e daemon.Event) bool {
		return e.Code == signals.RetentionDeleted && e.JobUID == uid
	})
}

// ends are objects in every state that their kinds end in, and in those that are no
// end, each with what orphand plan says of it when the rest is gone: empty for what
// goes.
func ends() map[string]string {
	const condition = `{type: %s, status: "%s", lastTransitionTime: $T}`
	conditions := func(pairs ...string) string {
		var list []string
		for i := 0; i+1 < len(pairs); i += 2 {
			list = append(list, fmt.Sprintf(condition, pairs[i], pairs[i+1]))
		}
		return "{conditions: [" + strings.Join(list, ", ") + "]}"
	}
	object := func(apiVersion, kind, name, spec, status string) string {
		return fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {name: %s}, spec: {%s}, status: %s}", apiVersion, kind, name, spec, status)
	}
	workflow := func(name, spec, status string) string {
		return object("argoproj.io/v1alpha1", "Workflow", name, spec, status)
	}
	list := map[string]string{
		workflow("wf-succeeded", "", "{phase: Succeeded, finishedAt: $T}"): "",
		workflow("wf-failed", "", "{phase: Failed, finishedAt: $T}"):       "",
		workflow("wf-error", "", "{phase: Error, finishedAt: $T}"):         "",
		workflow("wf-running", "", "{phase: Running}"):                     "KEEP(not finished)",
		workflow("wf-suspended", "suspend: true", "{phase: Running}"):      "KEEP(suspended)",
		workflow("wf-no-time", "", "{phase: Succeeded}"):                   "KEEP(no finish time)",
		workflow("wf-retried", "", "{phase: Running, finishedAt: null}"):   "KEEP(not finished)",
		workflow("wf-new", "", "{}"):                                       "KEEP(not finished)",
		`{apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {name: wf-kept, annotations: {orphand.dev/keep: "true"}}, spec: {}, status: {phase: Succeeded, finishedAt: $T}}`:             "SKIP(excluded)",
		`{apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {name: wf-tracked, annotations: {argocd.argoproj.io/tracking-id: x}}, spec: {}, status: {phase: Succeeded, finishedAt: $T}}`: "SKIP(externally managed)",
		`{apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {name: wf-copy, labels: {kueue.x-k8s.io/multikueue-origin: other}}, spec: {}, status: {phase: Succeeded, finishedAt: $T}}`:   "SKIP(remote copy)",
		object("batch.volcano.sh/v1alpha1", "Job", "vj-completed", "", "{state: {phase: Completed, lastTransitionTime: $T}}"):                                                                      "",
		object("batch.volcano.sh/v1alpha1", "Job", "vj-failed", "", "{state: {phase: Failed, lastTransitionTime: $T}}"):                                                                            "",
		object("batch.volcano.sh/v1alpha1", "Job", "vj-terminated", "", "{state: {phase: Terminated, lastTransitionTime: $T}}"):                                                                    "",
		object("batch.volcano.sh/v1alpha1", "Job", "vj-aborted", "", "{state: {phase: Aborted, lastTransitionTime: $T}}"):                                                                          "KEEP(suspended)",
		object("batch.volcano.sh/v1alpha1", "Job", "vj-running", "", "{state: {phase: Running, lastTransitionTime: $T}}"):                                                                          "KEEP(not finished)",
		object("ray.io/v1", "RayJob", "rj-succeeded", "", "{jobDeploymentStatus: Complete, jobStatus: SUCCEEDED, endTime: $T}"):                                                                    "",
		object("ray.io/v1", "RayJob", "rj-failed", "", "{jobDeploymentStatus: Failed, jobStatus: FAILED, endTime: $T}"):                                                                            "",
		object("ray.io/v1", "RayJob", "rj-deadline", "", "{jobDeploymentStatus: Failed, reason: DeadlineExceeded, endTime: $T}"):                                                                   "",
		object("ray.io/v1", "RayJob", "rj-running", "", "{jobDeploymentStatus: Running, jobStatus: RUNNING}"):                                                                                      "KEEP(not finished)",
		object("ray.io/v1", "RayJob", "rj-suspended", "suspend: true", "{jobDeploymentStatus: Suspended}"):                                                                                         "KEEP(suspended)",
		object("sparkoperator.k8s.io/v1beta2", "SparkApplication", "sa-completed", "", "{applicationState: {state: COMPLETED}, terminationTime: $T}"):                                              "",
		object("sparkoperator.k8s.io/v1beta2", "SparkApplication", "sa-failed", "", "{applicationState: {state: FAILED}, terminationTime: $T}"):                                                    "",
		object("sparkoperator.k8s.io/v1beta2", "SparkApplication", "sa-running", "", "{applicationState: {state: RUNNING}}"):                                                                       "KEEP(not finished)",
		object("sparkoperator.k8s.io/v1beta2", "SparkApplication", "sa-retrying", "", "{applicationState: {state: PENDING_RERUN}, terminationTime: $T}"):                                           "KEEP(not finished)",
		object("example.com/v1", "Run", "run-done", "", "{phase: Done, endTime: $T}"):                                                                                                              "",
		object("example.com/v1", "Run", "run-error", "", "{phase: Error, endTime: $T}"):                                                                                                            "",
		object("example.com/v1", "Run", "run-busy", "", "{phase: Busy}"):                                                                                                                           "KEEP(not finished)",
	}
	for _, kind := range []string{"PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob"} {
		v1 := func(name, spec, status string) string {
			return object("kubeflow.org/v1", kind, strings.ToLower(kind)+"-"+name, spec, status)
		}
		list[v1("succeeded", "", conditions("Created", "True", "Running", "False", "Succeeded", "True"))] = ""
		list[v1("failed", "", conditions("Created", "True", "Running", "False", "Failed", "True"))] = ""
		list[v1("running", "", conditions("Created", "True", "Running", "True"))] = "KEEP(not finished)"
		list[v1("restarting", "", conditions("Created", "True", "Restarting", "True", "Failed", "False"))] = "KEEP(not finished)"
		list[v1("suspended", "runPolicy: {suspend: true}", conditions("Suspended", "True"))] = "KEEP(suspended)"
		list[v1("elsewhere", "runPolicy: {managedBy: kueue.x-k8s.io/multikueue}", conditions("Running", "True"))] = "KEEP(not finished)"
	}
	return list
}

const everyKind = `apiVersion: orphand.dev/v1alpha1
kind: RetentionPolicy
kinds:
- group: example.com
  versions: [v1]
  resource: runs
  kind: Run
  finished: object.status.phase in ['Done', 'Error']
  outcome: "object.status.phase == 'Done' ? 'succeeded' : 'failed'"
  finishTime: object.status.endTime
  podLabel: example.com/run
rules:
- name: announced
  match: {kinds: [Workflow], labels: {announce: "yes"}}
  ttlAfterFinished: 5s
  notice: 4s
- name: all
  match: {kinds: [Workflow, PyTorchJob, TFJob, MPIJob, XGBoostJob, PaddleJob, JAXJob, RayJob, VolcanoJob, SparkApplication, Run]}
  succeeded: 1s
  failed: 2s
`

// The overlay's own roles, its service account and its flags; the kinds come when the
// daemon runs already.
func TestTheRetentionOverlayRemovesWhatIsDueOfEveryKindAndNothingElse(t *testing.T) {
	apply(t, "retention")
	uninstall(t, "retention")
	roles := shared.Client().RbacV1().ClusterRoles()
	role, err := roles.Get(t.Context(), "orphand-retention", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	whole := slices.Clone(role.Rules)
	// The policy's own kind is the administrators' to allow; Spark's is forbidden for now.
	role.Rules = slices.DeleteFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "sparkapplications") })
	role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{"example.com"}, Resources: []string{"runs"}, Verbs: []string{"get", "list", "watch", "delete"}})
	if role, err = roles.Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	file := policyFile(t, everyKind)
	r := record(t)
	d := launch(t, account(t, r.server.URL, r.ca()), "--retention-policy="+file)
	await(t, d, daemon.Kind("retention/PyTorchJob", "Absent"))
	await(t, d, daemon.Kind("retention/Run", "Absent"))

	installGuests(t)
	stays, goes := map[string]string{}, []*unstructured.Unstructured{}
	for text, decision := range ends() {
		if u := put(t, text, time.Minute); decision == "" {
			goes = append(goes, u)
		} else {
			stays["default/"+strings.ToLower(u.GetKind())+"/"+u.GetName()] = decision
		}
	}
	await(t, d, daemon.Kind("retention/SparkApplication", "Forbidden"))
	for _, u := range goes {
		if u.GetKind() != "SparkApplication" {
			await(t, d, deleted(u.GetUID()))
			if err := shared.WaitGone(t.Context(), resourceOf(u), "default", u.GetName()); err != nil {
				t.Error(err)
			}
		}
	}
	if status, text, err := d.Get(t.Context(), "/readyz?verbose"); err != nil || status != 200 || !strings.Contains(text, "[+]retention/SparkApplication ok: Forbidden") {
		t.Errorf("a kind that is forbidden is a state of that kind: %d %v\n%s", status, err, text)
	}

	// Granted, it is taken up without a restart.
	role.Rules = append(whole, role.Rules[len(role.Rules)-1])
	if _, err := roles.Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, d, daemon.Kind("retention/SparkApplication", "Watching"))
	for _, u := range goes {
		if u.GetKind() == "SparkApplication" {
			await(t, d, deleted(u.GetUID()))
		}
	}

	// A workflow of a CronWorkflow is the CronWorkflow's for as long as that is there.
	cron := put(t, "{apiVersion: argoproj.io/v1alpha1, kind: CronWorkflow, metadata: {name: nightly}, spec: {}}", 0)
	owned := put(t, fmt.Sprintf("{apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {name: wf-owned, ownerReferences: [{apiVersion: argoproj.io/v1alpha1, kind: CronWorkflow, name: nightly, uid: %s, controller: true}]}, spec: {}, status: {phase: Succeeded, finishedAt: $T}}", cron.GetUID()), time.Minute)
	stays["default/workflow/wf-owned"] = "SKIP(owned by live CronWorkflow)"

	// One that is retried before its time is up is counted from its last end.
	retried := put(t, "{apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {name: wf-again}, spec: {}, status: {phase: Failed, finishedAt: $T}}", -4*time.Second)
	workflows := shared.Dynamic().Resource(resourceOf(retried)).Namespace("default")
	retried.Object["status"] = map[string]any{"phase": "Running", "finishedAt": nil}
	if _, err := workflows.UpdateStatus(t.Context(), retried, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	stays["default/workflow/wf-again"] = "KEEP(not finished)"

	// What is announced has an Event on it before it goes, and only one.
	announced := put(t, `{apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {name: wf-announced, labels: {announce: "yes"}}, spec: {}, status: {phase: Succeeded, finishedAt: $T}}`, 0)
	said := await(t, d, daemon.Line("the notice", func(e daemon.Event) bool {
		return e.Code == signals.RetentionAnnounced && e.JobUID == announced.GetUID()
	}))
	if output := kubectl(t, "describe", "workflows.argoproj.io", "wf-announced"); !strings.Contains(output, "It will be deleted at") || !strings.Contains(output, `rule "announced"`) {
		t.Errorf("kubectl describe does not show the notice:\n%s", output)
	}
	last := await(t, d, deleted(announced.GetUID()))
	if ahead := last.At.Sub(said.At); ahead < 3900*time.Millisecond {
		t.Errorf("announced only %v before it went", ahead)
	}
	events, err := shared.Client().EventsV1().Events("").List(t.Context(), metav1.ListOptions{FieldSelector: "reason=" + string(signals.RetentionAnnounced)})
	if err != nil || len(events.Items) != 1 {
		t.Errorf("%d Events (%v)", len(events.Items), err)
	}

	decisions := planned(t, file)
	for object, want := range stays {
		if got := decisions[object]; got != want {
			t.Errorf("%s: %s, want %s", object, got, want)
		}
	}
	if _, err := workflows.Get(t.Context(), owned.GetName(), metav1.GetOptions{}); apierrors.IsNotFound(err) {
		t.Error("a CronWorkflow's workflow went")
	}
	if err := d.Stop(); err != nil {
		t.Error(err)
	}
	spent(t, r, goes)
}

// grant adds to what the overlay's retention role allows the policy's own kind.
func grant(t *testing.T) {
	t.Helper()
	roles := shared.Client().RbacV1().ClusterRoles()
	role, err := roles.Get(t.Context(), "orphand-retention", metav1.GetOptions{})
	if err == nil {
		role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{"example.com"}, Resources: []string{"runs"}, Verbs: []string{"get", "list", "watch", "delete"}})
		_, err = roles.Update(t.Context(), role, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestRulesThatANamespaceBringsStayWithinTheAdministratorsLimits(t *testing.T) {
	apply(t, "retention")
	uninstall(t, "retention")
	grant(t)
	installGuests(t)
	head, _, _ := strings.Cut(everyKind, "rules:")
	file := policyFile(t, head+`namespacePolicies: {namespaces: ["team-*"], min: 3s, max: 1h}
rules:
- name: all
  match: {kinds: [Run]}
  ttlAfterFinished: 1h
`)
	bring := func(namespace, rules string) {
		t.Helper()
		text := fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: orphand-retention, namespace: %s}\ndata:\n  policy.yaml: |\n    %s\n", namespace, rules)
		if output, err := as(t, shared.AdminKubeconfig(), text, "apply", "-f", "-"); err != nil {
			t.Fatal(output)
		}
	}
	for _, namespace := range []string{"team-a", "team-b", "elsewhere"} {
		kubectl(t, "create", "namespace", namespace)
		t.Cleanup(func() {
			_, _ = command(context.Background(), shared.Kubectl(), "delete", "namespace", namespace, "--timeout=60s")
		})
	}
	const atOnce = "rules: [{name: mine, ttlAfterFinished: 0s}]"
	bring("team-a", atOnce)
	bring("team-b", "rules: [{name: mine, ttlAfterFinishd: 0s}]")
	bring("elsewhere", atOnce)
	d := launch(t, directly(t), "--retention-policy="+file)
	refused := func(namespace, why string) daemon.Want {
		return daemon.Line("the rules of "+namespace+" to be refused", func(e daemon.Event) bool {
			return e.Code == signals.PolicyRefused && strings.Contains(e.Line, namespace+"/orphand-retention") && strings.Contains(e.Reason, why)
		})
	}
	await(t, d, refused("team-b", "1:22: rules[0].ttlAfterFinishd: unknown key; did you mean ttlAfterFinished?"))
	await(t, d, refused("elsewhere", "lets this namespace bring no rules"))

	run := func(namespace string) *unstructured.Unstructured {
		return put(t, "{apiVersion: example.com/v1, kind: Run, metadata: {name: mine, namespace: "+namespace+"}, spec: {}, status: {phase: Done, endTime: $T}}", 0)
	}
	a, b, other := run("team-a"), run("team-b"), run("elsewhere")
	gone := await(t, d, deleted(a.GetUID()))
	end, _, _ := unstructured.NestedString(a.Object, "status", "endTime")
	if at, err := time.Parse(time.RFC3339, end); err != nil || gone.At.Sub(at) < 3*time.Second || !strings.Contains(gone.Line, `"rule":"team-a/mine"`) {
		t.Errorf("gone %v after its end, sooner than the administrators' min, or by another rule (%v): %s", gone.At.Sub(at), err, gone.Line)
	}
	bring("team-b", atOnce)
	await(t, d, deleted(b.GetUID()))
	if o, err := shared.Dynamic().Resource(resourceOf(other)).Namespace("elsewhere").Get(t.Context(), "mine", metav1.GetOptions{}); err != nil || o.GetDeletionTimestamp() != nil {
		t.Errorf("a namespace that may bring no rules lost an object by its own (%v)", err)
	}
}

// spent compares what was asked of the API server with what the roles allow and what
// had to be asked: two calls for each object that went.
func spent(t *testing.T, r *recorder, goes []*unstructured.Unstructured) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	reads, deletes := 0, 0
	for c, n := range r.calls {
		guest := slices.ContainsFunc(guests(), func(k cluster.CustomKind) bool { return k.Group == c.group && k.Resource == c.resource })
		switch {
		case guest && c.verb == "delete":
			deletes += n
		case guest && c.verb == "get" && c.resource != "cronworkflows":
			reads += n
		}
		if r.forbidden[c] && c.resource != "sparkapplications" {
			t.Errorf("forbidden: %+v", c)
		}
		if c.group == "example.com" {
			continue // the administrators' own rule
		}
		if !slices.ContainsFunc(access.Of(append(access.ForMode("enforce", true), access.Retention, access.Memory)...), func(a access.Call) bool {
			return a.Group == c.group && a.Resource == c.resource && slices.Contains(a.Verbs, c.verb) && (a.Name == "" || a.Name == c.name)
		}) {
			t.Errorf("not in the table: %+v", c)
		}
	}
	// The first read of MPIJobs finds that their preferred version is not served.
	if want := len(goes) + 1; deletes != want || reads < want || reads > want+1 {
		t.Errorf("%d live reads and %d DELETEs for %d objects", reads, deletes, want)
	}
	t.Logf("%d objects: %d live reads, %d DELETEs", len(goes)+1, reads, deletes)
}
