package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The table says what the library promises: at least 90 % of the goodput, at most 5 % throttled,
// wherever a pace can do that; and the picture is there.
func TestTableAndPicture(t *testing.T) {
	var out, errs bytes.Buffer
	file := filepath.Join(t.TempDir(), "out.svg")
	if code := run([]string{"-plot", file}, &out, &errs); code != 0 || errs.Len() != 0 {
		t.Fatalf("exit %d, standard error %q", code, errs.String())
	}
	checkPicture(t, file)
	cheap, dear, _ := strings.Cut(strings.TrimSpace(out.String()), "\n\n")
	lines := strings.Split(cheap, "\n")[2:]
	if want := len(jitters) * len(bursts) * len(latencies) * len(tolds); len(lines) != want {
		t.Fatalf("%d lines, want %d", len(lines), want)
	}
	for _, line := range lines {
		f := strings.Fields(line)
		if f[1] == "±20%" {
			// By an interval or more: see the package comment.
			if latency, burst := number(t, f[0]), number(t, f[2]); burst == 1 && latency > 0.2 || latency > 20 {
				continue
			}
			f = append(f[:1], f[2:]...)
		}
		if number(t, f[3]) < 90 || number(t, f[4]) > 5 {
			t.Errorf("out of the target: %s", line)
		}
	}
	lines = strings.Split(dear, "\n")
	if want := 2 * len(latencies) * len(tolds); len(lines) != want {
		t.Fatalf("%d lines of dear refusals, want %d", len(lines), want)
	}
	for _, line := range lines {
		f := strings.Fields(line)
		least := 83.0 // six of them are 10 % of the run
		if f[1] == "window" {
			least = 93
		}
		if number(t, f[3]) < least || number(t, f[4]) > 5 {
			t.Errorf("out of the target: %s", line)
		}
	}
}

func number(t *testing.T, s string) float64 {
	x, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func checkPicture(t *testing.T, file string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	paths, root := 0, ""
	for d := xml.NewDecoder(f); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok {
			if root == "" {
				root = e.Name.Local
			}
			if e.Name.Local == "path" {
				paths++
			}
		}
	}
	if root != "svg" || paths < len(latencies)*(len(bursts)+1) {
		t.Errorf("a %s with %d paths", root, paths)
	}
}

// Two runs of one world are the same.
func TestDeterministic(t *testing.T) {
	d := world{latency: 20, burst: 5, told: 0.25, jitter: 0.2, seed: 1}
	var first outcome
	for i := range 2 {
		now := new(virtual)
		o := d.play(now, newGated(now, d.asked()), nil)
		if i == 0 {
			first = o
		} else if o != first {
			t.Errorf("%+v and %+v", first, o)
		}
	}
}

func TestMisuse(t *testing.T) {
	for _, tt := range []struct {
		args string
		code int
	}{
		{"-h", 0},
		{"-nope", 2},
		{"extra", 2},
		{"-plot /nowhere/out.svg", 1},
	} {
		var errs bytes.Buffer
		if code := run(strings.Fields(tt.args), io.Discard, &errs); code != tt.code || errs.Len() == 0 {
			t.Errorf("%s: exit %d, want %d; standard error %q", tt.args, code, tt.code, errs.String())
		}
	}
	if code := run(nil, full{}, io.Discard); code != 1 {
		t.Errorf("the table could not be written: exit %d, want 1", code)
	}
}

// full is a disk with no space left.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }
