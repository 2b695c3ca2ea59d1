package settle_test

import (
	"testing"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/informers"
	"github.com/orphand/orphand/pkg/settle"
	clocktesting "k8s.io/utils/clock/testing"
)

// idle is a queue on which nobody works.
type idle struct{}

func (idle) Add(facts.JobKey)                     {}
func (idle) AddAfter(facts.JobKey, time.Duration) {}

func TestAJobMayWaitFromTheEndOfItsTrainJob(t *testing.T) {
	e := settle.New(settle.Config{Options: settle.Defaults(), Clock: clocktesting.NewFakePassiveClock(epoch), Queue: idle{}})
	job := &facts.TrainJob{Meta: facts.Meta{Namespace: "team-a", Name: "tj", UID: "T1"}}
	if e.Patient(job.JobKey()) {
		t.Error("one that nobody knows")
	}
	e.TrainJobSeen(job, false)
	if e.Patient(job.JobKey()) {
		t.Error("one that lives")
	}
	e.TrainJobGone(job, informers.Final)
	if !e.Patient(job.JobKey()) {
		t.Error("one that is gone is to be worked on before those that live")
	}
	other := *job
	other.UID = "T2"
	e.TrainJobSeen(&other, false)
	if e.Patient(other.JobKey()) {
		t.Error("the next of the name")
	}
	e.TrainJobSeen(job, false) // it is there after all
	if e.Patient(job.JobKey()) {
		t.Error("one that is seen again")
	}
}
