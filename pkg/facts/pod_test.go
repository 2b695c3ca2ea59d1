package facts

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestAPodThatIsNeverRestarted: by Kubernetes v1.37.2, where a container's own policy or rules have it started again in a pod
// whose policy is Never.
func TestAPodThatIsNeverRestarted(t *testing.T) {
	policy := func(p corev1.ContainerRestartPolicy) *corev1.ContainerRestartPolicy { return &p }
	rules := []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestartAllContainers}}
	for name, c := range map[string]struct {
		change func(*corev1.PodSpec)
		never  bool
	}{
		"by its policy": {func(*corev1.PodSpec) {}, true},
		"OnFailure":     {func(s *corev1.PodSpec) { s.RestartPolicy = corev1.RestartPolicyOnFailure }, false},
		"a sidecar beside it": {func(s *corev1.PodSpec) {
			s.InitContainers[0].RestartPolicy = policy(corev1.ContainerRestartPolicyAlways)
		}, true},
		"a container's own Never": {func(s *corev1.PodSpec) { s.Containers[0].RestartPolicy = policy(corev1.ContainerRestartPolicyNever) }, true},
		"a container's own OnFailure": {func(s *corev1.PodSpec) {
			s.Containers[0].RestartPolicy = policy(corev1.ContainerRestartPolicyOnFailure)
		}, false},
		"a container's rule":               {func(s *corev1.PodSpec) { s.Containers[0].RestartPolicyRules = rules }, false},
		"an init container's rule for all": {func(s *corev1.PodSpec) { s.InitContainers[0].RestartPolicyRules = rules }, false},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever,
			InitContainers: []corev1.Container{{Name: "i"}}, Containers: []corev1.Container{{Name: "a"}}}}
		c.change(&pod.Spec)
		if got := FromPod(pod).RestartNever; got != c.never {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestAnEndThatTheKubeletMadeUp: it has the exit code and the state of a real one, and no word of the runtime behind it.
func TestAnEndThatTheKubeletMadeUp(t *testing.T) {
	for reason, lost := range map[string]bool{"ContainerStatusUnknown": true, "RestartingAllContainers": true, "Error": false, "Completed": false} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}}},
			Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "a", ContainerID: "containerd://1",
				State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason, ExitCode: 137}}}}}}
		if c := FromPod(pod).Containers[0]; c.Lost != lost || c.State != Terminated {
			t.Errorf("%s: %+v", reason, c)
		}
	}
}
