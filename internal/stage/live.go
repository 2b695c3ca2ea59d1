package stage

import (
	"context"

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
	if l.count != nil {
		switch {
		case err == nil && found != nil:
			l.count(k.Kind, informers.OutcomeFound)
		case err == nil, apierrors.IsNotFound(err):
			l.count(k.Kind, informers.OutcomeAbsent)
		case apierrors.IsForbidden(err):
			l.count(k.Kind, informers.OutcomeForbidden)
		default:
			l.count(k.Kind, informers.OutcomeFailed)
		}
	}
	l.api.wait("get", k, namespace, name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return found, err
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

func (l live) Remains(_ context.Context, job facts.JobKey, jobSets []types.UID) ([]*facts.Object, error) {
	owners := map[types.UID]bool{job.UID: true}
	for _, uid := range jobSets {
		owners[uid] = true
	}
	seen := map[types.UID]bool{}
	var found []*facts.Object
	for _, r := range informers.RemainNames(job.Name) {
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
