package daemon

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/orphand/orphand/pkg/signals"
)

// Event is one line that orphand wrote.
type Event struct {
	// Index is the line's place in all that was said, restarts included, from 0.
	Index int
	// Run counts the starts of the process, from 1.
	Run int
	// Read is when the line was read.
	Read time.Time
	// Line is the line as it was written.
	Line string

	// The rest is empty for a line that is not JSON, as of a wrong flag.
	At       time.Time    `json:"ts"`
	Level    string       `json:"level"`
	Message  string       `json:"msg"`
	Code     signals.Code `json:"event"`
	Finding  string       `json:"finding"`
	Phase    string       `json:"phase"`
	Job      string       `json:"job"`
	JobUID   types.UID    `json:"uid"`
	Pod      string       `json:"pod"`
	PodUID   types.UID    `json:"podUID"`
	Node     string       `json:"node"`
	From     string       `json:"from"`
	Verdict  string       `json:"verdict"`
	Reason   string       `json:"reason"`
	Evidence string       `json:"evidence"`
	State    string       `json:"state"`
	Kind     string       `json:"kind"`
	Cure     string       `json:"cure"`
	Address  string       `json:"address"`
	Count    int          `json:"count"`
	Records  int          `json:"records"`
}

func parse(line string) Event {
	e := Event{Read: time.Now(), Line: line}
	if json.Unmarshal([]byte(line), &e) != nil {
		return Event{Read: e.Read, Line: line}
	}
	return e
}

// over tells the states in which a job is safe to run again.
func over(state string) bool { return state == "Settled" || state == "Cleared" }

// String says the line in short.
func (e Event) String() string {
	switch {
	case e.Verdict != "":
		return strings.TrimSpace(fmt.Sprintf("%s is %s/%s %s", e.Pod, e.Verdict, e.Reason, e.Evidence))
	case e.Code == signals.JobStateChanged:
		return fmt.Sprintf("%s is %s", e.Job, e.State)
	case e.Finding != "":
		return fmt.Sprintf("%s of %s %s: %s", e.Finding, e.Job, e.Phase, e.Message)
	case e.Kind != "":
		return strings.TrimSpace(fmt.Sprintf("%s is %s %s", e.Kind, e.State, e.Reason))
	case e.Code != "":
		return strings.TrimSpace(fmt.Sprintf("%s: %s %s", e.Code, e.Message, e.Reason))
	}
	return e.Line
}
