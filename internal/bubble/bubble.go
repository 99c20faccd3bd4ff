// Package bubble runs timed tests in a testing/synctest bubble. It runs them on the real clock and
// on the mock one: in a bubble both are exact to the nanosecond.
//
//	bubble.Both(t, func(b *bubble.B) {
//		g := gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Clock: b.Clock()})
//		g.TryEnter(1)
//		b.Advance(100 * time.Millisecond)
//		if _, ok := g.TryEnter(1); !ok {
//			b.Errorf("refused at %v", b.Now())
//		}
//	})
package bubble

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
)

// B is a bubble with a clock that starts now.
type B struct {
	*testing.T
	mock  *clock.Mock // nil on the real clock
	start time.Time
}

// Both runs f twice as subtests: on the real clock and on a mock one.
func Both(t *testing.T, f func(*B)) {
	t.Helper()
	t.Run("real", func(t *testing.T) { Real(t, f) })
	t.Run("mock", func(t *testing.T) { Mock(t, f) })
}

// Real runs f on the real clock.
func Real(t *testing.T, f func(*B)) {
	synctest.Test(t, func(t *testing.T) { f(&B{T: t, start: time.Now()}) })
}

// Mock runs f on a mock clock.
func Mock(t *testing.T, f func(*B)) {
	synctest.Test(t, func(t *testing.T) {
		m := clock.NewMock()
		f(&B{T: t, mock: m, start: m.Now()})
	})
}

// Clock returns the bubble's clock for use in options: nil is the real one.
func (b *B) Clock() clock.Clock {
	if b.mock == nil {
		return nil
	}
	return b.mock
}

// Now returns the time since the bubble began.
func (b *B) Now() time.Duration { return b.Time().Sub(b.start) }

// Time returns what the clock shows.
func (b *B) Time() time.Time {
	if b.mock == nil {
		return time.Now()
	}
	return b.mock.Now()
}

// Sleep lets the goroutine that calls it sleep on the bubble's clock. On a mock, another goroutine
// must call Advance.
func (b *B) Sleep(d time.Duration) {
	if b.mock == nil {
		time.Sleep(d)
		return
	}
	awake := make(chan struct{})
	b.mock.AfterFunc(d, func() { close(awake) })
	<-awake
}

// Advance lets the other goroutines run for d, and returns when all of them are blocked.
func (b *B) Advance(d time.Duration) {
	synctest.Wait()
	if b.mock == nil {
		time.Sleep(d)
	} else {
		b.mock.Add(d)
	}
	synctest.Wait()
}

// AdvanceTo is Advance until the bubble is old.
func (b *B) AdvanceTo(old time.Duration) { b.Advance(old - b.Now()) }

// Settle lets the other goroutines run until all of them are blocked, without any time passing.
func (b *B) Settle() { synctest.Wait() }

// WithTimeout returns a context that ends after d on the bubble's clock.
func (b *B) WithTimeout(d time.Duration) (context.Context, context.CancelFunc) {
	if b.mock == nil {
		return context.WithTimeout(context.Background(), d)
	}
	return b.mock.WithTimeout(context.Background(), d)
}
