package node

import (
	"bytes"
	"encoding/json"
	"os"
	"strconv"
	"strings"
)

// MarkVariable is the environment variable that holds a container's [Mark].
const MarkVariable = "ORPHAND_E2E_CONTAINER"

// Mark says which container a process belongs to. Every container process is
// started with its mark, as JSON, in the environment, and every child inherits
// it: what runs is read from /proc and never from anyone's books, so the list
// is right even when the kubelet that started the process is frozen or dead.
type Mark struct {
	Cluster   string `json:"cluster"`
	Machine   string `json:"machine"`
	Node      string `json:"node"`
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	UID       string `json:"uid"`
	Container string `json:"container"`
	Attempt   uint32 `json:"attempt"`
	ID        string `json:"id"`
}

func (m Mark) env() string {
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // strings and a number
	}
	return MarkVariable + "=" + string(b)
}

// marked returns the live processes of one container. A zombie has no
// environment any more and is not among them.
func marked(cluster, machine, id string) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if m, ok := markOf(pid); ok && m.Cluster == cluster && m.Machine == machine && m.ID == id {
			pids = append(pids, pid)
		}
	}
	return pids
}

func markOf(pid int) (Mark, bool) {
	environ, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return Mark{}, false
	}
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		name, value, _ := strings.Cut(string(entry), "=")
		if name != MarkVariable {
			continue
		}
		var m Mark
		return m, json.Unmarshal([]byte(value), &m) == nil
	}
	return Mark{}, false
}
