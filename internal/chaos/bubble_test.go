package chaos_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// inBubble runs f in a bubble and fails rt with its error. A goroutine that f leaves behind, and a
// deadlock, panic in the bubble and fail rt as well.
func inBubble(t *testing.T, rt *rapid.T, f func() error) {
	var err error
	synctest.Test(t, func(*testing.T) { err = f() })
	if err != nil {
		rt.Fatal(err)
	}
}

// repeated runs a property so many times as often as -rapid.checks says.
func repeated(t *testing.T, times int, f func(*rapid.T)) {
	for range times {
		rapid.Check(t, f)
	}
}

// complaints collects what is wrong from any goroutine.
type complaints struct {
	mu  sync.Mutex
	all []string
}

func (c *complaints) add(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.all) < 5 {
		c.all = append(c.all, fmt.Sprintf(format, args...))
	}
}

func (c *complaints) err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.all) == 0 {
		return nil
	}
	return fmt.Errorf("%q", c.all)
}

// span draws a duration from 0 to an hour, in units from a nanosecond to a minute.
func span(rt *rapid.T, name string) time.Duration {
	unit := rapid.SampledFrom([]time.Duration{1, 7, time.Microsecond, time.Millisecond, 997 * time.Microsecond,
		time.Second, time.Minute}).Draw(rt, name+" unit")
	return unit * time.Duration(rapid.IntRange(0, 60).Draw(rt, name))
}
