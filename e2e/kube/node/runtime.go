package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	cri "k8s.io/cri-api/pkg/apis/testing"
)

// processRuntime is the CRI runtime. The bookkeeping of sandboxes and containers
// is that of cri-api's fake; the containers are real: see container.
//
// Sandboxes and container states are kept on the machine's disk, and running
// processes are found again by their marks, so that a kubelet that is killed and
// started anew adopts what its predecessor left, as over a containerd that was
// running all the time.
type processRuntime struct {
	*cri.FakeRuntimeService // its own lock guards Sandboxes and Containers

	machine machine
	node    string
	cluster string

	mu         sync.Mutex
	containers map[string]*container
	saving     sync.Mutex
}

func newProcessRuntime(m machine, node, cluster string) (*processRuntime, error) {
	fake := cri.NewFakeRuntimeService()
	fake.FakeStatus = &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
		{Type: runtimeapi.RuntimeReady, Status: true},
		{Type: runtimeapi.NetworkReady, Status: true},
	}}
	r := &processRuntime{
		FakeRuntimeService: fake,
		machine:            m,
		node:               node,
		cluster:            cluster,
		containers:         map[string]*container{},
	}
	return r, r.load()
}

func (r *processRuntime) container(id string) *container {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.containers[id]
}

func (r *processRuntime) setContainer(id string, c *container) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.containers[id] = c
}

// RunPodSandbox records a sandbox. No process stands for it.
func (r *processRuntime) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	id, err := r.FakeRuntimeService.RunPodSandbox(ctx, config, handler)
	return id, errors.Join(err, r.save())
}

// StopPodSandbox kills whatever still runs in the sandbox, without grace.
func (r *processRuntime) StopPodSandbox(ctx context.Context, id string) error {
	containers, err := r.ListContainers(ctx, &runtimeapi.ContainerFilter{PodSandboxId: id})
	if err != nil {
		return err
	}
	for _, c := range containers {
		if err := r.StopContainer(ctx, c.Id, 0); err != nil {
			return err
		}
	}
	return errors.Join(r.FakeRuntimeService.StopPodSandbox(ctx, id), r.save())
}

// RemovePodSandbox forgets a sandbox.
func (r *processRuntime) RemovePodSandbox(ctx context.Context, id string) error {
	return errors.Join(r.FakeRuntimeService.RemovePodSandbox(ctx, id), r.save())
}

// CreateContainer records a container that StartContainer can start.
func (r *processRuntime) CreateContainer(ctx context.Context, sandbox string, config *runtimeapi.ContainerConfig, pod *runtimeapi.PodSandboxConfig) (string, error) {
	id, err := r.FakeRuntimeService.CreateContainer(ctx, sandbox, config, pod)
	if err != nil {
		return "", err
	}
	r.setContainer(id, newContainer(r, id, config))
	return id, r.save()
}

// StartContainer runs the container's command.
func (r *processRuntime) StartContainer(ctx context.Context, id string) error {
	c := r.container(id)
	if c == nil || c.config == nil {
		return fmt.Errorf("container %s was created under another kubelet and never started", id)
	}
	if err := c.start(); err != nil {
		c.recordExit(exit{code: 127, reason: "StartError", message: err.Error()})
		return err
	}
	// The process may be gone already: its exit must not be overwritten.
	r.update(id, func(s *runtimeapi.ContainerStatus) {
		s.StartedAt = time.Now().UnixNano()
		if s.State == runtimeapi.ContainerState_CONTAINER_CREATED {
			s.State = runtimeapi.ContainerState_CONTAINER_RUNNING
		}
	})
	return r.save()
}

// StopContainer sends SIGTERM, waits up to timeout seconds, sends SIGKILL, and
// returns when the container's processes are gone.
func (r *processRuntime) StopContainer(ctx context.Context, id string, timeout int64) error {
	c := r.container(id)
	if c == nil {
		return nil
	}
	return c.stop(ctx, time.Duration(timeout)*time.Second)
}

// RemoveContainer forgets a container, killing it first if it runs.
func (r *processRuntime) RemoveContainer(ctx context.Context, id string) error {
	if err := r.StopContainer(ctx, id, 0); err != nil {
		return err
	}
	r.mu.Lock()
	delete(r.containers, id)
	r.mu.Unlock()
	return errors.Join(r.FakeRuntimeService.RemoveContainer(ctx, id), r.save())
}

// update changes a container's status as the kubelet will read it.
func (r *processRuntime) update(id string, change func(*runtimeapi.ContainerStatus)) {
	r.FakeRuntimeService.Lock()
	defer r.FakeRuntimeService.Unlock()
	if c := r.Containers[id]; c != nil {
		change(&c.ContainerStatus)
	}
}
