package strictapi_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/escapement-go/escapement/examples/strictapi"
)

const ms = time.Millisecond

// take is one line of a table: a call at an instant, and the verdict on it.
type take struct {
	at        time.Duration
	ok        bool
	remaining int
	reset     time.Duration
}

func TestLimits(t *testing.T) {
	for _, tt := range []struct {
		name      string
		limit     strictapi.Limit
		tolerance time.Duration
		takes     []take
	}{
		{"sliding window", strictapi.SlidingWindow(3, time.Second), 0, []take{
			{0, true, 2, 1000 * ms},
			{400 * ms, true, 1, 600 * ms},
			{900 * ms, true, 0, 100 * ms},
			{900 * ms, false, 0, 100 * ms},
			{time.Second - 1, false, 0, 1},    // [0, 1s) holds three
			{time.Second, true, 0, 400 * ms},  // a window is half-open: 0 has left
			{1399 * ms, false, 0, 1 * ms},     // refused calls do not count
			{1400 * ms, true, 0, 500 * ms},    //
			{10 * time.Second, true, 2, 1e9},  // all forgotten
			{20 * time.Second, true, 2, 1e9},  //
			{20 * time.Second, true, 1, 1e9},  // equal instants count each
			{20 * time.Second, true, 0, 1e9},  //
			{20 * time.Second, false, 0, 1e9}, //
			{21*time.Second - 1, false, 0, 1}, //
			{21 * time.Second, true, 2, 1e9},  // n at once follow n at once a span later
			{21 * time.Second, true, 1, 1e9},  //
			{21 * time.Second, true, 0, 1e9},  //
			{21*time.Second + 1, false, 0, 1e9 - 1},
		}},
		{"sliding window, longest span", strictapi.SlidingWindow(1, math.MaxInt64), 0, []take{
			{time.Hour, true, 0, math.MaxInt64},
			{2 * time.Hour, false, 0, math.MaxInt64 - time.Hour},
		}},
		{"sliding window, tolerance", strictapi.SlidingWindow(1, time.Second), 2 * ms, []take{
			{0, true, 0, 1000 * ms},
			{998*ms - 1, false, 0, 2*ms + 1}, // Reset tells the span as it is without tolerance
			{998 * ms, true, 0, 1000 * ms},
			{1995 * ms, false, 0, 3 * ms},
			{1996 * ms, true, 0, 1000 * ms},
		}},
		{"fixed window", strictapi.FixedWindow(2, time.Second), 0, []take{
			{900 * ms, true, 1, 100 * ms},
			{990 * ms, true, 0, 10 * ms},
			{time.Second - 1, false, 0, 1},
			{1000 * ms, true, 1, 1000 * ms}, // four calls within 100 ms
			{1000 * ms, true, 0, 1000 * ms},
			{1001 * ms, false, 0, 999 * ms},
			{5300 * ms, true, 1, 700 * ms}, // windows stay at multiples of the span
		}},
		{"fixed window, tolerance", strictapi.FixedWindow(2, time.Second), 2 * ms, []take{
			{998 * ms, true, 1, 2 * ms}, // no tolerance needed, none used
			{998 * ms, true, 0, 2 * ms},
			{998 * ms, true, 1, 1002 * ms}, // counts as a part of the next window
			{1500 * ms, true, 0, 500 * ms},
			{1998*ms - 1, false, 0, 2*ms + 1},
			{1998 * ms, true, 1, 1002 * ms},
		}},
		{"leaky bucket, 5 per 10 s", strictapi.LeakyBucket(5, 10*time.Second, 5), 0, []take{
			{0, true, 4, 2000 * ms},
			{10 * ms, true, 3, 1990 * ms},
			{20 * ms, true, 2, 1980 * ms},
			{30 * ms, true, 1, 1970 * ms},
			{40 * ms, true, 0, 1960 * ms},
			{50 * ms, false, 0, 1950 * ms},
			{2*time.Second - 1, false, 0, 1},
			{2 * time.Second, true, 0, 2 * time.Second},
			{4 * time.Second, true, 0, 2 * time.Second},
			{24 * time.Second, true, 4, 2 * time.Second}, // empty again, and no emptier than that
		}},
		{"leaky bucket, an interval that is no whole nanosecond", strictapi.LeakyBucket(3, 10, 1), 0, []take{
			{0, true, 0, 4}, // 10/3, rounded up
			{3, false, 0, 1},
			{4, true, 0, 4},
			{7, false, 0, 1}, // 4 + 10/3 = 7 1/3
			{8, true, 0, 4},
			{11, false, 0, 1},
			{12, true, 0, 4},
		}},
		{"leaky bucket, tolerance", strictapi.LeakyBucket(10, time.Second, 1), 5 * ms, []take{
			{0, true, 0, 100 * ms},
			{95*ms - 1, false, 0, 5*ms + 1},
			{95 * ms, true, 0, 105 * ms},
			{194 * ms, false, 0, 6 * ms},
			{195 * ms, true, 0, 105 * ms}, // early once, not every time
			{300 * ms, true, 0, 100 * ms},
			{395 * ms, true, 0, 105 * ms},
		}},
		{"leaky bucket, tolerance of several intervals", strictapi.LeakyBucket(10, time.Second, 1), 350 * ms, []take{
			{0, true, 0, 100 * ms},
			{0, true, 0, 200 * ms},
			{0, true, 0, 300 * ms},
			{0, true, 0, 400 * ms},
			{0, false, 0, 400 * ms},
			{50 * ms, true, 0, 450 * ms},
			{50 * ms, false, 0, 450 * ms},
		}},
		{"leaky bucket, a long silence", strictapi.LeakyBucket(1_000_000, time.Second, 2), 0, []take{
			{0, true, 1, 1000},
			{0, true, 0, 1000},
			{100 * 365 * 24 * time.Hour, true, 1, 1000},
		}},
		// Twice shown what there is.
		{"advertise", strictapi.Advertise(strictapi.SlidingWindow(4, time.Second),
			strictapi.SlidingWindow(2, 2*time.Second)), 0, []take{
			{0, true, 3, 1000 * ms},
			{400 * ms, true, 2, 600 * ms},
			{500 * ms, false, 0, 1500 * ms}, // the truth
			{2 * time.Second, true, 3, 1000 * ms},
		}},
		{"advertise less than there is", strictapi.Advertise(strictapi.SlidingWindow(1, time.Second),
			strictapi.SlidingWindow(2, time.Second)), 0, []take{
			{0, true, 0, 1000 * ms},
			{100 * ms, true, 0, 900 * ms},
			{200 * ms, false, 0, 800 * ms},
		}},
		{"advertise, tolerance", strictapi.Advertise(strictapi.SlidingWindow(9, time.Second),
			strictapi.SlidingWindow(1, time.Second)), 2 * ms, []take{
			{0, true, 8, 1000 * ms},
			{998*ms - 1, false, 0, 2*ms + 1},
			{998 * ms, true, 8, 1000 * ms},
		}},
		{"phases, one", strictapi.Phases(strictapi.SlidingWindow(1, time.Second)), 0, []take{
			{0, true, 0, 1000 * ms},
			{999 * ms, false, 0, 1 * ms},
		}},
		{"phases, sliding windows", strictapi.Phases(strictapi.SlidingWindow(4, time.Second),
			strictapi.Phase{From: 500 * ms, Limit: strictapi.SlidingWindow(2, time.Second)},
			strictapi.Phase{From: 1400 * ms, Limit: strictapi.SlidingWindow(5, 2*time.Second)}), 0, []take{
			{0, true, 3, 1000 * ms},
			{100 * ms, true, 2, 900 * ms},
			{500*ms - 1, true, 1, 500*ms + 1},
			{500 * ms, false, 0, 600 * ms}, // three in the window: the second must leave it
			{1000 * ms, false, 0, 100 * ms},
			{1100 * ms, true, 0, 400*ms - 1},
			{1400*ms - 1, false, 0, 100 * ms}, // of what comes it knows nothing
			{1400 * ms, true, 0, 600 * ms},    // five in two seconds
			{2000*ms - 1, false, 0, 1},
			{2000 * ms, true, 0, 100 * ms},
		}},
		{"phases, fixed windows", strictapi.Phases(strictapi.FixedWindow(4, time.Second),
			strictapi.Phase{From: 1500 * ms, Limit: strictapi.FixedWindow(2, time.Second)},
			strictapi.Phase{From: 2500 * ms, Limit: strictapi.FixedWindow(4, time.Second)}), 0, []take{
			{1000 * ms, true, 3, 1000 * ms},
			{1000 * ms, true, 2, 1000 * ms},
			{1400 * ms, true, 1, 600 * ms},
			{1500 * ms, false, 0, 500 * ms},
			{2000 * ms, true, 1, 1000 * ms},
			{2100 * ms, true, 0, 900 * ms},
			{2200 * ms, false, 0, 800 * ms},
			{2500 * ms, true, 1, 500 * ms}, // the third of this window
		}},
		{"phases, leaky buckets", strictapi.Phases(strictapi.LeakyBucket(10, time.Second, 4),
			strictapi.Phase{From: 50 * ms, Limit: strictapi.LeakyBucket(5, time.Second, 2)},
			strictapi.Phase{From: 400 * ms, Limit: strictapi.LeakyBucket(10, time.Second, 1)}), 0, []take{
			{0, true, 3, 100 * ms},
			{0, true, 2, 100 * ms},
			{0, true, 1, 100 * ms},
			{50 * ms, false, 0, 150 * ms}, // full since 0, and no fuller
			{200 * ms, true, 0, 200 * ms},
			{390 * ms, false, 0, 10 * ms},
			{400 * ms, true, 0, 100 * ms},
		}},
		{"phases, a bucket leaks before its time", strictapi.Phases(strictapi.SlidingWindow(9, time.Second),
			strictapi.Phase{From: 1050 * ms, Limit: strictapi.LeakyBucket(10, time.Second, 2)}), 0, []take{
			{0, true, 8, 1000 * ms},
			{1000 * ms, true, 8, 1000 * ms},
			{1050 * ms, true, 0, 50 * ms},
			{1050 * ms, false, 0, 50 * ms},
		}},
		// The inner limits must count what comes before their time as well.
		{"phases of advertised phases", strictapi.Phases(strictapi.SlidingWindow(9, time.Second),
			strictapi.Phase{From: 100 * ms, Limit: strictapi.Advertise(strictapi.SlidingWindow(9, time.Second),
				strictapi.Phases(strictapi.SlidingWindow(1, time.Second),
					strictapi.Phase{From: 200 * ms, Limit: strictapi.SlidingWindow(3, time.Second)}))}), 0, []take{
			{0, true, 8, 1000 * ms},
			{50 * ms, true, 7, 950 * ms},
			{100 * ms, false, 0, 950 * ms},
			{200 * ms, true, 6, 800 * ms},
			{200 * ms, false, 0, 800 * ms},
		}},
		{"phases, a limit of another make", strictapi.Phases(strictapi.SlidingWindow(3, time.Second),
			strictapi.Phase{From: 100 * ms, Limit: foreign{strictapi.SlidingWindow(2, time.Second)}}), 0, []take{
			{0, true, 2, 1000 * ms},
			{10 * ms, true, 1, 990 * ms},
			{20 * ms, true, 0, 980 * ms},
			{100 * ms, false, 0, 900 * ms}, // holds the first two, having refused the third
			{1000 * ms, true, 0, 10 * ms},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := tt.limit.Meter(tt.tolerance)
			for i, c := range tt.takes {
				want := strictapi.Verdict{OK: c.ok, Remaining: c.remaining, Reset: c.reset}
				if got := m.Take(c.at); got != want {
					t.Fatalf("call %d at %v: got %+v, want %+v", i, c.at, got, want)
				}
			}
		})
	}
}

// Every limit against a slow and obvious reference, at random instants of which many are equal or
// exactly a span apart.
func TestLimitsAgreeWithReference(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 40 {
		n, burst := 1+rng.IntN(8), 1+rng.IntN(8)
		span := time.Duration(1 + rng.IntN(40))
		for _, m := range []struct {
			name      string
			limit     strictapi.Limit
			reference func(past []time.Duration, now time.Duration) bool
		}{
			{"SlidingWindow", strictapi.SlidingWindow(n, span), func(past []time.Duration, now time.Duration) bool {
				return bruteWorst(append(past[:len(past):len(past)], now), span) <= n
			}},
			{"FixedWindow", strictapi.FixedWindow(n, span), func(past []time.Duration, now time.Duration) bool {
				same := 0
				for _, at := range past {
					if at/span == now/span {
						same++
					}
				}
				return same < n
			}},
			{"LeakyBucket", strictapi.LeakyBucket(n, span, burst), func(past []time.Duration, now time.Duration) bool {
				return drip(append(past[:len(past):len(past)], now), n, span).Cmp(big.NewRat(int64(burst), 1)) <= 0
			}},
		} {
			meter := m.limit.Meter(0)
			var past []time.Duration
			var now time.Duration
			for call := range 40 {
				now += time.Duration(rng.IntN(2) * rng.IntN(int(span)+1))
				want := m.reference(past, now)
				got := meter.Take(now)
				if got.OK != want {
					t.Fatalf("round %d, %s(%d, %d, %d), call %d at %d: OK %v, reference %v; past %v",
						round, m.name, n, span, burst, call, now, got.OK, want, past)
				}
				if want {
					past = append(past, now)
				}
				// Remaining and Reset against the reference's own future.
				for k, at := 0, past[:len(past):len(past)]; k <= got.Remaining; k++ {
					if ok := m.reference(at, now); ok != (k < got.Remaining) {
						t.Fatalf("round %d, %s, call %d at %d: Remaining %d, but call %d more: %v",
							round, m.name, call, now, got.Remaining, k+1, ok)
					}
					at = append(at, now)
				}
				if !want && (m.reference(past, now+got.Reset-1) || !m.reference(past, now+got.Reset)) {
					t.Fatalf("round %d, %s, call %d at %d: Reset %d is not the first instant of leave",
						round, m.name, call, now, got.Reset)
				}
			}
		}
	}
}

// With so many calls in the window the ring grows while it is wrapped around.
func TestSlidingWindowOfManyCalls(t *testing.T) {
	const n, span = 100, 1000
	rng := rand.New(rand.NewPCG(5, 6))
	m := strictapi.SlidingWindow(n, span).Meter(0)
	var past []time.Duration
	var now time.Duration
	for call := range 3000 {
		// The pace doubles now and then, from far below the limit to above it.
		now += time.Duration(rng.IntN(2 * span / (10 << min(4, call/600))))
		in := 0
		for _, at := range past {
			if now-at < span {
				in++
			}
		}
		got := m.Take(now)
		if got.OK != (in < n) {
			t.Fatalf("call %d at %d: OK %v with %d in the window", call, now, got.OK, in)
		}
		if got.OK {
			past = append(past, now)
			in++
		}
		oldest := past[len(past)-in]
		if want := (strictapi.Verdict{OK: got.OK, Remaining: n - in, Reset: oldest + span - now}); got != want {
			t.Fatalf("call %d at %d: got %+v, want %+v", call, now, got, want)
		}
	}
	if worst := strictapi.WorstWindow(past, span); worst != n {
		t.Fatalf("worst window %d, want %d: the test does not reach the limit", worst, n)
	}
}

// foreign has nothing but the methods of Limit, and its meters nothing but Take.
type foreign struct{ strictapi.Limit }

func (l foreign) Meter(tolerance time.Duration) strictapi.Meter {
	return foreignMeter{l.Limit.Meter(tolerance)}
}

type foreignMeter struct{ strictapi.Meter }

// Every call let through counts in the later phases, whatever the limit was at the time.
func TestPhasesAgreeWithReference(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	type phase struct {
		from, span time.Duration
		n          int
	}
	for round := range 200 {
		sliding := round%2 == 0
		make := strictapi.FixedWindow
		if sliding {
			make = strictapi.SlidingWindow
		}
		var all []phase
		var limits []strictapi.Phase
		for i := range 4 {
			p := phase{time.Duration(i * (20 + rng.IntN(5))), time.Duration(1 + rng.IntN(20)), 1 + rng.IntN(6)}
			all = append(all, p)
			limits = append(limits, strictapi.Phase{From: p.from, Limit: make(p.n, p.span)})
			if i > 0 && p.from <= all[i-1].from {
				all, limits = all[:i], limits[:i]
				break
			}
		}
		meter := strictapi.Phases(limits[0].Limit, limits[1:]...).Meter(0)
		var past []time.Duration
		for now := time.Duration(0); now < 120; now += time.Duration(rng.IntN(3)) {
			p := all[0]
			for _, q := range all {
				if q.from <= now {
					p = q
				}
			}
			in := 0
			for _, at := range past {
				if sliding && now-at < p.span || !sliding && at/p.span == now/p.span {
					in++
				}
			}
			if got := meter.Take(now).OK; got != (in < p.n) {
				t.Fatalf("round %d at %d: %v with %d in the window of %+v; past %v", round, now, got, in, p, past)
			}
			if in < p.n {
				past = append(past, now)
			}
		}
	}
}

// drip returns how full an exact bucket is right after the last of the instants.
func drip(instants []time.Duration, n int, span time.Duration) *big.Rat {
	level, last := new(big.Rat), time.Duration(0)
	for _, at := range instants {
		level.Sub(level, big.NewRat(int64(at-last)*int64(n), int64(span)))
		if level.Sign() < 0 {
			level.SetInt64(0)
		}
		level.Add(level, big.NewRat(1, 1))
		last = at
	}
	return level
}

func TestLimitPolicy(t *testing.T) {
	for _, l := range []strictapi.Limit{
		strictapi.SlidingWindow(7, time.Minute),
		strictapi.FixedWindow(7, time.Minute),
		strictapi.LeakyBucket(7, time.Minute, 3),
	} {
		if n, span := l.Policy(); n != 7 || span != time.Minute {
			t.Errorf("%T: Policy is %d in %v, want 7 in 1m", l, n, span)
		}
	}
}

func TestMetersAreIndependent(t *testing.T) {
	l := strictapi.SlidingWindow(1, time.Second)
	a, b := l.Meter(0), l.Meter(0)
	if !a.Take(0).OK || !b.Take(0).OK || a.Take(0).OK {
		t.Error("two meters of one limit share a count")
	}
}

func TestConstructorsPanic(t *testing.T) {
	for _, tt := range []struct {
		want string
		f    func()
	}{
		{"SlidingWindow: n must be at least 1, got 0", func() { strictapi.SlidingWindow(0, time.Second) }},
		{"SlidingWindow: span must be positive, got 0s", func() { strictapi.SlidingWindow(1, 0) }},
		{"FixedWindow: n must be at least 1, got -1", func() { strictapi.FixedWindow(-1, time.Second) }},
		{"FixedWindow: span must be positive, got -1ns", func() { strictapi.FixedWindow(1, -1) }},
		{"LeakyBucket: n must be at least 1, got 0", func() { strictapi.LeakyBucket(0, time.Second, 1) }},
		{"LeakyBucket: span must be positive, got 0s", func() { strictapi.LeakyBucket(1, 0, 1) }},
		{"LeakyBucket: burst must be at least 1, got 0", func() { strictapi.LeakyBucket(1, time.Second, 0) }},
		{"LeakyBucket: (n+burst)*span must be at most 292 years, got (9223372037+1)*1s",
			func() { strictapi.LeakyBucket(9223372037, time.Second, 1) }},
		{"LeakyBucket: (n+burst)*span must be at most 292 years, got (1+9223372036)*1s",
			func() { strictapi.LeakyBucket(1, time.Second, 9223372036) }},
		{"Constant: d must not be negative, got -1ns", func() { strictapi.Constant(-1) }},
		{"Uniform: low must not be negative, got -1ns", func() { strictapi.Uniform(-1, 1, 0) }},
		{"Uniform: high must be at least low (2ns), got 1ns", func() { strictapi.Uniform(2, 1, 0) }},
		{"Exponential: mean must be positive, got 0s", func() { strictapi.Exponential(0, 1, 0) }},
		{"Exponential: longest must be positive, got 0s", func() { strictapi.Exponential(1, 0, 0) }},
		{"LogNormal: median must be positive, got 0s", func() { strictapi.LogNormal(0, 1, 1, 0) }},
		{"LogNormal: longest must be positive, got -1ns", func() { strictapi.LogNormal(1, 1, -1, 0) }},
		{"LogNormal: sigma must be at least 0 and finite, got NaN", func() { strictapi.LogNormal(1, math.NaN(), 1, 0) }},
		{"LogNormal: sigma must be at least 0 and finite, got +Inf", func() { strictapi.LogNormal(1, math.Inf(1), 1, 0) }},
		{"WorstWindow: window must be positive, got 0s", func() { strictapi.WorstWindow(nil, 0) }},
		{"WorstWindow: instants must ascend, got 3s after 5s",
			func() { strictapi.WorstWindow([]time.Duration{5e9, 3e9}, 1) }},
		{"New: Concurrency must not be negative, got -1", func() { strictapi.New(&strictapi.Options{Concurrency: -1}) }},
		{"New: Tolerance must not be negative, got -1ns", func() { strictapi.New(&strictapi.Options{Tolerance: -1}) }},
		{"New: Tolerance must be below the limit's span of 1s, got 1s", func() {
			strictapi.New(&strictapi.Options{Limit: strictapi.FixedWindow(1, time.Second), Tolerance: time.Second})
		}},
		{"New: Tolerance must be below the limit's span of 10ms, got 10ms", func() {
			strictapi.New(&strictapi.Options{Tolerance: 10 * ms, Limit: strictapi.Advertise(
				strictapi.FixedWindow(1, time.Second), strictapi.Phases(strictapi.FixedWindow(1, time.Minute),
					strictapi.Phase{From: 1, Limit: strictapi.FixedWindow(1, 10*ms)}))})
		}},
		{"New: Moods[1] must not be nil", func() {
			strictapi.New(&strictapi.Options{Moods: []strictapi.Mood{strictapi.Always(strictapi.Fault{}), nil}})
		}},
		{"Advertise: shown must not be nil", func() { strictapi.Advertise(nil, strictapi.FixedWindow(1, 1)) }},
		{"Advertise: real must not be nil", func() { strictapi.Advertise(strictapi.FixedWindow(1, 1), nil) }},
		{"Phases: first must not be nil", func() { strictapi.Phases(nil) }},
		{"Phases: From must be after 0s, got 0s", func() {
			strictapi.Phases(strictapi.FixedWindow(1, 1), strictapi.Phase{Limit: strictapi.FixedWindow(1, 1)})
		}},
		{"Phases: From must be after 5ns, got 5ns", func() {
			strictapi.Phases(strictapi.FixedWindow(1, 1), strictapi.Phase{From: 5, Limit: strictapi.FixedWindow(1, 1)},
				strictapi.Phase{From: 5, Limit: strictapi.FixedWindow(1, 1)})
		}},
		{"Phases: the Limit from 5ns on must not be nil", func() {
			strictapi.Phases(strictapi.FixedWindow(1, 1), strictapi.Phase{From: 5})
		}},
		{"SlowFirst: n must not be negative, got -1", func() { strictapi.SlowFirst(-1, 2, strictapi.Constant(1)) }},
		{"SlowFirst: factor must be at least 1 and finite, got 0.5", func() { strictapi.SlowFirst(1, 0.5, strictapi.Constant(1)) }},
		{"SlowFirst: l must not be nil", func() { strictapi.SlowFirst(1, 2, nil) }},
		{"SlowUntil: end must not be negative, got -1ns", func() { strictapi.SlowUntil(-1, 2, strictapi.Constant(1)) }},
		{"SlowUntil: factor must be at least 1 and finite, got NaN",
			func() { strictapi.SlowUntil(1, math.NaN(), strictapi.Constant(1)) }},
		{"SlowUntil: factor must be at least 1 and finite, got +Inf",
			func() { strictapi.SlowUntil(1, math.Inf(1), strictapi.Constant(1)) }},
		{"SlowUntil: l must not be nil", func() { strictapi.SlowUntil(1, 2, nil) }},
		{"Share: share must be within [0, 1], got 1.5", func() { strictapi.Share(1.5, strictapi.Fault{}, 0) }},
		{"Share: share must be within [0, 1], got NaN", func() { strictapi.Share(math.NaN(), strictapi.Fault{}, 0) }},
		{"Share: Fault.Status must be 0 or within [500, 599], got 429",
			func() { strictapi.Share(1, strictapi.Fault{Status: 429}, 0) }},
		{"Always: Fault.Status must be 0 or within [500, 599], got 600",
			func() { strictapi.Always(strictapi.Fault{Status: 600}) }},
		{"Always: Fault.Drop must be 0, BeforeHeader or InBody, got 3",
			func() { strictapi.Always(strictapi.Fault{Drop: 3}) }},
		{"Always: a Fault must not have both Drop and Status, got Status 503",
			func() { strictapi.Always(strictapi.Fault{Status: 503, Drop: strictapi.InBody}) }},
		{"Always: Fault.RetryAfter must not be negative, got -1ns",
			func() { strictapi.Always(strictapi.Fault{Status: 503, RetryAfter: -1}) }},
		{"Always: Fault.RetryAfter must go with a Status, got 1s without",
			func() { strictapi.Always(strictapi.Fault{RetryAfter: time.Second}) }},
		{"Between: from must not be negative, got -1ns",
			func() { strictapi.Between(-1, 1, strictapi.Always(strictapi.Fault{})) }},
		{"Between: until must be after from (1ns), got 1ns",
			func() { strictapi.Between(1, 1, strictapi.Always(strictapi.Fault{})) }},
		{"Between: m must not be nil", func() { strictapi.Between(0, 1, nil) }},
		{"Mood: Fault.Status must be 0 or within [500, 599], got 42", func() {
			s := strictapi.New(&strictapi.Options{Moods: []strictapi.Mood{
				func(int, time.Duration) strictapi.Fault { return strictapi.Fault{Status: 42} }}})
			get(s, "")
		}},
		{"New: Ban.Strikes must not be negative, got -1", func() { newBan(strictapi.Ban{Strikes: -1}) }},
		{"New: Ban.Grace must not be negative, got -1ns", func() { newBan(strictapi.Ban{Grace: -1}) }},
		{"New: Ban.Early must not be negative, got -1ns", func() { newBan(strictapi.Ban{Early: -1}) }},
		{"New: Ban.For must not be negative, got -1ns", func() { newBan(strictapi.Ban{For: -1}) }},
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); got != "strictapi: "+tt.want {
					t.Errorf("panicked with %q, want %q", got, "strictapi: "+tt.want)
				}
			}()
			tt.f()
		}()
	}
}

func newBan(b strictapi.Ban) { strictapi.New(&strictapi.Options{Ban: &b}) }
