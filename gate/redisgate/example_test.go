package redisgate_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/gate/redisgate"
	"github.com/escapement-go/escapement/pace"
)

// nowhere is a client of a server that is not there: what these examples show needs none.
func nowhere() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", DialTimeout: 50 * time.Millisecond, DialerRetries: 1, MaxRetries: -1})
}

// While Redis is away, the process goes on at a share of its own.
func ExampleNew() {
	share := gate.NewRate(pace.PerSecond(33), &gate.RateOptions{Burst: 3})
	api := redisgate.New(nowhere(), "api", redisgate.Limits{
		redisgate.Strict(100, time.Second, nil),
		redisgate.Concurrency(20, nil),
	}, &redisgate.Options{Fallback: share, Timeout: 100 * time.Millisecond})

	err := api.Do(context.Background(), 1, func(ctx context.Context) error {
		fmt.Println("called")
		return nil
	})
	fmt.Println(err)
	// Output:
	// called
	// <nil>
}

func ExampleGate_Enter() {
	api := redisgate.New(nowhere(), "api", redisgate.Limits{redisgate.Strict(100, time.Second, nil)}, nil)
	_, err := api.Enter(context.Background(), 2)
	fmt.Println(err)

	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	_, err = api.Enter(ctx, 1)
	var away *redisgate.AwayError
	fmt.Println(errors.As(err, &away), errors.Is(err, context.DeadlineExceeded))
	// Output:
	// gate: cost must be at most the capacity of 1, got 2
	// true true
}

// Requests and slots count 1 each, and tokens what the entry costs. While Redis is away, a gate of this process
// takes the place of the limits.
func ExampleEach() {
	tokens := gate.NewWindow(30_000, time.Minute, nil)
	llm := redisgate.New(nowhere(), "llm", redisgate.Limits{
		redisgate.Each(redisgate.Window(500, time.Minute, nil)), // requests
		redisgate.Window(90_000, time.Minute, nil),              // tokens
		redisgate.Each(redisgate.Concurrency(40, nil)),          // requests under way
	}, &redisgate.Options{Fallback: tokens, Timeout: 100 * time.Millisecond})

	pass, err := llm.Enter(context.Background(), 1500) // the estimate
	if err != nil {
		fmt.Println(err)
		return
	}
	pass.Leave(nil)   // the slot is free
	pass.Settle(1180) // the tokens, known when the answer is read
	fmt.Println(tokens.Stats().InUse)

	_, err = llm.Enter(context.Background(), 100_000)
	fmt.Println(err)
	// Output:
	// 1180
	// gate: All: limit 2, a Window of 90000 per 1m0s: cost must be at most the capacity of 90000, got 100000
}

// A cost for each limit: requests, tokens of the question, and tokens of the answer.
func ExampleGate_EnterEach() {
	llm := redisgate.New(nowhere(), "llm", redisgate.Limits{
		redisgate.Window(50, time.Minute, nil),
		redisgate.Window(30_000, time.Minute, nil),
		redisgate.Window(8_000, time.Minute, nil),
	}, &redisgate.Options{Fallback: gate.All(), Timeout: 100 * time.Millisecond})

	pass, err := llm.EnterEach(context.Background(), 1, 1_200, 4_096)
	fmt.Println(err)
	pass.Leave(nil)
	pass.SettleEach(1, 1_180, 312)

	// For what takes a Gate, such as a stage or an http.RoundTripper.
	err = gate.Do(context.Background(), gate.WithCost(llm, 1, 1_200, 9_000), 1, func(context.Context) error { return nil })
	fmt.Println(err)
	// Output:
	// <nil>
	// gate: All: limit 3, a Window of 8000 per 1m0s: cost must be at most the capacity of 8000, got 9000
}

// Work that must stop when its place may be given to others takes its context from the gate.
func ExampleGate_EnterContext() {
	slots := redisgate.New(nowhere(), "jobs", redisgate.Limits{redisgate.Concurrency(5, nil)},
		&redisgate.Options{Fallback: gate.All(), Timeout: 100 * time.Millisecond})
	work, pass, err := slots.EnterContext(context.Background(), 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(context.Cause(work)) // redisgate.ErrLeaseLost, if it is
	pass.Leave(nil)
	fmt.Println(work.Err())
	// Output:
	// <nil>
	// context canceled
}

func ExampleGate_Stats() {
	g := redisgate.New(nowhere(), "api", redisgate.Limits{redisgate.Rate(pace.PerSecond(5), nil)}, nil)
	g.Enter(context.Background(), 7)
	fmt.Printf("%+v\n", g.Stats().Refused)
	// Output: 1
}

func ExampleGate_Name() {
	limits := redisgate.Limits{redisgate.Strict(100, time.Second, nil)}
	g := redisgate.New(nowhere(), "api", limits, nil)
	fmt.Println(g.Name())
	fmt.Println(g)
	// Output:
	// api
	// api: 100 in any 1s
}

func ExampleGate_SetName() {
	limits := redisgate.Limits{redisgate.Concurrency(20, nil)}
	g := gate.Named("jobs of this host", redisgate.New(nowhere(), "jobs", limits, nil)) // calls SetName
	fmt.Println(g)
	// Output: jobs of this host: 20 slots
}

func ExampleGate_Plan() {
	g := redisgate.New(nowhere(), "llm", redisgate.Limits{
		redisgate.Each(redisgate.Window(500, time.Minute, nil)),
		redisgate.Window(90_000, time.Minute, nil),
	}, nil)
	plan, _ := gate.PlanOf(g) // calls Plan
	fmt.Println(plan)
	// Output: all of a Window of 500 per 1m0s, a Window of 90000 per 1m0s
}

func ExampleGate_Close() {
	g := redisgate.New(nowhere(), "api", redisgate.Limits{redisgate.Window(5, time.Second, nil)}, nil)
	fmt.Println(g.Close(context.Background()))
	_, err := g.Enter(context.Background(), 1)
	fmt.Println(err)
	// Output:
	// <nil>
	// redisgate: the gate is closed
}

func ExampleAdaptive() {
	g := redisgate.New(nowhere(), "api", redisgate.Limits{redisgate.Adaptive(pace.PerSecond(50), &redisgate.AdaptiveOptions{GiveUp: 5})}, nil)
	fmt.Println(g.Interval())
	// Output: 20ms
}

// A bucket that is emptied evenly holds what it may burst, and no more.
func ExampleStrict() {
	limit := redisgate.Strict(100, time.Second, &redisgate.StrictOptions{Burst: 10, Guard: 50 * time.Millisecond})
	g := redisgate.New(nowhere(), "api", redisgate.Limits{limit}, nil)
	_, err := g.Enter(context.Background(), 11)
	fmt.Println(err)
	// Output: gate: cost must be at most the capacity of 10, got 11
}

func ExampleRate() {
	limit := redisgate.Rate(pace.PerSecond(100), &redisgate.RateOptions{Burst: 25})
	g := redisgate.New(nowhere(), "api", redisgate.Limits{limit}, nil)
	_, err := g.Enter(context.Background(), 26)
	fmt.Println(err)
	// Output: gate: cost must be at most the capacity of 25, got 26
}

func ExampleWindow() {
	limit := redisgate.Window(60, time.Minute, nil)
	g := redisgate.New(nowhere(), "api", redisgate.Limits{limit}, nil)
	_, err := g.Enter(context.Background(), 61)
	fmt.Println(err)
	// Output: gate: cost must be at most the capacity of 60, got 61
}

func ExampleConcurrency() {
	limit := redisgate.Concurrency(8, &redisgate.ConcurrencyOptions{TTL: 30 * time.Second})
	g := redisgate.New(nowhere(), "jobs", redisgate.Limits{limit}, nil)
	_, err := g.Enter(context.Background(), 9)
	fmt.Println(err)
	// Output: gate: cost must be at most the capacity of 8, got 9
}

func ExampleGate_TryEnter() {
	g := redisgate.New(nowhere(), "api", redisgate.Limits{redisgate.Window(60, time.Minute, nil)}, nil)
	_, ok := g.TryEnter(61) // it could never be admitted: Redis is not asked
	fmt.Println(ok)
	// Output: false
}

func ExampleGate_TryEnterEach() {
	llm := redisgate.New(nowhere(), "llm", redisgate.Limits{
		redisgate.Window(50, time.Minute, nil),
		redisgate.Window(30_000, time.Minute, nil),
	}, nil)
	_, ok := llm.TryEnterEach(1, 40_000) // it could never be admitted: Redis is not asked
	fmt.Println(ok)
	// Output: false
}

func ExampleGate_Do() {
	g := redisgate.New(nowhere(), "jobs", redisgate.Limits{redisgate.Concurrency(5, nil)},
		&redisgate.Options{Fallback: gate.All(), Timeout: 100 * time.Millisecond})
	err := g.Do(context.Background(), 1, func(ctx context.Context) error {
		return errors.New("the work's own error")
	})
	fmt.Println(err)
	// Output: the work's own error
}

// A hold keeps this process out even while Redis can't be told.
func ExampleGate_Hold() {
	g := redisgate.New(nowhere(), "api", redisgate.Limits{redisgate.Window(60, time.Minute, nil)},
		&redisgate.Options{Timeout: 50 * time.Millisecond})
	g.Hold(time.Hour)
	fmt.Println(g.Stats().HeldFor.Round(time.Hour))
	// Output: 1h0m0s
}

func ExampleGate_Reset() {
	g := redisgate.New(nowhere(), "api", redisgate.Limits{redisgate.Adaptive(pace.PerSecond(50), nil)},
		&redisgate.Options{Timeout: 50 * time.Millisecond})
	g.Reset()
	fmt.Println(g.Interval())
	// Output: 20ms
}

func ExampleGate_Interval() {
	g := redisgate.New(nowhere(), "api", redisgate.Limits{redisgate.Adaptive(pace.PerSecond(50), nil)}, nil)
	fmt.Println(g.Interval()) // until Redis has reported another one
	// Output: 20ms
}

// While Redis can't be told, a Resume ends the hold in this process alone.
func ExampleGate_Resume() {
	g := redisgate.New(nowhere(), "api", redisgate.Limits{redisgate.Window(60, time.Minute, nil)},
		&redisgate.Options{Timeout: 50 * time.Millisecond})
	g.Hold(time.Hour)
	g.Resume()
	fmt.Println(g.Stats().HeldFor)
	// Output: 0s
}
