package settle

import (
	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/nodeproof"
	"github.com/orphand/orphand/pkg/retention"
	"k8s.io/apimachinery/pkg/types"
)

// PodsOf lists, in no order, the pods of a job as retention reads them, without those that are over and gone; false when
// the job is not known. A pod that was not judged yet is not over.
func (e *Engine) PodsOf(key facts.JobKey) ([]retention.Pod, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	j := e.jobs[key]
	if j == nil {
		return nil, false
	}
	var list []retention.Pod
	for _, p := range j.pods {
		if r := p.retained(); !r.Over || !r.Removed {
			list = append(list, r)
		}
	}
	return list, true
}

// JobOf names the job that a pod is of, and says whether the pod is over; false when the pod is not known.
func (e *Engine) JobOf(pod types.UID) (job facts.JobKey, over, known bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.pods[pod]
	if p == nil {
		return facts.JobKey{}, false, false
	}
	return p.job.key, p.retained().Over, true
}

func (p *pod) retained() retention.Pod {
	return retention.Pod{Pod: p.h.Pod, Over: p.said.Verdict == nodeproof.Gone, Removed: p.h.Removal != nodeproof.Present}
}
