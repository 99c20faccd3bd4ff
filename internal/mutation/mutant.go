package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mutant is one change of a file: the bytes from one offset to another become text.
type mutant struct {
	file     string // its path
	shown    string // its path in the module
	source   []byte
	in       string // the function around it; "": none
	line     int
	from, to int
	text     string
}

// key identifies a mutant by what it changes, wherever its line moves.
type key struct{ file, in, before, after string }

func (k key) String() string {
	return fmt.Sprintf("%s %s: %s -> %s", k.file, k.in, k.before, k.after)
}

// key shows the first line of the change as it was and as it is.
func (m mutant) key() key {
	start := bytes.LastIndexByte(m.source[:m.from], '\n') + 1
	firstLine := func(s []byte) string {
		line, _, _ := bytes.Cut(s, []byte("\n"))
		return strings.Join(strings.Fields(string(line)), " ")
	}
	after := slices.Concat(m.source[start:m.from], []byte(m.text), m.source[m.to:])
	if bytes.IndexByte(m.source[m.from:m.to], '\n') >= 0 {
		after = slices.Concat(m.source[start:m.from], []byte(m.text), []byte(" …"))
	}
	k := key{m.shown, m.in, firstLine(m.source[start:]), firstLine(after)}
	if k.after == "" || k.after == "…" {
		k.after = "(removed)"
	}
	return k
}

func (m mutant) String() string {
	k := m.key()
	return fmt.Sprintf("%s:%d: %s: %s -> %s", m.shown, m.line, m.in, k.before, k.after)
}

// changed returns the file with the change in it.
func (m mutant) changed() []byte {
	return slices.Concat(m.source[:m.from], []byte(m.text), m.source[m.to:])
}

// mutants returns all mutants of the package's files; p.files has no tests.
func (p *pkg) mutants() ([]mutant, error) {
	var all []mutant
	for _, name := range p.files {
		path := filepath.Join(p.dir, name)
		source, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		found, err := mutate(path, source)
		if err != nil {
			return nil, err
		}
		for i := range found {
			found[i].shown = p.folder + "/" + name
		}
		all = append(all, found...)
	}
	return all, nil
}

// mutate returns all mutants of one file, in the order of the code.
func mutate(path string, source []byte) ([]mutant, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var all []mutant
	for _, d := range file.Decls {
		in := ""
		if f, ok := d.(*ast.FuncDecl); ok {
			in = f.Name.Name
		}
		offset := func(p token.Pos) int { return set.Position(p).Offset }
		original := func(n ast.Node) string { return string(source[offset(n.Pos()):offset(n.End())]) }
		changes(d, original, func(from, to token.Pos, text string) {
			if string(source[offset(from):offset(to)]) == text {
				return
			}
			all = append(all, mutant{
				file: path, source: source, in: in, line: set.Position(from).Line,
				from: offset(from), to: offset(to), text: text,
			})
		})
	}
	slices.SortStableFunc(all, func(a, b mutant) int { return a.from - b.from })
	return all, nil
}
