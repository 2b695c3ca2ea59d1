package alerts

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
)

// Conforms says whether a line of a log is as [Schema] says, by what that schema uses of JSON Schema.
func Conforms(line []byte) error {
	var value any
	if err := json.Unmarshal(line, &value); err != nil {
		return err
	}
	var schema map[string]any
	if err := json.Unmarshal([]byte(Schema()), &schema); err != nil {
		return err
	}
	return conforms(value, schema, "the line")
}

func conforms(value any, schema map[string]any, what string) error {
	if constant, ok := schema["const"]; ok && value != constant {
		return fmt.Errorf("%s is %v, not %v", what, value, constant)
	}
	if list, ok := schema["enum"].([]any); ok && !slices.Contains(list, value) {
		return fmt.Errorf("%s is %v, none of %v", what, value, list)
	}
	switch schema["type"] {
	case "string":
		text, ok := value.(string)
		if !ok {
			return fmt.Errorf("%s is no string: %v", what, value)
		}
		if pattern, ok := schema["pattern"].(string); ok && !regexp.MustCompile(pattern).MatchString(text) {
			return fmt.Errorf("%s is %q, which does not match %s", what, text, pattern)
		}
	case "object":
		if _, ok := value.(map[string]any); !ok {
			return fmt.Errorf("%s is no object", what)
		}
	}
	object, _ := value.(map[string]any)
	required, _ := schema["required"].([]any)
	for _, name := range required {
		if _, ok := object[name.(string)]; !ok {
			return fmt.Errorf("%s has no %s", what, name)
		}
	}
	if names, ok := schema["propertyNames"].(map[string]any); ok {
		for name := range object {
			if err := conforms(name, names, "a field of "+what); err != nil {
				return err
			}
		}
	}
	properties, _ := schema["properties"].(map[string]any)
	for name, of := range properties {
		if have, ok := object[name]; ok {
			if err := conforms(have, of.(map[string]any), name+" of "+what); err != nil {
				return err
			}
		}
	}
	all, _ := schema["allOf"].([]any)
	for _, one := range all {
		rule := one.(map[string]any)
		if conforms(value, rule["if"].(map[string]any), "") != nil {
			continue
		}
		if err := conforms(value, rule["then"].(map[string]any), what); err != nil {
			return err
		}
	}
	return nil
}
