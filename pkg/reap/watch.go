package reap

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	core "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

// followPods watches pods until ctx ends. A kubelet's confirmation is the last state of a pod, which is there for some
// milliseconds: whoever only looks now and then never sees it.
func followPods(ctx context.Context, pods core.PodInterface, selector labels.Selector, tell Told) {
	informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = selector.String()
			return pods.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = selector.String()
			return pods.Watch(ctx, o)
		},
	}, pods), &corev1.Pod{}, 0, cache.Indexers{})
	// Whoever polls beside the watch tells of errors; the reflector would print each attempt.
	_ = informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {})
	changed := func(o any, gone bool) {
		// A tombstone is nobody's word, and a deletion without a deletionTimestamp, or within the grace, is how a filtered
		// watch says that the pod no longer matches: the next live read tells what became of it.
		if pod, ok := o.(*corev1.Pod); ok && (!gone || pod.DeletionTimestamp != nil && ptr.Deref(pod.DeletionGracePeriodSeconds, 0) == 0) {
			tell.Changed(pod, gone)
		}
	}
	handled, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { changed(o, false) },
		UpdateFunc: func(_, o any) { changed(o, false) },
		DeleteFunc: func(o any) { changed(o, true) },
	})
	if err != nil {
		return
	}
	var synced sync.WaitGroup
	synced.Go(func() {
		if cache.WaitFor(ctx, "", handled.HasSyncedChecker()) {
			tell.Synced()
		}
	})
	informer.RunWithContext(ctx)
	synced.Wait()
}
