package clients

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// counts are what was measured, by client, setup and status.
type counts map[string]map[string]map[int]count

func (m counts) add(client, setup string, status int, n count) {
	if m[client] == nil {
		m[client] = map[string]map[int]count{}
	}
	if m[client][setup] == nil {
		m[client][setup] = map[int]count{}
	}
	m[client][setup][status] = n
}

// cell returns a cell of the README's table. The mark is for those that came too early.
func (m counts) cell(client, setup string) string {
	var cell []string
	for _, status := range statuses {
		n, ok := m[client][setup][status]
		switch {
		case !ok:
			continue
		case n.early > 0:
			cell = append(cell, fmt.Sprint(n.all, "!"))
		default:
			cell = append(cell, fmt.Sprint(n.all))
		}
	}
	return strings.Join(cell, " ")
}

// row returns a row of it.
func (m counts) row(client string) string {
	row := "| " + client + " |"
	for _, s := range setups {
		row += " " + m.cell(client, s.name) + " |"
	}
	return strings.ReplaceAll(row, "|  |", "| |")
}

// whole reports whether all of a row was measured.
func (m counts) whole(c client) bool {
	for _, s := range setups {
		if len(m[c.name][s.name]) < len(statuses) && (s.name != asBelow.name || c.snippet != nil) {
			return false
		}
	}
	return true
}

// compare compares what was measured with the README. A row that -run has left out is passed over.
func (m counts) compare(t *testing.T) {
	text := readme(t)
	for _, c := range clients {
		if !m.whole(c) {
			continue
		}
		if row := m.row(c.name); !strings.Contains(text, "\n"+row+"\n") {
			t.Errorf("README.md does not have this row:\n%s", row)
		}
	}
}

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The README's snippets are code that these tests compile and run: whole declarations, word for
// word, one for each client that has one.
func TestSnippets(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var sources []string
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, string(text))
	}
	blocks := strings.Split(readme(t), "\n```go\n")[1:]
	want := 0
	for _, c := range clients {
		if c.snippet != nil && c.name != awsPut.name {
			want++
		}
	}
	if len(blocks) != want {
		t.Errorf("%d snippets, want %d", len(blocks), want)
	}
	for _, b := range blocks {
		code, _, ended := strings.Cut(b, "```\n")
		whole := strings.HasPrefix(code, "func new") && strings.HasSuffix(code, "\n}\n")
		if !ended || !whole || !slices.ContainsFunc(sources, func(s string) bool { return strings.Contains(s, "\n"+code) }) {
			t.Errorf("not in the tests, word for word, or no whole declaration:\n%s", code)
		}
	}
}
