package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The table has a line for each world, and the picture is there.
func TestTableAndPicture(t *testing.T) {
	var out, errs bytes.Buffer
	file := filepath.Join(t.TempDir(), "out.svg")
	if code := run([]string{"-cells", "^limit/", "-plot", file}, &out, &errs); code != 0 || errs.Len() != 0 {
		t.Fatalf("exit %d, standard error %q", code, errs.String())
	}
	checkPicture(t, file)
	if lines, want := strings.Count(out.String(), "\n"), 2+1+len(bursts)*len(latencies)*len(tolds)+3; lines != want {
		t.Errorf("%d lines, want %d", lines, want)
	}
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
	if root != "svg" || paths < 2*3+2*4 {
		t.Errorf("a %s with %d paths", root, paths)
	}
}

// Two runs of one world are the same.
func TestDeterministic(t *testing.T) {
	w := find("both/64/200ms/burst/5")
	kinds := []kind{newGated, newFounding, newCubic, newFixed}
	if a, b := fmt.Sprint(w.row(kinds, 1)), fmt.Sprint(w.row(kinds, 1)); a != b {
		t.Errorf("%s and %s", a, b)
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
		{"-cells (", 2},
		{"-cells nothing", 2},
		{"-plot out.png", 2},
		{"-plot /nowhere/out.svg", 1},
	} {
		var errs bytes.Buffer
		if code := run(strings.Fields(tt.args), io.Discard, &errs); code != tt.code || errs.Len() == 0 {
			t.Errorf("%s: exit %d, want %d; standard error %q", tt.args, code, tt.code, errs.String())
		}
	}
	if code := run([]string{"-cells", "^limit/"}, full{}, io.Discard); code != 1 {
		t.Errorf("the table could not be written: exit %d, want 1", code)
	}
}

// full is a disk with no space left.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }
