package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/orphand/orphand/e2e/cluster"
	"github.com/orphand/orphand/e2e/daemon"
	"github.com/orphand/orphand/pkg/signals"
)

// stepLimit is how long any step may take; the longest waits for a quarantine of
// 40 s, on a host that may be busy.
const stepLimit = 100 * time.Second

// teller tells stories.
type teller struct {
	ctx     context.Context
	t       *timeline
	c       *cluster.Cluster
	d       *daemon.Daemon
	witness *witness
}

// result is how a story came out.
type result struct {
	letter, title string
	took          time.Duration
	// facts are what it showed, in words with figures.
	facts []string
	err   error
}

// story is one that is being told.
type story struct {
	*teller
	ctx   context.Context
	began time.Time
	facts []string
}

// unprovenPod is the pod on the node that is cut off, and when its job was deleted.
type unprovenPod struct {
	*corev1.Pod
	deleted time.Time
}

// misstep is a step that did not come out right, which ends the story.
type misstep struct{ error }

func newTeller(ctx context.Context, t *timeline, c *cluster.Cluster, d *daemon.Daemon) *teller {
	d.Listen(func(e daemon.Event) { sayEvent(t, e) })
	return &teller{ctx: ctx, t: t, c: c, d: d, witness: newWitness(c, t)}
}

func (te *teller) close() { te.witness.close() }

// all tells every story, each on nodes of its own, so that one that fails does not
// spoil the next.
func (te *teller) all() []result {
	var results []result
	for _, s := range []struct {
		letter, title string
		about         string
		tell          func(*story)
	}{
		{"a", "steady: all is well", "A TrainJob with two pods on healthy nodes is deleted.", steady},
		{"b", "split: a node is cut off", "One of two nodes loses its network. The job is deleted, and then somebody loses patience.", split},
		{"c", "lost: a dead node is deleted", "As before, but the dead machine's Node is deleted instead of tainted.", lost},
		{"d", "back: a node returns", "A node is cut off for a while, and comes back as if nothing had been.", back},
	} {
		if te.ctx.Err() != nil {
			break
		}
		results = append(results, te.tell(s.letter, s.title, s.about, s.tell))
	}
	return results
}

func (te *teller) tell(letter, title, about string, tell func(*story)) (r result) {
	te.t.heading("Story " + letter + ". " + title)
	te.t.text("%s", about)
	te.t.begin()
	s := &story{teller: te, ctx: te.ctx, began: time.Now()}
	defer func() {
		r = result{letter: letter, title: title, took: time.Since(s.began), facts: s.facts}
		switch p := recover().(type) {
		case nil:
		case misstep:
			r.err = p.error
			if te.ctx.Err() == nil {
				te.t.say(wrong, "%v", p.error)
			}
		default:
			panic(p)
		}
	}()
	tell(s)
	s.compare()
	return r
}

// sayEvent puts what orphand says on the timeline.
func sayEvent(t *timeline, e daemon.Event) {
	switch {
	case e.Code == signals.PodVerdictChanged && e.Reason == "Pending": // it will soon run, and the story begins then
	case e.Code == signals.PodVerdictChanged:
		t.say(orphand, "%s (%s): %s", e.Verdict, e.Reason, e.Message)
	case e.Code == signals.JobStateChanged:
		t.say(orphand, "%s: %s", e.State, e.Message)
	case e.Finding != "":
		t.say(orphand, "finding %s: %s", e.Finding, e.Message)
	}
}

// fail ends the story.
func (s *story) fail(format string, args ...any) { panic(misstep{fmt.Errorf(format, args...)}) }

// must ends the story if an act fails: that is the test bed's fault.
func (s *story) must(err error) {
	if err != nil {
		s.fail("the cluster did not do what was asked of it: %w", err)
	}
}

// does says what is done, and does it.
func (s *story) does(what string, do func() error) {
	s.t.say(done, "%s", what)
	s.must(do())
}

// because says why what was said is right.
func (s *story) because(text string) { s.t.say(why, "%s", text) }

// fact notes a figure for the end.
func (s *story) fact(format string, args ...any) {
	s.facts = append(s.facts, fmt.Sprintf(format, args...))
}

// bounded is the context of one step.
func (s *story) bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(s.ctx, stepLimit, fmt.Errorf("not within %s", stepLimit))
}

// job submits a TrainJob with one pod on each of the nodes, and waits until they
// run. The pods are in the order of the nodes.
func (s *story) job(name string, nodes ...string) (cluster.TrainJob, []*corev1.Pod) {
	ctx, cancel := s.bounded()
	defer cancel()
	var job cluster.TrainJob
	s.does(fmt.Sprintf("create TrainJob %s: a pod on %s", name, strings.Join(nodes, ", a pod on ")), func() (err error) {
		job, err = s.c.SubmitTrainJob(ctx, cluster.TrainJobSpec{Name: name, Nodes: len(nodes), On: nodes})
		return err
	})
	pods, err := s.c.WaitRunning(ctx, job)
	s.must(err)
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return slices.Index(nodes, a.Spec.NodeName) - slices.Index(nodes, b.Spec.NodeName)
	})
	return job, pods
}

// deletes deletes the TrainJob as dispatchers do.
func (s *story) deletes(job cluster.TrainJob) time.Time {
	ctx, cancel := s.bounded()
	defer cancel()
	at := time.Now()
	s.does("delete TrainJob "+job.Name+" with background propagation", func() error {
		return s.c.DeleteTrainJob(ctx, job, metav1.DeletePropagationBackground)
	})
	for _, k := range []struct {
		kind string
		wait func() error
	}{
		{"TrainJob", func() error { return s.c.WaitGone(ctx, cluster.TrainJobs, job.Namespace, job.Name) }},
		{"JobSet", func() error { return s.c.WaitGone(ctx, cluster.JobSets, job.Namespace, job.Name) }},
		{"Job", func() error { return s.c.WaitGone(ctx, cluster.Jobs, job.Namespace, job.Name+"-node-0") }},
	} {
		if err := k.wait(); err != nil {
			s.fail("the %s should vanish within seconds: %w", k.kind, err)
		}
	}
	return at
}

// cutOff cuts a node off and waits until Kubernetes has noticed.
func (s *story) cutOff(node string) {
	ctx, cancel := s.bounded()
	defer cancel()
	s.does(fmt.Sprintf("cut %s off: its network fails, and what runs on it runs on", node), s.c.Node(node).CutOff)
	s.must(s.c.Node(node).WaitUnreachable(ctx))
}

// powerOff ends a machine with all of its processes.
func (s *story) powerOff(node string) {
	s.does(fmt.Sprintf("power %s off: whatever ran on it ends", node), s.c.Node(node).PowerOff)
}

// expects waits until orphand gives the pod the verdict.
func (s *story) expects(p *corev1.Pod, verdict, reason string) daemon.Event {
	return s.awaits(daemon.Pod(p.UID, verdict, reason), fmt.Sprintf("orphand says that pod %s is %s (%s)", p.Name, verdict, reason), func() string {
		v, r := s.d.Verdict(p.UID)
		return fmt.Sprintf("it says %s (%s)", v, r)
	})
}

// settles waits until orphand calls the job settled.
func (s *story) settles(job cluster.TrainJob) daemon.Event {
	return s.awaits(daemon.Over(job.UID), "orphand says that job "+job.Name+" is settled: it is safe to run it again", func() string {
		return "it says " + s.d.State(job.UID)
	})
}

func (s *story) awaits(w daemon.Want, what string, instead func() string) daemon.Event {
	ctx, cancel := s.bounded()
	defer cancel()
	e, err := s.d.Await(ctx, w)
	if err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		s.fail("wanted: %s.\n%s; %s", what, instead(), first)
	}
	return e
}

// right says what has come out as it must.
func (s *story) right(text string) { s.t.say(right, "%s", text) }

// unsettled checks that the job does not count as safe to run again.
func (s *story) unsettled(job cluster.TrainJob) {
	if state := s.d.State(job.UID); state == "Settled" || state == "Cleared" {
		s.fail("orphand says that job %s is %s, which nobody can know yet", job.Name, state)
	}
}

// lives checks that a process of the pod lives, and says so.
func (s *story) lives(p *corev1.Pod) {
	now := s.c.Truth().OfPod(p.UID)
	if len(now) == 0 {
		s.fail("a process of pod %s should live, so that there is something to be wrong about; %s", p.Name, alive(s.c.Truth()))
	}
	s.t.say(truth, "process %d of pod %s still lives on %s", now[0].PID, p.Name, now[0].Machine)
}

// dead checks that no process of the pod lives.
func (s *story) dead(p *corev1.Pod) {
	if now := s.c.Truth(); now.Alive(p.UID) {
		s.fail("no process of pod %s should live; %s", p.Name, alive(now.OfPod(p.UID)))
	}
}

// absent checks that the API knows nothing of the pod any more.
func (s *story) absent(p *corev1.Pod) {
	ctx, cancel := s.bounded()
	defer cancel()
	s.must(s.c.WaitGone(ctx, cluster.Pods, p.Namespace, p.Name))
}

// pause lets time pass, for the reader to see that nothing happens.
func (s *story) pause(d time.Duration) {
	select {
	case <-s.ctx.Done():
		s.fail("%w", s.ctx.Err())
	case <-time.After(d):
	}
}

// records shows orphand's records as anyone with kubectl sees them.
func (s *story) records() {
	ctx, cancel := s.bounded()
	defer cancel()
	const command = "kubectl get orphans"
	out, err := exec.CommandContext(ctx, s.c.Kubectl(), "get", "orphans").CombinedOutput()
	if err != nil {
		s.fail("%s: %w\n%s", command, err, out)
	}
	s.t.say(kubernetes, "$ %s\n%s", command, out)
}

// compare ends the story with all that orphand ever said beside what lives.
func (s *story) compare() {
	if lies := s.d.Judge().Lies(); len(lies) > 0 {
		s.fail("orphand's words and the truth differ:\n%s", strings.Join(lies, "\n"))
	}
	s.right("all that orphand has said so far agrees with the processes that live")
}

// failures joins what went wrong.
func failures(results []result) error {
	var errs []error
	for _, r := range results {
		if r.err != nil {
			errs = append(errs, fmt.Errorf("story %s: %w", r.letter, r.err))
		}
	}
	return errors.Join(errs...)
}
