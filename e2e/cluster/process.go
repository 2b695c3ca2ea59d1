package cluster

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process names one process, and never a later one that was given its pid.
type process struct {
	PID int `json:"pid"`
	// Start is the process's start in clock ticks since the boot of the host.
	Start string `json:"start"`
}

// self is the running process.
func self() process { return process{PID: os.Getpid(), Start: statOf(os.Getpid()).start} }

// stat is what the kernel says about a process; the zero value for one that is
// gone, and for a zombie, which runs nothing any more.
type stat struct {
	state byte // R, S, D, T, ...
	start string
}

func statOf(pid int) stat {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}
	}
	// The second field, the command, may itself hold blanks and parentheses.
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 20 || f[0] == "Z" || f[0] == "X" {
		return stat{}
	}
	return stat{state: f[0][0], start: f[19]}
}

func (p process) alive() bool { return p.PID > 0 && p.Start != "" && statOf(p.PID).start == p.Start }

// frozen tells a process stopped by SIGSTOP.
func (p process) frozen() bool {
	s := statOf(p.PID)
	return s.start == p.Start && s.state == 'T'
}

// open returns a descriptor of the process, or false if it is gone.
func (p process) open() (fd int, ok bool) {
	if p.PID <= 0 {
		return -1, false
	}
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return -1, false
	}
	// Only now is it sure that the pid is not another's: see the order.
	if !p.alive() {
		_ = unix.Close(fd)
		return -1, false
	}
	return fd, true
}

// signal sends s. A process that is gone is not an error.
func (p process) signal(s syscall.Signal) error {
	fd, ok := p.open()
	if !ok {
		return nil
	}
	defer unix.Close(fd)
	if err := unix.PidfdSendSignal(fd, s, nil, 0); err != nil && err != unix.ESRCH {
		return fmt.Errorf("signal %v to process %d: %w", s, p.PID, err)
	}
	return nil
}

// kill ends the process and waits until it is gone.
func (p process) kill() error {
	fd, ok := p.open()
	if !ok {
		return nil
	}
	defer unix.Close(fd)
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && err != unix.ESRCH {
		return fmt.Errorf("kill process %d: %w", p.PID, err)
	}
	const limit = 10 * time.Second
	for end := time.Now().Add(limit); ; {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(time.Until(end).Milliseconds()))
		switch {
		case err == nil && n > 0:
			return nil
		case err != nil && err != unix.EINTR:
			return fmt.Errorf("wait for the end of process %d: %w", p.PID, err)
		case time.Now().After(end):
			return fmt.Errorf("process %d is still there %s after SIGKILL", p.PID, limit)
		}
	}
}

// spawn starts a program in a session of its own, so that an interrupt of the
// test run does not reach it, with its output appended to a log file.
func spawn(log, dir string, env, argv []string) (process, error) {
	f, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return process{}, err
	}
	defer f.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = f, f
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return process{}, err
	}
	p := process{PID: cmd.Process.Pid, Start: statOf(cmd.Process.Pid).start}
	go func() { _ = cmd.Wait() }() // reap it; its log says the rest
	return p, nil
}

// readProcess reads a file that record wrote; the zero process if there is none.
func readProcess(file string) process {
	b, err := os.ReadFile(file)
	if err != nil {
		return process{}
	}
	var p process
	if _, err := fmt.Sscan(string(b), &p.PID, &p.Start); err != nil {
		return process{}
	}
	return p
}

func (p process) record(file string) error {
	return writeFile(file, fmt.Appendf(nil, "%d %s\n", p.PID, p.Start), 0o644)
}

// writeFile replaces a file whole: readers in other processes never see half.
func writeFile(file string, b []byte, mode os.FileMode) error {
	scratch := fmt.Sprintf("%s.%d", file, os.Getpid())
	if err := os.WriteFile(scratch, b, mode); err != nil {
		return err
	}
	return os.Rename(scratch, file)
}
