// Package peers has the limiters that are measured against each other, each with a burst
// of 1 and used as its documentation does.
package peers

import (
	"context"
	"time"

	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/juju/ratelimit"
	uber "go.uber.org/ratelimit"
	"golang.org/x/time/rate"

	"github.com/escapement-go/escapement/bench/measure"
	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
)

// The names of those that the targets speak of.
const (
	Auto      = "gate.Rate/Auto"
	Precise   = "gate.Rate/Precise"
	Coalesced = "gate.Rate/Coalesced"
	XTime     = "x/time/rate"

	// Hasty is Auto with a slack of 10 ms.
	Hasty = "gate.Rate/Auto/10ms"

	noSlack        = "uber/ratelimit/noslack"
	clockNanosleep = "clock_nanosleep"
)

// What the gates make up for: unless they are told otherwise, and what Hasty does.
const (
	slack = 100 * time.Millisecond
	hasty = 10 * time.Millisecond
)

// All returns every limiter: Escapement's own, the peers, and a time.Ticker, which is what
// people use who have none.
func All() []measure.Candidate {
	return []measure.Candidate{
		{Name: Auto, New: newRate(pace.Options{Precision: pace.PrecisionAuto}), Slack: slack},
		{Name: Precise, New: newRate(pace.Options{Precision: pace.PrecisionPrecise}), Slack: slack},
		{Name: Coalesced, New: newRate(pace.Options{Precision: pace.PrecisionCoalesced}), Slack: slack},
		{Name: "pace.Pacer", New: newPacer, Slack: slack},
		{Name: XTime, New: newXTime, Peer: true},
		{Name: "uber/ratelimit", New: newUber(), Peer: true, Deaf: true},
		{Name: noSlack, New: newUber(uber.WithoutSlack), Peer: true, Deaf: true},
		{Name: "juju/ratelimit", New: newJuju, Peer: true, Deaf: true},
		{Name: "failsafe", New: newFailsafe, Peer: true},
		{Name: "time.Ticker", New: newTicker, Peer: true},
	}
}

// Machine returns what no program would use, but what shows how punctual the machine itself is:
// on Linux clock_nanosleep, in which one caller after the other sleeps until the next interval ends.
// It is the system's own timer with nothing of Go's between it and who waits. By its timer
// slack the system may wake a thread up to 50 µs late there. There is none on other systems.
func Machine() []measure.Candidate { return machine() }

// Busy returns those of the candidates that are measured on busy processors: not those that differ from
// another one only in how they wait, or in that they make up for nothing; and Hasty, where Auto is one of
// them.
func Busy(all []measure.Candidate) (some []measure.Candidate) {
	for _, c := range all {
		switch c.Name {
		case Precise, Coalesced, noSlack, clockNanosleep:
			continue
		}
		some = append(some, c)
		if c.Name == Auto {
			some = append(some, measure.Candidate{Name: Hasty, New: newRate(pace.Options{Slack: hasty}), Slack: hasty})
		}
	}
	return some
}

// newRate returns a constructor of gates with the given options.
func newRate(o pace.Options) func(int) measure.Limiter {
	return func(perSecond int) measure.Limiter { return gate.NewRate(pace.PerSecond(perSecond), &o) }
}

// pacer waits at a pacer's channel.
type pacer struct{ *pace.Pacer }

func newPacer(perSecond int) measure.Limiter { return pacer{pace.New(pace.PerSecond(perSecond), nil)} }

func (p pacer) Wait(ctx context.Context) error { return receive(ctx, p.C) }

func receive(ctx context.Context, c <-chan time.Time) error {
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func newXTime(perSecond int) measure.Limiter { return rate.NewLimiter(rate.Limit(perSecond), 1) }

// taker is uber's limiter, which makes up for lateness of up to ten intervals unless it is told
// not to.
type taker struct{ uber.Limiter }

func newUber(o ...uber.Option) func(int) measure.Limiter {
	return func(perSecond int) measure.Limiter { return taker{uber.New(perSecond, o...)} }
}

func (t taker) Wait(context.Context) error {
	t.Take()
	return nil
}

// bucket is juju's.
type bucket struct{ *ratelimit.Bucket }

func newJuju(perSecond int) measure.Limiter {
	return bucket{ratelimit.NewBucketWithRate(float64(perSecond), 1)}
}

func (b bucket) Wait(context.Context) error {
	b.Bucket.Wait(1)
	return nil
}

// permits are failsafe's, of the smooth kind.
type permits struct{ ratelimiter.RateLimiter[any] }

func newFailsafe(perSecond int) measure.Limiter {
	return permits{ratelimiter.NewSmooth[any](uint(perSecond), time.Second)}
}

func (p permits) Wait(ctx context.Context) error { return p.AcquirePermit(ctx) }

// ticker is the standard library's.
type ticker struct{ *time.Ticker }

func newTicker(perSecond int) measure.Limiter {
	return ticker{time.NewTicker(time.Second / time.Duration(perSecond))}
}

func (t ticker) Wait(ctx context.Context) error { return receive(ctx, t.C) }
