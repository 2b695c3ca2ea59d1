package main

import (
	"time"

	"github.com/orphand/orphand/e2e/cluster"
	"github.com/orphand/orphand/e2e/daemon"
)

// steady: nothing fails.
func steady(s *story) {
	job, pods := s.job("steady", "node-0", "node-1")
	at := s.deletes(job)
	api := time.Since(at)
	s.because("TrainJob, JobSet and Job vanish at once. From here on nothing in the API answers \"is anything of\nsteady still running?\", although its processes have only just been asked to end.")
	var ended time.Time
	for _, p := range pods {
		if e := s.expects(p, "Gone", "KubeletConfirmed"); e.At.After(ended) {
			ended = e.At
		}
		s.dead(p)
	}
	s.right("each pod is Gone as soon as its kubelet has reported that the process it started has ended")
	settled := s.settles(job)
	s.right("the job is settled: it is safe to run it again")
	s.because("orphand gives children that arrive late 5 s before it says so.")
	s.fact("TrainJob, JobSet and Job vanished after %s, pods Gone after %s, Settled after %s",
		seconds(api), seconds(ended.Sub(at)), seconds(settled.At.Sub(at)))
}

// unreachable is how the other stories begin: a job on two nodes, the second of
// which is cut off, is deleted.
func (s *story) unreachable(name, node string) (job cluster.TrainJob, far unprovenPod) {
	job, pods := s.job(name, "node-0", node)
	s.cutOff(node)
	far.deleted = s.deletes(job)
	far.Pod = pods[1]
	s.expects(pods[0], "Gone", "KubeletConfirmed")
	s.dead(pods[0])
	s.expects(far.Pod, "Unproven", "NodeUnreachable")
	s.right("the pod on node-0 is Gone; of the one on " + node + " nobody can tell, so it is Unproven")
	s.lives(far.Pod)
	s.unsettled(job)
	return job, far
}

// split: somebody has to be sure that the machine is off.
func split(s *story) {
	const node = "node-1"
	job, far := s.unreachable("split", node)
	s.because("Kubernetes has asked the pod to end, but the kubelet that would end it hears nothing. A job that\nis started again now runs beside this process. Time proves nothing: it stays Unproven for as long\nas you like. Here are 6 s of it.")
	s.pause(6 * time.Second)
	s.lives(far.Pod)
	s.unsettled(job)

	ctx, cancel := s.bounded()
	defer cancel()
	s.does("lose patience: delete pod "+far.Name+" with --grace-period=0 --force", func() error {
		return s.c.ForceDeletePod(ctx, far.Pod)
	})
	s.absent(far.Pod)
	s.expects(far.Pod, "Unproven", "RemovedUnconfirmed")
	s.right("the pod is still Unproven, though Kubernetes knows nothing of it any more")
	s.lives(far.Pod)
	s.unsettled(job)
	s.because("The API is empty: whoever counts pods starts the job a second time now. Deleting an object ends no\nprocess, so orphand keeps the pod on its record, and names the machine that is to be accounted for:")
	s.records()

	s.powerOff(node)
	s.dead(far.Pod)
	s.unsettled(job)
	s.because("Now nothing runs, but nobody has said so: a machine that is off and one that is cut off look the\nsame. The next step is how a person, or a fencing device, says it.")
	tainted := time.Now()
	s.does("taint node-1 with node.kubernetes.io/out-of-service, because it is known to be off", func() error {
		return s.c.Node(node).Taint(ctx, cluster.OutOfService())
	})
	gone := s.expects(far.Pod, "Gone", "OutOfService")
	settled := s.settles(job)
	s.right("with that word, and not before, the pod is Gone and the job is settled")
	s.fact("Unproven for %s, Gone %s after the taint, Settled %s after the deletion",
		seconds(tainted.Sub(far.deleted)), seconds(gone.At.Sub(tainted)), seconds(settled.At.Sub(far.deleted)))
}

// lost: a Node's deletion is somebody's word, too, but a hasty one.
func lost(s *story) {
	const node = "node-2"
	job, far := s.unreachable("lost", node)
	s.powerOff(node)
	s.dead(far.Pod)
	s.unsettled(job)
	ctx, cancel := s.bounded()
	defer cancel()
	removed := time.Now()
	s.does("delete Node node-2, because its machine will not come back", func() error { return s.c.Node(node).Delete(ctx) })
	s.expects(far.Pod, "Unproven", "NodeDeleted")
	s.right("the pod is still Unproven: the Node's deletion alone proves nothing")
	s.because("Nodes are deleted by mistake, too, and a machine that lives registers again when its kubelet is\nrestarted. So there is a quarantine of 40 s, in which the machine must not be seen anywhere; then\norphand asks the API once more. Please wait.")
	gone := s.expects(far.Pod, "Gone", "NodeDeleted")
	if after := gone.At.Sub(removed); after < 40*time.Second {
		s.fail("orphand took the Node's deletion as proof after %s, before its quarantine was over", seconds(after))
	}
	settled := s.settles(job)
	s.right("after the quarantine the pod is Gone and the job is settled")
	s.because("The pod's object may still be there: Kubernetes' pod garbage collector removes it some time within\n60 s of the Node's deletion. That proves nothing, and changes nothing.")
	s.absent(far.Pod)
	s.clears(job)
	s.right("nothing is left of the job in the API: it is Cleared")
	s.fact("Gone %s after the Node's deletion, Settled %s after the job's", seconds(gone.At.Sub(removed)), seconds(settled.At.Sub(far.deleted)))
}

// back: who can be heard again can confirm.
func back(s *story) {
	const node = "node-3"
	job, far := s.unreachable("back", node)
	s.because("Whoever starts the job again at this point has two executions of it on one checkpoint.")
	s.pause(3 * time.Second)
	s.unsettled(job)
	returned := time.Now()
	s.does("bring node-3 back: its network works again", s.c.Node(node).BringBack)
	gone := s.expects(far.Pod, "Gone", "KubeletConfirmed")
	s.dead(far.Pod)
	settled := s.settles(job)
	s.right("the kubelet heard that the pod was to end, ended it, and said so: Gone, and the job is settled")
	s.fact("Gone %s after the node came back, Settled %s after the deletion",
		seconds(gone.At.Sub(returned)), seconds(settled.At.Sub(far.deleted)))
}

// clears waits until orphand says that nothing of the job is left.
func (s *story) clears(job cluster.TrainJob) {
	s.awaits(daemon.Job(job.UID, "Cleared"), "orphand says that job "+job.Name+" is Cleared", func() string {
		return "it says " + s.d.State(job.UID)
	})
}
