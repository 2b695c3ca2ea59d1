package signals

// Level is how loud an event is.
type Level string

const (
	Info  Level = "info"
	Warn  Level = "warn"
	Error Level = "error"
)

const (
	PodVerdictChanged Code = "PodVerdictChanged"
	JobStateChanged   Code = "JobStateChanged"
	ObjectDeleted     Code = "ObjectDeleted"
	WouldDelete       Code = "WouldDelete"

	RetentionDeleted   Code = "RetentionDeleted"
	RetentionDecided   Code = "RetentionDecided"
	RetentionAnnounced Code = "RetentionAnnounced"
	RetentionPaused    Code = "RetentionPaused"
	PolicyLoaded       Code = "PolicyLoaded"
	PolicyRefused      Code = "PolicyRefused"

	Starting          Code = "Starting"
	Listening         Code = "Listening"
	APIUnreachable    Code = "APIUnreachable"
	CachesSynced      Code = "CachesSynced"
	RecordsResumed    Code = "RecordsResumed"
	KindStateChanged  Code = "KindStateChanged"
	NodesUnreadable   Code = "NodesUnreadable"
	LeadershipChanged Code = "LeadershipChanged"
	ModeChanged       Code = "ModeChanged"

	ReviewsFailed      Code = "ReviewsFailed"
	CertificateRefused Code = "CertificateRefused"

	WorkFailed    Code = "WorkFailed"
	WorkPanicked  Code = "WorkPanicked"
	ClientTrouble Code = "ClientTrouble"
	LinesLeftOut  Code = "LinesLeftOut"
	Stopping      Code = "Stopping"
	Stopped       Code = "Stopped"
	Failed        Code = "Failed"
)

// EventInfo documents one log event.
type EventInfo struct {
	Code    Code
	Level   Level
	Meaning string
	// Fields are the fields that its line may carry besides "event", fixed ones and further ones.
	Fields []string
}

// Events is the table of log events. Findings have lines of their own: see Findings.
func Events() []EventInfo {
	return []EventInfo{
		{PodVerdictChanged, Info, "A pod's verdict, or the reason for it, changed.",
			[]string{FieldJob, FieldUID, FieldPod, FieldPodUID, FieldNode, FieldFrom, FieldVerdict, FieldReason, FieldEvidence}},
		{JobStateChanged, Info, "A job's state changed.",
			[]string{FieldJob, FieldUID, FieldFrom, FieldState, "alive", "unproven", "gone"}},
		{ObjectDeleted, Info, "An object that was left of a job was deleted: it is gone, or was asked to go.",
			[]string{FieldJob, FieldUID, "object", "objectUID", "cause", "outcome"}},
		{WouldDelete, Info, "An object that was left of a job would have been deleted, were it not for --dry-run.",
			[]string{FieldJob, FieldUID, "object", "objectUID", "cause"}},

		{RetentionDeleted, Info, "A finished object was deleted because the retention policy says so.",
			[]string{FieldJob, FieldUID, FieldReason, "kind", "outcome", "finished", "digest", "object", "decision", "rule"}},
		{RetentionDecided, Info, "What the retention policy says of an object is worth knowing: it would be deleted, were it not for dryRun, or it cannot be read.",
			[]string{FieldJob, FieldUID, FieldReason, "object", "decision", "rule"}},
		{RetentionAnnounced, Info, "A finished object will be deleted by the retention policy, and an Event on it says so; it comes as long before as the rule's notice, or --notice, says.",
			[]string{FieldJob, FieldUID, FieldReason, "goes", "object", "decision", "rule"}},
		{RetentionPaused, Warn, "Objects that were due before the retention policy came wait: a larger share of their kind than is allowed within an hour has gone.",
			[]string{"kind", "waiting", "until"}},
		{PolicyLoaded, Info, "A retention policy is in force.",
			[]string{FieldReason, "file", "digest", "rules", "dryRun"}},
		{PolicyRefused, Error, "The retention policy cannot be read or has mistakes; the last good one stays in force.",
			[]string{FieldPhase, FieldReason, "file"}},

		{Starting, Info, "The process started.",
			[]string{"version", "revision", "goVersion", "server", "flags"}},
		{Listening, Info, "An HTTP endpoint is open.",
			[]string{"address", "scheme"}},
		{APIUnreachable, Error, "The Kubernetes API does not answer or refuses the credentials; it is tried again until it answers.",
			[]string{FieldPhase, FieldReason, "server", "seconds", "cure"}},
		{CachesSynced, Info, "Every cache that verdicts need is filled.",
			[]string{"seconds"}},
		{RecordsResumed, Info, "Records that an earlier process wrote were read; what went while nobody watched is judged by them.",
			[]string{"records"}},
		{KindStateChanged, Info, "The watch of a kind changed its state; a warning unless it is Watching now.",
			[]string{FieldFrom, FieldState, FieldReason, "kind", "cure"}},
		{NodesUnreadable, Warn, "Nodes may not be read, so nothing is proven and remaining pods count as Alive.",
			[]string{FieldPhase, FieldReason, "cure"}},
		{LeadershipChanged, Info, "This replica began or ceased to lead.",
			[]string{FieldFrom, FieldState, "identity"}},
		{ModeChanged, Warn, "What this process may do to the cluster changed.",
			[]string{FieldFrom, FieldState, FieldReason}},
		{ReviewsFailed, Warn, "Whether somebody may read the protected metrics cannot be asked; they are refused.",
			[]string{FieldPhase, FieldReason, "cure"}},
		{CertificateRefused, Warn, "The certificate of the protected metrics cannot be read; the last good one stays in use.",
			[]string{FieldPhase, FieldReason, "file"}},
		{WorkFailed, Warn, "Work on a job failed several times in a row; it is repeated with growing delay.",
			[]string{FieldJob, FieldUID, FieldReason, "attempt", "repeated"}},
		{WorkPanicked, Error, "Work on a job panicked, which is a bug; it is repeated with growing delay.",
			[]string{FieldJob, FieldUID, FieldReason, "attempt", "repeated", "stack"}},
		{ClientTrouble, Warn, "The Kubernetes client library reported trouble; repetitions are counted, not written.",
			[]string{FieldReason, "logger", "repeated"}},
		{LinesLeftOut, Warn, "So many pods changed their verdict at once that some of their lines were not written. What their jobs came to always is; records and metrics hold it all.",
			[]string{"of", "leftOut"}},
		{Stopping, Info, "The process was asked to stop and finishes what it has begun.",
			[]string{FieldReason}},
		{Stopped, Info, "The process ends, as it was asked to.",
			[]string{"seconds"}},
		{Failed, Error, "The process ends because of an error.",
			[]string{FieldReason, "seconds"}},
	}
}

// LookupEvent finds an event in the table.
func LookupEvent(c Code) (EventInfo, bool) {
	for _, e := range Events() {
		if e.Code == c {
			return e, true
		}
	}
	return EventInfo{}, false
}
