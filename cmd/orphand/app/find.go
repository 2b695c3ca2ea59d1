package app

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/reap"
)

// copyFlags says which runtimes are an adapter's copies.
func copyFlags(flags *pflag.FlagSet, o *Options) {
	flags.StringVar(&o.RuntimeCopyLabels, "runtime-copy-labels", o.RuntimeCopyLabels, "label selector of the TrainingRuntimes that are an adapter's copies for one TrainJob each")
}

// reaper makes what finds and stops jobs in the session's cluster.
func (s *session) reaper(o Options, streams Streams) (*reap.Reaper, error) {
	copies, err := o.runtimeCopies()
	if err != nil {
		return nil, usage("--runtime-copy-labels %q: use a label selector such as app=dispatch: %v", o.RuntimeCopyLabels, err)
	}
	return reap.New(reap.Config{
		API:           &reap.Kube{Core: s.clients.Kube, Dynamic: s.clients.Dynamic, Metadata: s.clients.Metadata},
		Clock:         clock.RealClock{},
		Records:       &recorded{session: s, warn: streams.Err},
		RuntimeCopies: copies,
	}), nil
}

func newFindCommand(streams Streams) *cobra.Command {
	var all, foreign bool
	var uid, output string
	options := DefaultOptions()
	cmd := &cobra.Command{
		Use:   "find [[NAMESPACE/]TRAINJOB]",
		Short: "List what is left of TrainJobs, with what is known of its processes",
		Long: `find reads the cluster, not a cache, and lists every remain of a TrainJob: its JobSet,
Jobs, pods, Service, ConfigMaps, Secrets, PodGroups and runtime copy, each as an object
reference NAMESPACE/KIND/NAME. Of pods it says whether their processes are Alive, Unproven
or Gone, and why; a pod whose object is gone is listed for as long as it is not Gone, where
a record of it is kept. FOREIGN says that the TrainJob itself is gone.

Without a name it lists all that the namespace holds; -A looks in every namespace. Remains
of several TrainJobs of one name are told apart by UID: see -o wide.`,
		Example: `  orphand find llm-7 -n team-a
  orphand find -A --foreign
  orphand find team-a/llm-7 -o name`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage("find takes one TRAINJOB, as NAME or NAMESPACE/NAME, or none")
			}
			return nil
		},
	}
	cluster := clusterFlags(cmd)
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "look in every namespace")
	cmd.Flags().BoolVar(&foreign, "foreign", false, "only what is left of TrainJobs that are gone")
	cmd.Flags().StringVar(&uid, "uid", "", "only this incarnation of the name")
	cmd.Flags().StringVarP(&output, "output", "o", "", "wide, json, yaml or name")
	copyFlags(cmd.Flags(), &options)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		show, err := remainPrinter(output)
		if err != nil {
			return err
		}
		s, err := openSession(cluster)
		if err != nil {
			return err
		}
		job := facts.JobKey{Namespace: s.namespace}
		switch {
		case len(args) == 1 && all:
			return usage("find looks for one TRAINJOB or, with -A, in every namespace: give one of the two")
		case uid != "" && len(args) == 0:
			return usage("--uid needs the name of the TRAINJOB")
		case len(args) == 1:
			if job.Namespace, job.Name, err = s.name(args[0]); err != nil {
				return err
			}
			job.UID = types.UID(uid)
		case all:
			job.Namespace = ""
		}
		r, err := s.reaper(options, streams)
		if err != nil {
			return err
		}
		list, err := r.Find(cmd.Context(), job)
		if err != nil {
			return clusterFailure(err)
		}
		if foreign {
			list = slices.DeleteFunc(list, func(r reap.Remain) bool { return !r.Foreign })
		}
		if len(list) == 0 && (output == "" || output == "wide") {
			fmt.Fprintln(streams.Err, nothingFound(job))
			return nil
		}
		return show(streams.Out, list, clock.RealClock{}.Now())
	}
	return cmd
}

func nothingFound(job facts.JobKey) string {
	switch {
	case job.Name != "":
		return "Nothing is left of TrainJob " + job.Namespace + "/" + job.Name + "."
	case job.Namespace != "":
		return "Nothing found in namespace " + job.Namespace + "."
	}
	return "Nothing found."
}

// clusterFailure gives an error of the API server the exit code that it deserves.
func clusterFailure(err error) error {
	var known *failure
	if err == nil || errors.As(err, &known) {
		return err
	}
	if errors.Is(err, reap.ErrNotPermitted) || strings.Contains(err.Error(), "is forbidden") {
		return &failure{Code: ExitRefused, err: err}
	}
	return err
}
