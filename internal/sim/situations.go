package sim

import (
	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/reap"
)

// Situations of a DELETE that are counted beside its answer and what held it back.
const (
	carriedOut   = "carried out "
	answered     = "answered "
	refused      = "refused "
	inFlight     = "in flight "
	otherObject  = "held off: the name is another object's"
	hasChanged   = "held off: the object has changed"
	answerLost   = "carried out, and the answer lost"
	sleptOnWay   = "sent, and then slept"
	leaderNoMore = "carried out for one that leads no more"
	byRival      = "carried out for the rival"
)

// changes are what somebody does to an object while a DELETE of it is under way.
func changes() []string { return []string{"replaced", "adopted", "kept", "touched", "deleted"} }

// missingDeletes lists the situations of deleting that never occurred.
func (t *Tally) missingDeletes() []string {
	must := []string{otherObject, hasChanged, answerLost, sleptOnWay, leaderNoMore, byRival}
	for _, k := range []string{facts.KindJobSet, facts.KindJob, facts.KindPod, facts.KindConfigMap, facts.KindTrainingRuntime} {
		must = append(must, carriedOut+k)
	}
	for _, o := range reap.Outcomes() {
		must = append(must, answered+string(o))
	}
	for _, c := range changes() {
		must = append(must, inFlight+c)
	}
	for _, r := range reap.Reasons() {
		if r != reap.ObserveOnly { // the other histories
			must = append(must, refused+string(r))
		}
	}
	var list []string
	for _, m := range must {
		if t.Deleting[m] == 0 {
			list = append(list, m)
		}
	}
	return list
}
