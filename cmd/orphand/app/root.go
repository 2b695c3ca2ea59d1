// Package app is the command line: options are read, checked all at once, turned into a configuration, and run.
package app

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// Streams are where commands write: results to Out, logs and errors to Err.
type Streams struct {
	Out, Err io.Writer
}

// Main runs one command line and returns the process's exit code. It prints at most one line for an error.
func Main(ctx context.Context, args []string, streams Streams) int {
	root := NewCommand(streams)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	failure := asFailure(err)
	if !failure.Said {
		fmt.Fprintf(streams.Err, "orphand: %s\n", oneLine(failure.Error()))
	}
	return failure.Code
}

// NewCommand builds the whole command tree.
func NewCommand(streams Streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "orphand",
		Short: "Says when the processes of deleted TrainJobs are provably gone",
		Long: `orphand follows what deleted Kubeflow TrainJobs leave behind and says, pod by pod,
whether its processes are provably gone, so that a job is never run again next to
an execution that still lives.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("unknown command %q: see orphand --help", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage("%v: see %s --help", err, cmd.CommandPath())
	})
	root.AddCommand(newRunCommand(streams), newFindCommand(streams), newStopCommand(streams), newUnwedgeCommand(streams), newAttestCommand(streams), newWaitCommand(streams), newExplainCommand(streams), newPlanCommand(streams), newCheckCommand(streams), newReplayCommand(streams), newVersionCommand(streams), newCompletionCommand(streams))
	return root
}

// noArguments refuses arguments with the command's name.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("%s takes no arguments, got %q", cmd.CommandPath(), strings.Join(args, " "))
	}
	return nil
}

func oneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}
