package informers

import (
	"context"
	"fmt"
	"sync"

	"github.com/orphand/orphand/pkg/facts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	jobsetclient "sigs.k8s.io/jobset/client-go/clientset/versioned"
)

// Clients are the API clients of the watches and of the live reads.
type Clients struct {
	Kube     kubernetes.Interface
	JobSets  jobsetclient.Interface
	Dynamic  dynamic.Interface
	Metadata metadata.Interface
}

// Config is what a Set is made from.
type Config struct {
	Clients  Clients
	Observer Observer
	Clock    clock.Clock
	// Changed is told when the state of a kind changes. It must not block.
	Changed func(Status)
	// Extra are further kinds to watch, which orphand can do without.
	Extra []Extra
	// Name names the informers in client-go's metrics; nil for none.
	Name *cache.InformerName
	// Metrics receives them, under client-go's names; nil for nobody.
	Metrics cache.InformerMetricsProvider
}

// Extra is a kind of custom resource that orphand can do without.
type Extra struct {
	Kind      string
	Resource  schema.GroupVersionResource
	Transform cache.TransformFunc
	Handler   cache.ResourceEventHandler
}

// Set is the watches of every kind that orphand follows.
type Set struct {
	kinds   []*kind
	changed chan struct{}
}

// The selectors. Every pod and Job of a JobSet carries these labels from its creation (JobSet v0.12.0,
// pkg/controllers/jobset_controller.go), so that the server leaves out what is none of ours.
const (
	podSelector = facts.LabelJobSetName
	jobSelector = facts.LabelJobSetName
)

var batchJobs = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}

// New makes the watches; nothing runs yet.
func New(c Config) (*Set, error) {
	s := &Set{changed: make(chan struct{}, 1)}
	tell := func(st Status) {
		if c.Changed != nil {
			c.Changed(st)
		}
		select {
		case s.changed <- struct{}{}:
		default:
		}
	}
	k := c.Clients
	specs := []spec{
		{name: facts.KindTrainJob, example: &unstructured.Unstructured{}, lister: dynamicLister(k.Dynamic, facts.TrainJobs), client: k.Dynamic,
			transform: trainJobTransform, handler: TrainJobHandlers(c.Observer), named: c.Name.WithResource(facts.TrainJobs)},
		{name: facts.KindJobSet, example: &jobset.JobSet{}, lister: jobSetLister(k.JobSets), client: k.JobSets,
			transform: jobSetTransform, handler: ObjectHandlers(facts.KindJobSet, c.Observer), named: c.Name.WithResource(jobset.GroupVersion.WithResource("jobsets"))},
		{name: facts.KindJob, example: &metav1.PartialObjectMetadata{}, lister: metadataLister(k.Metadata, batchJobs), client: k.Metadata, selector: jobSelector,
			transform: metaTransform(batchJobs.Group, facts.KindJob), handler: ObjectHandlers(facts.KindJob, c.Observer), named: c.Name.WithResource(batchJobs)},
		{name: facts.KindPod, example: &corev1.Pod{}, lister: podLister(k.Kube), client: k.Kube, selector: podSelector,
			transform: podTransform, handler: PodHandlers(c.Observer), named: c.Name.WithResource(corev1.SchemeGroupVersion.WithResource("pods"))},
		{name: facts.KindTrainingRuntime, example: &metav1.PartialObjectMetadata{}, lister: metadataLister(k.Metadata, facts.TrainingRuntimes), client: k.Metadata,
			transform: metaTransform(facts.GroupTrainer, facts.KindTrainingRuntime), handler: ObjectHandlers(facts.KindTrainingRuntime, c.Observer), named: c.Name.WithResource(facts.TrainingRuntimes)},
		{name: facts.KindNode, example: &corev1.Node{}, lister: nodeLister(k.Kube), client: k.Kube,
			transform: nodeTransform, handler: NodeHandlers(c.Observer), named: c.Name.WithResource(corev1.SchemeGroupVersion.WithResource("nodes"))},
	}
	for _, x := range c.Extra {
		specs = append(specs, spec{name: x.Kind, example: &unstructured.Unstructured{}, lister: dynamicLister(k.Dynamic, x.Resource), client: k.Dynamic,
			transform: x.Transform, handler: x.Handler, named: c.Name.WithResource(x.Resource), spare: true})
	}
	for _, sp := range specs {
		sp.metrics = c.Metrics
		kind, err := newKind(sp, c.Clock, tell)
		if err != nil {
			return nil, fmt.Errorf("watching %s: %w", sp.name, err)
		}
		s.kinds = append(s.kinds, kind)
	}
	return s, nil
}

// Run watches until ctx ends.
func (s *Set) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, k := range s.kinds {
		running.Go(func() { k.run(ctx) })
	}
	running.Wait()
}

// Kinds is the state of every kind, in a fixed order.
func (s *Set) Kinds() []Status {
	list := make([]Status, 0, len(s.kinds))
	for _, k := range s.kinds {
		list = append(list, k.current())
	}
	return list
}

// Usable says whether decisions can be made with the kind in this state for the first time: it is in the cache, or it is
// known not to be served, or it is Node, without which nothing is proven. Nothing is ever concluded from a list that
// failed.
func (s Status) Usable() bool {
	if s.Synced || s.Spare && (s.State == Absent || s.State == Forbidden) {
		return true
	}
	switch s.State {
	case Absent:
		return s.Kind == facts.KindTrainJob || s.Kind == facts.KindJobSet || s.Kind == facts.KindTrainingRuntime
	case Forbidden:
		return s.Kind == facts.KindNode || s.Kind == facts.KindTrainingRuntime
	}
	return false
}

// WaitUsable waits until every kind is usable. It is false when ctx ends first.
func (s *Set) WaitUsable(ctx context.Context) bool {
	for {
		usable := true
		for _, st := range s.Kinds() {
			usable = usable && st.Usable()
		}
		if usable {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-s.changed:
		}
	}
}

// Objects lists what the cache of a kind holds.
func (s *Set) Objects(kind string) []any {
	for _, k := range s.kinds {
		if k.name == kind {
			return k.informer.GetStore().List()
		}
	}
	return nil
}

func dynamicLister(c dynamic.Interface, r schema.GroupVersionResource) lister {
	return lister{
		list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return c.Resource(r).List(ctx, o)
		},
		watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return c.Resource(r).Watch(ctx, o)
		},
	}
}

func metadataLister(c metadata.Interface, r schema.GroupVersionResource) lister {
	return lister{
		list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return c.Resource(r).List(ctx, o)
		},
		watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return c.Resource(r).Watch(ctx, o)
		},
	}
}

func jobSetLister(c jobsetclient.Interface) lister {
	return lister{
		list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return c.JobsetV1alpha2().JobSets(metav1.NamespaceAll).List(ctx, o)
		},
		watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return c.JobsetV1alpha2().JobSets(metav1.NamespaceAll).Watch(ctx, o)
		},
	}
}

func podLister(c kubernetes.Interface) lister {
	return lister{
		list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return c.CoreV1().Pods(metav1.NamespaceAll).List(ctx, o)
		},
		watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return c.CoreV1().Pods(metav1.NamespaceAll).Watch(ctx, o)
		},
	}
}

func nodeLister(c kubernetes.Interface) lister {
	return lister{
		list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return c.CoreV1().Nodes().List(ctx, o)
		},
		watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return c.CoreV1().Nodes().Watch(ctx, o)
		},
	}
}
