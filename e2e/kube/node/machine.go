package node

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	cadvisor "github.com/google/cadvisor/lib/model"
	"k8s.io/klog/v2"
	cadvisortest "k8s.io/kubernetes/pkg/kubelet/cadvisor/testing"
)

// Identity is what tells machines and boots apart in a Node's status.
type Identity struct {
	SystemUUID string `json:"systemUUID"`
	MachineID  string `json:"machineID"`
	BootID     string `json:"bootID"`
}

// machine is the hardware below a node: a directory that holds its identity,
// its container runtime's state and its kubelet's files. It outlives kubelets.
type machine struct {
	dir  string
	name string
	id   Identity
}

// openMachine reads DIR/machine.json. The machine's name is the directory's.
func openMachine(dir string) (machine, error) {
	m := machine{dir: dir, name: filepath.Base(dir)}
	file := filepath.Join(dir, "machine.json")
	b, err := os.ReadFile(file)
	if err != nil {
		return m, fmt.Errorf("machine identity: %w", err)
	}
	if err := json.Unmarshal(b, &m.id); err != nil {
		return m, fmt.Errorf("machine identity %s: %w", file, err)
	}
	return m, nil
}

// hardware reports a machine of a given identity to the kubelet.
type hardware struct {
	cadvisortest.Fake
	id Identity
}

func (h *hardware) MachineInfo(logger klog.Logger) (*cadvisor.MachineInfo, error) {
	info, err := h.Fake.MachineInfo(logger)
	if err != nil {
		return nil, err
	}
	info.SystemUUID, info.MachineID, info.BootID = h.id.SystemUUID, h.id.MachineID, h.id.BootID
	info.NumCores = 16
	info.MemoryCapacity = 64 << 30
	return info, nil
}
