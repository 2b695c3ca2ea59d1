package app

import (
	"cmp"
	"context"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/signals"
)

func TestAFindingIsAnEventOnTheTrainJobWhileItIsThereAndOnItsRecordAfterwards(t *testing.T) {
	finding := signals.Event{Finding: signals.Overlap, Phase: signals.Started, Namespace: "team-a", Job: "llm", UID: "0b9a7c3e-1",
		Pod: "llm-node-0-0-x", PodUID: "p1", Message: "two pods of rank 0 may be running"}
	cases := map[string]struct {
		event   signals.Event
		present bool
		record  types.UID
		leads   bool
		kind    string
		about   types.UID
		normal  bool
		// reason is Overlap, and note any, unless they are given.
		reason, note string
	}{
		"on the TrainJob":                 {event: finding, present: true, leads: true, kind: "TrainJob", about: "0b9a7c3e-1"},
		"on the record":                   {event: finding, record: "r1", leads: true, kind: "Orphan", about: "r1"},
		"its end is nothing to mind":      {event: func(e signals.Event) signals.Event { e.Phase = signals.Ended; return e }(finding), present: true, leads: true, kind: "TrainJob", about: "0b9a7c3e-1", normal: true},
		"not by a replica that stands by": {event: finding, present: true},
		"a mode that is not the one asked for, on the Lease": {event: modeEvent(modeObserve, "not permitted: delete on pods"), leads: true, kind: "Lease", about: "l1",
			reason: "ModeChanged", note: "observe although --mode is enforce: not permitted: delete on pods"},
		"a policy that is refused, on the Lease": {event: signals.Event{Code: signals.PolicyRefused, Phase: signals.Started, Reason: "4:1: rule: unknown key"}, leads: true,
			kind: "Lease", about: "l1", reason: "PolicyRefused", note: "the last good one stays in force. 4:1: rule: unknown key"},
		"a policy that is good again, on the Lease": {event: signals.Event{Code: signals.PolicyRefused, Phase: signals.Ended}, leads: true, kind: "Lease", about: "l1", reason: "PolicyRefused", normal: true},
		"the mode that is asked for, on the Lease":  {event: modeEvent(modeEnforce, ""), leads: true, kind: "Lease", about: "l1", reason: "ModeChanged", normal: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			kube := fake.NewClientset(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "orphand", UID: "l1"}})
			made := make(chan *eventsv1.Event, 1)
			kube.PrependReactor("create", "events", func(a ktesting.Action) (bool, runtime.Object, error) {
				e := a.(ktesting.CreateAction).GetObject().(*eventsv1.Event)
				made <- e
				return true, e, nil
			})
			a := newAnnouncer(kube, clock.RealClock{}, func() bool { return c.leads },
				func(facts.JobKey) bool { return c.present }, func(facts.JobKey) types.UID { return c.record },
				standIn(&leadership{leases: kube.CoordinationV1(), options: Options{LeaseNS: "team-a", LeaseName: "orphand"}}, kube))
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- a.run(ctx) }()
			a.tell(c.event)
			if c.kind == "" {
				a.tell(signals.Event{Code: signals.JobStateChanged, Job: "llm"}) // not a finding
				cancel()
				if err := <-done; err != nil || len(made) > 0 {
					t.Errorf("%v, %d Events", err, len(made))
				}
				return
			}
			select {
			case e := <-made:
				if e.Regarding.Kind != c.kind || e.Regarding.UID != c.about || e.Reason != cmp.Or(c.reason, "Overlap") || !strings.Contains(e.Note, c.note) || e.Namespace != "team-a" || (e.Type == "Normal") != c.normal {
					t.Errorf("%+v", e)
				}
			case <-time.After(30 * time.Second):
				t.Error("no Event")
			}
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}
