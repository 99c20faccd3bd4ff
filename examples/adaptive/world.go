package main

import (
	"container/heap"
	"math/rand/v2"
	"time"
)

const (
	unit     = time.Millisecond // the far side's first interval
	phase    = 2000 * unit      // how long each limit lasts
	leftOut  = 200 * unit       // of the start
	possible = 1800 + 1000 + 2000

	most    = 100                        // calls in a window
	seconds = most * unit                // how long a window is, and the unit of what a hint tells
	steady  = (3*phase - leftOut) / unit // possible where the limit stays
)

// world is the far side, and the way to it.
type world struct {
	latency float64 // round trip, in units
	burst   int     // tokens that the far side saves up
	told    float64 // interval that the client was told, in units
	jitter  float64 // each way takes half the latency, times 1 ± that
	seed    uint64
	dear    bool // the limit stays, and a refusal tells when to come again, in whole seconds
	window  bool // … and it is a window of 100 calls, that slides
}

// asked is the interval that the client was told.
func (d world) asked() time.Duration { return time.Duration(d.told * float64(unit)) }

// outcome is how the far side answered, from the time on that counts.
type outcome struct{ well, throttled, possible int }

func (o outcome) goodput() float64 { return 100 * float64(o.well) / float64(o.possible) }
func (o outcome) share() float64   { return 100 * float64(o.throttled) / float64(o.well+o.throttled) }

// client makes the calls.
type client interface {
	// next returns the time until the next call may be made.
	next() time.Duration
	// enter makes a call, which is due, and returns what to do when its answer is there.
	enter() (leave func(well bool, after time.Duration))
	// interval is the time from one call to the next.
	interval() time.Duration
}

// limit returns the far side's interval at that instant, and when it changes.
func limit(at time.Duration) (interval, until time.Duration) {
	switch {
	case at < phase:
		return unit, phase
	case at < 2*phase:
		return 2 * unit, 2 * phase
	}
	return unit, 1 << 62
}

// farSide admits or refuses calls.
type farSide interface {
	// take lets a call that arrives at now through, or throttles it and tells how long it
	// will be until one is let through.
	take(now time.Duration) (ok bool, after time.Duration)
}

// window is a far side that lets 100 calls through in any of its seconds.
type window struct{ calls []time.Duration }

func (w *window) take(now time.Duration) (bool, time.Duration) {
	for len(w.calls) > 0 && w.calls[0] <= now-seconds {
		w.calls = w.calls[1:]
	}
	if len(w.calls) == most {
		return false, w.calls[0] + seconds - now
	}
	w.calls = append(w.calls, now)
	return true, 0
}

// bucket is a far side that lets one call through in an interval, and saves some up.
type bucket struct {
	burst, tokens float64
	filled        time.Duration // the instant that tokens stand for
	stays         bool          // the interval does
}

func (b *bucket) take(now time.Duration) (bool, time.Duration) {
	for b.filled < now {
		interval, until := unit, now
		if !b.stays {
			interval, until = limit(b.filled)
		}
		until = min(until, now)
		b.tokens = min(b.tokens+float64(until-b.filled)/float64(interval), b.burst)
		b.filled = until
	}
	// What floats lose is no reason to throttle.
	if b.tokens < 1-1e-9 {
		return false, unit
	}
	b.tokens--
	return true, 0
}

// play lets the client make all the calls it may, on a clock that starts at 0. It tells seen, if
// that is not nil, each interval that the client goes by, and from when on.
func (d world) play(now *virtual, c client, seen func(at, interval time.Duration)) (o outcome) {
	var (
		rng   = rand.New(rand.NewPCG(d.seed, 0))
		queue events
		order int
		last  time.Duration // interval seen last
	)
	var far farSide = &bucket{burst: float64(d.burst), tokens: float64(d.burst), stays: d.dear}
	if d.window {
		far = new(window)
	}
	o.possible = possible
	if d.dear {
		o.possible = int(steady)
	}
	send := func(e event) {
		order++
		e.order = order
		e.at = now.at + time.Duration(d.latency/2*float64(unit)*(1+d.jitter*(2*rng.Float64()-1)))
		heap.Push(&queue, e)
	}
	for {
		if x := c.interval(); seen != nil && x != last {
			last = x
			seen(now.at, x)
		}
		due := now.at + c.next()
		if len(queue) == 0 || queue[0].at > due {
			if due >= 3*phase {
				return o
			}
			now.at = due
			send(event{leave: c.enter()})
			continue
		}
		e := heap.Pop(&queue).(event)
		now.at = e.at
		if e.back {
			e.leave(e.well, e.after)
			continue
		}
		if e.well, e.after = far.take(now.at); !d.dear {
			e.after = 0
		}
		e.after = (e.after + seconds - 1) / seconds * seconds
		if now.at >= leftOut && now.at < 3*phase {
			if e.well {
				o.well++
			} else {
				o.throttled++
			}
		}
		e.back = true
		send(e)
	}
}

// event is a call on its way: there, or back.
type event struct {
	at    time.Duration
	order int // of those at one instant
	back  bool
	well  bool
	after time.Duration
	leave func(well bool, after time.Duration)
}

// events is a heap of them, the first to come on top.
type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].order < q[j].order
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *events) Push(x any)   { *q = append(*q, x.(event)) }
func (q *events) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	*q = (*q)[:last]
	return e
}
