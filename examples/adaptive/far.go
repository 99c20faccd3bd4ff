package main

import (
	"math"
	"math/rand/v2"
	"time"
)

// farSide admits or refuses calls.
type farSide interface {
	// take lets a call that arrives at now through, or throttles it and tells how long it
	// will be until one is let through.
	take(now time.Duration, c call) (ok bool, after time.Duration)
}

// farSide returns the one of the world: first the refusals that have nothing to do with the pace, then the limit.
func (w world) farSide(seed int) farSide {
	f := farSide(open{})
	switch {
	case w.window:
		f = &window{world: w}
	case len(w.limits.values) > 0:
		f = &bucket{world: w, tokens: float64(w.burst), rng: w.random(3, seed)}
	}
	if w.noise.share > 0 {
		f = &noisy{f, w, w.random(1, seed)}
	}
	if w.items > 0 {
		f = picky{f}
	}
	return f
}

// open has no limit.
type open struct{}

func (open) take(time.Duration, call) (bool, time.Duration) { return true, 0 }

// picky refuses the items that are bad.
type picky struct{ farSide }

func (p picky) take(now time.Duration, c call) (bool, time.Duration) {
	if c.bad {
		return false, 1
	}
	return p.farSide.take(now, c)
}

// noisy refuses calls at random. They do not count against the limit.
type noisy struct {
	farSide
	world world
	rng   *rand.Rand
}

func (n *noisy) take(now time.Duration, c call) (bool, time.Duration) {
	share, _ := n.world.noise.at(n.world.units(now))
	if n.rng.Float64() < share {
		return false, 1
	}
	return n.farSide.take(now, c)
}

// windowed is the length of a window in units.
const windowed = 100

// window is a far side that lets 100 units' worth of calls through in any 100 units.
type window struct {
	world world
	calls []time.Duration
}

func (w *window) take(now time.Duration, _ call) (bool, time.Duration) {
	span := windowed * w.world.unit
	for len(w.calls) > 0 && w.calls[0] <= now-span {
		w.calls = w.calls[1:]
	}
	interval, _ := w.world.limits.at(w.world.units(now), 1)
	if n := int(windowed / interval); len(w.calls) >= n {
		return false, w.calls[len(w.calls)-n] + span - now
	}
	w.calls = append(w.calls, now)
	return true, 0
}

// bucket is a far side that lets one call through in an interval, and saves some up. Other clients take tokens,
// too. Their calls come at random and without a memory (a Poisson process), and they are always let through. When
// the bucket is empty, they take tokens of the future.
type bucket struct {
	world  world
	tokens float64
	filled time.Duration // the instant that tokens stand for
	rng    *rand.Rand
	other  float64 // when the next call of another client comes
}

func (b *bucket) take(now time.Duration, _ call) (bool, time.Duration) {
	for b.other <= b.world.units(now) {
		b.serveOther()
	}
	b.fill(now)
	// What floats lose is no reason to throttle.
	if b.tokens < 1-1e-9 {
		return false, b.world.unit
	}
	b.tokens--
	return true, 0
}

// fill adds the tokens of the time until now.
func (b *bucket) fill(now time.Duration) {
	for b.filled < now {
		interval, change := b.world.limits.at(b.world.units(b.filled), 1)
		until := now
		if !math.IsInf(change, 1) {
			until = min(until, b.world.span(change))
		}
		b.tokens = min(b.tokens+b.world.units(until-b.filled)/interval, float64(b.world.burst))
		b.filled = until
	}
}

// serveOther lets the next call of another client through. Where there are none, it waits for the next change.
func (b *bucket) serveOther() {
	share, until := b.world.others.at(b.other, 0)
	if share == 0 {
		b.other = until
		return
	}
	interval, _ := b.world.limits.at(b.other, 1)
	b.fill(b.world.span(b.other))
	b.tokens--
	b.other += b.rng.ExpFloat64() * interval / share
}
