package app

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/nodeproof"
	"github.com/orphand/orphand/pkg/reap"
)

// stopFlags are the flags of stop.
type stopFlags struct {
	uid, output, dryRun string
	timeout             time.Duration
	yes                 bool
}

func newStopCommand(streams Streams) *cobra.Command {
	flags := stopFlags{timeout: 10 * time.Minute, dryRun: "none"}
	options := DefaultOptions()
	cmd := &cobra.Command{
		Use:   "stop [NAMESPACE/]TRAINJOB | NAMESPACE/KIND/NAME",
		Short: "Delete a TrainJob and all that is left of it, and wait until its processes are provably gone",
		Long: `stop deletes a TrainJob, if it is still there, and every remain of it: each object under
its own UID, in the background, with the grace that it asks for. It looks again until
nothing is left and every pod is Gone, or the time is up, and then says of each object
what became of it. A new TrainJob of the same name is never touched.

Given an object reference, as find prints it, it deletes that one object. What a living
controller would make again is refused: stop the TrainJob. Objects that carry the
annotation orphand.dev/keep are not deleted.

stop works with or without a running orphand; where one keeps records, pods whose objects
are gone already are waited for too. Interrupting it leaves what was asked to go going.`,
		Example: `  orphand stop llm-7 -n team-a
  orphand stop team-a/llm-7 --uid 0b9a7c3e-... --yes --timeout 30m -o json
  orphand stop team-a/jobset/llm-7 --uid 51c0d2aa-...`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("stop needs one TRAINJOB, as NAME or NAMESPACE/NAME, or one object, as NAMESPACE/KIND/NAME")
			}
			return nil
		},
	}
	cluster := clusterFlags(cmd)
	cmd.Flags().StringVar(&flags.uid, "uid", "", "stop only this incarnation, or this object")
	cmd.Flags().DurationVar(&flags.timeout, "timeout", flags.timeout, "how long to go on")
	cmd.Flags().StringVarP(&flags.output, "output", "o", "", "wide, json or yaml")
	cmd.Flags().StringVar(&flags.dryRun, "dry-run", flags.dryRun, "none; client: say what would be deleted; server: have the API server check each DELETE")
	cmd.Flags().BoolVarP(&flags.yes, "yes", "y", false, "do not ask before a TrainJob is deleted that still runs")
	copyFlags(cmd.Flags(), &options)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := flags.validate(); err != nil {
			return err
		}
		s, err := openSession(cluster)
		if err != nil {
			return err
		}
		r, err := s.reaper(options, streams)
		if err != nil {
			return err
		}
		st := &stopper{session: s, reaper: r, streams: streams, flags: flags}
		if strings.Count(args[0], "/") == 2 {
			return st.object(cmd.Context(), args[0])
		}
		return st.job(cmd.Context(), args[0])
	}
	return cmd
}

func (f *stopFlags) validate() error {
	switch {
	case f.timeout <= 0:
		return usage("--timeout %v: use more than 0s", f.timeout)
	case !slices.Contains([]string{"none", "client", "server"}, f.dryRun):
		return usage("--dry-run %q: use none, client or server", f.dryRun)
	case !slices.Contains([]string{"", "wide", "json", "yaml"}, f.output):
		return usage("--output %q: use wide, json or yaml", f.output)
	}
	return nil
}

func (f *stopFlags) trial() reap.Trial {
	if f.dryRun == "none" {
		return reap.ForReal
	}
	return reap.Trial(f.dryRun)
}

// stopper carries out one stop.
type stopper struct {
	*session
	reaper  *reap.Reaper
	streams Streams
	flags   stopFlags
}

// object stops one object.
func (s *stopper) object(ctx context.Context, ref string) error {
	part := strings.Split(ref, "/")
	kind, known := reap.ParseKind(strings.ToLower(part[1]))
	if !known {
		return usage("%q: %q is no kind of remain: use a reference as orphand find prints it", ref, part[1])
	}
	t := reap.Target{Kind: kind, Ref: facts.Ref{Namespace: part[0], Kind: kind.Kind, Name: part[2], UID: types.UID(s.flags.uid)}}
	if kind.Kind == facts.KindTrainJob {
		return s.job(ctx, part[0]+"/"+part[2])
	}
	if t.UID == "" {
		return usage("an object is deleted by its UID only: give --uid (see orphand find -o wide)")
	}
	if s.flags.trial() != reap.ForReal {
		return usage("--dry-run works with a TRAINJOB only")
	}
	ctx, cancel := context.WithTimeout(ctx, s.flags.timeout)
	defer cancel()
	result, err := s.reaper.Stop(ctx, t)
	var answered apierrors.APIStatus
	switch {
	case errors.Is(err, reap.ErrRefused), errors.As(err, &answered):
		return &failure{Code: ExitRefused, err: err}
	case err != nil:
		return err // nobody has refused anything: the API server was not reached
	}
	text := t.Ref.String() + " is " + string(result.Status)
	if result.Detail != "" {
		text += ": " + result.Detail
	}
	fmt.Fprintln(s.streams.Out, text)
	return nil
}

// job stops a job.
func (s *stopper) job(ctx context.Context, arg string) error {
	namespace, name, err := s.name(arg)
	if err != nil {
		return err
	}
	key := facts.JobKey{Namespace: namespace, Name: name, UID: types.UID(s.flags.uid)}
	trial := s.flags.trial()
	options := reap.StopOptions{Timeout: s.flags.timeout, Trial: trial, Progress: progress(s.streams.Err)}
	if trial == reap.ForReal && !s.flags.yes {
		options.Confirm = s.ask
	}
	report, err := s.reaper.StopJob(ctx, key, options)
	if report != nil {
		if printErr := s.print(report); printErr != nil {
			return printErr
		}
	}
	switch {
	case errors.Is(err, context.Canceled):
		return &failure{Code: ExitFailure, err: errors.New("interrupted; what was asked to go goes on going")}
	case err != nil:
		return clusterFailure(err)
	case trial != reap.ForReal && report.Class() != reap.NotStopped:
		return nil
	}
	return outcome(report)
}

// outcome gives a report the exit code that it deserves.
func outcome(r *reap.Report) error {
	name := r.Job.Namespace + "/" + r.Job.Name
	objects, pods := r.Left()
	left := fmt.Sprintf("%d objects are left, %d pods are Alive and %d Unproven", objects, pods[nodeproof.Alive], pods[nodeproof.Unproven])
	if nodes := r.Waiting(); len(nodes) > 0 {
		left += ", on " + strings.Join(shorten(nodes, 5), ", ")
	}
	switch r.Class() {
	case reap.Cleared:
		return nil
	case reap.StillUnproven:
		return &failure{Code: ExitUnproven, err: fmt.Errorf("%s is not over after %v: %s", name, r.Elapsed.Round(time.Second), left)}
	case reap.StillAlive:
		return &failure{Code: ExitAlive, err: fmt.Errorf("%s is not over after %v: %s", name, r.Elapsed.Round(time.Second), left)}
	}
	return &failure{Code: ExitRefused, err: fmt.Errorf("%s could not be stopped: %s", name, left)}
}

func shorten(names []string, n int) []string {
	if len(names) <= n {
		return names
	}
	return append(names[:n:n], fmt.Sprintf("and %d more", len(names)-n))
}

// ask makes sure that a person means a TrainJob that runs.
func (s *stopper) ask(t *facts.TrainJob) error {
	if t.Deletion.Known() || t.Finished() {
		return nil
	}
	return confirm(s.streams.Err, os.Stdin, fmt.Sprintf("TrainJob %s/%s (UID %s) still runs. Delete it and all that it made?", t.Namespace, t.Name, t.UID))
}

// confirm asks a person. Where there is none, the answer is no.
func confirm(w io.Writer, in *os.File, question string) error {
	if info, err := in.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return usage("%s Give --yes: there is no terminal to ask at", question)
	}
	fmt.Fprintf(w, "%s [y/N] ", question)
	answer, _ := bufio.NewReader(in).ReadString('\n')
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return &failure{Code: ExitFailure, err: errors.New("not confirmed; nothing was done")}
	}
	return nil
}

// progress tells a person how things stand, when that changes.
func progress(w io.Writer) func(*reap.Report) {
	last := ""
	return func(r *reap.Report) {
		objects, pods := r.Left()
		text := fmt.Sprintf("%d objects left; pods: %d Alive, %d Unproven, %d Gone", objects, pods[nodeproof.Alive], pods[nodeproof.Unproven], pods[nodeproof.Gone])
		if nodes := r.Waiting(); len(nodes) > 0 {
			text += "; waiting for " + strings.Join(shorten(nodes, 3), ", ")
		}
		for _, it := range r.Items {
			if it.Status == reap.StatusFailed || it.Status == reap.StatusForbidden {
				text += "; " + it.Ref.String() + ": " + it.Detail
				break
			}
		}
		if text != last {
			last = text
			fmt.Fprintln(w, text)
		}
	}
}

// StopReport is what `orphand stop -o json` prints.
type StopReport struct {
	metav1.TypeMeta `json:",inline"`
	Job             string       `json:"job"`
	JobUID          string       `json:"jobUID"`
	TimedOut        bool         `json:"timedOut"`
	DryRun          bool         `json:"dryRun,omitempty"`
	Seconds         float64      `json:"seconds"`
	Items           []RemainItem `json:"items"`
}

// DeepCopyObject satisfies runtime.Object.
func (r *StopReport) DeepCopyObject() runtime.Object {
	c := *r
	c.Items = append([]RemainItem(nil), r.Items...)
	return &c
}

// GetObjectKind satisfies runtime.Object.
func (r *StopReport) GetObjectKind() schema.ObjectKind { return &r.TypeMeta }

func (s *stopper) print(r *reap.Report) error {
	if s.flags.output == "json" || s.flags.output == "yaml" {
		o := &StopReport{TypeMeta: metav1.TypeMeta{APIVersion: outputVersion, Kind: "StopReport"}, Job: r.Job.Namespace + "/" + r.Job.Name,
			JobUID: string(r.Job.UID), TimedOut: r.TimedOut, DryRun: r.DryRun, Seconds: r.Elapsed.Seconds(), Items: []RemainItem{}}
		for _, it := range r.Items {
			item := itemOf(it.Remain)
			item.Status, item.Detail = string(it.Status), it.Detail
			o.Items = append(o.Items, item)
		}
		return printObject(s.streams.Out, s.flags.output, o)
	}
	t := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{
		column("Reference", 0), column("Status", 0), column("Verdict", 0), column("Reason", 0), column("Detail", 0),
		column("UID", 1), column("Node", 1), column("Evidence", 1)}}
	for _, it := range r.Items {
		t.Rows = append(t.Rows, metav1.TableRow{Cells: []any{it.Ref.String(), string(it.Status), dash(string(it.Verdict)), dash(string(it.Reason)),
			dash(it.Detail), string(it.UID), dash(it.Node), dash(it.Evidence)}})
	}
	return printTable(s.streams.Out, t, s.flags.output == "wide")
}
