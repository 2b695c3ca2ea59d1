package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/orphand/orphand/e2e/binaries"
	"github.com/orphand/orphand/e2e/cluster"
)

// playground is the name of the cluster that up starts.
const playground = "playground"

func nameFlag(flags *flag.FlagSet) *string {
	return flags.String("name", playground, "name of the cluster")
}

func printer(out io.Writer) func(string, ...any) {
	return func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
}

func build(ctx context.Context, flags *flag.FlagSet, args []string, out io.Writer) error {
	if err := parse(flags, args, 0); err != nil {
		return err
	}
	set, err := binaries.Ensure(ctx, printer(out))
	if err == nil {
		fmt.Fprintf(out, "programs are built: %s, %s, %s\n", set.Kube, set.JobSet, set.Trainer)
	}
	return err
}

func up(ctx context.Context, flags *flag.FlagSet, args []string, out io.Writer) error {
	name := nameFlag(flags)
	nodes := flags.Int("nodes", 3, "number of nodes")
	eviction := flags.Duration("eviction", 300*time.Second, "how long pods tolerate an unreachable node")
	bare := flags.Bool("without-trainer", false, "leave out Trainer and JobSet")
	if err := parse(flags, args, 0); err != nil {
		return err
	}
	o := cluster.Options{Name: *name, Nodes: *nodes, Eviction: *eviction, Detached: true, Progress: printer(out)}
	if *nodes == 0 {
		o.Nodes = -1
	}
	if *bare {
		o.Without = []cluster.Component{cluster.JobSet, cluster.Trainer}
	}
	more := ""
	if *name != playground {
		more = " -name " + *name
	}
	c, err := cluster.Start(ctx, o)
	if errors.Is(err, cluster.ErrExists) {
		return fmt.Errorf("%w; end it with: go run ./e2e/cmd/cluster down%s", err, more)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(out, `
export KUBECONFIG=%s
kubectl for it: %s
logs and the audit log: %s

Things to try:
  go run ./e2e/cmd/cluster kubectl%[4]s -- get nodes
  go run ./e2e/cmd/cluster job%[4]s -nodes 2 llm
  go run ./e2e/cmd/cluster truth%[4]s
  go run ./e2e/cmd/cluster node%[4]s cut-off node-0
  go run ./e2e/cmd/cluster kubectl%[4]s -- delete trainjob llm
  go run ./e2e/cmd/cluster kubectl%[4]s -- get trainjobs,jobsets,jobs,pods -A
  go run ./e2e/cmd/cluster node%[4]s bring-back node-0
  go run ./e2e/cmd/cluster down%[4]s
`, c.AdminKubeconfig(), c.Kubectl(), c.Dir, more)
	return nil
}

// open reads the flags of a verb about a running cluster, and n arguments.
func open(flags *flag.FlagSet, args []string, n int) (*cluster.Cluster, error) {
	name := nameFlag(flags)
	if err := parse(flags, args, n); err != nil {
		return nil, err
	}
	c, err := cluster.Open(*name)
	if err != nil {
		return nil, fmt.Errorf("%w; start one with: go run ./e2e/cmd/cluster up", err)
	}
	return c, nil
}

func down(_ context.Context, flags *flag.FlagSet, args []string, _ io.Writer) error {
	c, err := open(flags, args, 0)
	if err != nil {
		return err
	}
	return c.Stop()
}

func status(_ context.Context, flags *flag.FlagSet, args []string, out io.Writer) error {
	c, err := open(flags, args, 0)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "directory\t%s\n", c.Dir)
	for _, component := range cluster.Components() {
		state := "down"
		if pid := c.PID(component); pid != 0 {
			state = fmt.Sprintf("process %d", pid)
		}
		fmt.Fprintf(w, "%s\t%s\n", component, state)
	}
	for _, name := range c.NodeNames() {
		m := c.Node(name).Machine()
		fmt.Fprintf(w, "%s\tmachine %s, %s, %d container processes\n", name, m.Name, m.Status(), len(m.Processes()))
	}
	return w.Flush()
}

func truth(_ context.Context, flags *flag.FlagSet, args []string, out io.Writer) error {
	c, err := open(flags, args, 0)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, c.Truth())
	return nil
}

// kubectl becomes kubectl.
func kubectl(_ context.Context, flags *flag.FlagSet, args []string, _ io.Writer) error {
	c, err := open(flags, args, -1)
	if err != nil {
		return err
	}
	path, err := exec.LookPath(c.Kubectl())
	if err != nil {
		return err
	}
	return syscall.Exec(path, append([]string{"kubectl"}, flags.Args()...), os.Environ())
}

func job(ctx context.Context, flags *flag.FlagSet, args []string, out io.Writer) error {
	nodes := flags.Int("nodes", 2, "number of pods, each on a node of its own")
	deaf := flags.Bool("ignore-sigterm", false, "processes do not obey SIGTERM")
	grace := flags.Int64("grace", 30, "termination grace period in seconds")
	c, err := open(flags, args, 1)
	if err != nil {
		return err
	}
	j, err := c.SubmitTrainJob(ctx, cluster.TrainJobSpec{
		Name: flags.Arg(0), Nodes: *nodes, IgnoreSIGTERM: *deaf, GraceSeconds: grace,
	})
	if err != nil {
		return err
	}
	pods, err := c.WaitRunning(ctx, j)
	if err != nil {
		return err
	}
	for _, p := range pods {
		fmt.Fprintf(out, "%s runs on %s\n", p.Name, p.Spec.NodeName)
	}
	return nil
}

func node(ctx context.Context, flags *flag.FlagSet, args []string, out io.Writer) error {
	c, err := open(flags, args, 2)
	if err != nil {
		return err
	}
	n := c.Node(flags.Arg(1))
	if n == nil {
		return fmt.Errorf("no node %q; there are %v", flags.Arg(1), c.NodeNames())
	}
	switch flags.Arg(0) {
	case "cut-off":
		return n.CutOff()
	case "bring-back":
		return n.BringBack()
	case "power-off":
		return n.PowerOff()
	case "reboot":
		boot, err := n.Reboot()
		if err == nil {
			fmt.Fprintf(out, "boot ID %s\n", boot)
		}
		return err
	case "kill-kubelet":
		return n.KillKubelet()
	case "start-kubelet":
		return n.StartKubelet()
	case "delete":
		return n.Delete(ctx)
	case "reregister":
		return n.Reregister(ctx)
	case "another-machine":
		m, err := n.AsAnotherMachine(ctx, cluster.Identity{})
		if err == nil {
			fmt.Fprintf(out, "%s is machine %s now\n", n.Name, m.Name)
		}
		return err
	case "taint":
		return n.Taint(ctx, cluster.OutOfService())
	case "untaint":
		return n.Untaint(ctx, cluster.OutOfService().Key)
	}
	return misuse("no accident %q", flags.Arg(0))
}

func start(ctx context.Context, flags *flag.FlagSet, args []string, _ io.Writer) error {
	c, component, err := componentOf(flags, args)
	if err != nil {
		return err
	}
	return c.StartComponent(ctx, component)
}

func kill(_ context.Context, flags *flag.FlagSet, args []string, _ io.Writer) error {
	c, component, err := componentOf(flags, args)
	if err != nil {
		return err
	}
	return c.StopComponent(component)
}

func componentOf(flags *flag.FlagSet, args []string) (*cluster.Cluster, cluster.Component, error) {
	c, err := open(flags, args, 1)
	if err != nil {
		return nil, "", err
	}
	component := cluster.Component(flags.Arg(0))
	if !slices.Contains(cluster.Components(), component) {
		return nil, "", misuse("no component %q; there are %v", component, cluster.Components())
	}
	return c, component, nil
}
