package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"github.com/orphand/orphand/api/v1alpha1"
	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/informers"
	"github.com/orphand/orphand/pkg/ledger"
	"github.com/orphand/orphand/pkg/nodeproof"
	"github.com/orphand/orphand/pkg/settle"
)

func newExplainCommand(streams Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain pod|trainjob|orphan|KIND NAME",
		Short: "Say why a pod or a job has its verdict, and what would change it",
		Long: `explain reads the pod, its node and the record that "orphand run" keeps of its job, judges
them by the same rules, and prints every rule that was considered: whether it holds, why,
and what would make it hold. Of a TrainJob or a record it explains every pod that is not
gone, and repeats why "orphand run" does not delete what is left. It changes nothing and
needs no running orphand; without a record it knows only what the API server shows now.

Of a TrainJob, and of an object of any other kind that the retention policy is for, it
says whether the policy keeps it or when it goes, by which rule and what cut it.`,
		Example: `  orphand explain pod llm-node-0-1-x7k2p
  orphand explain orphan llm-0b9a7c3e -n team-a
  orphand explain workflow nightly --policy policy.yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 && strings.Count(args[0], "/") == 1 {
				return nil
			}
			if len(args) != 2 {
				return usage("explain needs a kind and a NAME: pod, trainjob or orphan")
			}
			return nil
		},
	}
	var file string
	cmd.Flags().StringVar(&file, "policy", "", "retention policy to explain by; that of the cluster by default")
	cluster := clusterFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			args = strings.SplitN(args[0], "/", 2)
		}
		s, err := openSession(cluster)
		if err != nil {
			return err
		}
		namespace, name, err := s.name(args[1])
		if err != nil {
			return err
		}
		x := &explainer{session: s, out: streams.Out, live: &informers.Live{Clients: s.clients}, now: facts.At(clock.RealClock{}.Now())}
		switch strings.ToLower(args[0]) {
		case "pod", "pods", "po":
			return x.pod(cmd.Context(), namespace, name)
		case "trainjob", "trainjobs", "tj":
			said, err := x.retention(cmd.Context(), cmd.InOrStdin(), file, facts.KindTrainJob, namespace, name)
			if err != nil && (file != "" || !errors.Is(err, errNoPolicy)) {
				return err
			}
			err = x.job(cmd.Context(), namespace, func(o *v1alpha1.Orphan) bool { return o.Spec.TrainJob.Name == name }, "TrainJob "+namespace+"/"+name)
			if said && errors.Is(err, errNoRecord) {
				return nil
			}
			return err
		case "orphan", "orphans", "orph":
			return x.job(cmd.Context(), namespace, func(o *v1alpha1.Orphan) bool { return o.Name == name }, "record "+namespace+"/"+name)
		}
		said, err := x.retention(cmd.Context(), cmd.InOrStdin(), file, args[0], namespace, name)
		switch {
		case errors.Is(err, errNoKind):
			return usage("%q: explain a pod, a trainjob, an orphan, or an object of a kind that the retention policy knows", args[0])
		case err == nil && !said:
			return fmt.Errorf("%s %s/%s is not there", args[0], namespace, name)
		}
		return err
	}
	return cmd
}

// errNoRecord: nothing is recorded of the job.
var errNoRecord = errors.New("there is no record")

// explainer judges what the API server and the records show now.
type explainer struct {
	*session
	out  io.Writer
	live *informers.Live
	now  facts.Instant
}

// pod explains one pod, by its object, by the record of its job, or by both.
func (x *explainer) pod(ctx context.Context, namespace, name string) error {
	live, err := x.live.Pod(ctx, namespace, name)
	if err != nil {
		return fmt.Errorf("reading pod %s/%s: %w", namespace, name, err)
	}
	records, _, _, err := x.records(ctx, namespace)
	if err != nil {
		return err
	}
	var found *settle.PodNote
	for _, o := range records {
		note, err := ledger.Read(o)
		if err != nil {
			return err
		}
		for i := range note.Pods {
			p := &note.Pods[i]
			if p.History.Pod.Name == name && (live == nil || p.History.Pod.UID == live.UID) {
				found = p
				fmt.Fprintf(x.out, "%s is on record %s\n", p.History.Pod.Ref(), o.Name)
				for _, r := range o.Status.Refusals {
					if slices.Contains(r.Objects, "pod/"+name) {
						fmt.Fprintf(x.out, "  not deleted (%s) since %s: %s\n", r.Reason, r.Since.UTC().Format(time.RFC3339), r.Message)
					}
				}
			}
		}
	}
	if live == nil && found == nil {
		return fmt.Errorf("pod %s/%s is not there, and no record has it among the pods that are not gone", namespace, name)
	}
	return x.explain(ctx, live, found)
}

// job explains every pod on the records that are meant.
func (x *explainer) job(ctx context.Context, namespace string, meant func(*v1alpha1.Orphan) bool, what string) error {
	records, _, served, err := x.records(ctx, namespace)
	if err != nil {
		return err
	}
	records = slices.DeleteFunc(records, func(o *v1alpha1.Orphan) bool { return !meant(o) })
	if len(records) == 0 {
		if !served {
			return fmt.Errorf("%s: %w: this cluster keeps none; apply orphand's CustomResourceDefinition", what, errNoRecord)
		}
		return fmt.Errorf("%s: %w: the TrainJob lives, or its record's time is over", what, errNoRecord)
	}
	for _, o := range records {
		note, err := ledger.Read(o)
		if err != nil {
			return err
		}
		x.summary(o)
		for i := range note.Pods {
			live, err := x.live.Pod(ctx, namespace, note.Pods[i].History.Pod.Name)
			if err != nil {
				return fmt.Errorf("reading pod %s: %w", note.Pods[i].History.Pod.Ref(), err)
			}
			if live != nil && live.UID != note.Pods[i].History.Pod.UID {
				live = nil
			}
			fmt.Fprintln(x.out)
			if err := x.explain(ctx, live, &note.Pods[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (x *explainer) summary(o *v1alpha1.Orphan) {
	fmt.Fprintf(x.out, "%s/%s (UID %s) is %s: %d pods, %d alive, %d unproven, %d gone\n", o.Namespace, o.Spec.TrainJob.Name, o.Spec.TrainJob.UID,
		o.Status.State, o.Status.Pods.Total, o.Status.Pods.Alive, o.Status.Pods.Unproven, o.Status.Pods.Gone)
	for _, c := range o.Status.Conditions {
		fmt.Fprintf(x.out, "  %s is %s since %s: %s\n", c.Type, c.Status, c.LastTransitionTime.UTC().Format(time.RFC3339), c.Message)
	}
	for _, e := range o.Status.Evidence {
		fmt.Fprintf(x.out, "  %d gone by %s, the last at %s\n", e.Count, e.Reason, e.Last.UTC().Format(time.RFC3339))
	}
	for _, f := range o.Status.Findings {
		if f.Until == nil {
			fmt.Fprintf(x.out, "  finding %s since %s: %s\n", f.Code, f.Since.UTC().Format(time.RFC3339), f.Message)
		}
	}
	for _, r := range o.Status.Refusals {
		fmt.Fprintf(x.out, "  not deleted (%s) since %s: %s: %s\n", r.Reason, r.Since.UTC().Format(time.RFC3339), refused(r), r.Message)
	}
}

// refused names the objects of a refusal.
func refused(r v1alpha1.RefusalSummary) string {
	text := strings.Join(r.Objects, ", ")
	if r.More > 0 {
		text += fmt.Sprintf(" and %d more", r.More)
	}
	return text
}

// explain judges one pod anew and prints everything that was considered.
func (x *explainer) explain(ctx context.Context, live *facts.Pod, note *settle.PodNote) error {
	nodes := nodeproof.NewNodes()
	// Everything that was seen before this command began has an earlier time than what it reads now.
	seen := x.now - facts.Instant(time.Second)
	names := map[string]bool{}
	if live != nil && live.Bound() {
		names[live.Node] = true
	}
	if note != nil {
		for i := range note.History.Runs {
			names[note.History.Runs[i].Node] = true
		}
	}
	reads := map[string]*facts.Node{}
	for name := range names {
		n, err := x.live.Node(ctx, name)
		if err != nil {
			return fmt.Errorf("reading node %s: %w", name, err)
		}
		reads[name] = n
		if n != nil {
			nodes.See(n, seen)
		}
	}
	var h *nodeproof.History
	switch {
	case note == nil:
		h = nodeproof.NewHistory(live, seen, true, nodes)
	case live != nil:
		h = note.History
		h.Resume(seen, nodes)
		h.SeePod(live, seen, true, nodes)
	default:
		h = note.History
		h.Resume(seen, nodes)
		h.Vanish(nodeproof.Unseen, nil, seen, nodes)
	}
	for name, n := range reads {
		nodes.SeeLive(name, n, x.now)
	}
	h.Follow(x.now, nodes)
	tellExplanation(x.out, nodeproof.Explain(h, nodes, nodeproof.Defaults(), x.now), h.Pod, note)
	return nil
}

func tellExplanation(out io.Writer, e nodeproof.Explanation, p *facts.Pod, note *settle.PodNote) {
	fmt.Fprintf(out, "%s (UID %s) is %s/%s\n", p.Ref(), p.UID, e.Verdict, e.Reason)
	if note != nil && (note.Said != nodeproof.Pair{Verdict: e.Verdict, Reason: e.Reason}) {
		fmt.Fprintf(out, "  orphand's record says %s/%s since %s: it saw more than this command can\n", note.Said.Verdict, note.Said.Reason, note.Since.Time().Format(time.RFC3339))
	}
	fmt.Fprintln(out, "  What is known:")
	for _, f := range e.Facts {
		fmt.Fprintln(out, "    -", f)
	}
	fmt.Fprintln(out, "  What would prove that nothing of it runs:")
	for _, s := range e.Steps {
		mark := "no "
		if s.Holds {
			mark = "yes"
		}
		rule := string(s.Rule)
		if s.On != "" {
			rule += " (" + s.On + ")"
		}
		fmt.Fprintf(out, "    %s %s: %s\n", mark, rule, s.Why)
		if s.Would != "" && e.Verdict != nodeproof.Gone {
			fmt.Fprintf(out, "        it would, if: %s\n", s.Would)
		}
	}
}
