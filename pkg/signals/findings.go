package signals

// Finding is the code of something a person should know.
type Finding string

const (
	ForegroundWedged        Finding = "ForegroundWedged"
	RecreateLoop            Finding = "RecreateLoop"
	FinishedButRunning      Finding = "FinishedButRunning"
	ReExecution             Finding = "ReExecution"
	Overlap                 Finding = "Overlap"
	NodeReturned            Finding = "NodeReturned"
	HealthyNodeDeleted      Finding = "HealthyNodeDeleted"
	OutOfServiceOnReadyNode Finding = "OutOfServiceOnReadyNode"
	ForcedRemoval           Finding = "ForcedRemoval"
	UnprovableGrace         Finding = "UnprovableGrace"
	StuckTerminating        Finding = "StuckTerminating"
	HeldByFinalizer         Finding = "HeldByFinalizer"
	GarbageCollectorStalled Finding = "GarbageCollectorStalled"
	NeverOwnedRuntime       Finding = "NeverOwnedRuntime"
	InvalidAnnotation       Finding = "InvalidAnnotation"
	ClockSkew               Finding = "ClockSkew"
	LogsLostEarly           Finding = "LogsLostEarly"
)

// Severity is how much a finding matters.
type Severity string

const (
	// Critical: two executions may be running, or a proof was contradicted.
	Critical Severity = "critical"
	// Warning: a person has to act, or the job will not settle.
	Warning Severity = "warning"
	// Notice: worth knowing; nothing waits for it.
	Notice Severity = "info"
)

// Level is the log level of a finding that starts.
func (s Severity) Level() Level {
	switch s {
	case Critical:
		return Error
	case Warning:
		return Warn
	default:
		return Info
	}
}

// FindingInfo documents one finding.
type FindingInfo struct {
	Code     Finding
	Severity Severity
	// Meaning is one line for the person on call; Action is what to do about it.
	Meaning, Action string
}

// Findings is the table of findings, from which the log line, the metric's label, the documentation and the alert
// rules are made.
func Findings() []FindingInfo {
	return []FindingInfo{
		{ForegroundWedged, Warning,
			"A TrainJob's foreground deletion is stuck: Trainer's webhook refuses every update because its runtime is gone.",
			"Re-create a runtime of that name whose pods cannot be scheduled, wait until the TrainJob is gone, remove the runtime; delete with background propagation from now on."},
		{RecreateLoop, Critical,
			"Something makes the job's JobSets or the pods of one rank again and again.",
			"Find who deletes or evicts them (audit log, `kubectl get events`), and stop it or suspend the TrainJob."},
		{FinishedButRunning, Warning,
			"The TrainJob is finished, yet processes of it still run and hold their resources.",
			"Look at the pods' containers that do not end; delete the JobSet when its results are safe."},
		{ReExecution, Critical,
			"The work began again where nothing should start: after the job was deleted, finished or called settled.",
			"Stop the newer execution, then check that the job's output was not written twice."},
		{Overlap, Critical,
			"Two executions of the same work are not provably apart: both may be running.",
			"Power off, or mark out of service, the node of the older pod; until then treat the job's output as doubtful."},
		{NodeReturned, Critical,
			"A machine that counted as gone was seen again with the same boot: its processes may never have stopped.",
			"Treat the job as still running on it; stop its processes there, and find out why the machine had been called dead."},
		{HealthyNodeDeleted, Warning,
			"A Node object was deleted while its kubelet was Ready, so the machine may go on running its pods.",
			"Make sure that the machine is off; if it is not, let its kubelet register again."},
		{OutOfServiceOnReadyNode, Warning,
			"A node carries the out-of-service taint although its kubelet is Ready; the taint proves nothing there.",
			"Remove the taint; set it only on a machine that is known to be off."},
		{ForcedRemoval, Warning,
			"A pod's object was removed before its kubelet confirmed that its processes ended.",
			"Nothing, if its node confirms or is proven off; otherwise power the node off and taint it out of service. Stop force-deleting pods."},
		{UnprovableGrace, Warning,
			"A pod asks for a termination grace of 0 seconds, so its end can never be confirmed by its kubelet.",
			"Set terminationGracePeriodSeconds to 1 or more in the runtime's pod template."},
		{StuckTerminating, Warning,
			"A pod's node can be heard, but its kubelet has not confirmed the pod's end long after its grace.",
			"Look on the node for processes that cannot be killed (hung storage or GPU driver), and reboot it if need be."},
		{HeldByFinalizer, Warning,
			"An object of the job stays because a finalizer on it is not removed.",
			"Find the controller that owns the finalizer and make it work; do not strip finalizers by hand."},
		{GarbageCollectorStalled, Warning,
			"Objects of a TrainJob that is gone are not being collected by the Kubernetes garbage collector.",
			"Check kube-controller-manager, and API services or webhooks that fail (`kubectl get apiservices`)."},
		{NeverOwnedRuntime, Notice,
			"A copy of a runtime made for one TrainJob has no owner, so nothing will ever remove it.",
			"Delete it; Trainer refuses a new TrainJob of that name until it is gone."},
		{InvalidAnnotation, Warning,
			"An orphand.dev annotation could not be understood and is ignored.",
			"Correct its value; the message says what was expected."},
		{ClockSkew, Warning,
			"The clocks of this process, the API server or a node differ by more than decisions can bear.",
			"Repair time synchronisation on the machine that the message names."},
		{LogsLostEarly, Notice,
			"Pods were removed by someone else before the time that policy keeps them for their logs.",
			"Find out who removes finished pods, or ship their logs elsewhere."},
	}
}

// LookupFinding finds a finding in the table.
func LookupFinding(f Finding) (FindingInfo, bool) {
	for _, info := range Findings() {
		if info.Code == f {
			return info, true
		}
	}
	return FindingInfo{}, false
}
