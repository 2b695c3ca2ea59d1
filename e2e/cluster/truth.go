package cluster

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Environment variables by which processes are told to belong to a cluster. The
// node agent of e2e/kube writes the first one for each container process.
const (
	containerVariable = "ORPHAND_E2E_CONTAINER"
	clusterVariable   = "ORPHAND_E2E_CLUSTER"
)

// Process is a live process of a container.
type Process struct {
	PID int
	// Leader tells the container's first process from its descendants.
	Leader    bool
	Command   string
	Pod       types.NamespacedName
	PodUID    types.UID
	Container string
	Attempt   int    // of the container within its pod, from 0
	Node      string // node name of the kubelet that started it
	Machine   string // where it runs

	id process
}

// Truth is the list of all live container processes of a cluster, whatever the
// API says about them.
type Truth []Process

// mark is what the node agent writes into [containerVariable].
type mark struct {
	Cluster   string `json:"cluster"`
	Machine   string `json:"machine"`
	Node      string `json:"node"`
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	UID       string `json:"uid"`
	Container string `json:"container"`
	Attempt   int    `json:"attempt"`
}

// Truth reads the live container processes from /proc, by the mark that each of
// them carries in its environment. It asks neither the API nor a kubelet, and
// works on a cluster that is half dead.
func (c *Cluster) Truth() Truth { return truthOf(c.Dir) }

func truthOf(dir string) Truth {
	var t Truth
	for _, pid := range pids() {
		value, ok := environment(pid, containerVariable)
		if !ok {
			continue
		}
		var m mark
		if json.Unmarshal([]byte(value), &m) != nil || m.Cluster != dir {
			continue
		}
		id := process{PID: pid, Start: statOf(pid).start}
		if id.Start == "" {
			continue
		}
		t = append(t, Process{
			PID:       pid,
			Leader:    isSessionLeader(pid),
			Command:   commandOf(pid),
			Pod:       types.NamespacedName{Namespace: m.Namespace, Name: m.Pod},
			PodUID:    types.UID(m.UID),
			Container: m.Container,
			Attempt:   m.Attempt,
			Node:      m.Node,
			Machine:   m.Machine,
			id:        id,
		})
	}
	slices.SortFunc(t, func(a, b Process) int {
		return cmp.Or(
			cmp.Compare(a.Machine, b.Machine),
			cmp.Compare(a.Pod.String(), b.Pod.String()),
			cmp.Compare(a.PodUID, b.PodUID),
			cmp.Compare(a.PID, b.PID))
	})
	return t
}

// Where returns the processes for which keep is true.
func (t Truth) Where(keep func(Process) bool) Truth {
	var out Truth
	for _, p := range t {
		if keep(p) {
			out = append(out, p)
		}
	}
	return out
}

// OfPod returns the processes of one pod.
func (t Truth) OfPod(uid types.UID) Truth {
	return t.Where(func(p Process) bool { return p.PodUID == uid })
}

// OnMachine returns the processes on one machine.
func (t Truth) OnMachine(name string) Truth {
	return t.Where(func(p Process) bool { return p.Machine == name })
}

// Pods returns the UIDs of the pods with a live process, sorted.
func (t Truth) Pods() []types.UID {
	var uids []types.UID
	for _, p := range t {
		uids = append(uids, p.PodUID)
	}
	slices.Sort(uids)
	return slices.Compact(uids)
}

// Alive tells whether a process of the pod is alive.
func (t Truth) Alive(uid types.UID) bool {
	return slices.ContainsFunc(t, func(p Process) bool { return p.PodUID == uid })
}

// String is a table with one line for each process, or "nothing runs".
func (t Truth) String() string {
	if len(t) == 0 {
		return "nothing runs"
	}
	var b strings.Builder
	for i, p := range t {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%-10s pid %-7d %s (%s) %s: %s", p.Machine, p.PID, p.Pod, p.PodUID, p.Container, p.Command)
	}
	return b.String()
}

// WaitTruth waits until the processes meet the condition. Processes send no
// events to strangers, so this looks every 20 ms.
func (c *Cluster) WaitTruth(ctx context.Context, cond func(Truth) bool) (Truth, error) {
	ctx, cancel := withDefaultWait(ctx)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		t := c.Truth()
		if cond(t) {
			return t, nil
		}
		select {
		case <-ctx.Done():
			return t, fmt.Errorf("waiting for processes: %w; what runs now:\n%s", context.Cause(ctx), t)
		case <-tick.C:
		}
	}
}

// killAll kills the processes and what they fork meanwhile, and waits until a
// look at all processes finds none.
func killAll(list func() Truth) error {
	for end := time.Now().Add(10 * time.Second); ; {
		t := list()
		if len(t) == 0 {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("processes that outlive SIGKILL:\n%s", t)
		}
		for _, p := range t {
			if err := p.id.kill(); err != nil {
				return err
			}
		}
	}
}

func pids() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var out []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			out = append(out, pid)
		}
	}
	return out
}

// environment returns a variable of another process. Processes that are gone,
// zombies, and other users' processes have none.
func environment(pid int, name string) (string, bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return "", false
	}
	prefix := []byte(name + "=")
	for entry := range bytes.SplitSeq(b, []byte{0}) {
		if value, ok := bytes.CutPrefix(entry, prefix); ok {
			return string(value), true
		}
	}
	return "", false
}

func commandOf(pid int) string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(bytes.ReplaceAll(b, []byte{0}, []byte{' '})))
}

func isSessionLeader(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	return len(f) > 3 && f[3] == strconv.Itoa(pid)
}
