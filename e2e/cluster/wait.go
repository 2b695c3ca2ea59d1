package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

// DefaultWait bounds a wait whose context has no deadline.
const DefaultWait = 60 * time.Second

// Kinds to wait for with WaitObject and WaitGone.
var (
	TrainJobs               = schema.GroupVersionResource{Group: "trainer.kubeflow.org", Version: "v1alpha1", Resource: "trainjobs"}
	TrainingRuntimes        = schema.GroupVersionResource{Group: "trainer.kubeflow.org", Version: "v1alpha1", Resource: "trainingruntimes"}
	ClusterTrainingRuntimes = schema.GroupVersionResource{Group: "trainer.kubeflow.org", Version: "v1alpha1", Resource: "clustertrainingruntimes"}
	JobSets                 = schema.GroupVersionResource{Group: "jobset.x-k8s.io", Version: "v1alpha2", Resource: "jobsets"}
	Jobs                    = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	Pods                    = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	Nodes                   = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
)

// PodSelector selects pods; empty fields select all.
type PodSelector struct {
	Namespace string
	Name      string
	Labels    map[string]string
}

func (s PodSelector) String() string {
	return strings.TrimSpace(fmt.Sprintf("pods %s/%s %s", cmp.Or(s.Namespace, "*"), cmp.Or(s.Name, "*"), labels.Set(s.Labels)))
}

// WaitPods waits until all selected pods together meet the condition. They are
// sorted by name; none is a set like any other.
func (c *Cluster) WaitPods(ctx context.Context, s PodSelector, cond func([]*corev1.Pod) bool) error {
	return follow(ctx, query[*corev1.Pod]{
		what:   s.String(),
		source: pods(c.client, s.Namespace),
		name:   s.Name,
		labels: labels.Set(s.Labels).String(),
		show:   showPod,
	}, cond)
}

// WaitPod waits until one of the selected pods meets the condition, and returns
// it.
func (c *Cluster) WaitPod(ctx context.Context, s PodSelector, cond func(*corev1.Pod) bool) (*corev1.Pod, error) {
	var found *corev1.Pod
	err := c.WaitPods(ctx, s, func(pods []*corev1.Pod) bool {
		i := slices.IndexFunc(pods, cond)
		if i >= 0 {
			found = pods[i]
		}
		return i >= 0
	})
	return found, err
}

// WaitNode waits until the Node meets the condition, and returns it.
func (c *Cluster) WaitNode(ctx context.Context, name string, cond func(*corev1.Node) bool) (*corev1.Node, error) {
	var found *corev1.Node
	err := follow(ctx, query[*corev1.Node]{
		what:   "node " + name,
		source: nodes(c.client),
		name:   name,
		show:   showNode,
	}, func(n []*corev1.Node) bool {
		if len(n) == 0 || !cond(n[0]) {
			return false
		}
		found = n[0]
		return true
	})
	return found, err
}

// WaitObject waits until the object meets the condition, which is given nil when
// there is no such object. A cluster-scoped object has no namespace.
func (c *Cluster) WaitObject(ctx context.Context, kind schema.GroupVersionResource, namespace, name string, cond func(*unstructured.Unstructured) bool) (*unstructured.Unstructured, error) {
	var found *unstructured.Unstructured
	err := follow(ctx, query[*unstructured.Unstructured]{
		what:   fmt.Sprintf("%s %s/%s", kind.Resource, namespace, name),
		source: objects(c.dynamic.Resource(kind).Namespace(namespace)),
		name:   name,
	}, func(o []*unstructured.Unstructured) bool {
		found = nil
		if len(o) > 0 {
			found = o[0]
		}
		return cond(found)
	})
	return found, err
}

// WaitObjects waits until all objects of a kind together meet the condition, in a
// namespace or, if that is empty, everywhere. They are sorted by namespace and
// name.
func (c *Cluster) WaitObjects(ctx context.Context, kind schema.GroupVersionResource, namespace string, cond func([]*unstructured.Unstructured) bool) error {
	return follow(ctx, query[*unstructured.Unstructured]{
		what:   fmt.Sprintf("%s in %s", kind.Resource, cmp.Or(namespace, "all namespaces")),
		source: objects(c.dynamic.Resource(kind).Namespace(namespace)),
	}, cond)
}

// WaitGone waits until there is no object of that name.
func (c *Cluster) WaitGone(ctx context.Context, kind schema.GroupVersionResource, namespace, name string) error {
	_, err := c.WaitObject(ctx, kind, namespace, name, func(o *unstructured.Unstructured) bool { return o == nil })
	return err
}

// withDefaultWait bounds a context that has no deadline.
func withDefaultWait(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, DefaultWait, fmt.Errorf("not so after %s", DefaultWait))
}

// source lists and watches one kind.
type source[T metav1.Object] struct {
	list  func(context.Context, metav1.ListOptions) (items []T, version string, err error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// query is a part of a source.
type query[T metav1.Object] struct {
	what   string // for messages
	source source[T]
	name   string // empty: all
	labels string // selector
	show   func(T) string
}

// retryAfter is the pause before the next try at an API server that is away.
const retryAfter = 100 * time.Millisecond

// follow lists and watches until the set of objects meets the condition, which
// is asked after every event. Broken watches and failing lists are tried again
// until the context ends.
func follow[T metav1.Object](ctx context.Context, q query[T], cond func([]T) bool) error {
	ctx, cancel := withDefaultWait(ctx)
	defer cancel()
	opts := metav1.ListOptions{LabelSelector: q.labels}
	if q.name != "" {
		opts.FieldSelector = fields.OneTermEqualSelector("metadata.name", q.name).String()
	}
	set := map[string]T{}
	met := func() bool {
		keys := slices.Sorted(maps.Keys(set))
		all := make([]T, len(keys))
		for i, k := range keys {
			all[i] = set[k]
		}
		return cond(all)
	}
	var last error
	for {
		done, err := q.once(ctx, opts, set, met)
		if done {
			return nil
		}
		if err != nil && ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return q.gaveUp(ctx, set, last)
		case <-time.After(retryAfter):
		}
	}
}

// once lists and then watches until the watch ends or the condition is met.
func (q query[T]) once(ctx context.Context, opts metav1.ListOptions, set map[string]T, met func() bool) (done bool, err error) {
	items, version, err := q.source.list(ctx, opts)
	if err != nil {
		return false, err
	}
	clear(set)
	for _, o := range items {
		set[keyOf(o)] = o
	}
	if met() {
		return true, nil
	}
	opts.ResourceVersion = version
	w, err := q.source.watch(ctx, opts)
	if err != nil {
		return false, err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		o, ok := event.Object.(T)
		if !ok {
			return false, fmt.Errorf("watch: %s %v", event.Type, event.Object)
		}
		switch event.Type {
		case watch.Added, watch.Modified:
			set[keyOf(o)] = o
		case watch.Deleted:
			delete(set, keyOf(o))
		default:
			continue
		}
		if met() {
			return true, nil
		}
	}
	return false, nil
}

func (q query[T]) gaveUp(ctx context.Context, set map[string]T, last error) error {
	var seen []string
	for _, k := range slices.Sorted(maps.Keys(set)) {
		if q.show != nil {
			seen = append(seen, q.show(set[k]))
		} else {
			seen = append(seen, k)
		}
	}
	if len(seen) == 0 {
		seen = []string{"nothing"}
	}
	err := fmt.Errorf("waiting for %s: %w; last seen: %s", q.what, context.Cause(ctx), strings.Join(seen, "; "))
	return errors.Join(err, last)
}

func keyOf(o metav1.Object) string { return o.GetNamespace() + "/" + o.GetName() }

func showPod(p *corev1.Pod) string {
	s := fmt.Sprintf("%s on %q %s", p.Name, p.Spec.NodeName, p.Status.Phase)
	if p.DeletionTimestamp != nil {
		s += ", terminating"
	}
	return s
}

func showNode(n *corev1.Node) string {
	ready := readyOf(n)
	return fmt.Sprintf("%s Ready=%s (%s), boot %s, taints %v", n.Name, ready.Status, ready.Reason, n.Status.NodeInfo.BootID, taintKeys(n))
}

func pods(client kubernetes.Interface, namespace string) source[*corev1.Pod] {
	return source[*corev1.Pod]{
		list: func(ctx context.Context, o metav1.ListOptions) ([]*corev1.Pod, string, error) {
			l, err := client.CoreV1().Pods(namespace).List(ctx, o)
			if err != nil {
				return nil, "", err
			}
			return pointers(l.Items), l.ResourceVersion, nil
		},
		watch: client.CoreV1().Pods(namespace).Watch,
	}
}

func nodes(client kubernetes.Interface) source[*corev1.Node] {
	return source[*corev1.Node]{
		list: func(ctx context.Context, o metav1.ListOptions) ([]*corev1.Node, string, error) {
			l, err := client.CoreV1().Nodes().List(ctx, o)
			if err != nil {
				return nil, "", err
			}
			return pointers(l.Items), l.ResourceVersion, nil
		},
		watch: client.CoreV1().Nodes().Watch,
	}
}

func serviceAccounts(client kubernetes.Interface, namespace string) source[*corev1.ServiceAccount] {
	return source[*corev1.ServiceAccount]{
		list: func(ctx context.Context, o metav1.ListOptions) ([]*corev1.ServiceAccount, string, error) {
			l, err := client.CoreV1().ServiceAccounts(namespace).List(ctx, o)
			if err != nil {
				return nil, "", err
			}
			return pointers(l.Items), l.ResourceVersion, nil
		},
		watch: client.CoreV1().ServiceAccounts(namespace).Watch,
	}
}

func objects(resource dynamic.ResourceInterface) source[*unstructured.Unstructured] {
	return source[*unstructured.Unstructured]{
		list: func(ctx context.Context, o metav1.ListOptions) ([]*unstructured.Unstructured, string, error) {
			l, err := resource.List(ctx, o)
			if err != nil {
				return nil, "", err
			}
			return pointers(l.Items), l.GetResourceVersion(), nil
		},
		watch: resource.Watch,
	}
}

func pointers[T any](items []T) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out
}
