package sim

import (
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// runtime is a machine's container runtime: the containers, and the processes in them.
type runtime struct {
	m       *machine
	serial  int
	pods    map[types.UID]*sandbox
	order   []types.UID
	waiting []func() // what would have happened while the machine was frozen
}

// sandbox is the containers of one pod, by name, each with its runs in order.
type sandbox struct {
	pod   types.UID
	runs  map[string][]*container
	names []string
	// attempt counts the sandboxes that the runtime remembers of the pod.
	attempt int
}

// container is one run of a container: one process, for all that matters here.
type container struct {
	id, name string
	boot     string
	running  bool
	started  metav1.Time
	finished metav1.Time
	exit     int32
	reason   string
	// mortal is what the process does when it is told to end.
	manners manners
}

// manners is how a process behaves.
type manners struct {
	// lasts is how long it runs by itself, and exit is how it ends then.
	lasts time.Duration
	exit  int32
	// obeys says that it ends on SIGTERM, after a while.
	obeys bool
	after time.Duration
	// stuck is until when, from its start, not even SIGKILL ends it (it hangs in the kernel); zero for never stuck.
	stuck time.Duration
}

func newRuntime(m *machine) *runtime { return &runtime{m: m, pods: map[types.UID]*sandbox{}} }

func (r *runtime) sandbox(pod types.UID) *sandbox {
	s := r.pods[pod]
	if s == nil {
		s = &sandbox{pod: pod, runs: map[string][]*container{}}
		r.pods[pod] = s
		r.order = append(r.order, pod)
	}
	return s
}

// run starts a container of a pod: from here on a process runs.
func (r *runtime) run(pod types.UID, name string, how manners) *container {
	r.serial++
	s := r.sandbox(pod)
	if s.attempt == 0 {
		s.attempt = 1
	}
	c := &container{id: "containerd://" + r.m.id + "-" + strconv.Itoa(r.serial), name: name, boot: r.m.boot, running: true, started: r.m.now(), manners: how}
	if _, known := s.runs[name]; !known {
		s.names = append(s.names, name)
	}
	s.runs[name] = append(s.runs[name], c)
	r.m.w.truth.started(r.m, pod, c)
	r.later(how.lasts, func() { r.exited(pod, c, how.exit, reasonOf(how.exit)) })
	return c
}

func reasonOf(exit int32) string {
	if exit == 0 {
		return "Completed"
	}
	return "Error"
}

// later does something on the machine unless it was booted meanwhile. While it is frozen, it waits.
func (r *runtime) later(d time.Duration, do func()) {
	boot := r.m.boot
	r.m.w.after(d, func() {
		switch {
		case !r.m.powered || r.m.boot != boot:
		case r.m.frozen:
			r.waiting = append(r.waiting, do)
		default:
			do()
		}
	})
}

func (r *runtime) resume() {
	list := r.waiting
	r.waiting = nil
	for _, do := range list {
		r.later(0, do)
	}
}

// exited: a process has ended.
func (r *runtime) exited(pod types.UID, c *container, exit int32, reason string) {
	if !c.running {
		return
	}
	c.running, c.exit, c.reason, c.finished = false, exit, reason, r.m.now()
	r.m.w.truth.ended(r.m, pod, c)
	if k := r.m.kubelet; k != nil {
		k.noticed(pod)
	}
}

// stop sends SIGTERM, and SIGKILL after the grace.
func (r *runtime) stop(pod types.UID, c *container, grace time.Duration) {
	if !c.running {
		return
	}
	if c.manners.obeys && c.manners.after < grace {
		r.later(c.manners.after, func() { r.exited(pod, c, 143, "Error") })
		return
	}
	r.later(grace, func() { r.kill(pod, c) })
}

// kill is SIGKILL, again and again until the process is out of the kernel.
func (r *runtime) kill(pod types.UID, c *container) {
	if !c.running {
		return
	}
	if left := c.started.Add(c.manners.stuck).Sub(r.m.now().Time); c.manners.stuck > 0 && left > 0 {
		r.later(left, func() { r.exited(pod, c, 137, "Error") })
		return
	}
	r.exited(pod, c, 137, "Error")
}

// die: the kernel is gone, and every process with it. forgets: the runtime will not remember its containers.
func (r *runtime) die(forgets bool) {
	r.waiting = nil
	for _, uid := range r.order {
		s := r.pods[uid]
		for _, name := range s.names {
			for _, c := range s.runs[name] {
				if c.running {
					// 255 is what containerd says of a task that it finds dead when it starts.
					c.running, c.exit, c.reason, c.finished = false, 255, "Unknown", r.m.now()
					r.m.w.truth.ended(r.m, uid, c)
				}
			}
		}
	}
	if forgets {
		r.pods, r.order = map[types.UID]*sandbox{}, nil
	}
}

// running lists the running containers of a pod.
func (r *runtime) running(pod types.UID) []*container {
	s := r.pods[pod]
	if s == nil {
		return nil
	}
	var list []*container
	for _, name := range s.names {
		for _, c := range s.runs[name] {
			if c.running {
				list = append(list, c)
			}
		}
	}
	return list
}

// newest is the newest run of a container, nil when the runtime knows none.
func (s *sandbox) newest(name string) *container {
	if s == nil || len(s.runs[name]) == 0 {
		return nil
	}
	runs := s.runs[name]
	return runs[len(runs)-1]
}

// forget drops what the runtime knows of a pod without processes.
func (r *runtime) forget(pod types.UID) {
	delete(r.pods, pod)
	r.order = slices.DeleteFunc(r.order, func(u types.UID) bool { return u == pod })
}
