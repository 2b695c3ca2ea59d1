package ledger

import (
	"context"
	"errors"

	"github.com/orphand/orphand/api/v1alpha1"
	"github.com/orphand/orphand/pkg/facts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// FieldManager is the name under which orphand writes records.
const FieldManager = "orphand"

// Client is Records over the API server.
type Client struct {
	Dynamic dynamic.Interface
	// Delete deletes the one object that the reference names by its UID. Records are deleted by the same hand as everything
	// else.
	Delete func(context.Context, facts.Ref) error
	// Gate is asked immediately before each write and stops it with an error; nil lets all pass. A new record takes several: a
	// process that slept between two of them must not go on when it wakes.
	Gate func() error
}

// Apply satisfies Records. A record that is there takes one call; a new one two, since its status is a subresource.
func (c *Client) Apply(ctx context.Context, o *v1alpha1.Orphan) (*v1alpha1.Orphan, error) {
	stored, err := c.apply(ctx, o, true)
	if apierrors.IsNotFound(err) {
		if _, err = c.apply(ctx, o, false); err == nil {
			stored, err = c.apply(ctx, o, true)
		}
	}
	return stored, err
}

func (c *Client) apply(ctx context.Context, o *v1alpha1.Orphan, status bool) (*v1alpha1.Orphan, error) {
	part := &v1alpha1.Orphan{TypeMeta: o.TypeMeta, ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name}}
	options := metav1.ApplyOptions{FieldManager: FieldManager, Force: true}
	resource := c.Dynamic.Resource(v1alpha1.Orphans).Namespace(o.Namespace)
	if status {
		part.Status = o.Status
	} else {
		part.Spec = o.Spec
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(part)
	if err != nil {
		return nil, err
	}
	delete(content, map[bool]string{true: "spec", false: "status"}[status])
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	u := &unstructured.Unstructured{Object: content}
	if c.Gate != nil {
		if err := c.Gate(); err != nil {
			return nil, err
		}
	}
	var stored *unstructured.Unstructured
	if status {
		stored, err = resource.ApplyStatus(ctx, o.Name, u, options)
	} else {
		stored, err = resource.Apply(ctx, o.Name, u, options)
	}
	if err != nil {
		return nil, err
	}
	return FromUnstructured(stored)
}

// Forget satisfies Records.
func (c *Client) Forget(ctx context.Context, namespace, name string, uid types.UID) error {
	if c.Delete == nil {
		return errors.New("no hand to delete records with")
	}
	return c.Delete(ctx, facts.Ref{Namespace: namespace, Kind: v1alpha1.KindOrphan, Name: name, UID: uid})
}

// FromUnstructured decodes a record. What only servers and other writers need is left out.
func FromUnstructured(u *unstructured.Unstructured) (*v1alpha1.Orphan, error) {
	o := &v1alpha1.Orphan{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o); err != nil {
		return nil, err
	}
	o.ManagedFields = nil
	return o, nil
}
