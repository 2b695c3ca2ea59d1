package app

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	"github.com/orphand/orphand/api/v1alpha1"
	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/ledger"
	"github.com/orphand/orphand/pkg/signals"
)

// announcer tells findings as Kubernetes Events: on the TrainJob while it is there, else on the job's record. The engine
// tells each finding once per cause, and client-go folds what is still said again into one Event. A change of the mode, and a
// policy that is refused, are told on what stands for orphand itself.
type announcer struct {
	clock    clock.WithTicker
	leads    func() bool
	present  func(facts.JobKey) bool
	recordOf func(facts.JobKey) types.UID
	// self reads live what stands for orphand in the cluster: the Lease that its replicas share, else its own pod; nil
	// where there is neither.
	self     func(context.Context) (*corev1.ObjectReference, error)
	recorder events.EventRecorder
	stream   events.EventBroadcaster
	waiting  chan announcement
}

// announcement is one finding and how often its object was looked for in vain.
type announcement struct {
	event signals.Event
	tries int
}

const (
	// announceBacklog is how many findings may wait to be told. More than that happen at once only in an incident that is
	// told by the log and the metrics as well; Events are for whoever describes one job.
	announceBacklog = 1024
	// announceEvery is the pause before the object of a finding is looked for again: a record is written within a second.
	announceEvery = time.Second
	announceTries = 10
	// announceTimeout bounds the live read of what stands for orphand.
	announceTimeout = 5 * time.Second
	// noteLimit is what the API takes (events.k8s.io/v1).
	noteLimit = 1024
)

func newAnnouncer(kube kubernetes.Interface, clk clock.WithTicker, leads func() bool, present func(facts.JobKey) bool, recordOf func(facts.JobKey) types.UID,
	self func(context.Context) (*corev1.ObjectReference, error)) *announcer {
	stream := events.NewBroadcaster(fencedEvents{&events.EventSinkImpl{Interface: kube.EventsV1()}, leads})
	return &announcer{clock: clk, leads: leads, present: present, recordOf: recordOf, self: self, stream: stream,
		recorder: stream.NewRecorder(scheme.Scheme, "orphand"), waiting: make(chan announcement, announceBacklog)}
}

// tell takes a finding, a change of the mode or a refused policy. It never blocks: the engine calls it with its own lock held.
func (a *announcer) tell(e signals.Event) {
	if e.Code != signals.ModeChanged && e.Code != signals.PolicyRefused && (e.Finding == "" || e.Job == "") {
		return
	}
	select {
	case a.waiting <- announcement{event: e}:
	default:
	}
}

// run tells the findings until ctx ends.
func (a *announcer) run(ctx context.Context) error {
	if err := a.stream.StartRecordingToSinkWithContext(ctx); err != nil {
		return err
	}
	defer a.stream.Shutdown()
	for {
		select {
		case <-ctx.Done():
			return nil
		case next := <-a.waiting:
			if !a.leads() || a.announce(ctx, next.event) {
				continue
			}
			if next.tries++; next.tries < announceTries {
				again := a.clock.NewTimer(announceEvery)
				go func() {
					defer again.Stop()
					select {
					case <-ctx.Done():
					case <-again.C():
						select {
						case a.waiting <- next:
						default:
						}
					}
				}()
			}
		}
	}
}

// announceSelf writes the Event of a change of the mode, or of a policy that is refused. It is false when what it is to be written on could not be read.
func (a *announcer) announceSelf(ctx context.Context, e signals.Event) bool {
	ctx, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	about, err := a.self(ctx)
	if about == nil {
		return err == nil
	}
	kind, action, note := corev1.EventTypeWarning, "Observe", e.Text()
	switch {
	case e.Code == signals.PolicyRefused && e.Phase == signals.Ended:
		kind, action = corev1.EventTypeNormal, "Accept"
	case e.Code == signals.PolicyRefused:
		action, note = "Refuse", e.Text()+" "+e.Reason
	case e.State == modeEnforce:
		kind, action = corev1.EventTypeNormal, "Enforce"
	}
	a.recorder.Eventf(about, nil, kind, string(e.Code), action, "%s", cut(note))
	return true
}

// cut shortens a note to what the API takes.
func cut(note string) string {
	if len(note) > noteLimit {
		return note[:noteLimit-3] + "..."
	}
	return note
}

// announce writes one Event. It is false while there is no object to write it on.
func (a *announcer) announce(ctx context.Context, e signals.Event) bool {
	if e.Code == signals.ModeChanged || e.Code == signals.PolicyRefused {
		return a.announceSelf(ctx, e)
	}
	key := facts.JobKey{Namespace: e.Namespace, Name: e.Job, UID: types.UID(e.UID)}
	about := &corev1.ObjectReference{Namespace: key.Namespace, Name: key.Name, UID: key.UID,
		APIVersion: facts.TrainJobs.GroupVersion().String(), Kind: facts.KindTrainJob}
	if !a.present(key) {
		uid := a.recordOf(key)
		if uid == "" {
			return false
		}
		about = &corev1.ObjectReference{Namespace: key.Namespace, Name: ledger.Name(key), UID: uid,
			APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindOrphan}
	}
	var related *corev1.ObjectReference
	if e.Pod != "" {
		related = &corev1.ObjectReference{APIVersion: "v1", Kind: facts.KindPod, Namespace: e.Namespace, Name: e.Pod, UID: types.UID(e.PodUID)}
	}
	kind, action, note := corev1.EventTypeNormal, "Raise", e.Text()
	if info, ok := signals.LookupFinding(e.Finding); ok && info.Severity.Level() != signals.Info {
		kind = corev1.EventTypeWarning
	}
	if e.Phase == signals.Ended {
		kind, action, note = corev1.EventTypeNormal, "End", "Over: "+note
	}
	note = cut(note)
	if related == nil {
		a.recorder.Eventf(about, nil, kind, string(e.Finding), action, "%s", note)
	} else {
		a.recorder.Eventf(about, related, kind, string(e.Finding), action, "%s", note)
	}
	return true
}
