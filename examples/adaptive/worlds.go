package main

import (
	"fmt"
	"strconv"
	"time"
)

// The worlds of the table, in groups. The first 90 have a far side of 1,000 calls a second, and the others one
// of 200. The first 200 units do not count.
const (
	phase   = 2000. // units that a limit lasts
	leftOut = 200.  // units
)

var (
	bursts    = []int{1, 5}
	latencies = []float64{0.2, 1, 5, 20, 50}
	tolds     = []float64{1, 0.6, 0.25} // intervals, in those of the far side
	halving   = []float64{1, 2, 1}

	trips    = []float64{4, 40} // 20 and 200 ms
	longTrip = 400.             // 2 s: only a thousand callers get 200 calls a second
	shares   = []float64{0.001, 0.01, 0.02, 0.05, 0.1}
)

// worlds returns all of them, in the order of the table.
func worlds() (all []world) {
	for _, jitter := range []float64{0, 0.2} {
		all = append(all, limitWorlds(jitter)...)
	}
	all = append(all, costlyWorlds("costly", always(1), 3*phase)...)
	all = append(all, costlyWorlds("costly-moving", steps{phase, []float64{1, 2, 1, 2, 1, 2}}, 6*phase)...)
	all = append(all, randomWorlds()...)
	all = append(all, bothWorlds()...)
	all = append(all, movingWorlds()...)
	all = append(all, nodeWorlds()...)
	all = append(all, itemWorlds()...)
	return append(all, tailWorlds()...)
}

// limitWorlds have a bucket with a limit that halves and doubles.
func limitWorlds(jitter float64) (all []world) {
	group := "limit"
	if jitter > 0 {
		group = "jitter"
	}
	for _, burst := range bursts {
		for _, latency := range latencies {
			for _, told := range tolds {
				all = append(all, world{
					name: name(group, latency, "burst", burst, times(told)),
					unit: time.Millisecond, slowest: time.Second,
					told: told, latency: latency, jitter: jitter,
					limits: steps{phase, halving}, burst: burst,
					length: 3 * phase, counts: [2]float64{leftOut, 3 * phase},
				})
			}
		}
	}
	return all
}

// costlyWorlds have a far side that says when to come again, in whole seconds of 100 units.
func costlyWorlds(group string, limits steps, length float64) (all []world) {
	for _, far := range []string{"bucket", "window"} {
		for _, latency := range latencies {
			for _, told := range tolds {
				all = append(all, world{
					name: name(group, far, latency, times(told)),
					unit: time.Millisecond, slowest: time.Second,
					told: told, latency: latency,
					limits: limits, burst: 1, window: far == "window", hint: windowed * time.Millisecond,
					length: length, counts: [2]float64{leftOut, length},
				})
			}
		}
	}
	return all
}

// at200 is a far side of 200 calls a second.
func at200(group string, callers int, latency, length float64) world {
	seeds := 5
	if length > 20000 {
		seeds = 3
	}
	return world{
		name: name(group, callers, ms(latency)), unit: 5 * time.Millisecond,
		told: 1, callers: callers, latency: latency,
		length: length, counts: [2]float64{leftOut, length}, seeds: seeds,
	}
}

// randomWorlds refuse a share of the calls whatever the pace, and have no other limit.
func randomWorlds() (all []world) {
	add := func(callers int, latency, length float64, hint time.Duration, shares ...float64) {
		for _, share := range shares {
			w := at200("random", callers, latency, length).hinted(hint)
			w.name += "/" + percent(share)
			w.noise.share = share
			w.measured = hint > 0
			all = append(all, w)
		}
	}
	for _, latency := range trips {
		add(64, latency, 10000, 0, shares...)
	}
	add(8, trips[1], 10000, 0, shares...) // with 20 ms, they would be as good as 64
	for _, latency := range trips {
		add(1, latency, 10000, 0, shares...)
	}
	add(1000, longTrip, 40000, 0, shares...)
	for _, callers := range []int{64, 8, 1} {
		for _, latency := range trips {
			add(callers, latency, 20000, time.Second, shares...)
		}
	}
	add(1000, longTrip, 40000, time.Second, shares...)
	for _, latency := range trips {
		add(64, latency, 40000, time.Minute, 0.001, 0.01, 0.1)
	}
	add(1000, longTrip, 60000, time.Minute, 0.001, 0.01, 0.1)
	return all
}

// bothWorlds have a limit of 0.6 of the rate asked for, and 2 % of noise.
func bothWorlds() (all []world) {
	add := func(callers int, latency, length float64, hint time.Duration, burst int) {
		w := at200("both", callers, latency, length).hinted(hint)
		w.name += fmt.Sprintf("/burst/%d", burst)
		w.limits, w.burst = always(1/0.6), burst
		w.noise.share = 0.02
		all = append(all, w)
	}
	for _, burst := range bursts {
		for _, latency := range trips {
			add(64, latency, 10000, 0, burst)
		}
		add(1000, longTrip, 40000, 0, burst)
	}
	for _, burst := range bursts {
		for _, latency := range trips {
			add(64, latency, 20000, time.Second, burst)
		}
	}
	return all
}

// movingWorlds have a limit that halves and doubles, with noise, and other clients that come and go.
func movingWorlds() (all []world) {
	for _, burst := range bursts {
		for _, latency := range trips {
			for _, told := range tolds {
				w := at200("moving", 64, latency, 16000)
				w.name += fmt.Sprintf("/burst/%d/%s", burst, times(told))
				w.told = told
				w.limits, w.burst = steps{4000, []float64{1, 2, 1, 2}}, burst
				w.noise.share = 0.01
				all = append(all, w)
			}
		}
	}
	for _, latency := range trips {
		for _, told := range tolds {
			w := at200("others", 64, latency, 16000)
			w.name += "/" + times(told)
			w.told = told
			w.limits, w.burst = always(1), 10
			w.others = steps{4000, []float64{0, 0.5, 0.25, 0}}
			all = append(all, w)
		}
	}
	return all
}

// nodeWorlds refuse one call in ten for a minute.
func nodeWorlds() (all []world) {
	const from, until, after, length = 12000., 24000., 25000., 36000.
	for _, hint := range []time.Duration{0, time.Second, time.Minute} {
		for _, latency := range trips {
			w := at200("node", 64, latency, length).hinted(hint)
			w.noise = noise{0.1, from, until}
			w.measured = hint > 0
			stem := w.name
			w.name, w.counts = stem+"/during", [2]float64{from, until}
			all = append(all, w)
			w.name, w.counts = stem+"/after", [2]float64{after, length}
			all = append(all, w)
		}
	}
	return all
}

// itemWorlds refuse one item in a hundred for ever.
func itemWorlds() (all []world) {
	for _, hint := range []time.Duration{0, time.Second, time.Minute} {
		for _, latency := range trips {
			for _, callers := range []int{8, 64, 1000} {
				w := at200("items", callers, latency, 40000).hinted(hint)
				w.items = 0.01
				w.measured = true
				all = append(all, w)
			}
		}
	}
	return all
}

// tailWorlds have answers of which some take very long.
func tailWorlds() (all []world) {
	for _, t := range []tail{logNormal, pareto} {
		for _, latency := range trips {
			w := at200("tail", 64, latency, 10000)
			w.tail = t
			w.name += "/" + t.String()
			stem := w.name
			w.name, w.limits, w.burst = stem+"/limit", always(1/0.6), 5
			all = append(all, w)
			w.name, w.noise.share = stem+"/both", 0.02
			all = append(all, w)
			w.name, w.limits = stem+"/random", steps{}
			all = append(all, w)
		}
	}
	return all
}

// find returns the world of that name.
func find(name string) world {
	for _, w := range worlds() {
		if w.name == name {
			return w
		}
	}
	panic("no world is called " + name)
}

// hinted says with each refusal when to come again.
func (w world) hinted(hint time.Duration) world {
	if w.hint = hint; hint > 0 {
		w.name += "/after" + strconv.Itoa(int(hint/time.Second))
	}
	return w
}

func (t tail) String() string { return [...]string{"", "log-normal", "pareto"}[t] }

// name joins the parts of one.
func name(parts ...any) (s string) {
	for i, p := range parts {
		if i > 0 {
			s += "/"
		}
		s += fmt.Sprint(p)
	}
	return s
}

func times(told float64) string    { return strconv.FormatFloat(1/told, 'f', 2, 64) + "x" }
func percent(share float64) string { return strconv.FormatFloat(100*share, 'g', 3, 64) + "%" }
func ms(units float64) string      { return strconv.FormatFloat(5*units, 'f', -1, 64) + "ms" }
