package node

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Labels that the kubelet puts on every container.
const (
	labelNamespace = "io.kubernetes.pod.namespace"
	labelPod       = "io.kubernetes.pod.name"
	labelUID       = "io.kubernetes.pod.uid"
	labelContainer = "io.kubernetes.container.name"
)

// container is one process of the host and its descendants, told by their mark.
// There is no isolation, and the image is ignored; what is real is how it ends:
// SIGTERM goes to the first process, SIGKILL to all, and when the first process
// has exited the others are killed before the exit is reported, as the kernel
// does with a PID namespace.
type container struct {
	runtime *processRuntime
	id      string
	config  *runtimeapi.ContainerConfig // nil when adopted from an earlier kubelet

	// started is closed once pidfd is set, and exited once the exit is on record.
	started chan struct{}
	exited  chan struct{}
	mu      sync.Mutex
	pidfd   int // of the first process; -1 before its start and after its end
	// signalled is the last signal sent; it stands in for the exit status of an
	// adopted process, which only its parent could have read.
	signalled atomic.Int32
}

// exit is how a container ended, in a runtime's words.
type exit struct {
	code    int32
	reason  string
	message string
}

func newContainer(r *processRuntime, id string, config *runtimeapi.ContainerConfig) *container {
	return &container{runtime: r, id: id, config: config, started: make(chan struct{}), exited: make(chan struct{}), pidfd: -1}
}

func (c *container) mark() Mark {
	labels := c.config.GetLabels()
	return Mark{
		Cluster:   c.runtime.cluster,
		Machine:   c.runtime.machine.name,
		Node:      c.runtime.node,
		Namespace: labels[labelNamespace],
		Pod:       labels[labelPod],
		UID:       labels[labelUID],
		Container: labels[labelContainer],
		Attempt:   c.config.GetMetadata().GetAttempt(),
		ID:        c.id,
	}
}

// start runs the command in a session of its own, with only the container's
// environment, and its output in the machine's log directory.
func (c *container) start() error {
	argv := append(append([]string{}, c.config.GetCommand()...), c.config.GetArgs()...)
	if len(argv) == 0 {
		return fmt.Errorf("container %s has no command: there are no images here, so the pod must name one", c.id)
	}
	m := c.mark()
	log, err := c.openLog(m)
	if err != nil {
		return err
	}
	defer log.Close()

	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = "/"
	if c.config.GetWorkingDir() != "" {
		cmd.Dir = c.config.GetWorkingDir()
	}
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), m.env()}
	for _, e := range c.config.GetEnvs() {
		cmd.Env = append(cmd.Env, e.Key+"="+string(e.Value))
	}
	cmd.Stdout, cmd.Stderr = log, log
	// The session leader is the container's first process: adoption looks for it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, PidFD: &c.pidfd}
	if err := cmd.Start(); err != nil {
		return err
	}
	close(c.started)
	go func() {
		_ = cmd.Wait() // the state below says it all
		c.recordExit(exitOf(cmd.ProcessState))
	}()
	return nil
}

func (c *container) openLog(m Mark) (*os.File, error) {
	dir := filepath.Join(c.runtime.machine.dir, "containers")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%s_%s_%s_%d.log", m.Namespace, m.Pod, m.Container, m.Attempt)
	return os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
}

func exitOf(s *os.ProcessState) exit {
	code := int32(s.ExitCode())
	if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		code = 128 + int32(ws.Signal())
	}
	return exitWith(code)
}

func exitWith(code int32) exit {
	if code == 0 {
		return exit{reason: "Completed"}
	}
	return exit{code: code, reason: "Error"}
}

// adopt takes over a process that an earlier kubelet started, by a pidfd, and
// reports its end.
func (c *container) adopt(pidfd int) {
	c.pidfd = pidfd
	close(c.started)
	go func() {
		for {
			_, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, -1)
			if err == nil {
				break
			}
			if err != unix.EINTR {
				time.Sleep(100 * time.Millisecond)
			}
		}
		code := int32(255)
		if s := c.signalled.Load(); s != 0 {
			code = 128 + s
		}
		c.recordExit(exitWith(code))
	}()
}

func (c *container) stop(ctx context.Context, grace time.Duration) error {
	select {
	case <-c.started:
	default:
		return nil // created, never started
	}
	if grace > 0 {
		c.signal(unix.SIGTERM)
		select {
		case <-c.exited:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(grace):
		}
	}
	c.signal(unix.SIGKILL)
	select {
	case <-c.exited:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// signal reaches the first process, and never a later one with its pid.
func (c *container) signal(s unix.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pidfd < 0 {
		return
	}
	c.signalled.Store(int32(s))
	_ = unix.PidfdSendSignal(c.pidfd, s, nil, 0) // an error means that it is gone
}

// recordExit kills the container's remaining processes, waits for their end, and
// only then lets the kubelet see the container as exited.
func (c *container) recordExit(e exit) {
	r := c.runtime
	c.mu.Lock()
	if c.pidfd >= 0 {
		_ = unix.Close(c.pidfd)
		c.pidfd = -1
	}
	c.mu.Unlock()
	for {
		left := marked(r.cluster, r.machine.name, c.id)
		if len(left) == 0 {
			break
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(5 * time.Millisecond)
	}
	r.update(c.id, func(s *runtimeapi.ContainerStatus) {
		s.State = runtimeapi.ContainerState_CONTAINER_EXITED
		s.FinishedAt = time.Now().UnixNano()
		s.ExitCode, s.Reason, s.Message = e.code, e.reason, e.message
	})
	if err := r.save(); err != nil {
		fmt.Fprintln(os.Stderr, "runtime state not saved:", err)
	}
	close(c.exited)
}
