package binaries

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// module is a Go module whose main packages are the test bed's programs.
type module struct {
	name     string
	dir      string
	packages []string
	ldflags  string
	// manifests are files of required modules to keep beside the programs:
	// directory among the outputs -> module and glob within it.
	manifests map[string]source
}

type source struct{ module, glob string }

const (
	kubernetesVersion = "v1.37.2"

	// Without inlining and debug information everything compiles a third faster,
	// and nothing here is measured. One set for all modules: another set would
	// build the standard library again.
	gcflags = "all=-l -dwarf=false"
)

func kubeModule(dir string) module {
	var ldflags strings.Builder
	ldflags.WriteString("-s -w")
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		fmt.Fprintf(&ldflags, " -X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=1 -X %[1]s.gitMinor=37 -X %[1]s.gitCommit=modules", pkg, kubernetesVersion)
	}
	return module{name: "kube", dir: dir, packages: []string{"."}, ldflags: ldflags.String()}
}

func kubeflowModule(dir string) module {
	const trainer, jobset = "github.com/kubeflow/trainer/v2", "sigs.k8s.io/jobset"
	return module{
		name:     "kubeflow",
		dir:      dir,
		packages: []string{trainer + "/cmd/trainer-controller-manager", jobset},
		ldflags:  "-s -w",
		manifests: map[string]source{
			"trainer/crds":              {trainer, "manifests/base/crds/trainer.kubeflow.org_*.yaml"},
			"trainer/rbac":              {trainer, "manifests/base/rbac/role.yaml"},
			"trainer/webhooks":          {trainer, "manifests/base/webhook/manifests.yaml"},
			"jobset-manifests/crds":     {jobset, "config/components/crd/bases/jobset.x-k8s.io_*.yaml"},
			"jobset-manifests/rbac":     {jobset, "config/components/rbac/role.yaml"},
			"jobset-manifests/webhooks": {jobset, "config/components/webhook/manifests.yaml"},
		},
	}
}

// key is a hash of everything that the outputs depend on.
func (m module) key(ctx context.Context) (string, error) {
	version, err := m.run(ctx, "env", "GOVERSION")
	if err != nil {
		return "", fmt.Errorf("the test bed is built with the go command: %w", err)
	}
	h := sha256.New()
	fmt.Fprintln(h, strings.TrimSpace(version), runtime.GOOS, runtime.GOARCH, gcflags, m.ldflags, m.packages)
	for _, dir := range slices.Sorted(maps.Keys(m.manifests)) {
		fmt.Fprintln(h, dir, m.manifests[dir])
	}
	err = filepath.WalkDir(m.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name := e.Name()
		if name != "go.mod" && name != "go.sum" && (filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go")) {
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(m.dir, path)
		fmt.Fprintf(h, "%s %d\n%s", filepath.ToSlash(rel), len(b), b)
		return err
	})
	return hex.EncodeToString(h.Sum(nil))[:16], err
}

// command is the go command in the module, with the one set of flags.
func (m module) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = m.dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod -buildvcs=false", "CGO_ENABLED=0", "PWD="+m.dir)
	return cmd
}

// run returns what the go command prints.
func (m module) run(ctx context.Context, args ...string) (string, error) {
	cmd := m.command(ctx, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return string(out), nil
}

// copyManifests keeps the modules' own manifests beside the programs, so that a
// later start needs neither the module cache nor the go command for them.
func (m module) copyManifests(ctx context.Context, out string) error {
	for dir, from := range m.manifests {
		root, err := m.run(ctx, "list", "-m", "-f", "{{.Dir}}", from.module)
		if err != nil {
			return err
		}
		files, err := filepath.Glob(filepath.Join(strings.TrimSpace(root), from.glob))
		if err != nil {
			return err
		}
		if len(files) == 0 {
			return fmt.Errorf("module %s has no %s", from.module, from.glob)
		}
		for _, file := range files {
			if err := copyFile(filepath.Join(out, dir, filepath.Base(file)), file); err != nil {
				return err
			}
		}
	}
	return nil
}

func copyFile(to, from string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	r, err := os.Open(from)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err := io.Copy(w, r); err != nil {
		_ = w.Close()
		return err
	}
	return w.Close()
}
