package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Environment variables for people.
const (
	// RootVariable moves the directory that holds the clusters' directories.
	// Without it that is orphand-e2e-UID in the temporary directory.
	RootVariable = "ORPHAND_E2E_ROOT"
	// KeepVariable, set to anything, makes Stop leave a cluster's files (logs,
	// audit log, kubeconfigs, but no process) in a directory "kept-NAME".
	KeepVariable = "ORPHAND_E2E_KEEP"
)

const (
	stateFile  = "cluster.json"
	ownerFile  = "owner.json"
	keptPrefix = "kept-"
)

// owner is who answers for a cluster.
type owner struct {
	process
	// Detached clusters were left running on purpose. They are swept only when
	// nothing of them runs any more, as after a restart of the host.
	Detached bool `json:"detached,omitempty"`
}

func rootDir() (string, error) {
	dir := os.Getenv(RootVariable)
	if dir == "" {
		dir = filepath.Join(os.TempDir(), fmt.Sprintf("orphand-e2e-%d", os.Getuid()))
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("directory for clusters: %w; set %s to another", err, RootVariable)
	}
	return dir, nil
}

// withRoot runs do while no other process creates or sweeps clusters.
func withRoot(root string, do func() error) error {
	f, err := os.OpenFile(filepath.Join(root, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if err == nil {
			return do()
		}
		if !errors.Is(err, syscall.EINTR) {
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		}
	}
}

// directories returns those of all clusters below root, kept files not counted.
func directories(root string) ([]string, error) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), keptPrefix) {
			dirs = append(dirs, filepath.Join(root, e.Name()))
		}
	}
	return dirs, nil
}

// sweep ends and removes the clusters whose owner died without stopping them.
// Call it under withRoot.
func sweep(root string, say func(string, ...any)) error {
	dirs, err := directories(root)
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range dirs {
		var o owner
		err := readJSON(filepath.Join(dir, ownerFile), &o)
		if err == nil && (o.alive() || o.Detached && len(recorded(dir)) > 0) {
			continue
		}
		say("sweeping up %s, which process %d left", dir, o.PID)
		errs = append(errs, endAll(dir), os.RemoveAll(dir))
	}
	sweepKept(root)
	return errors.Join(errs...)
}

// sweepKept removes kept files that are older than a day.
func sweepKept(root string) {
	dirs, _ := filepath.Glob(filepath.Join(root, keptPrefix+"*"))
	for _, dir := range dirs {
		if info, err := os.Stat(dir); err == nil && time.Since(info.ModTime()) > 24*time.Hour {
			_ = os.RemoveAll(dir) // tidiness only
		}
	}
}

// endAll kills every process of the cluster in dir: those on record first, then
// any that carries the cluster's mark, so that nothing slips through between a
// start and its record.
func endAll(dir string) error {
	var errs []error
	for _, p := range recorded(dir) {
		errs = append(errs, p.kill())
	}
	for _, pid := range pids() {
		p := process{PID: pid, Start: statOf(pid).start}
		if value, ok := environment(pid, clusterVariable); ok && value == dir {
			errs = append(errs, p.kill())
		}
	}
	errs = append(errs, killAll(func() Truth { return truthOf(dir) }))
	return errors.Join(errs...)
}

// recorded returns the live processes on record: kubelets, then components.
// Kubelets come first so that they report nothing of what follows.
func recorded(dir string) []process {
	kubelets, _ := filepath.Glob(filepath.Join(dir, "machines", "*", "kubelet.pid"))
	components, _ := filepath.Glob(filepath.Join(dir, "run", "*.pid"))
	var out []process
	for _, file := range append(kubelets, components...) {
		if p := readProcess(file); p.alive() {
			out = append(out, p)
		}
	}
	return out
}

func readJSON(file string, into any) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

func writeJSON(file string, from any) error {
	b, err := json.MarshalIndent(from, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(file, append(b, '\n'), 0o600)
}

// exists reports whether a file is there.
func exists(file string) bool {
	_, err := os.Stat(file)
	return !errors.Is(err, fs.ErrNotExist)
}
