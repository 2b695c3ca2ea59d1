package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/orphand/orphand/pkg/signals"
)

// Line is one change: a verdict, a state, the start or end of a finding, a DELETE, or a step of the daemon's own life.
type Line struct {
	// At is the offset from the history's start.
	At time.Duration
	// Event names the kind of change, as the daemon's log does.
	Event string
	// Job and UID name the job; What the thing in it that changed, From and To what it was and is, Detail why.
	Job, UID, What, From, To, Detail string
	// Fields are those of the daemon's log line.
	Fields []signals.Attr
}

const (
	eventDelete = "Delete"
	eventDaemon = "Daemon"
)

// lineOf makes a line of what the daemon tells; false for what is no change of a job or a kind.
func lineOf(e signals.Event, at time.Duration) (Line, bool) {
	l := Line{At: at, Event: e.Name(), UID: e.UID, From: e.From, Fields: e.Fields()}
	if e.Job != "" {
		l.Job = e.Namespace + "/" + e.Job
	}
	switch {
	case e.Finding != "":
		l.What, l.To, l.Detail = "finding", string(e.Finding)+" "+string(e.Phase), e.Text()
		l.Fields = append(l.Fields, signals.Attr{Key: "message", Value: e.Text()})
	case e.Code == signals.PodVerdictChanged:
		l.What, l.To = "pod/"+e.Pod, e.Verdict+"/"+e.Reason
		switch {
		case e.Evidence != "":
			l.Detail = e.Evidence
		case e.Node != "":
			l.Detail = "on node " + e.Node
		}
	case e.Code == signals.JobStateChanged:
		l.What, l.To = "job", e.State
	case e.Code == signals.KindStateChanged:
		l.To, l.Detail = e.State, e.Reason
		for _, a := range e.Attrs {
			if a.Key == "kind" {
				l.What = fmt.Sprintf("kind/%v", a.Value)
			}
		}
	default:
		return Line{}, false
	}
	return l, true
}

// WriteTable writes lines as an aligned table. It writes nothing where there are none.
func WriteTable(w io.Writer, lines []Line) error {
	if len(lines) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 8, 3, ' ', tabwriter.StripEscape)
	fmt.Fprintln(table, "OFFSET\tJOB\tUID\tWHAT\tFROM\tTO\tDETAIL")
	for _, l := range lines {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", Offset(l.At), dash(l.Job), dash(l.UID), dash(l.What), dash(l.From), dash(l.To), dash(l.Detail))
	}
	return table.Flush()
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// WriteJSON writes one JSON object per line, with the fields of the daemon's log after file, offset and time.
func WriteJSON(w io.Writer, file string, start time.Time, lines []Line) error {
	var b bytes.Buffer
	for _, l := range lines {
		b.Reset()
		fields := append([]signals.Attr{
			{Key: "file", Value: file},
			{Key: "offset", Value: Offset(l.At)},
			{Key: "time", Value: start.Add(l.At).Format(time.RFC3339Nano)},
			{Key: signals.FieldEvent, Value: l.Event},
		}, l.Fields...)
		for i, f := range fields {
			key, err := json.Marshal(f.Key)
			if err != nil {
				return err
			}
			value, err := json.Marshal(f.Value)
			if err != nil {
				return err
			}
			b.WriteByte("{,"[min(i, 1)])
			b.Write(key)
			b.WriteByte(':')
			b.Write(value)
		}
		b.WriteString("}\n")
		if _, err := w.Write(b.Bytes()); err != nil {
			return err
		}
	}
	return nil
}
