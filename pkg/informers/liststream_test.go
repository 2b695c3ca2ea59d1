package informers

import (
	"context"
	"net/http"
	"testing"

	"github.com/orphand/orphand/pkg/facts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// After an outage the stream is there at once, and what changed meanwhile comes by it: until then a job may look as if it had
// no pods.
func TestAKindIsWatchedAgainOnceItsListIsThere(t *testing.T) {
	streams := make(chan *watch.FakeWatcher, 10)
	states := make(chan State, 10)
	down := make(chan error, 1)
	k, err := newKind(spec{name: facts.KindPod, example: &corev1.Pod{}, client: struct{}{}, transform: podTransform, handler: cache.ResourceEventHandlerFuncs{},
		lister: lister{
			list: func(context.Context, metav1.ListOptions) (runtime.Object, error) { return &corev1.PodList{}, nil },
			watch: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
				select {
				case err := <-down:
					return nil, err
				default:
				}
				if !ptr.Deref(o.SendInitialEvents, false) {
					return nil, apierrors.NewResourceExpired("list again")
				}
				w := watch.NewFake()
				streams <- w
				return w, nil
			},
		}}, clock.RealClock{}, func(s Status) { states <- s.State })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); k.run(ctx) }()
	defer func() { cancel(); <-ended }()

	listed := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "9", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
	pod := func(name, version string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: name, ResourceVersion: version}}
	}
	want := func(s State) {
		t.Helper()
		if got := <-states; got != s {
			t.Fatalf("the kind is %s, want %s", got, s)
		}
	}
	first := <-streams
	first.Action(watch.Bookmark, listed)
	want(Watching)
	down <- apierrors.NewGenericServerResponse(http.StatusInternalServerError, "watch", schema.GroupResource{Resource: "pods"}, "", "", 0, false)
	first.Stop()
	want(Failing)
	second := <-streams
	second.Add(pod("a", "7")) // two, since the first may wait where nobody has looked at it
	second.Add(pod("b", "8"))
	if s := k.current().State; s != Failing {
		t.Errorf("it is %s before its list is there", s)
	}
	second.Action(watch.Bookmark, listed)
	want(Watching)
}
