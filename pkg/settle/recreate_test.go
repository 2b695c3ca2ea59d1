package settle_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/settle"
	"github.com/orphand/orphand/pkg/signals"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTheCountOfALoopGoesOnWithoutALineForEachRound(t *testing.T) {
	f := newFound(t)
	deleting := trainJobOf("tj", "T1")
	deleting.SetFinalizers([]string{metav1.FinalizerDeleteDependents})
	at := metav1.NewTime(epoch.Add(time.Second))
	deleting.SetDeletionTimestamp(&at)
	f.put(0, trainJobOf("tj", "T1"), 0)
	f.put(0, jobSetOf("tj", "J0", "T1"), 0)
	f.run(0)
	f.daemon.Start()
	f.put(time.Second, deleting, 0)
	for n := range 20 {
		round := time.Duration(n) * 3 * time.Second
		f.remove(2*time.Second+round, jobSetOf("tj", fmt.Sprint("J", n), "T1"))
		f.put(3*time.Second+round, jobSetOf("tj", fmt.Sprint("J", n+1), "T1"), 0)
	}
	f.run(time.Minute + 2*time.Second)
	n, recorded := f.daemon.Process().(*settle.Engine).Note(facts.JobKey{Namespace: "team-a", Name: "tj", UID: "T1"})
	loops := slices.DeleteFunc(n.Findings, func(n settle.FindingNote) bool { return n.Code != signals.RecreateLoop })
	if !recorded || len(loops) != 1 || loops[0].Message != "the JobSet was created 21 times" {
		t.Errorf("the record says %+v", n.Findings)
	}
	if told := slices.DeleteFunc(f.told, func(s string) bool { return s != string(signals.RecreateLoop) }); len(told) != 1 {
		t.Errorf("%d lines", len(told))
	}
}
