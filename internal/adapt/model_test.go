package adapt_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/internal/adapt"
)

// pass is an entry under way, as somebody sees it who only knows the contract.
type pass struct {
	mark       uint64
	generation int // count of generations when it was granted
	changes    int // count of changes of the interval
}

// The contract, whatever comes in whatever order: the bounds hold; only a pass of the current
// generation moves the interval; its throttle multiplies it by Backoff and starts the next; a
// success shortens it only if it was granted after the last change, so once a round trip at
// most; it lengthens it only at the end of a probe, to no more than it was before; GiveUp
// generations throttled in a row, without a success of a current one, give up; Reset forgets.
func TestContract(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := adapt.Config{
			Fastest: rapid.Int64Range(1, 1e9).Draw(t, "fastest"),
			Backoff: rapid.Float64Range(1.01, 10).Draw(t, "backoff"),
			Recover: rapid.Float64Range(0.05, 0.99).Draw(t, "recover"),
			GiveUp:  rapid.IntRange(0, 4).Draw(t, "give up"),
		}
		c.Slowest = c.Fastest * rapid.Int64Range(1, 1000).Draw(t, "slowest")
		throttles := rapid.IntRange(1, 40).Draw(t, "one in so many is throttled")
		lag := rapid.IntRange(1, 60).Draw(t, "under way")

		hint := func() int64 { return 0 }
		if most := rapid.Int64Range(0, 500).Draw(t, "intervals that the far side wants to be left alone"); most > 0 {
			hint = func() int64 { return rapid.Int64Range(0, most*c.Fastest).Draw(t, "hint") }
		}

		s := adapt.New(c)
		var (
			under               []pass
			old                 []pass // of before Reset
			now, held           int64
			generation, changes int
			streak              int
			gaveUp              bool
			known               bool        // a throttle has counted
			well, all           float64     // of the entries since the first throttle in a row
			longest             = c.Fastest // before the last time it became shorter
		)
		for range rapid.IntRange(1, 600).Draw(t, "calls") {
			now = max(now+s.Interval(), held)
			under = append(under, pass{s.Grant(now), generation, changes})
			if len(under) < lag {
				continue
			}
			i := 0
			if rapid.IntRange(0, 9).Draw(t, "out of order") == 0 {
				i = rapid.IntRange(0, len(under)-1).Draw(t, "which")
			}
			p := under[i]
			under = append(under[:i], under[i+1:]...)
			was := s.Interval()
			current, fresh := p.generation == generation, p.changes == changes
			throttled := rapid.IntRange(1, throttles).Draw(t, "throttled") == 1

			var changed, counts bool
			if throttled {
				after := hint()
				if changed, counts = s.Throttle(p.mark, after); counts {
					held = max(held, now+after)
				}
			} else {
				changed = s.Success(p.mark)
			}
			is := s.Interval()
			switch {
			case changed != (is != was):
				t.Fatalf("changed is %v, but %d became %d", changed, was, is)
			case is < c.Fastest || is > c.Slowest:
				t.Fatalf("interval %d is out of bounds", is)
			case !current && changed:
				t.Fatalf("a pass of an earlier generation made %d of %d", is, was)
			case throttled && !counts && (changed || !known):
				t.Fatalf("a throttle that does not count made %d of %d; one has counted: %v", is, was, known)
			case current && throttled && counts:
				known = true
				if most := float64(c.GiveUp); all > most {
					well, all = well*most/all, most
				}
				all++
				if want := times(was, c.Backoff, c.Slowest); is != want {
					t.Fatalf("throttle made %d of %d, want %d", is, was, want)
				}
				generation++
				changes++ // even if it could not grow
				streak++
				gaveUp = gaveUp || c.GiveUp > 0 && streak >= c.GiveUp
				longest = is
			case throttled:
			case current:
				if well, all = well+1, all+1; streak == 0 || well >= all/8 {
					streak, well, all = 0, 0, 0
				}
				if is < was && !fresh {
					t.Fatalf("a success from before the last change made %d of %d", is, was)
				}
				if is > was && is > longest {
					t.Fatalf("a success made %d of %d; it was %d before the probe", is, was, longest)
				}
				if is < was {
					longest = was
				}
				if is > was {
					generation++
				}
				if changed {
					changes++
				}
			}
			if s.GaveUp() != gaveUp {
				t.Fatalf("gave up: %v, want %v after %d in a row", s.GaveUp(), gaveUp, streak)
			}
			for _, p := range old {
				if changed, _ := s.Throttle(p.mark, 0); changed || s.Success(p.mark) {
					t.Fatal("a pass from before Reset moved the interval")
				}
			}
			old = nil
			if rapid.IntRange(0, 199).Draw(t, "reset") == 0 {
				s.Reset()
				if s.Interval() != c.Fastest || s.GaveUp() {
					t.Fatalf("after Reset: interval %d, gave up: %v", s.Interval(), s.GaveUp())
				}
				old, under = under, nil
				streak, gaveUp, longest, known, well, all = 0, false, c.Fastest, false, 0, 0
				generation++
				changes++
			}
		}
	})
}

// times is x times f, rounded to the nearest nanosecond and bounded.
func times(x int64, f float64, most int64) int64 {
	y := float64(x) * f
	if y >= float64(most) {
		return most
	}
	return int64(y + 0.5)
}
