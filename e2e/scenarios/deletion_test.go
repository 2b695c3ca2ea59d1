package scenarios_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/orphand/orphand/e2e/cluster"
	"github.com/orphand/orphand/e2e/daemon"
	"github.com/orphand/orphand/pkg/signals"
)

func TestAJobOnHealthyNodesSettlesWithinSeconds(t *testing.T) {
	t.Parallel()
	s := open(t)
	job, pods := s.run(cluster.TrainJobSpec{Name: "steady", On: []string{s.node("steady-0").Name, s.node("steady-1").Name}})
	began := time.Now()
	s.delete(job)
	s.gone(cluster.TrainJobs, job.Namespace, job.Name)
	s.gone(cluster.JobSets, job.Namespace, job.Name)
	s.gone(cluster.Jobs, job.Namespace, job.Name+"-node-0")
	t.Logf("TrainJob, JobSet and Job gone after %s", time.Since(began))
	for _, p := range pods {
		s.says(p, "Gone", "KubeletConfirmed")
		s.dead(p)
	}
	settled := s.settles(job)
	t.Logf("settled after %s", settled.At.Sub(began))
	s.hears(daemon.Job(job.UID, "Cleared"))
	for _, p := range pods {
		s.never(s.d, p, "Unproven", "RemovedUnconfirmed")
	}
}

func TestAPodThatIgnoresSIGTERMIsAliveUntilItsGraceIsOver(t *testing.T) {
	t.Parallel()
	s := open(t)
	grace := int64(8)
	job, pods := s.run(cluster.TrainJobSpec{Name: "deaf", On: []string{s.node("deaf-0").Name}, IgnoreSIGTERM: true, GraceSeconds: &grace})
	s.delete(job)
	s.says(pods[0], "Alive", "Terminating")
	s.lives(pods[0])
	s.says(pods[0], "Gone", "KubeletConfirmed")
	s.dead(pods[0])
	s.settles(job)
}

func TestAPodOnACutOffNodeIsUnprovenUntilItsMachineIsOffAndSaidToBe(t *testing.T) {
	t.Parallel()
	s := open(t)
	near, far := s.node("split-0"), s.node("split-1")
	job, pods := s.run(cluster.TrainJobSpec{Name: "split", On: []string{near.Name, far.Name}})
	s.cutOff(far)
	s.delete(job)
	s.says(pods[0], "Gone", "KubeletConfirmed")
	s.says(pods[1], "Unproven", "NodeUnreachable")
	s.hears(daemon.Job(job.UID, "Unproven"))
	s.lives(pods[1])

	s.ok(s.c.ForceDeletePod(t.Context(), pods[1]))
	s.gone(cluster.Pods, job.Namespace, pods[1].Name)
	s.says(pods[1], "Unproven", "RemovedUnconfirmed")
	s.hears(daemon.Found(signals.ForcedRemoval, job.UID))
	s.lives(pods[1])
	s.notSettled(s.d, job)

	s.ok(far.PowerOff())
	s.dead(pods[1])
	s.stillSays(pods[1], "Unproven", "RemovedUnconfirmed") // nobody has said that it is off
	s.ok(far.Taint(t.Context(), cluster.OutOfService()))
	s.says(pods[1], "Gone", "OutOfService")
	s.settles(job)
	// What was proven stays so when the taint that proved it goes.
	s.ok(far.Untaint(t.Context(), cluster.OutOfService().Key))
}

// Two orphands watch: the pod garbage collector, which looks 40 to 60 s after a
// Node's deletion, comes after the first one's proof and before the other's.
func TestADeletedNodeProvesAfterTheQuarantineWhateverPodGCDoes(t *testing.T) {
	t.Parallel()
	s := open(t)
	_, err := s.c.UserWithRules(t.Context(), "patient", daemon.Without(daemon.Permissions(), "orphans"))
	s.ok(err)
	patient := s.also(daemon.Options{User: "patient", Flags: []string{"--node-deletion-quarantine=75s"}})
	s.hearsFrom(patient, daemon.Code(signals.CachesSynced))
	near, far := s.node("deleted-0"), s.node("deleted-1")
	job, pods := s.run(cluster.TrainJobSpec{Name: "deleted", On: []string{near.Name, far.Name}})
	s.cutOff(far)
	s.delete(job)
	s.asked(pods...)
	s.says(pods[1], "Unproven", "NodeUnreachable")
	s.lives(pods[1])

	s.ok(far.PowerOff())
	removed := time.Now()
	s.ok(far.Delete(t.Context()))
	s.says(pods[1], "Unproven", "NodeDeleted")
	early := s.says(pods[1], "Gone", "NodeDeleted")
	if after := early.At.Sub(removed); after < 40*time.Second {
		t.Errorf("the Node's deletion was taken as proof after %s already", after)
	}
	s.settles(job)

	s.gone(cluster.Pods, job.Namespace, pods[1].Name)
	t.Logf("PodGC has removed the pod %s after the Node's deletion", time.Since(removed))
	s.hearsFrom(patient, daemon.Pod(pods[1].UID, "Unproven", "RemovedUnconfirmed"))
	late := s.hearsFrom(patient, daemon.Pod(pods[1].UID, "Gone", "NodeDeleted"))
	if after := late.At.Sub(removed); after < 75*time.Second {
		t.Errorf("the Node's deletion was taken as proof after %s already, of a quarantine of 75 s", after)
	}
	s.hearsFrom(patient, daemon.Over(job.UID))
}

func TestPodGCRemovesAPodFromATaintedNodeAndTheProofStands(t *testing.T) {
	t.Parallel()
	s := open(t)
	far := s.node("tainted-0")
	job, pods := s.run(cluster.TrainJobSpec{Name: "tainted", On: []string{far.Name}})
	s.cutOff(far)
	s.delete(job)
	s.asked(pods...)
	s.says(pods[0], "Unproven", "NodeUnreachable")
	s.ok(far.PowerOff())
	s.ok(far.Taint(t.Context(), cluster.OutOfService()))
	s.says(pods[0], "Gone", "OutOfService")
	s.settles(job)
	s.gone(cluster.Pods, job.Namespace, pods[0].Name)
	s.hears(daemon.Job(job.UID, "Cleared"))
}

func TestACutOffNodeThatComesBackConfirms(t *testing.T) {
	t.Parallel()
	s := open(t)
	far := s.node("returns-0")
	job, pods := s.run(cluster.TrainJobSpec{Name: "returns", On: []string{far.Name}})
	s.cutOff(far)
	s.delete(job)
	s.asked(pods...)
	s.says(pods[0], "Unproven", "NodeUnreachable")
	s.lives(pods[0])
	s.ok(far.BringBack())
	s.says(pods[0], "Gone", "KubeletConfirmed")
	s.dead(pods[0])
	s.settles(job)
}

func TestAJobThatIsDeletedInTheForegroundSettlesToo(t *testing.T) {
	t.Parallel()
	s := open(t)
	// Its runtime is not deleted along, so nothing wedges.
	job, pods := s.run(cluster.TrainJobSpec{Name: "orderly", On: []string{s.node("orderly-0").Name}, Runtime: cluster.ClusterRuntime})
	s.ok(s.c.DeleteTrainJob(t.Context(), job, metav1.DeletePropagationForeground))
	s.hears(daemon.Job(job.UID, "Deleting"))
	s.says(pods[0], "Gone", "KubeletConfirmed")
	s.gone(cluster.TrainJobs, job.Namespace, job.Name)
	s.settles(job)
}
