package informers

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

const (
	heapPods   = 20_000
	heapLimit  = 1000 // bytes per pod
	heapFactor = 10   // an untransformed informer takes at least this many times as much
)

// BenchmarkHeapPerPod holds 20,000 pods of some 10 KB each in the store of an untransformed client-go informer and in
// orphand's, in one run, and reports the live heap that each pod takes.
func BenchmarkHeapPerPod(b *testing.B) {
	for b.Loop() {
		plain := heapOf(b, nil)
		ours := heapOf(b, podTransform)
		b.ReportMetric(float64(plain)/heapPods, "untransformed-B/pod")
		b.ReportMetric(float64(ours)/heapPods, "B/pod")
		b.ReportMetric(float64(plain)/float64(ours), "times-smaller")
		if ours/heapPods >= heapLimit || plain < ours*heapFactor {
			b.Fatalf("%d bytes a pod, an untransformed informer %d: want under %d and at most a tenth", ours/heapPods, plain/heapPods, heapLimit)
		}
	}
}

// heapOf is the live heap that an informer's store of all pods takes.
func heapOf(b *testing.B, transform cache.TransformFunc) uint64 {
	lw := &cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (kruntime.Object, error) {
			list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: make([]corev1.Pod, heapPods)}
			for i := range list.Items {
				realistic(i).DeepCopyInto(&list.Items[i])
			}
			return list, nil
		},
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil },
	}
	informer := cache.NewSharedIndexInformerWithOptions(cache.ToListWatcherWithWatchListSemantics(lw, listOnly{}), &corev1.Pod{},
		cache.SharedIndexInformerOptions{Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}})
	if transform != nil {
		if err := informer.SetTransform(transform); err != nil {
			b.Fatal(err)
		}
	}
	before := liveHeap()
	ctx, stop := context.WithCancel(b.Context())
	done := make(chan struct{})
	go func() { informer.RunWithContext(ctx); close(done) }()
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		b.Fatal("not synced")
	}
	if n := len(informer.GetStore().ListKeys()); n != heapPods {
		b.Fatalf("%d pods in the store", n)
	}
	after := liveHeap()
	stop()
	<-done
	runtime.KeepAlive(informer)
	return after - before
}

type listOnly struct{}

func (listOnly) IsWatchListSemanticsUnSupported() bool { return true }

func liveHeap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// realistic is a pod of a training job as an API server returns it: about 10 KB of JSON.
func realistic(i int) *corev1.Pod {
	job, node := i/16, i%500
	now := metav1.NewTime(time.Unix(1_780_000_000, 0))
	labels := map[string]string{
		facts.LabelJobSetName: fmt.Sprintf("llama-pretrain-%d", job), facts.LabelJobSetUID: fmt.Sprintf("0b9a7c3e-0000-4000-8000-%012d", job),
		facts.LabelReplicatedJob: "node", facts.LabelRestartAttempt: "0", facts.LabelJobIndex: "0", facts.LabelCompletionIndex: fmt.Sprint(i % 16),
		facts.LabelControllerUID: fmt.Sprintf("1c9a7c3e-0000-4000-8000-%012d", job), facts.LabelJobName: fmt.Sprintf("llama-pretrain-%d-node-0", job),
		"jobset.sigs.k8s.io/job-key": strings.Repeat("f", 40), "app.kubernetes.io/part-of": "research", "team": "foundation-models",
	}
	var env []corev1.EnvVar
	for v := range 40 {
		env = append(env, corev1.EnvVar{Name: fmt.Sprintf("NCCL_SETTING_NUMBER_%02d", v), Value: fmt.Sprintf("value-%d-%s", i, strings.Repeat("x", 24))})
	}
	fields := []byte(`{"f:metadata":{` + strings.Repeat(`"f:labels":{".":{},"f:jobset.sigs.k8s.io/jobset-name":{}},`, 25) + `"f:x":{}}}`)
	container := func(name string) corev1.Container {
		return corev1.Container{Name: name, Image: "registry.example/research/trainer@sha256:" + strings.Repeat("a", 64), Env: env,
			Command:      []string{"torchrun", "--nnodes=16", "--nproc-per-node=8", "/workspace/train.py", "--config", fmt.Sprintf("/configs/run-%d.yaml", i)},
			Resources:    corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8"), "memory": resource.MustParse("1800Gi")}},
			VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}, {Name: "shm", MountPath: "/dev/shm"}, {Name: "checkpoints", MountPath: "/checkpoints"}}}
	}
	status := func(name string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, Ready: true, Image: "registry.example/research/trainer", ImageID: "sha256:" + strings.Repeat("b", 64),
			ContainerID: fmt.Sprintf("containerd://%064d", i), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("team-%d", job%20), Name: fmt.Sprintf("llama-pretrain-%d-node-0-%d-x7k2p", job, i%16),
			UID: types.UID(fmt.Sprintf("2d9a7c3e-0000-4000-8000-%012d", i)), ResourceVersion: fmt.Sprint(100000 + i), CreationTimestamp: now, Labels: labels,
			Annotations:     labels,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: labels[facts.LabelJobName], UID: types.UID(labels[facts.LabelControllerUID]), Controller: new(true)}},
			Finalizers:      []string{"batch.kubernetes.io/job-tracking"},
			ManagedFields: []metav1.ManagedFieldsEntry{
				{Manager: "kube-controller-manager", Operation: "Update", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(fields)), Time: &now},
				{Manager: "kubelet", Operation: "Update", Subresource: "status", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(fields)), Time: &now}}},
		Spec: corev1.PodSpec{NodeName: fmt.Sprintf("gpu-node-%03d", node), InitContainers: []corev1.Container{container("fetch")}, Containers: []corev1.Container{container("node")},
			Volumes: []corev1.Volume{{Name: "data"}, {Name: "shm"}, {Name: "checkpoints"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &now, PodIP: "10.0.0.1", HostIP: "10.1.0.1",
			Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: now}, {Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now},
				{Type: corev1.PodInitialized, Status: corev1.ConditionTrue, LastTransitionTime: now}, {Type: corev1.ContainersReady, Status: corev1.ConditionTrue, LastTransitionTime: now}},
			InitContainerStatuses: []corev1.ContainerStatus{status("fetch")}, ContainerStatuses: []corev1.ContainerStatus{status("node")}},
	}
}
