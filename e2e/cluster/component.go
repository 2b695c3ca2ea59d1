package cluster

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Component is a process of the control plane.
type Component string

// The components. Their names are those of their log files.
const (
	Etcd              Component = "etcd"
	APIServer         Component = "kube-apiserver"
	ControllerManager Component = "kube-controller-manager"
	Scheduler         Component = "kube-scheduler"
	JobSet            Component = "jobset-manager"
	Trainer           Component = "trainer-manager"
)

// Components returns all components, in the order in which they start.
func Components() []Component {
	return []Component{Etcd, APIServer, ControllerManager, Scheduler, JobSet, Trainer}
}

// startLimit is how long a component may take until it is ready.
const startLimit = 90 * time.Second

type user struct {
	name   string
	groups []string
}

// users are the components' identities. Each has its own, and RBAC is on, so a
// missing permission shows here as in any cluster.
func users() map[string]user {
	jobset, jobsetGroups := serviceAccount("jobset-system", "jobset-controller-manager")
	trainer, trainerGroups := serviceAccount("kubeflow-system", "kubeflow-trainer-controller-manager")
	return map[string]user{
		"admin":                   {"admin", []string{"system:masters"}},
		string(ControllerManager): {"system:kube-controller-manager", nil},
		string(Scheduler):         {"system:kube-scheduler", nil},
		string(JobSet):            {jobset, jobsetGroups},
		string(Trainer):           {trainer, trainerGroups},
	}
}

func (c *Cluster) kubeconfig(who string) string {
	return c.path("kubeconfigs", who+".kubeconfig")
}

// LogFile is the path of a component's log.
func (c *Cluster) LogFile(component Component) string {
	return c.path("log", string(component)+".log")
}

func (c *Cluster) pidFile(component Component) string {
	return c.path("run", string(component)+".pid")
}

// Running tells whether the component's process is alive.
func (c *Cluster) Running(component Component) bool {
	return readProcess(c.pidFile(component)).alive()
}

// PID is the component's process ID, or 0 if it does not run.
func (c *Cluster) PID(component Component) int {
	if p := readProcess(c.pidFile(component)); p.alive() {
		return p.PID
	}
	return 0
}

// StopComponent kills a component without warning, as a crash does, and returns
// when its process is gone.
func (c *Cluster) StopComponent(component Component) error {
	return readProcess(c.pidFile(component)).kill()
}

// StartComponent starts a component that is down, where it was before, and
// returns when it is ready. Flags are added to the ones it is started with.
func (c *Cluster) StartComponent(ctx context.Context, component Component, flags ...string) error {
	if err := c.launch(component, flags...); err != nil {
		return err
	}
	return c.ready(ctx, component)
}

// StopAPIServer kills the API server: every watch and every request breaks.
func (c *Cluster) StopAPIServer() error { return c.StopComponent(APIServer) }

// StartAPIServer brings the API server back on its port.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	return c.StartComponent(ctx, APIServer)
}

// launch starts a component's process.
func (c *Cluster) launch(component Component, flags ...string) error {
	if c.Running(component) {
		return fmt.Errorf("%s runs already", component)
	}
	argv, env, err := c.commandLine(component)
	if err != nil {
		return err
	}
	argv = append(append(argv, c.state.Flags[component]...), flags...)
	p, err := spawn(c.LogFile(component), c.path("run"), append(env, clusterVariable+"="+c.Dir), argv)
	if err != nil {
		return fmt.Errorf("start %s: %w", component, err)
	}
	return p.record(c.pidFile(component))
}

// ready waits until the component says that it is. The controller manager and
// the scheduler listen nowhere, so there is nothing to ask.
func (c *Cluster) ready(ctx context.Context, component Component) error {
	var url string
	switch component {
	case Etcd:
		url = fmt.Sprintf("http://127.0.0.1:%d/readyz", c.state.Ports.Etcd)
	case APIServer:
		url = c.apiURL() + "/readyz"
	case JobSet:
		url = fmt.Sprintf("http://127.0.0.1:%d/readyz", c.state.Ports.JobSetHealth)
	case Trainer:
		url = fmt.Sprintf("http://127.0.0.1:%d/readyz", c.state.Ports.TrainerHealth)
	default:
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("not ready after %s", startLimit))
	defer cancel()
	probe := c.ca.probe()
	defer probe.CloseIdleConnections()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if !c.Running(component) {
			return fmt.Errorf("%s exited; the end of %s:\n%s", component, c.LogFile(component), tail(c.LogFile(component)))
		}
		if request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil); err != nil {
			return err
		} else if response, err := probe.Do(request); err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w; the end of %s:\n%s", component, context.Cause(ctx), c.LogFile(component), tail(c.LogFile(component)))
		case <-tick.C:
		}
	}
}

// commandLine returns a component's program and arguments, and what to add to
// its environment.
func (c *Cluster) commandLine(component Component) (argv, env []string, err error) {
	programs, p := c.state.Programs, c.state.Ports
	loopback := func(port int) string { return fmt.Sprintf("http://127.0.0.1:%d", port) }
	kubeconfig := c.kubeconfig(string(component))
	switch component {
	case Etcd:
		return []string{programs.Kube, "etcd",
			"--data-dir=" + c.path("etcd"),
			"--unsafe-no-fsync", // nobody needs this data after a power cut
			"--listen-client-urls=" + loopback(p.Etcd),
			"--advertise-client-urls=" + loopback(p.Etcd),
			"--listen-peer-urls=" + loopback(p.EtcdPeer),
			"--initial-advertise-peer-urls=" + loopback(p.EtcdPeer),
			"--initial-cluster=default=" + loopback(p.EtcdPeer),
			"--log-level=warn",
		}, nil, nil
	case APIServer:
		seconds := int(c.state.Eviction.Seconds())
		return []string{programs.Kube, "kube-apiserver",
			"--etcd-servers=" + loopback(p.Etcd),
			"--bind-address=127.0.0.1",
			fmt.Sprintf("--secure-port=%d", p.API),
			"--advertise-address=127.0.0.1",
			"--endpoint-reconciler-type=none", // it would refuse a loopback endpoint
			"--tls-cert-file=" + c.path("pki", "tls.crt"),
			"--tls-private-key-file=" + c.path("pki", "tls.key"),
			"--client-ca-file=" + c.path("pki", "ca.crt"),
			"--authorization-mode=Node,RBAC",
			"--enable-admission-plugins=NodeRestriction",
			"--service-cluster-ip-range=10.96.0.0/24",
			"--service-account-issuer=https://kubernetes.default.svc",
			"--service-account-key-file=" + c.path("pki", "service-accounts.key"),
			"--service-account-signing-key-file=" + c.path("pki", "service-accounts.key"),
			"--audit-policy-file=" + c.path("config", "audit.yaml"),
			"--audit-log-path=" + c.AuditFile(),
			fmt.Sprintf("--default-unreachable-toleration-seconds=%d", seconds),
			fmt.Sprintf("--default-not-ready-toleration-seconds=%d", seconds),
		}, nil, nil
	case ControllerManager:
		return []string{programs.Kube, "kube-controller-manager",
			"--kubeconfig=" + kubeconfig,
			"--secure-port=0",
			"--leader-elect=false",
			"--use-service-account-credentials",
			"--service-account-private-key-file=" + c.path("pki", "service-accounts.key"),
			"--root-ca-file=" + c.path("pki", "ca.crt"),
			"--kube-api-qps=200", "--kube-api-burst=400",
			// The clocks of node failure: seconds where Kubernetes has minutes, and
			// no rate limit on the taints of a handful of nodes.
			"--node-monitor-period=1s",
			"--node-monitor-grace-period=" + c.state.MonitorGrace.String(),
			"--node-startup-grace-period=10s",
			"--node-eviction-rate=10", "--secondary-node-eviction-rate=10",
			"--v=2",
		}, nil, nil
	case Scheduler:
		return []string{programs.Kube, "kube-scheduler",
			"--kubeconfig=" + kubeconfig,
			"--secure-port=0",
			"--leader-elect=false",
		}, nil, nil
	case JobSet:
		return []string{programs.JobSet, "--config=" + c.path("config", "jobset.yaml"), "--zap-log-level=info"},
			[]string{"KUBECONFIG=" + kubeconfig}, nil
	case Trainer:
		// It has no setting for its certificate: controller-runtime looks for it
		// below TMPDIR.
		return []string{programs.Trainer, "--config=" + c.path("config", "trainer.yaml")},
			[]string{"KUBECONFIG=" + kubeconfig, "TMPDIR=" + c.path("run", "trainer")}, nil
	}
	return nil, nil, fmt.Errorf("no component %q; there are %v", component, Components())
}

// writeConfigs writes the components' configuration files and the webhook
// servers' certificates.
func (c *Cluster) writeConfigs() error {
	p := c.state.Ports
	certs := map[string]string{
		"tls.crt": c.path("pki", "tls.crt"),
		"tls.key": c.path("pki", "tls.key"),
	}
	for _, dir := range []string{c.path("run", "jobset-certs"), c.path("run", "trainer", "k8s-webhook-server", "serving-certs")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		for name, from := range certs {
			if err := os.Symlink(from, filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	// The managers' own certificate management is off: it makes certificates for
	// Services only, and here webhooks are called at 127.0.0.1.
	files := map[string]string{
		"jobset.yaml": fmt.Sprintf(`apiVersion: config.jobset.x-k8s.io/v1alpha1
kind: Configuration
leaderElection: {leaderElect: false}
internalCertManagement: {enable: false}
webhook: {host: 127.0.0.1, port: %d, certDir: %s}
health: {healthProbeBindAddress: "127.0.0.1:%d"}
metrics: {bindAddress: "0"}
`, p.JobSetHook, c.path("run", "jobset-certs"), p.JobSetHealth),
		"trainer.yaml": fmt.Sprintf(`apiVersion: config.trainer.kubeflow.org/v1alpha1
kind: Configuration
leaderElection: {leaderElect: false}
certManagement: {enable: false}
webhook: {host: 127.0.0.1, port: %d}
health: {healthProbeBindAddress: "127.0.0.1:%d"}
metrics: {bindAddress: "0"}
controller:
  groupKindConcurrency:
    TrainJob.trainer.kubeflow.org: 5
    TrainingRuntime.trainer.kubeflow.org: 1
    ClusterTrainingRuntime.trainer.kubeflow.org: 1
`, p.TrainerHook, p.TrainerHealth),
		"audit.yaml": auditPolicy,
	}
	for name, text := range files {
		if err := writeFile(c.path("config", name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// tail returns the last lines of a file, for an error message.
func tail(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(string(bytes.TrimSpace(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}
