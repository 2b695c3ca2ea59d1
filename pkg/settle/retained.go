package settle

import (
	"cmp"
	"slices"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/nodeproof"
	"github.com/orphand/orphand/pkg/retention"
)

// PodsOf lists the pods of a job as retention reads them, by UID; false when the job is not known. A pod that was not
// judged yet is not over.
func (e *Engine) PodsOf(key facts.JobKey) ([]retention.Pod, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	j := e.jobs[key]
	if j == nil {
		return nil, false
	}
	list := make([]retention.Pod, 0, len(j.pods))
	for _, p := range j.pods {
		list = append(list, retention.Pod{Pod: p.h.Pod, Over: p.said.Verdict == nodeproof.Gone, Removed: p.h.Removal != nodeproof.Present})
	}
	slices.SortFunc(list, func(a, b retention.Pod) int { return cmp.Compare(a.UID, b.UID) })
	return list, true
}
