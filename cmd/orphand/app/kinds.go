package app

import (
	"errors"
	"time"

	"github.com/orphand/orphand/api/v1alpha1"
	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/informers"
	"github.com/orphand/orphand/pkg/signals"
)

// resources are the kinds as permissions name them.
func resources() map[string]string {
	return map[string]string{
		facts.KindTrainJob:        "trainjobs.trainer.kubeflow.org",
		facts.KindTrainingRuntime: "trainingruntimes.trainer.kubeflow.org",
		facts.KindJobSet:          "jobsets.jobset.x-k8s.io",
		facts.KindJob:             "jobs.batch",
		facts.KindPod:             "pods",
		facts.KindNode:            "nodes",
		v1alpha1.KindOrphan:       v1alpha1.Orphans.GroupResource().String(),
	}
}

// cure says what to do about the state of a kind, or nothing.
func cure(s informers.Status) string {
	switch s.State {
	case informers.Absent:
		if s.Kind == v1alpha1.KindOrphan {
			return "apply manifests/base/crds: until then records are kept in memory only, and a restart forgets which pods went without proof"
		}
		product := "Kubeflow Trainer"
		if s.Kind == facts.KindJobSet {
			product = "JobSet"
		}
		return "install " + product + " if this cluster should have it; " + resources()[s.Kind] + " are followed as soon as they are served"
	case informers.Forbidden:
		return "allow get, list and watch on " + resources()[s.Kind] + " in all namespaces; it takes effect without a restart"
	case informers.Failing:
		return "none needed if the API server is only away; it is tried again until it answers"
	default:
		return ""
	}
}

// useful says whether orphand does its work with the kind in this state, perhaps less well. What the cache holds from
// before a kind was lost does not count: it no longer changes.
func useful(s informers.Status) bool {
	if s.State != informers.Watching {
		s.Synced = false
	}
	return s.Usable()
}

// kindEvent is the log line of a kind that changed its state.
func kindEvent(from informers.State, s informers.Status) signals.Event {
	e := signals.Event{Code: signals.KindStateChanged, Time: s.Since, From: string(from), State: string(s.State), Reason: s.Reason,
		Message: s.Kind + " is " + string(s.State) + ".",
		Attrs:   []signals.Attr{{Key: "kind", Value: s.Kind}}}
	if text := cure(s); text != "" {
		e.As = signals.Warn
		e.Attrs = append(e.Attrs, signals.Attr{Key: "cure", Value: text})
	}
	return e
}

// nodesEvent is the log line of Nodes that became unreadable, or readable again.
func nodesEvent(readable bool, s informers.Status) signals.Event {
	e := signals.Event{Code: signals.NodesUnreadable, Phase: signals.Started, Time: s.Since, Reason: s.Reason,
		Attrs: []signals.Attr{{Key: "cure", Value: cure(s)}}}
	if readable {
		e.Phase, e.Attrs, e.Message = signals.Ended, nil, "Nodes may be read: pods can be proven gone."
	}
	return e
}

// kindCheck is the kind's line of /readyz.
func kindCheck(s informers.Status) check {
	return check{name: "kind/" + s.Kind, ask: func() (string, error) {
		text := string(s.State) + " since " + s.Since.UTC().Format(time.RFC3339)
		if s.Reason != "" {
			text += ": " + s.Reason
		}
		if c := cure(s); c != "" {
			text += ": " + c
		}
		if !useful(s) {
			return "", errors.New(text)
		}
		return text, nil
	}}
}
