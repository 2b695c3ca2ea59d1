package signals

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// constants returns the values of this package's string constants of the named type, read from the source.
func constants(t *testing.T, file, typeName string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	for _, decl := range parsed.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.CONST {
			continue
		}
		for _, spec := range gen.Specs {
			value := spec.(*ast.ValueSpec)
			if name, ok := value.Type.(*ast.Ident); !ok || name.Name != typeName {
				continue
			}
			text, err := strconv.Unquote(value.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, text)
		}
	}
	return values
}

func TestEveryFindingConstantStandsInTheTableOnceAndInOrder(t *testing.T) {
	var table []string
	for _, f := range Findings() {
		table = append(table, string(f.Code))
	}
	if want := constants(t, "findings.go", "Finding"); !slices.Equal(table, want) {
		t.Errorf("table %v\nconstants %v", table, want)
	}
}

func TestEveryEventConstantStandsInTheTableOnceAndInOrder(t *testing.T) {
	var table []string
	for _, e := range Events() {
		table = append(table, string(e.Code))
	}
	if want := constants(t, "events.go", "Code"); !slices.Equal(table, want) {
		t.Errorf("table %v\nconstants %v", table, want)
	}
}

func TestNoCodeIsBothAFindingAndAnEvent(t *testing.T) {
	for _, f := range Findings() {
		if _, ok := LookupEvent(Code(f.Code)); ok {
			t.Errorf("%s is both", f.Code)
		}
	}
}

func TestMeaningsAndActionsAreOneSentencelike(t *testing.T) {
	check := func(code, what, text string) {
		if !strings.HasSuffix(text, ".") || strings.ContainsAny(text, "\n|") || len(text) > 200 {
			t.Errorf("%s: %s is not one short line ending in a full stop: %q", code, what, text)
		}
	}
	name := regexp.MustCompile(`^[A-Z][A-Za-z]+$`)
	for _, f := range Findings() {
		check(string(f.Code), "meaning", f.Meaning)
		check(string(f.Code), "action", f.Action)
		if !name.MatchString(string(f.Code)) {
			t.Errorf("%s is not in camel case", f.Code)
		}
	}
	for _, e := range Events() {
		check(string(e.Code), "meaning", e.Meaning)
		if !name.MatchString(string(e.Code)) {
			t.Errorf("%s is not in camel case", e.Code)
		}
	}
}

func TestAFieldNameNeverCollidesWithTheLinesOwnKeys(t *testing.T) {
	for _, e := range Events() {
		seen := map[string]bool{"ts": true, "level": true, "msg": true, FieldEvent: true}
		for _, field := range e.Fields {
			if seen[field] {
				t.Errorf("%s: field %q stands twice or is taken", e.Code, field)
			}
			seen[field] = true
		}
	}
}
