package install_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/orphand/orphand/e2e/cluster"
	"github.com/orphand/orphand/e2e/daemon"
	"github.com/orphand/orphand/pkg/access"
	"github.com/orphand/orphand/pkg/signals"
)

// plays are the scenarios of the table in pkg/access, by their names.
var plays = map[string]func(*play){
	"AJobIsDeleted":              (*play).aJobIsDeleted,
	"TheServerCannotStreamLists": (*play).theServerCannotStreamLists,
	"APodLosesItsLabels":         (*play).aPodLosesItsLabels,
	"AMachineBurnsDown":          (*play).aMachineBurnsDown,
	"AFindingComesBack":          (*play).aFindingComesBack,
	"ARecordGrowsOld":            (*play).aRecordGrowsOld,
	"ARecordIsMade":              (*play).aRecordIsMade,
	"NobodyCollectsGarbage":      (*play).nobodyCollectsGarbage,
	"FinishedJobsGo":             (*play).finishedJobsGo,
	"TheMetricsAreRead":          (*play).theMetricsAreRead,
}

// Each verb of each rule is needed in the scenario that the table names: under the
// roles of the table, and with the real authorizer before it, orphand makes the call.
func TestEachPermissionIsNeeded(t *testing.T) {
	if err := daemon.InstallRecords(t.Context(), shared); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = command(context.Background(), shared.Kubectl(), "delete", "crd", "orphans.orphand.dev")
	})
	ownNamespace(t)
	for _, s := range access.Scenarios() {
		does, ok := plays[s.Name]
		if !ok {
			t.Errorf("nobody plays %s", s.Name)
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			p := &play{T: t, s: s, r: record(t)}
			does(p)
			p.r.mu.Lock()
			defer p.r.mu.Unlock()
			for _, call := range s.Calls {
				if p.made(call) == 0 {
					t.Errorf("not made: %s", call)
				}
			}
			for c := range p.r.calls {
				switch {
				case !inTable(c, s.Features):
					t.Errorf("in no role: %+v", c)
				case p.r.forbidden[c]:
					t.Errorf("forbidden: %+v", c)
				}
			}
		})
	}
}

// ownNamespace makes the namespace that orphand's own objects are in.
func ownNamespace(t *testing.T) {
	t.Helper()
	// One that the test before left may be on its way out.
	if err := shared.WaitGone(t.Context(), corev1.SchemeGroupVersion.WithResource("namespaces"), "", access.Namespace); err != nil {
		t.Fatal(err)
	}
	namespaces := shared.Client().CoreV1().Namespaces()
	_, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: access.Namespace}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = command(context.Background(), shared.Kubectl(), "delete", "namespace", access.Namespace, "--wait", "--timeout=60s")
	})
}

// play is one scenario, being played.
type play struct {
	*testing.T
	s access.Scenario
	r *recorder
	d *daemon.Daemon
}

func (p *play) ok(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// made says how often a call of the table was made and not forbidden.
func (p *play) made(text string) (n int) {
	verb, rest, _ := strings.Cut(text, " ")
	for c, times := range p.r.calls {
		of := access.Call{Group: c.group, Resource: c.resource}
		if _, named, ok := strings.Cut(rest, " "); ok && c.name == named {
			of.Name = named
		}
		if c.verb == verb && of.String() == rest && !p.r.forbidden[c] {
			n += times
		}
	}
	return n
}

func inTable(c call, features []access.Feature) bool {
	return slices.ContainsFunc(access.Of(features...), func(a access.Call) bool {
		return a.Group == c.group && a.Resource == c.resource && slices.Contains(a.Verbs, c.verb) && (a.Name == "" || a.Name == c.name)
	})
}

// bearer makes a service account with exactly these cluster-wide rules and those in
// orphand's own namespace, and returns a kubeconfig of it for a server.
func bearer(t *testing.T, name string, rules, own []rbacv1.PolicyRule, server string, ca []byte) string {
	t.Helper()
	accounts := shared.Client().CoreV1().ServiceAccounts(access.Namespace)
	_, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	user := "system:serviceaccount:" + access.Namespace + ":" + name
	if _, err := shared.UserWithRules(t.Context(), user, rules); err != nil {
		t.Fatal(err)
	}
	meta := metav1.ObjectMeta{Name: name, Namespace: access.Namespace}
	rbac := shared.Client().RbacV1()
	if _, err := rbac.Roles(access.Namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: own}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = rbac.RoleBindings(access.Namespace).Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: meta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: access.Namespace, Name: name}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	token, err := accounts.CreateToken(t.Context(), name,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return withToken(t, token.Status.Token, server, ca)
}

// start runs orphand under the scenario's roles, through the recorder.
func (p *play) start(flags ...string) *daemon.Daemon {
	p.Helper()
	var wide, own []access.Feature
	for _, f := range p.s.Features {
		if f.Namespaced() {
			own = append(own, f)
		} else {
			wide = append(wide, f)
		}
	}
	kubeconfig := bearer(p.T, strings.ToLower(p.s.Name), access.Rules(wide...), access.Rules(own...), p.r.server.URL, p.r.ca())
	if slices.Contains(p.s.Features, access.Election) {
		flags = append(flags, "--leader-elect")
	}
	flags = append(flags, "--leader-elect-lease-namespace="+access.Namespace, "--settle-quiet=1s")
	d, err := daemon.Start(p.Context(), shared, daemon.Options{Program: program, Kubeconfig: kubeconfig, Flags: flags})
	p.ok(err)
	p.d = d
	p.Cleanup(func() {
		if lies := d.Judge().Lies(); len(lies) > 0 {
			p.Error(lies)
		}
		_ = d.Stop()
	})
	return d
}

func (p *play) hears(w daemon.Want) daemon.Event {
	p.Helper()
	e, err := p.d.Await(p.Context(), w)
	p.ok(err)
	return e
}

// run runs a TrainJob until its pods live.
func (p *play) run(spec cluster.TrainJobSpec) (cluster.TrainJob, []*corev1.Pod) {
	p.Helper()
	job, err := shared.SubmitTrainJob(p.Context(), spec)
	p.ok(err)
	pods, err := shared.WaitRunning(p.Context(), job)
	p.ok(err)
	return job, pods
}

func (p *play) delete(job cluster.TrainJob) {
	p.Helper()
	p.ok(shared.DeleteTrainJob(p.Context(), job, metav1.DeletePropagationBackground))
}

// await asks again and again until something holds that no watch tells.
func (p *play) await(what string, holds func() bool) {
	p.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for !holds() {
		if time.Now().After(deadline) {
			p.Fatalf("never: %s", what)
		}
		select {
		case <-p.Context().Done():
			p.Fatal(p.Context().Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// calls waits until a call has been made.
func (p *play) calls(text string) {
	p.Helper()
	p.await(text, func() bool {
		p.r.mu.Lock()
		defer p.r.mu.Unlock()
		return p.made(text) > 0
	})
}

func (p *play) aJobIsDeleted() {
	p.start()
	p.hears(daemon.Code(signals.LeadershipChanged))
	job, _ := p.run(cluster.TrainJobSpec{Name: "deleted"})
	p.delete(job)
	p.hears(daemon.Job(job.UID, "Cleared"))
	kubectl(p.T, "wait", "--for=condition=Cleared", "--timeout=60s", "orphan/"+daemon.RecordName(job))
}

func (p *play) theServerCannotStreamLists() {
	// client-go's own switch, which it also falls back to where a server refuses.
	p.Setenv("KUBE_FEATURE_WatchListClient", "false")
	p.start()
	job := suspended(p.T, "listed")
	p.delete(job)
	p.hears(daemon.Over(job.UID))
}

func (p *play) aPodLosesItsLabels() {
	p.start()
	job, pods := p.run(cluster.TrainJobSpec{Name: "unlabelled"})
	p.hears(daemon.Pod(pods[0].UID, "Alive", "Running"))
	_, err := shared.Client().CoreV1().Pods(pods[0].Namespace).Patch(p.Context(), pods[0].Name, types.JSONPatchType,
		[]byte(`[{"op":"replace","path":"/metadata/labels","value":{}}]`), metav1.PatchOptions{})
	p.ok(err)
	p.calls("get pods")
	p.delete(job)
	p.ok(shared.Client().CoreV1().Pods(pods[0].Namespace).Delete(p.Context(), pods[0].Name, metav1.DeleteOptions{}))
	p.ok(shared.WaitGone(p.Context(), cluster.Pods, pods[0].Namespace, pods[0].Name))
}

func (p *play) aMachineBurnsDown() {
	p.start()
	node, err := shared.AddNode(p.Context(), cluster.NodeSpec{Name: "burnt"})
	p.ok(err)
	job, pods := p.run(cluster.TrainJobSpec{Name: "on-fire", On: []string{"burnt"}})
	p.ok(node.PowerOff())
	p.delete(job)
	p.ok(node.WaitUnreachable(p.Context()))
	p.ok(node.Taint(p.Context(), cluster.OutOfService()))
	p.hears(daemon.Pod(pods[0].UID, "Gone", "OutOfService"))
	p.hears(daemon.Over(job.UID))
	p.ok(node.Delete(p.Context()))
}

func (p *play) aFindingComesBack() {
	p.start()
	node, err := shared.AddNode(p.Context(), cluster.NodeSpec{Name: "tainted"})
	p.ok(err)
	job, pods := p.run(cluster.TrainJobSpec{Name: "twice", On: []string{"tainted"}})
	p.hears(daemon.Pod(pods[0].UID, "Alive", "Running"))
	// It moves nobody away: the pod is to stay.
	taint := cluster.OutOfService()
	taint.Effect = corev1.TaintEffectNoSchedule
	var last daemon.Event
	for range 2 {
		p.ok(node.Taint(p.Context(), taint))
		last = p.hears(daemon.Found(signals.OutOfServiceOnReadyNode, job.UID).After(last))
		p.ok(node.Untaint(p.Context(), taint.Key))
		last = p.hears(daemon.Line("the end of the finding", func(e daemon.Event) bool {
			return e.Finding == string(signals.OutOfServiceOnReadyNode) && e.Phase == string(signals.Ended) && e.JobUID == job.UID
		}).After(last))
	}
	p.calls("patch events.events.k8s.io")
	p.delete(job)
	p.hears(daemon.Over(job.UID))
	p.ok(node.PowerOff())
	p.ok(node.Delete(p.Context()))
}

func (p *play) aRecordGrowsOld() {
	p.start("--record-ttl=1s")
	job := suspended(p.T, "aged")
	p.delete(job)
	p.hears(daemon.Over(job.UID))
	p.calls("delete orphans.orphand.dev")
	p.ok(shared.WaitGone(p.Context(), daemon.Orphans, job.Namespace, daemon.RecordName(job)))
}

// aRecordIsMade is of a call that the API server makes in orphand's name, so that
// no request shows it: with the permission a record is made, and without it none.
func (p *play) aRecordIsMade() {
	d := p.start()
	job := suspended(p.T, "recorded")
	p.delete(job)
	p.hears(daemon.Over(job.UID))
	_, err := shared.WaitObject(p.Context(), daemon.Orphans, job.Namespace, daemon.RecordName(job), isThere)
	p.ok(err)
	p.ok(d.Stop())

	without := lacking(access.Rules(p.s.Features...), "create", "orphans")
	refusals := record(p.T)
	kubeconfig := bearer(p.T, "no-create", without, nil, refusals.server.URL, refusals.ca())
	p.d, err = daemon.Start(p.Context(), shared, daemon.Options{Program: program, Kubeconfig: kubeconfig, Flags: []string{"--settle-quiet=1s"}})
	p.ok(err)
	defer func() { _ = p.d.Stop() }()
	other := suspended(p.T, "unrecorded")
	p.delete(other)
	p.hears(daemon.Over(other.UID))
	p.await("/readyz to say that no record can be written", func() bool {
		_, text, err := p.d.Get(p.Context(), "/readyz?verbose")
		return err == nil && strings.Contains(text, "records ok: cannot be written") && strings.Contains(text, "forbidden")
	})
	if _, err := shared.Dynamic().Resource(daemon.Orphans).Namespace(other.Namespace).Get(p.Context(), daemon.RecordName(other), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		p.Errorf("a record was made without the permission to create one: %v", err)
	}
	refused := call{group: "orphand.dev", resource: "orphans", name: daemon.RecordName(other), verb: "patch"}
	refusals.mu.Lock()
	defer refusals.mu.Unlock()
	if !refusals.forbidden[refused] {
		p.Errorf("%+v was not refused", refused)
	}
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	p.r.calls[call{group: "orphand.dev", resource: "orphans", verb: "create"}]++ // shown by what was refused without it
}

func (p *play) nobodyCollectsGarbage() {
	gangs(p.T)
	restart(p.T, "--enable-garbage-collector=false", "--controllers=*,-storage-version-migrator-controller")
	p.Cleanup(func() { restart(p.T) })
	p.start("--mode=enforce", "--gc-grace=1s")
	p.hears(daemon.Line("the mode to be enforce", func(e daemon.Event) bool { return e.Code == signals.ModeChanged && e.State == "enforce" }))
	job, _ := p.run(cluster.TrainJobSpec{Name: "left-behind"})
	// What Trainer makes of MPI jobs and, with a gang scheduler, of every job.
	root, err := shared.Dynamic().Resource(cluster.TrainJobs).Namespace(job.Namespace).Get(p.Context(), job.Name, metav1.GetOptions{})
	p.ok(err)
	owner := []metav1.OwnerReference{*metav1.NewControllerRef(root, root.GroupVersionKind())}
	_, err = shared.Client().CoreV1().Secrets(job.Namespace).Create(p.Context(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: job.Name + "-mpi-ssh-auth", OwnerReferences: owner}}, metav1.CreateOptions{})
	p.ok(err)
	for _, kind := range podGroups() {
		group := &unstructured.Unstructured{Object: map[string]any{}}
		group.SetAPIVersion(kind.GroupVersion().String())
		group.SetKind("PodGroup")
		group.SetName(job.Name)
		group.SetOwnerReferences(owner)
		_, err = shared.Dynamic().Resource(kind).Namespace(job.Namespace).Create(p.Context(), group, metav1.CreateOptions{})
		p.ok(err)
	}
	p.delete(job)
	p.hears(daemon.Job(job.UID, "Cleared"))
	for _, kind := range append(podGroups(), cluster.JobSets) {
		p.ok(shared.WaitGone(p.Context(), kind, job.Namespace, job.Name))
	}
}

// podGroups are the gangs of the scheduler plugins and of Volcano.
func podGroups() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Resource: "podgroups"},
		{Group: "scheduling.volcano.sh", Version: "v1beta1", Resource: "podgroups"},
	}
}

func gangs(t *testing.T) {
	for _, g := range podGroups() {
		define(t, g, "PodGroup")
	}
}

// define has the API server serve a kind whose objects may have any fields.
func define(t *testing.T, r schema.GroupVersionResource, kind string) {
	t.Helper()
	name := r.Resource + "." + r.Group
	text := fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %s, annotations: {api-approved.kubernetes.io: unapproved}}
spec:
  group: %s
  scope: Namespaced
  names: {plural: %s, singular: %s, kind: %s}
  versions:
  - {name: %s, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`, name, r.Group, r.Resource, strings.ToLower(kind), kind, r.Version)
	if output, err := as(t, shared.AdminKubeconfig(), text, "apply", "--server-side", "-f", "-"); err != nil {
		t.Fatal(output)
	}
	t.Cleanup(func() {
		_, _ = command(context.Background(), shared.Kubectl(), "delete", "crd", name, "--wait", "--timeout=60s")
	})
	kubectl(t, "wait", "--for=condition=Established", "crd/"+name, "--timeout=30s")
}

// others are the kinds that retention alone knows, each with the status of one that
// is finished.
func others() map[string]string {
	const finished = "2026-01-01T00:00:00Z"
	conditions := `{"conditions":[{"type":"Succeeded","status":"True","lastTransitionTime":"` + finished + `","lastUpdateTime":"` + finished + `"}],"completionTime":"` + finished + `"}`
	return map[string]string{
		"Workflow":         `{"phase":"Succeeded","finishedAt":"` + finished + `"}`,
		"PyTorchJob":       conditions,
		"TFJob":            conditions,
		"MPIJob":           conditions,
		"XGBoostJob":       conditions,
		"PaddleJob":        conditions,
		"JAXJob":           conditions,
		"RayJob":           `{"jobDeploymentStatus":"Complete","jobStatus":"SUCCEEDED","endTime":"` + finished + `"}`,
		"Job":              `{"state":{"phase":"Completed","lastTransitionTime":"` + finished + `"}}`, // Volcano's
		"SparkApplication": `{"applicationState":{"state":"COMPLETED"},"terminationTime":"` + finished + `"}`,
		// These decide on what they own.
		"CronWorkflow":              `{}`,
		"ScheduledSparkApplication": `{}`,
	}
}

const everything = `apiVersion: orphand.dev/v1alpha1
kind: RetentionPolicy
namespacePolicies:
  namespaces: ["default"]
rules:
- name: noticed
  match: {kinds: [TrainJob], labels: {scenario: finished-jobs}}
  ttlAfterFinished: 1s
  notice: 1s
- name: rest
  match: {kinds: [Job, Workflow, PyTorchJob, TFJob, MPIJob, XGBoostJob, PaddleJob, JAXJob, RayJob, VolcanoJob, SparkApplication], labels: {scenario: finished-jobs}}
  ttlAfterFinished: 1s
`

func (p *play) finishedJobsGo() {
	p.Setenv("KUBE_FEATURE_WatchListClient", "false") // lists and watches alike
	kinds := others()
	var made []schema.GroupVersionResource
	for r, kind := range otherKinds() {
		define(p.T, r, kind)
		made = append(made, r)
	}
	if len(made) != len(kinds) {
		p.Fatalf("%d kinds of %d stand in the table", len(made), len(kinds))
	}
	file := filepath.Join(p.TempDir(), "policy.yaml")
	p.ok(os.WriteFile(file, []byte(everything), 0o600))
	p.start("--mode=enforce", "--retention-policy="+file)
	p.hears(daemon.Line("the mode to be enforce", func(e daemon.Event) bool { return e.Code == signals.ModeChanged && e.State == "enforce" }))
	p.hears(daemon.Code(signals.PolicyLoaded))

	// Owners first: they are there when what they own is asked about, and then are not.
	cron, err := shared.Client().BatchV1().CronJobs("default").Create(p.Context(), &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Name: "nightly"},
		Spec: batchv1.CronJobSpec{Schedule: "0 0 1 1 *", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
			Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "none", Command: []string{"true"}}}}}}}}}, metav1.CreateOptions{})
	p.ok(err)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "nightly-1", Labels: finishedLabels(),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(cron, batchv1.SchemeGroupVersion.WithKind("CronJob"))}}, Spec: cron.Spec.JobTemplate.Spec}
	_, err = shared.Client().BatchV1().Jobs("default").Create(p.Context(), job, metav1.CreateOptions{})
	p.ok(err)
	owners := map[string]*unstructured.Unstructured{}
	for _, owned := range []bool{false, true} { // what decides, before what it decides on
		for _, r := range made {
			kind := otherKinds()[r]
			decides := kind == "CronWorkflow" || kind == "ScheduledSparkApplication"
			if decides == owned {
				continue
			}
			o := &unstructured.Unstructured{}
			p.ok(o.UnmarshalJSON([]byte(fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":"finished"},"spec":{},"status":%s}`, r.GroupVersion(), kind, kinds[kind]))))
			o.SetLabels(finishedLabels())
			created, err := shared.Dynamic().Resource(r).Namespace("default").Create(p.Context(), o, metav1.CreateOptions{})
			p.ok(err)
			if decides {
				owners[kind] = created
				continue
			}
			if by := owners[map[string]string{"Workflow": "CronWorkflow", "SparkApplication": "ScheduledSparkApplication"}[kind]]; by != nil {
				second := o.DeepCopy()
				second.SetName("owned")
				second.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(by, by.GroupVersionKind())})
				_, err := shared.Dynamic().Resource(r).Namespace("default").Create(p.Context(), second, metav1.CreateOptions{})
				p.ok(err)
			}
		}
	}
	train, err := shared.SubmitTrainJob(p.Context(), cluster.TrainJobSpec{Name: "finished", Labels: finishedLabels(), Command: []string{"true"}})
	p.ok(err)
	for _, r := range made {
		if kind := otherKinds()[r]; owners[kind] == nil {
			p.ok(shared.WaitGone(p.Context(), r, "default", "finished"))
		}
	}
	announced := p.hears(daemon.Line("the notice of the TrainJob", func(e daemon.Event) bool { return e.Code == signals.RetentionAnnounced && e.JobUID == train.UID }))
	p.hears(daemon.Over(train.UID).After(announced))
	p.calls("get cronjobs.batch")
	p.calls("patch configmaps orphand-removals")

	// The next process finds what was removed, and the Event of a deletion that was
	// announced and did not come.
	p.ok(p.d.Stop())
	p.ok(os.WriteFile(file, []byte(strings.Replace(everything, "notice: 1s", "notice: 1h", 1)), 0o600))
	later, err := shared.SubmitTrainJob(p.Context(), cluster.TrainJobSpec{Name: "later", Labels: finishedLabels(), Command: []string{"true"}})
	p.ok(err)
	p.ok(p.d.Restart(p.Context()))
	p.hears(daemon.Line("the notice of the TrainJob", func(e daemon.Event) bool { return e.Code == signals.RetentionAnnounced && e.JobUID == later.UID }))
	p.ok(p.d.Stop())
	p.ok(p.d.Restart(p.Context()))
	p.calls("get events.events.k8s.io")
	p.delete(later)
}

func finishedLabels() map[string]string { return map[string]string{"scenario": "finished-jobs"} }

func (p *play) theMetricsAreRead() {
	p.start("--metrics-secure-address=127.0.0.1:0")
	address := p.hears(daemon.Line("the protected endpoint", func(e daemon.Event) bool {
		return e.Code == signals.Listening && strings.Contains(e.Line, `"scheme":"https"`)
	})).Address
	token := tokenOf(p.T, "reader", access.RulesOf("orphand-scrape"))
	if status, text := fetch(p.T, address, token, nil); status != http.StatusOK || !strings.Contains(text, "orphand_build_info") {
		p.Errorf("%d %s", status, text)
	}
}

// tokenOf is the token of a service account with these rules.
func tokenOf(t *testing.T, name string, rules []rbacv1.PolicyRule) string {
	t.Helper()
	accounts := shared.Client().CoreV1().ServiceAccounts(access.Namespace)
	_, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	if _, err := shared.UserWithRules(t.Context(), "system:serviceaccount:"+access.Namespace+":"+name, rules); err != nil {
		t.Fatal(err)
	}
	token, err := accounts.CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return token.Status.Token
}

// fetch reads the protected metrics, with a connection of its own; trust may be nil
// for whatever certificate is shown.
func fetch(t *testing.T, address, token string, trust *tls.Config) (int, string) {
	t.Helper()
	if trust == nil {
		trust = &tls.Config{InsecureSkipVerify: true}
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{TLSClientConfig: trust}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport, Timeout: 15 * time.Second}).Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// lacking are the rules without one verb on one resource.
func lacking(rules []rbacv1.PolicyRule, verb, resource string) []rbacv1.PolicyRule {
	var rest []rbacv1.PolicyRule
	for _, r := range rules {
		r = *r.DeepCopy()
		if slices.Contains(r.Resources, resource) {
			r.Verbs = slices.DeleteFunc(r.Verbs, func(v string) bool { return v == verb })
		}
		if len(r.Verbs) > 0 {
			rest = append(rest, r)
		}
	}
	return rest
}
