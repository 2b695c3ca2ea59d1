package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

func TestProcessIsToldFromALaterOneWithItsPID(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sleep", "infinity")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	reaped := make(chan error, 1)
	go func() { reaped <- cmd.Wait() }()
	p := process{PID: cmd.Process.Pid, Start: statOf(cmd.Process.Pid).start}
	file := filepath.Join(t.TempDir(), "pid")
	if err := p.record(file); err != nil {
		t.Fatal(err)
	}
	if got := readProcess(file); got != p || !got.alive() {
		t.Errorf("read %+v, alive %v; want %+v alive", got, got.alive(), p)
	}

	other := process{PID: p.PID, Start: p.Start + "0"}
	if err := other.kill(); err != nil {
		t.Error(err)
	}
	if !p.alive() {
		t.Error("an earlier process of this pid was to be killed, and the present one is dead")
	}

	if err := p.signal(syscall.SIGSTOP); err != nil {
		t.Error(err)
	}
	for end := time.Now().Add(5 * time.Second); !p.frozen(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not frozen after SIGSTOP")
		}
	}
	if err := p.kill(); err != nil {
		t.Error(err)
	}
	<-reaped
	if p.alive() || p.frozen() {
		t.Error("alive after kill")
	}
	if err := p.kill(); err != nil {
		t.Errorf("kill of a process that is gone: %v", err)
	}
}

func TestPortsOfAClusterAreDistinctAndReserved(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	seen := map[int]bool{}
	for _, name := range []string{"a", "b", "c"} {
		p, err := choosePorts(root)
		if err != nil {
			t.Fatal(err)
		}
		for _, port := range p.all() {
			if seen[*port] || *port == 0 || *port >= ephemeralFrom() {
				t.Errorf("port %d of cluster %s: taken, zero, or in the kernel's own range", *port, name)
			}
			seen[*port] = true
		}
		c := &Cluster{Dir: filepath.Join(root, name), state: state{Ports: p}}
		if err := os.Mkdir(c.Dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := c.save(); err != nil {
			t.Fatal(err)
		}
	}
}
