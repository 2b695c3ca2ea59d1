package retention

import (
	"fmt"
	"time"

	"github.com/orphand/orphand/pkg/facts"
)

// Verb is what a decision comes to.
type Verb string

// The verbs.
const (
	Keep   Verb = "KEEP"   // not now, for a reason other than time
	Skip   Verb = "SKIP"   // not ours to decide
	Delete Verb = "DELETE" // at a time, by a rule
)

// Reason is why an object is kept or skipped, in the words that people read.
type Reason string

// The reasons to keep.
const (
	NoRule           Reason = "no rule"
	NoTTL            Reason = "no TTL"
	NotFinished      Reason = "not finished"
	Suspended        Reason = "suspended"
	NoFinishTime     Reason = "no finish time"
	RunningPods      Reason = "running pods"
	PodsUnknown      Reason = "pods unknown"
	PodLogTime       Reason = "pod log time"
	OwnerUnknown     Reason = "owner unknown"
	OwnerNotFinished Reason = "owner not finished"
	JobTracking      Reason = "job tracking"
	Unreadable       Reason = "unreadable"
)

// The reasons to skip.
const (
	OwnedByLive        Reason = "owned by live owner"
	ControlledByCron   Reason = "controlled by CronJob"
	InvalidOwner       Reason = "invalid owner reference"
	ExternallyManaged  Reason = "externally managed"
	Excluded           Reason = "excluded"
	RemoteCopy         Reason = "remote copy"
	Recreated          Reason = "re-created after clean-up"
	AlreadyTerminating Reason = "terminating"
	MirrorPod          Reason = "mirror pod"
)

// Verb is the verb that the reason stands behind.
func (r Reason) Verb() Verb {
	switch r {
	case OwnedByLive, ControlledByCron, InvalidOwner, ExternallyManaged, Excluded, RemoteCopy, Recreated, AlreadyTerminating, MirrorPod:
		return Skip
	}
	return Keep
}

// Reasons lists every reason, for counting: the set is closed.
func Reasons() []Reason {
	return []Reason{NoRule, NoTTL, NotFinished, Suspended, NoFinishTime, RunningPods, PodsUnknown, PodLogTime, OwnerUnknown, OwnerNotFinished,
		JobTracking, Unreadable, OwnedByLive, ControlledByCron, InvalidOwner, ExternallyManaged, Excluded, RemoteCopy, Recreated,
		AlreadyTerminating, MirrorPod}
}

// Source is what a due time comes from.
type Source string

// The sources of due times.
const (
	FromRule       Source = "rule"
	FromAnnotation Source = "annotation " + AnnotationTTL
	FromNative     Source = "the kind's own TTL"
	FromKeepUntil  Source = "annotation " + AnnotationKeepUntil
	FromKeepLast   Source = "keepLast"
	FromMax        Source = "max"
	FromPodEnd     Source = "pod's end"
)

// Decision is what becomes of one object.
type Decision struct {
	Verb   Verb
	Reason Reason
	// Owner is the kind of the live owner, for OwnedByLive.
	Owner string
	// Rule is the name of the rule that won; empty when none was asked.
	Rule string
	// Due is when it goes, for Delete: never before its finish.
	Due facts.Instant
	// Source is what Due comes from, and Clamp what cut it, in words; empty when nothing did.
	Source Source
	Clamp  string
	// Notice is how long before Due it is announced, for Delete: never longer than from its finish to Due. 0 for not at all.
	Notice time.Duration
	// DryRun says that the policy only wants it reported.
	DryRun bool
	// Again is when the decision can change by time alone, for Keep; unknown for never.
	Again facts.Instant
	// Skewed says that the finish lies further in the future than clocks may differ.
	Skewed bool
	// Warnings are the annotations that could not be understood.
	Warnings []Warning
}

// Warning is an annotation that could not be understood and is ignored.
type Warning struct {
	Annotation, Value, Problem string
}

// String names the annotation and the value, cut where it is long.
func (w Warning) String() string {
	value := w.Value
	if len(value) > longestDuration {
		value = value[:longestDuration] + "..."
	}
	return fmt.Sprintf("annotation %s: %q: %s", w.Annotation, value, w.Problem)
}

// Why is the reason with the particulars that belong to it.
func (d Decision) Why() string {
	if d.Reason == OwnedByLive && d.Owner != "" {
		return "owned by live " + d.Owner
	}
	return string(d.Reason)
}

// String is KEEP(reason), SKIP(reason) or DELETE@time(rule).
func (d Decision) String() string {
	if d.Verb == Delete {
		return fmt.Sprintf("%s@%s(%s)", d.Verb, d.Due.Time().Format(time.RFC3339), d.Rule)
	}
	return fmt.Sprintf("%s(%s)", d.Verb, d.Why())
}

// Explain is the decision in one sentence for a person.
func (d Decision) Explain() string {
	text := "stays: " + d.Why()
	if d.Verb == Delete {
		text = fmt.Sprintf("goes at %s by rule %q (%s)", d.Due.Time().Format(time.RFC3339), d.Rule, d.Source)
		if d.DryRun {
			text = "would " + "go" + text[len("goes"):] + ", were it not for dryRun"
		}
	} else if d.Rule != "" {
		text += fmt.Sprintf(" (rule %q)", d.Rule)
	}
	if d.Clamp != "" {
		text += "; " + d.Clamp
	}
	if d.Notice > 0 && !d.DryRun {
		text += "; an Event on it announces that " + FormatDuration(d.Notice) + " before"
	}
	for _, w := range d.Warnings {
		text += "; ignored " + w.String()
	}
	return text
}

// Due says whether the object is to go now.
func (d Decision) due(now facts.Instant) bool { return d.Verb == Delete && d.Due <= now }

// Announce is when the deletion is to be announced, for a decision that has a Notice.
func (d Decision) Announce() facts.Instant { return d.Due.Add(-d.Notice) }

// Goes is when the object may go, once its deletion was announced: whoever reads the announcement has as long as Notice
// says, also of what was due already when it could first be made.
func (d Decision) Goes(announced facts.Instant) facts.Instant {
	return max(d.Due, announced.Add(d.Notice))
}

// Acts says whether an object is to be deleted now, and not only reported.
func (d Decision) Acts(now facts.Instant) bool { return d.due(now) && !d.DryRun }
