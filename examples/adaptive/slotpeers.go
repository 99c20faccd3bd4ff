package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// The rules of other libraries, from their documentation and with their default settings. All begin with the
// client's own bound, which is the most they may have. Each learns of every answer, with the time that it took.

// limiter is a rule as a client.
type limiter struct {
	now   func() int // the present limit
	learn func(answer)
}

func (l *limiter) limit() int { return l.now() }
func (l *limiter) enter(_ time.Duration, inFlight int) (func(answer), bool) {
	return l.learn, inFlight <= l.now()
}

// newAIMD is the AIMDLimit of Netflix concurrency-limits. When a call is refused or exceeds the timeout, the limit is
// a tenth less. With each success it is one more, as long as half of it is in use.
func newAIMD(_ *virtual, w slotWorld) slotClient {
	limit := w.bound()
	return &limiter{
		now: func() int { return limit },
		learn: func(a answer) {
			switch {
			case !a.well:
				limit = max(1, min(limit-1, int(float64(limit)*0.9)))
			case a.inFlight*2 >= limit:
				limit = min(limit+1, w.bound())
			}
		},
	}
}

// newVegas is the VegasLimit of Netflix concurrency-limits. It takes the least latency for that without a queue, and
// aims at a queue of 3 to 6 times log10 of the limit. It measures the least one again after 15 to 30 times the limit.
func newVegas(_ *virtual, w slotWorld) slotClient {
	var (
		rng    = rand.New(rand.NewPCG(w.seed, 1))
		limit  = float64(w.bound())
		least  time.Duration
		probes int
		jitter = 0.5 + rng.Float64()/2
	)
	log := func() float64 { return math.Max(1, math.Floor(math.Log10(math.Floor(limit)))) }
	return &limiter{
		now: func() int { return int(limit) },
		learn: func(a answer) {
			if probes++; jitter*30*limit <= float64(probes) {
				jitter, probes, least = 0.5+rng.Float64()/2, 0, a.took
				return
			}
			if least == 0 || a.took < least {
				least = a.took
				return
			}
			queue := math.Ceil(limit * (1 - float64(least)/float64(a.took)))
			next := limit
			switch {
			case a.refused:
				next -= log()
			case float64(a.inFlight*2) < limit:
			case queue <= log():
				next += 6 * log()
			case queue < 3*log():
				next += log()
			case queue > 6*log():
				next -= log()
			}
			limit = math.Max(1, math.Min(next, float64(w.bound())))
		},
	}
}

// newGradient2 is the Gradient2Limit of Netflix concurrency-limits: it compares each latency with a long average
// of them, and allows for a queue of 4. It does not look at refusals.
func newGradient2(_ *virtual, w slotWorld) slotClient {
	limit, long := float64(w.bound()), average{age: 600}
	return &limiter{
		now: func() int { return int(limit) },
		learn: func(a answer) {
			short := float64(a.took)
			mean := long.add(short)
			if mean/short > 2 {
				long.value *= 0.9
			}
			if float64(a.inFlight) < limit/2 {
				return
			}
			gradient := math.Max(0.5, math.Min(1, mean/short))
			next := limit*0.8 + (limit*gradient+4)*0.2
			limit = math.Max(1, math.Min(next, float64(w.bound())))
		},
	}
}

// newEnvoy is the gradient controller of Envoy's adaptive concurrency filter. Every 100 ms it compares the median
// latency with an ideal one plus a quarter. It allows for a burst of the root of the limit. The ideal latency is that
// of 50 calls at a limit of 3. It is measured once a minute, or after five such spans at the lowest limit.
func newEnvoy(_ *virtual, w slotWorld) slotClient {
	const (
		lowest = 3
		every  = 100 * time.Millisecond
		again  = time.Minute
	)
	var (
		limit, kept = min(lowest, w.bound()), w.bound()
		measuring   = true
		ideal       float64
		samples     []float64
		next        time.Duration
		measure     time.Duration
		low         int
	)
	median := func() float64 {
		slices.Sort(samples)
		m := samples[len(samples)/2]
		samples = samples[:0]
		return m
	}
	return &limiter{
		now: func() int { return limit },
		learn: func(a answer) {
			samples = append(samples, float64(a.took))
			switch {
			case measuring && len(samples) >= 50:
				ideal, measuring = median(), false
				limit, next, measure, low = kept, a.now+every, a.now+again, 0
			case measuring || a.now < next:
			default:
				next = a.now + every
				gradient := math.Max(0.5, math.Min(2, ideal*1.25/median()))
				x := float64(limit) * gradient
				limit = min(max(int(x+math.Sqrt(x)), min(lowest, w.bound())), w.bound())
				if low++; limit > lowest {
					low = 0
				}
				if low >= 5 || a.now >= measure {
					measuring, kept, limit = true, limit, min(lowest, w.bound())
				}
			}
		},
	}
}

// newFailsafe is the adaptive limiter of failsafe-go. It compares the 90th percentile of recent latencies with an
// average of earlier ones. It also looks for correlations of the calls in flight with throughput and latency. It does
// not look at refusals. The default span of recent latencies is a second, which is half of a phase here. So it is at
// least 50 answers and two round trips.
func newFailsafe(_ *virtual, w slotWorld) slotClient {
	var (
		limit      = float64(w.bound())
		recent     []float64
		busiest    int
		least      time.Duration
		next       time.Duration
		medians    []float64
		smooth     = average{age: 5}
		baseline   = average{age: 10}
		throughput correlation
		latency    correlation
		inUse      int
	)
	log := func(n float64) float64 { return n * math.Max(1, math.Floor(math.Log10(limit))) }
	update := func() {
		slices.Sort(recent)
		medians = append(medians, recent[len(recent)*9/10])
		medians = medians[max(0, len(medians)-5):]
		sorted := slices.Sorted(slices.Values(medians))
		now := smooth.add(sorted[len(sorted)/2])
		queue := math.Ceil(limit * (1 - baseline.add(now)/now))
		flow, flowVaries := throughput.add(float64(busiest), float64(busiest)/now)
		slow, _ := latency.add(float64(busiest), now)
		full := inUse >= int(limit)
		switch {
		case queue > log(6), full && flow < 0, full && flow < 0.3 && slow > 0.5, full && flowVaries < 0.2 && slow > 0.5:
			limit -= log(1)
		case queue < log(3):
			limit += log(1)
		}
		limit = math.Max(1, math.Min(limit, math.Min(float64(w.bound()), 5*float64(busiest))))
	}
	l := &limiter{now: func() int { return int(limit) }}
	l.learn = func(a answer) {
		inUse = a.inFlight
		if a.refused {
			return
		}
		if len(recent) == 0 {
			least, busiest = a.took, 0
		}
		recent = append(recent, float64(a.took))
		least, busiest = min(least, a.took), max(busiest, a.inFlight)
		if len(recent) >= 50 && a.now > next {
			update()
			recent, next = recent[:0], a.now+2*least
		}
	}
	return l
}

// average is an exponential moving average. Its first ten values are averaged plainly.
type average struct {
	age, value float64
	n          int
}

func (a *average) add(x float64) float64 {
	if a.n++; a.n <= 10 {
		a.value += (x - a.value) / float64(a.n)
	} else {
		a.value += (x - a.value) * 2 / (a.age + 1)
	}
	return a.value
}

// correlation is that of the last 50 pairs.
type correlation struct{ x, y []float64 }

// add returns Pearson's coefficient, and the deviation of y in parts of its mean. The first ten pairs tell nothing.
func (c *correlation) add(x, y float64) (r, varies float64) {
	c.x, c.y = append(c.x, x), append(c.y, y)
	n := min(len(c.x), 50)
	c.x, c.y = c.x[len(c.x)-n:], c.y[len(c.y)-n:]
	if n < 10 {
		return 0, 1
	}
	var mx, my, sxx, syy, sxy float64
	for i := range c.x {
		mx, my = mx+c.x[i]/float64(n), my+c.y[i]/float64(n)
	}
	for i := range c.x {
		dx, dy := c.x[i]-mx, c.y[i]-my
		sxx, syy, sxy = sxx+dx*dx, syy+dy*dy, sxy+dx*dy
	}
	if sxx == 0 || syy == 0 {
		return 0, 1
	}
	return sxy / math.Sqrt(sxx*syy), math.Sqrt(syy/float64(n)) / my
}
