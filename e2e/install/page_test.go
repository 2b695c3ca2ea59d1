package install_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/orphand/orphand/e2e/cluster"
	"github.com/orphand/orphand/e2e/daemon"
	"github.com/orphand/orphand/pkg/access"
)

// image has the image's program compiled, with all that it depends on: without cgo
// and with trimmed paths nothing of that is in the cache of the other tests.
var image = flag.Bool("image", false, "compile the program as the Dockerfile does, which takes minutes")

// commands are the lines of the page's shell blocks, in order.
func commands(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile(mustExist(t, page))
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		for line := range strings.Lines(block[1]) {
			list = append(list, strings.TrimSpace(line))
		}
	}
	return list
}

// The test bed has no images, no kubelet server and no registry: these cannot be
// run as they stand, each with what is run in its place.
func instead(command string) (reason string, does func(*testing.T)) {
	switch {
	case strings.HasPrefix(command, "docker build"):
		return "no container builder: the build step of the Dockerfile is run on what it copies", buildAsTheDockerfile
	case strings.HasPrefix(command, "docker push"):
		return "no registry", func(*testing.T) {}
	case strings.HasPrefix(command, "kubectl -n orphand logs"):
		return "no kubelet server: the command is only read", func(t *testing.T) { kubectl(t, "logs", "--help") }
	}
	return "", nil
}

func TestEveryCommandOfTheInstallPageWorks(t *testing.T) {
	t.Cleanup(func() {
		_, _ = command(context.Background(), shared.Kubectl(), "delete", "--ignore-not-found", "--wait", "--timeout=90s", "-k", "manifests/overlays/enforce")
	})
	record := ""
	for _, line := range commands(t, "docs/install.md") {
		if reason, does := instead(line); does != nil {
			t.Logf("%s\n  (%s)", line, reason)
			does(t)
			continue
		}
		if strings.Contains(line, "get orphans") {
			record = deleteJob(t)
		}
		line = strings.ReplaceAll(line, "llm-7-0f3c9a1e", record)
		if strings.HasPrefix(line, "kubectl apply") {
			// What runAsProcesses changed would be in conflict with what is applied.
			kubectl(t, "-n", access.Namespace, "delete", "deployment", "orphand", "--ignore-not-found", "--wait")
		}
		begun := time.Now()
		output := shell(t, line)
		t.Logf("%s   # %v\n%s", line, time.Since(begun).Round(100*time.Millisecond), firstLines(output, 6))
		if strings.HasPrefix(line, "kubectl apply") {
			runAsProcesses(t)
		}
	}
}

// shell runs a command line as a reader would, with the test bed's kubectl and the
// orphand under test.
func shell(t *testing.T, line string) string {
	t.Helper()
	bin := t.TempDir()
	for name, path := range map[string]string{"kubectl": shared.Kubectl(), "orphand": program} {
		if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
	cmd.Dir, _ = filepath.Abs(root)
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "KUBECONFIG="+shared.AdminKubeconfig())
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, output)
	}
	return string(output)
}

// runAsProcesses lets the Deployment's containers be processes of this machine, as
// all containers of the test bed are: the same program with the same arguments and
// the same account, by a kubeconfig in the place of a mounted token.
func runAsProcesses(t *testing.T) {
	t.Helper()
	file := filepath.Join(shared.Dir, "kubeconfigs", "in-cluster.kubeconfig")
	text, err := os.ReadFile(directly(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	patch := fmt.Sprintf(`[
{"op":"add","path":"/spec/template/spec/containers/0/command","value":[%q]},
{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"--http-address=127.0.0.1:0"},
{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"--leader-elect-lease-namespace=%s"},
{"op":"add","path":"/spec/template/spec/containers/0/env/-","value":{"name":"KUBECONFIG","value":%q}}]`, program, access.Namespace, file)
	_, err = shared.Client().AppsV1().Deployments(access.Namespace).Patch(t.Context(), "orphand", types.JSONPatchType, []byte(patch), metav1.PatchOptions{FieldManager: "kubectl"})
	if err != nil {
		t.Fatal(err)
	}
	kubectl(t, "-n", access.Namespace, "rollout", "status", "deployment/orphand", "--timeout=2m")
	knowsItsLimit(t)
}

// knowsItsLimit fails unless Go was told 95 % of the container's memory limit, as
// the kubelet made it of the manifest's values.
func knowsItsLimit(t *testing.T) {
	t.Helper()
	deployment, err := shared.Client().AppsV1().Deployments(access.Namespace).Get(t.Context(), "orphand", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	limit := float64(deployment.Spec.Template.Spec.Containers[0].Resources.Limits.Memory().Value())
	// A pod is ready here before its process runs.
	var running cluster.Truth
	for deadline := time.Now().Add(30 * time.Second); len(running) < 2; {
		if time.Now().After(deadline) {
			t.Fatalf("%d processes of the Deployment, want 2", len(running))
		}
		running = shared.Truth().Where(func(p cluster.Process) bool { return p.Pod.Namespace == access.Namespace && p.Leader })
	}
	told := 0
	for _, p := range running {
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.PID))
		if err != nil {
			continue // one of the rollout before has just ended
		}
		value := ""
		for _, v := range strings.Split(string(environ), "\x00") {
			if text, ok := strings.CutPrefix(v, "GOMEMLIMIT="); ok {
				value = text
			}
		}
		bytes, err := strconv.ParseFloat(value, 64)
		if share := bytes / limit; err != nil || share < 0.94 || share > 0.96 {
			t.Errorf("GOMEMLIMIT is %q, of a limit of %.0f", value, limit)
		}
		told++
	}
	if told == 0 {
		t.Error("no process could be asked")
	}
}

// deleteJob runs a TrainJob and deletes it, and returns the name of its record.
func deleteJob(t *testing.T) string {
	t.Helper()
	job, err := shared.SubmitTrainJob(t.Context(), cluster.TrainJobSpec{Name: "llm-7"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := shared.WaitRunning(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	if err := shared.DeleteTrainJob(t.Context(), job, metav1.DeletePropagationBackground); err != nil {
		t.Fatal(err)
	}
	name := daemon.RecordName(job)
	if _, err := shared.WaitObject(t.Context(), daemon.Orphans, job.Namespace, name, isThere); err != nil {
		t.Fatal(err)
	}
	return name
}

// buildAsTheDockerfile copies what the Dockerfile copies, and runs its build step
// there, or at least resolves what it needs: what is left out must not be needed.
func buildAsTheDockerfile(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(mustExist(t, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	built := false
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		switch {
		case len(words) > 2 && words[0] == "COPY" && !strings.HasPrefix(words[1], "--"):
			for _, from := range words[1 : len(words)-1] {
				if output, err := exec.Command("cp", "-r", mustExist(t, from), filepath.Join(dir, strings.TrimPrefix(words[len(words)-1], "./"))).CombinedOutput(); err != nil {
					t.Fatalf("%s%v %s", line, err, output)
				}
			}
		case strings.Contains(line, "go build"):
			step := strings.TrimPrefix(strings.TrimSpace(line), "RUN ")
			if !*image {
				// That nothing is missing, in a second.
				step = "CGO_ENABLED=0 GOWORK=off go list -deps -f '{{.ImportPath}}' ./cmd/orphand"
			}
			step = strings.Replace(step, "-o /orphand", "-o "+filepath.Join(dir, "image"), 1)
			cmd := exec.CommandContext(t.Context(), "sh", "-c", step)
			cmd.Dir = dir
			if output, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", step, err, output)
			}
			built = true
		}
	}
	if !built {
		t.Fatal("the Dockerfile builds nothing")
	}
	if !*image {
		return
	}
	if output, err := exec.Command(filepath.Join(dir, "image"), "version").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
	// Static: an image from scratch has no loader.
	if output, _ := exec.Command("ldd", filepath.Join(dir, "image")).CombinedOutput(); !strings.Contains(string(output), "not a dynamic") {
		t.Errorf("not static: %s", output)
	}
}

func firstLines(text string, n int) string {
	lines := strings.SplitAfterN(text, "\n", n+1)
	if len(lines) > n {
		lines = append(lines[:n], "...\n")
	}
	return strings.Join(lines, "")
}
