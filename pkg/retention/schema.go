package retention

import (
	"encoding/json"
	"reflect"
	"strconv"
)

// durationPattern is what ParseDuration reads, as far as a pattern can say it.
const durationPattern = `^(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h|d|w)(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h|d|w))*)$`

type shape map[string]any

// JSONSchema is the JSON Schema of a policy file, for editors.
func JSONSchema() []byte {
	s := schemaOf(reflect.TypeFor[Document]())
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = DocumentKind
	s["required"] = []string{"apiVersion", "kind"}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic(err) // a map of strings and numbers
	}
	return append(text, '\n')
}

func schemaOf(t reflect.Type) shape {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case reflect.TypeFor[Duration]():
		return shape{"anyOf": []shape{{"type": "string", "pattern": durationPattern}, {"type": "integer", "enum": []int{0}}}}
	case reflect.TypeFor[ByOutcome]():
		return shape{"anyOf": []shape{schemaOf(reflect.TypeFor[Duration]()), schemaOf(reflect.TypeFor[outcomes]())}}
	case reflect.TypeFor[Selector]():
		return shape{"anyOf": []shape{{"type": "string"}, schemaOf(reflect.TypeFor[selectors]()),
			{"type": "object", "additionalProperties": shape{"type": "string"}}}}
	}
	switch t.Kind() {
	case reflect.Slice:
		return shape{"type": "array", "items": schemaOf(t.Elem())}
	case reflect.Map:
		return shape{"type": "object", "additionalProperties": shape{"type": "string"}}
	case reflect.Bool:
		return shape{"type": "boolean"}
	case reflect.Int:
		return shape{"type": "integer"}
	case reflect.Struct:
		properties, required := shape{}, []string{}
		for i := range t.NumField() {
			f := t.Field(i)
			p := schemaOf(f.Type)
			p["description"] = f.Tag.Get("doc")
			if enum := f.Tag.Get("enum"); enum != "" {
				p["enum"] = []string{enum}
			}
			if least, err := strconv.Atoi(f.Tag.Get("min")); err == nil {
				p["minimum"] = least
			}
			if f.Tag.Get("required") == "true" {
				required = append(required, jsonName(f))
			}
			properties[jsonName(f)] = p
		}
		s := shape{"type": "object", "properties": properties, "additionalProperties": false}
		if len(required) > 0 {
			s["required"] = required
		}
		return s
	}
	return shape{"type": "string"}
}
