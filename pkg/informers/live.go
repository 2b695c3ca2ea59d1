package informers

import (
	"context"
	"slices"
	"strings"

	"github.com/orphand/orphand/pkg/facts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// The outcomes of a live read, for counting.
const (
	OutcomeFound     = "Found"
	OutcomeAbsent    = "Absent"
	OutcomeForbidden = "Forbidden"
	OutcomeFailed    = "Failed"
)

// Outcomes lists every outcome of a live read.
func Outcomes() []string {
	return []string{OutcomeFound, OutcomeAbsent, OutcomeForbidden, OutcomeFailed}
}

// LiveKinds lists the kinds that are read live.
func LiveKinds() []string {
	return []string{facts.KindNode, facts.KindTrainJob, facts.KindJobSet, facts.KindJob, facts.KindPod, facts.KindConfigMap, facts.KindSecret,
		facts.KindService, facts.KindPodGroup}
}

// Live reads the API server itself: GETs without a resourceVersion, which etcd answers, not a cache. A nil record with a nil
// error means that there is no such object.
type Live struct {
	Clients Clients
	// Count is told of every read; nil for nobody.
	Count func(kind, outcome string)
}

// Node reads a Node.
func (l *Live) Node(ctx context.Context, name string) (*facts.Node, error) {
	return get(l, facts.KindNode, facts.FromNode, func() (*corev1.Node, error) {
		return l.Clients.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	})
}

// Pod reads a pod.
func (l *Live) Pod(ctx context.Context, namespace, name string) (*facts.Pod, error) {
	return get(l, facts.KindPod, facts.FromPod, func() (*corev1.Pod, error) {
		return l.Clients.Kube.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	})
}

// JobSet reads a JobSet.
func (l *Live) JobSet(ctx context.Context, namespace, name string) (*facts.Object, error) {
	return get(l, facts.KindJobSet, facts.FromJobSet, func() (*jobset.JobSet, error) {
		j, err := l.Clients.JobSets.JobsetV1alpha2().JobSets(namespace).Get(ctx, name, metav1.GetOptions{})
		return j, l.otherwise(err, jobset.GroupVersion.WithResource("jobsets"))
	})
}

// TrainJob reads a TrainJob.
func (l *Live) TrainJob(ctx context.Context, namespace, name string) (*facts.TrainJob, error) {
	var unreadable error
	t, err := get(l, facts.KindTrainJob, func(u *unstructured.Unstructured) *facts.TrainJob {
		t, err := facts.FromTrainJob(u)
		unreadable = err
		return t
	}, func() (*unstructured.Unstructured, error) {
		u, err := l.Clients.Dynamic.Resource(facts.TrainJobs).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		return u, l.otherwise(err, facts.TrainJobs)
	})
	if err == nil {
		err = unreadable
	}
	return t, err
}

// otherwise tells the 404 of a path, which also a version that is served no more answers, from that of an object: of these
// kinds nothing may be concluded from an object's absence that is there in another version.
func (l *Live) otherwise(err error, r schema.GroupVersionResource) error {
	if apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		if other := facts.ServedOtherwise(l.Clients.Kube.Discovery(), r); other != nil {
			return other
		}
	}
	return err
}

func get[O any, R any](l *Live, kind string, record func(*O) *R, ask func() (*O, error)) (*R, error) {
	o, err := ask()
	outcome := OutcomeFound
	switch {
	case apierrors.IsNotFound(err):
		outcome = OutcomeAbsent
	case apierrors.IsForbidden(err):
		outcome = OutcomeForbidden
	case err != nil:
		outcome = OutcomeFailed
	}
	if l.Count != nil {
		l.Count(kind, outcome)
	}
	switch {
	case outcome == OutcomeAbsent:
		return nil, nil
	case err != nil:
		return nil, err
	}
	return record(o), nil
}

// surveyPage is how many pods are listed at once: a job of the same name that lives may have many.
const surveyPage = 500

// Survey finds what of a job may run or start a run: the JobSet of its name, and the Jobs and pods that carry its name, except
// those of the given JobSets, which are other jobs'.
func (l *Live) Survey(ctx context.Context, namespace, name string, not []types.UID) ([]*facts.Object, []*facts.Pod, error) {
	var objects []*facts.Object
	js, err := l.JobSet(ctx, namespace, name)
	if err != nil {
		return nil, nil, err
	}
	if js != nil && !slices.Contains(not, js.UID) {
		objects = append(objects, js)
	}
	selector := facts.LabelJobSetName + "=" + name
	if len(not) > 0 {
		uids := make([]string, len(not))
		for i, uid := range not {
			uids[i] = string(uid)
		}
		selector += "," + facts.LabelJobSetUID + " notin (" + strings.Join(uids, ",") + ")"
	}
	jobs, err := l.Clients.Metadata.Resource(batchJobs).Namespace(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if l.counts(facts.KindJob, err == nil && len(jobs.Items) > 0, err); err != nil {
		return nil, nil, err
	}
	for i := range jobs.Items {
		objects = append(objects, facts.FromMeta(batchJobs.Group, facts.KindJob, &jobs.Items[i]))
	}
	var pods []*facts.Pod
	for page := (metav1.ListOptions{LabelSelector: selector, Limit: surveyPage}); ; {
		list, err := l.Clients.Kube.CoreV1().Pods(namespace).List(ctx, page)
		if l.counts(facts.KindPod, err == nil && len(list.Items) > 0, err); err != nil {
			return nil, nil, err
		}
		for i := range list.Items {
			pods = append(pods, facts.FromPod(&list.Items[i]))
		}
		if page.Continue = list.Continue; page.Continue == "" {
			return objects, pods, nil
		}
	}
}

// counts counts one read.
func (l *Live) counts(kind string, found bool, err error) {
	if l.Count == nil {
		return
	}
	switch {
	case err == nil && found:
		l.Count(kind, OutcomeFound)
	case err == nil, apierrors.IsNotFound(err):
		l.Count(kind, OutcomeAbsent)
	case apierrors.IsForbidden(err):
		l.Count(kind, OutcomeForbidden)
	default:
		l.Count(kind, OutcomeFailed)
	}
}

// remain is an object that Trainer v2.3.0 or JobSet v0.12.0 makes for a job under a fixed name, without a label that names
// the job: its owner reference is the only link.
type remain struct {
	kind     string
	resource schema.GroupVersionResource
	suffix   string
}

func remains() []remain {
	core := func(resource string) schema.GroupVersionResource {
		return corev1.SchemeGroupVersion.WithResource(resource)
	}
	return []remain{
		{facts.KindConfigMap, core("configmaps"), "-runtime-snapshot"},
		{facts.KindConfigMap, core("configmaps"), "-mpi-hostfile"},
		{facts.KindConfigMap, core("configmaps"), "-flux-entrypoint"},
		{facts.KindConfigMap, core("configmaps"), "-tls-config"},
		{facts.KindSecret, core("secrets"), "-mpi-ssh-auth"},
		{facts.KindSecret, core("secrets"), "-flux-curve"},
		{facts.KindService, core("services"), ""},
		{facts.KindPodGroup, schema.GroupVersionResource{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Resource: "podgroups"}, ""},
		{facts.KindPodGroup, schema.GroupVersionResource{Group: "scheduling.volcano.sh", Version: "v1beta1", Resource: "podgroups"}, ""},
	}
}

// RemainNames lists the kind and name of every object that Remains looks for.
func RemainNames(job string, services []string) []facts.Ref {
	var list []facts.Ref
	for _, r := range named(job, services) {
		list = append(list, facts.Ref{Kind: r.kind, Name: r.name})
	}
	return list
}

// namedRemain is a remain with the name that it has for one job.
type namedRemain struct {
	remain
	name string
}

func named(job string, services []string) []namedRemain {
	var list []namedRemain
	for _, r := range remains() {
		list = append(list, namedRemain{r, job + r.suffix})
		if r.kind != facts.KindService {
			continue
		}
		for _, name := range services {
			if name != job {
				list = append(list, namedRemain{r, name})
			}
		}
	}
	return list
}

// Remains finds what is left of a job among the kinds that are not watched. Only an owner reference with the job's UID, or
// that of one of its JobSets, makes an object the job's: the next incarnation has the same names. An object that may not be
// read is listed without a UID.
func (l *Live) Remains(ctx context.Context, job facts.JobKey, jobSets []types.UID, services []string) ([]*facts.Object, error) {
	owners := map[types.UID]bool{job.UID: true}
	for _, uid := range jobSets {
		owners[uid] = true
	}
	var found []*facts.Object
	for _, r := range named(job.Name, services) {
		o, err := get(l, r.kind, func(m *metav1.PartialObjectMetadata) *facts.Object {
			return facts.FromMeta(r.resource.Group, r.kind, m)
		},
			func() (*metav1.PartialObjectMetadata, error) {
				return l.Clients.Metadata.Resource(r.resource).Namespace(job.Namespace).Get(ctx, r.name, metav1.GetOptions{})
			})
		if apierrors.IsForbidden(err) {
			// Nobody can say that it is not there: it counts as left, without a UID, and the job as settled but not cleared.
			found = append(found, &facts.Object{Meta: facts.Meta{Namespace: job.Namespace, Name: r.name}, Kind: r.kind, Group: r.resource.Group})
			continue
		}
		if err != nil {
			return nil, err
		}
		if o != nil && owners[o.Owner.UID] {
			found = append(found, o)
		}
	}
	return found, nil
}
