package sim

import (
	"slices"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	"k8s.io/apimachinery/pkg/types"
)

// truth is what is really running: every live process, by the pod that it belongs to.
type truth struct {
	w     *World
	pods  map[types.UID]*life
	order []*life
}

// life is what really became of one pod.
type life struct {
	uid types.UID
	// job is the TrainJob from which it came, jobSet the JobSet, and root the TrainJob's name.
	job, jobSet types.UID
	root        string
	// machine and boot are where its last process began.
	machine *machine
	boot    string
	// hosts are all boots of machines in which it had a process.
	hosts map[host]bool
	// processes are those that run now.
	processes []process
	// starts counts the processes that ever ran; lastEnd is when the last of them ended.
	starts  int
	lastEnd time.Duration
}

// host is one boot of a machine.
type host struct {
	machine facts.Machine
	boot    string
}

type process struct {
	machine *machine
	boot    string
	*container
	since time.Duration
}

func newTruth(w *World) *truth { return &truth{w: w, pods: map[types.UID]*life{}} }

func (t *truth) life(uid types.UID) *life {
	l := t.pods[uid]
	if l == nil {
		l = &life{uid: uid, hosts: map[host]bool{}}
		t.pods[uid] = l
		t.order = append(t.order, l)
	}
	return l
}

func (t *truth) started(m *machine, uid types.UID, c *container) {
	l := t.life(uid)
	l.starts++
	l.machine, l.boot = m, m.boot
	l.hosts[host{m.identity, m.boot}] = true
	l.processes = append(l.processes, process{m, m.boot, c, t.w.at()})
	t.w.judge.started(l, m, c)
}

func (t *truth) ended(m *machine, uid types.UID, c *container) {
	l := t.life(uid)
	l.lastEnd = t.w.at()
	t.w.film.say("process %s of %s ends on %s %s (%s)", c.name, uid, m.id, m.boot, c.id)
	l.processes = slices.DeleteFunc(l.processes, func(p process) bool { return p.container == c })
}

// mayStart is a machine whose kubelet has the pod among those that it is to run: it may start it at any moment.
func (t *truth) mayStart(uid types.UID) *machine {
	for _, m := range t.w.machines {
		if k := m.kubelet; k != nil && m.powered {
			if w := k.workers[uid]; w != nil && !w.terminating && !w.refused && !w.done() {
				return m
			}
		}
	}
	return nil
}
