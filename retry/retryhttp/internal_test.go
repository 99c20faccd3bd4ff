package retryhttp

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"testing"
	"time"
)

// noon is when the responses of these tests were made.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

const forever = time.Duration(math.MaxInt64)

func TestParseRetryAfter(t *testing.T) {
	for _, c := range []struct {
		v    string
		want time.Duration
	}{
		{"1", time.Second},
		{"120", 2 * time.Minute},
		{" 3\t", 3 * time.Second},
		{"007", 7 * time.Second},
		{"9223372036", 9223372036 * time.Second},
		{"9223372037", forever},
		{"9223372036854775807", forever},
		{"9223372036854775808", forever},
		{strings.Repeat("9", 400), forever},

		{"0", 0}, {"00", 0}, {"-1", 0}, {"+1", 0}, {"1.5", 0}, {"1e3", 0}, {"0x10", 0}, {"1_000", 0},
		{"", 0}, {" ", 0}, {"soon", 0}, {"120s", 0}, {"1, 2", 0}, {"١", 0}, {"NaN", 0},

		{"Fri, 20 Nov 2026 12:00:10 GMT", 10 * time.Second},
		{"Friday, 20-Nov-26 12:00:10 GMT", 10 * time.Second},
		{"Fri Nov 20 12:00:10 2026", 10 * time.Second},
		{"Sun Nov  1 12:00:00 2026", 0},
		{"Tue Dec  1 12:00:00 2026", 11 * 24 * time.Hour},
		{"Fri, 20 Nov 2026 12:00:00 GMT", 0},
		{"Fri, 20 Nov 2026 11:59:59 GMT", 0},
		{"Thu, 01 Jan 1970 00:00:00 GMT", 0},
		{"Mon, 01 Jan 0001 00:00:00 GMT", 0},
		{"Fri, 31 Dec 9999 23:59:59 GMT", forever},
		{"Fri, 20 Nov 2026 12:00:10 CET", 0},
		{"Friday, 20-Nov-26 12:00:10 CET", 0},
		{"Fri, 20 Nov 2026 12:00:10 +0100", 0},
		{"Fri, 32 Nov 2026 12:00:10 GMT", 0},
		{"2026-11-20T12:00:10Z", 0},
	} {
		if got := parseRetryAfter(c.v, func() time.Time { return noon }); got != c.want {
			t.Errorf("Retry-After: %q = %v, want %v", c.v, got, c.want)
		}
	}
}

func TestRetryAfterIsRelativeToTheResponse(t *testing.T) {
	h := http.Header{"Retry-After": {noon.Add(10 * time.Second).Format(http.TimeFormat)}}
	now := func() time.Time { return noon.Add(4 * time.Second) }
	for date, want := range map[string]time.Duration{
		"":                               6 * time.Second, // by our own clock
		"yesterday":                      6 * time.Second,
		noon.Format(http.TimeFormat):     10 * time.Second,
		noon.Format(time.ANSIC):          10 * time.Second,
		"Friday, 20-Nov-26 12:00:07 GMT": 3 * time.Second,
	} {
		h.Set("Date", date)
		if got := retryAfter(h, now); got != want {
			t.Errorf("with Date %q: %v, want %v", date, got, want)
		}
	}
}

func TestSpent(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	reset := func(d time.Duration) string { return fmt.Sprint(noon.Add(d).Unix()) }
	for _, c := range []struct {
		fields string // separated by a bar
		x      XRateLimitReset
		want   shortage
	}{
		{"", 0, shortage{}},
		// The present form.
		{`RateLimit: "default";r=0;t=30`, 0, shortage{30 * s, 0}},
		{`RateLimit: default;r=0;t=30`, 0, shortage{30 * s, 0}},
		{`RateLimit: "default";t=30;r=0;pk=:dXNlcg==:;x="a\"b, c";y;z=1.5;w=?0;v=@12`, 0, shortage{30 * s, 0}},
		{`RateLimit: "default";r=1;t=30`, 0, shortage{}},
		{`RateLimit: "default";r=0;t=0`, 0, shortage{}},
		{`RateLimit: "default";r=0`, 0, shortage{}},
		{`RateLimit: "default";t=30`, 0, shortage{}},
		{`RateLimit: "default";r=-1;t=30`, 0, shortage{}},
		{`RateLimit: "default";r=0;t=-30`, 0, shortage{}},
		{`RateLimit: "default";r=0;t=30.5`, 0, shortage{}},
		{`RateLimit: "default";r="0";t=30`, 0, shortage{}},
		{`RateLimit: "default";r=5;r=0;t=30`, 0, shortage{30 * s, 0}}, // the last counts
		{`RateLimit: "a";r=9;t=1, "b";r=0;t=30, "c";r=0;t=20`, 0, shortage{30 * s, 0}},
		{`RateLimit: "a";r=9;t=1|RateLimit: "b";r=0;t=30`, 0, shortage{30 * s, 0}},
		{`RateLimit: "a";r=0;t=30, "b";r=0;t=`, 0, shortage{}}, // malformed anywhere is malformed
		{`RateLimit: "a";r=0;t=30,`, 0, shortage{}},
		{`RateLimit: "a";r=0;t=1000000000000000`, 0, shortage{}}, // 16 digits
		{`RateLimit: "a";r=0;t=999999999999999`, 0, shortage{forever, 0}},
		{`RateLimit: ("a" "b");r=0;t=30`, 0, shortage{}},
		// Less than the fields can tell.
		{`RateLimit: "a";r=0;t=1`, 0, shortage{s, 0}},
		{`RateLimit: "a";r=0;t=1|RateLimit-Policy: "a";q=100;w=1`, 0, shortage{s, 10 * ms}},
		{`RateLimit: "a";r=0;t=1|RateLimit-Policy: "a";q=100;w=60`, 0, shortage{s, 600 * ms}},
		{`RateLimit: "a";r=0;t=1|RateLimit-Policy: "a";q=1;w=60`, 0, shortage{s, 0}},
		{`RateLimit: "a";r=0;t=1|RateLimit-Policy: "b";q=100;w=1`, 0, shortage{s, 0}},
		{`RateLimit: "a";r=0;t=1|RateLimit-Policy: "a";q=100`, 0, shortage{s, 0}},
		{`RateLimit: "a";r=0;t=1|RateLimit-Policy: "a";q=0;w=1`, 0, shortage{s, 0}},
		{`RateLimit: "a";r=0;t=1|RateLimit-Policy: "a";q=999999999999999;w=1`, 0, shortage{s, 1}},
		{`RateLimit: "a";r=0;t=2|RateLimit-Policy: "a";q=100;w=1`, 0, shortage{2 * s, 0}},
		{`RateLimit: "a";r=0;t=1, "b";r=0;t=9|RateLimit-Policy: "a";q=100;w=1`, 0, shortage{9 * s, 0}},
		{`RateLimit: "a";r=0;t=1, "b";r=0;t=1|RateLimit-Policy: "a";q=100;w=1, "b";q=4;w=1`, 0, shortage{s, 250 * ms}},
		{`RateLimit: "a";r=0;t=1, "b";r=0;t=1|RateLimit-Policy: "a";q=100;w=1`, 0, shortage{s, 0}},
		// Not a matter of time.
		{`RateLimit: "a";r=0;t=30|RateLimit-Policy: "a";q=5;w=60;qu="concurrent-requests"`, 0, shortage{}},
		{`RateLimit: "a";r=0;t=30|RateLimit-Policy: "a";q=5;w=60;qu="content-bytes"`, 0, shortage{30 * s, 0}},
		// Draft 07.
		{`RateLimit: limit=100, remaining=0, reset=30`, 0, shortage{30 * s, 0}},
		{`RateLimit: limit=100, remaining=1, reset=30`, 0, shortage{}},
		{`RateLimit: limit=100, remaining=0, reset=1|RateLimit-Policy: 100;w=10, 50;w=60`, 0, shortage{s, 100 * ms}},
		{`RateLimit: remaining=0, reset=1|RateLimit-Policy: 100;w=10`, 0, shortage{s, 0}},
		{`RateLimit: remaining=0`, 0, shortage{}},
		{`RateLimit: limit=100, remaining=0, reset="30"`, 0, shortage{}},
		{`RateLimit: limit=100, remaining=-1, reset=30`, 0, shortage{}},
		{`RateLimit: limit=100, remaining=0, reset=-30`, 0, shortage{}},
		// The drafts before.
		{`RateLimit-Limit: 100|RateLimit-Remaining: 0|RateLimit-Reset: 30`, 0, shortage{30 * s, 0}},
		{`RateLimit-Remaining: 0|RateLimit-Reset: 30`, 0, shortage{30 * s, 0}},
		{`RateLimit-Remaining: 3|RateLimit-Reset: 30`, 0, shortage{}},
		{`RateLimit-Remaining: 0`, 0, shortage{}},
		{`RateLimit-Remaining: 0|RateLimit-Reset: -5`, 0, shortage{}},
		{`RateLimit-Remaining: -1|RateLimit-Reset: 30`, 0, shortage{}},
		{`RateLimit-Remaining: 0|RateLimit-Reset: 1|RateLimit-Limit: 100, 100;w=10, 1000;w=60`, 0, shortage{s, 100 * ms}},
		{`RateLimit-Remaining: 0|RateLimit-Reset: 1|RateLimit-Limit: 100|RateLimit-Policy: 100;w=10`, 0, shortage{s, 100 * ms}},
		{`RateLimit-Remaining: 0, 0|RateLimit-Reset: 30`, 0, shortage{}},
		// The newest that is sound counts.
		{`RateLimit: "a";r=5;t=30|RateLimit-Remaining: 0|RateLimit-Reset: 30`, 0, shortage{}},
		{`RateLimit: ;r=5|RateLimit-Remaining: 0|RateLimit-Reset: 30`, 0, shortage{30 * s, 0}},
		{`RateLimit: "a";r=0|RateLimit-Remaining: 0|RateLimit-Reset: 30`, 0, shortage{30 * s, 0}},
		{`RateLimit: remaining=-1, reset=30|RateLimit-Remaining: 0|RateLimit-Reset: 20`, 0, shortage{20 * s, 0}},
		{`RateLimit-Remaining: -1|RateLimit-Reset: 3|X-RateLimit-Remaining: 0|X-RateLimit-Reset: 30`, XRateLimitSeconds, shortage{30 * s, 0}},
		{`RateLimit-Remaining: 5|RateLimit-Reset: 3|X-RateLimit-Remaining: 0|X-RateLimit-Reset: 30`, XRateLimitSeconds, shortage{}},
		// The common ones.
		{`X-RateLimit-Remaining: 0|X-RateLimit-Reset: 30`, XRateLimitOff, shortage{}},
		{`X-RateLimit-Remaining: 0|X-RateLimit-Reset: 30`, 7, shortage{}},
		{`X-RateLimit-Remaining: 0|X-RateLimit-Reset: 30`, XRateLimitSeconds, shortage{30 * s, 0}},
		{`X-RateLimit-Remaining: 0|X-RateLimit-Reset: 0.35`, XRateLimitSeconds, shortage{350 * ms, 0}},
		{`X-RateLimit-Remaining: 0|X-RateLimit-Reset: 1.`, XRateLimitSeconds, shortage{}},
		{`X-RateLimit-Remaining: 0|X-RateLimit-Reset: 1.x`, XRateLimitSeconds, shortage{}},
		{`X-RateLimit-Remaining: 0|X-RateLimit-Reset: -3`, XRateLimitSeconds, shortage{}},
		{`X-RateLimit-Remaining: 0|X-RateLimit-Reset: 6m0s`, XRateLimitSeconds, shortage{}},
		{`X-RateLimit-Remaining: 0|X-RateLimit-Reset: 99999999999999999999.9`, XRateLimitSeconds, shortage{forever, 0}},
		{`X-RateLimit-Remaining: 2|X-RateLimit-Reset: 30`, XRateLimitSeconds, shortage{}},
		{`X-RateLimit-Remaining: none|X-RateLimit-Reset: 30`, XRateLimitSeconds, shortage{}},
		{`X-RateLimit-Remaining: 0|X-RateLimit-Reset: ` + reset(30*s), XRateLimitUnixTime, shortage{30 * s, 0}},
		{`X-RateLimit-Remaining: 0|X-RateLimit-Reset: ` + reset(30*s) + ".25", XRateLimitUnixTime, shortage{30250 * ms, 0}},
		{`X-RateLimit-Remaining: 0|X-RateLimit-Reset: ` + reset(0), XRateLimitUnixTime, shortage{}},
		{`X-RateLimit-Remaining: 0|X-RateLimit-Reset: ` + reset(-s), XRateLimitUnixTime, shortage{}},
		{`X-RateLimit-Remaining: 0|X-RateLimit-Reset: 30`, XRateLimitUnixTime, shortage{}},
		{`Date: Fri, 20 Nov 2026 12:00:10 GMT|X-RateLimit-Remaining: 0|X-RateLimit-Reset: ` + reset(30*s), XRateLimitUnixTime, shortage{20 * s, 0}},
	} {
		got := spent(header(c.fields), c.x, func() time.Time { return noon })
		if got != c.want {
			t.Errorf("%s (mode %d):\n%+v, want %+v", c.fields, c.x, got, c.want)
		}
	}
}

func header(fields string) http.Header {
	h := http.Header{}
	for _, f := range strings.Split(fields, "|") {
		if k, v, ok := strings.Cut(f, ": "); ok {
			h.Add(k, v)
		}
	}
	return h
}

// From the RFC, sections 3 and 4.
func TestStructuredFields(t *testing.T) {
	for _, s := range []string{
		"", " ", `sugar, tea, rum`, `"foo";bar;baz=tok`, `("foo" "bar"), ("baz"), ("bat" "one"), ()`,
		`("foo"; a=1;b=2);lvl=5, ("bar" "baz");lvl=1`, `abc;a=1;b=2; cde_456, (ghi;jk=4 l);q="9";r=w`,
		`2; foourl="https://foo.example.com/"`, `1;  a;   b`, `42`, `-0`, `999999999999999`, `4.5`, `-999999999999.123`,
		`"hello world"`, `"a \"b\" \\"`, `foo123/456`, `*a:b`, `:cHJldGVuZCB0aGlzIGlzIGJpbmFyeSBjb250ZW50Lg==:`,
		`?1`, `?0;x`, `@1659578233`, `@-62135596800`, `%"This is intended for display to %c3%bcsers."`, "a ,\t b", `a;*x=1`,
	} {
		if _, ok := parseList(s); !ok {
			t.Errorf("list %q is not read", s)
		}
	}
	for _, s := range []string{
		"a,", ",a", "a,,b", "a b", "a;", "a;=1", "a;B=1", "a;b=", "-", "--1", "1.", ".5", "1.2345", "1234567890123.1",
		"1000000000000000", `"a`, `"a\`, `"a\n"`, "\"a\tb\"", "\"é\"", "'a'", "é", ":a", ":!:", "?2", "?", "@", "@1.5", "@x",
		`%a"`, `%"`, `%"%C3"`, `%"%c"`, "%\"\x7f\"", "(", "(a", "(a,b)", "(a)b", "(a\tb)", `("a""b")`, "(;)", "(a;)", "=", "\ta",
	} {
		if list, ok := parseList(s); ok {
			t.Errorf("list %q is read as %+v", s, list)
		}
	}
	for s, want := range map[string]int{
		"": 0, `en="Applepie", da=:w4ZibGV0w6ZydGU=:`: 2, `a=?0, b, c; foo=bar`: 3, `rating=1.5, feelings=(joy sadness)`: 2,
		`a=(1 2), b=3, c=4;aa=bb, d=(5 6);valid`: 4, `a=1, b=2, a=3`: 2, `foo=1, bar=2`: 2,
	} {
		if d, ok := parseDictionary(s); !ok || len(d) != want {
			t.Errorf("dictionary %q is read as %+v, %v", s, d, ok)
		}
	}
	for _, s := range []string{"A=1", "a=", "a=1,", "a=1 b=2", "=1", `"a"=1`, "a;", "a;b=!"} {
		if d, ok := parseDictionary(s); ok {
			t.Errorf("dictionary %q is read as %+v", s, d)
		}
	}
	list, _ := parseList(`"a\"\\";n=-7;t="x";b;f=?0;d=1.5, tok/en;n=1;n=2, 12`)
	if len(list) != 3 || list[0].text != `a"\` || list[1].text != "tok/en" || list[2].num != 12 {
		t.Errorf("read %+v", list)
	}
	if p := list[0].params; p["n"].num != -7 || p["t"].text != "x" || p["b"] != (value{kindBoolean, 1, ""}) ||
		p["f"] != (value{kind: kindBoolean}) || p["d"].kind != kindOther || list[1].params["n"].num != 2 {
		t.Errorf("parameters %+v, %+v", p, list[1].params)
	}
}

// An idle connection that net/http has at hand, and writes to before it looks at the context,
// is closed while the head is in its buffer; one that is written to as HTTP/2 does is not.
func TestWatchClosesWhatIsAtHand(t *testing.T) {
	for _, c := range []struct {
		again bool
		field string
	}{{true, "Host"}, {false, "Host"}, {true, ":authority"}, {true, "host"}} {
		again, closes := c.again, c.again && c.field == "Host"
		tr := &try{}
		tr.ctx, tr.cancel = context.WithCancelCause(t.Context())
		tr.watch()
		trace := httptrace.ContextClientTrace(tr.ctx)
		one, other := net.Pipe()
		defer other.Close()
		got := func() (closed, ended bool) {
			trace.GotConn(httptrace.GotConnInfo{Conn: one})
			trace.WroteHeaderField(c.field, []string{"far.test"})
			return one.SetDeadline(time.Time{}) != nil, context.Cause(tr.ctx) == errResend
		}
		trace.GetConn("")
		if closed, ended := got(); closed || ended {
			t.Errorf("the first connection: closed %v, ended %v", closed, ended)
		}
		trace.GetConn("")
		if closed, ended := got(); closed || ended {
			t.Errorf("nothing was written: closed %v, ended %v", closed, ended)
		}
		trace.WroteHeaders()
		if again {
			trace.GetConn("")
			if context.Cause(tr.ctx) != errResend {
				t.Error("not ended before it has a connection")
			}
		}
		if closed, ended := got(); closed != closes || !ended {
			t.Errorf("%+v: closed %v, ended %v", c, closed, ended)
		}
		one.Close()
	}
}

// A request that follows an answer is another one, and is watched like the first; also
// where the answer comes before net/http has told that the request was written, and where
// the one request is made while the other waits for its connection.
func TestWatchOfOneRequestAfterAnother(t *testing.T) {
	for name, first := range map[string]func(*httptrace.ClientTrace){
		"one after the other": func(trace *httptrace.ClientTrace) {
			trace.GotConn(httptrace.GotConnInfo{})
			trace.WroteHeaders()
			trace.GotFirstResponseByte()
		},
		"answered early": func(trace *httptrace.ClientTrace) {
			trace.GotConn(httptrace.GotConnInfo{})
			trace.GotFirstResponseByte()
			trace.WroteHeaders()
		},
		"to dial": func(trace *httptrace.ClientTrace) {
			trace.GetConn("")
			trace.GotConn(httptrace.GotConnInfo{})
			trace.WroteHeaders()
			trace.GotFirstResponseByte()
			trace.GotConn(httptrace.GotConnInfo{})
			trace.WroteHeaders()
			trace.GotFirstResponseByte()
		},
	} {
		tr := &try{}
		tr.ctx, tr.cancel = context.WithCancelCause(t.Context())
		tr.watch()
		trace := httptrace.ContextClientTrace(tr.ctx)
		trace.GetConn("")
		first(trace)
		trace.GetConn("")
		trace.GotConn(httptrace.GotConnInfo{})
		trace.WroteHeaders()
		if cause := context.Cause(tr.ctx); cause != nil {
			t.Errorf("%s: the second request ended with %v", name, cause)
		}
		trace.GetConn("")
		if cause := context.Cause(tr.ctx); cause != errResend {
			t.Errorf("%s: the second request goes again, the context's cause is %v", name, cause)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"120", "-1", "9223372037", "Fri, 20 Nov 2026 12:00:10 GMT", "Fri Nov 20 12:00:10 2026",
		"Friday, 20-Nov-26 12:00:10 GMT", "Fri, 31 Dec 9999 23:59:59 GMT"} {
		f.Add(s, "Fri, 20 Nov 2026 12:00:00 GMT")
	}
	f.Fuzz(func(t *testing.T, v, date string) {
		h := http.Header{"Retry-After": {v}, "Date": {date}}
		d := RetryAfter(h, noon)
		if d < 0 {
			t.Fatalf("Retry-After %q, Date %q: %v", v, date, d)
		}
		if d > 0 && !strings.ContainsAny(v, "0123456789") {
			t.Fatalf("Retry-After %q: %v", v, d)
		}
		if n, ok := wholeSeconds(strings.Trim(v, " \t")); ok && n != d {
			t.Fatalf("Retry-After %q: %v and %v", v, n, d)
		}
	})
}

func FuzzRateLimit(f *testing.F) {
	for _, s := range []string{`"default";r=0;t=30`, `"a";r=5;t=1, "b";r=0;t=9;pk=:YQ==:`, `limit=100, remaining=0, reset=30`,
		"0", "1.5", "99999999999999999999"} {
		f.Add(s, `"default";q=100;w=60, 100;w=1;qu="requests"`, s)
	}
	f.Fuzz(func(t *testing.T, limit, policy, x string) {
		for _, h := range []http.Header{
			{"Ratelimit": {limit}, "Ratelimit-Policy": {policy}},
			{"Ratelimit-Remaining": {x}, "Ratelimit-Reset": {limit}, "Ratelimit-Limit": {policy}},
			{"X-Ratelimit-Remaining": {x}, "X-Ratelimit-Reset": {limit}, "Date": {policy}},
		} {
			for mode := range XRateLimitReset(3) {
				s := spent(h, mode, func() time.Time { return noon })
				if s.after < 0 || s.unit < 0 || s.unit >= time.Second || s.unit > s.after {
					t.Fatalf("%v: %+v", h, s)
				}
			}
		}
	})
}

// What the parser takes, it writes back as the same list: it has not read too little.
func FuzzStructuredFields(f *testing.F) {
	for _, s := range []string{`"a\"\\";n=-7;t="x";b;f=?0, tok/en;n=1, 12`, `(a "b";c=1);d, :YQ==:`, `%"%c3%bc", @5, 1.5;a`, "a=1, b;c, d=(1 2)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		parseDictionary(s)
		list, ok := parseList(s)
		if !ok {
			return
		}
		var out []string
		for _, item := range list {
			if item.kind == kindOther {
				return
			}
			out = append(out, write(item))
		}
		again, ok := parseList(strings.Join(out, ", "))
		if !ok || !slices.EqualFunc(list, again, func(a, b sfItem) bool { return write(a) == write(b) }) {
			t.Fatalf("%q is %+v, written as %q is %+v", s, list, out, again)
		}
	})
}

func write(i sfItem) string {
	var b strings.Builder
	b.WriteString(writeValue(i.value))
	keys := make([]string, 0, len(i.params))
	for k := range i.params {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		if v := i.params[k]; v.kind == kindOther {
			b.WriteString(";" + k + "=1.5")
		} else {
			b.WriteString(";" + k + "=" + writeValue(v))
		}
	}
	return b.String()
}

func writeValue(v value) string {
	switch v.kind {
	case kindInteger:
		return fmt.Sprint(v.num)
	case kindBoolean:
		return fmt.Sprintf("?%d", v.num)
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(v.text) + `"`
}

// Entries have numbers that may wrap around.
func TestEntries(t *testing.T) {
	for _, first := range []uint32{0, 5, math.MaxUint32 - 2, math.MaxUint32, math.MaxInt32 - 1, math.MaxInt32} {
		tr := &Transport{admitted: first, served: first}
		c := &call{t: tr}
		if before := tr.admit(); before != first+1 || c.alone() {
			t.Fatal(before, "alone from the start")
		}
		tr.serve(first + 1) // admitted before the throttle
		if c.alone() {
			t.Errorf("%d: alone, though none that came later was served", first)
		}
		tr.serve(tr.admit())
		tr.serve(first + 1) // later than the one that was admitted after it
		if !c.alone() || tr.served != first+2 {
			t.Errorf("%d: not alone, served %d", first, tr.served)
		}
	}
}
