package app

import (
	"fmt"
	"io"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/orphand/orphand/pkg/facts"
	"github.com/orphand/orphand/pkg/reap"
)

// outputVersion is the apiVersion of what commands print as JSON or YAML.
const outputVersion = "orphand.dev/v1alpha1"

// RemainList is what `orphand find -o json` prints.
type RemainList struct {
	metav1.TypeMeta `json:",inline"`
	Items           []RemainItem `json:"items"`
}

// RemainItem is one remain as it is printed.
type RemainItem struct {
	// Reference is <namespace>/<kind>/<name> in lower case, UID the object's own.
	Reference string `json:"reference"`
	UID       string `json:"uid"`
	// Job and JobUID name the TrainJob incarnation.
	Job    string `json:"job"`
	JobUID string `json:"jobUID"`
	// Foreign says that the TrainJob is gone; NeverOwned that it never owned this runtime copy.
	Foreign    bool `json:"foreign"`
	NeverOwned bool `json:"neverOwned,omitempty"`
	// Verdict, Reason, Evidence and Node are a pod's.
	Verdict     string   `json:"verdict,omitempty"`
	Reason      string   `json:"reason,omitempty"`
	Evidence    string   `json:"evidence,omitempty"`
	Node        string   `json:"node,omitempty"`
	Created     string   `json:"created,omitempty"`
	Terminating bool     `json:"terminating,omitempty"`
	HeldBy      []string `json:"heldBy,omitempty"`
	Keep        bool     `json:"keep,omitempty"`
	// Removed says that the object is gone: what is said is of the processes.
	Removed bool `json:"removed,omitempty"`
	// Status and Detail are what a stop made of it.
	Status string `json:"status,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// DeepCopyObject satisfies runtime.Object.
func (l *RemainList) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = append([]RemainItem(nil), l.Items...)
	return &c
}

// GetObjectKind satisfies runtime.Object.
func (l *RemainList) GetObjectKind() schema.ObjectKind { return &l.TypeMeta }

func itemOf(r reap.Remain) RemainItem {
	it := RemainItem{
		Reference: r.Ref.String(), UID: string(r.UID), Job: r.Job.Namespace + "/" + r.Job.Name, JobUID: string(r.Job.UID),
		Foreign: r.Foreign, NeverOwned: r.NeverOwned, Verdict: string(r.Verdict), Reason: string(r.Reason), Evidence: r.Evidence, Node: r.Node,
		Terminating: r.Terminating(), HeldBy: r.HeldBy, Keep: r.Keep, Removed: r.Removed,
	}
	if r.Created.Known() {
		it.Created = r.Created.Time().Format(time.RFC3339)
	}
	return it
}

// remainPrinter is the printer of an output format.
func remainPrinter(output string) (func(io.Writer, []reap.Remain, time.Time) error, error) {
	switch output {
	case "", "wide":
		return func(w io.Writer, list []reap.Remain, now time.Time) error {
			return printTable(w, remainTable(list, output == "wide", now), output == "wide")
		}, nil
	case "name":
		return func(w io.Writer, list []reap.Remain, _ time.Time) error {
			for _, r := range list {
				if _, err := fmt.Fprintln(w, r.Ref); err != nil {
					return err
				}
			}
			return nil
		}, nil
	case "json", "yaml":
		return func(w io.Writer, list []reap.Remain, _ time.Time) error {
			o := &RemainList{TypeMeta: metav1.TypeMeta{APIVersion: outputVersion, Kind: "RemainList"}, Items: []RemainItem{}}
			for _, r := range list {
				o.Items = append(o.Items, itemOf(r))
			}
			return printObject(w, output, o)
		}, nil
	}
	return nil, usage("--output %q: use wide, json, yaml or name", output)
}

func printObject(w io.Writer, output string, o runtime.Object) error {
	if output == "yaml" {
		return (&printers.YAMLPrinter{}).PrintObj(o, w)
	}
	return (&printers.JSONPrinter{}).PrintObj(o, w)
}

func printTable(w io.Writer, table *metav1.Table, wide bool) error {
	return printers.NewTablePrinter(printers.PrintOptions{Wide: wide}).PrintObj(table, w)
}

// column is a column of a table; priority 1 is shown by -o wide only.
func column(name string, priority int32) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "string", Priority: priority}
}

func remainTable(list []reap.Remain, _ bool, now time.Time) *metav1.Table {
	t := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{
		column("Reference", 0), column("Foreign", 0), column("Verdict", 0), column("Reason", 0), column("State", 0), column("Age", 0),
		column("UID", 1), column("Job-UID", 1), column("Node", 1), column("Evidence", 1)}}
	for _, r := range list {
		t.Rows = append(t.Rows, metav1.TableRow{Cells: []any{
			r.Ref.String(), yesNo(r.Foreign), dash(string(r.Verdict)), dash(string(r.Reason)), stateOf(r), age(r.Created, now),
			string(r.UID), string(r.Job.UID), dash(r.Node), dash(r.Evidence)}})
	}
	return t
}

func stateOf(r reap.Remain) string {
	switch {
	case r.Removed:
		return "Removed"
	case r.Terminating() && len(r.HeldBy) > 0:
		return "Terminating (held by " + strings.Join(r.HeldBy, ", ") + ")"
	case r.Terminating():
		return "Terminating"
	case r.NeverOwned:
		return "NeverOwned"
	case r.Keep:
		return "Kept"
	}
	return "Present"
}

func age(created facts.Instant, now time.Time) string {
	if !created.Known() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(created.Time()))
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
