package sim

import (
	"fmt"
	"math"
	"time"

	"github.com/orphand/orphand/internal/stage"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// World is one history while it is played.
type World struct {
	plan     Plan
	start    time.Time
	stage    *stage.Stage
	daemon   *stage.Daemon
	api      *apiServer
	machines []*machine
	truth    *truth
	judge    *judge
	film     *film
	serial   int
	// due is when the newest write of each kind reaches the watches: one kind's events never overtake one another.
	due    map[stage.Kind]time.Duration
	watchD map[stage.Kind]*dice
	delay  map[stage.Kind]slowness
	reads  int
	readsD *dice
	events int
	lies   []Lie
	// orphaned are the JobSets that were there when their TrainJob was deleted with cascade=orphan, by its UID.
	orphaned map[types.UID][]types.UID
	// records outlive orphand's restarts; nil where they cannot be kept.
	records *stage.Records
	faults  []stage.Fault
	// scenes are the machines of troubles that have begun; spared are those that run on without their Node on purpose;
	// lastDeleted is the newest deleted TrainJob of each plan.
	scenes      map[int]*machine
	spared      map[*machine]bool
	lastDeleted map[int]deletion
	// righting says that everything is being put right.
	righting bool
	// leaving is when each object was asked to go, departed when it was removed; enforcing is what there is where orphand deletes, nil elsewhere.
	leaving   map[types.UID]time.Duration
	departed  map[types.UID]time.Duration
	enforcing *enforcing

	controllers []*controller
	jobs        *jobController
	sets        *jobSetController
	trainer     *trainer
	collector   *collector
	scheduler   *scheduler
	lifecycle   *lifecycle
	podGC       *podGC
	kueue       *kueue
}

// deletion is the end of a TrainJob.
type deletion struct {
	uid types.UID
	at  time.Duration
}

// slowness is how far the watch of a kind lags behind the API server.
type slowness struct{ from, to time.Duration }

func (w *World) at() time.Duration { return w.stage.Loop.Now().Sub(w.start) }

func (w *World) after(d time.Duration, do func()) { w.stage.Loop.After(d, do) }

// clockOf is a clock that is skew ahead of orphand's, in the whole seconds of metav1.Time.
func (w *World) clockOf(skew time.Duration) metav1.Time {
	return metav1.NewTime(w.stage.Loop.Now().Add(skew).Truncate(time.Second))
}

// put writes to the API server on the stage, which tells the watches in time.
func (w *World) put(o stage.Object) {
	d := w.delivery(stage.KindOf(o))
	if err := w.stage.API.Put(o, d); err != nil {
		panic(fmt.Sprintf("the world wrote an object that nobody can read: %v", err))
	}
	if o.GetDeletionTimestamp() != nil {
		w.leaves(o)
	}
	w.events++
	w.film.wrote(o, false, d)
}

func (w *World) leaves(o stage.Object) {
	if _, known := w.leaving[o.GetUID()]; !known {
		w.leaving[o.GetUID()] = w.at()
	}
}

func (w *World) remove(o stage.Object) {
	d := w.delivery(stage.KindOf(o))
	if err := w.stage.API.Remove(o, d); err != nil {
		panic(fmt.Sprintf("the world removed an object that nobody can read: %v", err))
	}
	w.leaves(o)
	w.departed[o.GetUID()] = w.at()
	w.events++
	w.film.wrote(o, true, d)
}

func (w *World) delivery(k stage.Kind) stage.Delivery {
	now := w.at()
	s := w.delay[k]
	at := max(now+w.watchD[k].between(s.from, s.to), w.due[k])
	w.due[k] = at
	return stage.Delivery{After: at - now}
}

// changed tells the components of the cluster of a write. They hear of it in their own time.
func (w *World) changed(o stage.Object) {
	switch o := o.(type) {
	case *corev1.Pod:
		if o.Spec.NodeName != "" {
			for _, m := range w.machines {
				if m.kubelet != nil && m.hostname == o.Spec.NodeName {
					m.kubelet.changed(o.UID)
				}
			}
		}
	case *corev1.Node:
		w.nodeWritten(o)
	}
	for _, c := range w.controllers {
		c.poke()
	}
}

// forever is a moment that no history reaches.
const forever = time.Duration(math.MaxInt64 / 4)
