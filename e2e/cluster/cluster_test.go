package cluster_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/orphand/orphand/e2e/cluster"
)

// crashVariable makes the test binary start a cluster and hang, to be killed.
const crashVariable = "ORPHAND_E2E_TEST_CRASH"

func bare() cluster.Options {
	return cluster.Options{Nodes: 1, Without: []cluster.Component{cluster.JobSet, cluster.Trainer}, Progress: progress}
}

// startAndHang is the other process of TestNextStartSweepsUp.
func startAndHang(ctx context.Context) {
	c, err := cluster.Start(ctx, bare())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "left-behind"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none", Command: []string{"sleep", "infinity"}}}},
	}
	if _, err := c.Client().CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if _, err := c.WaitTruth(ctx, func(t cluster.Truth) bool { return len(t) == 1 }); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(c.Name())
	select {}
}

// A second cluster runs beside the shared one, is started after the crash of a
// third one's owner, and gets Trainer late.
func TestNextStartSweepsUp(t *testing.T) {
	t.Parallel()
	crash := exec.Command(os.Args[0])
	crash.Env = append(os.Environ(), crashVariable+"=1")
	crash.Stderr = os.Stderr
	stdout, err := crash.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := crash.Start(); err != nil {
		t.Fatal(err)
	}
	line, readErr := bufio.NewReader(stdout).ReadString('\n')
	name := strings.TrimSpace(line)
	var left *cluster.Cluster
	if readErr == nil {
		left, err = cluster.Open(name)
	}
	_ = crash.Process.Kill()
	_ = crash.Wait()
	if readErr != nil || err != nil {
		t.Fatalf("the process to be killed did not start a cluster: %v, %v", readErr, err)
	}
	pids := []int{left.Truth()[0].PID, left.PID(cluster.Etcd), left.PID(cluster.APIServer), left.PID(cluster.ControllerManager), left.PID(cluster.Scheduler)}
	if slices.Contains(pids, 0) {
		t.Fatalf("what a dead owner left should still run: processes %v", pids)
	}

	c, err := cluster.Start(t.Context(), bare())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		must(t, c.Stop())
		if _, err := os.Stat(c.Dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("directory of a stopped cluster: %v", err)
		}
	})
	if _, err := os.Stat(left.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("directory %s of a dead owner: %v, want it removed", left.Dir, err)
	}
	for _, pid := range pids {
		if _, err := os.Stat(filepath.Join("/proc", fmt.Sprint(pid))); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("process %d of a dead owner's cluster still runs", pid)
		}
	}
	if !shared.Running(cluster.APIServer) {
		t.Fatal("a live owner's cluster was swept")
	}
	t.Run("late Trainer", func(t *testing.T) { testLateTrainer(t, c) })
	t.Run("API server away", func(t *testing.T) { testAPIServerAway(t, c) })
}

func testLateTrainer(t *testing.T, c *cluster.Cluster) {
	if _, err := c.SubmitTrainJob(t.Context(), cluster.TrainJobSpec{Name: "early"}); err == nil {
		t.Error("a TrainJob was accepted before Trainer was there")
	}
	for _, install := range []func(context.Context) error{c.InstallJobSet, c.InstallTrainer} {
		if err := install(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	job, err := c.SubmitTrainJob(t.Context(), cluster.TrainJobSpec{Name: "late"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.WaitRunning(t.Context(), job)
	must(t, err)
}

// A wait outlives an API server that is away, and so does a process.
func testAPIServerAway(t *testing.T, c *cluster.Cluster) {
	pods := c.Client().CoreV1().Pods("default")
	pod, err := c.WaitPod(t.Context(), cluster.PodSelector{Namespace: "default"}, func(p *corev1.Pod) bool { return c.Truth().Alive(p.UID) })
	if err != nil {
		t.Fatal(err)
	}
	waited, watching := make(chan error, 1), make(chan struct{})
	go func() {
		begin := sync.OnceFunc(func() { close(watching) })
		_, err := c.WaitPod(t.Context(), cluster.PodSelector{Namespace: "default", Name: pod.Name}, func(p *corev1.Pod) bool {
			begin()
			return p.Annotations["touched"] != ""
		})
		waited <- err
	}()
	<-watching
	must(t, c.StopAPIServer())
	if c.Running(cluster.APIServer) {
		t.Error("the API server runs after StopAPIServer")
	}
	if _, err := pods.List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("a dead API server answered")
	}
	if !c.Truth().Alive(pod.UID) {
		t.Error("the process died with the API server")
	}
	if err := c.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	touch := []byte(`{"metadata":{"annotations":{"touched":"yes"}}}`)
	eventually(t, "touch the pod", func(ctx context.Context) error {
		_, err := pods.Patch(ctx, pod.Name, types.MergePatchType, touch, metav1.PatchOptions{})
		return err
	})
	must(t, <-waited)
}
