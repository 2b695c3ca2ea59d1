package sweep

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/retention"
	"github.com/orphand/orphand/pkg/signals"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// quiet is how long the pods of a finished job may take to end.
	quiet = 5 * time.Second
	// heldAfter is how long an object that was deleted may stay before it is worth a word.
	heldAfter = 30 * time.Second
)

// set raises or ends a finding on an object.
func (s *Sweeper) set(e *entry, f signals.Finding, holds bool, message func() string) {
	switch {
	case holds && !e.raised[f]:
		s.raise(e, f, message())
	case !holds:
		s.end(e, f)
	}
}

func (s *Sweeper) raise(e *entry, f signals.Finding, message string) {
	if !e.raised[f] {
		s.c.Recorder.Finding(string(f), true)
	}
	e.raised[f] = true
	s.tell(e.o, signals.Event{Finding: f, Phase: signals.Started, Message: message}, retention.Decision{})
}

func (s *Sweeper) end(e *entry, f signals.Finding) {
	if !e.raised[f] {
		return
	}
	delete(e.raised, f)
	s.c.Recorder.Finding(string(f), false)
	s.tell(e.o, signals.Event{Finding: f, Phase: signals.Ended}, retention.Decision{})
}

// tell writes a line about an object; a decision adds what it came to.
func (s *Sweeper) tell(o *retention.Object, ev signals.Event, d retention.Decision) {
	ev.Time, ev.Namespace, ev.Job, ev.UID = s.c.Clock.Now(), o.Namespace, o.Name, string(o.UID)
	ev.Attrs = append(ev.Attrs, signals.Attr{Key: "object", Value: o.Ref().String()})
	if d.Verb != "" {
		ev.Attrs = append(ev.Attrs, signals.Attr{Key: "decision", Value: d.String()})
		if o.Unreadable != "" {
			ev.Reason = o.Unreadable
		} else if ev.Reason = d.Explain(); d.Verb == retention.Delete {
			ev.Attrs = append(ev.Attrs, signals.Attr{Key: "rule", Value: d.Rule})
		}
	}
	s.c.Sink.Emit(ev)
}

func recreated(o *retention.Object, count int) string {
	return fmt.Sprintf("%s came back after its clean-up (%d times): something puts it back, and it runs again each time; it is left alone now", o.Ref(), count)
}

// finishedButRunning: pods of a finished job are not over. The engine that follows TrainJobs says it of them.
func (s *Sweeper) finishedButRunning(e *entry, c retention.Case) {
	o := e.o
	if o.Of.Group == facts.GroupTrainer || !o.FinishedAt.Known() {
		return
	}
	running := 0
	for _, p := range c.Pods {
		if !p.Over {
			running++
		}
	}
	late := c.Now >= o.FinishedAt.Add(quiet)
	if running > 0 && !late {
		s.c.Queue.AddAfter(Key{UID: o.UID}, o.FinishedAt.Add(quiet).Sub(c.Now))
	}
	s.set(e, signals.FinishedButRunning, running > 0 && late && !o.Terminating(), func() string {
		return fmt.Sprintf("%s is finished, and %d of its pods are not gone", o.Ref(), running)
	})
}

// held: an object that was deleted by this process is still there.
func (s *Sweeper) held(e *entry) {
	o, now := e.o, s.now()
	if !o.Terminating() || !e.deleted.Known() || o.Of.Group == facts.GroupTrainer {
		return
	}
	if at := e.deleted.Add(heldAfter); now < at {
		s.c.Queue.AddAfter(Key{UID: o.UID}, at.Sub(now))
		return
	}
	s.set(e, signals.HeldByFinalizer, len(o.Finalizers) > 0, func() string {
		return fmt.Sprintf("%s is terminating since %s, held by %v", o.Ref(), e.deleted.Time().Format(time.RFC3339), o.Finalizers)
	})
}

// logsLost: somebody else removed a pod that the policy keeps for its logs. It is said once for each job.
func (s *Sweeper) logsLost(p *pod) {
	if p.deleted.Known() || p.said.Verb != retention.Delete || p.said.Source != retention.FromPodEnd || p.said.Due <= s.now() {
		return
	}
	if job := s.jobOf(p); job != nil {
		if e := s.objects[job.UID]; !job.Terminating() && !e.raised[signals.LogsLostEarly] {
			s.raise(e, signals.LogsLostEarly, fmt.Sprintf("pod %s was removed by someone else before %s, until when its logs were to be kept", p.Name, p.said.Due.Time().Format(time.RFC3339)))
		}
	}
}

// braked says once for each pause that a backlog waits.
func (s *Sweeper) braked(kind string, waiting int, until facts.Instant) {
	now := s.now()
	if s.saidBraked[kind] > now {
		return
	}
	s.saidBraked[kind] = until
	s.c.Sink.Emit(signals.Event{Code: signals.RetentionPaused, Time: s.c.Clock.Now(),
		Message: fmt.Sprintf("%d objects of kind %s were due before the policy came; no more of them go before %s (--max-share-per-hour).", waiting, kind, until.Time().Format(time.RFC3339)),
		Attrs:   []signals.Attr{{Key: "kind", Value: kind}, {Key: "waiting", Value: waiting}, {Key: "until", Value: until.Time()}}})
}

// lastWords is the line that is left of an object when it is gone.
func (s *Sweeper) lastWords(o *retention.Object, d retention.Decision, u *unstructured.Unstructured) {
	s.tell(o, signals.Event{Code: signals.RetentionDeleted, Attrs: []signals.Attr{
		{Key: "kind", Value: o.Of.Name}, {Key: "outcome", Value: string(o.Outcome)}, {Key: "finished", Value: o.FinishedAt.Time()},
		{Key: "digest", Value: digest(u)}}}, d)
}

// digest identifies an object's manifest: its metadata that people write, and its spec.
func digest(u *unstructured.Unstructured) string {
	manifest := map[string]any{"apiVersion": u.GetAPIVersion(), "kind": u.GetKind(), "name": u.GetName(), "namespace": u.GetNamespace(),
		"labels": u.GetLabels(), "annotations": u.GetAnnotations(), "spec": u.Object["spec"]}
	text, err := json.Marshal(manifest)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// resourceOf is where an object that was read is served.
func resourceOf(k *retention.Kind, u *unstructured.Unstructured) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: k.Group, Version: u.GroupVersionKind().Version, Resource: k.Resource}
}
