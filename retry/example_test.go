package retry_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
	"github.com/escapement-go/escapement/retry"
)

// flaky returns a function that fails that many times and then succeeds.
func flaky(failures int) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		if failures > 0 {
			failures--
			return "", errors.New("connection refused")
		}
		return "hello", nil
	}
}

// A policy as a program would have it, shared by all of its calls. The first call is throttled once
// and fails once. The second one fails for good.
func Example() {
	api := gate.NewAdaptive(pace.PerSecond(1000), nil)
	policy := &retry.Policy{
		Attempts:       5,                // failures; throttles are not counted
		Elapsed:        time.Minute,      // no attempt begins later
		AttemptTimeout: 10 * time.Second, // of one attempt, without the wait at the gate
		MaxRetryAfter:  30 * time.Second, // a longer hint ends the call at once
		Backoff:        retry.FullJitter(time.Millisecond, 10*time.Second, nil),
		Gate:           api,             // a throttle slows all callers down
		Budget:         &retry.Budget{}, // retries for at most a fifth of the calls, and 10 a second
		Classify: func(err error) retry.Verdict {
			if errors.Is(err, errNoSuchPage) {
				return retry.VerdictStop
			}
			return retry.Classify(err)
		},
		OnRetry: func(e retry.Event) { fmt.Println("again:", e.Err) },
	}

	outcomes := []error{
		retry.Throttled(2*time.Millisecond, errors.New("429 Too Many Requests")),
		errors.New("connection reset"),
		nil,
		errNoSuchPage,
	}
	fetch := retry.Wrap(policy, func(_ context.Context, page int) (string, error) {
		err := outcomes[0]
		outcomes = outcomes[1:]
		return fmt.Sprint("page ", page), err
	})

	page, err := fetch(context.Background(), 1)
	fmt.Println(page, err)
	_, err = fetch(context.Background(), 2)
	fmt.Println(err, errors.Is(err, retry.ErrStopped))
	// Output:
	// again: throttled for 2ms: 429 Too Many Requests
	// again: connection reset
	// page 1 <nil>
	// no such page true
}

var errNoSuchPage = errors.New("no such page")

func ExampleDo() {
	// Nil would do, too: 10 attempts, equal jitter.
	p := &retry.Policy{
		Attempts: 3,
		Backoff:  retry.FullJitter(time.Millisecond, 10*time.Millisecond, nil),
		OnRetry: func(e retry.Event) {
			fmt.Println("attempt", e.Attempt, "failed:", e.Err)
		},
	}
	s, err := retry.Do(context.Background(), p, flaky(2))
	fmt.Println(s, err)

	_, err = retry.Do(context.Background(), p, flaky(3))
	fmt.Println(err)
	// Output:
	// attempt 1 failed: connection refused
	// attempt 2 failed: connection refused
	// hello <nil>
	// attempt 1 failed: connection refused
	// attempt 2 failed: connection refused
	// retry: no attempts left after 3 attempts: connection refused
}

func ExampleRun() {
	attempts := 0
	err := retry.Run(context.Background(), &retry.Policy{Backoff: retry.Constant(0)}, func(context.Context) error {
		attempts++
		if attempts < 3 {
			return errors.New("connection refused")
		}
		return nil
	})
	fmt.Println(attempts, err)
	// Output: 3 <nil>
}

// The far side says that there was too much. Every caller that shares the gate slows down,
// and the call that was refused queues again: no attempt is lost.
func ExampleRun_gate() {
	mock := clock.NewMock()
	g := gate.NewAdaptive(pace.PerSecond(100), &gate.AdaptiveOptions{Clock: mock})
	p := &retry.Policy{Attempts: 1, Backoff: retry.Constant(0), Gate: g, Clock: mock, OnRetry: func(e retry.Event) {
		fmt.Println(e.Err, "- now one every", g.Interval())
		go func() {
			for g.Stats().Waiting == 0 { // until the call has queued again
				runtime.Gosched()
			}
			mock.Add(g.Interval())
		}()
	}}
	throttles := 2
	err := retry.Run(context.Background(), p, func(context.Context) error {
		if throttles > 0 {
			throttles--
			return retry.Throttled(0, errors.New("429 Too Many Requests"))
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// throttled: 429 Too Many Requests - now one every 20ms
	// throttled: 429 Too Many Requests - now one every 40ms
	// <nil>
}

func ExampleWrap() {
	failures := 2
	length := retry.Wrap(&retry.Policy{Backoff: retry.Constant(0)}, func(_ context.Context, s string) (int, error) {
		if failures > 0 {
			failures--
			return 0, errors.New("broken pipe")
		}
		return len(s), nil
	})
	fmt.Println(length(context.Background(), "four"))
	// Output: 4 <nil>
}

func ExampleStop() {
	errNotFound := errors.New("not found")
	err := retry.Run(context.Background(), nil, func(context.Context) error {
		fmt.Println("attempt")
		return retry.Stop(errNotFound)
	})
	fmt.Println(err)
	fmt.Println(errors.Is(err, errNotFound), errors.Is(err, retry.ErrStopped))
	// Output:
	// attempt
	// not found
	// true true
}

func ExampleAfter() {
	p := &retry.Policy{MaxRetryAfter: time.Minute}
	err := retry.Run(context.Background(), p, func(context.Context) error {
		return retry.After(time.Hour, errors.New("503 Service Unavailable"))
	})
	fmt.Println(err)
	// Output: retry: asked to stay away for too long after 1 attempt: 503 Service Unavailable
}

func ExampleThrottled() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := retry.Run(ctx, nil, func(context.Context) error {
		return retry.Throttled(time.Hour, errors.New("429 Too Many Requests"))
	})
	fmt.Println(err)
	fmt.Println(errors.Is(err, context.DeadlineExceeded)) // and it did not wait for that
	// Output:
	// retry: the delay of 1h0m0s would outlast the context's deadline: throttled for 1h0m0s: 429 Too Many Requests
	// true
}

func ExampleError() {
	errRefused := errors.New("connection refused")
	p := &retry.Policy{Attempts: 2, Backoff: retry.Constant(0)}
	err := retry.Run(context.Background(), p, func(context.Context) error { return errRefused })
	var e *retry.Error
	if errors.As(err, &e) {
		fmt.Println(e.Attempts, "attempts, the last:", e.Last)
	}
	fmt.Println(errors.Is(err, errRefused), errors.Is(err, retry.ErrAttempts))
	// Output:
	// 2 attempts, the last: connection refused
	// true true
}

func ExampleClassify() {
	errNotFound := errors.New("not found")
	p := &retry.Policy{
		Backoff: retry.Constant(0),
		Classify: func(err error) retry.Verdict {
			if errors.Is(err, errNotFound) {
				return retry.VerdictStop
			}
			return retry.Classify(err) // the default
		},
	}
	err := retry.Run(context.Background(), p, func(context.Context) error { return errNotFound })
	fmt.Println(err)
	// Output: not found
}

func ExampleBudget() {
	// All calls of one far side share a budget: one retry for every two calls.
	p := &retry.Policy{
		Backoff: retry.Constant(0),
		Budget:  &retry.Budget{Share: 0.5, Floor: -1},
	}
	attempts := 0
	down := func(context.Context) error {
		attempts++
		return errors.New("connection refused")
	}
	var err error
	for range 100 {
		err = retry.Run(context.Background(), p, down)
	}
	fmt.Println(attempts, "attempts in 100 calls")
	fmt.Println(err)
	// Output:
	// 150 attempts in 100 calls
	// retry: no budget left after 2 attempts: connection refused
}

func ExampleBackoff() {
	// A backoff of your own: 1 s, 2 s, 3 s and so on.
	var linear retry.Backoff = func(n int, _ time.Duration) time.Duration {
		return time.Duration(min(n, 60)) * time.Second
	}
	fmt.Println(linear(1, 0), linear(2, time.Second), linear(1000, time.Minute))
	// Output: 1s 2s 1m0s
}

func ExampleConstant() {
	b := retry.Constant(time.Second)
	fmt.Println(b(1, 0), b(2, time.Second))
	// Output: 1s 1s
}

func ExampleExponential() {
	b := retry.Exponential(100*time.Millisecond, time.Second)
	for n := 1; n <= 5; n++ {
		fmt.Print(b(n, 0), " ")
	}
	// Output: 100ms 200ms 400ms 800ms 1s
}

func ExampleFullJitter() {
	b := retry.FullJitter(100*time.Millisecond, 30*time.Second, nil)
	d := b(3, 0)
	fmt.Println(0 <= d && d <= 400*time.Millisecond)
	// Output: true
}

func ExampleEqualJitter() {
	b := retry.EqualJitter(100*time.Millisecond, 30*time.Second, nil)
	d := b(3, 0)
	fmt.Println(200*time.Millisecond <= d && d <= 400*time.Millisecond)
	// Output: true
}

func ExampleDecorrelatedJitter() {
	b := retry.DecorrelatedJitter(100*time.Millisecond, 30*time.Second, nil)
	d := b(2, time.Second)
	fmt.Println(100*time.Millisecond <= d && d <= 3*time.Second)
	// Output: true
}

// A generator of one's own makes a test repeat itself.
func ExampleJitterOptions() {
	seeded := &retry.JitterOptions{Rand: rand.New(rand.NewPCG(1, 2)).Int64N}
	b := retry.FullJitter(time.Second, time.Minute, seeded)
	for n := 1; n <= 3; n++ {
		fmt.Print(b(n, 0).Round(time.Millisecond), " ")
	}
	// Output: 769ms 1.233s 3.138s
}

// A call ends even if the far side throttles for ever and the gate does not listen to it.
func ExamplePolicy_throttles() {
	p := &retry.Policy{Throttles: 3, Backoff: retry.Constant(time.Millisecond), Gate: gate.NewConcurrency(4)}
	err := retry.Run(context.Background(), p, func(context.Context) error {
		fmt.Println("sent")
		return retry.Throttled(0, errors.New("429 Too Many Requests"))
	})
	fmt.Println(err)
	fmt.Println(errors.Is(err, retry.ErrThrottles))
	// Output:
	// sent
	// sent
	// sent
	// retry: throttled too often: throttled: 429 Too Many Requests
	// true
}
