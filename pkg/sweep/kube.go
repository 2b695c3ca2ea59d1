package sweep

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/retention"
	"github.com/orphand/orphand/pkg/signals"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"
)

// Kube reads a cluster's API server. Its reads have no resourceVersion, so that etcd answers and not a cache.
type Kube struct {
	Core     kubernetes.Interface
	Dynamic  dynamic.Interface
	Metadata metadata.Interface
	// Mapper knows where the kinds of owners are served.
	Mapper meta.RESTMapper
	Clock  clock.PassiveClock

	mu sync.Mutex
	// unknown are the kinds that nobody serves, with when that was found out.
	unknown map[schema.GroupKind]time.Time
	// served are the versions that answered last, of kinds that may have several: it is asked first, so that a read is one
	// call where the preferred version is not served.
	served map[schema.GroupResource]schema.GroupVersionResource
	// first has one read find out which version that is: many of a kind are due at one moment.
	first sync.Mutex
}

var (
	_ Live    = (*Kube)(nil)
	_ Notices = (*Kube)(nil)
)

// unknownFor is how long a kind that nobody serves is not asked for again.
const unknownFor = time.Minute

// Object satisfies Live.
func (k *Kube) Object(ctx context.Context, kind *retention.Kind, namespace, name string) (*unstructured.Unstructured, error) {
	if len(kind.Versions) > 1 && !k.knows(kind) {
		k.first.Lock()
		defer k.first.Unlock()
	}
	var unserved error
	for _, r := range k.resources(kind) {
		u, err := k.Dynamic.Resource(r).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
			unserved = err // the path, not the object: another version may be served
			continue
		case apierrors.IsNotFound(err):
			k.answered(r)
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("reading %s %s/%s: %w", kind.GroupResource(), namespace, name, err)
		}
		k.answered(r)
		return u, nil
	}
	return nil, fmt.Errorf("reading %s %s/%s: %w", kind.GroupResource(), namespace, name, unserved)
}

// resources are where the kind may be served, the version that answered last first.
func (k *Kube) resources(kind *retention.Kind) []schema.GroupVersionResource {
	list := kind.Resources()
	k.mu.Lock()
	defer k.mu.Unlock()
	if i := slices.Index(list, k.served[list[0].GroupResource()]); i > 0 {
		list[0], list[i] = list[i], list[0]
	}
	return list
}

// knows says whether it is known where the kind is served.
func (k *Kube) knows(kind *retention.Kind) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, known := k.served[kind.Resources()[0].GroupResource()]
	return known
}

func (k *Kube) answered(r schema.GroupVersionResource) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.served == nil {
		k.served = map[schema.GroupResource]schema.GroupVersionResource{}
	}
	k.served[r.GroupResource()] = r
}

// Pod satisfies Live.
func (k *Kube) Pod(ctx context.Context, namespace, name string) (*facts.Pod, error) {
	p, err := k.Core.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading pod %s/%s: %w", namespace, name, err)
	}
	return facts.FromPod(p), nil
}

// Owner satisfies Live. A kind that nobody serves may come back with its objects, so of those nobody can tell.
func (k *Kube) Owner(ctx context.Context, namespace string, o facts.Owner) (bool, error) {
	kind := schema.GroupKind{Group: o.Group, Kind: o.Kind}
	m, err := k.mapping(kind)
	if err != nil {
		return false, fmt.Errorf("finding %s: %w", kind, err)
	}
	at := k.Metadata.Resource(m.Resource)
	var found *metav1.PartialObjectMetadata
	if m.Scope.Name() == meta.RESTScopeNameNamespace {
		found, err = at.Namespace(namespace).Get(ctx, o.Name, metav1.GetOptions{})
	} else {
		found, err = at.Get(ctx, o.Name, metav1.GetOptions{})
	}
	switch {
	case apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		return false, nil
	case apierrors.IsNotFound(err): // the path, not the object: the kind may be served in another version since
		k.unmap(kind)
		fallthrough
	case err != nil:
		return false, fmt.Errorf("reading %s %s/%s: %w", kind, namespace, o.Name, err)
	}
	return found.UID == o.UID, nil
}

// noteLimit is what the API takes of an Event's note (events.k8s.io/v1).
const noteLimit = 1024

// Announce satisfies Notices by an Event on the object. The Event's name comes from the object's UID and the due time: a
// process that did not make it finds it, and does not make another for as long as the API server keeps Events.
func (k *Kube) Announce(ctx context.Context, n Notice) (facts.Instant, error) {
	at := n.Of.Resources()[0].GroupVersion().String()
	note := n.Text
	if len(note) > noteLimit {
		note = strings.ToValidUTF8(note[:noteLimit-3], "") + "..."
	}
	event := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: n.Namespace, Name: n.event()},
		EventTime:  metav1.NewMicroTime(n.At.Time()), ReportingController: "orphand", ReportingInstance: "orphand",
		Action: "Announce", Reason: string(signals.RetentionAnnounced), Type: corev1.EventTypeNormal, Note: note,
		Regarding: corev1.ObjectReference{APIVersion: at, Kind: n.Of.Kind, Namespace: n.Namespace, Name: n.Name, UID: n.UID},
	}
	_, err := k.Core.EventsV1().Events(n.Namespace).Create(ctx, event, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return n.At, err
	}
	made, err := k.Core.EventsV1().Events(n.Namespace).Get(ctx, event.Name, metav1.GetOptions{})
	if err != nil {
		return 0, err
	}
	return min(facts.At(made.EventTime.Time), n.At), nil
}

// event is the name of the Event that a notice is.
func (n Notice) event() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", n.UID, n.Due))
	const longest = 253 - 17
	name := n.Name[:min(len(n.Name), longest)]
	return strings.TrimRight(name, ".-") + "." + hex.EncodeToString(sum[:8])
}

func (k *Kube) mapping(kind schema.GroupKind) (*meta.RESTMapping, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if since, unknown := k.unknown[kind]; unknown && k.Clock.Since(since) < unknownFor {
		return nil, &meta.NoKindMatchError{GroupKind: kind}
	}
	m, err := k.Mapper.RESTMapping(kind)
	if meta.IsNoMatchError(err) {
		k.lacks(kind)
	}
	return m, err
}

// unmap has it found out anew where a kind is served, a little later: a mapping is remembered for ever.
func (k *Kube) unmap(kind schema.GroupKind) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lacks(kind)
	if m, ok := k.Mapper.(meta.ResettableRESTMapper); ok {
		m.Reset()
	}
}

func (k *Kube) lacks(kind schema.GroupKind) {
	if k.unknown == nil {
		k.unknown = map[schema.GroupKind]time.Time{}
	}
	k.unknown[kind] = k.Clock.Now()
}
