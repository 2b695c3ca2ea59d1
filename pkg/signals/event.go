package signals

import "time"

// Code names one kind of log line. Codes are a public interface: log-based alerts match on them.
type Code string

// Phase says whether a condition began or ended; empty for something that merely happened.
type Phase string

const (
	Started Phase = "started"
	Ended   Phase = "ended"
)

// Attr is a field of an event beyond the fixed ones.
type Attr struct {
	Key   string
	Value any
}

// Event is one thing worth a log line: a change of a verdict, a state or a finding, or a step in the process's life.
// Empty fields are left out of the line.
type Event struct {
	// Code is the log line's "event". Leave it empty for a finding: its line carries the finding's own code.
	Code Code
	// Finding is set when a finding started or ended, and Phase says which.
	Finding Finding
	Phase   Phase
	// As overrides the table's level, for a code that stands for good and for bad news.
	As Level
	// Time is when orphand concluded it; zero means now.
	Time time.Time

	// Namespace, Job and UID name the TrainJob incarnation.
	Namespace, Job, UID string
	// Pod and PodUID name one pod in Namespace, Node the node it is bound to.
	Pod, PodUID, Node string

	// From is what it was before: a verdict with its reason ("Alive/Running") or a state.
	From string
	// Verdict, Reason and Evidence are the pod's new verdict, why, and what proved it.
	Verdict, Reason, Evidence string
	// State is the new state of a job, a kind, the leadership or the mode.
	State string
	// Message is one sentence for a person; empty means the event's meaning from the table.
	Message string
	// Attrs are further fields, in the order in which they are to be written.
	Attrs []Attr
}

// Sink takes events. Emit must not block for long and must be safe for concurrent use.
type Sink interface {
	Emit(Event)
}

// SinkFunc is a function as a Sink.
type SinkFunc func(Event)

// Emit calls the function.
func (f SinkFunc) Emit(e Event) { f(e) }

// Discard is the Sink that drops everything.
type Discard struct{}

// Emit drops the event.
func (Discard) Emit(Event) {}

// Name is the value of the line's "event" field: the finding's code, else the event's.
func (e Event) Name() string {
	if e.Finding != "" {
		return string(e.Finding)
	}
	return string(e.Code)
}

// Level says how loud the line is. Whatever ended is never louder than Info.
func (e Event) Level() Level {
	if e.Finding != "" {
		if e.Phase == Ended {
			return Info
		}
		info, ok := LookupFinding(e.Finding)
		if !ok {
			return Warn
		}
		return info.Severity.Level()
	}
	info, ok := LookupEvent(e.Code)
	switch {
	case e.As != "":
		return e.As
	case !ok, e.Phase == Ended:
		return Info
	default:
		return info.Level
	}
}

// Text is the line's message: the event's own, else its meaning from the table.
func (e Event) Text() string {
	if e.Message != "" {
		return e.Message
	}
	if e.Finding != "" {
		info, _ := LookupFinding(e.Finding)
		return info.Meaning
	}
	info, _ := LookupEvent(e.Code)
	return info.Meaning
}

// Fields are the line's fields after "event", in writing order, without the empty ones.
func (e Event) Fields() []Attr {
	fields := make([]Attr, 0, 14+len(e.Attrs))
	add := func(key, value string) {
		if value != "" {
			fields = append(fields, Attr{Key: key, Value: value})
		}
	}
	add(FieldFinding, string(e.Finding))
	add(FieldPhase, string(e.Phase))
	add(FieldJob, e.job())
	add(FieldUID, e.UID)
	add(FieldPod, e.Pod)
	add(FieldPodUID, e.PodUID)
	add(FieldNode, e.Node)
	add(FieldFrom, e.From)
	add(FieldVerdict, e.Verdict)
	add(FieldReason, e.Reason)
	add(FieldEvidence, e.Evidence)
	add(FieldState, e.State)
	return append(fields, e.Attrs...)
}

func (e Event) job() string {
	if e.Job == "" {
		return ""
	}
	return e.Namespace + "/" + e.Job
}
