package escapement_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The packages of a user, with those of nested modules.
var public = []string{"pace", "gate", "group", "retry", "retry/retryhttp", "gate/gatetest", "gate/redisgate", "observe", "observe/promgate", "observe/otelgate", "debug/gates"}

// Methods that the standard library explains need no example.
var explained = []string{"Error", "Unwrap", "String"}

// Every exported function and method of a user's package has an example, and every example has an output.
func TestExamples(t *testing.T) {
	for _, dir := range public {
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: files %q, error %v", dir, names, err)
		}
		var tests []*ast.File
		var functions []string
		for _, name := range names {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(name, "_test.go") {
				tests = append(tests, file)
				continue
			}
			for _, decl := range file.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok {
					functions = append(functions, exported(f)...)
				}
			}
		}
		shown := map[string]bool{}
		for _, e := range doc.Examples(tests...) {
			if e.Output == "" && !e.EmptyOutput {
				t.Errorf("%s: Example%s has no output", dir, e.Name)
			}
			// Example Rate_Wait_late is one of Rate.Wait, and of Rate.
			parts := strings.Split(e.Name, "_")
			for n := range parts {
				shown[strings.Join(parts[:n+1], "_")] = true
			}
		}
		for _, name := range functions {
			if !shown[name] {
				t.Errorf("%s: %s has no example", dir, strings.Replace(name, "_", ".", 1))
			}
		}
	}
}

// exported returns the name of a function's example, if it must have one.
func exported(f *ast.FuncDecl) []string {
	name := f.Name.Name
	switch {
	case !f.Name.IsExported():
		return nil
	case f.Recv == nil:
		return []string{name}
	case slices.Contains(explained, name):
		return nil
	}
	of := f.Recv.List[0].Type
	if p, ok := of.(*ast.StarExpr); ok {
		of = p.X
	}
	if generic, ok := of.(*ast.IndexExpr); ok {
		of = generic.X
	}
	if id, ok := of.(*ast.Ident); ok && id.IsExported() {
		return []string{id.Name + "_" + name}
	}
	return nil
}
