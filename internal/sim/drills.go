package sim

import (
	"time"

	"github.com/orphand/orphand/pkg/facts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// script writes a drill.
type script struct {
	p *Plan
	d *dice
	// made is when the job is made.
	made time.Duration
}

// do adds an action some time after the job was made. A machine is the one that has most of the job, and the last that has its
// name from then on.
func (s script) do(after time.Duration, a Action) {
	a.At, a.Scene = s.made+after, 1
	if a.Policy == "" {
		a.Policy = metav1.DeletePropagationBackground
	}
	s.p.Actions = append(s.p.Actions, a)
}

func (s script) between(from, to float64) time.Duration {
	return s.d.between(time.Duration(from*float64(time.Second)), time.Duration(to*float64(time.Second)))
}

func (s script) job() *JobPlan { return &s.p.Jobs[0] }

// drill plans a history in which little happens but what makes one guard of the rule matter. By chance it happens in one
// history of thousands, and nobody would notice that the guard is gone.
func (p *Plan) drill(d *dice) {
	p.Machines, p.Jobs, p.Actions = p.Machines[:2], p.Jobs[:1], p.Actions[:1]
	for i := range p.Machines {
		p.Machines[i].Skew = 0
	}
	j := &p.Jobs[0]
	*j = JobPlan{Name: j.Name, Jobs: 1, Pods: 1, Backoff: 3, MaxRestarts: 1, Grace: 30, RestartPolicy: j.RestartPolicy}
	p.NodeGrace, p.SlowestPull, p.APISkew, p.Start = d.between(14*time.Second, 20*time.Second), time.Second, 0, 0
	p.LatePosts, p.ShortRuns, p.Unkillable, p.StaleControllers, p.Gated = 0, 0, 0, 0, 0
	p.NodeFinalizers, p.Kueue, p.KubeletName, p.ManagerName = false, false, "kubelet", manager
	p.Latency, p.Workers = Slowness{0, 50 * time.Millisecond}, Slowness{}
	for k := range p.Lag {
		p.Lag[k] = Slowness{0, 30 * time.Millisecond}
	}
	s := script{p: p, d: d, made: p.Actions[0].At}
	pick(d, drills()...)(s)
}

// drills lists the drills.
func drills() []func(script) {
	return []func(script){
		script.sidecarIsForgotten,
		script.childArrivesLate,
		script.taintIsForgotten,
		script.taintIsOlderThanOrphand,
		script.taintIsOlderThanThePod,
		script.kubeletComesBack,
		script.nodeComesBackUnseen,
		script.podIsUnselected,
		script.takeoverIsReadOnly,
		script.podIsSeenLast,
		script.readIsSlow,
		script.jobSetIsOrphaned,
		script.personIsWrong,
	}
}

// The app container has ended and the sidecar takes its time on a machine that is cut off. The kubelet of the machine that takes
// over the name finds neither: at first it says of the sidecar no more than that it knows nothing of it.
func (s script) sidecarIsForgotten() {
	j := s.job()
	j.Sidecar, j.Grace, j.RestartPolicy = true, 600, corev1.RestartPolicyNever
	s.p.ShortRuns = 1
	at := s.between(100, 200)
	s.do(at, Action{Do: Cut})
	s.do(at+s.between(0.1, 2), Action{Do: DeleteJob})
	s.do(at+s.between(2, 4), Action{Do: Replace})
}

// Nothing of the job is left when its TrainJob goes, and a controller that has not heard of that makes a JobSet, while the
// watches fall behind.
func (s script) childArrivesLate() {
	s.do(s.between(1, 20), Action{Do: SuspendJob})
	at := s.between(80, 100)
	s.do(at, Action{Do: DeleteJob})
	s.do(at, Action{Do: LateJobSet, For: s.d.between(2*time.Second, lateChildren)})
	s.do(at+1500*time.Millisecond, Action{Do: StallGC, For: time.Minute})
	for _, k := range []string{facts.KindJobSet, facts.KindJob, facts.KindPod} {
		s.do(at+1500*time.Millisecond, Action{Do: SlowWatch, Kind: k, For: time.Minute})
	}
}

// outages has the machine go off, be tainted, come back with the taint, start the pod again, and be cut off. The taint keeps
// nobody from the node, so that the pod outlives it.
func (s script) outages(off time.Duration) (again time.Duration) {
	s.p.Toleration = 5 * time.Minute
	s.job().RestartPolicy = corev1.RestartPolicyOnFailure
	s.do(off, Action{Do: PowerOff})
	s.do(off+s.p.NodeGrace+8*time.Second, Action{Do: Taint})
	s.do(off+s.p.NodeGrace+10*time.Second, Action{Do: PowerOn})
	again = off + s.p.NodeGrace + 60*time.Second
	s.do(again, Action{Do: Cut})
	return again
}

// The taint of the first outage is still there in the second.
func (s script) taintIsForgotten() {
	again := s.outages(s.between(10, 20))
	s.do(again+s.between(1, 60), Action{Do: DeleteJob})
}

// So it is, and orphand has seen nothing of the first.
func (s script) taintIsOlderThanOrphand() {
	again := s.outages(s.between(10, 20))
	s.do(9*time.Second, Action{Do: RestartDaemon, Flag: true, For: again + s.p.NodeGrace + 5*time.Second})
	s.do(again+s.p.NodeGrace+s.between(20, 60), Action{Do: DeleteJob})
}

// So it is, nothing tells who wrote the taints last, and the pod was taken up when the machine came back.
func (s script) taintIsOlderThanThePod() {
	s.p.KubeletName, s.p.ManagerName = "k3s", "k3s"
	again := s.outages(s.between(1, 3))
	s.do(500*time.Millisecond, Action{Do: RestartDaemon, Flag: true, For: again + s.p.NodeGrace + 10*time.Second})
	s.do(again+s.p.NodeGrace+s.between(20, 60), Action{Do: DeleteJob})
}

// The kubelet hears of the deletion when the grace that the API shows is over, and then its Node is deleted.
func (s script) kubeletComesBack() {
	s.job().Grace = 120
	at := s.between(10, 20)
	s.do(at, Action{Do: Cut})
	s.do(at+2*time.Second, Action{Do: DeleteJob})
	back := at + s.between(100, 140)
	s.do(back, Action{Do: Heal})
	s.do(back+s.between(12, 20), Action{Do: DeleteNode, Flag: true})
}

// leaves has the machine's Node deleted and its kubelet unable to end anything, and then the job deleted.
func (s script) leaves() (at time.Duration) {
	at = s.between(15, 30)
	s.job().Grace = 2
	s.do(at, Action{Do: DeleteNode, Flag: true})
	s.do(at+200*time.Millisecond, Action{Do: RuntimeDown})
	s.do(at+s.between(0.5, 2), Action{Do: DeleteJob})
	return at
}

// The machine has its name again, and the watch of Nodes does not tell.
func (s script) nodeComesBackUnseen() {
	at := s.leaves()
	s.do(at+400*time.Millisecond, Action{Do: SlowWatch, Kind: facts.KindNode, For: 4 * time.Minute})
	s.do(at+s.between(3, 20), Action{Do: RestartKubelet})
}

// Somebody takes the labels off a pod, and its machine boots and starts it again.
func (s script) podIsUnselected() {
	s.job().RestartPolicy = corev1.RestartPolicyOnFailure
	at := s.between(8, 20)
	s.do(at-2*time.Second, Action{Do: StallJobs, For: 3 * time.Minute})
	s.do(at, Action{Do: Unlabel})
	s.do(at+s.between(3, 10), Action{Do: Reboot})
}

// Another machine takes over the Node, which only a live read tells, and then the Node goes.
func (s script) takeoverIsReadOnly() {
	s.job().RestartPolicy = corev1.RestartPolicyOnFailure
	at := s.between(10, 20)
	s.do(at, Action{Do: CutWatch, Kind: facts.KindNode, For: 80 * time.Second})
	s.do(at+time.Second, Action{Do: Replace})
	s.do(at+s.between(40, 50), Action{Do: DeleteJob})
	s.do(at+s.between(60, 75), Action{Do: DeleteNode, Flag: true})
}

// A machine starts the pod and is cut off before it can say so; another takes over the Node, runs the pod to its end, and
// loses the Node. Only then is the pod seen.
func (s script) podIsSeenLast() {
	s.job().RestartPolicy = corev1.RestartPolicyNever
	s.p.ShortRuns, s.p.LatePosts = 1, 1
	s.do(300*time.Millisecond, Action{Do: CutWatch, Kind: facts.KindPod, For: 150 * time.Second})
	at := s.between(3, 4.5)
	s.do(at, Action{Do: Cut})
	s.do(at+100*time.Millisecond, Action{Do: Replace})
	s.do(s.between(100, 140), Action{Do: DeleteNode, Flag: true})
	s.do(170*time.Second, Action{Do: DeleteJob})
}

// A node is read while its machine boots, starts a pod again, and the pod is asked to terminate: what the answer says was so
// before that.
func (s script) readIsSlow() {
	s.p.Machines = s.p.Machines[:1]
	j := s.job()
	j.Pods, j.RestartPolicy, j.Grace = 2, corev1.RestartPolicyOnFailure, 600
	s.p.Latency = Slowness{11 * time.Second, 12 * time.Second}
	at := s.between(15, 25)
	s.do(at-2*time.Second, Action{Do: SlowWatch, Kind: facts.KindNode, For: 80 * time.Second})
	s.do(at, Action{Do: DeletePod})
	s.do(at+200*time.Millisecond, Action{Do: Reboot})
	s.do(at+s.between(7, 10.5), Action{Do: DeletePod, Pod: 1})
	s.do(at+12*time.Second, Action{Do: Cut})
}

// The TrainJob goes and leaves its JobSet behind, without an owner. A pod that is made after that takes its time to end.
func (s script) jobSetIsOrphaned() {
	s.job().Grace, s.job().Backoff = 600, 6
	at := s.between(10, 40)
	s.do(at, Action{Do: DeleteJob, Policy: metav1.DeletePropagationOrphan})
	s.do(at+s.between(10, 20), Action{Do: ForceDelete, Flag: true})
	s.do(at+s.between(40, 60), Action{Do: DeleteJobSet})
}

// A person vouches for a pod whose kubelet, which has not heard of its deletion, starts it again.
func (s script) personIsWrong() {
	s.p.Honest, s.p.ShortRuns = false, 1
	s.job().RestartPolicy = corev1.RestartPolicyOnFailure
	at := s.between(10, 20)
	s.do(at, Action{Do: Cut})
	s.do(at+2*time.Second, Action{Do: DeletePod})
	s.do(at+s.between(3, 10), Action{Do: AttestPod})
	s.do(at+s.between(100, 200), Action{Do: Heal})
}
