package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/escapement-go/escapement/examples/internal/gatepage"
	"github.com/escapement-go/escapement/pace"
)

// options are the flags, checked.
type options struct {
	rate   pace.Rate
	burst  int
	window pace.Rate     // n in a span; unlimited: no window
	guard  time.Duration // or untilAnswered
	limit  int

	retries  int  // attempts beyond the first
	adaptive bool // the rate listens

	n       int // 0: 500, or as many as there are URLs
	urls    string
	method  string
	header  http.Header
	timeout time.Duration

	out   string
	plot  string // "": none
	http  string // "": no page
	quiet bool

	api      apiOptions
	apiGiven string // the first -api flag on the command line, or ""
}

const usageHead = `Fanout makes many calls at once and keeps a strict limit while it does.

    fanout [flags]                  500 calls to a strict API of its own
    fanout [flags] -urls FILE       fetch the URLs in FILE, one a line
    fanout [flags] < FILE           the same, from standard input

By default it makes 100 calls a second, evenly, at most 32 at once, and at most 100 in any second as
the server counts them: a call counts until a second after its answer (see -guard), which slows a
long run down by what a call takes, here to about 92 a second. Results go to standard output as
lines of JSON, unless that is a terminal; a summary goes to standard error.

With -retries calls that failed are made again, each attempt in its turn at the gate. With -adaptive all of
them slow down as one when the server answers 429. See -api-mood for an API that gives reason to.

Exit status: 0 all went well, 1 a call failed or the results could not be written, 2 a flag, a file or
a URL is wrong, 130 interrupted. An interrupt starts no more calls; a second one cuts those in flight.

Flags:
`

// parse reads the command line. Its error is [flag.ErrHelp] if help was asked for, and printed to w.
func parse(args []string, w io.Writer) (*options, error) {
	o := &options{rate: pace.PerSecond(100), guard: untilAnswered, header: http.Header{}}
	fs := flag.NewFlagSet("fanout", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}

	fs.Var(&o.rate, "rate", "calls per time, evenly spaced, such as `100/s`, 5/10s or unlimited")
	fs.IntVar(&o.burst, "burst", 1, "`calls` that may go at once after idle time")
	fs.Var((*windowFlag)(&o.window), "window", "at most n calls in any span, such as `100/1s`, or none "+
		"(default what the rate makes in a second, or in its own span if that is longer)")
	fs.Var((*guardFlag)(&o.guard), "guard", "how a window makes up for the jitter of arrivals: answer, or the `time` "+
		"by which it is widened")
	fs.IntVar(&o.limit, "limit", 32, "`calls` in flight at once, at most")

	fs.IntVar(&o.retries, "retries", 0, "`attempts` beyond the first, for calls that failed; each waits for its turn like a call "+
		"of its own")
	fs.BoolVar(&o.adaptive, "adaptive", false, "slow down, all calls as one, when the server answers 429, heed its "+
		"Retry-After, and come back to speed")

	fs.Var(&countFlag{n: &o.n}, "n", "`calls` to make (default 500, or one for each URL)")
	fs.StringVar(&o.urls, "urls", "", "`file` of URLs to fetch, one a line; - is standard input")
	fs.StringVar(&o.method, "method", http.MethodGet, "HTTP `method`")
	fs.Var(headerFlag(o.header), "H", "request header as `\"Name: value\"`; can be repeated")
	fs.DurationVar(&o.timeout, "timeout", 30*time.Second, "`time` that an attempt may take")

	fs.StringVar(&o.out, "out", "", "`file` for the results; - is standard output "+
		"(default - unless that is a terminal)")
	fs.StringVar(&o.plot, "plot", "", "`file` for a picture of the pace over time: .svg, .png or .pdf")
	fs.StringVar(&o.http, "http", "", gatepage.Usage)
	fs.BoolVar(&o.quiet, "quiet", false, "no progress bar and no summary")

	o.api.flags(fs)

	switch err := fs.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(w, usageHead)
		fs.SetOutput(w)
		fs.PrintDefaults()
		return nil, err
	case err != nil:
		return nil, err
	case fs.NArg() > 0:
		return nil, fmt.Errorf("there must be no arguments besides flags (URLs go into a file, see -urls), got %q", fs.Arg(0))
	}
	fs.Visit(func(f *flag.Flag) {
		if o.apiGiven == "" && strings.HasPrefix(f.Name, "api") {
			o.apiGiven = f.Name
		}
	})
	if !o.window.Valid() {
		o.window = windowOf(o.rate)
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	o.api.complete(o)
	return o, o.api.check()
}

// check finds what flag.Parse can't.
func (o *options) check() error {
	switch {
	case o.burst < 1:
		return fmt.Errorf("-burst: must be at least 1, got %d", o.burst)
	case o.limit < 1:
		return fmt.Errorf("-limit: must be at least 1, got %d", o.limit)
	case o.retries < 0 || o.retries > mostRetries:
		return fmt.Errorf("-retries: must be from 0 to %d, got %d", mostRetries, o.retries)
	case o.adaptive && (o.rate.IsUnlimited() || o.rate.Interval() < 1):
		return fmt.Errorf("-adaptive: -rate must be at most one a nanosecond, got %v", o.rate)
	case o.plot != "" && !slices.Contains(pictures, filepath.Ext(o.plot)):
		return fmt.Errorf("-plot: the file must end in %s, got %q", strings.Join(pictures, ", "), o.plot)
	case o.timeout <= 0:
		return fmt.Errorf("-timeout: must be positive, got %v", o.timeout)
	}
	if !isToken(o.method) {
		return fmt.Errorf("-method: must be a word such as GET, got %q", o.method)
	}
	return nil
}

// windowOf returns the window that goes with a rate: as many calls as it makes in a second. If its own
// spans don't add up to a second, the window is a little longer, so that the count stays exact.
func windowOf(r pace.Rate) pace.Rate {
	if r.IsUnlimited() {
		return r
	}
	spans := int((time.Second + r.Span() - 1) / r.Span())
	if r.Count() > math.MaxInt/spans {
		return pace.Unlimited()
	}
	return pace.Per(r.Count()*spans, r.Span()*time.Duration(spans))
}

// windowFlag is a number in a span, or none. It is written as a rate is.
type windowFlag pace.Rate

func (f *windowFlag) String() string { return "" }

func (f *windowFlag) Set(s string) error {
	if s == "none" {
		*f = windowFlag(pace.Unlimited())
		return nil
	}
	if !strings.Contains(s, "/") {
		return errors.New(`a window must be written as "100/1s" or "none"`)
	}
	r, err := pace.ParseRate(s)
	if p, ok := errors.AsType[*pace.ParseError](err); ok {
		return errors.New(p.Rule)
	}
	*f = windowFlag(r)
	return nil
}

// untilAnswered is the guard of a window in which a call counts until a span after its answer.
const untilAnswered time.Duration = -1

// guardFlag is the guard of a window.
type guardFlag time.Duration

func (f *guardFlag) String() string {
	if f == nil || *f == guardFlag(untilAnswered) {
		return "answer"
	}
	return time.Duration(*f).String()
}

func (f *guardFlag) Set(s string) error {
	if s == "answer" {
		*f = guardFlag(untilAnswered)
		return nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return errors.New("must be answer, or a duration such as 50ms that is not negative")
	}
	*f = guardFlag(d)
	return nil
}

// countFlag is a whole number of at least 1 that is not given by default.
type countFlag struct{ n *int }

func (f *countFlag) String() string { return "" }

func (f *countFlag) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return errors.New("must be a whole number of at least 1")
	}
	*f.n = n
	return nil
}

// headerFlag collects request headers.
type headerFlag http.Header

func (f headerFlag) String() string { return "" }

func (f headerFlag) Set(s string) error {
	name, value, ok := strings.Cut(s, ":")
	value = strings.TrimSpace(value)
	switch {
	case !ok:
		return errors.New(`a header must be written as "Name: value"`)
	case !isToken(name):
		return errors.New("the name of a header must be a word without spaces")
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		return errors.New("the value of a header must not contain control characters")
	}
	http.Header(f).Add(name, value)
	return nil
}

// isToken reports whether s is a token as HTTP defines it, as methods and names of headers are.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}
