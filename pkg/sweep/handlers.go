package sweep

import (
	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/informers"
	"github.com/orphand/orphand/pkg/retention"
	"k8s.io/client-go/tools/cache"
)

// ObjectHandlers takes the events of a watch of one kind, whose records are *retention.Object.
func (s *Sweeper) ObjectHandlers(k *retention.Kind) cache.ResourceEventHandler {
	return informers.Handlers(
		func(o *retention.Object, _ bool) { s.ObjectSeen(o) },
		func(o *retention.Object, _ informers.End) { s.ObjectGone(k, o.Meta) },
		func(m facts.Meta) *retention.Object {
			return &retention.Object{Object: facts.Object{Meta: m, Kind: k.Kind, Group: k.Group}, Of: k}
		})
}

// PodHandlers takes the events of a watch of pods by one selector, whose records are *informers.JobPod.
func (s *Sweeper) PodHandlers(selector string) cache.ResourceEventHandler {
	return informers.Handlers(
		func(p *informers.JobPod, _ bool) {
			if p.Job != "" {
				s.PodSeen(selector, p.Job, &p.Pod)
			}
		},
		func(p *informers.JobPod, _ informers.End) { s.PodGone(p.Meta) },
		func(m facts.Meta) *informers.JobPod { return &informers.JobPod{Pod: facts.Pod{Meta: m}} })
}
