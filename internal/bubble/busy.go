package bubble

import (
	"sync/atomic"
	"time"

	"github.com/benbjohnson/clock"
)

// BusyClock is the real clock of a system that stops a goroutine soon after it has woken. Some time
// passes between the first reading after an alarm, by which a token is granted, and the second.
type BusyClock struct {
	clock.Clock
	stop    time.Duration
	reading atomic.Int64 // how many since the alarm rang
	passed  atomic.Int64 // in all
}

// NewBusyClock returns a BusyClock on which that time is stop.
func NewBusyClock(stop time.Duration) *BusyClock {
	c := &BusyClock{Clock: clock.New(), stop: stop}
	c.reading.Store(2) // no alarm has rung
	return c
}

func (c *BusyClock) Now() time.Time { return c.Clock.Now().Add(time.Duration(c.passed.Load())) }

func (c *BusyClock) Since(t time.Time) time.Duration {
	if c.reading.Add(1) == 2 {
		c.passed.Add(int64(c.stop))
	}
	return c.Clock.Since(t) + time.Duration(c.passed.Load())
}

func (c *BusyClock) AfterFunc(d time.Duration, f func()) *clock.Timer {
	return c.Clock.AfterFunc(d, func() {
		c.reading.Store(0)
		f()
	})
}
