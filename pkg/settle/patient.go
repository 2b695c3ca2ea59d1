package settle

import (
	"sync"

	"github.com/orphand/orphand/pkg/facts"
)

// patients are the jobs whose TrainJob is gone: what is left to do for them is mostly to read. It has a lock of its own, since
// the queue asks while its own is held, and the engine adds to the queue under the engine's.
type patients struct {
	mu   sync.Mutex
	keys map[facts.JobKey]bool
}

func (p *patients) note(key facts.JobKey, gone bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if gone {
		if p.keys == nil {
			p.keys = map[facts.JobKey]bool{}
		}
		p.keys[key] = true
	} else {
		delete(p.keys, key)
	}
}

// Patient says whether work on a job may wait for that on others. After thousands of deletions at once, what happens to a job
// that lives must not be told after all the reads that these take.
func (e *Engine) Patient(key facts.JobKey) bool {
	e.patients.mu.Lock()
	defer e.patients.mu.Unlock()
	return e.patients.keys[key]
}
