package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// -http shows the stages of a run, and their gate.
func TestPageOfARun(t *testing.T) {
	t.Parallel()
	read, write := io.Pipe()
	ended := make(chan int, 1)
	args := []string{"-http", "127.0.0.1:0", "-n", "100", "-calm", "-db", filepath.Join(t.TempDir(), "pages.db")}
	go func() {
		defer write.Close()
		ended <- run(t.Context(), args, strings.NewReader(""), io.Discard, write)
	}()
	lines := bufio.NewReader(read)
	line, err := lines.ReadString('\n')
	url := strings.TrimSpace(strings.TrimPrefix(line, "the gates are at "))
	if err != nil || !strings.HasPrefix(url, "http://127.0.0.1:") {
		t.Fatalf("%q, %v", line, err)
	}
	resp, err := http.Get(url + "json")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	type thing struct {
		Name   string
		Stages []struct{ Name string }
	}
	var page struct{ Gates, Pipelines, Policies []thing }
	if err := json.NewDecoder(resp.Body).Decode(&page); err != nil {
		t.Error(err)
	}
	var names []string
	for _, all := range [][]thing{page.Gates, page.Pipelines, page.Policies} {
		for _, a := range all {
			names = append(names, a.Name)
			for _, s := range a.Stages {
				names = append(names, s.Name)
			}
		}
	}
	if got := strings.Join(names, ", "); got != "calls, pace, window, in flight, list to database, fetch, decode, write, calls" {
		t.Errorf("the page has %s", got)
	}
	go io.Copy(io.Discard, lines)
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d", code)
	}
}
