//go:build unix

package redisgate_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/gate/gatetest"
	"github.com/escapement-go/escapement/gate/redisgate"
	"github.com/escapement-go/escapement/pace"
)

const ms = time.Millisecond

// keys makes the gates of a test strangers to each other.
var keys atomic.Int64

func key() string { return fmt.Sprintf("test%d", keys.Add(1)) }

// Every kind of limit is a gate like any other.
func TestConformance(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(6 * time.Second)
	for name, sub := range map[string]struct {
		limits redisgate.Limits
		gatetest.Subject
	}{
		"rate": {
			redisgate.Limits{redisgate.Rate(pace.Per(1, 50*ms), &redisgate.RateOptions{Burst: 4, Slack: 200 * ms})},
			gatetest.Subject{Capacity: 4, Back: 50 * ms, Foresees: true, Most: func(w time.Duration) int { return 4 + int(w/(50*ms)) }},
		},
		"strict": {
			redisgate.Limits{redisgate.Strict(12, 100*ms, &redisgate.StrictOptions{Burst: 4, Guard: 300 * ms})},
			gatetest.Subject{Capacity: 4, Back: 50 * ms, Foresees: true, Most: func(w time.Duration) int { return 4 + int(w/(50*ms)) }},
		},
		"window": {
			redisgate.Limits{redisgate.Window(4, 50*ms, &redisgate.WindowOptions{Guard: 200 * ms})},
			gatetest.Subject{Capacity: 4, Back: 252 * ms, Foresees: true, Most: func(w time.Duration) int { return 4 * (1 + int(w/(50*ms))) }},
		},
		"concurrency": {
			redisgate.Limits{redisgate.Concurrency(4, &redisgate.ConcurrencyOptions{TTL: 5 * time.Second})},
			gatetest.Subject{Capacity: 4, Slots: true},
		},
		"adaptive": {
			redisgate.Limits{redisgate.Adaptive(pace.Per(1, 50*ms), &redisgate.AdaptiveOptions{Burst: 4, Slack: 200 * ms})},
			gatetest.Subject{Capacity: 4, Back: 50 * ms, Foresees: true, Most: func(w time.Duration) int { return 4 + int(w/(50*ms)) }},
		},
		"a limit on requests": {
			redisgate.Limits{
				redisgate.Each(redisgate.Window(100_000, time.Second, &redisgate.WindowOptions{Guard: 200 * ms})),
				redisgate.Rate(pace.Per(1, 50*ms), &redisgate.RateOptions{Burst: 4, Slack: 200 * ms}),
			},
			gatetest.Subject{Capacity: 4, Back: 50 * ms, Foresees: true, Most: func(w time.Duration) int { return 4 + int(w/(50*ms)) }},
		},
		"all": {
			redisgate.Limits{
				redisgate.Window(4, 50*ms, &redisgate.WindowOptions{Guard: 200 * ms}),
				redisgate.Rate(pace.Per(1, 10*ms), &redisgate.RateOptions{Burst: 5, Slack: 200 * ms}),
				redisgate.Concurrency(4, &redisgate.ConcurrencyOptions{TTL: 5 * time.Second}),
			},
			gatetest.Subject{Capacity: 4, Slots: true, Back: 252 * ms, Foresees: true, Most: func(w time.Duration) int { return 4 * (1 + int(w/(50*ms))) }},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := s.client()
			sub.New = func(tb testing.TB) gate.Gate {
				g := redisgate.New(client, key(), sub.limits, nil)
				tb.Cleanup(func() {
					ctx, cancel := context.WithTimeout(context.Background(), patience)
					defer cancel()
					if err := g.Close(ctx); err != nil {
						tb.Errorf("closing: %v", err)
					}
				})
				return g
			}
			for _, c := range gatetest.Checks() {
				t.Run(c.Name, func(t *testing.T) { conforms(t, c, sub.Subject) })
			}
		})
	}
}

// conforms runs a check. A TryEnter is refused if its answer comes too late to be of use. Where the machine is busy the
// check does not know that, so it is run again.
func conforms(t *testing.T, c gatetest.Check, s gatetest.Subject) {
	for left := 9; ; left-- {
		r := &recorder{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.Run(r, s)
		}()
		<-done
		said := strings.Join(r.said, "; ")
		switch {
		case said == "":
			return
		case left > 0 && strings.Contains(said, "refused TryEnter("):
			t.Logf("once more: %s", said)
		default:
			t.Error(said)
			return
		}
	}
}

// recorder keeps what a check says is wrong.
type recorder struct {
	testing.TB
	said []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.said = append(r.said, fmt.Sprintf(format, args...))
}
func (r *recorder) Error(args ...any) { r.said = append(r.said, fmt.Sprint(args...)) }
func (r *recorder) Failed() bool      { return len(r.said) > 0 }
func (r *recorder) Fail()             { r.said = append(r.said, "failed") }

func (r *recorder) FailNow() {
	r.Fail()
	runtime.Goexit()
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Fatal(args ...any) {
	r.Error(args...)
	runtime.Goexit()
}
