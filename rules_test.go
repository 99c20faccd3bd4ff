package escapement_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/escapement-go/escapement"

// mayImport says which packages of this module each of them may import in code that is
// not a test. What is not named may import none.
var mayImport = map[string][]string{
	"internal/queue":  {"internal/timing"},
	"pace":            {"internal/misuse", "internal/schedule", "internal/timing"},
	"gate":            {"internal/adapt", "internal/misuse", "internal/queue", "internal/schedule", "internal/timing", "pace"},
	"gate/gatetest":   {"gate"},
	"debug/gates":     {"gate", "group", "internal/timing", "pace", "retry"},
	"group":           {"gate", "internal/timing", "internal/within"},
	"observe":         {"gate", "group", "retry"},
	"retry":           {"gate", "internal/hints", "internal/lost", "internal/timing", "internal/within"},
	"retry/retryhttp": {"gate", "internal/hints", "internal/lost", "internal/timing", "retry"},
}

// Nothing points the other way: gate does not know group, and nobody knows who uses it.
func TestImportDirection(t *testing.T) {
	for dir, files := range packages(t) {
		for name, file := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			for _, spec := range file.Imports {
				path, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module+"/")
				if ours && !slices.Contains(mayImport[dir], path) {
					t.Errorf("%s imports %s", name, path)
				}
			}
		}
	}
}

// Only internal/timing calls a clock: elsewhere neither the time package's own functions
// nor the methods of a clock may be used, outside of tests.
func TestOnlyTimingCallsAClock(t *testing.T) {
	forbidden := []string{"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Sleep"}
	for dir, files := range packages(t) {
		if dir == "internal/timing" || dir == "internal/bubble" || dir == "internal/mutation" || dir == "gate/gatetest" {
			continue
		}
		for name, file := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			ast.Inspect(file, func(n ast.Node) bool {
				s, ok := n.(*ast.SelectorExpr)
				if !ok || !slices.Contains(forbidden, s.Sel.Name) {
					return true
				}
				if x, ok := s.X.(*ast.Ident); ok && (x.Name == "time" || x.Name == "clock") {
					t.Errorf("%s calls %s.%s", name, x.Name, s.Sel.Name)
				}
				return true
			})
		}
	}
}

// One package comment for each package, and no more: go doc shows them one after another.
func TestOnePackageComment(t *testing.T) {
	for dir, files := range packages(t) {
		var documented []string
		for name, file := range files {
			if file.Doc != nil && !strings.HasSuffix(name, "_test.go") {
				documented = append(documented, name)
			}
		}
		if len(documented) != 1 {
			t.Errorf("%s: package comments in %v, want one", dir, documented)
		}
	}
}

// What a user of the module gets with it is decided, not stumbled into.
func TestRequirements(t *testing.T) {
	want := []string{
		"github.com/anishathalye/porcupine", // tests
		"github.com/benbjohnson/clock",
		"go.uber.org/goleak", // tests
		"golang.org/x/sync",  // tests
		"pgregory.net/rapid", // tests
	}
	text, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(strings.TrimPrefix(line, "require ")); len(f) >= 2 && strings.HasPrefix(f[1], "v") {
			got[f[0]] = true
		}
	}
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, want) {
		t.Errorf("go.mod requires\n%q, want\n%q", names, want)
	}
}

// packages returns the packages of the root module, by folder and file.
func packages(t *testing.T) map[string]map[string]*ast.File {
	t.Helper()
	all, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// parsed parses them, once however often the tests are run.
var parsed = sync.OnceValues(func() (map[string]map[string]*ast.File, error) {
	all := map[string]map[string]*ast.File{}
	err := filepath.WalkDir(".", func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			if _, err := os.Stat(filepath.Join(path, "go.mod")); path != "." && (err == nil || strings.HasPrefix(e.Name(), ".") || e.Name() == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		if all[dir] == nil {
			all[dir] = map[string]*ast.File{}
		}
		all[dir][filepath.ToSlash(path)] = file
		return nil
	})
	return all, err
})
