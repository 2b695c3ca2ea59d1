package replay

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/orphand/orphand/internal/stage"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	kjson "sigs.k8s.io/json"
)

const (
	eventAdded    = "ADDED"
	eventModified = "MODIFIED"
	eventDeleted  = "DELETED"
)

// event reads a change of an object. written says that a person wrote it, whose typing errors are worth a word; what a
// newer cluster's kubectl printed may well have fields that are not known here.
func (r *reader) event(d *document, eventType, object *tree, written bool) (*Event, error) {
	if eventType == nil {
		return nil, d.malformed(d.root.line, "type is missing: expected one of %s, %s, %s", eventAdded, eventModified, eventDeleted)
	}
	kind, err := d.one(eventType, "type", eventAdded, eventModified, eventDeleted)
	if err != nil {
		return nil, err
	}
	o, unknown, err := d.object(object)
	if err != nil {
		return nil, err
	}
	if written {
		r.history.Warnings = append(r.history.Warnings, unknown...)
	}
	e := &Event{Object: o, Deleted: kind == eventDeleted}
	e.Bare = e.Deleted && object.field("spec") == nil && object.field("status") == nil
	return e, nil
}

// object reads an object, and names the fields that its type does not have.
func (d *document) object(t *tree) (stage.Object, []string, error) {
	if err := d.want(t, "object", "a Kubernetes object", mapping); err != nil {
		return nil, nil, err
	}
	for _, name := range []string{"apiVersion", "kind"} {
		if f := t.field(name); f == nil || f.shape != text || f.scalar == "" {
			return nil, nil, d.malformed(t.at(name), "object.%s is missing or no text: expected a Kubernetes object", name)
		}
	}
	gv, err := schema.ParseGroupVersion(t.field("apiVersion").scalar)
	if err != nil {
		return nil, nil, d.malformed(t.at("apiVersion"), "object.apiVersion is %s: expected group/version", t.field("apiVersion").say())
	}
	kind := stage.Kind{Group: gv.Group, Kind: t.field("kind").scalar}
	if strings.HasSuffix(kind.Kind, "List") && t.field("items") != nil {
		return nil, nil, d.malformed(t.line, "object is a %s: expected one object", kind.Kind)
	}
	metadata := t.field("metadata")
	if metadata == nil || metadata.shape != mapping {
		return nil, nil, d.malformed(t.at("metadata"), "object.metadata is missing: expected a mapping with name and uid")
	}
	var typed stage.Object
	switch kind {
	case stage.Pod:
		typed = &corev1.Pod{}
	case stage.Node:
		typed = &corev1.Node{}
	case stage.JobSet:
		typed = &jobset.JobSet{}
	}
	var unknown []string
	if typed != nil {
		if unknown, err = d.decode(t, "object", typed); err != nil {
			return nil, nil, err
		}
	} else {
		// An unstructured object would hide metadata that cannot be read.
		if unknown, err = d.decode(metadata, "object.metadata", &metav1.ObjectMeta{}); err != nil {
			return nil, nil, err
		}
		plain, _ := t.plain().(map[string]any)
		typed = &unstructured.Unstructured{Object: plain}
	}
	if typed.GetName() == "" {
		return nil, nil, d.malformed(metadata.line, "object.metadata.name is missing")
	}
	if kind != stage.Node && typed.GetNamespace() == "" {
		typed.SetNamespace(metav1.NamespaceDefault)
	}
	if _, err := stage.Record(typed); err != nil {
		return nil, nil, d.malformed(d.culprit(t, "", err), "%v", err)
	}
	return typed, unknown, nil
}

// decode fills what into points at, and names the fields that it does not have.
func (d *document) decode(t *tree, what string, into any) (unknown []string, err error) {
	data, err := json.Marshal(t.plain())
	if err != nil {
		return nil, d.malformed(t.line, "%s cannot be read: %v", what, err)
	}
	strict, err := kjson.UnmarshalStrict(data, into)
	if err != nil {
		return nil, d.malformed(d.culprit(t, "", err), "%s cannot be read: %s", what, cause(err))
	}
	for _, s := range strict {
		line := t.line
		if m := unknownField.FindStringSubmatch(s.Error()); m != nil {
			line = t.at(m[1])
		}
		unknown = append(unknown, fmt.Sprintf("%s: %s: %v", d.place(line), what, s))
	}
	return unknown, nil
}

var (
	unknownField = regexp.MustCompile(`unknown field "([^"]+)"`)
	wrongType    = regexp.MustCompile(`json: cannot unmarshal (.+) into Go struct field \w*\.?(\S+) of type (\S+)`)
	quoted       = regexp.MustCompile(`"((?:[^"\\]|\\.)*)"`)
)

// culprit finds the line of the value that an error of a decoder is about.
func (d *document) culprit(t *tree, path string, err error) int {
	if m := wrongType.FindStringSubmatch(err.Error()); m != nil {
		return t.at(m[2])
	}
	for _, m := range quoted.FindAllStringSubmatch(err.Error(), -1) {
		if line, ok := t.find(m[1]); ok && m[1] != "" {
			return line
		}
	}
	return t.at(path)
}

// cause words an error of a decoder for somebody who writes YAML.
func cause(err error) string {
	if m := wrongType.FindStringSubmatch(err.Error()); m != nil {
		expected := m[3]
		scalar := m[1] == "bool" || strings.HasPrefix(m[1], "number")
		switch {
		case strings.Contains(expected, ".") && scalar: // a string type of its own, such as a condition's status
			expected = "text (in quotes where it looks like something else)"
		case strings.HasPrefix(expected, "map["), strings.Contains(expected, "."):
			expected = "a mapping"
		case strings.HasPrefix(expected, "[]"):
			expected = "a list"
		case expected == "string":
			expected = "text (in quotes where it looks like something else)"
		case strings.HasPrefix(expected, "int"), strings.HasPrefix(expected, "*int"):
			expected = "a whole number"
		case expected == "bool":
			expected = "true or false"
		}
		return fmt.Sprintf("%s is a %s: expected %s", m[2], m[1], expected)
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}
