package settle

import (
	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/nodeproof"
	"github.com/orphand/orphand/pkg/retention"
	"k8s.io/apimachinery/pkg/types"
)

// PodsOf lists, in no order, the pods of a job as retention reads them, without those that are over and gone; false when
// the job is not known, or its pods cannot be seen. A pod that was not judged yet is not over. Pods of the job's name that
// nobody can assign, for want of the JobSet between them, may be the job's and count.
func (e *Engine) PodsOf(key facts.JobKey) ([]retention.Pod, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.jobs[key] == nil || e.podsUnseen {
		return nil, false
	}
	var list []retention.Pod
	for other, j := range e.byName[key.Incarnations()] {
		if other != key && !other.Unknown() {
			continue
		}
		for _, p := range j.pods {
			if r := p.retained(); !r.Over || !r.Removed {
				list = append(list, r)
			}
		}
	}
	return list, true
}

// SetPodsSeen says whether pods are watched now. While they are not, what the engine knows of a job that came since is no
// more than that it came: not that it has no pods.
func (e *Engine) SetPodsSeen(seen bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.podsUnseen = !seen
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

// Keeps says whether an object of the job, other than its pods, asks to be kept.
func (e *Engine) Keeps(key facts.JobKey) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if j := e.jobs[key]; j != nil {
		for _, o := range j.objects {
			if o.Keep {
				return true
			}
		}
	}
	return false
}

func (p *pod) retained() retention.Pod {
	return retention.Pod{Pod: p.h.Pod, Over: p.said.Verdict == nodeproof.Gone, Removed: p.h.Removal != nodeproof.Present}
}
