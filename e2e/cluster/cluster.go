package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/orphand/orphand/e2e/binaries"
)

// Options say what to start. The zero value is a whole cluster of three nodes.
type Options struct {
	// Name names the cluster's directory; empty means one that nobody else has.
	// Two live clusters cannot have the same name.
	Name string
	// Nodes is the number of nodes, node-0, node-1, ...; 0 means 3, and a negative
	// number none.
	Nodes int
	// Without leaves out Trainer, or Trainer and JobSet: no CRDs, no webhooks, no
	// manager. InstallJobSet and InstallTrainer bring them later.
	Without []Component
	// Eviction is how long pods tolerate an unreachable or not-ready node before
	// they are evicted; 0 means 300 s, as in Kubernetes. Whole seconds.
	Eviction time.Duration
	// MonitorGrace is how long a node may be silent before its Ready condition
	// becomes Unknown; 0 means 6 s. At least 5 s: nodes are heard every second, but
	// not on a host whose processors are all busy.
	MonitorGrace time.Duration
	// Flags are added to a component's own, and win over them.
	Flags map[Component][]string
	// Detached clusters outlive the process that starts them. Whoever wants them
	// gone opens them and stops them.
	Detached bool
	// Progress is told, line by line, what happens; nil means nobody is.
	Progress func(format string, args ...any)
}

// ErrExists is the error of Start when a live cluster has the name.
var ErrExists = errors.New("there is a cluster of that name")

// Cluster is a running cluster. Its methods may be called concurrently, but two
// accidents on one node at the same time are the caller's to order.
type Cluster struct {
	// Dir is the cluster's directory: log/ with a log for each component and
	// kubelet, audit.jsonl, kubeconfigs/, machines/ with container logs.
	Dir string

	began time.Time
	say   func(format string, args ...any)
	ca    *authority

	config  *rest.Config
	client  kubernetes.Interface
	dynamic dynamic.Interface

	mu    sync.Mutex
	state state
}

// state is what a later process needs to know to take the cluster over.
type state struct {
	Ports        ports
	Programs     binaries.Set
	Eviction     time.Duration
	MonitorGrace time.Duration
	Flags        map[Component][]string `json:",omitempty"`
	// Nodes maps the names of nodes to what they stand for.
	Nodes map[string]nodeState
}

type nodeState struct {
	Machine  string // the current one
	Machines int    // how many have had the name
	Labels   map[string]string
}

// Start builds what is missing, sweeps up after owners that died, and starts a
// cluster. It returns when the API serves, webhooks answer and all nodes are
// Ready: in about ten seconds on an idle machine, if nothing is to be built. On
// error nothing is left running.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	programs, err := binaries.Ensure(ctx, o.Progress)
	if err != nil {
		return nil, err
	}
	c, err := create(o, programs)
	if err != nil {
		return nil, err
	}
	if err := c.boot(ctx, o); err != nil {
		return nil, errors.Join(fmt.Errorf("start cluster %s: %w", filepath.Base(c.Dir), err), c.Stop())
	}
	return c, nil
}

func (o *Options) complete() error {
	if o.Progress == nil {
		o.Progress = func(string, ...any) {}
	}
	switch {
	case o.Nodes == 0:
		o.Nodes = 3
	case o.Nodes < 0:
		o.Nodes = 0
	}
	if o.Eviction == 0 {
		o.Eviction = 300 * time.Second
	}
	if o.MonitorGrace == 0 {
		o.MonitorGrace = 6 * time.Second
	}
	if o.MonitorGrace < 5*time.Second {
		return fmt.Errorf("cluster: MonitorGrace %s: at least 5s", o.MonitorGrace)
	}
	if o.Name != "" && o.Name != filepath.Base(o.Name) || strings.HasPrefix(o.Name, keptPrefix) || strings.HasPrefix(o.Name, ".") {
		return fmt.Errorf("cluster: Name %q: a plain file name is wanted", o.Name)
	}
	for _, w := range o.Without {
		if w != Trainer && w != JobSet {
			return fmt.Errorf("cluster: Without %s: only %s and %s can be left out", w, Trainer, JobSet)
		}
	}
	if slices.Contains(o.Without, JobSet) && !slices.Contains(o.Without, Trainer) {
		return fmt.Errorf("cluster: Without %s: %s cannot start without it; leave out both", JobSet, Trainer)
	}
	return nil
}

// create makes the directory, so that from here on the cluster is known to
// everyone who sweeps or looks for ports.
func create(o Options, programs binaries.Set) (*Cluster, error) {
	root, err := rootDir()
	if err != nil {
		return nil, err
	}
	c := &Cluster{began: time.Now(), say: o.Progress, state: state{
		Programs:     programs,
		Eviction:     o.Eviction,
		MonitorGrace: o.MonitorGrace,
		Flags:        o.Flags,
		Nodes:        map[string]nodeState{},
	}}
	err = withRoot(root, func() error {
		if err := sweep(root, o.Progress); err != nil {
			return err
		}
		if o.Name == "" {
			if c.Dir, err = os.MkdirTemp(root, "cluster-"); err != nil {
				return err
			}
		} else {
			c.Dir = filepath.Join(root, o.Name)
			if err := os.Mkdir(c.Dir, 0o700); errors.Is(err, os.ErrExist) {
				dir := c.Dir
				c.Dir = "" // another's, and not ours to remove
				return fmt.Errorf("%w: %s in %s", ErrExists, o.Name, dir)
			} else if err != nil {
				return err
			}
		}
		if err := writeJSON(filepath.Join(c.Dir, ownerFile), owner{process: self(), Detached: o.Detached}); err != nil {
			return err
		}
		if c.state.Ports, err = choosePorts(root); err != nil {
			return err
		}
		return c.save()
	})
	if err != nil {
		if c.Dir != "" {
			err = errors.Join(err, os.RemoveAll(c.Dir))
		}
		return nil, err
	}
	return c, nil
}

// Open returns the running cluster of a name that another process started.
func Open(name string) (*Cluster, error) {
	root, err := rootDir()
	if err != nil {
		return nil, err
	}
	c := &Cluster{Dir: filepath.Join(root, name), began: time.Now(), say: func(string, ...any) {}}
	if err := readJSON(filepath.Join(c.Dir, stateFile), &c.state); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("there is no cluster named %s in %s", name, root)
		}
		return nil, err
	}
	if c.ca, err = loadAuthority(c.Dir); err != nil {
		return nil, err
	}
	return c, c.connect()
}

// Stop ends every process of the cluster, container processes included, and
// removes its directory (see [KeepVariable]). A second Stop does nothing.
func (c *Cluster) Stop() error {
	err := endAll(c.Dir)
	if os.Getenv(KeepVariable) != "" && exists(c.Dir) {
		kept := filepath.Join(filepath.Dir(c.Dir), fmt.Sprintf("%s%s-%d", keptPrefix, filepath.Base(c.Dir), time.Now().Unix()))
		c.say("files of the cluster are kept in %s", kept)
		return errors.Join(err, os.Rename(c.Dir, kept))
	}
	return errors.Join(err, os.RemoveAll(c.Dir))
}

// Name is the cluster's name, for Open.
func (c *Cluster) Name() string { return filepath.Base(c.Dir) }

// Config returns a fresh client configuration with all permissions and no rate
// limit.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Client returns a client for Kubernetes' own kinds, with all permissions.
func (c *Cluster) Client() kubernetes.Interface { return c.client }

// Dynamic returns a client for any kind, with all permissions.
func (c *Cluster) Dynamic() dynamic.Interface { return c.dynamic }

// Kubectl is the path of a kubectl that talks to this cluster as administrator.
func (c *Cluster) Kubectl() string { return filepath.Join(c.Dir, "bin", "kubectl") }

// Mark is the environment variable, as NAME=VALUE, by which processes are told to
// belong to the cluster: whatever is started with it ends with the cluster.
func (c *Cluster) Mark() string { return clusterVariable + "=" + c.Dir }

// NodeNames returns the names of all nodes that were ever part of the cluster,
// sorted.
func (c *Cluster) NodeNames() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.state.Nodes))
}

func (c *Cluster) apiURL() string { return fmt.Sprintf("https://127.0.0.1:%d", c.state.Ports.API) }

func (c *Cluster) path(parts ...string) string {
	return filepath.Join(append([]string{c.Dir}, parts...)...)
}

// save writes the state. Call it with mu held, or before anyone else has c.
func (c *Cluster) save() error { return writeJSON(c.path(stateFile), c.state) }

// connect makes the clients.
func (c *Cluster) connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", c.AdminKubeconfig())
	if err != nil {
		return err
	}
	config.QPS = -1
	config.UserAgent = "orphand-e2e"
	c.config = config
	if c.client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	c.dynamic, err = dynamic.NewForConfig(config)
	return err
}

func (c *Cluster) progress(format string, args ...any) {
	c.say("%5.1fs  %s", time.Since(c.began).Seconds(), fmt.Sprintf(format, args...))
}
