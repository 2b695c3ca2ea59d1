// Command cluster runs the test bed's Kubernetes for a person to play with.
//
//	go run ./e2e/cmd/cluster up                   start one and leave it running
//	go run ./e2e/cmd/cluster status               what runs
//	go run ./e2e/cmd/cluster truth                live container processes
//	go run ./e2e/cmd/cluster kubectl -- get pods  kubectl as administrator
//	go run ./e2e/cmd/cluster job NAME             submit a TrainJob
//	go run ./e2e/cmd/cluster node VERB NODE       have an accident
//	go run ./e2e/cmd/cluster start|kill COMPONENT have another
//	go run ./e2e/cmd/cluster down                 end exactly what up started
//	go run ./e2e/cmd/cluster build                only build the programs
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

const usage = `usage: cluster VERB [flags]

  up [-nodes 3] [-eviction 300s] [-without-trainer]
                       start a cluster and leave it running
  down                 end it
  status               what runs
  truth                live container processes, whatever the API says
  kubectl -- ARGS      kubectl as administrator
  job [-nodes 2] [-ignore-sigterm] [-grace 30] NAME
                       submit a TrainJob
  node VERB NODE       cut-off | bring-back | power-off | reboot | kill-kubelet |
                       start-kubelet | delete | reregister | another-machine |
                       taint | untaint (out-of-service)
  start|kill COMPONENT kube-apiserver, kube-controller-manager, trainer-manager, ...
  build                only build the programs, which a first start does too

Every verb takes -name NAME, for more than one cluster at a time.
`

// errUsage asks for the usage text and exit code 2.
var errUsage = errors.New("usage")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Print(usage)
	case errors.Is(err, errUsage):
		if err != errUsage {
			fmt.Fprintln(os.Stderr, "cluster:", strings.TrimSuffix(err.Error(), "\n"+errUsage.Error()))
		}
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func misuse(format string, args ...any) error {
	return errors.Join(fmt.Errorf(format, args...), errUsage)
}

// run carries out one verb.
func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errUsage
	}
	verbs := map[string]func(context.Context, *flag.FlagSet, []string, io.Writer) error{
		"up": up, "down": down, "status": status, "truth": truth, "kubectl": kubectl,
		"job": job, "node": node, "start": start, "kill": kill, "build": build,
	}
	if slices.Contains([]string{"help", "-h", "-help", "--help"}, args[0]) {
		return flag.ErrHelp
	}
	verb, ok := verbs[args[0]]
	if !ok {
		return misuse("no verb %q", args[0])
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	return verb(ctx, flags, args[1:], out)
}

// parse reads the flags, and exactly n arguments after them; any number if n is
// negative.
func parse(flags *flag.FlagSet, args []string, n int) error {
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return misuse("%s: %w", flags.Name(), err)
	}
	if n >= 0 && flags.NArg() != n {
		return misuse("%s: %d arguments, not %d", flags.Name(), n, flags.NArg())
	}
	return nil
}
