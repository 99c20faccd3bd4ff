package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	var out, errs strings.Builder
	file := filepath.Join(t.TempDir(), "bucket.svg")
	if code := run([]string{"-plot", file}, &out, &errs); code != 0 {
		t.Fatalf("exit code %d: %s", code, &errs)
	}
	want := `100 per second           most within any second
x/time/rate, burst 100   199
gate.Rate, burst 1       100
gate.Window              100
`
	if out.String() != want {
		t.Errorf("printed\n%s, want\n%s", &out, want)
	}
	if svg, err := os.ReadFile(file); err != nil || !strings.Contains(string(svg), "<svg") {
		t.Errorf("the picture: %v", err)
	}
	for _, args := range [][]string{{"what"}, {"-what"}, {"-plot"}} {
		if code := run(args, &out, &errs); code != 2 {
			t.Errorf("%q: exit code %d, want 2", args, code)
		}
	}
	if code := run([]string{"-plot", filepath.Join(file, "x.svg")}, &out, &errs); code != 1 {
		t.Errorf("a file that can't be written: exit code %d, want 1", code)
	}
}
