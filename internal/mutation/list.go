package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// list has the mutants that are known to survive, each with the reason. It is a text of paragraphs
// with four lines each:
//
//	internal/schedule/wide.go plus
//	- the line as it is
//	+ the line as the mutant has it
//	equivalent: the reason
//
// Equivalent means that no test can find it: the package's behaviour is the same. Where a test
// could, but is not worth it, the word is "accepted", and the mutant counts as survived. Lines that
// begin with # are comments.
type list struct {
	keys    []key
	reasons map[key]string
}

func readList(name string) (list, error) {
	l := list{reasons: map[key]string{}}
	text, err := os.ReadFile(name)
	if err != nil {
		return l, err
	}
	for paragraph := range strings.SplitSeq(string(text), "\n\n") {
		var lines []string
		for line := range strings.Lines(paragraph) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				lines = append(lines, line)
			}
		}
		if len(lines) == 0 {
			continue
		}
		k, err := parse(lines)
		if err != nil {
			return l, fmt.Errorf("%s: %w in\n%s", name, err, paragraph)
		}
		if l.reasons[k] != "" {
			return l, fmt.Errorf("%s: %v is there twice", name, k)
		}
		l.keys = append(l.keys, k)
		l.reasons[k] = lines[3]
	}
	return l, nil
}

func parse(lines []string) (key, error) {
	if len(lines) != 4 {
		return key{}, fmt.Errorf("%d lines, want 4", len(lines))
	}
	file, in, _ := strings.Cut(lines[0], " ")
	before, ok := strings.CutPrefix(lines[1], "- ")
	if !ok {
		return key{}, fmt.Errorf("no line that begins with '- '")
	}
	after, ok := strings.CutPrefix(lines[2], "+ ")
	if !ok {
		return key{}, fmt.Errorf("no line that begins with '+ '")
	}
	word, reason, _ := strings.Cut(lines[3], ": ")
	if word != "equivalent" && word != "accepted" || reason == "" {
		return key{}, fmt.Errorf("no reason that begins with 'equivalent: ' or 'accepted: '")
	}
	return key{file, in, before, after}, nil
}

func (l list) equivalent(k key) bool { return strings.HasPrefix(l.reasons[k], "equivalent") }

// reason returns why a mutant survives, for the end of a line.
func (l list) reason(k key) string {
	if r := l.reasons[k]; r != "" {
		return " (" + r + ")"
	}
	return ""
}

// unmatched returns the entries for a package that match none of its mutants. An entry for a file that is there
// but is not built on this system is left out.
func (l list) unmatched(p *pkg, all []mutant) []key {
	here := map[key]bool{}
	for _, m := range all {
		here[m.key()] = true
	}
	var stale []key
	for _, k := range l.keys {
		folder, name := path.Split(k.file)
		if folder != p.folder+"/" || here[k] {
			continue
		}
		if _, err := os.Stat(filepath.Join(p.dir, name)); err != nil || slices.Contains(p.files, name) {
			stale = append(stale, k)
		}
	}
	return stale
}
