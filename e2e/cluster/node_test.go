package cluster_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/orphand/orphand/e2e/cluster"
)

func TestCutOffAndBringBack(t *testing.T) {
	t.Parallel()
	n := newNode(t, "cut-off")
	job, pods := runJob(t, cluster.TrainJobSpec{Name: "cut-off", On: []string{n.Name}})
	must(t, n.CutOff())
	if got := n.Machine().Status(); got != "cut off" {
		t.Errorf("machine is %q, want cut off", got)
	}
	must(t, n.WaitUnreachable(t.Context()))
	must(t, shared.DeleteTrainJob(t.Context(), job, metav1.DeletePropagationBackground))
	p, err := shared.WaitPod(t.Context(), cluster.PodsOf(job), func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil })
	if err != nil {
		t.Fatal(err)
	}
	if p.Status.Phase != corev1.PodRunning || !shared.Truth().Alive(p.UID) {
		t.Errorf("pod on the cut-off node: phase %s, alive %v; want Running and alive", p.Status.Phase, shared.Truth().Alive(p.UID))
	}
	must(t, n.BringBack())
	must(t, shared.WaitGone(t.Context(), cluster.Pods, job.Namespace, pods[0].Name))
	must(t, n.WaitReady(t.Context()))
	if shared.Truth().Alive(pods[0].UID) {
		t.Errorf("confirmed by its kubelet, and alive:\n%s", shared.Truth())
	}
}

func TestRebootGivesNewBootID(t *testing.T) {
	t.Parallel()
	n := newNode(t, "reboot")
	before := object(t, n)
	job, pods := runJob(t, cluster.TrainJobSpec{Name: "reboot", On: []string{n.Name}, IgnoreSIGTERM: true})
	must(t, shared.DeleteTrainJob(t.Context(), job, metav1.DeletePropagationBackground))
	boot, err := n.Reboot()
	if err != nil {
		t.Fatal(err)
	}
	if shared.Truth().Alive(pods[0].UID) {
		t.Errorf("alive after a reboot:\n%s", shared.Truth())
	}
	must(t, n.WaitReady(t.Context()))
	after := object(t, n)
	if after.UID != before.UID || after.Status.NodeInfo.SystemUUID != before.Status.NodeInfo.SystemUUID {
		t.Error("a reboot made another Node or another machine")
	}
	if got := after.Status.NodeInfo.BootID; got != boot || got == before.Status.NodeInfo.BootID {
		t.Errorf("boot ID is %s, was %s, want %s", got, before.Status.NodeInfo.BootID, boot)
	}
	must(t, shared.WaitGone(t.Context(), cluster.Pods, job.Namespace, pods[0].Name))
}

func TestPowerOff(t *testing.T) {
	t.Parallel()
	n := newNode(t, "power-off")
	job, pods := runJob(t, cluster.TrainJobSpec{Name: "power-off", On: []string{n.Name}, IgnoreSIGTERM: true})
	must(t, n.PowerOff())
	if shared.Truth().Alive(pods[0].UID) {
		t.Errorf("alive on a machine that is off:\n%s", shared.Truth())
	}
	if err := n.BringBack(); err == nil || !strings.Contains(err.Error(), "Reboot") {
		t.Errorf("BringBack of a machine that is off: %v, want an error that names Reboot", err)
	}
	must(t, n.WaitUnreachable(t.Context()))
	must(t, shared.DeleteTrainJob(t.Context(), job, metav1.DeletePropagationBackground))
	must(t, n.Taint(t.Context(), cluster.OutOfService()))
	// The pod garbage collector looks every 20 s.
	must(t, shared.WaitGone(t.Context(), cluster.Pods, job.Namespace, pods[0].Name))
	must(t, n.Untaint(t.Context(), cluster.OutOfService().Key))
}

func TestAnotherMachine(t *testing.T) {
	t.Parallel()
	n := newNode(t, "replaced")
	before := object(t, n)
	old := n.Machine()
	job, pods := runJob(t, cluster.TrainJobSpec{Name: "replaced", On: []string{n.Name}})
	must(t, n.CutOff())
	must(t, n.Delete(t.Context()))
	id := cluster.Identity{SystemUUID: "11111111-2222-3333-4444-555555555555"}
	m, err := n.AsAnotherMachine(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	after := object(t, n)
	if after.UID == before.UID {
		t.Error("the Node has the UID of the deleted one")
	}
	got, was := after.Status.NodeInfo, before.Status.NodeInfo
	if got.SystemUUID != id.SystemUUID || got.SystemUUID == was.SystemUUID || got.MachineID == was.MachineID || got.BootID == was.BootID {
		t.Errorf("node info of the other machine: %+v, was %+v", got, was)
	}
	if m.Name == old.Name || len(m.Processes()) != 0 {
		t.Errorf("machine %s has processes:\n%s", m.Name, m.Processes())
	}
	if live := old.Processes(); len(live) != 1 || live[0].PodUID != pods[0].UID {
		t.Errorf("on the old machine the process should live on; live:\n%s", live)
	}
	// The trap: a kubelet that never ran the pod says that it is over.
	p, err := shared.WaitPod(t.Context(), cluster.PodSelector{Namespace: job.Namespace, Name: pods[0].Name}, func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodFailed
	})
	if err != nil {
		t.Fatal(err)
	}
	if !shared.Truth().Alive(p.UID) {
		t.Error("the process died with the name")
	}
	// The old machine comes back in the same boot under another name. There its
	// kubelet ends what it finds and was not asked to run.
	must(t, old.Join("replaced-returns"))
	returned := shared.Node("replaced-returns")
	must(t, returned.WaitReady(t.Context()))
	if got := object(t, returned).Status.NodeInfo; got.SystemUUID != was.SystemUUID || got.BootID != was.BootID {
		t.Errorf("the old machine under a new name reports %+v, want %+v", got, was)
	}
	_, err = shared.WaitTruth(t.Context(), func(now cluster.Truth) bool { return !now.Alive(pods[0].UID) })
	must(t, err)
	must(t, old.PowerOff())
	must(t, returned.Delete(t.Context()))
	if len(old.Processes()) != 0 {
		t.Errorf("the old machine is off and runs:\n%s", old.Processes())
	}
	must(t, shared.DeleteTrainJob(t.Context(), job, metav1.DeletePropagationBackground))
}

func TestDeletedNodeReregisters(t *testing.T) {
	t.Parallel()
	n := newNode(t, "deleted")
	before := object(t, n)
	must(t, n.Delete(t.Context()))
	must(t, n.Reregister(t.Context()))
	after := object(t, n)
	if after.UID == before.UID {
		t.Error("the Node has the UID of the deleted one")
	}
	if got, was := after.Status.NodeInfo, before.Status.NodeInfo; got.SystemUUID != was.SystemUUID || got.BootID != was.BootID {
		t.Errorf("another machine or boot: %+v, was %+v", got, was)
	}
}

func TestRestartedKubeletAdoptsProcesses(t *testing.T) {
	t.Parallel()
	n := newNode(t, "adopted")
	job, pods := runJob(t, cluster.TrainJobSpec{Name: "adopted", On: []string{n.Name}})
	pid := shared.Truth().OfPod(pods[0].UID)[0].PID
	must(t, n.KillKubelet())
	if got := n.Machine().Status(); got != "no kubelet" {
		t.Errorf("machine is %q, want no kubelet", got)
	}
	must(t, n.StartKubelet())
	must(t, n.WaitReady(t.Context()))
	must(t, shared.DeleteTrainJob(t.Context(), job, metav1.DeletePropagationBackground))
	p, err := shared.WaitPod(t.Context(), cluster.PodsOf(job), func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil && p.Status.Phase == corev1.PodFailed })
	if err != nil {
		t.Fatal(err)
	}
	if live := shared.Truth().OfPod(p.UID); len(live) != 0 {
		t.Errorf("process %d was there before the kubelet; confirmed and alive:\n%s", pid, live)
	}
	if code := exitCode(p); code != 143 {
		t.Errorf("exit code of an adopted process after SIGTERM: %d, want 143", code)
	}
}

func object(t *testing.T, n *cluster.Node) *corev1.Node {
	t.Helper()
	o, err := n.Object(t.Context())
	if err != nil || o == nil {
		t.Fatalf("Node %s: %v, %v", n.Name, o, err)
	}
	return o
}
