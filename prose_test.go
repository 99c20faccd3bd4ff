package escapement_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Comments name the actor: caller, waiter, entry, goroutine. These words leave it out. A reader
// then looks back for it. Run with -v to see where they are.
var vague = regexp.MustCompile(`(?i)\b(who|whoever|whom|whose|nobody|somebody|anybody|everybody|someone|anyone|everyone|no one|somebody's|nobody's)\b`)

// The shares that are left, in thousandths. They may only fall: lower them with the prose.
const (
	vagueAtMost = 0 // lines of comments with a vague actor
	longAtMost  = 0 // sentences of more than 25 words
)

func TestPlainWords(t *testing.T) {
	lines, vagueLines, sentences, long := 0, 0, 0, 0
	err := filepath.WalkDir(".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			if err == nil && path != "." && (strings.HasPrefix(e.Name(), ".") || e.Name() == "testdata") {
				return filepath.SkipDir
			}
			return err
		}
		var texts []string
		switch {
		case strings.HasSuffix(path, "_test.go") && !strings.Contains(filepath.Base(path), "example"):
			return nil // examples are documentation
		case strings.HasSuffix(path, ".go"):
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
			if err != nil {
				return err
			}
			for _, group := range file.Comments {
				text, _, _ := strings.Cut(group.Text(), "Output:") // what an example prints is not prose
				texts = append(texts, text)
			}
		case strings.HasSuffix(path, ".md"):
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			texts = append(texts, string(text))
		default:
			return nil
		}
		for _, text := range texts {
			for line := range strings.Lines(text) {
				if strings.TrimSpace(line) == "" {
					continue
				}
				lines++
				if vague.MatchString(line) {
					vagueLines++
					t.Logf("%s: %s", path, strings.TrimSpace(line))
				}
			}
			for _, s := range sentencesOf(text) {
				sentences++
				if n := len(strings.Fields(s)); n > 25 {
					long++
					t.Logf("%s: %d words: %s", path, n, s)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of %d lines have a vague actor, %d of %d sentences more than 25 words", vagueLines, lines, long, sentences)
	if got := 1000 * vagueLines / lines; got > vagueAtMost {
		t.Errorf("%d in 1000 lines have a vague actor, want at most %d", got, vagueAtMost)
	}
	if got := 1000 * long / sentences; got > longAtMost {
		t.Errorf("%d in 1000 sentences have more than 25 words, want at most %d", got, longAtMost)
	}
}

var (
	// A block that is no prose: code, a table, a picture, a line of a list is a paragraph.
	code        = regexp.MustCompile("(?ms)^```.*?^```$|^(\t|    ).*$|^\\|.*$|^!?\\[.*$|^#.*$|^//go:.*$")
	item        = regexp.MustCompile(`(?m)^\s*([-*]|\d+\.) `)
	sentenceEnd = regexp.MustCompile(`[.!?]["')*]*\s`)
)

// sentencesOf splits text into sentences. What is indented, fenced or in a table is not prose.
func sentencesOf(text string) (all []string) {
	text = item.ReplaceAllString(code.ReplaceAllString(text, "\n"), "\n\n")
	for _, paragraph := range regexp.MustCompile(`\n\s*\n`).Split(text, -1) {
		paragraph = strings.Join(strings.Fields(paragraph), " ") + " "
		for from := 0; from < len(paragraph)-1; {
			at := sentenceEnd.FindStringIndex(paragraph[from:])
			if at == nil {
				at = []int{0, len(paragraph) - from}
			}
			if s := strings.TrimSpace(paragraph[from : from+at[1]]); s != "" {
				all = append(all, s)
			}
			from += at[1]
		}
	}
	return all
}
