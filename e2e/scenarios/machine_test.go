package scenarios_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/orphand/orphand/e2e/cluster"
	"github.com/orphand/orphand/e2e/daemon"
)

func TestARebootOfACutOffNodeProves(t *testing.T) {
	t.Parallel()
	s := open(t)
	far := s.node("reboots-0")
	job, pods := s.run(cluster.TrainJobSpec{Name: "reboots", On: []string{far.Name}})
	s.cutOff(far)
	s.delete(job)
	s.asked(pods...)
	s.says(pods[0], "Unproven", "NodeUnreachable")
	s.ok(s.c.ForceDeletePod(t.Context(), pods[0]))
	s.says(pods[0], "Unproven", "RemovedUnconfirmed")
	s.lives(pods[0])
	boot, err := far.Reboot()
	s.ok(err)
	t.Logf("boots as %s", boot)
	s.says(pods[0], "Gone", "NodeRebooted")
	s.dead(pods[0])
	s.settles(job)
}

// The kubelet of a machine that was given the name of another one says of a pod
// that it never ran that it is over, while the processes live on.
func TestAnotherMachineUnderTheNameConfirmsNothing(t *testing.T) {
	t.Parallel()
	s := open(t)
	far := s.node("renamed-0")
	job, pods := s.run(cluster.TrainJobSpec{Name: "renamed", On: []string{far.Name}})
	s.cutOff(far)
	s.delete(job)
	s.asked(pods...)
	s.says(pods[0], "Unproven", "NodeUnreachable")
	old := far.Machine()
	_, err := far.AsAnotherMachine(t.Context(), cluster.Identity{})
	s.ok(err)
	s.says(pods[0], "Unproven", "NodeReplaced")
	// The kubelet of the new machine ends the pod in the API, and removes it.
	s.gone(cluster.Pods, job.Namespace, pods[0].Name)
	s.says(pods[0], "Unproven", "RemovedUnconfirmed")
	s.lives(pods[0])
	s.never(s.d, pods[0], "Gone", "")
	s.notSettled(s.d, job)

	// The old machine comes back under another name, in another boot.
	_, err = old.Reboot()
	if err == nil {
		err = old.Join("renamed-returns")
	}
	s.ok(err)
	returned := s.c.Node("renamed-returns")
	t.Cleanup(func() {
		if err := old.PowerOff(); err != nil {
			t.Error(err)
		}
		if err := returned.Delete(s.afterwards()); err != nil {
			t.Error(err)
		}
	})
	s.ok(returned.WaitReady(t.Context()))
	s.says(pods[0], "Gone", "NodeRebooted")
	s.settles(job)
}

// The old machine is off before anyone can take its Node's deletion as proof.
func TestAnotherMachineUnderADeletedNodesNameConfirmsNothing(t *testing.T) {
	t.Parallel()
	s := open(t)
	far := s.node("reborn-0")
	job, pods := s.run(cluster.TrainJobSpec{Name: "reborn", On: []string{far.Name}})
	s.cutOff(far)
	s.delete(job)
	s.asked(pods...)
	s.says(pods[0], "Unproven", "NodeUnreachable")
	old := far.Machine()
	s.ok(far.Delete(t.Context()))
	_, err := far.AsAnotherMachine(t.Context(), cluster.Identity{})
	s.ok(err)
	s.gone(cluster.Pods, job.Namespace, pods[0].Name)
	s.lives(pods[0])
	s.never(s.d, pods[0], "Gone", "")
	s.ok(old.PowerOff())
	s.says(pods[0], "Gone", "NodeDeleted")
	s.settles(job)
}

func TestADeletedNodeThatRegistersAgainIsHeardAgain(t *testing.T) {
	t.Parallel()
	s := open(t)
	far := s.node("registers-0")
	job, pods := s.run(cluster.TrainJobSpec{Name: "registers", On: []string{far.Name}})
	s.cutOff(far)
	s.delete(job)
	s.asked(pods...)
	s.says(pods[0], "Unproven", "NodeUnreachable")
	s.ok(far.Delete(t.Context()))
	s.says(pods[0], "Unproven", "NodeDeleted")
	s.lives(pods[0])
	s.ok(far.Reregister(t.Context()))
	s.says(pods[0], "Gone", "KubeletConfirmed")
	s.dead(pods[0])
	s.settles(job)
}

func TestAKubeletThatIsRestartedConfirms(t *testing.T) {
	t.Parallel()
	s := open(t)
	far := s.node("adopts-0")
	job, pods := s.run(cluster.TrainJobSpec{Name: "adopts", On: []string{far.Name}})
	s.ok(far.KillKubelet())
	s.ok(far.WaitUnreachable(t.Context()))
	s.delete(job)
	s.asked(pods...)
	s.says(pods[0], "Unproven", "NodeUnreachable")
	s.lives(pods[0])
	s.ok(far.StartKubelet())
	s.says(pods[0], "Gone", "KubeletConfirmed")
	s.dead(pods[0])
	s.settles(job)
}

// A pod that was never bound has no process, whoever removes it.
func TestAPodThatWasNeverBoundNeverStarted(t *testing.T) {
	t.Parallel()
	s := open(t)
	job, err := s.c.SubmitTrainJob(t.Context(), cluster.TrainJobSpec{Name: "homeless", On: []string{"no-such-node"}})
	s.ok(err)
	p, err := s.c.WaitPod(t.Context(), cluster.PodsOf(job), func(p *corev1.Pod) bool { return p.Spec.NodeName == "" })
	s.ok(err)
	s.says(p, "Alive", "Pending")
	s.delete(job)
	s.says(p, "Gone", "NeverStarted")
	s.hears(daemon.Over(job.UID))
}
