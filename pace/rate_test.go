package pace_test

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/pace"
)

var (
	_ flag.Value               = (*pace.Rate)(nil)
	_ encoding.TextUnmarshaler = (*pace.Rate)(nil)
	_ encoding.TextMarshaler   = pace.Rate{}
)

const day = 24 * time.Hour

func TestRateAccessors(t *testing.T) {
	for _, c := range []struct {
		rate  pace.Rate
		count int
		span  time.Duration
		text  string
	}{
		{pace.Per(5, 10*time.Second), 5, 10 * time.Second, "5/10s"},
		{pace.Per(1, 1500*time.Millisecond), 1, 1500 * time.Millisecond, "1/1.5s"},
		{pace.Per(1, 1), 1, 1, "1/ns"},
		{pace.Per(math.MaxInt, math.MaxInt64), math.MaxInt, math.MaxInt64, strconv.Itoa(math.MaxInt) + "/2562047h47m16.854775807s"},
		{pace.PerSecond(100), 100, time.Second, "100/s"},
		{pace.PerMinute(60), 60, time.Minute, "60/m"},
		{pace.PerHour(7), 7, time.Hour, "7/h"},
		{pace.Per(1, day), 1, day, "1/d"},
		{pace.Per(3, 2*day), 3, 2 * day, "3/48h"},
		{pace.Every(time.Second), 1, time.Second, "1/s"},
		{pace.Every(time.Millisecond), 1, time.Millisecond, "1/ms"},
		{pace.Every(time.Microsecond), 1, time.Microsecond, "1/us"},
		{pace.Every(1500), 1, 1500, "1/1.5µs"},
		{pace.Every(90 * time.Minute), 1, 90 * time.Minute, "1/1h30m"},
		{pace.Every(10 * time.Minute), 1, 10 * time.Minute, "1/10m"},
		{pace.Every(time.Hour + time.Second), 1, time.Hour + time.Second, "1/1h0m1s"},
		{pace.Every(100 * time.Hour), 1, 100 * time.Hour, "1/100h"},
		{pace.Unlimited(), 0, 0, "unlimited"},
	} {
		if got := c.rate.Count(); got != c.count {
			t.Errorf("%v: Count() = %d, want %d", c.rate, got, c.count)
		}
		if got := c.rate.Span(); got != c.span {
			t.Errorf("%v: Span() = %v, want %v", c.rate, got, c.span)
		}
		if got := c.rate.String(); got != c.text {
			t.Errorf("%#v: String() = %q, want %q", c.rate, got, c.text)
		}
		if back, err := pace.ParseRate(c.text); err != nil || back != c.rate {
			t.Errorf("ParseRate(%q) = %v, %v, want %v", c.text, back, err, c.rate)
		}
		if !c.rate.Valid() {
			t.Errorf("%v: Valid() = false", c.rate)
		}
		if got, want := c.rate.IsUnlimited(), c.text == "unlimited"; got != want {
			t.Errorf("%v: IsUnlimited() = %v, want %v", c.rate, got, want)
		}
	}
}

func TestZeroRate(t *testing.T) {
	var r pace.Rate
	if r.Valid() || r.IsUnlimited() {
		t.Errorf("Valid() = %v, IsUnlimited() = %v, want false twice", r.Valid(), r.IsUnlimited())
	}
	if r.Count() != 0 || r.Span() != 0 || r.Interval() != 0 {
		t.Errorf("Count, Span, Interval = %d, %v, %v, want zeros", r.Count(), r.Span(), r.Interval())
	}
	if r.String() != "invalid" {
		t.Errorf("String() = %q, want invalid", r.String())
	}
	if _, err := pace.ParseRate(r.String()); err == nil {
		t.Error("ParseRate reads what the zero Rate prints")
	}
}

func TestRatesCompare(t *testing.T) {
	if pace.PerSecond(7) != pace.Per(7, time.Second) || pace.Every(time.Minute) != pace.PerMinute(1) {
		t.Error("rates written the same way differ")
	}
	if pace.PerMinute(60) == pace.PerSecond(1) {
		t.Error("60/m == 1/s, but they are written differently")
	}
	if one, other := pace.Unlimited(), pace.Unlimited(); one != other || one == (pace.Rate{}) {
		t.Error("Unlimited is not one value of its own")
	}
	seen := map[pace.Rate]string{pace.PerSecond(7): "seven", {}: "zero"}
	if seen[pace.Per(7, time.Second)] != "seven" || seen[pace.Rate{}] != "zero" {
		t.Error("a Rate does not find itself in a map")
	}
}

func TestInterval(t *testing.T) {
	for _, c := range []struct {
		rate pace.Rate
		want time.Duration
	}{
		{pace.PerSecond(1), time.Second},
		{pace.PerSecond(3), 333333333},
		{pace.PerSecond(6), 166666667},
		{pace.PerSecond(7), 142857143},
		{pace.PerSecond(100), 10 * time.Millisecond},
		{pace.PerSecond(3e8), 3},       // 3.33
		{pace.PerSecond(4e8), 3},       // 2.5 goes up
		{pace.PerSecond(999999937), 1}, // 1.00000006
		{pace.PerSecond(2e9), 1},       // 0.5 goes up
		{pace.PerSecond(2e9 + 1), 0},   // just below
		{pace.Per(3, 1), 0},            // 3e9/s: 0.33
		{pace.Per(math.MaxInt, 1), 0},  // and no overflow on the way
		{pace.Per(1, math.MaxInt64), math.MaxInt64},
		{pace.Per(2, math.MaxInt64), math.MaxInt64/2 + 1},
		{pace.Per(math.MaxInt, math.MaxInt), 1}, // a span that fits on 32 bits, too
		{pace.Per(5, 10*time.Second), 2 * time.Second},
		{pace.Per(1, day), day},
		{pace.Every(1500 * time.Millisecond), 1500 * time.Millisecond},
		{pace.Unlimited(), 0},
	} {
		if got := c.rate.Interval(); got != c.want {
			t.Errorf("%v: Interval() = %d ns, want %d", c.rate, got, c.want)
		}
	}
}

func TestRatePanics(t *testing.T) {
	for _, c := range []struct {
		f    func()
		want string
	}{
		{func() { pace.Per(0, time.Second) }, "pace: Per: n must be at least 1, got 0"},
		{func() { pace.Per(-1, time.Second) }, "pace: Per: n must be at least 1, got -1"},
		{func() { pace.Per(5, 0) }, "pace: Per: span must be positive, got 0s"},
		{func() { pace.Per(5, -time.Second) }, "pace: Per: span must be positive, got -1s"},
		{func() { pace.Per(0, 0) }, "pace: Per: n must be at least 1, got 0"},
		{func() { pace.PerSecond(0) }, "pace: PerSecond: n must be at least 1, got 0"},
		{func() { pace.PerMinute(-7) }, "pace: PerMinute: n must be at least 1, got -7"},
		{func() { pace.PerHour(math.MinInt) }, fmt.Sprintf("pace: PerHour: n must be at least 1, got %d", math.MinInt)},
		{func() { pace.Every(0) }, "pace: Every: interval must be positive, got 0s"},
		{func() { pace.Every(-1) }, "pace: Every: interval must be positive, got -1ns"},
	} {
		func() {
			defer func() {
				if got := recover(); got != c.want {
					t.Errorf("panic with %q, want %q", got, c.want)
				}
			}()
			c.f()
		}()
	}
}

func TestParseRate(t *testing.T) {
	for text, want := range map[string]pace.Rate{
		"100/s":                           pace.PerSecond(100),
		"5/10s":                           pace.Per(5, 10*time.Second),
		"60/m":                            pace.PerMinute(60),
		"3/h":                             pace.PerHour(3),
		"1/d":                             pace.Per(1, day),
		"1/1.5s":                          pace.Every(1500 * time.Millisecond),
		"1/.5s":                           pace.Every(500 * time.Millisecond),
		"7/ms":                            pace.Per(7, time.Millisecond),
		"7/us":                            pace.Per(7, time.Microsecond),
		"7/ns":                            pace.Per(7, 1),
		"7/1h30m":                         pace.Per(7, 90*time.Minute),
		"7/+1s":                           pace.PerSecond(7),
		"007/s":                           pace.PerSecond(7),
		"1/1s":                            pace.PerSecond(1),
		"unlimited":                       pace.Unlimited(),
		"  100/s":                         pace.PerSecond(100),
		"100/s\n":                         pace.PerSecond(100),
		"\tunlimited ":                    pace.Unlimited(),
		strconv.Itoa(math.MaxInt) + "/ns": pace.Per(math.MaxInt, 1),
		"1/9223372036854775807ns":         pace.Every(math.MaxInt64),
	} {
		if got, err := pace.ParseRate(text); err != nil || got != want {
			t.Errorf("ParseRate(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
}

func TestParseRateRefuses(t *testing.T) {
	const (
		form  = `a rate must be written as "100/s", "5/10s" or "unlimited"`
		whole = "the number of events must be a whole number"
		least = "the number of events must be at least 1"
		long  = "the span must be at most 2562047h47m16.854775807s"
		unit  = "the span must be s, m, h, d or a duration such as 1.5s"
		later = "the span must be positive"
	)
	fits := fmt.Sprintf("the number of events must be at most %d", math.MaxInt)
	for text, rule := range map[string]string{
		"":                          form,
		" ":                         form,
		"100":                       form,
		"invalid":                   form,
		"Unlimited":                 form,
		"NaN":                       form,
		"100 s":                     form,
		"100%s":                     form,
		"/":                         whole,
		"/s":                        whole,
		"-1/s":                      least,
		"-0/s":                      least,
		"-99999999999999999999/s":   least,
		"--1/s":                     whole,
		"+1/s":                      whole,
		"1.5/s":                     whole,
		"1e3/s":                     whole,
		"1_000/s":                   whole,
		"0x10/s":                    whole,
		"NaN/s":                     whole,
		"+Inf/s":                    whole,
		"1 /s":                      whole,
		"1 0/s":                     whole,
		"１/s":                       whole,
		"unlimited/s":               whole,
		"0/s":                       least,
		"000/s":                     least,
		"0/0s":                      least,
		"9223372036854775808/s":     fits,
		"99999999999999999999999/s": fits,
		"100/":                      unit,
		"100/ s":                    unit,
		"100/s/s":                   unit,
		"100//s":                    unit,
		"100/S":                     unit,
		"100/w":                     unit,
		"100/10":                    unit,
		"100/1e3s":                  unit,
		"100/NaN":                   unit,
		"1/9223372036854775808ns":   long,
		"1/2562048h":                long,
		"1/99999999999999999999.5s": long,
		"1/0s":                      later,
		"1/0":                       later,
		"1/-1s":                     later,
		"1/-0.5s":                   later,
		"1/0.1ns":                   later,
	} {
		got, err := pace.ParseRate(text)
		if got != (pace.Rate{}) {
			t.Errorf("ParseRate(%q) = %v with an error, want the zero Rate", text, got)
		}
		var refused *pace.ParseError
		if !errors.As(err, &refused) {
			t.Errorf("ParseRate(%q): error %v, want a *ParseError", text, err)
			continue
		}
		if refused.Text != text || refused.Rule != rule {
			t.Errorf("ParseRate(%q): refused %q because %q, want because %q", text, refused.Text, refused.Rule, rule)
		}
		if want := "pace: ParseRate: " + rule + ", got " + strconv.Quote(text); err.Error() != want {
			t.Errorf("ParseRate(%q): message %q, want %q", text, err, want)
		}
	}
}

func TestRateFlag(t *testing.T) {
	parse := func(start pace.Rate, args ...string) (pace.Rate, string, error) {
		var said bytes.Buffer
		fs := flag.NewFlagSet("prog", flag.ContinueOnError)
		fs.SetOutput(&said)
		r := start
		fs.Var(&r, "rate", "how `fast`")
		err := fs.Parse(args)
		return r, said.String(), err
	}
	if r, _, err := parse(pace.Rate{}, "-rate", "5/10s"); err != nil || r != pace.Per(5, 10*time.Second) {
		t.Errorf("-rate 5/10s: %v, %v", r, err)
	}
	if r, _, err := parse(pace.PerSecond(100), "-rate=unlimited"); err != nil || r != pace.Unlimited() {
		t.Errorf("-rate=unlimited: %v, %v", r, err)
	}
	if r, _, err := parse(pace.PerSecond(100)); err != nil || r != pace.PerSecond(100) {
		t.Errorf("without the flag: %v, %v, want the default", r, err)
	}
	r, said, err := parse(pace.PerSecond(100), "-rate", "fast")
	if err == nil || r != pace.PerSecond(100) {
		t.Errorf("-rate fast: %v, %v, want an error and the default", r, err)
	}
	if !strings.Contains(said, `got "fast"`) {
		t.Errorf("-rate fast says %q, which does not name what was given", said)
	}
	if _, said, _ := parse(pace.PerSecond(100), "-h"); !strings.Contains(said, "(default 100/s)") {
		t.Errorf("-h says %q, which does not give the default", said)
	}
	if _, said, _ := parse(pace.Rate{}, "-h"); strings.Contains(said, "default") || !strings.Contains(said, "how fast") {
		t.Errorf("-h says %q, want the usage and no default", said)
	}
}

func TestRateTextVar(t *testing.T) {
	fs := flag.NewFlagSet("prog", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	var r pace.Rate
	fs.TextVar(&r, "rate", pace.PerMinute(60), "how fast")
	if r != pace.PerMinute(60) {
		t.Errorf("the default gives %v", r)
	}
	if err := fs.Parse([]string{"-rate", "7/s"}); err != nil || r != pace.PerSecond(7) {
		t.Errorf("-rate 7/s: %v, %v", r, err)
	}
}

func TestRateSetKeepsTheRateOnError(t *testing.T) {
	r := pace.PerSecond(7)
	if err := r.Set("0/s"); err == nil || r != pace.PerSecond(7) {
		t.Errorf("Set: %v, %v, want an error and 7/s", r, err)
	}
	if err := r.UnmarshalText(nil); err == nil || r != pace.PerSecond(7) {
		t.Errorf("UnmarshalText: %v, %v, want an error and 7/s", r, err)
	}
}

func TestRateJSON(t *testing.T) {
	type config struct {
		Rate  pace.Rate            `json:"rate"`
		Extra *pace.Rate           `json:"extra,omitempty"`
		Zero  pace.Rate            `json:"zero,omitzero"`
		By    map[pace.Rate]string `json:"by,omitempty"`
	}
	seven := pace.PerSecond(7)
	full := config{Rate: pace.Per(5, 10*time.Second), Extra: &seven, By: map[pace.Rate]string{pace.Unlimited(): "all"}}
	text, err := json.Marshal(full)
	if want := `{"rate":"5/10s","extra":"7/s","by":{"unlimited":"all"}}`; err != nil || string(text) != want {
		t.Fatalf("Marshal = %s, %v, want %s", text, err, want)
	}
	var back config
	if err := json.Unmarshal(text, &back); err != nil || back.Rate != full.Rate || *back.Extra != seven || back.By[pace.Unlimited()] != "all" {
		t.Errorf("Unmarshal(%s) = %+v, %v", text, back, err)
	}
	var refused *pace.ParseError
	if text, err := json.Marshal(config{}); err == nil {
		t.Errorf("the zero Rate is marshalled as %s, want an error", text)
	}
	back = config{Rate: seven}
	if err := json.Unmarshal([]byte(`{"rate":"0/s"}`), &back); !errors.As(err, &refused) || refused.Text != "0/s" || back.Rate != seven {
		t.Errorf("Unmarshal of 0/s: %+v, %v, want a *ParseError and the rate as it was", back, err)
	}
	if err := json.Unmarshal([]byte(`{"rate":7}`), &back); err == nil {
		t.Error("a bare number is taken for a rate")
	}
}

// genRate draws rates of every size, those next to the ends and the units among them.
func genRate(t *rapid.T) pace.Rate {
	if rapid.IntRange(0, 20).Draw(t, "kind") == 0 {
		return pace.Unlimited()
	}
	n := rapid.OneOf(rapid.IntRange(1, 1000), rapid.IntRange(1, math.MaxInt), rapid.Just(math.MaxInt)).Draw(t, "n")
	span := rapid.OneOf(
		rapid.SampledFrom([]int64{1, 1e3, 1e6, 1e9, 60e9, 3600e9, int64(day), math.MaxInt64}),
		rapid.Map(rapid.Int64Range(1, 2562047), func(h int64) int64 { return h * int64(time.Hour) }),
		rapid.Map(rapid.Int64Range(1, 100000), func(m int64) int64 { return m * int64(time.Minute) }),
		rapid.Map(rapid.Int64Range(1, 100000), func(s int64) int64 { return s * int64(time.Second) }),
		rapid.Int64Range(1, math.MaxInt64),
	).Draw(t, "span")
	return pace.Per(n, time.Duration(span))
}

func TestRateRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := genRate(t)
		if back, err := pace.ParseRate(r.String()); err != nil || back != r {
			t.Fatalf("ParseRate(%q) = %#v, %v, want %#v", r, back, err, r)
		}
		text, err := r.MarshalText()
		if err != nil || string(text) != r.String() {
			t.Fatalf("MarshalText = %q, %v, want %q", text, err, r)
		}
		var set, unmarshalled pace.Rate
		if err := set.Set(r.String()); err != nil || set != r {
			t.Fatalf("Set(%q) = %v, %v", r, set, err)
		}
		if err := unmarshalled.UnmarshalText(text); err != nil || unmarshalled != r {
			t.Fatalf("UnmarshalText(%q) = %v, %v", text, unmarshalled, err)
		}
	})
}

// The interval is off by half a nanosecond at most.
func TestIntervalIsNearest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(1, 1<<31-1).Draw(t, "n")
		span := rapid.Int64Range(1, 1<<31-1).Draw(t, "span")
		got := int64(pace.Per(int(n), time.Duration(span)).Interval())
		if off := 2 * (got*n - span); off > n || off <= -n {
			t.Fatalf("%d per %d ns: Interval() = %d, which is not the nearest", n, span, got)
		}
	})
}

func FuzzParseRate(f *testing.F) {
	for _, s := range []string{
		"", "100/s", "5/10s", "60/m", "1/1.5s", "unlimited", " 7/d ", "0/s", "-1/s", "1e3/s", "NaN/s", "+Inf/s", "100", "100/",
		"/s", "1/0s", "1/-1s", "9223372036854775808/s", "1/2562047h47m16.854775807s", "1/1h0m0s", "1/1.5µs", "1/1µs", "\xff/s",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := pace.ParseRate(s)
		if err != nil {
			var refused *pace.ParseError
			if !errors.As(err, &refused) || refused.Text != s || refused.Rule == "" || !strings.Contains(err.Error(), strconv.Quote(s)) {
				t.Fatalf("ParseRate(%q): %#v does not name what it refuses and why", s, err)
			}
			if r != (pace.Rate{}) {
				t.Fatalf("ParseRate(%q) = %#v with an error", s, r)
			}
			return
		}
		if !r.Valid() || !r.IsUnlimited() && (r.Count() < 1 || r.Span() < 1) || r.Interval() < 0 {
			t.Fatalf("ParseRate(%q) = %#v, which no constructor makes", s, r)
		}
		if back, err := pace.ParseRate(r.String()); err != nil || back != r {
			t.Fatalf("ParseRate(%q) = %#v prints as %q, which is read as %#v, %v", s, r, r, back, err)
		}
	})
}
