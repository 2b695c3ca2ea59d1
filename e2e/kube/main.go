// Command kube links a whole Kubernetes into one program: etcd, the API server,
// the controller manager, the scheduler, a node agent and kubectl, each of them
// the upstream code at the version that go.mod names. One program instead of
// six is one link instead of six, and the shared packages are built once.
//
// The first argument names the component; what follows are that component's own
// flags:
//
//	kube etcd|kube-apiserver|kube-controller-manager|kube-scheduler|node|kubectl [flags]
package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/orphand/orphand/e2e/kube/node"
)

var components = map[string]func(){
	"etcd":                    func() { etcdmain.Main(os.Args) },
	"kube-apiserver":          func() { run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() { run(controllermanager.NewControllerManagerCommand()) },
	"kube-scheduler":          func() { run(scheduler.NewSchedulerCommand()) },
	"node":                    func() { run(node.NewCommand()) },
	"kubectl": func() {
		if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
			kubectlutil.CheckErr(err)
		}
	},
}

func main() {
	if len(os.Args) < 2 || components[os.Args[1]] == nil {
		names := slices.Sorted(maps.Keys(components))
		fmt.Fprintf(os.Stderr, "usage: kube %s [flags]\n", strings.Join(names, "|"))
		os.Exit(2)
	}
	// Client user agents, and with them the field managers in managedFields,
	// are derived from os.Args[0]: a component must find its own name there.
	start := components[os.Args[1]]
	os.Args = os.Args[1:]
	start()
}

func run(cmd *cobra.Command) { os.Exit(cli.Run(cmd)) }
