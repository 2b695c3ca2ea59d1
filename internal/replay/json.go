package replay

import (
	"encoding/json"
	"errors"
	"io"
	"sort"
	"strings"
)

// jsonDocuments calls each with every value of a stream of JSON values: one per line, or as kubectl prints them.
func jsonDocuments(file string, data string, each func(*document) error) error {
	j := &jsonReader{data: data, decoder: json.NewDecoder(strings.NewReader(data))}
	j.decoder.UseNumber()
	for at := 0; at < len(data); {
		next := strings.IndexByte(data[at:], '\n')
		if next < 0 {
			break
		}
		at += next + 1
		j.starts = append(j.starts, at)
	}
	for number := 1; ; number++ {
		j.document, j.count = &document{file: file, number: number}, 0
		token, err := j.decoder.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return j.broken(err)
		}
		if j.root, err = j.tree(token, 0); err != nil {
			return err
		}
		if err := each(j.document); err != nil {
			return err
		}
	}
}

type jsonReader struct {
	*document
	data    string
	decoder *json.Decoder
	// starts are the offsets at which lines begin, from the second.
	starts []int
	count  int
}

// line is the line at which the last token ends.
func (j *jsonReader) line() int {
	at := int(j.decoder.InputOffset())
	return 1 + sort.Search(len(j.starts), func(i int) bool { return j.starts[i] >= at })
}

func (j *jsonReader) broken(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return j.malformed(1+strings.Count(j.data, "\n"), "not JSON: it ends too early")
	}
	line := j.line()
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		at := int(syntax.Offset)
		line = 1 + sort.Search(len(j.starts), func(i int) bool { return j.starts[i] >= at })
	}
	return j.malformed(line, "not JSON: %v", err)
}

func (j *jsonReader) tree(token json.Token, depth int) (*tree, error) {
	j.count++
	t := &tree{line: j.line()}
	if depth > deepest {
		return nil, j.malformed(t.line, "nested more than %d deep", deepest)
	}
	if j.count > largest {
		return nil, j.malformed(t.line, "more than %d values in one document", largest)
	}
	switch v := token.(type) {
	case json.Delim:
		if v == '[' {
			t.shape = list
			return t, j.items(t, depth)
		}
		t.shape = mapping
		return t, j.pairs(t, depth)
	case bool:
		t.shape, t.scalar = boolean, "false"
		if v {
			t.scalar = "true"
		}
	case json.Number:
		t.shape, t.scalar = integer, v.String()
		if _, err := v.Int64(); err != nil {
			t.shape = number
		}
	case string:
		t.shape, t.scalar = text, v
	}
	return t, nil
}

func (j *jsonReader) next() (json.Token, error) {
	token, err := j.decoder.Token()
	if err != nil {
		return nil, j.broken(err)
	}
	return token, nil
}

func (j *jsonReader) items(t *tree, depth int) error {
	for {
		token, err := j.next()
		if err != nil {
			return err
		}
		if token == json.Delim(']') {
			return nil
		}
		item, err := j.tree(token, depth+1)
		if err != nil {
			return err
		}
		t.items = append(t.items, item)
	}
}

func (j *jsonReader) pairs(t *tree, depth int) error {
	names := map[string]bool{}
	for {
		token, err := j.next()
		if err != nil {
			return err
		}
		if token == json.Delim('}') {
			return nil
		}
		name, line := token.(string), j.line()
		if names[name] {
			return j.malformed(line, "the key %q is there twice", name)
		}
		names[name] = true
		if token, err = j.next(); err != nil {
			return err
		}
		value, err := j.tree(token, depth+1)
		if err != nil {
			return err
		}
		t.fields = append(t.fields, field{name: name, line: line, value: value})
	}
}
