package metrics

// Vocabulary lists every value that a label may take. Each series exists from the start, so that a rate or an alert
// never meets one that is missing, and none is added later: a value outside the lists is refused and counted in
// orphand_metrics_refused_total.
type Vocabulary struct {
	Verdicts     []VerdictReason
	JobStates    []string
	Findings     []string
	Kinds        []string
	KindStates   []string
	LiveReads    []string
	LiveOutcomes []string
	Modes        []string
	// DeletedKinds are the kinds of which objects are deleted, DeleteOutcomes the answers, DeleteCauses what for, and
	// Refusals why not.
	DeletedKinds, DeleteOutcomes, DeleteCauses, Refusals []string
	// Decisions are the verbs of retention, each with its reasons.
	Decisions []Decision
}

// VerdictReason is one verdict with one reason that it can have.
type VerdictReason struct {
	Verdict, Reason string
}

// Decision is one verb of retention with one reason that it can have.
type Decision struct {
	Verb, Reason string
}

// Build identifies the running binary.
type Build struct {
	Version, Revision, GoVersion string
}
