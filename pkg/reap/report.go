package reap

import (
	"time"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/nodeproof"
)

// Status is what a stop made of one object.
type Status string

// The statuses.
const (
	StatusGone        Status = "Gone"        // the instance is gone; of a pod, its processes provably too
	StatusReplaced    Status = "Replaced"    // the instance is gone, and its name belongs to another that was not touched
	StatusTerminating Status = "Terminating" // it was asked to go, or waits for what makes it to go
	StatusUnproven    Status = "Unproven"    // a pod of which nobody can tell whether its processes run
	StatusForbidden   Status = "Forbidden"   // this client may not delete it
	StatusFailed      Status = "Failed"      // it could not be deleted, or must not be
)

// Item is what became of one object.
type Item struct {
	Remain
	Status Status
	// Detail says why, in words: what it waits for, or what the API server answered.
	Detail string
}

// Report is what became of a stop.
type Report struct {
	Job facts.JobKey
	// Items are the TrainJob and every remain that was found, by reference.
	Items []Item
	// TimedOut: the time was up before nothing was left.
	TimedOut bool
	// DryRun: nothing was deleted.
	DryRun bool
	// Elapsed is how long it took.
	Elapsed time.Duration
}

// Class is what a report comes to.
type Class uint8

// The classes, the best first.
const (
	Cleared Class = iota // nothing remains
	StillAlive
	StillUnproven
	NotStopped // something could not be deleted
)

// Class gives the report's worst class: what could not be deleted, then what is unproven, then what is alive.
func (r *Report) Class() Class {
	class := Cleared
	for i := range r.Items {
		switch r.Items[i].Status {
		case StatusForbidden, StatusFailed:
			class = max(class, NotStopped)
		case StatusUnproven:
			class = max(class, StillUnproven)
		case StatusTerminating:
			class = max(class, StillAlive)
		}
	}
	return class
}

// Left counts the objects that are there, and the pods by verdict.
func (r *Report) Left() (objects int, pods map[nodeproof.Verdict]int) {
	pods = map[nodeproof.Verdict]int{}
	for i := range r.Items {
		it := &r.Items[i]
		if it.Verdict != "" {
			pods[it.Verdict]++
		}
		if !it.Removed {
			objects++
		}
	}
	return objects, pods
}

// Waiting lists the nodes that pods which are not Gone are on, each once.
func (r *Report) Waiting() []string {
	var names []string
	seen := map[string]bool{}
	for i := range r.Items {
		it := &r.Items[i]
		if it.Verdict != "" && it.Verdict != nodeproof.Gone && it.Node != "" && !seen[it.Node] {
			seen[it.Node] = true
			names = append(names, it.Node)
		}
	}
	return names
}
