package timing_test

import (
	"math"
	"sync"
	"testing"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/internal/timing"
)

const ms = time.Millisecond

func TestNowGoesWithTheClock(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		k := timing.New(b.Clock())
		start := k.Now()
		if start <= 0 {
			b.Errorf("Now() = %d at the start, want a positive instant", start)
		}
		for _, d := range []time.Duration{0, 1, 999, ms, time.Hour, 100 * 24 * time.Hour} {
			before := k.Now()
			b.Advance(d)
			if got := k.Now() - before; got != int64(d) {
				b.Errorf("%v later Now() has gone on by %v", d, time.Duration(got))
			}
		}
	})
}

// A mock clock may show any time within a century from the present.
func TestNowOfAnotherCentury(t *testing.T) {
	for _, years := range []int{-100, 100} {
		m := clock.NewMock()
		m.Set(time.Now().AddDate(years, 0, 0))
		k := timing.New(m)
		before := k.Now()
		m.Add(time.Hour)
		if got := k.Now() - before; got != int64(time.Hour) {
			t.Errorf("%d years from now an hour later Now() has gone on by %v", years, time.Duration(got))
		}
	}
}

// One that shows a time beyond that stands still at the end of the timeline, and still shows it.
func TestNowBeyondTheTimeline(t *testing.T) {
	for years, end := range map[int]int64{-200: 0, 200: timing.Never} {
		m := clock.NewMock()
		m.Set(time.Now().AddDate(years, 0, 0))
		k := timing.New(m)
		if got := k.Now(); got != end {
			t.Errorf("%d years from now Now() is %d, want %d", years, got, end)
		}
		if got := k.Time(k.Now()); !got.Equal(m.Now()) {
			t.Errorf("%d years from now it shows %v, want %v", years, got, m.Now())
		}
		if got := k.At(m.Now()); got != end {
			t.Errorf("%d years from now the present is at %d, want %d", years, got, end)
		}
	}
}

// Clocks of one source agree on every instant, whenever each was made.
func TestClocksAgree(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		early := timing.New(b.Clock())
		b.Advance(12345 * ms)
		late := timing.New(b.Clock())
		b.Advance(7)
		if early.Now() != late.Now() {
			b.Errorf("the clock made first reads %d, the other %d", early.Now(), late.Now())
		}
		at := b.Time().Add(time.Hour)
		if early.At(at) != late.At(at) {
			b.Errorf("the clock made first takes %v for %d, the other for %d", at, early.At(at), late.At(at))
		}
	})
}

func TestNowNeverRunsBackward(t *testing.T) {
	m := clock.NewMock()
	m.Set(time.Unix(1e9, 0))
	k := timing.New(m)
	start := k.Now()
	for _, back := range []time.Duration{1, time.Second, 24 * time.Hour, 30 * 365 * 24 * time.Hour} {
		m.Set(time.Unix(1e9, 0).Add(-back))
		if got := k.Now(); got != start {
			t.Errorf("set back by %v, Now() moves by %v", back, time.Duration(got-start))
		}
	}
	m.Set(time.Unix(1e9, 0).Add(-1))
	if got := k.Now(); got != start {
		t.Errorf("still behind, Now() moves by %v", time.Duration(got-start))
	}
	m.Set(time.Unix(1e9, 0).Add(ms))
	if got := k.Now() - start; got != int64(ms) {
		t.Errorf("1ms past where it was set back, Now() has gone on by %v", time.Duration(got))
	}
	// Before every instant that can be counted, and after.
	far := timing.New(m)
	m.Set(time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC))
	if a, b := far.Now(), far.Now(); a < 0 || b < a {
		t.Errorf("in the year 1 Now() = %d, then %d", a, b)
	}
	m.Set(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))
	if a, b := far.Now(), far.Now(); a <= 0 || b < a {
		t.Errorf("in the year 9999 Now() = %d, then %d", a, b)
	}
}

// Readings of many goroutines, while the mock is thrown about, never go back for any of
// them.
func TestNowNeverRunsBackwardForAnybody(t *testing.T) {
	bubble.Mock(t, func(b *bubble.B) {
		m := b.Clock().(*clock.Mock)
		m.Set(time.Unix(1e6, 0))
		k := timing.New(m)
		stop := make(chan struct{})
		var readers sync.WaitGroup
		for range 4 {
			readers.Go(func() {
				last := k.Now()
				for {
					select {
					case <-stop:
						return
					default:
					}
					now := k.Now()
					if now < last {
						b.Errorf("Now() = %d after %d", now, last)
						return
					}
					last = now
					time.Sleep(20 * time.Microsecond)
				}
			})
		}
		for i := range int64(20) {
			m.Set(time.Unix(1e6, i*7919%11))
		}
		close(stop)
		readers.Wait()
	})
}

func TestAtAndTime(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		b.Advance(3 * time.Hour)
		k := timing.New(b.Clock())
		for _, d := range []time.Duration{0, 1, -1, ms, -time.Hour, time.Hour, 50 * 365 * 24 * time.Hour} {
			when := b.Time().Add(d)
			at := k.At(when)
			if want := k.Now() + int64(d); at != want {
				b.Errorf("%v from now is at %d, want %d", d, at, want)
			}
			if got := k.Time(at); !got.Equal(when) {
				b.Errorf("the instant of %v is shown as %v", when, got)
			}
			if got := k.At(k.Time(at)); got != at {
				b.Errorf("At(Time(%d)) = %d", at, got)
			}
		}
		b.Advance(ms)
		if got := k.Time(k.Now()); !got.Equal(b.Time()) {
			b.Errorf("the present is shown as %v, want %v", got, b.Time())
		}
		if got := k.At(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)); got <= k.Now() {
			b.Errorf("the year 9999 is at %d, which is not after now, %d", got, k.Now())
		}
		if got := k.At(time.Time{}); got < 0 || got >= k.Now() {
			b.Errorf("the zero time is at %d, which is not before now, %d", got, k.Now())
		}
	})
}

func TestLater(t *testing.T) {
	for _, c := range []struct {
		at   int64
		d    time.Duration
		want int64
	}{
		{0, 0, 0},
		{5, 7, 12},
		{5, -3, 2},
		{5, -5, 0},
		{5, -6, 0},
		{0, math.MinInt64, 0},
		{math.MaxInt64 - 5, 4, math.MaxInt64 - 1},
		{math.MaxInt64 - 5, 5, timing.Never},
		{math.MaxInt64 - 5, 6, timing.Never},
		{math.MaxInt64 - 5, math.MaxInt64, timing.Never},
		{timing.Never, 0, timing.Never},
		{timing.Never, 1, timing.Never},
		{1, math.MaxInt64, timing.Never},
	} {
		if got := timing.Later(c.at, c.d); got != c.want {
			t.Errorf("Later(%d, %d) = %d, want %d", c.at, int64(c.d), got, c.want)
		}
	}
}

// wrapped is a clock from elsewhere; its pointer tells it apart.
type wrapped struct{ clock.Clock }

// value is one that is told apart by what it holds.
type value struct {
	clock.Clock
	name string
}

// loose can't be compared at all.
type loose struct {
	clock.Clock
	_ []int
}

func TestSame(t *testing.T) {
	m, other := clock.NewMock(), clock.NewMock()
	w := &wrapped{m}
	for _, c := range []struct {
		name string
		a, b clock.Clock
		want bool
	}{
		{"nil and nil", nil, nil, true},
		{"nil and the real one", nil, clock.New(), true},
		{"two real ones", clock.New(), clock.New(), true},
		{"nil and a mock", nil, m, false},
		{"the real one and a mock", clock.New(), m, false},
		{"one mock", m, m, true},
		{"two mocks", m, other, false},
		{"one of another type", w, w, true},
		{"two of another type", w, &wrapped{m}, false},
		{"another type and what it wraps", w, m, false},
		{"a wrapped real one and nil", &wrapped{clock.New()}, nil, false},
		{"equal values", value{m, "a"}, value{m, "a"}, true},
		{"values that differ", value{m, "a"}, value{m, "b"}, false},
		{"what can't be compared", loose{Clock: m}, loose{Clock: m}, false},
		{"what can't be compared and a mock", loose{Clock: m}, m, false},
	} {
		a, b := timing.New(c.a), timing.New(c.b)
		if got := a.Same(b); got != c.want {
			t.Errorf("%s: Same = %v, want %v", c.name, got, c.want)
		}
		if got := b.Same(a); got != c.want {
			t.Errorf("%s, the other way round: Same = %v, want %v", c.name, got, c.want)
		}
		if !a.Same(a) || !b.Same(b) {
			t.Errorf("%s: a Clock is not the same as itself", c.name)
		}
	}
}

// The other real clock, which somebody has passed on purpose, does the same as nil.
func TestRealClockByName(t *testing.T) {
	k, o := timing.New(nil), timing.New(clock.New())
	before, at, after := k.Now(), o.Now(), k.Now()
	if at < before || at > after {
		t.Errorf("the real clock reads %d between %d and %d", at, before, after)
	}
}
