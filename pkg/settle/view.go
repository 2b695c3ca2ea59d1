package settle

import (
	"cmp"
	"slices"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/nodeproof"
)

// JobView is what is held of a job at one moment.
type JobView struct {
	Key   facts.JobKey
	State State // empty while it was not yet judged
	Pods  []PodView
}

// PodView is what is held of a pod at one moment.
type PodView struct {
	facts.Ref
	Node string
	nodeproof.Pair
	// Proof is what made it Gone; nil while it is not.
	Proof *nodeproof.Evidence
}

// Jobs lists every job that is remembered, with its pods, by namespace, name and UID.
func (e *Engine) Jobs() []JobView {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := make([]JobView, 0, len(e.jobs))
	for key, j := range e.jobs {
		v := JobView{Key: key, State: j.state, Pods: make([]PodView, 0, len(j.pods))}
		for _, p := range j.pods {
			v.Pods = append(v.Pods, PodView{Ref: p.h.Pod.Ref(), Node: p.h.Pod.Node, Pair: p.said, Proof: p.h.Proof})
		}
		slices.SortFunc(v.Pods, func(a, b PodView) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID)) })
		list = append(list, v)
	}
	slices.SortFunc(list, func(a, b JobView) int {
		return cmp.Or(cmp.Compare(a.Key.Namespace, b.Key.Namespace), cmp.Compare(a.Key.Name, b.Key.Name), cmp.Compare(a.Key.UID, b.Key.UID))
	})
	return list
}

// Present says whether the job's TrainJob is there, as far as is known.
func (e *Engine) Present(key facts.JobKey) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	j := e.jobs[key]
	return j != nil && j.present
}
