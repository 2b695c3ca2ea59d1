package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	cri "k8s.io/cri-api/pkg/apis/testing"
)

// books is the runtime's state on disk. It holds no pids: a process is found by
// its mark, so that a kubelet killed between the start of a process and the next
// save loses nothing.
type books struct {
	Sandboxes  map[string]savedSandbox
	Containers map[string]savedContainer
}

type savedSandbox struct {
	Status  []byte // protobuf of runtimeapi.PodSandboxStatus
	Handler string
}

type savedContainer struct {
	Status  []byte // protobuf of runtimeapi.ContainerStatus
	Sandbox string
}

func (r *processRuntime) file() string { return filepath.Join(r.machine.dir, "runtime.json") }

func (r *processRuntime) save() error {
	r.saving.Lock()
	defer r.saving.Unlock()
	b, err := r.encode()
	if err != nil {
		return err
	}
	// Written aside and renamed: a kubelet killed here must leave whole books.
	if err := os.WriteFile(r.file()+".new", b, 0o600); err != nil {
		return err
	}
	return os.Rename(r.file()+".new", r.file())
}

func (r *processRuntime) encode() ([]byte, error) {
	r.FakeRuntimeService.Lock()
	defer r.FakeRuntimeService.Unlock()
	s := books{Sandboxes: map[string]savedSandbox{}, Containers: map[string]savedContainer{}}
	for id, b := range r.Sandboxes {
		status, err := proto.Marshal(&b.PodSandboxStatus)
		if err != nil {
			return nil, err
		}
		s.Sandboxes[id] = savedSandbox{Status: status, Handler: b.RuntimeHandler}
	}
	for id, c := range r.Containers {
		status, err := proto.Marshal(&c.ContainerStatus)
		if err != nil {
			return nil, err
		}
		s.Containers[id] = savedContainer{Status: status, Sandbox: c.SandboxID}
	}
	return json.Marshal(s)
}

// load reads the books and squares them with what runs: a live process is
// adopted, and a container whose process is gone is reported as containerd
// reports one after a reboot, exit code 255 and reason Unknown.
func (r *processRuntime) load() error {
	b, err := os.ReadFile(r.file())
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a new machine
	}
	if err != nil {
		return err
	}
	var s books
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("runtime state %s: %w", r.file(), err)
	}
	alive := map[string]bool{} // sandboxes
	for id, saved := range s.Containers {
		fake := &cri.FakeContainer{SandboxID: saved.Sandbox}
		if err := proto.Unmarshal(saved.Status, &fake.ContainerStatus); err != nil {
			return fmt.Errorf("runtime state %s: container %s: %w", r.file(), id, err)
		}
		r.Containers[id] = fake
		if fake.State == runtimeapi.ContainerState_CONTAINER_EXITED {
			continue
		}
		c := newContainer(r, id, nil)
		r.containers[id] = c
		pidfd, running := leader(r.cluster, r.machine.name, id)
		switch {
		case running:
			alive[saved.Sandbox] = true
			fake.State = runtimeapi.ContainerState_CONTAINER_RUNNING
			if fake.StartedAt == 0 {
				fake.StartedAt = time.Now().UnixNano()
			}
			defer c.adopt(pidfd) // after the books are complete
		case fake.State == runtimeapi.ContainerState_CONTAINER_RUNNING:
			defer c.recordExit(exit{code: 255, reason: "Unknown"})
		}
	}
	for id, saved := range s.Sandboxes {
		fake := &cri.FakePodSandbox{RuntimeHandler: saved.Handler}
		if err := proto.Unmarshal(saved.Status, &fake.PodSandboxStatus); err != nil {
			return fmt.Errorf("runtime state %s: sandbox %s: %w", r.file(), id, err)
		}
		if !alive[id] {
			fake.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
		}
		r.Sandboxes[id] = fake
	}
	return nil
}

// leader opens the first process of a container, its session's leader.
func leader(cluster, machine, id string) (pidfd int, ok bool) {
	for _, pid := range marked(cluster, machine, id) {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		// Read again below the open descriptor: now the pid is that process.
		sid, err := unix.Getsid(pid)
		m, marked := markOf(pid)
		if err == nil && sid == pid && marked && m.ID == id {
			return fd, true
		}
		_ = unix.Close(fd)
	}
	return -1, false
}
