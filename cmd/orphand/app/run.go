package app

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/utils/clock"
)

func newRunCommand(streams Streams) *cobra.Command {
	options := DefaultOptions()
	cluster := newClusterFlags()
	var unreadable []string
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Follow every TrainJob's remains until stopped",
		Long: `run follows every TrainJob of a cluster and what it leaves behind. It changes
nothing of what it follows; what it writes is its own records and, with --leader-elect,
its Lease. Log lines go to standard error, metrics and health to --http-address.`,
		Args: noArguments,
	}
	own := pflag.NewFlagSet("run", pflag.ContinueOnError)
	options.AddFlags(own)
	collectProblems(own, &unreadable)
	cmd.Flags().AddFlagSet(own)
	cluster.AddFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		problems := append(unreadable, options.Validate()...)
		if options.LeaseNS == "" {
			options.LeaseNS = leaseNamespace()
		}
		if options.LeaderElect && options.LeaseNS == "" {
			problems = append(problems, "--leader-elect-lease-namespace is empty and this is no pod: name the Lease's namespace")
		}
		found, err := loadCluster(cluster)
		if err != nil {
			problems = append(problems, err.Error())
		}
		if err := joinProblems(problems); err != nil {
			return err
		}
		d, err := newDaemon(config{
			options: options, given: given(own), cluster: found, build: readBuildInfo(),
			clock: clock.RealClock{}, log: streams.Err, ownsProcess: true,
		})
		if err != nil {
			return err
		}
		if err := d.run(cmd.Context()); err != nil {
			return &failure{Code: ExitFailure, Said: true, err: err}
		}
		return nil
	}
	return cmd
}

// given lists the flags of the set that the caller set, as name=value. The cluster's flags are not in the set: some of
// them are secrets.
func given(flags *pflag.FlagSet) []string {
	var list []string
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed {
			list = append(list, f.Name+"="+f.Value.String())
		}
	})
	return list
}
