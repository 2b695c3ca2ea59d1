package replay

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	// deepest is how deep a document may be nested, and largest how many values it may have: aliases can make a few bytes
	// of YAML into more than any memory holds.
	deepest = 100
	largest = 1 << 20
)

var yamlLine = regexp.MustCompile(`line (\d+): ?`)

// yamlDocuments calls each with every document of a YAML stream. Documents that hold nothing but comments count and are
// left out.
func yamlDocuments(file string, data string, each func(*document) error) (err error) {
	number := 1
	defer func() {
		if p := recover(); p != nil { // the library is not ours
			err = &Malformed{Place: Place{file, number, 1}, Message: fmt.Sprintf("not YAML: %v", p)}
		}
	}()
	decoder := yaml.NewDecoder(strings.NewReader(data))
	for ; ; number++ {
		var node yaml.Node
		switch err := decoder.Decode(&node); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			line, message := 1, strings.TrimPrefix(err.Error(), "yaml: ")
			if m := yamlLine.FindStringSubmatch(message); m != nil {
				line, _ = strconv.Atoi(m[1])
				message = strings.Replace(message, m[0], "", 1)
			}
			return &Malformed{Place: Place{file, number, line}, Message: "not YAML: " + message}
		}
		d := &document{file: file, number: number}
		y := yamlReader{document: d}
		if len(node.Content) == 0 {
			continue
		}
		root, err := y.tree(node.Content[0], 0)
		if err != nil {
			return err
		}
		if root.shape == null {
			continue
		}
		d.root = root
		if err := each(d); err != nil {
			return err
		}
	}
}

type yamlReader struct {
	*document
	count int
}

func (y *yamlReader) tree(n *yaml.Node, depth int) (*tree, error) {
	y.count++
	if depth > deepest {
		return nil, y.malformed(n.Line, "nested more than %d deep", deepest)
	}
	if y.count > largest {
		return nil, y.malformed(n.Line, "more than %d values in one document", largest)
	}
	t := &tree{line: n.Line}
	switch n.Kind {
	case yaml.AliasNode:
		return y.tree(n.Alias, depth+1)
	case yaml.SequenceNode:
		t.shape = list
		for _, c := range n.Content {
			item, err := y.tree(c, depth+1)
			if err != nil {
				return nil, err
			}
			t.items = append(t.items, item)
		}
	case yaml.MappingNode:
		t.shape = mapping
		names := make(map[string]bool, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			k := n.Content[i]
			if k.Kind == yaml.AliasNode {
				k = k.Alias
			}
			if k.Kind != yaml.ScalarNode || k.ShortTag() == "!!merge" {
				return nil, y.malformed(n.Content[i].Line, "a key that is no text: expected a name")
			}
			if names[k.Value] {
				return nil, y.malformed(n.Content[i].Line, "the key %q is there twice", k.Value)
			}
			names[k.Value] = true
			value, err := y.tree(n.Content[i+1], depth+1)
			if err != nil {
				return nil, err
			}
			t.fields = append(t.fields, field{name: k.Value, line: n.Content[i].Line, value: value})
		}
	case yaml.ScalarNode:
		t.scalar = n.Value
		switch n.ShortTag() {
		case "!!null":
		case "!!bool":
			t.shape = boolean
		case "!!int":
			t.shape, t.scalar = integer, strings.ReplaceAll(n.Value, "_", "")
		case "!!float":
			t.shape = number
		case "!!str", "!!timestamp":
			t.shape = text
		default:
			return nil, y.malformed(n.Line, "a value with the tag %s: expected plain YAML", n.ShortTag())
		}
	default:
		return nil, y.malformed(n.Line, "not YAML: an unknown node")
	}
	return t, nil
}
