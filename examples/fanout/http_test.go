package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// -http shows the gates of a run, its group and its retries.
func TestPageOfARun(t *testing.T) {
	t.Parallel()
	read, write := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		defer write.Close()
		ended <- run(t.Context(), []string{"-http", "127.0.0.1:0", "-n", "150", "-retries", "1"}, strings.NewReader(""), io.Discard, write)
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
	type thing struct{ Name string }
	var page struct{ Gates, Groups, Policies []thing }
	if err := json.NewDecoder(resp.Body).Decode(&page); err != nil {
		t.Error(err)
	}
	var names []string
	for _, all := range [][]thing{page.Gates, page.Policies} {
		for _, a := range all {
			names = append(names, a.Name)
		}
	}
	if got := strings.Join(names, ", "); got != "calls, pace, in flight, window, calls" {
		t.Errorf("the page has %s", got)
	}
	go io.Copy(io.Discard, lines)
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestBadAddressOfAPage(t *testing.T) {
	t.Parallel()
	var stderr strings.Builder
	if code := run(t.Context(), []string{"-http", "127.0.0.1:-1", "-n", "1"}, strings.NewReader(""), io.Discard, &stderr); code != misuse {
		t.Errorf("exit code %d, %s", code, &stderr)
	}
}
