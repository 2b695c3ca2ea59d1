package cluster

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
)

// ports are the loopback ports of a cluster. They stay the same for its life, so
// that a component which comes back is found where it was.
type ports struct {
	Etcd          int `json:"etcd"`
	EtcdPeer      int `json:"etcdPeer"`
	API           int `json:"api"`
	JobSetHook    int `json:"jobsetHook"`
	JobSetHealth  int `json:"jobsetHealth"`
	TrainerHook   int `json:"trainerHook"`
	TrainerHealth int `json:"trainerHealth"`
}

func (p *ports) all() []*int {
	return []*int{&p.Etcd, &p.EtcdPeer, &p.API, &p.JobSetHook, &p.JobSetHealth, &p.TrainerHook, &p.TrainerHealth}
}

// choosePorts picks ports that are free now and belong to no other cluster, not
// even to one whose component is down at the moment. Call it under withRoot.
//
// They lie below the range from which the kernel takes the local ports of
// outgoing connections: one of those could sit on a component's port while the
// component is down.
func choosePorts(root string) (ports, error) {
	taken := map[int]bool{}
	dirs, err := directories(root)
	if err != nil {
		return ports{}, err
	}
	for _, dir := range dirs {
		var s state
		if readJSON(filepath.Join(dir, stateFile), &s) == nil {
			for _, p := range s.Ports.all() {
				taken[*p] = true
			}
		}
	}
	const lowest = 12000
	highest := ephemeralFrom()
	if highest < lowest+1000 {
		highest = 32768
	}
	var p ports
	for _, port := range p.all() {
		for try := 0; *port == 0; try++ {
			if try == 1000 {
				return ports{}, fmt.Errorf("no free port on 127.0.0.1 between %d and %d", lowest, highest)
			}
			n := lowest + rand.IntN(highest-lowest)
			if !taken[n] && free(n) {
				*port, taken[n] = n, true
			}
		}
	}
	return p, nil
}

func free(port int) bool {
	l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// ephemeralFrom is the first port of the kernel's range for outgoing connections.
func ephemeralFrom() int {
	b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return 32768
	}
	var from int
	if _, err := fmt.Sscan(string(b), &from); err != nil {
		return 32768
	}
	return from
}
