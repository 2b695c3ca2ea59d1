package sim

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/orphand/orphand/internal/stage"
	"github.com/orphand/orphand/pkg/facts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/yaml"
)

// Replay writes the history as a replay file: what the API server held, how late the watches were, what failed, and that
// orphand must not say what it said. How long live reads and the queue took is not in it, and a person's word neither.
func (r Result) Replay(out io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n# What is true is told by the comments. Found with: go run ./internal/sim/cmd/sim -from %d -timeline -shrink\n",
		r.Plan, r.Plan.Seed)
	begun := false
	doc := func(text string) {
		if text == "" {
			return
		}
		if begun {
			b.WriteString("---\n")
		}
		begun = true
		b.WriteString(text)
	}
	doc(r.settings())
	known := map[types.UID]bool{}
	var notes strings.Builder
	for i := range r.film.frames {
		f := &r.film.frames[i]
		at := "at: " + f.at.String() + "\n"
		switch {
		case f.comment != "":
			if !strings.HasPrefix(f.comment, "SAYS") {
				fmt.Fprintf(&notes, "# %s: %s\n", f.at, f.comment)
			}
			continue
		case f.daemon != "":
			doc(notes.String() + at + "daemon: " + f.daemon + "\n")
		case f.fault != nil:
			doc(notes.String() + at + faultText(f.fault))
		default:
			text, err := objectText(f, known)
			if err != nil {
				return err
			}
			doc(notes.String() + at + text)
		}
		notes.Reset()
	}
	b.WriteString(notes.String())
	if len(r.Violations) > 0 {
		v := r.Violations[0]
		doc("# " + v.What + "\nat: " + v.At.String() + "\n" + r.claim(v))
	}
	_, err := out.Write(b.Bytes())
	return err
}

// claim is what must not be said or done.
func (r Result) claim(v Violation) string {
	switch {
	case v.ofDeleting():
		return r.claimOfDeleting()
	case v.Invariant == GoneIsGone:
		return fmt.Sprintf("expectNot:\n  pods: {%s: Gone}\n", v.Pod)
	case v.Invariant == SettledIsOver:
		return fmt.Sprintf("expectNot:\n  jobs: {\"%s/%s/%s\": Settled}\n---\nat: %s\nexpectNot:\n  jobs: {\"%s/%s/%s\": Cleared}\n", namespace, v.Name, v.Job, v.At, namespace, v.Name, v.Job)
	case v.Invariant == NothingUnsaid:
		return "expect:\n  findingsInclude: [NodeReturned]\n"
	}
	return fmt.Sprintf("expectNot:\n  jobs: {\"%s/%s/%s\": Unproven}\n", namespace, v.Name, v.Job)
}

func faultText(f *stage.Fault) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	add("verb: %s", f.Verb)
	if f.Kind != "" {
		add("kind: %s", f.Kind)
	}
	add("times: %d", f.Times)
	if f.Times != 0 && f.RetryAfter > 0 {
		add("retryAfter: %s", f.RetryAfter)
	}
	switch {
	case f.Times == 0:
	case f.Timeout:
		add("timeout: true")
	default:
		add("code: %d", f.Code)
	}
	return "api: {" + strings.Join(parts, ", ") + "}\n"
}

func objectText(f *frame, known map[types.UID]bool) (string, error) {
	o := f.object.DeepCopyObject().(stage.Object)
	switch o := o.(type) {
	case *corev1.Pod:
		o.APIVersion, o.Kind = "v1", facts.KindPod
	case *corev1.Node:
		o.APIVersion, o.Kind = "v1", facts.KindNode
	case *jobset.JobSet:
		o.APIVersion, o.Kind = jobset.GroupVersion.String(), facts.KindJobSet
	}
	o.SetResourceVersion("")
	kind := "MODIFIED"
	switch {
	case f.removed:
		kind = "DELETED"
	case !known[o.GetUID()]:
		kind = "ADDED"
	}
	known[o.GetUID()] = true
	text, err := yaml.Marshal(o)
	if err != nil {
		return "", fmt.Errorf("writing %s: %w", o.GetName(), err)
	}
	s := "type: " + kind + "\n"
	if f.watch > 0 {
		s += "watch: " + f.watch.String() + "\n"
	}
	return s + "object:\n  " + strings.ReplaceAll(strings.TrimRight(string(text), "\n"), "\n", "\n  ") + "\n", nil
}
