// Package peers has the limiters that are measured against each other, each with a burst of 1 and
// used as its documentation says. Pass them to report.Main, with your own.
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

// Names that the targets use.
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

// The lateness that the gates make up for: by default, and with Hasty.
const (
	slack = 100 * time.Millisecond
	hasty = 10 * time.Millisecond
)

// All returns every limiter: those of Escapement, the peers, and a time.Ticker, which stands for a
// program without a limiter.
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

// Machine returns limiters that no program would use, but that show how punctual the machine itself
// is. On Linux that is clock_nanosleep; on other systems there is none.
//
// In it, one caller after the other sleeps in the system's own timer until the next interval ends.
// Nothing of Go's is between the timer and the caller. The timer slack of the system may wake a
// thread up to 50 µs late there.
func Machine() []measure.Candidate { return machine() }

// Busy returns the candidates that are measured on busy processors. It leaves out those that differ
// from another one only in how they wait, or in that they make up for nothing. It adds Hasty after
// Auto.
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

// taker is the limiter of uber, which makes up for lateness of up to ten intervals unless it is
// told not to.
type taker struct{ uber.Limiter }

func newUber(o ...uber.Option) func(int) measure.Limiter {
	return func(perSecond int) measure.Limiter { return taker{uber.New(perSecond, o...)} }
}

func (t taker) Wait(context.Context) error {
	t.Take()
	return nil
}

// bucket is the limiter of juju.
type bucket struct{ *ratelimit.Bucket }

func newJuju(perSecond int) measure.Limiter {
	return bucket{ratelimit.NewBucketWithRate(float64(perSecond), 1)}
}

func (b bucket) Wait(context.Context) error {
	b.Bucket.Wait(1)
	return nil
}

// permits is the limiter of failsafe, of the smooth kind.
type permits struct{ ratelimiter.RateLimiter[any] }

func newFailsafe(perSecond int) measure.Limiter {
	return permits{ratelimiter.NewSmooth[any](uint(perSecond), time.Second)}
}

func (p permits) Wait(ctx context.Context) error { return p.AcquirePermit(ctx) }

// ticker is the ticker of the standard library.
type ticker struct{ *time.Ticker }

func newTicker(perSecond int) measure.Limiter {
	return ticker{time.NewTicker(time.Second / time.Duration(perSecond))}
}

func (t ticker) Wait(ctx context.Context) error { return receive(ctx, t.C) }
