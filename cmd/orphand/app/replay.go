package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/orphand/orphand/internal/replay"
	"github.com/orphand/orphand/internal/stage"
	"github.com/orphand/orphand/pkg/reap"
	"github.com/orphand/orphand/pkg/retention"
	"github.com/orphand/orphand/pkg/settle"
	"github.com/orphand/orphand/pkg/sweep"
)

func newReplayCommand(streams Streams) *cobra.Command {
	output := "table"
	cmd := &cobra.Command{
		Use:   "replay [-o table|json] FILE...",
		Short: "Play recorded histories to orphand's own rules, and check what it says",
		Long: `replay feeds recorded histories through the watches, the queue and the rules of
"orphand run", on a simulated clock and without a cluster, and prints each verdict,
state and finding as it changes. It needs no kubeconfig. A FILE is a stream of YAML
or JSON documents, or what "kubectl get -w --output-watch-events -o json" printed;
"-" is standard input.

It exits with 0 when every expectation in the files held, with 1 when one did not,
and with 2 when a file is malformed. What was wrong is on standard error, with file,
line and document.`,
		Example: `  orphand replay incident.yaml
  orphand replay -o json incident.yaml | jq 'select(.verdict == "Gone")'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("replay needs a FILE, or - for standard input")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, files []string) error {
			if output != "table" && output != "json" {
				return usage("-o %q: use table or json", output)
			}
			return replayAll(streams, cmd.InOrStdin(), output, files)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", output, "table or json (one object per line)")
	return cmd
}

// replayAll plays every file, whatever becomes of the others, and fails with the gravest of what it met.
func replayAll(streams Streams, input io.Reader, output string, files []string) error {
	program := ReplayProgram()
	checked, failed, malformed := 0, 0, 0
	for i, file := range files {
		history, err := readHistory(program, input, file)
		if err != nil {
			malformed++
			fmt.Fprintf(streams.Err, "orphand: %v\n", err)
			continue
		}
		for _, warning := range history.Warnings {
			fmt.Fprintf(streams.Err, "warning: %s\n", warning)
		}
		result, err := program.Play(history)
		if err != nil {
			return err
		}
		if err := printHistory(streams.Out, output, history, result, len(files) > 1, i > 0); err != nil {
			return err
		}
		for _, f := range result.Failures {
			fmt.Fprintln(streams.Err, f)
		}
		checked += result.Checked
		failed += len(result.Failures)
	}
	switch {
	case malformed > 0:
		return &failure{Code: ExitUsage, Said: true, err: fmt.Errorf("%d of %d files are malformed", malformed, len(files))}
	case failed > 0:
		return fmt.Errorf("%d of %d expectations did not hold", failed, checked)
	}
	return nil
}

func printHistory(w io.Writer, output string, h *replay.History, r *replay.Result, named, further bool) error {
	if output == "json" {
		return replay.WriteJSON(w, h.File, h.Start, r.Lines)
	}
	if further {
		fmt.Fprintln(w)
	}
	if named {
		fmt.Fprintf(w, "==> %s <==\n", h.File)
	}
	return replay.WriteTable(w, r.Lines)
}

func readHistory(program replay.Program, input io.Reader, file string) (*replay.History, error) {
	var data []byte
	var err error
	if file == "-" {
		data, err = io.ReadAll(input)
	} else {
		data, err = os.ReadFile(file)
	}
	var path *os.PathError
	switch {
	case errors.As(err, &path):
		return nil, fmt.Errorf("%s: %w", file, path.Err)
	case err != nil:
		return nil, err
	}
	return replay.Read(file, data, program.Flags())
}

// ReplayProgram is `orphand run` for histories: its flags, its rules, its metrics.
func ReplayProgram() replay.Program {
	return replay.Program{
		Flags:      func() replay.Flags { return newReplayFlags() },
		Options:    func(f replay.Flags) settle.Options { return f.(*replayFlags).options.engine() },
		Further:    clearAway,
		Sweep:      sweepAway,
		Vocabulary: vocabulary(),
	}
}

// clearAway gives the engine of a history what deletes in the history's mode.
func clearAway(f replay.Flags, mode string, parts stage.Parts, c *settle.Config) {
	flags := f.(*replayFlags)
	c.IsRuntimeCopy = flags.options.isRuntimeCopy()
	flags.force = flags.options.enforcement(played(flags.options, mode, parts))
	c.Reaper = flags.options.enforcer(flags.force)
}

// sweepAway carries a history's retention policy out, by the same deleter and under the same brakes.
func sweepAway(f replay.Flags, _ string, _ stage.Parts, engine *settle.Engine, policy *retention.Policy) sweep.Config {
	flags := f.(*replayFlags)
	return flags.options.sweep(flags.force, engine, policy)
}

// played is what deletes on a history.
func played(options Options, mode string, parts stage.Parts) enforcement {
	enforces := mode == modeEnforce || options.Mode == modeEnforce
	api := parts.API.Client()
	recorder, _ := parts.Recorder.(reap.Recorder)
	return enforcement{
		api: api, clock: parts.Clock, sink: parts.Sink, recorder: recorder, leads: parts.Leads,
		mode: func(namespace string) (reap.Reason, bool) {
			if !enforces {
				return reap.ObserveOnly, false
			}
			for _, kind := range reap.NeededKinds() {
				if yes, err := api.Allowed(context.Background(), "delete", kind, ""); err != nil || !yes {
					return reap.NotPermitted, false
				}
			}
			return "", true
		},
	}
}

// replayFlags are the flags of `orphand run` as a history sets them. Those that say where the cluster is, or how a process
// is watched, are accepted and change nothing.
type replayFlags struct {
	options Options
	set     *pflag.FlagSet
	// force is what deletes, in the present life of the daemon.
	force enforcement
}

func newReplayFlags() *replayFlags {
	f := &replayFlags{options: DefaultOptions(), set: pflag.NewFlagSet("run", pflag.ContinueOnError)}
	f.options.AddFlags(f.set)
	newClusterFlags().AddFlags(f.set)
	return f
}

// Set satisfies replay.Flags.
func (f *replayFlags) Set(name, text string) error {
	flag := f.set.Lookup(name)
	if flag == nil {
		return fmt.Errorf("orphand run has no flag %q: see orphand run --help", name)
	}
	if err := flag.Value.Set(text); err != nil {
		return fmt.Errorf("the flag %s is %q: %s", name, text, expected(flag.Value.Type()))
	}
	return nil
}

// Validate satisfies replay.Flags.
func (f *replayFlags) Validate() []string { return f.options.Validate() }
