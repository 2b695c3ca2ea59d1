package stage

import (
	"context"
	"slices"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/informers"
	"github.com/orphand/orphand/pkg/settle"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// live reads what the API server holds, past every cache.
type live struct {
	api *API
	// count is told of every read.
	count func(kind, outcome string)
}

var _ settle.Live = live{}

func read[R any](l live, k Kind, namespace, name string) (*R, error) {
	var found *R
	err := l.api.Request("get", k, namespace, name)
	if err == nil {
		if v := l.api.held(k, namespace, name); v != nil {
			found = any(v.record).(*R)
		}
	}
	l.counted(k, found != nil, err)
	l.api.wait("get", k, namespace, name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return found, err
}

func (l live) counted(k Kind, found bool, err error) {
	if l.count == nil {
		return
	}
	switch {
	case err == nil && found:
		l.count(k.Kind, informers.OutcomeFound)
	case err == nil, apierrors.IsNotFound(err):
		l.count(k.Kind, informers.OutcomeAbsent)
	case apierrors.IsForbidden(err):
		l.count(k.Kind, informers.OutcomeForbidden)
	default:
		l.count(k.Kind, informers.OutcomeFailed)
	}
}

func (l live) Node(_ context.Context, name string) (*facts.Node, error) {
	return read[facts.Node](l, Node, "", name)
}

func (l live) TrainJob(_ context.Context, namespace, name string) (*facts.TrainJob, error) {
	return read[facts.TrainJob](l, TrainJob, namespace, name)
}

func (l live) JobSet(_ context.Context, namespace, name string) (*facts.Object, error) {
	return read[facts.Object](l, JobSet, namespace, name)
}

func (l live) Pod(_ context.Context, namespace, name string) (*facts.Pod, error) {
	return read[facts.Pod](l, Pod, namespace, name)
}

func (l live) Survey(_ context.Context, namespace, name string, not []types.UID) ([]*facts.Object, []*facts.Pod, error) {
	var objects []*facts.Object
	js, err := read[facts.Object](l, JobSet, namespace, name)
	if err != nil {
		return nil, nil, err
	}
	if js != nil && !slices.Contains(not, js.UID) {
		objects = append(objects, js)
	}
	selects := func(o Object) bool {
		labels := o.GetLabels()
		return o.GetNamespace() == namespace && labels[facts.LabelJobSetName] == name && !slices.Contains(not, types.UID(labels[facts.LabelJobSetUID]))
	}
	jobs, err := l.list(Job, namespace, selects)
	if err != nil {
		return nil, nil, err
	}
	for _, r := range jobs {
		objects = append(objects, r.(*facts.Object))
	}
	records, err := l.list(Pod, namespace, selects)
	if err != nil {
		return nil, nil, err
	}
	var pods []*facts.Pod
	for _, r := range records {
		pods = append(pods, r.(*facts.Pod))
	}
	return objects, pods, nil
}

// list lists what the API server holds, past every cache.
func (l live) list(k Kind, namespace string, selects func(Object) bool) ([]facts.Record, error) {
	err := l.api.Request("list", k, namespace, "")
	var found []facts.Record
	if err == nil {
		for _, o := range l.api.List(k) {
			if selects(o) {
				found = append(found, l.api.held(k, o.GetNamespace(), o.GetName()).record)
			}
		}
	}
	l.counted(k, len(found) > 0, err)
	l.api.wait("list", k, namespace, "")
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return found, err
}

func (l live) Remains(_ context.Context, job facts.JobKey, jobSets []types.UID, services []string) ([]*facts.Object, error) {
	owners := map[types.UID]bool{job.UID: true}
	for _, uid := range jobSets {
		owners[uid] = true
	}
	seen := map[types.UID]bool{}
	var found []*facts.Object
	for _, r := range informers.RemainNames(job.Name, services) {
		for _, k := range l.api.named(r.Kind) {
			o, err := read[facts.Object](l, k, job.Namespace, r.Name)
			if err != nil {
				return nil, err
			}
			if o != nil && owners[o.Owner.UID] && !seen[o.UID] {
				seen[o.UID] = true
				found = append(found, o)
			}
		}
	}
	return found, nil
}
