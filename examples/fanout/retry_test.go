package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Whatever the mood of the API, each call is answered 200 in the end, nobody is banned, and the server
// saw no call that did not pass the gate. How fast that was is printed: it depends on the machine.
func TestMoods(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, args string
		n          int
	}{
		{"below", "-n 100 -rate 100/s -limit 64 -api-latency 200ms -api-mood below -adaptive", 100},
		{"change", "-n 60 -rate 50/s -api-limit 25/500ms -api-latency 20ms -api-mood change -adaptive", 60},
		{"503 and slow", "-n 60 -api-mood slow,503 -api-latency 20ms", 60},
		{"drop", "-n 200 -rate unlimited -window none -api-limit none -api-latency 10ms -api-mood drop", 200},
		{"all but change", "-n 20 -rate 100/s -api-limit 10/100ms -api-mood below,503,drop,slow -api-latency 10ms -adaptive", 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := play(t, t.Context(), "", append(strings.Fields(c.args), "-retries", "12")...)
			if o.status != ok {
				t.Errorf("status %d, want 0:\n%s", o.status, o.stderr)
			}
			r := o.api.Report()
			if r.ByStatus[200] != c.n || r.Bans != 0 {
				t.Errorf("by status %v, %d bans; want %d with status 200 and no ban", r.ByStatus, r.Bans, c.n)
			}
			wantRow(t, o.stderr, "by status", fmt.Sprintf("200: %d", c.n))
			wantRow(t, o.stderr, "attempts", fmt.Sprint(r.Calls)) // none was sent by anybody else
			wantRow(t, o.stderr, "throttled", fmt.Sprint(r.ByStatus[429]))
			attempts := 0
			for _, l := range decode(t, o.stdout) {
				attempts += max(1, l.Tries)
			}
			if attempts != r.Calls {
				t.Errorf("the results tell of %d attempts, want %d", attempts, r.Calls)
			}
			t.Logf("%v in %s s; goodput: %s", r.ByStatus, row(o.stderr, "seconds"), row(o.stderr, "goodput"))
		})
	}
}

// refusing is a server that answers the first calls to each path with a status, and then 200.
func refusing(t *testing.T, status, first int, header http.Header) (url string, calls *atomic.Int64) {
	calls = new(atomic.Int64)
	return remote(t, func(w http.ResponseWriter, r *http.Request) {
		if n := calls.Add(1); n > int64(first) {
			return
		}
		for name, values := range header {
			w.Header()[name] = values
		}
		w.WriteHeader(status)
	}), calls
}

func TestRetries(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		answer int // of the first calls
		first  int
		args   string
		calls  int64
		status int // in the end
	}{
		{"503", 503, 2, "-retries 2", 3, 200},
		{"503 once too often", 503, 9, "-retries 2", 3, 503},
		{"none", 503, 9, "", 1, 503},
		{"none, with a gate that listens", 503, 9, "-adaptive", 1, 503},
		{"404", 404, 9, "-retries 2", 1, 404},
		{"501", 501, 9, "-retries 2", 1, 501},
		{"429", 429, 2, "-retries 2", 3, 200},
		{"429 counts if nobody listens", 429, 9, "-retries 2", 3, 429},
		{"429 does not count if the gate listens", 429, 4, "-retries 1 -adaptive", 5, 200},
		{"429 is not made again without retries", 429, 9, "-adaptive", 1, 429},
		{"POST is not made again", 503, 9, "-retries 2 -method POST", 1, 503},
		{"POST that was refused is", 429, 1, "-retries 2 -method POST", 2, 200},
		{"POST with a key is", 503, 1, "-retries 2 -method POST -H Idempotency-Key:1", 2, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url, calls := refusing(t, c.answer, c.first, nil)
			o := play(t, t.Context(), url, append(strings.Fields(c.args), "-rate", "1000/s")...)
			want := ok
			if c.status >= 400 {
				want = failed
			}
			results := decode(t, o.stdout)
			if o.status != want || len(results) != 1 || results[0].Status != c.status || calls.Load() != c.calls {
				t.Errorf("status %d, %d calls, results %+v; want %d, %d and %d:\n%s",
					o.status, calls.Load(), results, want, c.calls, c.status, o.stderr)
			}
		})
	}
}

// A Retry-After holds everyone, and that much of it is in the summary.
func TestHeld(t *testing.T) {
	t.Parallel()
	url, _ := refusing(t, 429, 1, http.Header{"Retry-After": {"1"}})
	begun := time.Now()
	o := play(t, t.Context(), url, strings.Fields("-n 3 -rate 1000/s -limit 1 -retries 1 -adaptive")...)
	if d := time.Since(begun); o.status != ok || d < time.Second {
		t.Errorf("status %d after %v, want 0 after at least a second", o.status, d)
	}
	wantRow(t, o.stderr, "held by the server", `1s`)
	wantRow(t, o.stderr, "attempts", "4")
	wantRow(t, o.stderr, "throttled", "1")
}

// A server that always refuses is left alone in the end.
func TestGivesUp(t *testing.T) {
	t.Parallel()
	url, calls := refusing(t, 429, 1e6, nil)
	o := play(t, t.Context(), url, strings.Fields("-n 5000 -rate 1/ns -limit 1 -retries 1 -adaptive")...)
	if o.status != failed || !strings.Contains(o.stderr, "fanout: the server refuses, however slow the pace: ") {
		t.Errorf("status %d, want 1 and the reason:\n%s", o.status, o.stderr)
	}
	if calls.Load() >= 5000 {
		t.Errorf("%d calls, want some not to be made", calls.Load())
	}
}

// After an interrupt nothing is made again either.
func TestContextEndsBeforeRetry(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	url := remote(t, func(w http.ResponseWriter, r *http.Request) {
		cancel()
		w.WriteHeader(503)
	})
	o := play(t, ctx, url, "-rate", "1/h", "-n", "3", "-retries", "5")
	if o.status != interrupted {
		t.Errorf("status %d, want 130", o.status)
	}
	wantRow(t, o.stderr, "attempts", "1")
	wantRow(t, o.stderr, "by status", "503: 1") // it was in flight, and came to its end
	wantRow(t, o.stderr, "not started", "2")
}

func TestPlot(t *testing.T) {
	t.Parallel()
	for _, ext := range pictures {
		file := filepath.Join(t.TempDir(), "pace"+ext)
		o := play(t, t.Context(), "", "-n", "20", "-rate", "200/s", "-api-latency", "10ms", "-adaptive", "-api-mood", "below", "-retries", "1", "-plot", file)
		text, err := os.ReadFile(file)
		if o.status != ok || err != nil || len(text) < 1000 {
			t.Errorf("status %d, %v, %d bytes", o.status, err, len(text))
		}
		if ext == ".svg" && !regexp.MustCompile(`(?s)<svg.*the server&#39;s limit.*</svg>|(?s)<svg.*the server's limit.*</svg>`).Match(text) {
			t.Errorf("the picture does not show the limit: %.300s", text)
		}
	}
	t.Run("no room", func(t *testing.T) {
		if _, err := os.Stat("/dev/full"); err != nil {
			t.Skipf("a full disk can be had on Linux only: %v", err)
		}
		f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		p := picture{journal: newJournal(&options{})}
		if err := p.draw(f, "svg"); err == nil {
			t.Error("no error")
		}
		f.Close()
	})
}
