package app

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/orphand/orphand/pkg/retention"
)

func newCheckPolicyCommand(streams Streams) *cobra.Command {
	var output string
	var strict, schema bool
	cmd := &cobra.Command{
		Use:   "policy FILE...",
		Short: "Check retention policies without a cluster",
		Long: `policy reads retention policies as "orphand run" does, and prints everything that is wrong
with them, each with file, line, column and path. It asks no cluster, so that it can run
wherever the files are kept. "-" is standard input.

It exits with 0 when every file is good, with 1 when one has mistakes, or warnings with
--strict, and with 2 when one cannot be read at all.`,
		Example: `  orphand check policy policy.yaml
  orphand check policy --schema > retentionpolicy.schema.json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 && !schema {
				return usage("check policy needs a FILE, or - for standard input")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, files []string) error {
			if output != "" && output != "json" {
				return usage("-o %q: use json, or leave it out", output)
			}
			if schema {
				_, err := streams.Out.Write(retention.JSONSchema())
				return err
			}
			return checkPolicies(streams, cmd.InOrStdin(), output, files, strict)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "json (one object per line), or empty for text")
	cmd.Flags().BoolVar(&strict, "strict", false, "count warnings as mistakes")
	cmd.Flags().BoolVar(&schema, "schema", false, "print the JSON Schema of a policy, for editors")
	return cmd
}

// PolicyProblem is a line of `orphand check policy -o json`. Its JSON is a public interface.
type PolicyProblem struct {
	File string `json:"file"`
	retention.Problem
}

func checkPolicies(streams Streams, input io.Reader, output string, files []string, strict bool) error {
	mistakes := 0
	var unread error
	encoder := json.NewEncoder(streams.Out)
	for _, file := range files {
		data, err := readPolicy(input, file)
		if err != nil {
			unread = err
			fmt.Fprintf(streams.Err, "orphand: %v\n", err)
			continue
		}
		_, problems := retention.Load(data)
		for _, p := range problems {
			if !p.Warning || strict {
				mistakes++
			}
			if output == "json" {
				err = encoder.Encode(PolicyProblem{file, p})
			} else {
				_, err = fmt.Fprintf(streams.Out, "%s:%s\n", file, p)
			}
			if err != nil {
				return err
			}
		}
	}
	switch {
	case unread != nil:
		return &failure{Code: ExitUsage, Said: true, err: unread}
	case mistakes > 0:
		return fmt.Errorf("%d mistakes", mistakes)
	}
	return nil
}

func readPolicy(input io.Reader, file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(input)
	}
	return os.ReadFile(file)
}
