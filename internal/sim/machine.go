package sim

import (
	"fmt"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// machine is one computer: its identity is its own for ever, its boot lasts until the power goes or the kernel restarts,
// and the name that its kubelet uses is only a setting.
type machine struct {
	w        *World
	id       string
	identity facts.Machine
	// boots counts the boots; boot is the present one's ID, also of a machine that is off (the last one).
	boots    int
	boot     string
	hostname string

	powered bool
	// frozen says that the machine hangs, or is suspended: nothing on it moves, and everything may move on later.
	frozen bool
	// cut says that nothing of it reaches the API server.
	cut bool
	// runtimeDown says that the container runtime does not answer: the kubelet says NotReady, and can neither start, kill
	// nor confirm.
	runtimeDown bool
	// skew is how far the machine's clock is ahead of orphand's.
	skew time.Duration

	runtime *runtime
	kubelet *kubelet
	// forgets says that the runtime loses its records of containers at a reboot.
	forgets bool
	// healthySince is since when it has been able to hear the API and to kill, without a break; negative while it cannot.
	healthySince time.Duration
	// shows is the Node under which the API server showed the machine in its present boot last, and since when.
	shows      types.UID
	shownSince time.Duration
	// removals are the ends of Nodes that showed it.
	removals []removal
	ending   Ending
	// displaced is the Node that showed it and that another machine took over.
	displaced types.UID
}

// now is the machine's clock.
func (m *machine) now() metav1.Time { return m.w.clockOf(m.skew) }

// up says whether anything on the machine moves.
func (m *machine) up() bool { return m.powered && !m.frozen }

// online says whether the machine moves and reaches the API server.
func (m *machine) online() bool { return m.up() && !m.cut }

// healthy says whether the kubelet hears the API server and is able to kill.
func (m *machine) healthy() bool { return m.online() && m.kubelet != nil && !m.runtimeDown }

// reconsider keeps since when the machine is healthy. It is called after whatever may change that.
func (m *machine) reconsider() {
	switch {
	case !m.healthy():
		m.healthySince = -1
	case m.healthySince < 0:
		m.healthySince = m.w.at()
	}
}

// powerOff ends every process of the machine.
func (m *machine) powerOff() {
	if !m.powered {
		return
	}
	m.w.film.say("machine %s is off", m.id)
	m.powered, m.frozen = false, false
	m.kubelet = nil
	m.runtime.die(m.forgets)
	m.reconsider()
}

// powerOn boots the machine. Its kubelet comes up a while later.
func (m *machine) powerOn(after time.Duration) {
	if m.powered {
		return
	}
	m.boots++
	m.boot = fmt.Sprintf("%s-boot%d", m.id, m.boots)
	m.powered, m.frozen, m.runtimeDown = true, false, false
	m.w.film.say("machine %s boots %s", m.id, m.boot)
	boot := m.boot
	m.w.after(after, func() {
		if m.powered && m.boot == boot && m.kubelet == nil {
			m.startKubelet(false)
		}
	})
}

// reboot restarts the kernel: every process ends at once.
func (m *machine) reboot(after time.Duration) {
	m.powerOff()
	m.powerOn(after)
}

// freeze stops the machine in its tracks: a hung kernel, a suspended VM.
func (m *machine) freeze() {
	if m.powered {
		if m.kubelet != nil {
			m.kubelet.unfinished()
		}
		m.frozen = true
		m.reconsider()
	}
}

// thaw lets everything go on where it stood.
func (m *machine) thaw() {
	if !m.powered || !m.frozen {
		return
	}
	m.frozen = false
	m.runtime.resume()
	m.reconsider()
	if m.kubelet != nil {
		m.kubelet.reconnect()
	}
}

// partition cuts the machine off; its processes and its kubelet go on.
func (m *machine) partition() {
	m.cut = true
	m.mute()
	m.reconsider()
}

// mute: the runtime is down, so that the kubelet cannot kill what it refused, and it cannot say so.
func (m *machine) mute() {
	if m.cut && m.runtimeDown && m.kubelet != nil {
		m.kubelet.unfinished()
	}
}

// heal lets it reach the API server again.
func (m *machine) heal() {
	if !m.cut {
		return
	}
	m.cut = false
	m.reconsider()
	if m.kubelet != nil && m.up() {
		m.kubelet.reconnect()
	}
}

// startKubelet starts the kubelet. rejects: its admission refuses what it finds running (see kubelet.admit).
func (m *machine) startKubelet(rejects bool) {
	m.stopKubelet()
	m.w.film.say("the kubelet of %s starts as %s", m.id, m.hostname)
	m.kubelet = newKubelet(m, rejects)
	m.kubelet.start()
	m.reconsider()
}

// stopKubelet ends the kubelet; the containers run on.
func (m *machine) stopKubelet() {
	if m.kubelet != nil {
		m.kubelet.unfinished()
		m.w.film.say("the kubelet of %s ends", m.id)
	}
	m.kubelet = nil
	m.reconsider()
}
