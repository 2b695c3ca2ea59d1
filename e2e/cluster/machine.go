package cluster

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Identity is what a kubelet reports of its machine in the Node's nodeInfo.
type Identity struct {
	SystemUUID string `json:"systemUUID"`
	MachineID  string `json:"machineID"`
	BootID     string `json:"bootID"`
}

// NewIdentity returns the identity of a machine that has not been seen before,
// in its first boot.
func NewIdentity() Identity {
	return Identity{SystemUUID: newUUID(), MachineID: strings.ReplaceAll(newUUID(), "-", ""), BootID: newUUID()}
}

func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	s := hex.EncodeToString(b[:])
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

// Machine is what a node's name stands for: an identity, a kubelet, and container
// processes, which outlive the kubelet.
type Machine struct {
	// Name is unique in the cluster; the first machine of a node has its name.
	Name string

	c *Cluster
}

// machineFile is on the machine's disk. The node agent reads the identity.
type machineFile struct {
	Identity
	Node string `json:"node"` // the name under which its kubelet registers
	Off  bool   `json:"off,omitempty"`
}

// Machines returns all machines, also those whose node name has gone to another,
// sorted by name.
func (c *Cluster) Machines() []*Machine {
	files, _ := filepath.Glob(c.path("machines", "*", "machine.json"))
	var out []*Machine
	for _, f := range files {
		out = append(out, c.machine(filepath.Base(filepath.Dir(f))))
	}
	return out
}

func (c *Cluster) machine(name string) *Machine { return &Machine{Name: name, c: c} }

func (m *Machine) path(parts ...string) string {
	return m.c.path(append([]string{"machines", m.Name}, parts...)...)
}

func (m *Machine) read() (machineFile, error) {
	var f machineFile
	err := readJSON(m.path("machine.json"), &f)
	return f, err
}

func (m *Machine) write(f machineFile) error { return writeJSON(m.path("machine.json"), f) }

func (m *Machine) change(change func(*machineFile)) error {
	f, err := m.read()
	if err != nil {
		return err
	}
	change(&f)
	return m.write(f)
}

// Identity is what the machine's kubelet reports, once it has been started with
// it.
func (m *Machine) Identity() (Identity, error) {
	f, err := m.read()
	return f.Identity, err
}

// SetIdentity gives the machine another identity. Its kubelet reports it from its
// next start on.
func (m *Machine) SetIdentity(id Identity) error {
	return m.change(func(f *machineFile) { f.Identity = id })
}

// Processes returns the live container processes on the machine.
func (m *Machine) Processes() Truth { return m.c.Truth().OnMachine(m.Name) }

// Node is the name under which the machine's kubelet registers.
func (m *Machine) Node() string {
	f, _ := m.read() // a machine without its file has no node
	return f.Node
}

// LogFile is the path of the kubelet's log.
func (m *Machine) LogFile() string { return m.c.path("log", "kubelet-"+m.Name+".log") }

// Status is "up", "cut off" (the kubelet is frozen), "no kubelet" or "off".
func (m *Machine) Status() string {
	k := m.kubelet()
	f, err := m.read()
	switch {
	case err != nil:
		return err.Error()
	case f.Off:
		return "off"
	case !k.alive():
		return "no kubelet"
	case k.frozen():
		return "cut off"
	}
	return "up"
}

func (m *Machine) kubelet() process { return readProcess(m.path("kubelet.pid")) }

// CutOff freezes the kubelet: no heartbeat, no kill, no report. The container
// processes live on.
func (m *Machine) CutOff() error {
	k := m.kubelet()
	if !k.alive() {
		return fmt.Errorf("cut off %s: its kubelet does not run, which is the same to the API", m.Name)
	}
	if err := k.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	// The signal takes effect thread by thread; after this nothing moves.
	for end := time.Now().Add(5 * time.Second); !k.frozen(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("cut off %s: its kubelet, process %d, does not stop", m.Name, k.PID)
		}
	}
	return nil
}

// BringBack ends a cut-off, or starts a lost kubelet again: the same machine in
// the same boot.
func (m *Machine) BringBack() error {
	f, err := m.read()
	if err != nil {
		return err
	}
	if f.Off {
		return fmt.Errorf("bring back %s: it was powered off and can only come back in a new boot: use Reboot", m.Name)
	}
	if k := m.kubelet(); k.alive() {
		return k.signal(syscall.SIGCONT)
	}
	return m.StartKubelet()
}

// KillKubelet ends the kubelet alone. The container processes live on.
func (m *Machine) KillKubelet() error { return m.kubelet().kill() }

// StartKubelet starts the kubelet that does not run. It adopts the container
// processes that it finds, and registers the Node if that is gone.
func (m *Machine) StartKubelet() error {
	if k := m.kubelet(); k.alive() {
		return fmt.Errorf("start kubelet on %s: it runs already (%s)", m.Name, m.Status())
	}
	f, err := m.read()
	if err != nil {
		return err
	}
	if f.Off {
		return fmt.Errorf("start kubelet on %s: the machine is off: use Reboot", m.Name)
	}
	m.c.mu.Lock()
	labels := maps.Clone(m.c.state.Nodes[f.Node].Labels)
	m.c.mu.Unlock()
	kubeconfig, err := m.c.Kubeconfig("system:node:"+f.Node, "system:nodes")
	if err != nil {
		return err
	}
	argv := []string{m.c.state.Programs.Kube, "node",
		"--name=" + f.Node,
		"--kubeconfig=" + kubeconfig,
		"--machine=" + m.path(),
		"--cluster=" + m.c.Dir,
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		argv = append(argv, "--labels="+key+"="+labels[key])
	}
	k, err := spawn(m.LogFile(), m.path(), []string{clusterVariable + "=" + m.c.Dir}, argv)
	if err != nil {
		return fmt.Errorf("start kubelet on %s: %w", m.Name, err)
	}
	return k.record(m.path("kubelet.pid"))
}

// PowerOff ends the machine: the kubelet first, so that it can report nothing,
// then every container process. It returns when none is left. A machine that is
// off stays off.
func (m *Machine) PowerOff() error {
	return errors.Join(
		m.kubelet().kill(),
		killAll(m.Processes),
		m.change(func(f *machineFile) { f.Off = true }))
}

// Reboot powers the machine off, unless it is off already, and starts it in a new
// boot, whose ID it returns.
func (m *Machine) Reboot() (bootID string, err error) {
	if err := m.PowerOff(); err != nil {
		return "", err
	}
	bootID = newUUID()
	if err := m.change(func(f *machineFile) { f.Off, f.BootID = false, bootID }); err != nil {
		return "", err
	}
	return bootID, m.StartKubelet()
}

// Join makes the machine the one of a node name, which need not be its former
// one, and (re)starts its kubelet there in the same boot. An earlier machine of
// that name must be silent: off, cut off, or without kubelet.
func (m *Machine) Join(node string) error {
	if n := m.c.Node(node); n != nil {
		if other := n.Machine(); other.Name != m.Name && other.Status() == "up" {
			return fmt.Errorf("join %s as %s: machine %s still answers under that name: cut it off first", m.Name, node, other.Name)
		}
	}
	if err := m.KillKubelet(); err != nil {
		return err
	}
	if err := m.change(func(f *machineFile) { f.Node = node }); err != nil {
		return err
	}
	if err := m.c.setMachine(node, m.Name, nil); err != nil {
		return err
	}
	return m.StartKubelet()
}

// newMachine makes a machine with nothing on it.
func (c *Cluster) newMachine(name, node string, id Identity) (*Machine, error) {
	fresh := NewIdentity()
	id.SystemUUID = cmp.Or(id.SystemUUID, fresh.SystemUUID)
	id.MachineID = cmp.Or(id.MachineID, fresh.MachineID)
	id.BootID = cmp.Or(id.BootID, fresh.BootID)
	m := c.machine(name)
	if err := os.Mkdir(m.path(), 0o700); err != nil {
		return nil, fmt.Errorf("machine %s: %w", name, err)
	}
	return m, m.write(machineFile{Identity: id, Node: node})
}
