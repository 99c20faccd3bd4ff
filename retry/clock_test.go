package retry_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/retry"
)

// hasty is a mock clock whose timers ring when only half of their time is over, or when all
// of it is, and counts how often they do.
type hasty struct {
	*clock.Mock
	half bool
	rang atomic.Int64
}

func (c *hasty) AfterFunc(d time.Duration, f func()) *clock.Timer {
	if c.half {
		d = (d + 1) / 2
	}
	return c.Mock.AfterFunc(d, func() {
		c.rang.Add(1)
		f()
	})
}

// An alarm that comes too early is a reason to look and nothing more: in a delay, in an
// attempt with a timeout, and at a gate.
func TestEarlyAlarm(t *testing.T) {
	for name, c := range map[string]struct {
		p    retry.Policy
		want time.Duration
	}{
		"delay":   {retry.Policy{Attempts: 2, Backoff: retry.Constant(time.Second)}, time.Second},
		"timeout": {retry.Policy{Attempts: 1, AttemptTimeout: time.Second}, time.Second},
		"gate":    {retry.Policy{Elapsed: time.Second, Gate: closed{}}, time.Second + 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &hasty{Mock: clock.NewMock(), half: true}
				c.p.Clock = m
				ended := make(chan time.Duration, 1)
				go func() {
					retry.Run(background, &c.p, func(ctx context.Context) error {
						if c.p.AttemptTimeout > 0 {
							<-ctx.Done()
						}
						return errA
					})
					ended <- time.Duration(m.Now().UnixNano())
				}()
				synctest.Wait()
				m.Add(time.Minute)
				synctest.Wait()
				if got := <-ended; got != c.want {
					t.Errorf("ended at %v, want %v", got, c.want)
				}
				if m.rang.Load() < 2 {
					t.Error("no alarm came too early")
				}
			})
		})
	}
}

// No timer is left behind by a call that has ended.
func TestNoTimerIsLeft(t *testing.T) {
	slots := gate.NewConcurrency(1)
	for name, p := range map[string]retry.Policy{
		"delay":   {Backoff: retry.Constant(time.Hour)},
		"timeout": {Attempts: 1, AttemptTimeout: time.Hour},
		"gate":    {Attempts: 1, Elapsed: time.Hour, Gate: slots},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &hasty{Mock: clock.NewMock()}
				p.Clock = m
				ctx, cancel := context.WithCancel(background)
				done := make(chan error, 1)
				go func() { done <- retry.Run(ctx, &p, func(context.Context) error { return errA }) }()
				synctest.Wait()
				cancel()
				if err := <-done; err == nil {
					t.Error("no error")
				}
				m.Add(24 * time.Hour)
				if n := m.rang.Load(); n != 0 {
					t.Errorf("%d timers rang after the call had ended", n)
				}
			})
		})
	}
}
