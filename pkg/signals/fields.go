package signals

// The fixed fields of a log line. Values are strings.
const (
	FieldEvent    = "event"
	FieldFinding  = "finding"
	FieldPhase    = "phase"
	FieldJob      = "job"
	FieldUID      = "uid"
	FieldPod      = "pod"
	FieldPodUID   = "podUID"
	FieldNode     = "node"
	FieldFrom     = "from"
	FieldVerdict  = "verdict"
	FieldReason   = "reason"
	FieldEvidence = "evidence"
	FieldState    = "state"
)

// FieldInfo documents one fixed field.
type FieldInfo struct {
	Name    string
	Meaning string
}

// Fields lists the fixed fields in writing order.
func Fields() []FieldInfo {
	return []FieldInfo{
		{FieldEvent, "code of the event, or of the finding"},
		{FieldFinding, "code of the finding, on a finding's lines only"},
		{FieldPhase, "`started` or `ended`, for whatever lasts"},
		{FieldJob, "`namespace/name` of the TrainJob"},
		{FieldUID, "UID of that TrainJob, or `jobset:<uid>` where the TrainJob's own cannot be known"},
		{FieldPod, "name of the pod, in the job's namespace"},
		{FieldPodUID, "UID of that pod"},
		{FieldNode, "name of the node that the pod is bound to"},
		{FieldFrom, "what it was before: a state, or `verdict/reason`"},
		{FieldVerdict, "`Alive`, `Unproven` or `Gone`"},
		{FieldReason, "why the verdict holds"},
		{FieldEvidence, "what proved it, with its source"},
		{FieldState, "the new state of the job, kind, leadership or mode"},
	}
}
