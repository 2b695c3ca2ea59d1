package facts

import (
	"bytes"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Labels and annotations of Kubernetes and JobSet v0.12.0 that a decision reads.
const (
	LabelJobSetName      = "jobset.sigs.k8s.io/jobset-name"
	LabelJobSetUID       = "jobset.sigs.k8s.io/jobset-uid"
	LabelReplicatedJob   = "jobset.sigs.k8s.io/replicatedjob-name"
	LabelRestartAttempt  = "jobset.sigs.k8s.io/restart-attempt"
	LabelJobIndex        = "jobset.sigs.k8s.io/job-index"
	LabelControllerUID   = "batch.kubernetes.io/controller-uid"
	LabelJobName         = "batch.kubernetes.io/job-name"
	LabelCompletionIndex = "batch.kubernetes.io/job-completion-index"
	annotationMirror     = corev1.MirrorPodAnnotationKey
)

// Phase is a pod's phase.
type Phase uint8

// The phases, in the order of a pod's life.
const (
	PhaseUnknown Phase = iota
	PhasePending
	PhaseRunning
	PhaseSucceeded
	PhaseFailed
)

// Terminal says whether the phase is Succeeded or Failed.
func (p Phase) Terminal() bool { return p == PhaseSucceeded || p == PhaseFailed }

// String is Kubernetes' own word.
func (p Phase) String() string {
	switch p {
	case PhasePending:
		return string(corev1.PodPending)
	case PhaseRunning:
		return string(corev1.PodRunning)
	case PhaseSucceeded:
		return string(corev1.PodSucceeded)
	case PhaseFailed:
		return string(corev1.PodFailed)
	}
	return string(corev1.PodUnknown)
}

// Role is what a container is in its pod.
type Role uint8

// The roles. A sidecar is an init container that is restarted for as long as the pod lives.
const (
	App Role = iota
	Init
	Sidecar
	Ephemeral
)

// ContainerState is what a status says of a container.
type ContainerState uint8

// The states; Unreported is a container of the spec that no status names.
const (
	Unreported ContainerState = iota
	Waiting
	Running
	Terminated
)

// Container is one container of a pod: of its spec, its status, or both.
type Container struct {
	Role  Role
	State ContainerState
	// HasID says whether the status names a container of the runtime; ID tells two of them apart (a hash; the
	// runtime's own IDs are 64 bytes and more).
	HasID bool
	ID    uint64
	// HasLast says whether the status remembers an earlier run of the container.
	HasLast bool
	// Lost says that the kubelet found no such container when it had to say how it ended.
	Lost bool
	// Completed says that an init container ended well.
	Completed bool
	// Restarts is the status's restart count.
	Restarts int32
	// Started and Finished are the times of the present state (Running, Terminated), by the kubelet's clock.
	Started, Finished Instant
}

// Pod is what a decision reads of a pod.
type Pod struct {
	Meta
	Owner Owner
	// JobSetName, JobSetUID, ReplicatedJob, JobIndex and RestartAttempt are JobSet's labels; JobName, JobUID and Index the
	// Job controller's. Empty where the label is missing.
	JobSetName, ReplicatedJob, JobIndex, RestartAttempt string
	JobSetUID, JobUID                                   types.UID
	JobName, Index                                      string
	// Subdomain is the name of the headless Service that it is reached by, where that is not its JobSet's.
	Subdomain string

	// Node is the name of the node the pod is bound to; empty when it is not bound.
	Node string
	// Deletion is deletionTimestamp: when the grace ends, not when the deletion was asked for. Grace is
	// deletionGracePeriodSeconds at that moment.
	Deletion Instant
	Grace    int64
	// SpecGrace is terminationGracePeriodSeconds, in seconds.
	SpecGrace int64
	// Started is status.startTime: when the kubelet first acknowledged the pod, by its clock. Scheduled is when the
	// scheduler says that it bound the pod.
	Started, Scheduled Instant

	Phase      Phase
	Containers []Container
	Finalizers []string
	// Reason is status.reason; Disruption the reason of the DisruptionTarget condition that is True.
	Reason, Disruption string
	// PhaseWriter is the field manager that owns status.phase, and StatusWriter the one that owns the container
	// statuses; empty when managedFields do not tell. PhaseAt is when PhaseWriter last wrote the status, by the API server's
	// clock.
	PhaseWriter, StatusWriter string
	PhaseAt                   Instant
	// RestartNever says that what has run once is not started again by its kubelet.
	RestartNever bool

	Mirror bool
	Gated  bool
	// Inert says that orphand's own scheduling gate holds it, which nobody lifts: it is made never to run.
	Inert bool
	Keep  bool
}

// GateInert is the scheduling gate of pods that orphand has Trainer make to release a wedged TrainJob, and that never run.
const GateInert = "orphand.dev/inert"

// AnnotationKeep on any remain keeps orphand from deleting it.
const AnnotationKeep = "orphand.dev/keep"

// Terminating says whether the pod was asked to terminate.
func (p *Pod) Terminating() bool { return p.Deletion.Known() }

// Bound says whether the pod was given to a node.
func (p *Pod) Bound() bool { return p.Node != "" }

// Ref names the pod.
func (p *Pod) Ref() Ref { return Ref{Namespace: p.Namespace, Kind: "Pod", Name: p.Name, UID: p.UID} }

// Rank tells the executions of the same work apart from others: the Job's name and the completion index. Two pods of
// one JobSet with the same rank run the same part of the work.
func (p *Pod) Rank() string {
	if p.JobName == "" {
		return ""
	}
	return p.JobName + "/" + p.Index
}

// AnyRunning says whether a status reports a container of any role as running.
func (p *Pod) AnyRunning() bool {
	for i := range p.Containers {
		if p.Containers[i].State == Running {
			return true
		}
	}
	return false
}

// Ended is when the last container ended, by the kubelet's clock; unknown when none did.
func (p *Pod) Ended() Instant {
	var last Instant
	for i := range p.Containers {
		last = max(last, p.Containers[i].Finished)
	}
	return last
}

// FromPod makes the record of a pod.
func FromPod(pod *corev1.Pod) *Pod {
	p := &Pod{
		Meta:           metaOf(pod),
		Owner:          ownerOf(pod.OwnerReferences),
		JobSetName:     intern(pod.Labels[LabelJobSetName]),
		ReplicatedJob:  intern(pod.Labels[LabelReplicatedJob]),
		JobIndex:       intern(pod.Labels[LabelJobIndex]),
		RestartAttempt: intern(pod.Labels[LabelRestartAttempt]),
		JobSetUID:      types.UID(intern(pod.Labels[LabelJobSetUID])),
		JobUID:         types.UID(intern(pod.Labels[LabelControllerUID])),
		JobName:        intern(pod.Labels[LabelJobName]),
		Index:          intern(pod.Labels[LabelCompletionIndex]),
		Node:           intern(pod.Spec.NodeName),
		Deletion:       atMeta(pod.DeletionTimestamp),
		SpecGrace:      corev1.DefaultTerminationGracePeriodSeconds,
		Started:        atMeta(pod.Status.StartTime),
		Phase:          phaseOf(pod.Status.Phase),
		Containers:     containersOf(pod),
		Reason:         intern(pod.Status.Reason),
		Mirror:         pod.Annotations[annotationMirror] != "",
		RestartNever:   restartsNothing(&pod.Spec),
		Gated:          len(pod.Spec.SchedulingGates) > 0,
		Inert:          slices.Contains(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: GateInert}),
		Keep:           keeps(pod.Annotations),
	}
	if p.JobSetName != "" && pod.Spec.Subdomain != p.JobSetName {
		p.Subdomain = intern(pod.Spec.Subdomain)
	}
	if pod.DeletionGracePeriodSeconds != nil {
		p.Grace = *pod.DeletionGracePeriodSeconds
	}
	if pod.Spec.TerminationGracePeriodSeconds != nil {
		p.SpecGrace = *pod.Spec.TerminationGracePeriodSeconds
	}
	if p.JobUID == "" && p.Owner.Kind == "Job" {
		p.JobUID = p.Owner.UID
	}
	if p.JobName == "" && p.Owner.Kind == "Job" {
		p.JobName = p.Owner.Name
	}
	for i := range pod.Status.Conditions {
		switch c := &pod.Status.Conditions[i]; {
		case c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue:
			p.Disruption = intern(c.Reason)
		case c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue:
			p.Scheduled = At(c.LastTransitionTime.Time)
		}
	}
	p.Finalizers = internAll(pod.Finalizers)
	p.PhaseWriter, p.PhaseAt = fieldOwner(pod.ManagedFields, `"f:phase"`)
	p.StatusWriter, _ = fieldOwner(pod.ManagedFields, `"f:containerStatuses"`)
	return p
}

// restartsNothing says whether no app container is started again once it has ended. A container may have a policy of its own,
// and a rule of any container, by its exit code, may start all of them again (v1.37.2, api/v1/pod, ContainerShouldRestart).
func restartsNothing(spec *corev1.PodSpec) bool {
	if spec.RestartPolicy != corev1.RestartPolicyNever {
		return false
	}
	for i := range spec.InitContainers {
		if len(spec.InitContainers[i].RestartPolicyRules) > 0 {
			return false
		}
	}
	for i := range spec.Containers {
		c := &spec.Containers[i]
		if len(c.RestartPolicyRules) > 0 || c.RestartPolicy != nil && *c.RestartPolicy != corev1.ContainerRestartPolicyNever {
			return false
		}
	}
	return true
}

func internAll(in []string) []string {
	if len(in) == 0 {
		return nil
	}
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = intern(s)
	}
	return out
}

func keeps(annotations map[string]string) bool {
	v, ok := annotations[AnnotationKeep]
	keep, err := strconv.ParseBool(v)
	return ok && (err != nil || keep) // an unreadable wish to keep is taken for a wish to keep
}

func phaseOf(p corev1.PodPhase) Phase {
	switch p {
	case corev1.PodPending:
		return PhasePending
	case corev1.PodRunning:
		return PhaseRunning
	case corev1.PodSucceeded:
		return PhaseSucceeded
	case corev1.PodFailed:
		return PhaseFailed
	}
	return PhaseUnknown
}

func containersOf(pod *corev1.Pod) []Container {
	n := len(pod.Spec.InitContainers) + len(pod.Spec.Containers) + len(pod.Status.EphemeralContainerStatuses)
	out := make([]Container, 0, n)
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		role := Init
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			role = Sidecar
		}
		out = append(out, containerOf(role, c.Name, pod.Status.InitContainerStatuses))
	}
	for i := range pod.Spec.Containers {
		out = append(out, containerOf(App, pod.Spec.Containers[i].Name, pod.Status.ContainerStatuses))
	}
	// A status whose container the spec does not name (a transform or a hand-made object dropped it) still counts: it
	// may be the one that runs.
	for i := range pod.Status.InitContainerStatuses {
		if s := &pod.Status.InitContainerStatuses[i]; !named(pod.Spec.InitContainers, s.Name) {
			out = append(out, statusOf(Init, s))
		}
	}
	for i := range pod.Status.ContainerStatuses {
		if s := &pod.Status.ContainerStatuses[i]; !named(pod.Spec.Containers, s.Name) {
			out = append(out, statusOf(App, s))
		}
	}
	for i := range pod.Status.EphemeralContainerStatuses {
		out = append(out, statusOf(Ephemeral, &pod.Status.EphemeralContainerStatuses[i]))
	}
	return out
}

func named(spec []corev1.Container, name string) bool {
	for i := range spec {
		if spec[i].Name == name {
			return true
		}
	}
	return false
}

func containerOf(role Role, name string, statuses []corev1.ContainerStatus) Container {
	for i := range statuses {
		if statuses[i].Name == name {
			return statusOf(role, &statuses[i])
		}
	}
	return Container{Role: role}
}

func statusOf(role Role, s *corev1.ContainerStatus) Container {
	c := Container{
		Role:     role,
		State:    Waiting, // a status without a state means waiting
		HasID:    s.ContainerID != "",
		HasLast:  s.LastTerminationState != (corev1.ContainerState{}),
		Restarts: s.RestartCount,
	}
	id := s.ContainerID
	switch st := s.State; {
	case st.Running != nil:
		c.State = Running
		c.Started = At(st.Running.StartedAt.Time)
	case st.Terminated != nil:
		c.State = Terminated
		c.Started, c.Finished = At(st.Terminated.StartedAt.Time), At(st.Terminated.FinishedAt.Time)
		c.Lost = madeUp(st.Terminated.Reason)
		c.Completed = st.Terminated.ExitCode == 0
		if st.Terminated.ContainerID != "" {
			id = st.Terminated.ContainerID
			c.HasID = true
		}
	}
	if c.HasID {
		h := fnv.New64a()
		_, _ = h.Write([]byte(id))
		c.ID = h.Sum64()
	}
	return c
}

// madeUp says whether a kubelet gives this reason for an end that its runtime did not tell of. The second is the first's
// name in a pod whose containers were all being started again (v1.37.2, kubelet_pods.go, convertToAPIContainerStatuses).
func madeUp(reason string) bool {
	return reason == "ContainerStatusUnknown" || reason == "RestartingAllContainers"
}

// fieldOwner is the manager that owns a field of the status, by the newest entry that names it, and that entry's time.
func fieldOwner(entries []metav1.ManagedFieldsEntry, field string) (string, Instant) {
	var name string
	var newest Instant
	for i := range entries {
		e := &entries[i]
		if e.Subresource != "status" || e.FieldsV1 == nil || !bytes.Contains(e.FieldsV1.GetRawBytes(), []byte(field)) {
			continue
		}
		if at := atMeta(e.Time); name == "" || at >= newest {
			name, newest = e.Manager, at
		}
	}
	return intern(name), newest
}

// Forged says whether something other than a kubelet wrote the terminal phase, as far as the object tells: PodGC,
// Kueue's failure recovery, or a person. A program that is kubelet and controller in one (k3s) cannot be told by its
// name, so a name that says nothing is no accusation.
func (p *Pod) Forged() bool {
	if p.Disruption == "DeletionByPodGC" {
		return true
	}
	w := p.PhaseWriter
	switch {
	case w == "":
		return false
	case strings.HasPrefix(w, "kubectl"), strings.HasPrefix(w, "kube-controller-manager"), strings.HasPrefix(w, "kueue"):
		return true
	}
	return p.StatusWriter != "" && p.StatusWriter != w
}
