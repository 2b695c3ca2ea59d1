package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/orphand/orphand/e2e/cluster"
	"github.com/orphand/orphand/e2e/daemon"
	"github.com/orphand/orphand/pkg/signals"
)

// user is whom orphand acts as.
const user = "retainer"

// ttlOfSpread is how long before it is due a job of the second part has finished: long enough to say so of all of them.
const ttlOfSpread = 90 * time.Second

const policy = `apiVersion: orphand.dev/v1alpha1
kind: RetentionPolicy
rules:
- name: once
  match: {kinds: [TrainJob], labels: {part: once}}
  ttlAfterFinished: 0s
- name: spread
  match: {kinds: [TrainJob], labels: {part: spread}}
  ttlAfterFinished: 90s
- name: probes
  match: {kinds: [TrainJob], labels: {part: probe}}
  ttlAfterFinished: 1d
`

// standBy makes Trainer's manager one that waits for another to give the lead up. Its controller would otherwise make a
// JobSet for each TrainJob, and take back a Failed or Complete that no JobSet has.
func standBy(ctx context.Context, c *cluster.Cluster) error {
	const namespace, account, lease = "kubeflow-system", "kubeflow-trainer-controller-manager", "trainer"
	meta := metav1.ObjectMeta{Namespace: namespace, Name: lease}
	now := metav1.NowMicro()
	_, err := c.Client().CoordinationV1().Leases(namespace).Create(ctx, &coordinationv1.Lease{ObjectMeta: meta, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To("another"), LeaseDurationSeconds: ptr.To(int32(24 * 60 * 60)), AcquireTime: &now, RenewTime: &now}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = c.Client().RbacV1().Roles(namespace).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}, Verbs: []string{"get", "create", "update"}}}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = c.Client().RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: meta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: lease},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err := c.StopComponent(cluster.Trainer); err != nil {
		return err
	}
	file := filepath.Join(c.Dir, "config", "trainer.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	const alone = "leaderElection: {leaderElect: false}"
	if !strings.Contains(string(text), alone) {
		return fmt.Errorf("%s does not say %q: Trainer cannot be made to stand by", file, alone)
	}
	elects := fmt.Sprintf("leaderElection: {leaderElect: true, resourceLock: leases, resourceNamespace: %s, resourceName: %s, leaseDuration: 15s, renewDeadline: 10s, retryPeriod: 2s}", namespace, lease)
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), alone, elects, 1)), 0o600); err != nil {
		return err
	}
	return c.StartComponent(ctx, cluster.Trainer)
}

// jobKind is a kind of jobs that end by what their status says.
type jobKind struct {
	words    string
	resource schema.GroupVersionResource
	// who deletes them.
	who string
	// object is one that has not begun, and status what it says when it has ended.
	object func(name, part string) *unstructured.Unstructured
	status func(finish time.Time) map[string]any
}

const namespace = "scale"

var trainJobs = jobKind{
	words: "TrainJobs", resource: cluster.TrainJobs, who: user,
	object: func(name, part string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": cluster.TrainJobs.GroupVersion().String(), "kind": "TrainJob",
			"metadata": map[string]any{"namespace": namespace, "name": name, "labels": map[string]any{"part": part}},
			"spec": map[string]any{"runtimeRef": map[string]any{"apiGroup": cluster.TrainJobs.Group, "kind": "ClusterTrainingRuntime", "name": namespace + "-seed"},
				"trainer": map[string]any{"numNodes": int64(1)}},
		}}
	},
	status: func(finish time.Time) map[string]any {
		return map[string]any{"conditions": []any{condition("Complete", "JobsCompleted", finish)}}
	},
}

// plainJobs are managed by nobody, so that no pods are made for them; the TTL controller takes no notice of that.
var plainJobs = jobKind{
	words: "plain Jobs", resource: schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"},
	who: "system:serviceaccount:kube-system:ttl-after-finished-controller",
	object: func(name, part string) *unstructured.Unstructured {
		ttl := time.Duration(0)
		if part == "spread" {
			ttl = ttlOfSpread
		}
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "batch/v1", "kind": "Job",
			"metadata": map[string]any{"namespace": namespace, "name": name, "labels": map[string]any{"part": part}},
			"spec": map[string]any{"ttlSecondsAfterFinished": int64(ttl.Seconds()), "managedBy": "example.com/nobody",
				"template": map[string]any{"spec": map[string]any{"restartPolicy": "Never", "containers": []any{map[string]any{"name": "c", "image": "none"}}}}},
		}}
	},
	status: func(finish time.Time) map[string]any {
		at := finish.UTC().Format(time.RFC3339)
		return map[string]any{"startTime": at, "completionTime": at, "succeeded": int64(1), "conditions": []any{
			condition("SuccessCriteriaMet", "CompletionsReached", finish), condition("Complete", "CompletionsReached", finish)}}
	},
}

func condition(kind, reason string, at time.Time) map[string]any {
	return map[string]any{"type": kind, "status": "True", "reason": reason, "message": "",
		"lastTransitionTime": at.UTC().Format(time.RFC3339)}
}

// prepare makes what the TrainJobs share.
func (b *bench) prepare(ctx context.Context) error {
	if _, err := b.c.Client().CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err := b.c.SubmitTrainJob(ctx, cluster.TrainJobSpec{Namespace: namespace, Name: "seed", Runtime: cluster.ClusterRuntime})
	return err
}

// batch are the jobs of one kind and one part.
type batch struct {
	kind  jobKind
	part  string
	count int
	// gone is closed when the watch has told of the end of all of them.
	gone chan struct{}

	mu    sync.Mutex
	ended int
}

func (b *bench) batch(kind jobKind, part string, count int) *batch {
	return &batch{kind: kind, part: part, count: count, gone: make(chan struct{})}
}

func (t *batch) name(i int) string { return fmt.Sprintf("%s-%06d", t.part, i) }

// numberOf is the number of the job of a name.
func numberOf(name string) int {
	_, digits, _ := strings.Cut(name, "-")
	n, _ := strconv.Atoi(digits)
	return n
}

func (t *batch) left() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count - t.ended
}

// watch counts those that are gone.
func (t *batch) watch(ctx context.Context, c *cluster.Cluster) {
	of := c.Dynamic().Resource(t.kind.resource).Namespace(namespace)
	selector := metav1.ListOptions{LabelSelector: "part=" + t.part}
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				o.LabelSelector = selector.LabelSelector
				return of.List(ctx, o)
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				o.LabelSelector = selector.LabelSelector
				return of.Watch(ctx, o)
			},
		},
		ObjectType: &unstructured.Unstructured{},
		Transform: func(o any) (any, error) { // a name is enough to be counted
			if u, ok := o.(*unstructured.Unstructured); ok {
				small := &unstructured.Unstructured{Object: map[string]any{}}
				small.SetNamespace(u.GetNamespace())
				small.SetName(u.GetName())
				small.SetUID(u.GetUID())
				small.SetResourceVersion(u.GetResourceVersion())
				return small, nil
			}
			return o, nil
		},
		Handler: cache.ResourceEventHandlerFuncs{DeleteFunc: func(any) {
			t.mu.Lock()
			defer t.mu.Unlock()
			if t.ended++; t.ended == t.count {
				close(t.gone)
			}
		}},
	})
	go informer.RunWithContext(ctx)
	cache.WaitForCacheSync(ctx.Done(), informer.HasSynced)
}

// each calls f for 0 to n-1, several at a time, until one fails.
func (b *bench) each(ctx context.Context, n int, f func(context.Context, int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	work := make(chan int)
	var workers sync.WaitGroup
	for range b.clients {
		workers.Go(func() {
			for i := range work {
				if err := f(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := 0; i < n && ctx.Err() == nil; i++ {
		work <- i
	}
	close(work)
	workers.Wait()
	return context.Cause(ctx)
}

// create makes the jobs of batches of one size.
func (b *bench) create(ctx context.Context, batches ...*batch) error {
	return b.each(ctx, batches[0].count, func(ctx context.Context, i int) error {
		for _, t := range batches {
			name := t.name(i)
			o := t.kind.object(name, t.part)
			if t.part == "spread" && t.kind.resource == trainJobs.resource {
				// Their finish, too, is known in whole seconds only.
				o.SetAnnotations(map[string]string{"orphand.dev/ttl-after-finished": (ttlOfSpread + b.offset(i)%time.Second).String()})
			}
			if _, err := b.c.Dynamic().Resource(t.kind.resource).Namespace(namespace).Create(ctx, o, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("creating %s of %s: %w", name, t.kind.words, err)
			}
		}
		return nil
	})
}

// finish says of the jobs of batches of one size that they have ended, when at says.
func (b *bench) finish(ctx context.Context, at func(int) time.Time, batches ...*batch) error {
	return b.each(ctx, batches[0].count, func(ctx context.Context, i int) error {
		for _, t := range batches {
			if err := b.end(ctx, t.kind, t.name(i), at(i)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b *bench) end(ctx context.Context, kind jobKind, name string, at time.Time) error {
	patch, err := json.Marshal(map[string]any{"status": kind.status(at)})
	if err != nil {
		return err
	}
	if _, err = b.c.Dynamic().Resource(kind.resource).Namespace(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("finishing %s of %s: %w", name, kind.words, err)
	}
	return nil
}

// probeEvery is the pause between two probes.
const probeEvery = 10 * time.Second

// probe makes TrainJobs of its own until all others are gone, each with an annotation that nobody understands, and finishes
// them. The function that it returns waits for its end and says how long orphand took at most.
func (b *bench) probe(ctx context.Context, d *daemon.Daemon, until <-chan struct{}) func() (handled, error) {
	var worst handled
	var failed error
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(probeEvery)
		defer ticker.Stop()
		for i := 0; failed == nil; i++ {
			took, err := b.probeOnce(ctx, d, i)
			worst.finished, worst.decided, failed = max(worst.finished, took.finished), max(worst.decided, took.decided), err
			select {
			case <-until:
				return
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	}()
	return func() (handled, error) {
		<-done
		return worst, failed
	}
}

// handled is how long after a job's end it is called finished, and retention complains of its annotation.
type handled struct{ finished, decided time.Duration }

func (b *bench) probeOnce(ctx context.Context, d *daemon.Daemon, i int) (took handled, err error) {
	name := fmt.Sprintf("probe-%06d", i)
	o := trainJobs.object(name, "probe")
	o.SetAnnotations(map[string]string{"orphand.dev/ttl-after-finished": "soon"})
	made, err := b.c.Dynamic().Resource(trainJobs.resource).Namespace(namespace).Create(ctx, o, metav1.CreateOptions{})
	if err != nil {
		return took, err
	}
	ended := time.Now()
	if err := b.end(ctx, trainJobs, name, ended.Truncate(time.Second)); err != nil {
		return took, err
	}
	e, err := d.Await(ctx, daemon.Job(made.GetUID(), "Finished"))
	if err != nil {
		return took, err
	}
	took.finished = e.Read.Sub(ended)
	e, err = d.Await(ctx, daemon.Line("InvalidAnnotation of "+name, func(e daemon.Event) bool {
		return e.Finding == string(signals.InvalidAnnotation) && e.JobUID == made.GetUID()
	}))
	took.decided = e.Read.Sub(ended)
	return took, err
}
