package measure_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/escapement-go/escapement/bench/measure"
	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
)

func gated(perSecond int) measure.Limiter { return gate.NewRate(pace.PerSecond(perSecond), nil) }

// unlimited lets one caller a microsecond go, whatever was asked for.
type unlimited struct{}

func (unlimited) Wait(ctx context.Context) error {
	time.Sleep(time.Microsecond)
	return ctx.Err()
}

// run plays a case in a bubble, where no caller is ever late.
func run(t *testing.T, c measure.Candidate, what measure.Case) (res *measure.Result, err error) {
	synctest.Test(t, func(*testing.T) { res, err = measure.Run(context.Background(), c, what) })
	return res, err
}

func TestLoop(t *testing.T) {
	for _, callers := range []int{1, 8, 90} { // no token is at the edge of what is looked at
		what := measure.Case{PerSecond: 1000, Callers: callers, Duration: 100 * time.Millisecond}
		r, err := run(t, measure.Candidate{Name: "gate", New: gated}, what)
		if err != nil {
			t.Fatal(err)
		}
		if r.Tokens != 100 || r.Used() != 1 || r.Length != what.Duration || r.Rate != 1000 || r.Error() != 0 || r.Excess != 0 || r.Gap.Max() != 0 || r.Late.Max() != 0 {
			t.Errorf("%v: %d tokens, rate %v, excess %v, gap error %d, late %d", what, r.Tokens, r.Rate, r.Excess, r.Gap.Max(), r.Late.Max())
		}
	}
}

// A loop is long enough for a thousand tokens where that takes no more than five times as long, or for
// as many as it is told.
func TestLoopForPercentiles(t *testing.T) {
	for _, tt := range []struct {
		perSecond, least, tokens int
		length                   time.Duration
	}{
		{1000, 0, 1000, time.Second}, {200, 0, 1000, 5 * time.Second}, {199, 0, 199, time.Second}, {5000, 0, 5000, time.Second},
		{10, 600, 600, time.Minute}, {200, 600, 600, 3 * time.Second}, {1000, 600, 1000, time.Second}, {2, 1, 5, 2550 * time.Millisecond},
	} {
		what := measure.Case{PerSecond: tt.perSecond, Callers: 1, Duration: time.Second, MinTokens: tt.least}
		began := what.Planned() - tt.length
		r, err := run(t, measure.Candidate{Name: "gate", New: gated}, what)
		if err != nil || r.Tokens != tt.tokens || began != 20*time.Millisecond+10*time.Microsecond {
			t.Errorf("%v: %v, or %d tokens after %v, want %d", what, err, r.Tokens, began, tt.tokens)
		}
	}
}

// census is a limiter that counts the goroutines that want a processor, of those that the loop has started.
type census struct {
	unlimited
	most *atomic.Int64
}

func (c census) Wait(ctx context.Context) error {
	stacks := strings.Split(string(allStacks()), "\n\n") // its own is the first
	_, loop, _ := strings.Cut(stacks[0], "created by ")
	loop, _, _ = strings.Cut(loop, "\n")
	var n int64
	for _, s := range stacks {
		state, _, _ := strings.Cut(s, "\n")
		if strings.Contains(s, "created by "+loop+"\n") && (strings.Contains(state, "[running") || strings.Contains(state, "[runnable")) {
			n++
		}
	}
	if n > c.most.Load() { // there is one caller
		c.most.Store(n)
	}
	return c.unlimited.Wait(ctx)
}

func allStacks() []byte {
	buf := make([]byte, 1<<16)
	for {
		if n := runtime.Stack(buf, true); n < len(buf) {
			return buf[:n]
		}
		buf = make([]byte, 2*len(buf))
	}
}

// While a loop is played so many goroutines keep the processors busy. This takes real time, as no time
// goes by in a bubble while a goroutine runs.
func TestBusyLoop(t *testing.T) {
	var most atomic.Int64
	c := measure.Candidate{Name: "census", New: func(int) measure.Limiter { return census{most: &most} }}
	r, err := measure.Run(t.Context(), c, measure.Case{PerSecond: 1000, Callers: 1, Duration: 20 * time.Millisecond, Busy: 2})
	if err != nil {
		t.Fatal(err)
	}
	if want := 1 + 2*int64(runtime.GOMAXPROCS(0)); most.Load() != want {
		t.Errorf("%d goroutines wanted a processor, want %d", most.Load(), want)
	}
	if r.Length < 20*time.Millisecond || r.Used() != float64(r.Tokens)/(1000*r.Length.Seconds()) {
		t.Errorf("%d tokens in %v are %v of the rate", r.Tokens, r.Length, r.Used())
	}
}

// A rate so slow that five tokens take longer than the loop is looked at for longer.
func TestSlowLoop(t *testing.T) {
	what := measure.Case{PerSecond: 1, Callers: 1, Duration: time.Millisecond}
	r, err := run(t, measure.Candidate{Name: "gate", New: gated}, what)
	if err != nil || r.Tokens != 5 || r.Rate != 1 {
		t.Errorf("%v, or %d tokens at %v, excess %v, in %v, cut %t", err, r.Tokens, r.Rate, r.Excess, r.Total, r.Cut)
	}
}

func TestTooFast(t *testing.T) {
	fast := measure.Candidate{Name: "fast", New: func(int) measure.Limiter { return unlimited{} }}
	what := measure.Case{PerSecond: 1000, Callers: 1, Duration: 100 * time.Millisecond}
	r, err := run(t, fast, what)
	// A token each µs for 120.01 ms: with the first, 120,010 in a window that may hold 121.009.
	if err != nil || math.Abs(r.Error()-999) > 1e-9 || math.Abs(r.Excess-119_889) > 2 {
		t.Errorf("%v, or %d tokens at %v, excess %v, in %v, cut %t", err, r.Tokens, r.Rate, r.Excess, r.Total, r.Cut)
	}
}

// A gate is a Holder: the queue is let go at once. x/time/rate is none: it starts at once.
func TestQueue(t *testing.T) {
	what := measure.Case{PerSecond: 1000, Callers: 500, Queued: true}
	for name, l := range map[string]func(int) measure.Limiter{
		"gate": gated,
		"rate": func(n int) measure.Limiter { return rate.NewLimiter(rate.Limit(n), 1) },
	} {
		r, err := run(t, measure.Candidate{Name: name, New: l}, what)
		if err != nil {
			t.Fatal(err)
		}
		held := name == "gate"
		if r.Tokens != 500 || r.Total != what.Ideal() || r.Total != 499*time.Millisecond || r.Cut || r.Held != held || r.Excess != 0 || r.Late.Max() != 0 {
			t.Errorf("%s: %d tokens in %v, cut %t, held %t, excess %v, late %v", name, r.Tokens, r.Total, r.Cut, r.Held, r.Excess, time.Duration(r.Late.Max()))
		}
	}
}

// tardy is a gate with a hold that is nearly over when it has begun.
type tardy struct {
	*gate.Rate
	holds int
}

func (l *tardy) Hold(d time.Duration) {
	l.Rate.Hold(d)
	if l.holds++; l.holds == 1 {
		time.Sleep(d * 9 / 10)
	}
}

// The hold goes on until all have come.
func TestQueueComesSlowly(t *testing.T) {
	var l *tardy
	c := measure.Candidate{Name: "tardy", New: func(n int) measure.Limiter {
		l = &tardy{Rate: gate.NewRate(pace.PerSecond(n), nil)}
		return l
	}}
	for _, callers := range []int{1, 500, 2500} {
		what := measure.Case{PerSecond: 1000, Callers: callers, Queued: true}
		r, err := run(t, c, what)
		if err != nil {
			t.Fatal(err)
		}
		if r.Tokens != callers || r.Total != what.Ideal() || r.Late.Max() != 0 || l.holds != 3 {
			t.Errorf("%d callers: %d tokens in %v, late %v, %d holds, want 3", callers, r.Tokens, r.Total, time.Duration(r.Late.Max()), l.holds)
		}
	}
}

// busy is a gate that is busy for a while before it lets itself be held for the last time.
type busy struct {
	*gate.Rate
	holds int
}

func (l *busy) Hold(d time.Duration) {
	if l.holds++; l.holds == 2 {
		time.Sleep(20 * time.Millisecond)
	}
	l.Rate.Hold(d)
}

// When the hold ends is known, however long it took to begin.
func TestQueueHeldLate(t *testing.T) {
	var l *busy
	c := measure.Candidate{Name: "busy", New: func(n int) measure.Limiter {
		l = &busy{Rate: gate.NewRate(pace.PerSecond(n), nil)}
		return l
	}}
	what := measure.Case{PerSecond: 1000, Callers: 500, Queued: true}
	r, err := run(t, c, what)
	if err != nil {
		t.Fatal(err)
	}
	if r.Tokens != 500 || r.Total != what.Ideal() || r.Cut || l.holds != 3 {
		t.Errorf("%d tokens in %v, cut %t, %d holds, want 3", r.Tokens, r.Total, r.Cut, l.holds)
	}
}

// stuck is a gate that can't be held again before the hold is over, as often as it says.
type stuck struct {
	*gate.Rate
	times int
	holds []time.Duration // the first ones of each time, which are known by what follows
	last  time.Time
}

func (l *stuck) Hold(d time.Duration) {
	now := time.Now()
	if first := len(l.holds) == 0 || now.Sub(l.last) > 100*time.Millisecond; first {
		l.holds = append(l.holds, d)
	} else if len(l.holds) <= l.times {
		time.Sleep(l.holds[len(l.holds)-1] + 10*time.Millisecond)
	}
	l.Rate.Hold(d)
	l.last = time.Now()
}

// If the callers go before all of them have come, they are gathered once more, for longer.
func TestQueueHeldTooLate(t *testing.T) {
	for times := range 4 {
		var l *stuck
		c := measure.Candidate{Name: "stuck", New: func(n int) measure.Limiter {
			l = &stuck{Rate: gate.NewRate(pace.PerSecond(n), nil), times: times}
			return l
		}}
		what := measure.Case{PerSecond: 1000, Callers: 500, Queued: true}
		r, err := run(t, c, what)
		if err != nil {
			t.Fatal(err)
		}
		if held := times < 3; r.Tokens != 500 || r.Held != held || held && r.Total != what.Ideal() {
			t.Errorf("%d times: %d tokens in %v, held %t, want %t", times, r.Tokens, r.Total, r.Held, held)
		}
		for i, d := range l.holds {
			if i > 0 && d != 2*l.holds[i-1] {
				t.Errorf("%d times: gathered for %v", times, l.holds)
			}
		}
		if len(l.holds) != min(times+1, 3) {
			t.Errorf("%d times: gathered for %v", times, l.holds)
		}
	}
}

// A limiter that is too slow is not waited for.
func TestQueueIsCut(t *testing.T) {
	slow := measure.Candidate{Name: "slow", New: func(int) measure.Limiter { return rate.NewLimiter(1, 1) }}
	r, err := run(t, slow, measure.Case{PerSecond: 10, Callers: 11, Queued: true})
	// Cut at 3 · 1 s + 1 s: 0, 1, 2, 3 s, and the one at 4 s is a matter of luck.
	if err != nil || !r.Cut || r.Tokens < 4 || r.Tokens > 5 || r.Total < 3*time.Second {
		t.Errorf("%v, or %d tokens at %v, excess %v, in %v, cut %t", err, r.Tokens, r.Rate, r.Excess, r.Total, r.Cut)
	}
}

type failing struct{ left atomic.Int64 }

var errBroken = errors.New("broken")

func (f *failing) Wait(context.Context) error {
	time.Sleep(time.Millisecond)
	if f.left.Add(-1) < 0 {
		return errBroken
	}
	return nil
}

func TestFailure(t *testing.T) {
	for _, what := range []measure.Case{
		{PerSecond: 1000, Callers: 3, Duration: time.Second},
		{PerSecond: 1000, Callers: 30, Queued: true},
	} {
		f := new(failing)
		f.left.Store(10)
		_, err := run(t, measure.Candidate{Name: "failing", New: func(int) measure.Limiter { return f }}, what)
		if !errors.Is(err, errBroken) {
			t.Errorf("%v: %v, want %v", what, err, errBroken)
		}
	}
}

func TestInterrupt(t *testing.T) {
	errEnough := errors.New("enough")
	for _, what := range []measure.Case{
		{PerSecond: 10, Callers: 3, Duration: time.Hour},
		{PerSecond: 10, Callers: 1000, Queued: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			began := time.Now()
			time.AfterFunc(time.Second, func() { cancel(errEnough) })
			_, err := measure.Run(ctx, measure.Candidate{Name: "gate", New: gated}, what)
			if !errors.Is(err, errEnough) || time.Since(began) != time.Second {
				t.Errorf("%v: %v after %v", what, err, time.Since(began))
			}
		})
	}
}

// A limiter that does not listen is spared the cases that would keep its callers waiting.
func TestDeaf(t *testing.T) {
	made := 0
	deaf := measure.Candidate{Name: "deaf", Deaf: true, New: func(n int) measure.Limiter { made++; return gated(n) }}
	_, err := run(t, deaf, measure.Case{PerSecond: 10, Callers: 21, Duration: time.Second})
	if !errors.Is(err, measure.ErrDeaf) || made > 0 {
		t.Errorf("%v, %d made", err, made)
	}
	for _, what := range []measure.Case{
		{PerSecond: 10, Callers: 20, Duration: time.Second},
		{PerSecond: 10, Callers: 21, Queued: true},
	} {
		if _, err := run(t, deaf, what); err != nil {
			t.Errorf("%v: %v", what, err)
		}
	}
}

type stopped struct {
	unlimited
	stops *int
}

func (s stopped) Stop() { *s.stops++ }

func TestStop(t *testing.T) {
	stops := 0
	c := measure.Candidate{Name: "stopped", New: func(int) measure.Limiter { return stopped{stops: &stops} }}
	if _, err := run(t, c, measure.Case{PerSecond: 1000, Callers: 1, Duration: time.Millisecond}); err != nil || stops != 1 {
		t.Errorf("%v, stopped %d times", err, stops)
	}
}

func TestMisuse(t *testing.T) {
	good := measure.Case{PerSecond: 1, Callers: 1, Duration: 1}
	for _, tt := range []struct {
		want   string
		c      measure.Candidate
		change func(*measure.Case)
	}{
		{"measure: Run: New must not be nil, got a Candidate \"x\" without", measure.Candidate{Name: "x"}, func(*measure.Case) {}},
		{"measure: Run: MinTokens must be 0 to 10000000, got -1", measure.Candidate{New: gated}, func(c *measure.Case) { c.MinTokens = -1 }},
		{"measure: Run: PerSecond must be 1 to 10000000, got 0", measure.Candidate{New: gated}, func(c *measure.Case) { c.PerSecond = 0 }},
		{"measure: Run: PerSecond must be 1 to 10000000, got 10000001", measure.Candidate{New: gated}, func(c *measure.Case) { c.PerSecond = 10_000_001 }},
		{"measure: Run: Callers must be at least 1, got 0", measure.Candidate{New: gated}, func(c *measure.Case) { c.Callers = 0 }},
		{"measure: Run: Duration must be positive, got 0s", measure.Candidate{New: gated}, func(c *measure.Case) { c.Duration = 0 }},
		{"measure: Run: Busy must be 0 to 1000, got -1", measure.Candidate{New: gated}, func(c *measure.Case) { c.Busy = -1 }},
		{"measure: Run: Busy must be 0 to 1000, got 1001", measure.Candidate{New: gated}, func(c *measure.Case) { c.Busy = 1001 }},
		{"measure: Run: Busy must be 0 in a queue, got 1", measure.Candidate{New: gated}, func(c *measure.Case) { c.Busy, c.Queued = 1, true }},
	} {
		what := good
		tt.change(&what)
		func() {
			defer func() {
				if got := recover(); got != tt.want {
					t.Errorf("%v, want %v", got, tt.want)
				}
			}()
			measure.Run(context.Background(), tt.c, what)
		}()
	}
}

func TestNames(t *testing.T) {
	for want, c := range map[string]measure.Case{
		"5000/s, 64 callers":                  {PerSecond: 5000, Callers: 64},
		"1/s, 1 caller":                       {PerSecond: 1, Callers: 1},
		"10/s, 2 callers queued":              {PerSecond: 10, Callers: 2, Queued: true},
		"10/s, 2 callers, 4 busy a processor": {PerSecond: 10, Callers: 2, Busy: 4},
	} {
		if got := c.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if !strings.Contains(measure.ErrDeaf.Error(), "left out") {
		t.Error(measure.ErrDeaf)
	}
}

// What is planned is what it takes.
func TestPlanned(t *testing.T) {
	for _, what := range []measure.Case{
		{PerSecond: 1000, Callers: 10, Duration: time.Second},
		{PerSecond: 1, Callers: 1, Duration: time.Second},
		{PerSecond: 1000, Callers: 2000, Queued: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			if _, err := measure.Run(t.Context(), measure.Candidate{New: gated}, what); err != nil || time.Since(began) != what.Planned() {
				t.Errorf("%v: %v, planned %v, took %v", what, err, what.Planned(), time.Since(began))
			}
		})
	}
}
