package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is where the module's files are, seen from this package.
const root = "../.."

// goFiles walks the module's own Go files, tests left out.
func goFiles(t *testing.T, visit func(path string, file *ast.File, set *token.FileSet)) {
	t.Helper()
	for _, top := range []string{"api", "cmd", "internal", "pkg"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil && entry == nil: // Not every one is there yet.
				return fs.SkipDir
			case err != nil:
				return err
			case entry.IsDir(), !strings.HasSuffix(path, ".go"), strings.HasSuffix(path, "_test.go"):
				return nil
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, 0)
			if err != nil {
				return err
			}
			visit(strings.TrimPrefix(path, root+"/"), file, set)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// State that belongs to nobody cannot be injected. What never changes may stand at the top: errors to compare with,
// compiled patterns, names of API resources, interned strings, transforms, and assertions about types.
func TestNoPackageKeepsStateOfItsOwn(t *testing.T) {
	makers := []string{"errors.New", "regexp.MustCompile", "unique.Make", "transform"}
	goFiles(t, func(path string, file *ast.File, set *token.FileSet) {
		for _, decl := range file.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok || gen.Tok != token.VAR {
				continue
			}
			for _, spec := range gen.Specs {
				value := spec.(*ast.ValueSpec)
				if value.Names[0].Name == "_" {
					continue
				}
				if len(value.Values) == 1 {
					if call, ok := value.Values[0].(*ast.CallExpr); ok {
						name := nameOf(call.Fun)
						if slices.Contains(makers, name) || strings.HasSuffix(name, ".WithResource") || strings.HasSuffix(name, ".WithKind") {
							continue
						}
					}
					if literal, ok := value.Values[0].(*ast.CompositeLit); ok && strings.HasPrefix(nameOf(literal.Type), "schema.") {
						continue
					}
				}
				t.Errorf("%s: %s is state of the package", set.Position(value.Pos()), value.Names[0].Name)
			}
		}
	})
}

// Time is an argument or an injected clock, or no history could ever be replayed.
func TestNobodyAsksTheMachineForTheTime(t *testing.T) {
	network := []string{"pkg/metrics/client.go"} // Times requests on the network, for a metric.
	goFiles(t, func(path string, file *ast.File, set *token.FileSet) {
		if slices.Contains(network, path) || strings.HasPrefix(path, "internal/tally/") {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				switch name := nameOf(call.Fun); name {
				case "time.Now", "time.Since", "time.Until", "time.Sleep", "time.After", "time.NewTimer", "time.NewTicker", "time.AfterFunc":
					t.Errorf("%s: %s", set.Position(call.Pos()), name)
				}
			}
			return true
		})
	})
}

func nameOf(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return nameOf(x.X) + "." + x.Sel.Name
	case *ast.IndexExpr:
		return nameOf(x.X)
	}
	return ""
}
