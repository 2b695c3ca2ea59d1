package sweep

import (
	"context"
	"errors"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/reap"
	"github.com/orphand/orphand/pkg/retention"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func (s *Sweeper) syncPod(ctx context.Context, uid types.UID) error {
	s.mu.Lock()
	p, d, job := s.judgePod(uid)
	released := p != nil && p.released
	if p != nil {
		p.released = false
	}
	if p == nil || !d.Acts(s.now()) || p.deleted.Known() || !s.allowed(p.Namespace, &p.refused) {
		s.mu.Unlock()
		return nil
	}
	if due, last := s.c.Deleter.Due(uid); !due {
		s.retry(Key{UID: uid, Pod: true}, last)
		s.mu.Unlock()
		return nil
	}
	if !released {
		if !p.queued {
			p.queued = true
			backlog := ""
			if retention.Backlogged(d.Due, s.since) {
				backlog, p.backlog = facts.KindPod, true
			}
			s.enter(uid, d.Due, backlog, true)
		}
		s.mu.Unlock()
		return nil
	}
	was := p.Pod
	s.mu.Unlock()

	ctx = reap.InTurn(ctx)
	now, err := s.c.Live.Pod(ctx, was.Namespace, was.Name)
	if err != nil {
		return err
	}
	if now == nil || now.UID != uid {
		return nil // it is gone, which the watch will tell
	}
	// A job that was retried or is kept since the watch last told of it must not lose its pods.
	root, err := s.c.Live.Object(ctx, job.Of, job.Namespace, job.Name)
	if err != nil {
		return err
	}
	if root == nil || root.GetUID() != job.UID {
		return nil // its end too
	}
	s.mu.Lock()
	job = s.policy.Read(job.Of, root)
	s.mu.Unlock()
	controller, err := s.controller(ctx, now, job)
	if err != nil {
		return err
	}
	s.mu.Lock()
	if p = s.pods[uid]; p == nil {
		s.mu.Unlock()
		return nil
	}
	p.Pod = now
	d = s.policy.DecidePod(retention.PodCase{Pod: s.seen(p, job), Job: job, Controller: controller, Now: s.now()})
	s.notePod(p, d)
	acts := d.Acts(s.now()) && s.allowed(now.Namespace, &p.refused)
	s.mu.Unlock()
	if !acts {
		return nil
	}
	order, err := reap.NewOrder(reap.Target{Kind: reap.Kind{Kind: facts.KindPod, Resource: corev1.SchemeGroupVersion.WithResource("pods")}, Ref: now.Ref()})
	if err != nil {
		return err
	}
	answer, err := s.c.Deleter.Send(ctx, order.AtVersion(now.ResourceVersion), reap.CauseRetention)
	if errors.Is(err, reap.ErrNotLeading) {
		return nil
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !answer.Settled():
		s.retry(Key{UID: uid, Pod: true}, answer)
	case answer.Outcome == reap.Accepted:
		// The watch may have told of the end before the answer came: then nobody else knows p.
		if p.deleted = s.now(); p.backlog {
			s.remember(retention.Removal{Backlog: retention.BacklogOf(facts.KindPod), At: p.deleted})
		} else {
			s.c.Recorder.RetentionLateness(p.deleted.Sub(max(d.Due, p.known)))
		}
	}
	return nil
}

// judgePod decides on a pod by what the watches tell, and sets its timer. Its pod is nil when there is no decision.
func (s *Sweeper) judgePod(uid types.UID) (*pod, retention.Decision, *retention.Object) {
	p := s.pods[uid]
	if p == nil || !s.begun {
		return nil, retention.Decision{}, nil
	}
	now := s.now()
	job := s.jobOf(p)
	c := retention.PodCase{Pod: s.seen(p, job), Job: job, Controller: retention.ControllerOver, Now: now}
	if e := s.objects[p.Owner.UID]; e != nil && !e.o.Finished {
		c.Controller = retention.ControllerWorking
	}
	d := s.policy.DecidePod(c)
	s.notePod(p, d)
	if d.Verb == retention.Delete && d.Due > now {
		s.c.Queue.AddAfter(Key{UID: uid, Pod: true}, d.Due.Sub(now))
	}
	if d.Verb != retention.Delete || d.Due > now {
		p.queued, p.released = false, false
	}
	return p, d, job
}

func (s *Sweeper) notePod(p *pod, d retention.Decision) {
	s.count(p.said, d)
	if p.said.Verb != retention.Delete && d.Verb == retention.Delete {
		p.known = s.now()
	}
	p.said = d
}

// jobOf is the object that the pod is of: the one at the root where there are several, such as a JobSet and its TrainJob.
func (s *Sweeper) jobOf(p *pod) *retention.Object {
	var found *entry
	for _, l := range p.labels {
		for uid := range s.named[l] {
			e := s.objects[uid]
			if e == nil || !p.of(e.o) || e.o.Of.Kind == facts.KindTrainJob && !s.ofTrainJob(p, e.o) {
				continue
			}
			if found == nil || e.o.Of.Kind == facts.KindTrainJob || e.o.Of.Kind == facts.KindJobSet && found.o.Of.Kind == facts.KindJob {
				found = e
			}
		}
	}
	if found == nil {
		return nil
	}
	if root := s.objects[found.o.Owner.UID]; root != nil {
		return root.o
	}
	return found.o
}

// ofTrainJob says whether the pod is one of the TrainJob's, and not of another incarnation of its name.
func (s *Sweeper) ofTrainJob(p *pod, o *retention.Object) bool {
	if s.c.Pods == nil {
		return false
	}
	job, _, known := s.c.Pods.JobOf(p.UID)
	return known && job.UID == o.UID
}

// seen is the pod with the best word on whether it is over.
func (s *Sweeper) seen(p *pod, job *retention.Object) retention.Pod {
	if job != nil && job.Of.Kind == facts.KindTrainJob && s.c.Pods != nil {
		if _, over, known := s.c.Pods.JobOf(p.UID); known {
			return retention.Pod{Pod: p.Pod, Over: over}
		}
	}
	return retention.Pod{Pod: p.Pod, Over: retention.Ended(p.Pod)}
}

// controller reads whether a pod's own controller would make another in its place.
func (s *Sweeper) controller(ctx context.Context, p *facts.Pod, job *retention.Object) (retention.ControllerState, error) {
	switch {
	case !p.Owner.Controller:
		return retention.ControllerOver, nil
	case job != nil && job.UID == p.Owner.UID:
		if job.Finished {
			return retention.ControllerOver, nil
		}
		return retention.ControllerWorking, nil
	}
	s.mu.Lock()
	policy := s.policy
	s.mu.Unlock()
	kind := policy.KindOf(p.Owner.Group, p.Owner.Kind)
	if kind == nil {
		return retention.ControllerUnknown, nil
	}
	u, err := s.c.Live.Object(ctx, kind, p.Namespace, p.Owner.Name)
	switch {
	case err != nil:
		return retention.ControllerUnknown, err
	case u == nil, u.GetUID() != p.Owner.UID, policy.Read(kind, u).Finished:
		return retention.ControllerOver, nil
	}
	return retention.ControllerWorking, nil
}
