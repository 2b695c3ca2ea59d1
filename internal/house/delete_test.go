package house

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// The one place that sends a DELETE, and the one that says with which options.
const (
	theSender  = "pkg/reap/kube.go"
	theOptions = "pkg/reap/order.go"
	// counter counts requests by their method.
	counter = "pkg/metrics/client.go"
)

// isStage says whether the file is of the API in memory, which plays the server.
func isStage(path string) bool {
	return strings.HasPrefix(path, "internal/stage/") || strings.HasPrefix(path, "internal/sim/")
}

// A wrong DELETE ends somebody's training run. There is one function that sends one, and it takes what can only be made
// with a UID.
func TestOneFunctionSendsADelete(t *testing.T) {
	sends := map[string]int{}
	goFiles(t, func(path string, file *ast.File, set *token.FileSet) {
		if isStage(path) {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.CallExpr:
				s, ok := x.Fun.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				switch name := s.Sel.Name; {
				case slices.Contains([]string{"DeleteCollection", "DeleteOptions", "Evict", "EvictV1", "EvictV1beta1"}, name):
					t.Errorf("%s: %s", set.Position(x.Pos()), name)
				case name == "Delete" && len(x.Args) >= 3 && nameOf(s.X) != "slices": // ctx, name, options: a client's
					sends[path]++
				case name == "Verb" || name == "NewRequest" || name == "NewRequestWithContext":
					for _, a := range x.Args {
						if text := strings.ToUpper(nameOf(a) + literalOf(a)); strings.Contains(text, "DELETE") {
							t.Errorf("%s: a DELETE by %s", set.Position(x.Pos()), name)
						}
					}
				}
			case *ast.CompositeLit:
				if name := nameOf(x.Type); strings.HasSuffix(name, ".DeleteOptions") && path != theOptions {
					t.Errorf("%s: %s", set.Position(x.Pos()), name)
				}
			case *ast.SelectorExpr:
				switch x.Sel.Name {
				case "GracePeriodSeconds", "DeletePropagationForeground", "DeletePropagationOrphan", "OrphanDependents", "MethodDelete":
					if path != counter {
						t.Errorf("%s: %s", set.Position(x.Pos()), nameOf(x))
					}
				}
			case *ast.KeyValueExpr:
				if id, ok := x.Key.(*ast.Ident); ok && slices.Contains([]string{"GracePeriodSeconds", "OrphanDependents"}, id.Name) {
					t.Errorf("%s: %s", set.Position(x.Pos()), id.Name)
				}
			}
			return true
		})
	})
	if len(sends) != 1 || sends[theSender] != 1 {
		t.Errorf("DELETEs are sent by %v, not once by %s", sends, theSender)
	}
}

func literalOf(e ast.Expr) string {
	if l, ok := e.(*ast.BasicLit); ok {
		return l.Value
	}
	return ""
}

// An order cannot be made outside its package but by NewOrder, and the sender takes nothing else.
func TestADeleteTakesAnOrder(t *testing.T) {
	found := false
	goFiles(t, func(path string, file *ast.File, set *token.FileSet) {
		switch path {
		case theSender:
			for _, d := range file.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok || f.Name.Name != "Delete" {
					continue
				}
				params := f.Type.Params.List
				found = len(params) == 2 && nameOf(params[1].Type) == "Order"
			}
		case theOptions:
			ast.Inspect(file, func(n ast.Node) bool {
				s, ok := n.(*ast.TypeSpec)
				if !ok || s.Name.Name != "Order" {
					return true
				}
				for _, field := range s.Type.(*ast.StructType).Fields.List {
					for _, name := range field.Names {
						if name.IsExported() {
							t.Errorf("%s: others could set %s", set.Position(field.Pos()), name.Name)
						}
					}
				}
				return false
			})
		}
		// Inside the package as well, only NewOrder and the methods of an Order make one.
		if strings.HasPrefix(path, "pkg/reap/") && path != theOptions {
			ast.Inspect(file, func(n ast.Node) bool {
				if l, ok := n.(*ast.CompositeLit); ok && nameOf(l.Type) == "Order" && len(l.Elts) > 0 {
					t.Errorf("%s: an order is made by NewOrder", set.Position(l.Pos()))
				}
				return true
			})
		}
	})
	if !found {
		t.Errorf("the sender in %s does not take an Order", theSender)
	}
}
