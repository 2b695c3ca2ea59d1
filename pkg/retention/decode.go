package retention

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"bytes"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// largestFile is the size from which a file is refused unread: no ConfigMap holds more.
const largestFile = 1 << 20

// deepest is how far a file may be nested, which also bounds what its aliases can unfold to.
const deepest = 16

// place is a line and a column, both from 1.
type place struct{ line, column int }

// decoder reads a document strictly and collects everything that is wrong with it.
type decoder struct {
	problems Problems
	places   map[string]place
	// nodes counts what has been read: aliases can make a small file large.
	nodes int
}

const mostNodes = 100_000

// node reads the one YAML document of the data.
func (d *decoder) document(data []byte) *yaml.Node {
	if len(data) > largestFile {
		d.problem(place{}, "", "the file has %d bytes; the most that a ConfigMap holds is %d", len(data), largestFile)
		return nil
	}
	reader := yaml.NewDecoder(bytes.NewReader(data))
	var root, second yaml.Node
	if err := reader.Decode(&root); err != nil {
		if errors.Is(err, io.EOF) {
			d.problem(place{1, 1}, "", "the file is empty; a policy begins with apiVersion: %s", APIVersion)
			return nil
		}
		d.syntax(err)
		return nil
	}
	switch err := reader.Decode(&second); {
	case err == nil:
		d.problem(at(&second), "", "a second document; a policy is one")
	case !errors.Is(err, io.EOF):
		d.syntax(err)
	}
	if len(root.Content) != 1 {
		return nil
	}
	return root.Content[0]
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

func (d *decoder) syntax(err error) {
	text := err.Error()
	at := place{1, 1}
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		if line, err := strconv.Atoi(m[1]); err == nil {
			at.line = line
		}
		text = text[len(m[0]):]
	}
	d.problem(at, "", "no YAML: %s", text)
}

func at(n *yaml.Node) place { return place{max(n.Line, 1), max(n.Column, 1)} }

func (d *decoder) problem(at place, path, format string, args ...any) {
	d.problems = append(d.problems, Problem{Line: at.line, Column: at.column, Path: path, Message: fmt.Sprintf(format, args...)})
}

// find is where a path stands in the file, or else the nearest that it lies in.
func (d *decoder) find(path string) place {
	for {
		if p, ok := d.places[path]; ok {
			return p
		}
		cut := strings.LastIndexAny(path, ".[")
		if cut < 0 {
			return d.places[""]
		}
		path = path[:cut]
	}
}

func (d *decoder) wrong(path, format string, args ...any) {
	d.problem(d.find(path), path, format, args...)
}

func (d *decoder) warn(path, format string, args ...any) {
	d.wrong(path, format, args...)
	d.problems[len(d.problems)-1].Warning = true
}

// into reads a node into a value of one of the document's types.
func (d *decoder) into(n *yaml.Node, v reflect.Value, path string, depth int) {
	d.nodes++
	if depth > deepest || d.nodes > mostNodes {
		if d.nodes <= mostNodes+1 {
			d.problem(at(n), path, "nested too deeply, or too large")
		}
		return
	}
	if d.places == nil {
		d.places = map[string]place{}
	}
	d.places[path] = at(n)
	if n.Kind == yaml.AliasNode {
		d.into(n.Alias, v, path, depth+1)
		return
	}
	if v.Kind() == reflect.Pointer {
		made := reflect.New(v.Type().Elem())
		v.Set(made)
		d.into(n, made.Elem(), path, depth)
		return
	}
	switch to := v.Addr().Interface().(type) {
	case *Duration:
		d.duration(n, to, path)
		return
	case *ByOutcome:
		d.byOutcome(n, to, path, depth)
		return
	case *Selector:
		d.selector(n, to, path, depth)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.fields(n, v, path, depth)
	case reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			d.problem(at(n), path, "use a list, not %s", describe(n))
			return
		}
		list := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
		for i, c := range n.Content {
			d.into(c, list.Index(i), path+"["+strconv.Itoa(i)+"]", depth+1)
		}
		v.Set(list)
	case reflect.Map:
		made := map[string]string{}
		d.pairs(n, path, func(key, value *yaml.Node) {
			var text string
			d.into(value, reflect.ValueOf(&text).Elem(), path+"."+key.Value, depth+1)
			made[key.Value] = text
		})
		v.Set(reflect.ValueOf(made))
	case reflect.String:
		if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
			d.problem(at(n), path, "use text, not %s", describe(n))
			return
		}
		v.SetString(n.Value)
	case reflect.Bool:
		var b bool
		if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" || n.Decode(&b) != nil {
			d.problem(at(n), path, "use true or false, not %s", describe(n))
			return
		}
		v.SetBool(b)
	case reflect.Int:
		var i int
		if n.Kind != yaml.ScalarNode || n.Tag != "!!int" || n.Decode(&i) != nil {
			d.problem(at(n), path, "use a whole number, not %s", describe(n))
			return
		}
		v.SetInt(int64(i))
	}
}

// pairs walks a mapping; a key that comes again is a problem and is not walked.
func (d *decoder) pairs(n *yaml.Node, path string, each func(key, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		d.problem(at(n), path, "use a mapping, not %s", describe(n))
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if first, again := seen[key.Value]; again {
			d.problem(at(key), join(path, key.Value), "given twice, first in line %d", first)
			continue
		}
		seen[key.Value] = key.Line
		each(key, n.Content[i+1])
	}
}

func (d *decoder) fields(n *yaml.Node, v reflect.Value, path string, depth int) {
	given := map[string]bool{}
	d.pairs(n, path, func(key, value *yaml.Node) {
		i, known := fieldNamed(v.Type(), key.Value)
		given[key.Value] = true
		if !known {
			d.problem(at(key), join(path, key.Value), "unknown key%s", suggestion(key.Value, fieldNames(v.Type())))
			return
		}
		if value.Kind == yaml.ScalarNode && value.Tag == "!!null" {
			return // a key without a value is a key left out
		}
		field := v.Type().Field(i)
		d.into(value, v.Field(i), join(path, key.Value), depth+1)
		d.places[join(path, key.Value)] = at(key)
		d.limits(field.Tag, v.Field(i), join(path, key.Value))
	})
	if n.Kind != yaml.MappingNode {
		return
	}
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.Tag.Get("required") == "true" && !given[jsonName(f)] {
			d.problem(at(n), path, "%s is missing", jsonName(f))
		}
	}
}

// limits holds a value against what its field's tags allow.
func (d *decoder) limits(tag reflect.StructTag, v reflect.Value, path string) {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return
		}
		v = v.Elem()
	}
	if words := tag.Get("enum"); words != "" && v.Kind() == reflect.String && v.String() != "" && v.String() != words {
		d.wrong(path, "%q: use %s", v.String(), words)
	}
	if least, err := strconv.Atoi(tag.Get("min")); err == nil && v.Kind() == reflect.Int && v.Int() < int64(least) {
		d.wrong(path, "%d: use %d or more", v.Int(), least)
	}
}

func (d *decoder) duration(n *yaml.Node, to *Duration, path string) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		d.problem(at(n), path, "use a duration such as 12h or 7d, not %s", describe(n))
		return
	}
	value, err := ParseDuration(n.Value)
	switch {
	case err != nil && n.Tag == "!!int" && !strings.HasPrefix(n.Value, "-"):
		d.problem(at(n), path, "%s has no unit: use %ss for seconds, or another of s, m, h, d, w", n.Value, n.Value)
	case err != nil:
		d.problem(at(n), path, "%q: %v", n.Value, err)
	default:
		*to = Duration(value)
	}
}

// outcomes is ByOutcome's notation as a mapping.
type outcomes struct {
	Succeeded        *Duration `json:"succeeded,omitempty" doc:"For those that succeeded."`
	Failed           *Duration `json:"failed,omitempty" doc:"For those that failed."`
	DeadlineExceeded *Duration `json:"deadlineExceeded,omitempty" doc:"For those whose deadline passed; failed, when left out."`
}

func (d *decoder) byOutcome(n *yaml.Node, to *ByOutcome, path string, depth int) {
	if n.Kind == yaml.MappingNode {
		var o outcomes
		d.fields(n, reflect.ValueOf(&o).Elem(), path, depth)
		to.Succeeded, to.Failed, to.DeadlineExceeded = o.Succeeded, o.Failed, o.DeadlineExceeded
		return
	}
	var all Duration
	d.duration(n, &all, path)
	to.All = &all
}

// selectors is a LabelSelector's notation.
type selectors struct {
	MatchLabels      map[string]string `json:"matchLabels,omitempty" doc:"Exact values."`
	MatchExpressions []requirement     `json:"matchExpressions,omitempty" doc:"Requirements, all of which must hold."`
}

type requirement struct {
	Key      string   `json:"key" doc:"Label." required:"true"`
	Operator string   `json:"operator" doc:"In, NotIn, Exists or DoesNotExist." required:"true"`
	Values   []string `json:"values,omitempty" doc:"Values, for In and NotIn."`
}

func (d *decoder) selector(n *yaml.Node, to *Selector, path string, depth int) {
	if n.Kind == yaml.ScalarNode {
		if n.Tag != "!!str" {
			d.problem(at(n), path, "use a selector such as app=train, or a mapping, not %s", describe(n))
			return
		}
		to.Text = n.Value
		return
	}
	var given metav1.LabelSelector
	if n.Kind == yaml.MappingNode && slices.ContainsFunc(n.Content, func(c *yaml.Node) bool {
		return c.Value == "matchLabels" || c.Value == "matchExpressions"
	}) {
		var s selectors
		d.fields(n, reflect.ValueOf(&s).Elem(), path, depth)
		given.MatchLabels = s.MatchLabels
		for _, e := range s.MatchExpressions {
			given.MatchExpressions = append(given.MatchExpressions, metav1.LabelSelectorRequirement{
				Key: e.Key, Operator: metav1.LabelSelectorOperator(e.Operator), Values: e.Values})
		}
	} else {
		before := len(d.problems)
		d.into(n, reflect.ValueOf(&given.MatchLabels).Elem(), path, depth)
		if len(d.problems) > before {
			return
		}
	}
	made, err := metav1.LabelSelectorAsSelector(&given)
	if err != nil {
		d.problem(at(n), path, "no label selector: %v", err)
		return
	}
	to.Text = made.String()
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

func fieldNamed(t reflect.Type, name string) (int, bool) {
	for i := range t.NumField() {
		if jsonName(t.Field(i)) == name {
			return i, true
		}
	}
	return 0, false
}

func fieldNames(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		names = append(names, jsonName(t.Field(i)))
	}
	return names
}

func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	if n.Tag == "!!null" {
		return "nothing"
	}
	return strconv.Quote(n.Value)
}

// suggestion names the word that was probably meant, if any is near.
func suggestion(word string, known []string) string {
	best, least := "", 3
	for _, k := range known {
		if n := distance(strings.ToLower(word), strings.ToLower(k)); n < least {
			best, least = k, n
		}
	}
	if best != "" {
		return "; did you mean " + best + "?"
	}
	return ""
}

// distance counts the letters to be changed, put in or left out between two words.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			next := corner
			if a[i] != b[j] {
				next = min(corner, row[j], row[j+1]) + 1
			}
			corner, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}
