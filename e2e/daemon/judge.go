package daemon

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/orphand/orphand/e2e/cluster"
	"github.com/orphand/orphand/pkg/signals"
)

// Judge compares what orphand says with the processes that really live. It knows
// by watches of its own whose each pod is.
type Judge struct {
	c    *cluster.Cluster
	stop context.CancelFunc
	done sync.WaitGroup

	mu sync.Mutex
	// jobSetOf says which JobSet each pod is of, trainJobOf which TrainJob each
	// JobSet is of, by UIDs.
	jobSetOf, trainJobOf map[types.UID]types.UID
	// gone are the pods that were said to be Gone, over the jobs that were last said
	// to be Settled or Cleared, each with the line that said so.
	gone, over map[types.UID]Event
	lies       []string
	told       map[string]bool
	words      int
}

// forever is a deadline, so that nobody gives the watches a shorter one.
const forever = 1000 * time.Hour

func newJudge(c *cluster.Cluster) *Judge {
	ctx, cancel := context.WithTimeout(context.Background(), forever)
	j := &Judge{c: c, stop: cancel,
		jobSetOf: map[types.UID]types.UID{}, trainJobOf: map[types.UID]types.UID{},
		gone: map[types.UID]Event{}, over: map[types.UID]Event{}, told: map[string]bool{}}
	j.done.Go(func() {
		// Both go on until they are called off; an error says no more than that.
		_ = c.WaitPods(ctx, cluster.PodSelector{}, func(pods []*corev1.Pod) bool { return j.seePods(pods) })
	})
	j.done.Go(func() {
		_ = c.WaitObjects(ctx, cluster.JobSets, "", func(sets []*unstructured.Unstructured) bool { return j.seeJobSets(sets) })
	})
	return j
}

func (j *Judge) close() {
	j.stop()
	j.done.Wait()
}

// seePods never has enough.
func (j *Judge) seePods(pods []*corev1.Pod) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, p := range pods {
		if uid := p.Labels[cluster.LabelJobSetUID]; uid != "" {
			j.jobSetOf[p.UID] = types.UID(uid)
		}
	}
	return false
}

// seeJobSets never has enough.
func (j *Judge) seeJobSets(sets []*unstructured.Unstructured) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, s := range sets {
		if owner := metav1.GetControllerOf(s); owner != nil {
			j.trainJobOf[s.GetUID()] = owner.UID
		}
	}
	return false
}

// hear compares at once each word that must be true of the processes.
func (j *Judge) hear(e Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case e.Code == signals.PodVerdictChanged && e.Verdict == "Gone":
		j.gone[e.PodUID] = e
	case e.Code == signals.PodVerdictChanged:
		if before, ok := j.gone[e.PodUID]; ok {
			j.lie(fmt.Sprintf("orphand took back that pod %s is Gone: it said %q, and then %q", e.Pod, before.Line, e.Line))
		}
		return
	case e.Code == signals.JobStateChanged && over(e.State):
		j.over[e.JobUID] = e
	case e.Code == signals.JobStateChanged:
		delete(j.over, e.JobUID)
		return
	default:
		return
	}
	j.words++
	j.compare()
}

// Lies compares all that was said with what lives now, and returns each
// contradiction that was found now or earlier.
func (j *Judge) Lies() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.compare()
	return slices.Clone(j.lies)
}

// Words is how many words were compared with the truth: pods called Gone, jobs
// called Settled or Cleared.
func (j *Judge) Words() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.words
}

// compare looks for live processes that must not be. Call it with mu held.
func (j *Judge) compare() {
	truth := j.c.Truth()
	for _, pod := range truth.Pods() {
		if e, ok := j.gone[pod]; ok {
			j.lie(fmt.Sprintf("orphand said that pod %s is Gone by %s, and its processes live:\n%s\nit said: %s", e.Pod, e.Reason, truth.OfPod(pod), e.Line))
		}
		for _, job := range j.jobsOf(pod) {
			if e, ok := j.over[job]; ok {
				j.lie(fmt.Sprintf("orphand said that job %s is %s, and a process of it lives:\n%s\nit said: %s", e.Job, e.State, truth.OfPod(pod), e.Line))
			}
		}
	}
}

// jobsOf are the names under which orphand may know a pod's job.
func (j *Judge) jobsOf(pod types.UID) []types.UID {
	jobSet, ok := j.jobSetOf[pod]
	if !ok {
		return nil
	}
	names := []types.UID{"jobset:" + jobSet}
	if job, ok := j.trainJobOf[jobSet]; ok {
		names = append(names, job)
	}
	return names
}

// lie notes a contradiction, once.
func (j *Judge) lie(text string) {
	first, _, _ := strings.Cut(text, "\n")
	if !j.told[first] {
		j.told[first] = true
		j.lies = append(j.lies, text)
	}
}

// Gone returns the pods that were said to be Gone.
func (j *Judge) Gone() []types.UID {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Sorted(maps.Keys(j.gone))
}
