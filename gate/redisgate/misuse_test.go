package redisgate_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate/redisgate"
	"github.com/escapement-go/escapement/pace"
)

// Misuse panics, with the package, the function, the rule and the value.
func TestMisuse(t *testing.T) {
	c := nowhere()
	defer c.Close()
	ok := redisgate.Limits{redisgate.Strict(2, time.Second, nil)}
	g := redisgate.New(c, "k", ok, nil)
	for want, f := range map[string]func(){
		"redisgate: New: the client must not be nil":        func() { redisgate.New(nil, "k", ok, nil) },
		`redisgate: New: the key must not be empty, got ""`: func() { redisgate.New(c, "", ok, nil) },
		"redisgate: New: there must be a limit, got none":   func() { redisgate.New(c, "k", nil, nil) },
		"got the zero Limit for 1 of 1":                     func() { redisgate.New(c, "k", redisgate.Limits{{}}, nil) },
		"redisgate: New: Horizon must not be negative, got": func() { redisgate.New(c, "k", ok, &redisgate.Options{Horizon: -1}) },
		"redisgate: New: Timeout must not be negative, got": func() { redisgate.New(c, "k", ok, &redisgate.Options{Timeout: -1}) },
		"at most one limit of concurrency, got two": func() {
			redisgate.New(c, "k", redisgate.Limits{redisgate.Concurrency(1, nil), redisgate.Concurrency(1, nil)}, nil)
		},
		"at most one limit that adapts, got two": func() {
			a := redisgate.Adaptive(pace.PerSecond(1), nil)
			redisgate.New(c, "k", redisgate.Limits{a, a}, nil)
		},
		"redisgate: Strict: n must be above the burst of 1":   func() { redisgate.Strict(1, time.Second, nil) },
		"redisgate: Strict: span must be from":                func() { redisgate.Strict(2, 0, nil) },
		"redisgate: Strict: Burst must not be negative":       func() { redisgate.Strict(2, 1e9, &redisgate.StrictOptions{Burst: -1}) },
		"redisgate: Strict: Guard must be from 0 to 10000h0":  func() { redisgate.Strict(2, 1e9, &redisgate.StrictOptions{Guard: -1}) },
		"redisgate: Strict: burst times span must be at most": func() { redisgate.Strict(1<<30, 1000*time.Hour, &redisgate.StrictOptions{Burst: 1 << 29}) },
		"redisgate: Rate: burst times span must be at most 2^51 µs, got 2 times 1577880000000000 µs": func() {
			redisgate.Rate(pace.Every(50*365.25*24*time.Hour), &redisgate.RateOptions{Burst: 2})
		},
		"redisgate: Adaptive: burst times Slowest must be at most 2^51 ns": func() {
			redisgate.Adaptive(pace.PerSecond(1), &redisgate.AdaptiveOptions{Slowest: 30 * 24 * time.Hour})
		},
		"redisgate: Window: n must be at least 1, got 0":      func() { redisgate.Window(0, 1e9, nil) },
		"redisgate: Window: Guard must be from 0 to 10000h0":  func() { redisgate.Window(1, 1e9, &redisgate.WindowOptions{Guard: -1}) },
		"redisgate: Window: Guard must be from 0 to 10000h0m": func() { redisgate.Window(1, 1e9, &redisgate.WindowOptions{Guard: math.MaxInt64}) },
		"redisgate: New: Version must not be negative, got":   func() { redisgate.New(c, "k", ok, &redisgate.Options{Version: -1}) },
		"redisgate: Rate: the rate must be limited":           func() { redisgate.Rate(pace.Unlimited(), nil) },
		"redisgate: Rate: the rate must be limited and not ":  func() { redisgate.Rate(pace.Rate{}, nil) },
		"redisgate: Rate: Burst must not be negative, got -1": func() { redisgate.Rate(pace.PerSecond(1), &redisgate.RateOptions{Burst: -1}) },
		"redisgate: Rate: Slack must be from 0 to 10000h0":    func() { redisgate.Rate(pace.PerSecond(1), &redisgate.RateOptions{Slack: -1}) },
		"redisgate: Rate: Slack must be from 0 to 10000h0m":   func() { redisgate.Rate(pace.PerSecond(1), &redisgate.RateOptions{Slack: math.MaxInt64}) },
		"redisgate: Concurrency: n must be at least 1, got 0": func() { redisgate.Concurrency(0, nil) },
		"redisgate: Concurrency: TTL must be at least 10ms":   func() { redisgate.Concurrency(1, &redisgate.ConcurrencyOptions{TTL: 1}) },
		"redisgate: Adaptive: Backoff must be above 1":        func() { redisgate.Adaptive(pace.PerSecond(1), &redisgate.AdaptiveOptions{Backoff: 1}) },
		"redisgate: Adaptive: Recover must be between 0":      func() { redisgate.Adaptive(pace.PerSecond(1), &redisgate.AdaptiveOptions{Recover: 1}) },
		"redisgate: Adaptive: Slowest must be at least":       func() { redisgate.Adaptive(pace.PerSecond(1), &redisgate.AdaptiveOptions{Slowest: 1}) },
		"redisgate: Adaptive: GiveUp must not be negative":    func() { redisgate.Adaptive(pace.PerSecond(1), &redisgate.AdaptiveOptions{GiveUp: -1}) },
		"redisgate: Gate.Enter: cost must be at least 1":      func() { g.Enter(context.Background(), 0) },
		"redisgate: Gate.TryEnter: cost must be at least 1":   func() { g.TryEnter(0) },
		"redisgate: Gate.Do: cost must be at least 1":         func() { g.Do(context.Background(), 0, nil) },
		"redisgate: Gate.EnterContext: cost must be at least": func() { g.EnterContext(context.Background(), 0) },
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, want) {
					t.Errorf("panicked with %q, want %q", got, want)
				}
			}()
			f()
		}()
	}
}
