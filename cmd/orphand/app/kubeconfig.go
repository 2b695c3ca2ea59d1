package app

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// newClusterFlags are kubectl's flags for choosing a cluster, without those that make no sense for a daemon.
func newClusterFlags() *genericclioptions.ConfigFlags {
	flags := genericclioptions.NewConfigFlags(true)
	flags.Namespace = nil // Every namespace is followed.
	flags.Timeout = nil   // Would cut watches off.
	flags.CacheDir = nil  // Discovery is not cached on disk.
	return flags
}

// loadCluster finds the cluster as kubectl does: the kubeconfig named by a flag, $KUBECONFIG or ~/.kube/config, and
// without any the service account of the pod that this runs in. Its errors name the cure.
func loadCluster(flags *genericclioptions.ConfigFlags) (*rest.Config, error) {
	loader := flags.ToRawKubeConfigLoader()
	config, err := loader.ClientConfig()
	switch {
	case err == nil && namesServer(loader, flags, config):
		return config, nil
	case err == nil:
		return nil, usage("no cluster to follow: no kubeconfig names a server (looked in %s) and this is no pod with a service account: give --kubeconfig", lookedIn(flags))
	case errors.Is(err, os.ErrNotExist):
		return nil, usage("--kubeconfig: %v: give the path of a kubeconfig that exists", err)
	case clientcmd.IsContextNotFound(err):
		return nil, usage("--context: %v: see kubectl config get-contexts", err)
	default:
		return nil, usage("the kubeconfig cannot be used: %v", err)
	}
}

// namesServer is false for client-go's last resort, http://localhost:8080, when nobody asked for it: a daemon would wait
// for that server for ever.
func namesServer(loader clientcmd.ClientConfig, flags *genericclioptions.ConfigFlags, config *rest.Config) bool {
	if config.Host != clientcmd.ClusterDefaults.Server || *flags.APIServer != "" || os.Getenv(masterVariable) != "" {
		return true
	}
	raw, err := loader.RawConfig()
	if err != nil {
		return false
	}
	for _, cluster := range raw.Clusters {
		if cluster.Server == config.Host {
			return true
		}
	}
	return false
}

// masterVariable is client-go's environment variable for the server's address.
const masterVariable = "KUBERNETES_MASTER"

func lookedIn(flags *genericclioptions.ConfigFlags) string {
	if path := *flags.KubeConfig; path != "" {
		return path
	}
	return strings.Join(clientcmd.NewDefaultClientConfigLoadingRules().Precedence, ", ")
}

// clients is one connection pool and one rate limit for every client that is made from it.
type clients struct {
	config *rest.Config
	http   *http.Client
	// limit is nil where the server's own fairness is relied upon.
	limit *limit
}

// newClients completes the config and opens the pool; wraps are put around its transport, the first innermost.
func newClients(config *rest.Config, options Options, userAgent string, wraps ...func(http.RoundTripper) http.RoundTripper) (*clients, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = userAgent
	// Watches last for minutes and must not be cut off, so only the connecting is bounded: 30 s by default, which is
	// too long to stay silent about a server that cannot be reached.
	config.Timeout = 0
	config.Dial = (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	config.QPS = -1
	var bounded *limit
	if options.KubeAPIQPS > 0 {
		bounded = newLimit(options.KubeAPIQPS, options.KubeAPIBurst)
		config.QPS = options.KubeAPIQPS
		config.Burst = options.KubeAPIBurst
		config.RateLimiter = bounded
	}
	for _, wrap := range wraps {
		config.Wrap(wrap)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, usage("the kubeconfig cannot be used: %v", err)
	}
	return &clients{config: config, http: client, limit: bounded}, nil
}

// hurry lets the requests that are still to come pass at once.
func (c *clients) hurry() {
	if c.limit != nil {
		c.limit.lift()
	}
}

// leases is the client of the election. It shares the pool but not the rate limit: a renewal that waits behind live reads
// comes too late, and so does giving the Lease back.
func (c *clients) leases() (coordination.LeasesGetter, error) {
	config := rest.CopyConfig(c.config)
	config.QPS, config.RateLimiter = -1, nil
	client, err := coordination.NewForConfigAndClient(config, c.http)
	if err != nil {
		return nil, fmt.Errorf("making the client for the leader election: %w", err)
	}
	return client, nil
}

// reviews is the client of the guard. It shares the pool but not the rate limit: a scrape that waits behind live reads is
// given up by who scrapes, and the guard has a limit of its own.
func (c *clients) reviews() (kubernetes.Interface, error) {
	config := rest.CopyConfig(c.config)
	config.QPS, config.RateLimiter = -1, nil
	client, err := kubernetes.NewForConfigAndClient(config, c.http)
	if err != nil {
		return nil, fmt.Errorf("making the client for reviews of who reads the metrics: %w", err)
	}
	return client, nil
}

// serverURL is the API server's address, with its path where it has one.
func serverURL(config *rest.Config) (string, error) {
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return "", usage("the kubeconfig's server %q cannot be used: %v", config.Host, err)
	}
	return strings.TrimRight(server.String(), "/"), nil
}

// userAgent tells the API server's audit log who asks.
func userAgent(info buildInfo) string {
	return fmt.Sprintf("orphand/%s (%s) %s", info.Version, info.Platform, info.Revision)
}
