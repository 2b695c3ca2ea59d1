package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"

	"github.com/orphand/orphand/api/v1alpha1"
	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/informers"
	"github.com/orphand/orphand/pkg/ledger"
	"github.com/orphand/orphand/pkg/settle"
)

func newWaitCommand(streams Streams) *cobra.Command {
	var uid string
	want, timeout := "settled", 10*time.Minute
	cmd := &cobra.Command{
		Use:   "wait [NAMESPACE/]TRAINJOB",
		Short: "Wait until it is safe to run a deleted TrainJob again",
		Long: `wait follows the record that "orphand run" keeps of a deleted TrainJob and returns when
the job is settled: no process of it can be running, and nothing is left that could
start one. With --for cleared it also waits until none of its objects is left, which
Trainer needs before it takes a new TrainJob of that name.

Give the --uid of the incarnation that you deleted: then nothing else is taken for it.
Without it every incarnation of the name has to be settled, for 5 seconds, and one
whose deletion orphand has not recorded is not known. A TrainJob that is there and
not being deleted is waited for like any other: delete it first.`,
		Example: `  uid=$(kubectl get trainjob llm -o jsonpath='{.metadata.uid}')
  kubectl delete trainjob llm
  orphand wait llm --uid "$uid" --timeout 30m && kubectl create -f llm.yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("wait needs one TRAINJOB, as NAME or NAMESPACE/NAME")
			}
			return nil
		},
	}
	cluster := clusterFlags(cmd)
	cmd.Flags().StringVar(&uid, "uid", uid, "wait for this incarnation only")
	cmd.Flags().StringVar(&want, "for", want, "settled or cleared")
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "how long to wait; 0 looks once")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if want != "settled" && want != "cleared" {
			return usage("--for %q: use settled or cleared", want)
		}
		if timeout < 0 {
			return usage("--timeout %v: use 0s or more", timeout)
		}
		s, err := openSession(cluster)
		if err != nil {
			return err
		}
		namespace, name, err := s.name(args[0])
		if err != nil {
			return err
		}
		w := &waiter{session: s, streams: streams, clock: clock.RealClock{}, namespace: namespace, name: name, uid: types.UID(uid), cleared: want == "cleared"}
		return w.wait(cmd.Context(), timeout)
	}
	return cmd
}

// waiter waits for the records of one TrainJob's name, or of one incarnation of it.
type waiter struct {
	*session
	streams         Streams
	clock           clock.PassiveClock
	namespace, name string
	uid             types.UID
	cleared         bool
	last            string
}

// recordDue is how long the record of a TrainJob that is gone may take to appear before its absence means something.
const recordDue = 10 * time.Second

// unnamedQuiet is for how long a name without a UID must be settled: the record of an incarnation that was deleted just now
// may still be on its way, and that of an earlier one says nothing of it.
const unnamedQuiet = 5 * time.Second

func (w *waiter) wait(ctx context.Context, timeout time.Duration) error {
	ended, cancel := context.WithTimeout(ctx, max(timeout, time.Second))
	defer cancel()
	var verdict answer
	unrecorded, done := time.Time{}, time.Time{}
	for {
		records, version, served, err := w.records(ended, w.namespace)
		if err == nil {
			verdict, err = w.judge(ended, records, served)
		}
		switch {
		case ended.Err() != nil:
			return w.late(ctx, timeout, verdict)
		case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
			return err
		case err != nil: // the API server may be back before the time is up
			verdict = answer{code: ExitFailure, text: err.Error()}
		}
		if !verdict.done {
			done = time.Time{}
			w.say(verdict.text)
		} else if done.IsZero() {
			done = w.clock.Now()
		}
		if !verdict.unrecorded {
			unrecorded = time.Time{}
		} else if unrecorded.IsZero() {
			unrecorded = w.clock.Now()
		}
		switch {
		case verdict.done && (timeout == 0 || w.uid != "" || w.clock.Since(done) >= unnamedQuiet):
			fmt.Fprintln(w.streams.Out, verdict.text)
			return nil
		case verdict.code == ExitElsewhere, verdict.unrecorded && w.clock.Since(unrecorded) > recordDue:
			return &failure{Code: verdict.code, err: errors.New(verdict.text)}
		case timeout == 0:
			return w.late(ctx, timeout, verdict)
		}
		w.change(ended, version, served)
	}
}

// answer is what is known of the job at one moment.
type answer struct {
	done bool
	// code is the exit code if it stayed like this.
	code int
	text string
	// unrecorded says that the TrainJob is gone and nothing was recorded of it.
	unrecorded bool
}

// judge looks at the records, and at the API itself for a TrainJob that no record speaks of.
func (w *waiter) judge(ctx context.Context, records []*v1alpha1.Orphan, served bool) (answer, error) {
	mine := slices.DeleteFunc(slices.Clone(records), func(o *v1alpha1.Orphan) bool {
		ref := o.Spec.TrainJob
		return ref.Name != w.name || w.uid != "" && ref.UID != string(w.uid) && !strings.HasPrefix(ref.UID, facts.UnknownPrefix)
	})
	for _, o := range mine {
		if a, open := w.judgeRecord(o); open {
			return a, nil
		}
	}
	live := &informers.Live{Clients: w.clients}
	t, err := live.TrainJob(ctx, w.namespace, w.name)
	if err != nil {
		return answer{}, fmt.Errorf("reading TrainJob %s/%s: %w", w.namespace, w.name, err)
	}
	if t != nil && (w.uid == "" || t.UID == w.uid) {
		switch {
		case t.ManagedBy != "":
			return answer{code: ExitElsewhere, text: fmt.Sprintf("TrainJob %s/%s is managed by %s and runs in another cluster: nothing is known of its processes here", w.namespace, w.name, t.ManagedBy)}, nil
		case !t.Deletion.Known():
			return answer{code: ExitAlive, text: fmt.Sprintf("TrainJob %s/%s (UID %s) is there and is not being deleted", w.namespace, w.name, t.UID)}, nil
		}
		return answer{code: ExitAlive, text: fmt.Sprintf("TrainJob %s/%s (UID %s) is being deleted", w.namespace, w.name, t.UID)}, nil
	}
	if w.recorded(mine) {
		return answer{done: true, text: fmt.Sprintf("%s/%s is %s", w.namespace, w.name, map[bool]string{false: "settled", true: "cleared"}[w.cleared])}, nil
	}
	reason := "nothing was recorded of it: it never existed, its record's time is over, or orphand does not run"
	if !served {
		reason = "this cluster keeps no records (apply orphand's CustomResourceDefinition), so that nobody can say what became of its pods"
	}
	return answer{code: ExitFailure, unrecorded: true, text: fmt.Sprintf("TrainJob %s/%s is not there, and %s", w.namespace, w.name, reason)}, nil
}

// recorded says whether a record speaks of the incarnation that is waited for.
func (w *waiter) recorded(mine []*v1alpha1.Orphan) bool {
	return slices.ContainsFunc(mine, func(o *v1alpha1.Orphan) bool { return w.uid == "" || o.Spec.TrainJob.UID == string(w.uid) })
}

// judgeRecord says how a record keeps the wait open, if it does.
func (w *waiter) judgeRecord(o *v1alpha1.Orphan) (answer, bool) {
	state := settle.State(o.Status.State)
	about := fmt.Sprintf("%s/%s (UID %s) is %s: %d of %d pods are not gone", o.Namespace, o.Spec.TrainJob.Name, o.Spec.TrainJob.UID, state,
		o.Status.Pods.Alive+o.Status.Pods.Unproven, o.Status.Pods.Total)
	if o.Status.WaitingFor != "" {
		about += "; waiting for " + o.Status.WaitingFor
	}
	switch {
	case state == settle.Elsewhere:
		return answer{code: ExitElsewhere, text: fmt.Sprintf("%s/%s runs in another cluster: nothing is known of its processes here", o.Namespace, o.Spec.TrainJob.Name)}, true
	case state == settle.Cleared, state == settle.Settled && !w.cleared:
		return answer{}, false
	case o.Status.Pods.Unproven > 0:
		return answer{code: ExitUnproven, text: about}, true
	}
	return answer{code: ExitAlive, text: about}, true
}

// say tells a person what is waited for, when it changes.
func (w *waiter) say(text string) {
	if text != w.last {
		w.last = text
		fmt.Fprintln(w.streams.Err, text)
	}
}

// change waits until a record or the TrainJob may have changed.
func (w *waiter) change(ctx context.Context, version string, served bool) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if !served {
		<-ctx.Done()
		return
	}
	changes, err := w.clients.Dynamic.Resource(v1alpha1.Orphans).Namespace(w.namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: version})
	if err != nil {
		<-ctx.Done()
		return
	}
	defer changes.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case event, open := <-changes.ResultChan():
			if !open || event.Type == watch.Error {
				<-ctx.Done()
				return
			}
			u, ok := event.Object.(*unstructured.Unstructured)
			if !ok {
				continue
			}
			if o, err := ledger.FromUnstructured(u); err == nil && o.Spec.TrainJob.Name == w.name {
				return
			}
		}
	}
}

// late is the end of a wait that was not fulfilled in time.
func (w *waiter) late(ctx context.Context, timeout time.Duration, last answer) error {
	if ctx.Err() != nil {
		return &failure{Code: ExitFailure, err: errors.New("interrupted")}
	}
	code := last.code
	if code == 0 {
		code = ExitFailure
	}
	text := last.text
	if text == "" {
		text = "the API server did not answer"
	}
	return &failure{Code: code, err: fmt.Errorf("not %s after %v: %s", map[bool]string{false: "settled", true: "cleared"}[w.cleared], timeout, text)}
}
