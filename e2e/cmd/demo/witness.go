package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/orphand/orphand/e2e/cluster"
)

// witness says what Kubernetes shows and which processes live, as it changes.
type witness struct {
	c    *cluster.Cluster
	t    *timeline
	stop context.CancelFunc
	done sync.WaitGroup
}

// forever is a deadline, so that nobody gives the watches a shorter one.
const forever = 1000 * time.Hour

func newWitness(c *cluster.Cluster, t *timeline) *witness {
	ctx, cancel := context.WithTimeout(context.Background(), forever)
	w := &witness{c: c, t: t, stop: cancel}
	w.done.Go(func() { w.pods(ctx) })
	w.done.Go(func() { w.nodes(ctx) })
	for _, k := range []struct {
		kind schema.GroupVersionResource
		name string
	}{{cluster.TrainJobs, "TrainJob"}, {cluster.JobSets, "JobSet"}, {cluster.Jobs, "Job"}} {
		w.done.Go(func() { w.objects(ctx, k.kind, k.name) })
	}
	w.done.Go(func() { w.processes(ctx) })
	return w
}

func (w *witness) close() {
	w.stop()
	w.done.Wait()
}

// shown is what was last said of each object, in words.
type shown map[string]string

// next says what is new, object by object. An object of which nothing is to be said
// has an empty text; one that is gone is missing.
func (s shown) next(w *witness, now map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(now)) {
		text := now[key]
		if before, known := s[key]; !known || text != before {
			s[key] = text
			if text != "" {
				w.t.say(kubernetes, "%s %s", key, text)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s)) {
		if _, there := now[key]; !there {
			delete(s, key)
			w.t.say(kubernetes, "%s is gone from the API", key)
		}
	}
}

// The watches below go on until they are called off; their errors say no more.

func (w *witness) pods(ctx context.Context) {
	last := shown{}
	_ = w.c.WaitPods(ctx, cluster.PodSelector{}, func(pods []*corev1.Pod) bool {
		now := map[string]string{}
		for _, p := range pods {
			now["pod "+p.Name] = podText(p)
		}
		last.next(w, now)
		return false
	})
}

func podText(p *corev1.Pod) string {
	ended := len(p.Status.ContainerStatuses) > 0
	for _, c := range p.Status.ContainerStatuses {
		ended = ended && c.State.Terminated != nil
	}
	switch over := p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded; {
	case over && ended:
		return fmt.Sprintf("is %s: its kubelet reports that the process ended with exit code %d",
			p.Status.Phase, p.Status.ContainerStatuses[0].State.Terminated.ExitCode)
	case over:
		return fmt.Sprintf("is %s, but no kubelet has reported that its process ended", p.Status.Phase)
	case p.DeletionTimestamp != nil:
		return "is Terminating: it was asked to end"
	case p.Status.Phase == corev1.PodRunning:
		return "is Running on " + p.Spec.NodeName
	}
	return ""
}

func (w *witness) nodes(ctx context.Context) {
	last := shown{}
	_ = w.c.WaitObjects(ctx, cluster.Nodes, "", func(list []*unstructured.Unstructured) bool {
		now := map[string]string{}
		for _, u := range list {
			n := &corev1.Node{}
			if runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, n) == nil {
				now[n.Name] = nodeText(n)
			}
		}
		if len(last) == 0 { // at first all are Ready, and that is no news
			maps.Copy(last, now)
		}
		last.next(w, now)
		return false
	})
}

func nodeText(n *corev1.Node) string {
	text := "is Ready"
	for _, c := range n.Status.Conditions {
		switch {
		case c.Type != corev1.NodeReady:
		case c.Status == corev1.ConditionUnknown:
			text = "is NotReady: its kubelet is not heard any more"
		case c.Status == corev1.ConditionFalse:
			text = "is NotReady: its kubelet says so"
		}
	}
	for _, taint := range n.Spec.Taints {
		if taint.Key == corev1.TaintNodeOutOfService {
			text += ", and is tainted out-of-service"
		}
	}
	return text
}

func (w *witness) objects(ctx context.Context, kind schema.GroupVersionResource, name string) {
	last := shown{}
	_ = w.c.WaitObjects(ctx, kind, "", func(list []*unstructured.Unstructured) bool {
		now := map[string]string{}
		for _, o := range list {
			now[name+" "+o.GetName()] = ""
		}
		last.next(w, now)
		return false
	})
}

// processes looks every 50 ms: processes send no events to strangers.
func (w *witness) processes(ctx context.Context) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	last := alive(nil)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if now := alive(w.c.Truth()); now != last {
				last = now
				w.t.say(truth, "%s", now)
			}
		}
	}
}

// alive says which containers' processes live.
func alive(t cluster.Truth) string {
	var lines []string
	for _, p := range t {
		if p.Leader {
			lines = append(lines, fmt.Sprintf("%s on %s (pid %d)", p.Pod.Name, p.Machine, p.PID))
		}
	}
	switch len(lines) {
	case 0:
		return "no process lives"
	case 1:
		return "1 process lives: " + lines[0]
	}
	return fmt.Sprintf("%d processes live: %s", len(lines), strings.Join(lines, ", "))
}
