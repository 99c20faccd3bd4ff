package gate_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
)

// One call has two limits. While the far side is slow, the statistics of the members tell which of them
// keeps callers back.
func Example() {
	rate := gate.NewRate(pace.PerSecond(100), &gate.RateOptions{Burst: 10})
	slots := gate.NewConcurrency(2)
	api := gate.All(rate, slots) // an entry takes from both at one instant, or waits

	answer := make(chan struct{})
	var calls sync.WaitGroup
	for range 5 {
		calls.Go(func() {
			err := gate.Do(context.Background(), api, 1, func(context.Context) error {
				<-answer
				return nil
			})
			if err != nil {
				fmt.Println(err)
			}
		})
	}
	for api.Stats().Waiting < 3 {
		runtime.Gosched()
	}
	fmt.Println("waiting:", api.Stats().Waiting)
	fmt.Println("for a token:", rate.Stats().Waiting)
	fmt.Println("for a slot:", slots.Stats().Waiting)

	close(answer)
	calls.Wait()
	fmt.Println("admitted:", api.Stats().Granted)
	// Output:
	// waiting: 3
	// for a token: 0
	// for a slot: 3
	// admitted: 5
}

func ExampleDo() {
	g := gate.NewConcurrency(2)
	err := gate.Do(context.Background(), g, 1, func(context.Context) error {
		fmt.Println("in use:", g.Stats().InUse)
		return errors.New("the work's own error")
	})
	fmt.Println(err)
	fmt.Println("in use:", g.Stats().InUse)
	// Output:
	// in use: 1
	// the work's own error
	// in use: 0
}

func ExampleRate() {
	g := gate.NewRate(pace.PerSecond(100), nil)
	began := time.Now()
	for range 4 {
		if err := g.Wait(context.Background()); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(time.Since(began) >= 30*time.Millisecond)
	// Output: true
}

func ExampleNewRate() {
	// 5 per 10 seconds, all 5 of them at once if need be.
	g := gate.NewRate(pace.Per(5, 10*time.Second), &gate.RateOptions{Burst: 5})
	n := 0
	for g.Allow() {
		n++
	}
	fmt.Println(n)
	// Output: 5
}

func ExampleRate_Enter() {
	g := gate.NewRate(pace.PerHour(10), &gate.RateOptions{Burst: 10})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	_, err := g.Enter(ctx, 8)
	fmt.Println(err)
	_, err = g.Enter(ctx, 4) // 2 are there, the other 2 take 12 minutes
	var late *gate.DeadlineError
	fmt.Println(errors.As(err, &late), errors.Is(err, context.DeadlineExceeded), late.Wait.Round(time.Minute))
	_, err = g.Enter(ctx, 11)
	fmt.Println(err)
	// Output:
	// <nil>
	// true true 12m0s
	// gate: cost must be at most the burst of 10, got 11
}

func ExampleRate_TryEnter() {
	g := gate.NewRate(pace.PerHour(10), &gate.RateOptions{Burst: 10})
	_, ok := g.TryEnter(8)
	fmt.Println(ok)
	_, ok = g.TryEnter(3)
	fmt.Println(ok)
	// Output:
	// true
	// false
}

func ExampleRate_Wait() {
	g := gate.NewRate(pace.PerSecond(1000), nil)
	fmt.Println(g.Wait(context.Background()))

	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("closing time"))
	fmt.Println(g.Wait(ctx))
	// Output:
	// <nil>
	// closing time
}

func ExampleRate_Allow() {
	g := gate.NewRate(pace.PerHour(1), nil)
	fmt.Println(g.Allow(), g.Allow())
	// Output: true false
}

func ExampleRate_SetRate() {
	g := gate.NewRate(pace.PerHour(1), nil)
	g.Allow()
	go func() {
		for g.Stats().Waiting == 0 {
			runtime.Gosched()
		}
		g.SetRate(pace.PerSecond(1000)) // the waiter need not wait for an hour
	}()
	fmt.Println(g.Wait(context.Background()))
	// Output: <nil>
}

func ExampleRate_SetBurst() {
	g := gate.NewRate(pace.PerHour(1), nil)
	g.SetBurst(3) // a larger bucket fills up by time alone
	fmt.Println(g.Allow(), g.Allow())
	_, err := g.Enter(context.Background(), 4)
	fmt.Println(err)
	// Output:
	// true false
	// gate: cost must be at most the burst of 3, got 4
}

func ExampleRate_Hold() {
	g := gate.NewRate(pace.PerSecond(1000), &gate.RateOptions{Burst: 100})
	g.Hold(time.Hour) // the far side said: Retry-After: 3600
	fmt.Println(g.Allow(), g.Stats().HeldFor.Round(time.Minute))
	// Output: false 1h0m0s
}

func ExampleRate_Resume() {
	g := gate.NewRate(pace.PerMinute(1), &gate.RateOptions{Burst: 5})
	g.Hold(time.Hour) // the far side said: Retry-After: 3600
	fmt.Println(g.Allow())

	g.Resume() // and its operators say that it is back
	fmt.Println(g.Allow())
	fmt.Println(g.Allow()) // no burst
	// Output:
	// false
	// true
	// false
}

func ExampleRate_Stats() {
	g := gate.NewRate(pace.PerMinute(1), nil)
	g.Allow()
	g.Allow()
	s := g.Stats()
	fmt.Println(s.Granted, s.Refused, s.NextDue.Round(time.Second))
	// Output: 1 1 1m0s
}

func ExamplePass_Settle() {
	// 1,000 tokens a minute. What a call costs is known when it is over.
	g := gate.NewWindow(1000, time.Minute, nil)
	p, _ := g.TryEnter(900)
	_, ok := g.TryEnter(200)
	fmt.Println(ok)

	p.Settle(150)
	p.Leave(nil)
	_, ok = g.TryEnter(200)
	fmt.Println(ok, g.Stats().InUse)
	// Output:
	// false
	// true 350
}

func ExamplePass_Learns() {
	adaptive := gate.NewAdaptive(pace.PerSecond(100), nil)
	for _, g := range []gate.Gate{gate.All(adaptive, gate.NewConcurrency(8)), gate.NewConcurrency(8)} {
		p, _ := g.TryEnter(1)
		if !p.Learns() {
			gate.Hold(g, time.Minute) // the Retry-After of a 429
		}
		p.Leave(gate.Throttled(time.Minute, errors.New("429")))
		s, _ := gate.StatsOf(g)
		fmt.Println(p.Learns(), s.HeldFor > 59*time.Second)
	}
	// Output:
	// true true
	// false false
}

func ExamplePass_Leave() {
	g := gate.NewConcurrency(1)
	p, _ := g.TryEnter(1)
	_, ok := g.TryEnter(1)
	fmt.Println(ok)
	p.Leave(nil)
	_, ok = g.TryEnter(1)
	fmt.Println(ok)
	// Output:
	// false
	// true
}

func ExampleNewPass() {
	fmt.Println(gate.NewPass(nil, 0, 1) == gate.Pass{})
	p := gate.NewPass(printer{}, 7, 2)
	p.Settle(1)
	p.Leave(nil)
	// Output:
	// false
	// 7: 1 instead of 2
	// 7: left
}

// printer is the keeper of a gate of another author.
type printer struct{}

func (printer) Leave(id uint64, cost int, err error) { fmt.Printf("%d: left\n", id) }
func (printer) Settle(id uint64, cost, actual int) {
	fmt.Printf("%d: %d instead of %d\n", id, actual, cost)
}

func ExampleNewWindow() {
	// An API that counts 3 requests in any 10 seconds. What leaves evenly arrives
	// unevenly: 50 ms of guard.
	g := gate.NewWindow(3, 10*time.Second, &gate.WindowOptions{Guard: 50 * time.Millisecond})
	for range 3 {
		_, ok := g.TryEnter(1)
		fmt.Print(ok, " ")
	}
	_, ok := g.TryEnter(1)
	fmt.Println(ok, g.Stats().NextDue > 10*time.Second)
	// Output: true true true false true
}

func ExampleWindow_Enter() {
	g := gate.NewWindow(2, 20*time.Millisecond, nil)
	began := time.Now()
	for range 3 {
		if _, err := g.Enter(context.Background(), 1); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(time.Since(began) >= 20*time.Millisecond)
	// Output: true
}

func ExampleWindow_TryEnter() {
	g := gate.NewWindow(2, time.Hour, nil)
	_, ok := g.TryEnter(2)
	fmt.Println(ok)
	_, ok = g.TryEnter(1)
	fmt.Println(ok)
	// Output:
	// true
	// false
}

func ExampleWindow_Hold() {
	g := gate.NewWindow(100, time.Second, nil)
	g.Hold(time.Minute)
	_, ok := g.TryEnter(1)
	fmt.Println(ok)
	// Output: false
}

func ExampleWindow_Resume() {
	g := gate.NewWindow(2, time.Minute, nil)
	g.Hold(time.Hour)
	g.Resume()
	for range 3 {
		_, ok := g.TryEnter(1)
		fmt.Println(ok)
	}
	// Output:
	// true
	// true
	// false
}

func ExampleWindow_SetLimit() {
	g := gate.NewWindow(2, time.Hour, nil)
	g.TryEnter(2)
	g.SetLimit(5, time.Hour) // the two that went still count
	_, four := g.TryEnter(4)
	_, three := g.TryEnter(3)
	fmt.Println(four, three)
	// Output: false true
}

func ExampleWindow_untilAnswer() {
	// An API that counts 2 requests in any minute, when they arrive: at some time before the answer.
	mock := clock.NewMock()
	g := gate.NewWindow(2, time.Minute, &gate.WindowOptions{UntilAnswer: true, Clock: mock})
	first, _ := g.TryEnter(1)
	second, _ := g.TryEnter(1)

	mock.Add(time.Hour)
	_, ok := g.TryEnter(1)
	fmt.Println("under way for an hour:", ok)

	first.Leave(nil) // the answers are there
	second.Leave(nil)
	mock.Add(time.Minute - 1)
	_, ok = g.TryEnter(1)
	fmt.Println("just before a minute after the answers:", ok)
	mock.Add(1)
	_, ok = g.TryEnter(1)
	fmt.Println("a minute after the answers:", ok)
	// Output:
	// under way for an hour: false
	// just before a minute after the answers: false
	// a minute after the answers: true
}

func ExampleWindow_Stats() {
	g := gate.NewWindow(100, time.Hour, nil)
	g.TryEnter(30)
	fmt.Println(g.Stats().InUse)
	// Output: 30
}

func ExampleNewConcurrency() {
	g := gate.NewConcurrency(40)
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			gate.Do(context.Background(), g, 1, func(context.Context) error {
				// at most 40 of these at once
				return nil
			})
		})
	}
	wg.Wait()
	fmt.Println(g.Stats().Granted)
	// Output: 100
}

func ExampleConcurrency_Enter() {
	g := gate.NewConcurrency(10) // say, 10 GiB of memory
	p, err := g.Enter(context.Background(), 4)
	fmt.Println(err, g.Stats().InUse)
	p.Leave(nil)
	_, err = g.Enter(context.Background(), 12)
	fmt.Println(err)
	// Output:
	// <nil> 4
	// gate: cost must be at most the capacity of 10, got 12
}

func ExampleConcurrency_TryEnter() {
	g := gate.NewConcurrency(1)
	p, ok := g.TryEnter(1)
	fmt.Println(ok)
	_, again := g.TryEnter(1)
	fmt.Println(again)
	p.Leave(nil)
	// Output:
	// true
	// false
}

func ExampleConcurrency_SetLimit() {
	g := gate.NewConcurrency(3)
	p, _ := g.TryEnter(2)
	g.SetLimit(1) // one too many are in flight: no entry is admitted until both have left
	_, ok := g.TryEnter(1)
	fmt.Println(ok)
	p.Leave(nil)
	_, ok = g.TryEnter(1)
	fmt.Println(ok)
	// Output:
	// false
	// true
}

func ExampleConcurrency_Stats() {
	g := gate.NewConcurrency(3)
	g.TryEnter(2)
	s := g.Stats()
	fmt.Println(s.Granted, s.InUse, s.Waiting)
	// Output: 1 2 0
}

func ExampleAll() {
	calls := gate.NewConcurrency(40)
	minute := gate.NewWindow(1, time.Minute, nil)
	g := gate.All(calls, minute)

	_, ok := g.TryEnter(1)
	fmt.Println(ok, calls.Stats().InUse)
	_, ok = g.TryEnter(1) // the window refuses, so no slot is taken
	fmt.Println(ok, calls.Stats().InUse)
	// Output:
	// true 1
	// false 1
}

// One route is to be left alone; the other goes on, though both share the global limit.
func ExampleComposite_Hold() {
	global := gate.NewRate(pace.PerSecond(100), &gate.RateOptions{Burst: 100})
	search := gate.All(global, gate.NewConcurrency(4))
	items := gate.All(global, gate.NewConcurrency(8))

	search.Hold(time.Minute)
	_, ok := search.TryEnter(1)
	s, _ := gate.StatsOf(search)
	fmt.Println("search:", ok, s.HeldFor.Round(time.Second))
	_, ok = items.TryEnter(1)
	fmt.Println("items:", ok)
	// Output:
	// search: false 1m0s
	// items: true
}

// A composite ends its own hold, and no other.
func ExampleComposite_Resume() {
	api := gate.NewRate(pace.PerSecond(100), nil)
	search := gate.All(api, gate.NewConcurrency(5))
	search.Hold(time.Hour)
	api.Hold(time.Hour)

	search.Resume()
	_, ok := search.TryEnter(1)
	fmt.Println(ok)
	api.Resume()
	_, ok = search.TryEnter(1)
	fmt.Println(ok)
	// Output:
	// false
	// true
}

// Resume is for a gate of unknown type, such as that of a key.
func ExampleResume() {
	hosts := gate.NewKeyed(func(string) gate.Gate { return gate.NewWindow(10, time.Second, nil) }, nil)
	host := hosts.For("example.org")
	gate.Hold(host, time.Hour)
	fmt.Println(gate.Resume(host), host.Stats().HeldFor)
	fmt.Println(gate.Resume(gate.NewConcurrency(1)))
	// Output:
	// true 0s
	// false
}

func ExampleNewKeyed() {
	// 100 calls in flight in all, 2 for each host.
	global := gate.NewConcurrency(100)
	hosts := gate.NewKeyed(func(host string) gate.Gate {
		return gate.All(global, gate.NewConcurrency(2))
	}, nil)

	for _, host := range []string{"a", "a", "a", "b"} {
		_, ok := hosts.TryEnter(host, 1)
		fmt.Println(host, ok)
	}
	fmt.Println(global.Stats().InUse, "in flight")
	// Output:
	// a true
	// a true
	// a false
	// b true
	// 3 in flight
}

func ExampleKeyed_Enter() {
	k := gate.NewKeyed(func(string) gate.Gate { return gate.NewConcurrency(1) }, nil)
	p, err := k.Enter(context.Background(), "customer", 1)
	fmt.Println(err)
	p.Leave(nil)
	// Output: <nil>
}

func ExampleKeyed_TryEnter() {
	k := gate.NewKeyed(func(int) gate.Gate { return gate.NewConcurrency(1) }, &gate.KeyedOptions{MaxKeys: 1})
	p, ok := k.TryEnter(1, 1)
	fmt.Println(ok)
	_, err := k.Enter(context.Background(), 2, 1) // the slot of key 1 is in use
	fmt.Println(err)
	p.Leave(nil)
	_, ok = k.TryEnter(2, 1)
	fmt.Println(ok, k.Len())
	// Output:
	// true
	// gate: Keyed: all MaxKeys of 1 are in use, there is no room for another key
	// true 1
}

func ExampleKeyed_For() {
	k := gate.NewKeyed(func(string) gate.Gate { return gate.NewRate(pace.PerSecond(1000), nil) }, nil)
	err := gate.Do(context.Background(), k.For("example.org"), 1, func(context.Context) error {
		fmt.Println("called")
		return nil
	})
	fmt.Println(err)
	// Output:
	// called
	// <nil>
}

func ExampleKeyed_Len() {
	k := gate.NewKeyed(func(int) gate.Gate { return gate.NewRate(pace.PerHour(1), nil) }, nil)
	for key := range 3 {
		k.TryEnter(key, 1)
	}
	fmt.Println(k.Len())
	// Output: 3
}

func ExampleKeyed_Stats() {
	k := gate.NewKeyed(func(int) gate.Gate { return gate.NewConcurrency(5) }, nil)
	k.TryEnter(1, 2)
	k.TryEnter(2, 3)
	fmt.Println(k.Stats().InUse)
	// Output: 5
}

// spin is a limiter from elsewhere.
type spin struct{ n int }

func (s *spin) Wait(ctx context.Context) error {
	s.n++
	return ctx.Err()
}

func ExampleOf() {
	limiter := &spin{}
	g := gate.All(gate.NewConcurrency(2), gate.Of(limiter))
	p, err := g.Enter(context.Background(), 1)
	fmt.Println(err, limiter.n)
	p.Leave(nil)
	// Output: <nil> 1
}

func ExampleStatsOf() {
	g := gate.All(gate.NewConcurrency(2), gate.NewConcurrency(3))
	g.TryEnter(2)
	s, ok := gate.StatsOf(g)
	fmt.Println(ok, s.Granted, s.InUse)
	// Output: true 1 2
}

func ExampleThrottled() {
	err := gate.Throttled(2*time.Second, errors.New("429 Too Many Requests"))
	fmt.Println(err)
	var t *gate.ThrottledError
	fmt.Println(errors.As(fmt.Errorf("call: %w", err), &t), t.After)
	// Output:
	// throttled for 2s: 429 Too Many Requests
	// true 2s
}

func ExampleNewAdaptive() {
	g := gate.NewAdaptive(pace.PerSecond(100), nil)
	p, _ := g.TryEnter(1)
	p.Leave(gate.Throttled(0, errors.New("429 Too Many Requests")))
	fmt.Println(g.Interval())
	// Output: 20ms
}

func ExampleAdaptive_Enter() {
	g := gate.NewAdaptive(pace.PerSecond(1000), &gate.AdaptiveOptions{GiveUp: 2})
	for {
		p, err := g.Enter(context.Background(), 1)
		if err != nil {
			fmt.Println(err)
			return
		}
		p.Leave(gate.Throttled(0, nil))
	}
	// Output: gate: given up after being throttled too often in a row
}

func ExampleAdaptive_TryEnter() {
	g := gate.NewAdaptive(pace.PerHour(1), nil)
	_, ok := g.TryEnter(1)
	_, again := g.TryEnter(1)
	fmt.Println(ok, again)
	// Output: true false
}

func ExampleAdaptive_Interval() {
	g := gate.NewAdaptive(pace.PerSecond(2), nil)
	fmt.Println(g.Interval())
	// Output: 500ms
}

func ExampleAdaptive_Hold() {
	g := gate.NewAdaptive(pace.PerSecond(2), nil)
	g.Hold(time.Hour)
	_, ok := g.TryEnter(1)
	fmt.Println(ok)
	// Output: false
}

// Resume ends a hold, and the interval stays.
func ExampleAdaptive_Resume() {
	g := gate.NewAdaptive(pace.PerSecond(10), nil)
	pass, _ := g.TryEnter(1)
	pass.Leave(gate.Throttled(time.Hour, nil))
	fmt.Println(g.Stats().HeldFor > 0, g.Interval())
	g.Resume()
	fmt.Println(g.Stats().HeldFor > 0, g.Interval())
	// Output:
	// true 200ms
	// false 200ms
}

func ExampleAdaptive_Reset() {
	g := gate.NewAdaptive(pace.PerSecond(2), &gate.AdaptiveOptions{GiveUp: 1})
	p, _ := g.TryEnter(1)
	p.Leave(gate.Throttled(0, nil))
	_, err := g.Enter(context.Background(), 1)
	fmt.Println(errors.Is(err, gate.ErrGaveUp), g.Interval())
	g.Reset()
	fmt.Println(g.Interval())
	// Output:
	// true 1s
	// 500ms
}

func ExampleAdaptive_Stats() {
	g := gate.NewAdaptive(pace.PerSecond(2), nil)
	p, _ := g.TryEnter(1)
	p.Leave(gate.Throttled(time.Minute, nil))
	fmt.Println(g.Stats().HeldFor.Round(time.Second))
	// Output: 1m0s
}

func ExampleNewAdaptiveConcurrency() {
	g := gate.NewAdaptiveConcurrency(64, nil)
	var passes []gate.Pass
	for range 64 {
		p, _ := g.TryEnter(1)
		passes = append(passes, p)
	}
	for _, p := range passes[:3] { // refused at the same time, so that counts once
		p.Leave(gate.Throttled(0, errors.New("503 Service Unavailable")))
	}
	fmt.Println(g.Limit(), g.Stats().InUse)
	// Output: 32 61
}

func ExampleNewAdaptiveConcurrency_latency() {
	g := gate.NewAdaptiveConcurrency(8, &gate.AdaptiveConcurrencyOptions{Latency: time.Millisecond})
	p, _ := g.TryEnter(8)
	time.Sleep(5 * time.Millisecond)
	p.Leave(nil)
	fmt.Println(g.Limit())
	// Output: 4
}

func ExampleAdaptiveConcurrency_Enter() {
	g := gate.NewAdaptiveConcurrency(8, nil)
	_, err := g.Enter(context.Background(), 9)
	fmt.Println(err)
	// Output: gate: cost must be at most the capacity of 8, got 9
}

func ExampleAdaptiveConcurrency_TryEnter() {
	g := gate.NewAdaptiveConcurrency(1, nil)
	p, ok := g.TryEnter(1)
	_, again := g.TryEnter(1)
	p.Leave(nil)
	fmt.Println(ok, again)
	// Output: true false
}

func ExampleAdaptiveConcurrency_Limit() {
	g := gate.NewAdaptiveConcurrency(8, nil)
	fmt.Println(g.Limit())
	// Output: 8
}

func ExampleAdaptiveConcurrency_Hold() {
	g := gate.NewAdaptiveConcurrency(8, nil)
	g.Hold(time.Hour)
	_, ok := g.TryEnter(1)
	fmt.Println(ok)
	// Output: false
}

func ExampleAdaptiveConcurrency_Resume() {
	g := gate.NewAdaptiveConcurrency(8, nil)
	p, _ := g.TryEnter(8)
	p.Leave(gate.Throttled(time.Hour, nil))
	_, held := g.TryEnter(1)
	g.Resume()
	_, ok := g.TryEnter(1)
	fmt.Println(held, ok, g.Limit())
	// Output: false true 4
}

func ExampleAdaptiveConcurrency_Reset() {
	g := gate.NewAdaptiveConcurrency(8, nil)
	p, _ := g.TryEnter(8)
	p.Leave(context.DeadlineExceeded)
	fmt.Println(g.Limit())
	g.Reset()
	fmt.Println(g.Limit())
	// Output:
	// 4
	// 8
}

func ExampleAdaptiveConcurrency_Stats() {
	g := gate.NewAdaptiveConcurrency(8, nil)
	p, _ := g.TryEnter(3)
	fmt.Println(g.Stats().InUse)
	p.Leave(gate.Throttled(time.Minute, nil))
	fmt.Println(g.Stats().InUse, g.Stats().HeldFor.Round(time.Second))
	// Output:
	// 3
	// 0 1m0s
}
