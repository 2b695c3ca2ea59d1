package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/clock"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/reap"
)

func newUnwedgeCommand(streams Streams) *cobra.Command {
	timeout, yes := 5*time.Minute, false
	cmd := &cobra.Command{
		Use:   "unwedge [NAMESPACE/]TRAINJOB",
		Short: "Release a TrainJob whose foreground deletion is stuck for want of its runtime",
		Long: `unwedge releases a TrainJob that was deleted in the foreground and stays Terminating:
Trainer's webhook refuses the update that lifts its finalizer, because the runtime that
it names is gone. unwedge makes a runtime of that name, waits until the TrainJob is gone,
and removes the runtime and whatever Trainer made from it meanwhile, each under its UID.

The runtime is inert: Trainer would otherwise make the job's pods again, and they would
run. Its pods carry a scheduling gate that nobody lifts, so that none ever gets a node.

It is refused while the runtime is there, and while other TrainJobs that live name it.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("unwedge needs one TRAINJOB, as NAME or NAMESPACE/NAME")
			}
			return nil
		},
	}
	cluster := clusterFlags(cmd)
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "how long to wait for the TrainJob to go, and for what grew meanwhile")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if timeout <= 0 {
			return usage("--timeout %v: use more than 0s", timeout)
		}
		s, err := openSession(cluster)
		if err != nil {
			return err
		}
		namespace, name, err := s.name(args[0])
		if err != nil {
			return err
		}
		u := &unwedger{session: s, streams: streams, clock: clock.RealClock{}, yes: yes,
			api: &reap.Kube{Core: s.clients.Kube, Dynamic: s.clients.Dynamic, Metadata: s.clients.Metadata}}
		return clusterFailure(u.run(cmd.Context(), namespace, name, timeout))
	}
	return cmd
}

// unwedger releases one TrainJob.
type unwedger struct {
	*session
	streams Streams
	clock   clock.WithTicker
	api     *reap.Kube
	yes     bool
}

func (u *unwedger) run(ctx context.Context, namespace, name string, timeout time.Duration) error {
	trainJobs, _ := reap.ParseKind("trainjob")
	found, err := u.api.Get(ctx, trainJobs, namespace, name)
	if err != nil {
		return err
	}
	if found == nil {
		return fmt.Errorf("there is no TrainJob %s/%s", namespace, name)
	}
	object := found.(*unstructured.Unstructured)
	job, err := facts.FromTrainJob(object)
	if err != nil {
		return err
	}
	if err := reap.Wedged(job); err != nil {
		return &failure{Code: ExitRefused, err: err}
	}
	target, err := reap.RuntimeOf(job)
	if err != nil {
		return &failure{Code: ExitRefused, err: err}
	}
	runtime, err := u.api.Get(ctx, target.Kind, target.Namespace, target.Name)
	if err != nil {
		return err
	}
	if runtime != nil && !reap.IsInertFor(runtime, job.UID) {
		return &failure{Code: ExitRefused, err: fmt.Errorf("%s is there, so %s is not wedged for want of it", target.Ref, job.Ref())}
	}
	if err := u.unneeded(ctx, trainJobs, job, target); err != nil {
		return err
	}
	if !u.yes {
		question := fmt.Sprintf("Make an inert %s so that %s (UID %s) can go, and remove it afterwards?", target.Ref, job.Ref(), job.UID)
		if err := confirm(u.streams.Err, os.Stdin, question); err != nil {
			return err
		}
	}
	if runtime == nil {
		if runtime, err = u.make(ctx, object, target); err != nil {
			return err
		}
	}
	target.UID = runtime.GetUID()
	deadline := u.clock.Now().Add(timeout)
	if err := u.await(ctx, trainJobs, job, target, deadline); err != nil {
		return err
	}
	return u.tidy(ctx, job, target, deadline)
}

// unneeded refuses while a TrainJob that lives names the runtime: it would get the inert one.
func (u *unwedger) unneeded(ctx context.Context, trainJobs reap.Kind, job *facts.TrainJob, target reap.Target) error {
	all, err := u.api.List(ctx, trainJobs, target.Namespace, labels.Everything())
	if err != nil {
		return err
	}
	for _, o := range all {
		other, err := facts.FromTrainJob(o.(*unstructured.Unstructured))
		if err != nil {
			return err
		}
		if other.UID != job.UID && !other.Deletion.Known() && other.RuntimeKind == job.RuntimeKind && other.RuntimeName == job.RuntimeName {
			return &failure{Code: ExitRefused, err: fmt.Errorf("%s names %s as well and is not being deleted: it would get the inert runtime", other.Ref(), target.Ref)}
		}
	}
	return nil
}

// make creates the inert runtime.
func (u *unwedger) make(ctx context.Context, job *unstructured.Unstructured, target reap.Target) (metav1.Object, error) {
	inert, err := reap.Inert(job)
	if err != nil {
		return nil, err
	}
	made, err := u.clients.Dynamic.Resource(target.Kind.Resource).Namespace(target.Namespace).Create(ctx, inert, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("making the inert %s: %w", target.Ref, err)
	}
	fmt.Fprintf(u.streams.Err, "made the inert %s (UID %s)\n", target.Ref, made.GetUID())
	return made, nil
}

// await waits until the TrainJob is gone.
func (u *unwedger) await(ctx context.Context, trainJobs reap.Kind, job *facts.TrainJob, target reap.Target, deadline time.Time) error {
	const pause = 500 * time.Millisecond
	var trouble error
	for {
		o, err := u.api.Get(ctx, trainJobs, job.Namespace, job.Name)
		if err == nil && (o == nil || o.GetUID() != job.UID) {
			fmt.Fprintf(u.streams.Err, "%s is gone\n", job.Ref())
			return nil
		}
		trouble = err
		timer := u.clock.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C():
		}
		timer.Stop()
		if ctx.Err() != nil || u.clock.Now().After(deadline) {
			text := fmt.Sprintf("%s is still there; the inert %s stays: run unwedge again, or delete it (UID %s)", job.Ref(), target.Ref, target.UID)
			if trouble != nil {
				text += ": " + trouble.Error()
			}
			return &failure{Code: ExitAlive, err: errors.New(text)}
		}
	}
}

// tidy removes the inert runtime, and what Trainer made from it.
func (u *unwedger) tidy(ctx context.Context, job *facts.TrainJob, target reap.Target, deadline time.Time) error {
	r := reap.New(reap.Config{API: u.api, Clock: u.clock, RuntimeCopies: reap.InertRuntimes(), Records: &recorded{session: u.session, warn: u.streams.Err}})
	result, err := r.Stop(ctx, target)
	if err != nil {
		return &failure{Code: ExitRefused, err: fmt.Errorf("the inert runtime stays: %w", err)}
	}
	fmt.Fprintf(u.streams.Err, "the inert %s is %s\n", target.Ref, result.Status)
	left := max(deadline.Sub(u.clock.Now()), 30*time.Second)
	report, err := r.StopJob(ctx, job.JobKey(), reap.StopOptions{Timeout: left, Progress: progress(u.streams.Err)})
	if err != nil {
		return err
	}
	if err := outcome(report); err != nil {
		return err
	}
	fmt.Fprintf(u.streams.Out, "%s is gone, and nothing is left of it\n", job.Ref())
	return nil
}
