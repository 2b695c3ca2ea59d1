package reap

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// ErrNotServed: the API server does not serve the kind, so that nothing can be said of its objects.
var ErrNotServed = errors.New("the API server does not serve this kind")

// API is the Kubernetes API as this package needs it: reads that no cache answers, and the one write.
//
// Pods come as *corev1.Pod, Nodes as *corev1.Node and TrainJobs as *unstructured.Unstructured; of any other kind metadata
// is enough.
type API interface {
	// Get reads one object; nil without an error means that there is none.
	Get(ctx context.Context, k Kind, namespace, name string) (metav1.Object, error)
	// List reads the objects of a kind that the selector selects, of one namespace or, when that is empty, of all.
	List(ctx context.Context, k Kind, namespace string, selector labels.Selector) ([]metav1.Object, error)
	// Allowed asks whether this client may use the verb on the kind, in one namespace or, when that is empty, in all.
	Allowed(ctx context.Context, verb string, k Kind, namespace string) (bool, error)
	// Delete carries an order out. Its errors are the API server's.
	Delete(ctx context.Context, o Order) error
}

// Watcher is an API that also tells of changes.
type Watcher interface {
	// WatchPods tells of the pods that the selector selects until ctx ends.
	WatchPods(ctx context.Context, namespace string, selector labels.Selector, tell Told)
}

// Told are the calls that a watch makes, one at a time.
type Told struct {
	// Changed is called for every pod and each of its later states; gone marks the final one.
	Changed func(pod metav1.Object, gone bool)
	// Synced is called once every pod that was there at the start was told.
	Synced func()
}
