package reap

import (
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ErrNoUID: a DELETE was wanted of a name alone. The name may belong to another object by the time it arrives.
var ErrNoUID = errors.New("an object is deleted by UID only")

// Order is one DELETE of one object instance. Only NewOrder makes one; the zero Order deletes nothing, since its empty UID
// is no object's.
type Order struct {
	target  Target
	version string
	dryRun  bool
}

// NewOrder refuses what does not name one object instance: a target without a UID, a name or a resource.
func NewOrder(t Target) (Order, error) {
	switch {
	case t.UID == "":
		return Order{}, fmt.Errorf("%s: %w", t.Ref, ErrNoUID)
	case t.Name == "", t.Kind.Resource.Resource == "":
		return Order{}, fmt.Errorf("%s: an object is deleted by its kind and name", t.Ref)
	}
	return Order{target: t}, nil
}

// AtVersion has the DELETE fail with a conflict unless the object still has this resourceVersion.
func (o Order) AtVersion(version string) Order {
	o.version = version
	return o
}

// Tried has the API server check the DELETE and carry nothing out.
func (o Order) Tried() Order {
	o.dryRun = true
	return o
}

// Target is what is to be deleted.
func (o Order) Target() Target { return o.target }

// Options are the DELETE's options: the UID as a precondition, background propagation, and no word about the grace.
func (o Order) Options() metav1.DeleteOptions {
	uid, background := o.target.UID, metav1.DeletePropagationBackground
	d := metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &uid},
		PropagationPolicy: &background,
	}
	if o.version != "" {
		d.Preconditions.ResourceVersion = &o.version
	}
	if o.dryRun {
		d.DryRun = []string{metav1.DryRunAll}
	}
	return d
}

func lower(s string) string { return strings.ToLower(s) }
