package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/orphand/orphand/e2e/cluster"
)

// kubelets post for every pod what its kubelet would: it runs, it ended, it may
// go. Nothing runs: what orphand proves here is worth nothing, what it spends is.
type kubelets struct {
	client kubernetes.Interface
	work   chan *corev1.Pod

	mu      sync.Mutex
	running map[types.UID]bool
	changed chan struct{}
}

func newKubelets(c *cluster.Cluster) (*kubelets, error) {
	config := rest.CopyConfig(c.Config())
	config.QPS, config.Burst = 1000, 2000
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &kubelets{client: client, work: make(chan *corev1.Pod, 100_000), running: map[types.UID]bool{}, changed: make(chan struct{}, 1)}, nil
}

// nodes makes n nodes that hold the given number of pods together.
func (k *kubelets) nodes(ctx context.Context, n, pods int) error {
	room := corev1.ResourceList{
		corev1.ResourcePods:   *resource.NewQuantity(int64(pods/n+10), resource.DecimalSI),
		corev1.ResourceCPU:    resource.MustParse("1000"),
		corev1.ResourceMemory: resource.MustParse("1000Gi"),
	}
	for i := range n {
		now := metav1.Now()
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("gpu-%d", i)}, Status: corev1.NodeStatus{
			Capacity: room, Allocatable: room,
			NodeInfo: corev1.NodeSystemInfo{SystemUUID: fmt.Sprintf("machine-%d", i), MachineID: fmt.Sprintf("machine-%d", i), BootID: fmt.Sprintf("boot-%d", i)},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "MadeUp",
				LastHeartbeatTime: now, LastTransitionTime: now}},
		}}
		if _, err := k.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("node %s: %w", node.Name, err)
		}
	}
	return nil
}

// posters is how many statuses are posted at once.
const posters = 16

func (k *kubelets) run(ctx context.Context) {
	factory := informers.NewSharedInformerFactory(k.client, 0)
	_, _ = factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { k.work <- o.(*corev1.Pod) },
		UpdateFunc: func(_, o any) { k.work <- o.(*corev1.Pod) },
	})
	factory.Start(ctx.Done())
	for range posters {
		go func() {
			for {
				select {
				case <-ctx.Done():
					return
				case pod := <-k.work:
					if err := k.post(ctx, pod); err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
						fmt.Println("made-up kubelet:", pod.Name, err)
					}
				}
			}
		}()
	}
}

// post does for a pod in this state what its kubelet would do next.
func (k *kubelets) post(ctx context.Context, pod *corev1.Pod) error {
	pods := k.client.CoreV1().Pods(pod.Namespace)
	switch {
	case pod.Spec.NodeName == "":
		return nil
	case pod.DeletionTimestamp != nil && (pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded):
		return pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0)), Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	case pod.DeletionTimestamp != nil:
		return k.patch(ctx, pod, corev1.PodFailed, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: 143, Reason: "Error", StartedAt: pod.CreationTimestamp, FinishedAt: metav1.Now()}})
	case pod.Status.Phase == corev1.PodPending:
		if err := k.patch(ctx, pod, corev1.PodRunning, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}); err != nil {
			return err
		}
		k.mu.Lock()
		k.running[pod.UID] = true
		k.mu.Unlock()
		select {
		case k.changed <- struct{}{}:
		default:
		}
	}
	return nil
}

func (k *kubelets) patch(ctx context.Context, pod *corev1.Pod, phase corev1.PodPhase, state corev1.ContainerState) error {
	name := pod.Spec.Containers[0].Name
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status": map[string]any{"phase": phase, "startTime": pod.CreationTimestamp, "containerStatuses": []corev1.ContainerStatus{{
			Name: name, State: state, ContainerID: "made-up://" + string(pod.UID), Image: pod.Spec.Containers[0].Image}}},
	})
	if err != nil {
		return err
	}
	_, err = k.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{FieldManager: "kubelet"}, "status")
	return err
}

// wait waits until n pods run.
func (k *kubelets) wait(ctx context.Context, n int) error {
	last := time.Now()
	for {
		k.mu.Lock()
		have := len(k.running)
		k.mu.Unlock()
		if have >= n {
			return nil
		}
		if time.Since(last) > 10*time.Second {
			last = time.Now()
			fmt.Printf("          %d of %d pods run\n", have, n)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d pods run: %w", have, n, ctx.Err())
		case <-k.changed:
		}
	}
}
