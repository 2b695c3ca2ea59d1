package sim

import (
	"fmt"
	"io"
	"strings"

	"github.com/orphand/orphand/internal/stage"
	corev1 "k8s.io/api/core/v1"
)

// Timeline prints everything that happened: what was written, what was done, what ran, and what orphand said.
func (r Result) Timeline(out io.Writer) {
	for _, f := range r.film.frames {
		fmt.Fprintf(out, "%12s  %s\n", f.at, f.text())
	}
}

func (f *frame) text() string {
	switch {
	case f.comment != "":
		return "# " + f.comment
	case f.daemon != "":
		return "orphand: " + f.daemon
	case f.fault != nil:
		return fmt.Sprintf("API: %+v", *f.fault)
	}
	verb := "writes "
	if f.removed {
		verb = "removes"
	}
	return fmt.Sprintf("%s %s (seen +%s)", verb, sketch(f.object), f.watch)
}

// sketch is an object in one line.
func sketch(o stage.Object) string {
	s := fmt.Sprintf("%s %s@%s", strings.ToLower(stage.KindOf(o).Kind), o.GetName(), o.GetUID())
	if t := o.GetDeletionTimestamp(); t != nil {
		s += " deletion=" + t.UTC().Format("15:04:05")
	}
	if f := o.GetFinalizers(); len(f) > 0 {
		s += " held"
	}
	switch o := o.(type) {
	case *corev1.Pod:
		s += fmt.Sprintf(" on %q %s", o.Spec.NodeName, o.Status.Phase)
		if t := o.Status.StartTime; t != nil {
			s += " start=" + t.UTC().Format("15:04:05")
		}
		for _, list := range [][]corev1.ContainerStatus{o.Status.InitContainerStatuses, o.Status.ContainerStatuses} {
			for i := range list {
				s += " " + list[i].Name + "=" + stateText(&list[i])
			}
		}
		if owner := phaseOwner(o); owner != "" {
			s += " by " + owner
		}
	case *corev1.Node:
		s += fmt.Sprintf(" %s %s ready=%s", o.Status.NodeInfo.MachineID, o.Status.NodeInfo.BootID, readyOf(o))
		for _, t := range o.Spec.Taints {
			s += " " + strings.TrimPrefix(t.Key, "node.kubernetes.io/") + ":" + string(t.Effect)
		}
	}
	return s
}

func stateText(c *corev1.ContainerStatus) string {
	s := "waiting"
	switch {
	case c.State.Running != nil:
		s = "running"
	case c.State.Terminated != nil:
		s = "ended:" + c.State.Terminated.Reason
	}
	if c.LastTerminationState.Terminated != nil {
		s += "+last"
	}
	return s + "(" + strings.TrimPrefix(c.ContainerID, "containerd://") + ")"
}

// say notes what happened beyond the API.
func (f *film) say(format string, args ...any) {
	if f.on {
		f.comment(fmt.Sprintf(format, args...))
	}
}
