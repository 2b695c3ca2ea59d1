package reap

import (
	"context"
	"fmt"

	"github.com/orphand/orphand/pkg/facts"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/pager"
)

// Kube is the API of a cluster.
type Kube struct {
	Core     kubernetes.Interface
	Dynamic  dynamic.Interface
	Metadata metadata.Interface
}

var (
	_ API     = (*Kube)(nil)
	_ Watcher = (*Kube)(nil)
)

// Delete sends a DELETE. Nothing else in the program does.
func (k *Kube) Delete(ctx context.Context, o Order) error {
	t := o.Target()
	return k.Metadata.Resource(t.Kind.Resource).Namespace(t.Namespace).Delete(ctx, t.Name, o.Options())
}

// Get satisfies API. It asks without a resourceVersion, so that etcd answers and not a cache.
func (k *Kube) Get(ctx context.Context, kind Kind, namespace, name string) (metav1.Object, error) {
	var o metav1.Object
	var err error
	switch kind {
	case podKind():
		o, err = k.Core.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	case nodeKind():
		o, err = k.Core.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	case trainJobKind():
		o, err = k.Dynamic.Resource(kind.Resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	default:
		o, err = k.Metadata.Resource(kind.Resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	}
	switch {
	case unserved(err):
		return nil, k.notServed(kind)
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s %s/%s: %w", kind, namespace, name, err)
	}
	return o, nil
}

// unserved tells the 404 of a path that the server does not know from the 404 of an object: only the latter is the
// resource's own word.
func unserved(err error) bool {
	return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// notServed is ErrNotServed, unless the kind is served in another version and may start processes: nothing would be found of
// what is there, and the job would look as if it were stopped.
func (k *Kube) notServed(kind Kind) error {
	if kind == trainJobKind() || kind == jobSetKind() {
		if err := facts.ServedOtherwise(k.Core.Discovery(), kind.Resource); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s: %w", kind, ErrNotServed)
}

// List satisfies API, in pages.
func (k *Kube) List(ctx context.Context, kind Kind, namespace string, selector labels.Selector) ([]metav1.Object, error) {
	pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		switch kind {
		case podKind():
			return k.Core.CoreV1().Pods(namespace).List(ctx, o)
		case nodeKind():
			return k.Core.CoreV1().Nodes().List(ctx, o)
		case trainJobKind():
			return k.Dynamic.Resource(kind.Resource).Namespace(namespace).List(ctx, o)
		}
		return k.Metadata.Resource(kind.Resource).Namespace(namespace).List(ctx, o)
	})
	var list []metav1.Object
	err := pages.EachListItem(ctx, metav1.ListOptions{LabelSelector: selector.String()}, func(o runtime.Object) error {
		m, err := meta.Accessor(o)
		list = append(list, m)
		return err
	})
	switch {
	case unserved(err):
		return nil, k.notServed(kind)
	case err != nil:
		return nil, fmt.Errorf("listing %s: %w", kind, err)
	}
	return list, nil
}

// Allowed satisfies API by a SelfSubjectAccessReview.
func (k *Kube) Allowed(ctx context.Context, verb string, kind Kind, namespace string) (bool, error) {
	review, err := k.Core.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: verb, Namespace: namespace, Group: kind.Resource.Group, Resource: kind.Resource.Resource}},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("asking whether %s may be used on %s: %w", verb, kind, err)
	}
	return review.Status.Allowed, nil
}

// WatchPods satisfies Watcher.
func (k *Kube) WatchPods(ctx context.Context, namespace string, selector labels.Selector, tell Told) {
	followPods(ctx, k.Core.CoreV1().Pods(namespace), selector, tell)
}
