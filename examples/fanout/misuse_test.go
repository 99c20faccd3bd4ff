package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/escapement-go/escapement/examples/internal/urllist"
)

func TestMisuse(t *testing.T) {
	t.Parallel()
	url := remote(t, func(http.ResponseWriter, *http.Request) { t.Error("something was sent") })
	dir := t.TempDir()
	file := filepath.Join(dir, "urls.txt")
	text := strings.Repeat(url+"\n", 16) + "ftp://example.org\n" + url + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(dir, "empty.txt")
	if err := os.WriteFile(empty, []byte("# nothing yet\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	absent := filepath.Join(dir, "absent")
	list := " (-h lists the flags)"
	for _, c := range []struct {
		name  string
		stdin string
		args  []string
		want  string
	}{
		{"rate without a slash", "", []string{"-rate", "100"}, `invalid value "100" for flag -rate: pace: ParseRate: a rate must be written as "100/s", "5/10s" or "unlimited", got "100"` + list},
		{"rate of nothing", "", []string{"-rate", "0/s"}, `invalid value "0/s" for flag -rate: pace: ParseRate: the number of events must be at least 1, got "0/s"` + list},
		{"burst", "", []string{"-burst", "0"}, `-burst: must be at least 1, got 0` + list},
		{"window", "", []string{"-window", "5"}, `invalid value "5" for flag -window: a window must be written as "100/1s" or "none"` + list},
		{"window of nothing", "", []string{"-window", "0/1s"}, `invalid value "0/1s" for flag -window: the number of events must be at least 1` + list},
		{"guard", "", []string{"-guard", "-1s"}, `invalid value "-1s" for flag -guard: must be answer, or a duration such as 50ms that is not negative` + list},
		{"limit", "", []string{"-limit", "0"}, `-limit: must be at least 1, got 0` + list},
		{"limit in words", "", []string{"-limit", "many"}, `invalid value "many" for flag -limit: parse error` + list},
		{"n", "", []string{"-n", "0"}, `invalid value "0" for flag -n: must be a whole number of at least 1` + list},
		{"n with a fraction", "", []string{"-n", "1.5"}, `invalid value "1.5" for flag -n: must be a whole number of at least 1` + list},
		{"method", "", []string{"-method", "G T"}, `-method: must be a word such as GET, got "G T"` + list},
		{"header", "", []string{"-H", "Accept"}, `invalid value "Accept" for flag -H: a header must be written as "Name: value"` + list},
		{"name of a header", "", []string{"-H", "My Key: 1"}, `invalid value "My Key: 1" for flag -H: the name of a header must be a word without spaces` + list},
		{"value of a header", "", []string{"-H", "Key: a\nb"}, `invalid value "Key: a\nb" for flag -H: the value of a header must not contain control characters` + list},
		{"retries", "", []string{"-retries", "-1"}, `-retries: must be from 0 to 1000, got -1` + list},
		{"adaptive without a rate", "", []string{"-adaptive", "-rate", "unlimited"}, `-adaptive: -rate must be at most one a nanosecond, got unlimited` + list},
		{"plot", "", []string{"-plot", "pace.gif"}, `-plot: the file must end in .svg, .png, .pdf, got "pace.gif"` + list},
		{"mood", "", []string{"-api-mood", "below,sad"}, `invalid value "below,sad" for flag -api-mood: a mood must be one of below, change, 503, drop, slow` + list},
		{"mood without a limit", "", []string{"-api-mood", "change", "-api-limit", "none"}, `-api-mood: for below and change the API's limit must be at least 4 calls in a span, got unlimited` + list},
		{"mood of a small limit", "", []string{"-api-mood", "below", "-api-limit", "3/1s"}, `-api-mood: for below and change the API's limit must be at least 4 calls in a span, got 3/s` + list},
		{"timeout", "", []string{"-timeout", "0s"}, `-timeout: must be positive, got 0s` + list},
		{"api", "", []string{"-api", "square"}, `-api: must be sliding, fixed or leaky, got "square"` + list},
		{"api in flight", "", []string{"-api-in-flight", "-1"}, `invalid value "-1" for flag -api-in-flight: must be a whole number of at least 1` + list},
		{"api latency", "", []string{"-api-latency", "-1s"}, `-api-latency: must be from 0 to 1h, got -1s` + list},
		{"api bucket", "", []string{"-api", "leaky", "-api-limit", "9000000000/1h"}, `-api leaky: n times the span must be at most 292 years, got 9000000000/h` + list},
		{"api with URLs", url, []string{"-api-latency", "1s"}, `-api-latency: must not be given together with URLs, it is for the program's own API`},
		{"unknown flag", "", []string{"-rat", "1/s"}, `flag provided but not defined: -rat` + list},
		{"argument", "", []string{url}, `there must be no arguments besides flags (URLs go into a file, see -urls), got "` + url + `"` + list},
		{"no file", "", []string{"-urls", absent}, `open ` + absent + `: no such file or directory`},
		{"a folder", "", []string{"-urls", dir}, dir + `: read ` + dir + `: is a directory`},
		{"bad URL in a file", "", []string{"-urls", file}, file + `:17: a URL must begin with http:// or https://, got "ftp://example.org"`},
		{"bad URL", "\n# x\n" + url + "\nexample.org/x\n", nil, `standard input:4: a URL must begin with http:// or https://, got "example.org/x"`},
		{"no host", "http://:80/x", nil, `standard input:1: a URL must name a host, got "http://:80/x"`},
		{"bad port", "http://example.org:x/", nil, `standard input:1: a URL must be well formed (invalid port ":x" after host), got "http://example.org:x/"`},
		{"control character", url + "\nhttp://a\x7fb/", nil, `standard input:2: a URL must be well formed (net/url: invalid control character in URL), got "http://a\x7fb/"`},
		{"long line", "http://example.org/" + strings.Repeat("x", urllist.LongestLine), nil, `standard input:1: a line must be shorter than 1 MiB`},
		{"nothing in the file", "", []string{"-urls", empty}, empty + `: there must be at least one URL, got none`},
		{"nothing to read", "# nothing", []string{"-urls", "-"}, `standard input: there must be at least one URL, got none`},
		{"unwritable picture", url, []string{"-plot", filepath.Join(absent, "x.svg")}, `open ` + filepath.Join(absent, "x.svg") + `: no such file or directory`},
		{"unwritable", url, []string{"-out", filepath.Join(absent, "x")}, `open ` + filepath.Join(absent, "x") + `: no such file or directory`},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := play(t, t.Context(), c.stdin, c.args...)
			if want := "fanout: " + c.want + "\n"; o.status != misuse || o.stderr != want || o.stdout != "" {
				t.Errorf("status %d, on standard error\n%son standard output %q; want 2 and\n%s", o.status, o.stderr, o.stdout, want)
			}
			if o.api != nil {
				t.Error("the API was started")
			}
		})
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	o := play(t, t.Context(), "", "-h")
	if o.status != ok || o.stderr != "" {
		t.Errorf("status %d, on standard error %q", o.status, o.stderr)
	}
	for _, want := range []string{"-rate 100/s", "(default 100/s)", "-guard time", "(default answer)", "-H \"Name: value\"", "-api kind", "Exit status: 0"} {
		if !strings.Contains(o.stdout, want) {
			t.Errorf("the help does not contain %q:\n%s", want, o.stdout)
		}
	}
}

// The defaults are those that the documentation names.
func TestDefaults(t *testing.T) {
	t.Parallel()
	o, err := parse(nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, got, want string }{
		{"rate", o.rate.String(), "100/s"},
		{"window", o.window.String(), "100/s"},
		{"guard", (*guardFlag)(&o.guard).String(), "answer"},
		{"api", o.api.String(), "100 in any 1s, 32 in flight"},
		{"method", o.method, http.MethodGet},
	} {
		if c.got != c.want {
			t.Errorf("%s is %s, want %s", c.name, c.got, c.want)
		}
	}
	if o.limit != 32 || o.burst != 1 || o.n != 0 {
		t.Errorf("limit %d, burst %d, n %d; want 32, 1 and 0", o.limit, o.burst, o.n)
	}
}

// The API demands what the client promises, unless it is told otherwise.
func TestAPIFollows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, want string }{
		{"", "100 in any 1s, 32 in flight"},
		{"-rate 5/10s", "5 in any 10s, 32 in flight"},
		{"-rate 1/300ms -limit 8", "4 in any 1.2s, 8 in flight"},
		{"-rate 9223372036854775807/ns", "32 in flight"},
		{"-window 50/1m -rate 7/s", "50 in any 1m0s, 32 in flight"},
		{"-window none", "100 in any 1s, 32 in flight"},
		{"-rate unlimited", "32 in flight"},
		{"-rate unlimited -window 20/1s", "20 in any 1s, 32 in flight"},
		{"-api fixed -limit 3", "100 in each 1s, 3 in flight"},
		{"-api leaky", "100/s from a bucket of 100, 32 in flight"},
		{"-api leaky -burst 200", "100/s from a bucket of 200, 32 in flight"},
		{"-api leaky -rate unlimited", "32 in flight"},
		{"-api-limit 10/1s -api-in-flight 2", "10 in any 1s, 2 in flight"},
	} {
		o, err := parse(strings.Fields(c.args), io.Discard)
		if err != nil {
			t.Errorf("%q: %v", c.args, err)
			continue
		}
		if got := o.api.String(); got != c.want {
			t.Errorf("%q: the API allows %s, want %s", c.args, got, c.want)
		}
	}
}
