package stage

import (
	"context"

	"github.com/orphand/orphand/pkg/reap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// client is the API as what finds and deletes sees it.
type client struct {
	api *API
}

// Client is a client of the API for what finds and deletes.
func (a *API) Client() reap.API { return client{a} }

// Get satisfies reap.API.
func (c client) Get(_ context.Context, k reap.Kind, namespace, name string) (metav1.Object, error) {
	kind := k.GroupKind()
	err := c.api.Request("get", kind, namespace, name)
	held := c.api.Get(kind, namespace, name)
	c.api.wait("get", kind, namespace, name)
	switch {
	case apierrors.IsNotFound(err), err == nil && held == nil:
		return nil, nil
	case err != nil:
		return nil, err
	}
	return typed(k, held)
}

// List satisfies reap.API.
func (c client) List(_ context.Context, k reap.Kind, namespace string, selector labels.Selector) ([]metav1.Object, error) {
	kind := k.GroupKind()
	err := c.api.Request("list", kind, namespace, "")
	var list []metav1.Object
	for _, o := range c.api.List(kind) {
		if err != nil {
			break
		}
		if namespace != "" && o.GetNamespace() != namespace || !selector.Matches(labels.Set(o.GetLabels())) {
			continue
		}
		t, err := typed(k, o)
		if err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	c.api.wait("list", kind, namespace, "")
	return list, err
}

// typed gives a TrainJob the form in which a client of the API gets it.
func typed(k reap.Kind, o Object) (metav1.Object, error) {
	if _, ok := o.(*unstructured.Unstructured); ok || k.GroupKind() != TrainJob {
		return o, nil
	}
	u, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	return &unstructured.Unstructured{Object: u}, err
}

// Allowed satisfies reap.API: what every request is answered 403 to is not allowed.
func (c client) Allowed(_ context.Context, verb string, k reap.Kind, namespace string) (bool, error) {
	for _, f := range c.api.faults {
		if f.Code == 403 && f.Times < 0 && f.matches(verb, k.Kind, namespace, "") {
			return false, nil
		}
	}
	return true, nil
}

// Delete satisfies reap.API. A trial leaves no trace.
func (c client) Delete(_ context.Context, o reap.Order) error {
	t, options := o.Target(), o.Options()
	if len(options.DryRun) > 0 {
		return nil
	}
	return c.api.Delete(t.Kind.GroupKind(), t.Namespace, t.Name, options)
}
