package retry_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/escapement-go/escapement/retry"
)

const longest = time.Duration(math.MaxInt64)

// The two ends of what each backoff chooses from.
func TestBackoffEnds(t *testing.T) {
	low := &retry.JitterOptions{Rand: func(int64) int64 { return 0 }}
	high := &retry.JitterOptions{Rand: func(n int64) int64 { return n - 1 }}
	const s = time.Second
	for _, c := range []struct {
		base, longest time.Duration
		n             int
		prev          time.Duration
		exp           time.Duration
		full, equal   [2]time.Duration
		decorrelated  [2]time.Duration
	}{
		{s, 10 * s, 1, 0, s, [2]time.Duration{0, s}, [2]time.Duration{s / 2, s}, [2]time.Duration{s, 3 * s}},
		{s, 10 * s, 2, s, 2 * s, [2]time.Duration{0, 2 * s}, [2]time.Duration{s, 2 * s}, [2]time.Duration{s, 3 * s}},
		{s, 10 * s, 4, 3 * s, 8 * s, [2]time.Duration{0, 8 * s}, [2]time.Duration{4 * s, 8 * s}, [2]time.Duration{s, 9 * s}},
		{s, 10 * s, 5, 4 * s, 10 * s, [2]time.Duration{0, 10 * s}, [2]time.Duration{5 * s, 10 * s}, [2]time.Duration{s, 10 * s}},
		{s, 2 * s, 1, 0, s, [2]time.Duration{0, s}, [2]time.Duration{s / 2, s}, [2]time.Duration{s, 2 * s}},
		{s, s, 99, s, s, [2]time.Duration{0, s}, [2]time.Duration{s / 2, s}, [2]time.Duration{s, s}},
		{1, 8, 3, 1, 4, [2]time.Duration{0, 4}, [2]time.Duration{2, 4}, [2]time.Duration{1, 3}},
		{3, 3, 1, 0, 3, [2]time.Duration{0, 3}, [2]time.Duration{1, 3}, [2]time.Duration{3, 3}},
		// No such number or delay before is ever handed over by a call.
		{s, 10 * s, 0, -s, s, [2]time.Duration{0, s}, [2]time.Duration{s / 2, s}, [2]time.Duration{s, 3 * s}},
		{s, 10 * s, math.MinInt, longest, s, [2]time.Duration{0, s}, [2]time.Duration{s / 2, s}, [2]time.Duration{s, 10 * s}},
		// The ends of the scale.
		{1, longest, 63, longest / 3, 1 << 62, [2]time.Duration{0, 1 << 62}, [2]time.Duration{1 << 61, 1 << 62}, [2]time.Duration{1, longest / 3 * 3}},
		{1, longest, 64, longest/3 + 1, longest, [2]time.Duration{0, longest - 1}, [2]time.Duration{longest / 2, longest}, [2]time.Duration{1, longest}},
		{1, longest, math.MaxInt, longest, longest, [2]time.Duration{0, longest - 1}, [2]time.Duration{longest / 2, longest}, [2]time.Duration{1, longest}},
		{longest, longest, 1, 0, longest, [2]time.Duration{0, longest - 1}, [2]time.Duration{longest / 2, longest}, [2]time.Duration{longest, longest}},
	} {
		check := func(name string, got, want time.Duration) {
			t.Helper()
			if got != want {
				t.Errorf("%s(%d, %d) number %d after %d: %d, want %d", name, c.base, c.longest, c.n, c.prev, got, want)
			}
		}
		check("Constant", retry.Constant(c.base)(c.n, c.prev), c.base)
		check("Exponential", retry.Exponential(c.base, c.longest)(c.n, c.prev), c.exp)
		for i, o := range []*retry.JitterOptions{low, high} {
			check("FullJitter", retry.FullJitter(c.base, c.longest, o)(c.n, c.prev), c.full[i])
			check("EqualJitter", retry.EqualJitter(c.base, c.longest, o)(c.n, c.prev), c.equal[i])
			check("DecorrelatedJitter", retry.DecorrelatedJitter(c.base, c.longest, o)(c.n, c.prev), c.decorrelated[i])
		}
	}
}

// A generator of one's own makes the delays repeat themselves; without one they differ.
func TestBackoffSource(t *testing.T) {
	draw := func(o *retry.JitterOptions) (all string) {
		for _, b := range []retry.Backoff{
			retry.FullJitter(time.Second, time.Hour, o),
			retry.EqualJitter(time.Second, time.Hour, o),
			retry.DecorrelatedJitter(time.Second, time.Hour, o),
		} {
			for n := range 10 {
				all += fmt.Sprint(b(n+1, time.Second), " ")
			}
		}
		return all
	}
	seeded := func() *retry.JitterOptions {
		return &retry.JitterOptions{Rand: rand.New(rand.NewPCG(1, 2)).Int64N}
	}
	if a, b := draw(seeded()), draw(seeded()); a != b {
		t.Errorf("the same seed gave\n%s and\n%s", a, b)
	}
	for _, o := range []*retry.JitterOptions{nil, {}} {
		if a, b := draw(o), draw(o); a == b {
			t.Errorf("twice %s", a)
		}
	}
}

// Delays are spread evenly, and as widely as promised.
func TestBackoffSpread(t *testing.T) {
	o := &retry.JitterOptions{Rand: rand.New(rand.NewPCG(1, 2)).Int64N}
	for name, c := range map[string]struct {
		b        retry.Backoff
		from, to time.Duration
	}{
		"full":         {retry.FullJitter(time.Second, time.Hour, o), 0, 8 * time.Second},
		"equal":        {retry.EqualJitter(time.Second, time.Hour, o), 4 * time.Second, 8 * time.Second},
		"decorrelated": {retry.DecorrelatedJitter(time.Second, time.Hour, o), time.Second, 6 * time.Second},
	} {
		const draws, classes = 10_000, 10
		var counts [classes]int
		for range draws {
			d := c.b(4, 2*time.Second)
			if d < c.from || d > c.to {
				t.Fatalf("%s: %v is not between %v and %v", name, d, c.from, c.to)
			}
			counts[min(int((d-c.from)*classes/(c.to-c.from)), classes-1)]++
		}
		for i, n := range counts {
			if n < 850 || n > 1150 {
				t.Errorf("%s: %d of %d in class %d of %d", name, n, draws, i, classes)
			}
		}
	}
}

// Whatever the number, the base and the longest delay: every delay is within its bounds.
func FuzzBackoff(f *testing.F) {
	for _, n := range []int64{1, 2, 62, 63, 64, 65, 1 << 31, math.MaxInt64, 0, -1, math.MinInt64} {
		f.Add(n, int64(1), int64(math.MaxInt64), int64(0), uint64(n))
		f.Add(n, int64(100*ms), int64(30*time.Second), int64(time.Second), uint64(n))
		f.Add(n, int64(math.MaxInt64/2), int64(math.MaxInt64), int64(math.MaxInt64), uint64(n))
	}
	f.Fuzz(func(t *testing.T, n, base, most, prev int64, seed uint64) {
		b, m := time.Duration(max(base, 1)), time.Duration(max(most, base, 1))
		o := &retry.JitterOptions{Rand: rand.New(rand.NewPCG(seed, 0)).Int64N}
		exp := retry.Exponential(b, m)(int(n), time.Duration(prev))
		if exp < b || exp > m {
			t.Errorf("Exponential(%d, %d) number %d: %d", b, m, n, exp)
		}
		if n >= 1 && n < math.MaxInt32 {
			// It doubles, or it is at its longest.
			next := retry.Exponential(b, m)(int(n)+1, 0)
			if next != m && next != 2*exp {
				t.Errorf("Exponential(%d, %d) number %d: %d, then %d", b, m, n, exp, next)
			}
		}
		if d := retry.FullJitter(b, m, o)(int(n), time.Duration(prev)); d < 0 || d > exp {
			t.Errorf("FullJitter(%d, %d) number %d: %d", b, m, n, d)
		}
		if d := retry.EqualJitter(b, m, o)(int(n), time.Duration(prev)); d < exp/2 || d > exp {
			t.Errorf("EqualJitter(%d, %d) number %d: %d", b, m, n, d)
		}
		d := retry.DecorrelatedJitter(b, m, o)(int(n), time.Duration(prev))
		if d < b || d > m || d/3 > max(time.Duration(prev), b) {
			t.Errorf("DecorrelatedJitter(%d, %d) number %d after %d: %d", b, m, n, prev, d)
		}
	})
}
