package report

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestBar(t *testing.T) {
	var out bytes.Buffer
	b := newBar(&out, 4*time.Second)
	b.begin("first")
	b.end(time.Second)
	b.begin("second")
	b.end(3 * time.Second)
	b.finish()
	got := out.String()
	for _, want := range []string{"0.00% about 4s to go: first", "25.00% about 3s to go: second", "100.00%"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	if !strings.HasSuffix(got, "\n") {
		t.Errorf("the line does not end: %q", got)
	}
	b = nil
	b.begin("nothing")
	b.end(time.Second)
	b.finish()
	if isTerminal(&out) {
		t.Error("a buffer is a terminal")
	}
}
