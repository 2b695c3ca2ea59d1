package retention

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/orphand/orphand/pkg/facts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// Annotations by which an object's owner takes part in the decision.
const (
	AnnotationTTL       = "orphand.dev/ttl-after-finished"
	AnnotationKeep      = facts.AnnotationKeep
	AnnotationKeepUntil = "orphand.dev/keep-until"
	// AnnotationInclude lets the policy apply to an object that a GitOps tool tracks.
	AnnotationInclude = "orphand.dev/include"
)

// labelRemoteCopy is on the copy of a job that MultiKueue made in the cluster that runs it.
const labelRemoteCopy = "kueue.x-k8s.io/multikueue-origin"

// Object is what a decision reads of an object of any kind.
type Object struct {
	facts.Object
	// Of is the object's kind.
	Of *Kind
	// PodsNamed is the value of its kind's PodLabel that its pods have; empty for none.
	PodsNamed string
	// Labels are all of its labels; Annotations those of orphand.
	Labels      labels.Set
	Annotations map[string]string

	// Finished says that it is over, Outcome how, and FinishedAt since when by its own word; unknown where it has none.
	Finished   bool
	Outcome    Outcome
	FinishedAt facts.Instant
	Suspended  bool
	// TTL is the kind's own TTL for this outcome; nil for none, or none that is valid.
	TTL *time.Duration
	// Elsewhere is the controller of another cluster that works on it; empty when it runs here.
	Elsewhere string
	// RemoteCopy says that another cluster holds the original.
	RemoteCopy bool
	// GitOps is the mark of the tool that keeps it in place; empty for none.
	GitOps string
	// Unreadable is why it could not be read, and then nothing of the above is known.
	Unreadable string
	// expressions are the results of the policy's expressions, by their text.
	expressions map[string]bool
}

var _ facts.Record = (*Object)(nil)

// Read makes the record of an object. It never fails: an object that cannot be read is a record that says so.
func (p *Policy) Read(kind *Kind, u *unstructured.Unstructured) *Object {
	o := &Object{Object: *facts.FromMeta(kind.Group, kind.Kind, u), Of: kind, Labels: u.GetLabels()}
	if o.PodsNamed = o.Name; kind.podsNamed != nil {
		o.PodsNamed = kind.podsNamed(u.Object)
	}
	o.GitOps = p.gitOps(u)
	_, o.RemoteCopy = o.Labels[labelRemoteCopy]
	for name, value := range u.GetAnnotations() {
		if strings.HasPrefix(name, "orphand.dev/") {
			if o.Annotations == nil {
				o.Annotations = map[string]string{}
			}
			o.Annotations[name] = value
		}
	}
	l, err := kind.read(u.Object)
	if err != nil {
		o.Unreadable = err.Error()
		return o
	}
	o.Finished, o.Outcome, o.Suspended = l.finished, l.outcome, l.suspended
	if l.finished {
		o.FinishedAt = l.at
	}
	if l.managedBy != "" && !slices.Contains(kind.managers, l.managedBy) {
		o.Elsewhere = l.managedBy
	}
	const longest = int64(1<<63-1) / int64(time.Second)
	if l.ttl != nil && *l.ttl >= 0 && *l.ttl <= longest {
		ttl := time.Duration(*l.ttl) * time.Second
		o.TTL = &ttl
	}
	for text, program := range p.expressions {
		matches, err := program.truth(u.Object)
		if err != nil {
			o.Unreadable = fmt.Sprintf("expression %q: %v", text, err)
			return o
		}
		if o.expressions == nil {
			o.expressions = map[string]bool{}
		}
		o.expressions[text] = matches
	}
	return o
}

// gitOpsMarks are the labels and annotations by which GitOps tools track what they keep in place.
func gitOpsMarks() []string {
	return []string{
		"argocd.argoproj.io/tracking-id", "argocd.argoproj.io/instance", // Argo CD
		"kustomize.toolkit.fluxcd.io/name", "helm.toolkit.fluxcd.io/name", // Flux
		"objectset.rio.cattle.io/id", "objectset.rio.cattle.io/hash", // Fleet
		"configmanagement.gke.io/managed", "configsync.gke.io/resource-id", // Config Sync
		"kapp.k14s.io/app", // kapp
	}
}

func (p *Policy) gitOps(u *unstructured.Unstructured) string {
	labels, annotations := u.GetLabels(), u.GetAnnotations()
	for _, mark := range p.marks {
		if _, ok := labels[mark]; ok {
			return mark
		}
		if _, ok := annotations[mark]; ok {
			return mark
		}
	}
	return ""
}

// Reading identifies how the policy reads objects: two policies of the same Reading make the same records.
func (p *Policy) Reading() string {
	parts := []string{strings.Join(p.marks, ",")}
	parts = append(parts, slices.Sorted(maps.Keys(p.expressions))...)
	for _, k := range p.document.Kinds {
		parts = append(parts, fmt.Sprintf("%+v", k))
	}
	return strings.Join(parts, "\n")
}

func parseInstant(text string) facts.Instant {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || t.Year() < 1970 || t.Year() > 2261 {
		return 0 // also what an Instant cannot hold
	}
	return facts.At(t)
}
