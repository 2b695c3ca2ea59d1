package sim

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// status is what the kubelet has to say of the pod now, and whether it differs from what the API server holds.
func (w *worker) status(p *corev1.Pod) (corev1.PodStatus, bool) {
	old := p.Status
	st := *old.DeepCopy()
	if st.StartTime == nil { // kept over kubelets: status_manager.go, updateStatusInternal
		t := w.acknowledged
		st.StartTime = &t
	}
	if w.refused {
		st.Phase, st.Reason = corev1.PodFailed, "UnexpectedAdmissionError"
		st.ContainerStatuses, st.InitContainerStatuses = nil, nil
		return st, !reflect.DeepEqual(old, st)
	}
	st.InitContainerStatuses, st.ContainerStatuses = nil, nil
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		st.InitContainerStatuses = append(st.InitContainerStatuses, w.containerStatus(p, c.Name, "PodInitializing", find(old.InitContainerStatuses, c.Name)))
	}
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		st.ContainerStatuses = append(st.ContainerStatuses, w.containerStatus(p, c.Name, "ContainerCreating", find(old.ContainerStatuses, c.Name)))
	}
	if w.final {
		w.finish(p, &st)
	}
	st.Phase = w.phase(p, &st)
	return st, !reflect.DeepEqual(old, st)
}

func find(list []corev1.ContainerStatus, name string) *corev1.ContainerStatus {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}

// containerStatus is kubelet_pods.go, convertToAPIContainerStatuses, as far as it matters here.
func (w *worker) containerStatus(p *corev1.Pod, name, creating string, old *corev1.ContainerStatus) corev1.ContainerStatus {
	st := corev1.ContainerStatus{Name: name}
	sandbox := w.runtime().pods[w.uid]
	if c := sandbox.newest(name); c != nil {
		st.ContainerID = c.id
		st.RestartCount = int32(len(sandbox.runs[name]) - 1)
		if old != nil {
			st.RestartCount = max(st.RestartCount, old.RestartCount)
		}
		if old != nil {
			// Kept when the container's ID changes (feature RestartAllContainersOnContainerExits, on by default).
			st.LastTerminationState = *old.LastTerminationState.DeepCopy()
		}
		if c.running {
			st.State.Running = &corev1.ContainerStateRunning{StartedAt: c.started}
			return st
		}
		over := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: c.exit, Reason: c.reason, StartedAt: c.started, FinishedAt: c.finished, ContainerID: c.id}}
		if !w.terminating && c.exit != 0 && p.Spec.RestartPolicy != corev1.RestartPolicyNever {
			st.State.Waiting = &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}
			st.LastTerminationState = over
			return st
		}
		st.State = over
		return st
	}
	if old != nil && old.State.Terminated != nil {
		return *old.DeepCopy()
	}
	st.State.Waiting = &corev1.ContainerStateWaiting{Reason: creating}
	if old != nil {
		st.RestartCount = old.RestartCount
		st.LastTerminationState = *old.LastTerminationState.DeepCopy()
		if old.State.Running != nil {
			st.LastTerminationState = corev1.ContainerState{Terminated: unknownEnd("The container could not be located when the pod was deleted.  The container used to be Running")}
			if p.DeletionTimestamp == nil {
				st.RestartCount++
			}
		}
	}
	return st
}

func unknownEnd(message string) *corev1.ContainerStateTerminated {
	return &corev1.ContainerStateTerminated{Reason: "ContainerStatusUnknown", Message: message, ExitCode: 137}
}

// finish is status_manager.go, TerminatePod: what nobody can find any more has ended.
func (w *worker) finish(p *corev1.Pod, st *corev1.PodStatus) {
	if initialized(p, st) {
		for i := range st.ContainerStatuses {
			if st.ContainerStatuses[i].State.Terminated == nil {
				st.ContainerStatuses[i].State = corev1.ContainerState{Terminated: unknownEnd("The container could not be located when the pod was terminated")}
			}
		}
	}
	last := -1
	for i := range st.InitContainerStatuses {
		if c := &st.InitContainerStatuses[i]; c.State.Waiting == nil || c.LastTerminationState.Terminated != nil {
			last = i
		}
	}
	for i := 0; i <= last; i++ {
		if st.InitContainerStatuses[i].State.Terminated == nil {
			st.InitContainerStatuses[i].State = corev1.ContainerState{Terminated: unknownEnd("The container could not be located when the pod was terminated")}
		}
	}
}

// initialized is status_manager.go, hasPodInitialized.
func initialized(p *corev1.Pod, st *corev1.PodStatus) bool {
	if len(p.Spec.InitContainers) == 0 {
		return true
	}
	for i := range st.ContainerStatuses {
		if c := &st.ContainerStatuses[i]; c.State.Running != nil || c.State.Terminated != nil || c.LastTerminationState.Terminated != nil {
			return true
		}
	}
	spec := &p.Spec.InitContainers[len(p.Spec.InitContainers)-1]
	c := find(st.InitContainerStatuses, spec.Name)
	if c == nil {
		return false
	}
	if spec.RestartPolicy != nil {
		return c.State.Running != nil
	}
	return c.State.Terminated != nil && c.State.Terminated.ExitCode == 0
}

// phase holds the phase until nothing can be running (status_manager.go, mergePodStatus), and never leaves a terminal one.
func (w *worker) phase(p *corev1.Pod, st *corev1.PodStatus) corev1.PodPhase {
	if ended(p) {
		return p.Status.Phase
	}
	ran, failed, open := false, false, false
	for i := range st.ContainerStatuses {
		c := &st.ContainerStatuses[i]
		switch {
		case c.State.Running != nil:
			ran, open = true, true
		case c.State.Terminated != nil:
			ran = true
			failed = failed || c.State.Terminated.ExitCode != 0
		case c.LastTerminationState.Terminated != nil:
			ran, failed = true, true
		default:
			open = true
		}
	}
	for i := range st.InitContainerStatuses {
		if t := st.InitContainerStatuses[i].State.Terminated; t != nil && t.ExitCode != 0 && open {
			failed = true
		}
	}
	switch {
	case w.final && (failed || open):
		return corev1.PodFailed
	case w.terminated && ran && failed:
		return corev1.PodFailed
	case w.terminated && !open:
		return corev1.PodSucceeded
	case ran:
		return corev1.PodRunning
	}
	return corev1.PodPending
}

// The managedFields of a pod's status, as far as orphand reads them.
const (
	ownsPhase = `{"f:status":{"f:phase":{}}}`
	ownsState = `{"f:status":{"f:containerStatuses":{}}}`
	ownsBoth  = `{"f:status":{"f:containerStatuses":{},"f:phase":{}}}`
)

func setOwners(p *corev1.Pod, phase, state string, now metav1.Time) {
	entry := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &now,
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields), Subresource: "status"}
	}
	if phase == state {
		p.ManagedFields = []metav1.ManagedFieldsEntry{entry(phase, ownsBoth)}
		return
	}
	p.ManagedFields = []metav1.ManagedFieldsEntry{entry(phase, ownsPhase)}
	if state != "" {
		p.ManagedFields = append(p.ManagedFields, entry(state, ownsState))
	}
}

func phaseOwner(p *corev1.Pod) string {
	for i := range p.ManagedFields {
		if f := p.ManagedFields[i].FieldsV1.GetRawString(); f == ownsPhase || f == ownsBoth {
			return p.ManagedFields[i].Manager
		}
	}
	return ""
}

func stateOwner(p *corev1.Pod) string {
	for i := range p.ManagedFields {
		if f := p.ManagedFields[i].FieldsV1.GetRawString(); f == ownsState || f == ownsBoth {
			return p.ManagedFields[i].Manager
		}
	}
	return ""
}
