package main

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// world is a far side, the way to it, and the program that calls it. The zero values of most fields mean that
// something is not there. Lengths of time that are no [time.Duration] are in units.
type world struct {
	name string
	unit time.Duration // the far side's first interval

	told    float64       // interval that the client was told
	slowest time.Duration // the longest interval of a client; 0: that of a gate with no options
	callers int           // that make one call after the other; 0: always one more is ready
	latency float64       // round trip
	jitter  float64       // each way takes half the latency, times 1 ± that
	tail    tail          // how the way back varies besides

	limits steps         // the far side's interval; the zero value: there is no limit
	burst  int           // calls that the limit's bucket saves up
	window bool          // the limit is no bucket but a window of 100 units that slides
	others steps         // the share of the bucket that other clients ask for
	noise  noise         // refusals that have nothing to do with the pace
	items  float64       // the share of the items that are always refused
	hint   time.Duration // a refusal says when to come again, in multiples of this; 0: it says nothing

	length   float64    // of the whole
	counts   [2]float64 // the part of it that counts
	measured bool       // possible is what a fixed pace gets, for lack of a formula
	seeds    int        // how many plays the result is the median of; 0: one
}

// noise refuses a share of all calls.
type noise struct {
	share       float64
	from, until float64 // when; until 0: for ever
}

// steps are values that follow each other. Each is valid for a span, and the last one stays.
type steps struct {
	span   float64
	values []float64
}

// always is a value that stays.
func always(x float64) steps { return steps{math.Inf(1), []float64{x}} }

// at returns the value at an instant, and when the next one begins. Without values it is x.
func (s steps) at(t, x float64) (value, until float64) {
	if len(s.values) == 0 {
		return x, math.Inf(1)
	}
	i := min(int(t/s.span), len(s.values)-1)
	if i == len(s.values)-1 {
		return s.values[i], math.Inf(1)
	}
	return s.values[i], float64(i+1) * s.span
}

// at returns the share at an instant, and when it changes.
func (n noise) at(t float64) (share, until float64) {
	switch {
	case t < n.from:
		return 0, n.from
	case n.until == 0:
		return n.share, math.Inf(1)
	case t < n.until:
		return n.share, n.until
	}
	return 0, math.Inf(1)
}

// asked is the interval that the client was told.
func (w world) asked() time.Duration { return w.span(w.told) }

// span turns units into time, and units turns it back.
func (w world) span(units float64) time.Duration { return time.Duration(units * float64(w.unit)) }
func (w world) units(span time.Duration) float64 { return float64(span) / float64(w.unit) }
func (w world) longest() time.Duration           { return cmp.Or(w.slowest, max(time.Minute, w.asked())) }
func (w world) random(stream uint64, seed int) *rand.Rand {
	return rand.New(rand.NewPCG(uint64(seed), stream))
}

// allows returns the shortest interval at an instant that the limit takes, in units, and when it changes.
func (w world) allows(t float64) (interval, until float64) {
	interval, until = w.limits.at(t, 0)
	share, change := w.others.at(t, 0)
	return max(w.told, interval/(1-share)), min(until, change)
}

// possible is how many calls can succeed in the time that counts.
func (w world) possible() (calls float64) {
	for t := w.counts[0]; t < w.counts[1]; {
		_, limit := w.limits.at(t, 0)
		_, others := w.others.at(t, 0)
		_, noise := w.noise.at(t)
		until := min(limit, others, noise, w.counts[1])
		calls += (until - t) * w.most(t)
		t = until
	}
	return calls
}

// most is how many calls can succeed in a unit, at an instant. The callers make so many, the noise leaves a part of
// those, and the limit takes no more than its own.
func (w world) most(t float64) float64 {
	rate := 1 / w.told
	if w.callers > 0 {
		rate = min(rate, float64(w.callers)/w.latency)
	}
	noise, _ := w.noise.at(t)
	rate *= 1 - noise
	if interval, _ := w.limits.at(t, 0); interval > 0 {
		others, _ := w.others.at(t, 0)
		rate = min(rate, (1-others)/interval)
	}
	return rate
}

// count is how the far side answered in the time that counts.
type count struct{ well, throttled int }

// outcome is a cell of the table: calls that succeeded, in percent of those that could. The other figure are calls
// that were throttled, in percent of those sent.
type outcome struct{ goodput, throttled float64 }

// row is a line of the table.
type row struct {
	possible float64 // calls a second
	outcomes []outcome
}

// client makes the calls.
type client interface {
	// next returns the time until the next call may be made.
	next() time.Duration
	// enter makes a call, which is due, and returns what to do when its answer is there.
	enter() (leave func(well bool, after time.Duration))
	// interval is the time from one call to the next.
	interval() time.Duration
}

// kind makes a client for a world.
type kind func(now *virtual, w world) client

// row plays the world with each of its seeds and with each kind of client, and returns the medians. first is the
// first seed.
func (w world) row(kinds []kind, first int) (r row) {
	var possible []float64
	good, bad := make([][]float64, len(kinds)), make([][]float64, len(kinds))
	for seed := first; seed < first+max(1, w.seeds); seed++ {
		most := w.possible()
		if w.measured {
			now := new(virtual)
			most = float64(w.play(now, newFixed(now, w), seed).well)
		}
		possible = append(possible, most)
		for i, of := range kinds {
			now := new(virtual)
			o := w.play(now, of(now, w), seed)
			good[i] = append(good[i], 100*float64(o.well)/most)
			bad[i] = append(bad[i], 100*float64(o.throttled)/float64(max(1, o.well+o.throttled)))
		}
	}
	r.possible = median(possible) / w.span(w.counts[1]-w.counts[0]).Seconds()
	for i := range kinds {
		r.outcomes = append(r.outcomes, outcome{median(good[i]), median(bad[i])})
	}
	return r
}

func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}

// play lets the client make all the calls it may, on a clock that starts at 0.
func (w world) play(now *virtual, c client, seed int) (o count) {
	var (
		way   = w.random(0, seed)
		far   = w.farSide(seed)
		ready = w.program(seed)
		queue events
		end   = w.span(w.length)
		begin = w.span(w.counts[0])
		stop  = w.span(w.counts[1])
	)
	for {
		due := time.Duration(math.MaxInt64)
		if ready.some() {
			due = now.at + c.next()
		}
		if queue.empty() || queue.first() > due {
			if due >= end {
				return o
			}
			now.at = due
			e := event{call: ready.take(), leave: c.enter()}
			queue.push(e, now.at+w.way(way, 1))
			continue
		}
		e, at := queue.pop()
		if now.at = at; now.at >= end {
			return o
		}
		switch e.stage {
		case there:
			e.well, e.after = far.take(now.at, e.call)
			e.after = (e.after + w.hint - 1) / max(w.hint, 1) * w.hint
			if now.at >= begin && now.at < stop {
				if e.well {
					o.well++
				} else {
					o.throttled++
				}
			}
			e.stage = back
			queue.push(e, now.at+w.way(way, w.tail.draw(way)))
		case back:
			e.leave(e.well, e.after)
			if pause := ready.back(&e.call, e.well, e.after); pause > 0 {
				queue.push(event{call: e.call, stage: awake}, now.at+pause)
			} else {
				ready.put(e.call)
			}
		case awake:
			ready.put(e.call)
		}
	}
}

// way is how long a call is on its way, there or back.
func (w world) way(rng *rand.Rand, times float64) time.Duration {
	return time.Duration(w.latency / 2 * float64(w.unit) * (1 + w.jitter*(2*rng.Float64()-1)) * times)
}

// tail is how the way back varies.
type tail int

const (
	none      tail = iota
	logNormal      // with a sigma of 1
	pareto         // with an alpha of 1.5: its variance is infinite
)

// draw returns a factor that is 1 on average.
func (t tail) draw(rng *rand.Rand) float64 {
	switch t {
	case logNormal:
		return math.Exp(rng.NormFloat64() - 0.5)
	case pareto:
		const alpha = 1.5
		return (alpha - 1) / alpha / math.Pow(1-rng.Float64(), 1/alpha)
	}
	return 1
}

// stage is where an event takes place.
type stage uint8

const (
	there stage = iota // a call arrives at the far side
	back               // its answer arrives
	awake              // its caller makes it again
)

// event is a call that gets somewhere.
type event struct {
	call  call
	stage stage
	well  bool
	after time.Duration
	leave func(well bool, after time.Duration)
}
