package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// body returns the mutants of a function with the body given, each as "before -> after".
func body(t *testing.T, code string) []string {
	t.Helper()
	all, err := mutate("x.go", []byte("package x\n\nfunc f() {\n\t"+code+"\n}\n"))
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, m := range all {
		if k := m.key(); m.in != "f" || m.line < 4 || k.before == "" {
			t.Errorf("%+v is in no function, or on no line", m)
		}
		texts = append(texts, m.key().after)
	}
	return texts
}

func TestMutants(t *testing.T) {
	for code, want := range map[string][]string{
		"return":               nil,
		"_ = a < b":            {"_ = a <= b", "_ = a >= b"},
		"_ = a == b":           {"_ = a != b"},
		"_ = a && !b":          {"_ = a || !b", "_ = a && b"},
		"_ = a * -2":           {"_ = a / -2", "_ = a * 2"},
		"_ = a<<1 + 0":         {"_ = a>>1 + 0", "_ = a<<0 + 0", "_ = a<<1 - 0", "_ = a<<1 + 1"},
		"_ = min(a, b)":        {"_ = max(a, b)"},
		"x = g()":              {"_ = g()"},
		"x, y = y, x":          {"_, _ = y, x"},
		"x += 2":               {"(removed)", "x -= 2"},
		"x := [1]int{2}":       nil,
		"x++":                  {"(removed)", "x--"},
		"defer g()":            {"(removed)"},
		"g(\n2)":               {"(removed)"},
		"c <- x":               {"(removed)"},
		"if a { g() }":         {"if true || a { g() }", "if false && (a) { g() }"},
		"if a { g(); return }": {"if true || a { g(); return }", "if false && (a) { g(); return }", "if a { ; return }", "if a { g(); }"},
		"for a { g() }":        {"for false && (a) { g() }", "for a { }"},
		"switch { case a: }":   {"switch { case true || a: }", "switch { case false && (a): }"},
		"switch a { case b: }": nil,
	} {
		if got := body(t, code); !slices.Equal(got, want) {
			t.Errorf("%s:\n%q, want\n%q", code, got, want)
		}
	}
}

// What is drawn depends on the seed and on the mutants themselves, and not on the others.
func TestSample(t *testing.T) {
	all, err := mutate("x.go", []byte("package x\n\nvar a = []bool{b < c, d < e, f < g, h < i, j < k, l < m, n < o}"))
	if err != nil {
		t.Fatal(err)
	}
	keys := func(all []mutant) (texts []string) {
		for _, m := range all {
			texts = append(texts, m.key().String())
		}
		return texts
	}
	five := keys(sample(all, 5, 1))
	if len(five) != 5 || !slices.Equal(five, keys(sample(all, 5, 1))) {
		t.Errorf("drawn twice: %q", five)
	}
	if slices.Equal(five, keys(sample(all, 5, 2))) {
		t.Error("another seed draws the same")
	}
	for _, k := range keys(sample(all, 4, 1)) {
		if !slices.Contains(five, k) {
			t.Errorf("%s is among 4, and not among 5", k)
		}
	}
	if got := sample(all, 0, 1); len(got) != len(all) {
		t.Errorf("%d of all %d", len(got), len(all))
	}
}

func TestList(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list")
	read := func(text string) (list, error) {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return readList(path)
	}
	l, err := read("# why\n\nx/a.go f\n- a < b\n+ a <= b\nequivalent: it is\n\nx/a.go f\n- a\n+ b\naccepted: it is rare\n")
	if err != nil {
		t.Fatal(err)
	}
	one, two := key{"x/a.go", "f", "a < b", "a <= b"}, key{"x/a.go", "f", "a", "b"}
	if !l.equivalent(one) || l.equivalent(two) || l.equivalent(key{}) {
		t.Error("what is equivalent is not what the list says")
	}
	if got := l.reason(two); got != " (accepted: it is rare)" {
		t.Errorf("the reason is %q", got)
	}
	here := []mutant{{shown: "x/a.go", in: "f", source: []byte("a < b"), from: 2, to: 3, text: "<="}}
	if got := l.unmatched(&pkg{folder: "x", files: []string{"a.go"}}, here); !slices.Equal(got, []key{two}) {
		t.Errorf("not in the code: %v, want %v", got, two)
	}
	if got := l.unmatched(&pkg{folder: "y", files: []string{"a.go"}}, here); got != nil {
		t.Errorf("not in another package's code: %v", got)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.go"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if got := l.unmatched(&pkg{folder: "x", dir: dir}, nil); got != nil {
		t.Errorf("not built on this system: %v", got)
	}
	if got := l.unmatched(&pkg{folder: "x", dir: t.TempDir()}, here); !slices.Equal(got, []key{two}) {
		t.Errorf("its file is gone: %v, want %v", got, two)
	}
	good := "x/a.go f\n- a\n+ b\nequivalent: it is\n"
	for _, bad := range []string{good + "\n" + good, "x/a.go f\n- a\n+ b", "x/a.go f\n- a\n+ b\nit is", "x/a.go f\na\n+ b\nequivalent: it is", "x/a.go f\n- a\nb\nequivalent: it is"} {
		if _, err := read(bad); err == nil {
			t.Errorf("%q is read as a list", bad)
		}
	}
}

// Each kind of verdict, on a package whose tests do not find that 0 is as good as -0.
func TestVerdicts(t *testing.T) {
	if err := verdicts(); err != nil {
		t.Error(err)
	}
}

// verdicts builds programs, once however often the tests are run.
var verdicts = sync.OnceValue(func() (err error) {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "mutation")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	all, err := load(ctx, []string{"./testdata/sample"})
	if err != nil {
		return err
	}
	p := all[0]
	if limit, err := p.measure(ctx, dir); err != nil || limit < 10*time.Second {
		return fmt.Errorf("measured %v, %w", limit, err)
	}
	mutants, err := p.mutants()
	if err != nil {
		return err
	}
	want := map[string]verdict{"if n <= 0 {": survived, "if n < 1 {": survived, "if n >= 0 {": killed, "n++": hung}
	for _, m := range mutants {
		expected, ok := want[m.key().after]
		if !ok {
			continue
		}
		delete(want, m.key().after)
		if got, err := p.verdict(ctx, dir, m, time.Second); err != nil || got != expected {
			return fmt.Errorf("%v: %d, %v; want %d", m, got, err, expected)
		}
	}
	if len(want) > 0 {
		return fmt.Errorf("not among the mutants: %v", want)
	}
	m := mutants[0]
	m.text = "nonsense here"
	if got, err := p.verdict(ctx, dir, m, time.Second); err != nil || got != unbuilt {
		return fmt.Errorf("nonsense: %d, %v; want %d", got, err, unbuilt)
	}
	return nil
})
