package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/orphand/orphand/e2e/cluster"
	"github.com/orphand/orphand/pkg/signals"
)

// Options say how to run orphand. The zero value is how it is meant to be run.
type Options struct {
	// Program is the path of orphand; empty builds it.
	Program string
	// User is whom orphand acts as; empty is User, who is given Permissions. A user
	// of another name must have been given its own: see [cluster.Cluster.UserWithRules].
	User string
	// Kubeconfig is the path of a kubeconfig; empty means the user's.
	Kubeconfig string
	// Flags are added to the command line.
	Flags []string
}

// Daemon is orphand, over as many runs as it is given.
type Daemon struct {
	c       *cluster.Cluster
	command []string
	said    *record
	judge   *Judge

	mu      sync.Mutex
	runs    int
	process *exec.Cmd
	gone    chan struct{} // closed when the process has ended and its log is read
	address string
}

// Start starts orphand on a cluster and returns when its caches are filled.
func Start(ctx context.Context, c *cluster.Cluster, o Options) (*Daemon, error) {
	d, err := Launch(ctx, c, o)
	if err != nil {
		return nil, err
	}
	if _, err := d.Await(ctx, Code(signals.CachesSynced)); err != nil {
		return nil, errors.Join(err, d.Stop())
	}
	return d, nil
}

// Launch starts orphand on a cluster and returns when it serves HTTP, however
// little it can see.
func Launch(ctx context.Context, c *cluster.Cluster, o Options) (*Daemon, error) {
	program, kubeconfig := o.Program, o.Kubeconfig
	if program == "" {
		dir := filepath.Join(c.Dir, "bin")
		var err error
		if program, err = Build(ctx, dir); err != nil {
			return nil, err
		}
	}
	if kubeconfig == "" {
		var err error
		if o.User == "" {
			kubeconfig, err = c.UserWithRules(ctx, User, Permissions())
		} else {
			kubeconfig, err = c.Kubeconfig(o.User)
		}
		if err != nil {
			return nil, err
		}
	}
	d := &Daemon{c: c, said: newRecord(),
		command: append([]string{program, "run", "--kubeconfig", kubeconfig, "--http-address", "127.0.0.1:0"}, o.Flags...)}
	d.judge = newJudge(c)
	d.said.listen(d.judge.hear)
	if err := d.begin(ctx); err != nil {
		d.judge.close()
		return nil, err
	}
	return d, nil
}

// begin starts the process and waits until it serves HTTP.
func (d *Daemon) begin(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd := exec.Command(d.command[0], d.command[1:]...)
	cmd.Dir = d.c.Dir
	cmd.Stdout, cmd.Stderr = w, w
	cmd.Env = append(os.Environ(), d.c.Mark())
	// Should this process die, the next start of any cluster ends what it left. A
	// terminal's interrupt is for whoever runs the story, not for orphand.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	_ = w.Close()
	if err != nil {
		_ = r.Close()
		return fmt.Errorf("start orphand: %w", err)
	}
	d.runs++
	run, before := d.runs, len(d.said.all())
	gone := make(chan struct{})
	d.process, d.gone = cmd, gone
	d.said.end(nil)
	// A copy for people, beside the logs of the cluster's components.
	file, err := os.OpenFile(filepath.Join(d.c.Dir, "log", "orphand.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		_ = cmd.Process.Kill()
		return err
	}
	go func() {
		defer close(gone)
		defer r.Close()
		defer file.Close()
		d.said.read(run, io.TeeReader(r, file))
		err := cmd.Wait()
		d.said.end(fmt.Errorf("orphand has ended (%v)", cmp.Or(err, errors.New("exit status 0"))))
	}()
	listening := Code(signals.Listening)
	listening.after = before - 1
	e, err := d.said.await(ctx, listening)
	if err != nil {
		_ = cmd.Process.Kill()
		<-gone
		return err
	}
	d.address = e.Address
	return nil
}

// Kill ends the process by SIGKILL: it can say and write nothing more.
func (d *Daemon) Kill() error { return d.signal(syscall.SIGKILL) }

func (d *Daemon) signal(s syscall.Signal) error {
	d.mu.Lock()
	cmd, gone := d.process, d.gone
	d.mu.Unlock()
	if cmd == nil {
		return nil
	}
	if err := cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	const limit = 20 * time.Second
	select {
	case <-gone:
		return nil
	case <-time.After(limit):
		_ = cmd.Process.Kill()
		<-gone
		return fmt.Errorf("orphand did not end within %s after signal %v", limit, s)
	}
}

// Restart starts the process again, after Kill or Stop or its own end, and returns
// when its caches are filled. What it says is added to what it said before.
func (d *Daemon) Restart(ctx context.Context) error {
	before := len(d.said.all())
	if err := d.begin(ctx); err != nil {
		return err
	}
	synced := Code(signals.CachesSynced)
	synced.after = before - 1
	_, err := d.Await(ctx, synced)
	return err
}

// Stop asks the process to end, and waits for it.
func (d *Daemon) Stop() error {
	err := d.signal(syscall.SIGTERM)
	d.judge.close()
	return err
}

// Judge is who compares what is said with the truth.
func (d *Daemon) Judge() *Judge { return d.judge }

// PID is that of the present process.
func (d *Daemon) PID() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.process.Process.Pid
}

// Address is the host and port of its HTTP endpoint.
func (d *Daemon) Address() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.address
}

// Command is its command line.
func (d *Daemon) Command() []string { return d.command }

// Detach starts it once more, after Stop, to go on when this process has ended; it
// ends with the cluster. It returns the path of its log.
func (d *Daemon) Detach() (log string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	log = filepath.Join(d.c.Dir, "log", "orphand.log")
	file, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return "", err
	}
	defer file.Close()
	cmd := exec.Command(d.command[0], d.command[1:]...)
	cmd.Dir = d.c.Dir
	cmd.Stdout, cmd.Stderr = file, file
	cmd.Env = append(os.Environ(), d.c.Mark())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("start orphand: %w", err)
	}
	return log, cmd.Process.Release()
}
