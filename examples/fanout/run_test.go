package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/escapement-go/escapement/examples/strictapi"
)

// asProgram makes the test binary the program itself, for those tests that need a process.
const asProgram = "FANOUT_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// outcome is what a run leaves behind.
type outcome struct {
	status         int
	stdout, stderr string
	api            *strictapi.Server
}

// play runs the program in this process.
func play(t *testing.T, ctx context.Context, stdin string, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	p := program{stdin: strings.NewReader(stdin), stdout: &stdout, stderr: &stderr}
	if stdin == "" {
		p.stdin = nil
	}
	status := p.run(ctx, args)
	return outcome{status, stdout.String(), stderr.String(), p.api}
}

func TestHoldsTheLimit(t *testing.T) {
	for _, c := range []struct {
		name  string
		args  string
		n     int
		most  int
		span  time.Duration
		slots int
	}{
		{"default", "-n 150", 150, 100, time.Second, 32},
		{"window", "-n 130 -rate unlimited -window 60/1s", 130, 60, time.Second, 32},
		{"window and rate", "-n 50 -rate 100/s -window 20/500ms", 50, 20, 500 * time.Millisecond, 32},
		{"window with a guard", "-n 50 -window 30/1s -guard 2s", 50, 30, time.Second, 32},
		{"1 in flight", "-n 60 -limit 1 -api-latency 10ms", 60, 100, time.Second, 1},
		{"8 in flight", "-n 110 -limit 8", 110, 100, time.Second, 8},
		{"64 in flight", "-n 120 -limit 64 -api-latency 600ms", 120, 100, time.Second, 64},
		{"8 in flight and nothing else", "-n 300 -limit 8 -rate unlimited -api-latency 10ms", 300, 300, time.Second, 8},
		{"burst", "-n 90 -rate 50/s -burst 30 -window none -api-limit none", 90, 90, time.Second, 32},
		{"fixed window", "-n 110 -api fixed", 110, 100, time.Second, 32},
		{"leaky bucket", "-n 130 -api leaky -window none", 130, 130, time.Second, 32},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := play(t, t.Context(), "", strings.Fields(c.args)...)
			if o.status != ok {
				t.Errorf("status %d, want 0", o.status)
			}
			r := o.api.Report()
			if r.Refusals != 0 || r.Calls != c.n || r.ByStatus[200] != c.n {
				t.Errorf("%d refused, %d calls, by status %v; want %d with status 200 and no other",
					r.Refusals, r.Calls, r.ByStatus, c.n)
			}
			if worst := r.Worst(c.span); worst > c.most {
				t.Errorf("%d arrivals in %v, want at most %d", worst, c.span, c.most)
			}
			if r.PeakInFlight > c.slots {
				t.Errorf("%d in flight, want at most %d", r.PeakInFlight, c.slots)
			}
			wantRow(t, o.stderr, "calls", fmt.Sprint(c.n))
			wantRow(t, o.stderr, "failed", "0")
			wantRow(t, o.stderr, "by status", fmt.Sprintf("200: %d", c.n))
			wantRow(t, o.stderr, "refused by the server", "0")
			wantRow(t, o.stderr, "worst second", fmt.Sprintf("%d arrivals", r.Worst(time.Second)))
			wantRow(t, o.stderr, "worst sliding window", fmt.Sprintf(`%d arrivals in .*`, r.Worst(c.span)))
			wantRow(t, o.stderr, "most in flight", fmt.Sprint(r.PeakInFlight))
			wantRow(t, o.stderr, "seconds", `\d+\.\d{3}`)
			wantRow(t, o.stderr, "achieved rate", `\d+\.\d\d/s`)
			wantRow(t, o.stderr, "latency", `p50 [\d.]+m?s, p90 [\d.]+m?s, p99 [\d.]+m?s, max [\d.]+m?s`)
			wantRow(t, o.stderr, "waited at the gate", `p50 .*, p90 .*, p99 .*, max .*, .* in all`)
			if results := decode(t, o.stdout); len(results) != c.n {
				t.Errorf("%d results, want %d", len(results), c.n)
			}
		})
	}
}

// row returns what the summary says under the name.
func row(summary, name string) string {
	for line := range strings.Lines(summary) {
		if text, found := strings.CutPrefix(line, name+":"); found {
			return strings.TrimSpace(text)
		}
	}
	return ""
}

func wantRow(t *testing.T, summary, name, pattern string) {
	t.Helper()
	if got := row(summary, name); !regexp.MustCompile("^" + pattern + "$").MatchString(got) {
		t.Errorf("summary says %q for %q, want %q; all of it:\n%s", got, name, pattern, summary)
	}
}

// decode reads lines of JSON, strictly.
func decode(t *testing.T, text string) []line {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	var all []line
	for {
		var l line
		switch err := d.Decode(&l); err {
		case nil:
			all = append(all, l)
		case io.EOF:
			return all
		default:
			t.Fatalf("line %d: %v", len(all)+1, err)
		}
	}
}

func TestGoingOverTheLimitFails(t *testing.T) {
	t.Parallel()
	o := play(t, t.Context(), "", strings.Fields("-n 60 -rate unlimited -api-limit 20/1m -api-latency 0s")...)
	if o.status != failed {
		t.Errorf("status %d, want 1", o.status)
	}
	r := o.api.Report()
	if r.ByStatus[200] != 20 || r.ByStatus[429] != 1 || r.ByStatus[403] != 39 || r.Bans != 1 {
		t.Errorf("by status %v, %d bans; want 20 through, one refused, and a ban for the rest", r.ByStatus, r.Bans)
	}
	wantRow(t, o.stderr, "failed", "40")
	wantRow(t, o.stderr, "by status", "200: 20, 403: 39, 429: 1")
	wantRow(t, o.stderr, "refused by the server", "40")
	wantRow(t, o.stderr, "the server's limit", "20 in any 1m0s, 32 in flight")
}

// remote is a server that is not the program's own.
func remote(t *testing.T, h http.HandlerFunc) string {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func TestFetchesURLs(t *testing.T) {
	t.Parallel()
	var redirected atomic.Bool
	url := remote(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != "PUT" || r.Host != "example.org" || r.Header.Get("X-Key") != "k: 1" || len(r.Header["Accept"]) != 2 {
			t.Errorf("got %s, host %s, header %v", r.Method, r.Host, r.Header)
		}
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "/there", http.StatusFound)
		case "/there":
			redirected.Store(true)
		default:
			io.WriteString(w, r.URL.RawQuery)
		}
	})
	list := "# a list\n\n  " + url + "/a?x=<1>&y=2  \r\n" + url + "/moved\n"
	file := filepath.Join(t.TempDir(), "urls.txt")
	if err := os.WriteFile(file, []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := []string{"-method", "PUT", "-H", "Host: example.org", "-H", "X-Key:k: 1", "-H", "Accept: a", "-H", "Accept: b"}
	for _, c := range []struct {
		name, stdin string
		args        []string
		n           int
	}{
		{"standard input", list, nil, 2},
		{"standard input by name", list, []string{"-urls", "-"}, 2},
		{"file", "", []string{"-urls", file}, 2},
		{"file before standard input", "nonsense", []string{"-urls", file}, 2},
		{"again from the first", list, []string{"-n", "5"}, 5},
		{"not all", list, []string{"-n", "1"}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := play(t, t.Context(), c.stdin, append(c.args, flags...)...)
			if o.status != ok || o.api != nil {
				t.Errorf("status %d, own API %v; want 0 and none:\n%s", o.status, o.api, o.stderr)
			}
			results := decode(t, o.stdout)
			if len(results) != c.n {
				t.Fatalf("%d results, want %d", len(results), c.n)
			}
			for _, r := range results {
				if r.URL == url+"/moved" {
					if r.Status != 302 {
						t.Errorf("%+v, want 302 for a redirect", r)
					}
					continue
				}
				start, err := time.Parse(time.RFC3339Nano, r.Start)
				if r.URL != url+"/a?x=<1>&y=2" || r.Status != 200 || r.Bytes != 9 || r.Error != "" ||
					r.Latency <= 0 || r.Waited < 0 || err != nil || time.Since(start) < 0 {
					t.Errorf("%+v, %v", r, err)
				}
			}
			if !strings.Contains(o.stdout, "x=<1>&y=2") && c.n > 1 {
				t.Errorf("the URL was rewritten: %s", o.stdout)
			}
			if strings.Contains(o.stderr, "the server") {
				t.Errorf("the summary tells of a server that is not ours:\n%s", o.stderr)
			}
		})
	}
	if redirected.Load() {
		t.Error("a redirect was followed: a call that did not pass the gate")
	}
}

func TestFailedCalls(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	url := remote(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/404":
			w.WriteHeader(404)
		case "/500":
			w.WriteHeader(500)
		case "/late":
			<-over
		case "/short":
			w.Header().Set("Content-Length", "10")
			io.WriteString(w, "short")
		}
	})
	t.Cleanup(func() { close(over) })
	gone := httptest.NewServer(nil)
	gone.Close()
	for _, c := range []struct {
		name, url, flags string
		status           int
		err              string // a pattern
	}{
		{"4xx", url + "/404", "", 404, "^$"},
		{"5xx", url + "/500", "", 500, "^$"},
		{"no answer in time", url + "/late", "-timeout 100ms", 0, "^no answer within 100ms$"},
		{"half a body", url + "/short", "", 200, "^unexpected EOF$"},
		{"nobody there", gone.URL, "", 0, "^dial tcp "},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := play(t, t.Context(), c.url, strings.Fields(c.flags)...)
			if o.status != failed {
				t.Errorf("status %d, want 1", o.status)
			}
			wantRow(t, o.stderr, "calls", "1")
			wantRow(t, o.stderr, "failed", "1")
			for _, r := range decode(t, o.stdout) {
				if r.URL != c.url || r.Status != c.status || !regexp.MustCompile(c.err).MatchString(r.Error) {
					t.Errorf("%+v, want status %d and error %q", r, c.status, c.err)
				}
			}
		})
	}
}

func TestOutput(t *testing.T) {
	t.Parallel()
	url := remote(t, func(w http.ResponseWriter, r *http.Request) {})
	t.Run("file", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "results")
		o := play(t, t.Context(), url, "-out", file)
		text, err := os.ReadFile(file)
		if results := decode(t, string(text)); o.status != ok || err != nil || len(results) != 1 || o.stdout != "" {
			t.Errorf("status %d, %v, results %v, on standard output %q", o.status, err, results, o.stdout)
		}
	})
	t.Run("quiet", func(t *testing.T) {
		o := play(t, t.Context(), url, "-quiet", "-out", "-")
		if results := decode(t, o.stdout); o.status != ok || len(results) != 1 || o.stderr != "" {
			t.Errorf("status %d, results %v, on standard error %q", o.status, results, o.stderr)
		}
	})
	t.Run("a pipe gets no bar", func(t *testing.T) {
		o := play(t, t.Context(), url+"\n"+url)
		if strings.ContainsAny(o.stdout+o.stderr, "\r\x1b") {
			t.Errorf("control characters in %q or %q", o.stdout, o.stderr)
		}
		if results := decode(t, o.stdout); len(results) != 2 {
			t.Errorf("results %v, want 2", results)
		}
	})
	t.Run("no room", func(t *testing.T) {
		if runtime.GOOS != "linux" {
			t.Skip("a full disk can be had on Linux only, as /dev/full")
		}
		o := play(t, t.Context(), url, "-n", "3", "-rate", "1/h", "-out", "/dev/full")
		if o.status != failed || !strings.Contains(o.stderr, "fanout: writing the results: ") {
			t.Errorf("status %d, on standard error %q; want 1 and the reason", o.status, o.stderr)
		}
		wantRow(t, o.stderr, "calls", "1")
		wantRow(t, o.stderr, "not started", "2")
	})
}

func TestContextEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	url := remote(t, func(w http.ResponseWriter, r *http.Request) { cancel() })
	o := play(t, ctx, url, "-rate", "1/h", "-n", "3")
	if o.status != interrupted {
		t.Errorf("status %d, want 130", o.status)
	}
	wantRow(t, o.stderr, "calls", "1")
	wantRow(t, o.stderr, "not started", "2")
	wantRow(t, o.stderr, "by status", "200: 1") // it was in flight, and came to its end
}
