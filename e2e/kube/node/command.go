// Package node is the node agent of the test bed: the real kubelet of
// k8s.io/kubernetes (pod workers, status manager, PLEG and leases are its own;
// kubemark stubs cadvisor, mounts, probes and cgroups) on a container runtime
// whose containers are host processes.
package node

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	cri "k8s.io/cri-api/pkg/apis/testing"
	cadvisortest "k8s.io/kubernetes/pkg/kubelet/cadvisor/testing"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubemark"
)

type options struct {
	name       string
	kubeconfig string
	machine    string
	cluster    string
	labels     map[string]string
	lease      int32
	status     time.Duration
}

// NewCommand returns the command that runs one kubelet until it is killed.
func NewCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:          "node",
		Short:        "run a kubelet whose containers are host processes",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE:         func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	f := cmd.Flags()
	f.StringVar(&o.name, "name", "", "name of the Node object")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig with the node's credentials")
	f.StringVar(&o.machine, "machine", "", "directory of the machine (machine.json gives its identity)")
	f.StringVar(&o.cluster, "cluster", "", "identity of the cluster, for the marks of container processes")
	f.StringToStringVar(&o.labels, "labels", nil, "labels of the Node object")
	f.Int32Var(&o.lease, "lease-seconds", 4, "duration of the node lease; it is renewed every quarter of it")
	f.DurationVar(&o.status, "status-frequency", 2*time.Second, "how often the node's status is computed")
	for _, name := range []string{"name", "kubeconfig", "machine", "cluster"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // defined above
		}
	}
	return cmd
}

func (o options) run(cmd *cobra.Command) error {
	m, err := openMachine(o.machine)
	if err != nil {
		return err
	}
	client, heartbeat, err := o.clients()
	if err != nil {
		return err
	}
	runtime, err := newProcessRuntime(m, o.name, o.cluster)
	if err != nil {
		return err
	}

	// kubemark makes its scratch directories under TMPDIR and never removes them.
	tmp := filepath.Join(m.dir, "tmp")
	if err := os.RemoveAll(tmp); err != nil {
		return fmt.Errorf("clear the last kubelet's scratch directory: %w", err)
	}
	if err := os.MkdirAll(tmp, 0o755); err != nil {
		return err
	}
	if err := os.Setenv("TMPDIR", tmp); err != nil {
		return err
	}

	flags, config := kubemark.GetHollowKubeletConfig(&kubemark.HollowKubeletOptions{
		NodeName: o.name, KubeletPort: 10250, MaxPods: 110, NodeLabels: o.labels,
	})
	// Nothing listens: kubemark would bind 0.0.0.0, and several nodes share a host.
	config.EnableServer = false
	config.ReadOnlyPort = 0
	config.Address = "127.0.0.1"
	config.NodeLeaseDurationSeconds = o.lease
	config.NodeStatusUpdateFrequency.Duration = o.status

	images := cri.NewFakeImageService()
	images.SetFakeFilesystemUsage([]*runtimeapi.FilesystemUsage{{
		FsId:       &runtimeapi.FilesystemIdentifier{Mountpoint: "/"},
		UsedBytes:  &runtimeapi.UInt64Value{},
		InodesUsed: &runtimeapi.UInt64Value{},
	}})
	kubemark.NewHollowKubelet(flags, config, client, heartbeat,
		&hardware{Fake: cadvisortest.Fake{NodeName: o.name}, id: m.id},
		images, runtime, cm.NewStubContainerManager()).Run(cmd.Context())
	return nil
}

// clients returns the kubelet's client and the one for its heartbeats, which
// must not wait behind the other's rate limit.
func (o options) clients() (client, heartbeat *kubernetes.Clientset, err error) {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return nil, nil, err
	}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.UserAgent = "kubelet" // the field manager of everything it writes
	config.QPS, config.Burst = 50, 100
	if client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, nil, err
	}
	beat := rest.CopyConfig(config)
	beat.QPS, beat.Timeout = -1, o.status
	heartbeat, err = kubernetes.NewForConfig(beat)
	return client, heartbeat, err
}
