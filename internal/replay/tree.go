package replay

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// shape is what a value is.
type shape uint8

const (
	null shape = iota
	boolean
	integer
	number
	text
	list
	mapping
)

func (s shape) String() string {
	return [...]string{"nothing", "true or false", "a whole number", "a number", "text", "a list", "a mapping"}[s]
}

// tree is a value of a document, YAML or JSON, with its line.
type tree struct {
	line  int
	shape shape
	// scalar is the text of what is no list and no mapping.
	scalar string
	items  []*tree
	fields []field
}

type field struct {
	name  string
	line  int
	value *tree
}

// field is the value under a name; nil when there is none.
func (t *tree) field(name string) *tree {
	if t == nil {
		return nil
	}
	for i := range t.fields {
		if t.fields[i].name == name {
			return t.fields[i].value
		}
	}
	return nil
}

// plain is the value as Kubernetes' own decoders hold it.
func (t *tree) plain() any {
	switch t.shape {
	case boolean:
		return strings.EqualFold(t.scalar, "true")
	case integer:
		if n, err := strconv.ParseInt(t.scalar, 0, 64); err == nil {
			return n
		}
		n, _ := strconv.ParseFloat(t.scalar, 64)
		return n
	case number:
		n, _ := strconv.ParseFloat(t.scalar, 64)
		return n
	case text:
		return t.scalar
	case list:
		all := make([]any, len(t.items))
		for i, item := range t.items {
			all[i] = item.plain()
		}
		return all
	case mapping:
		all := make(map[string]any, len(t.fields))
		for _, f := range t.fields {
			all[f.name] = f.value.plain()
		}
		return all
	}
	return nil
}

// at finds the line of a path such as "spec.containers[0].name": the nearest part of it that is there. Where a list is
// passed without an index, its first item that has the rest is meant.
func (t *tree) at(path string) int {
	line := t.line
	for path != "" && t != nil {
		name, rest, _ := strings.Cut(path, ".")
		name, index, indexed := strings.Cut(name, "[")
		for t.shape == list && len(t.items) > 0 {
			i := slices.IndexFunc(t.items, func(o *tree) bool { return o.field(name) != nil })
			t = t.items[max(i, 0)]
		}
		i := slices.IndexFunc(t.fields, func(f field) bool { return f.name == name })
		if i < 0 {
			return line
		}
		line, t = t.fields[i].line, t.fields[i].value
		if n, err := strconv.Atoi(strings.TrimSuffix(index, "]")); indexed && err == nil && n >= 0 && n < len(t.items) {
			t = t.items[n]
			line = t.line
		}
		path = rest
	}
	return line
}

// find is the line of the first scalar with the text; false when there is none.
func (t *tree) find(scalar string) (int, bool) {
	switch t.shape {
	case list:
		for _, item := range t.items {
			if line, ok := item.find(scalar); ok {
				return line, true
			}
		}
	case mapping:
		for _, f := range t.fields {
			if line, ok := f.value.find(scalar); ok {
				return line, true
			}
		}
	default:
		return t.line, t.scalar == scalar
	}
	return 0, false
}

// say shows a value in an error message.
func (t *tree) say() string {
	switch t.shape {
	case null, list, mapping:
		return t.shape.String()
	}
	if len(t.scalar) > 60 {
		return strconv.Quote(t.scalar[:57] + "...")
	}
	return strconv.Quote(t.scalar)
}

// document is one document of a file.
type document struct {
	file   string
	number int
	root   *tree
}

func (d *document) place(line int) Place { return Place{File: d.file, Document: d.number, Line: line} }

func (d *document) malformed(line int, format string, args ...any) error {
	return &Malformed{Place: d.place(line), Message: fmt.Sprintf(format, args...)}
}

// key is one key that a mapping may have, and what is done with its value.
type key struct {
	name string
	read func(*tree) error
}

// read reads a mapping that may have the given keys and no others. what names the mapping in messages.
func (d *document) read(t *tree, what string, keys ...key) error {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.name
	}
	if t.shape != mapping {
		return d.malformed(t.line, "%s is %s: expected a mapping with %s", what, t.say(), strings.Join(names, ", "))
	}
	for _, f := range t.fields {
		i := slices.Index(names, f.name)
		if i < 0 {
			return d.malformed(f.line, "unknown key %q in %s: expected one of %s", f.name, what, strings.Join(names, ", "))
		}
		if err := keys[i].read(f.value); err != nil {
			return err
		}
	}
	return nil
}

// want refuses a value of another shape.
func (d *document) want(t *tree, what string, expected string, shapes ...shape) error {
	if !slices.Contains(shapes, t.shape) {
		return d.malformed(t.line, "%s is %s: expected %s", what, t.say(), expected)
	}
	return nil
}

// one reads one word of several.
func (d *document) one(t *tree, what string, words ...string) (string, error) {
	if t.shape != text || !slices.Contains(words, t.scalar) {
		return "", d.malformed(t.line, "%s is %s: expected one of %s", what, t.say(), strings.Join(words, ", "))
	}
	return t.scalar, nil
}
