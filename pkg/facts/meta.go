package facts

import (
	"time"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Instant is a moment in nanoseconds since the Unix epoch. Zero means unknown. It takes 8 bytes where time.Time takes
// 24: a record is held for every pod of the cluster's jobs.
type Instant int64

// At is the instant of t; the zero time is the unknown instant.
func At(t time.Time) Instant {
	if t.IsZero() {
		return 0
	}
	return Instant(t.UnixNano())
}

func atMeta(t *metav1.Time) Instant {
	if t == nil {
		return 0
	}
	return At(t.Time)
}

// Time is the instant as a time in UTC; the zero time when unknown.
func (i Instant) Time() time.Time {
	if i == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(i)).UTC()
}

// Known says whether the instant is known at all.
func (i Instant) Known() bool { return i != 0 }

// Add is the instant d later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// After is the instant d later, in whole milliseconds. Moments at which something was seen differ by a nanosecond when the
// clock stood still between them, so that they keep their order; a delay that begins at one of them does not.
func (i Instant) After(d time.Duration) Instant {
	return (i + Instant(d)) / Instant(time.Millisecond) * Instant(time.Millisecond)
}

// Sub is the time from j to i.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// Meta is what every record knows of its object. It satisfies metav1.ObjectMetaAccessor, which is all that client-go's
// stores and key functions ask of an object that a transform has replaced.
type Meta struct {
	Namespace, Name string
	UID             types.UID
	ResourceVersion string
	Created         Instant
}

// GetObjectMeta satisfies metav1.ObjectMetaAccessor with a copy.
func (m *Meta) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion}
}

// Key is namespace/name, or the name alone for a cluster-scoped object: the key of client-go's stores.
func (m *Meta) Key() string {
	if m.Namespace == "" {
		return m.Name
	}
	return m.Namespace + "/" + m.Name
}

func metaOf(o metav1.Object) Meta {
	return Meta{
		Namespace:       intern(o.GetNamespace()),
		Name:            o.GetName(),
		UID:             o.GetUID(),
		ResourceVersion: o.GetResourceVersion(),
		Created:         At(o.GetCreationTimestamp().Time),
	}
}

// intern makes equal strings share their bytes. Thousands of pods carry the same namespace, node and JobSet names.
func intern(s string) string {
	if s == "" {
		return ""
	}
	return unique.Make(s).Value()
}

// Owner is an object's controller owner reference, or its only owner reference where none is a controller's.
type Owner struct {
	Group, Kind, Name string
	UID               types.UID
	Controller        bool
}

func ownerOf(refs []metav1.OwnerReference) Owner {
	for i := range refs {
		if refs[i].Controller != nil && *refs[i].Controller {
			return owner(refs[i], true)
		}
	}
	if len(refs) > 0 {
		return owner(refs[0], false)
	}
	return Owner{}
}

func owner(r metav1.OwnerReference, controller bool) Owner {
	return Owner{
		Group:      intern(group(r.APIVersion)),
		Kind:       intern(r.Kind),
		Name:       intern(r.Name),
		UID:        types.UID(intern(string(r.UID))),
		Controller: controller,
	}
}

func group(apiVersion string) string {
	for i := range apiVersion {
		if apiVersion[i] == '/' {
			return apiVersion[:i]
		}
	}
	return ""
}

// Record is any of the records that a store holds.
type Record interface {
	metav1.ObjectMetaAccessor
	// Identity is the record's own metadata, shared and not to be changed.
	Identity() *Meta
}

// Identity satisfies Record.
func (m *Meta) Identity() *Meta { return m }

var (
	_ Record = (*Pod)(nil)
	_ Record = (*Node)(nil)
	_ Record = (*TrainJob)(nil)
	_ Record = (*Object)(nil)
)
