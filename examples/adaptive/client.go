package main

import (
	"errors"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
)

// virtual is a clock that stands still until it is set. As no caller ever waits, the gate only asks
// it for the time; the methods that wait are not there, and panic.
type virtual struct {
	clock.Clock
	at time.Duration
}

func (v *virtual) Now() time.Time                  { return time.Unix(0, 0).Add(v.at) }
func (v *virtual) Since(t time.Time) time.Duration { return v.Now().Sub(t) }

// gated goes through an adaptive gate.
type gated struct{ gate *gate.Adaptive }

func newGated(now *virtual, asked time.Duration) gated {
	return gated{gate.NewAdaptive(pace.Every(asked), &gate.AdaptiveOptions{Slowest: time.Second, Clock: now})}
}

func (g gated) interval() time.Duration { return g.gate.Interval() }
func (g gated) next() time.Duration     { return g.gate.Stats().NextDue }
func (g gated) enter() (leave func(well bool, after time.Duration)) {
	p, ok := g.gate.TryEnter(1)
	if !ok {
		panic("the gate refuses a call that is due")
	}
	return func(well bool, after time.Duration) {
		if well {
			p.Leave(nil)
		} else {
			p.Leave(gate.Throttled(after, errTooMany))
		}
	}
}

var errTooMany = errors.New("429 Too Many Requests")

// founding goes by the rule as it was found: a throttle doubles the interval, once a
// generation, and every success of the generation multiplies it by 0.9.
type founding struct {
	now          *virtual
	asked, every time.Duration
	last, held   time.Duration
	generation   int
}

func newFounding(now *virtual, asked time.Duration) *founding {
	return &founding{now: now, asked: asked, every: asked, last: -asked}
}

func (f *founding) interval() time.Duration { return f.every }
func (f *founding) next() time.Duration     { return max(f.last+f.every-f.now.at, f.held-f.now.at, 0) }
func (f *founding) enter() (leave func(well bool, after time.Duration)) {
	f.last = f.now.at
	mine := f.generation
	return func(well bool, after time.Duration) {
		f.held = max(f.held, f.now.at+after)
		switch {
		case mine != f.generation:
		case well:
			f.every = max(f.every*9/10, f.asked)
		default:
			f.every *= 2
			f.generation++
		}
	}
}
