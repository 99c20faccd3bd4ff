package promgate_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/observe"
	"github.com/escapement-go/escapement/pace"
	"github.com/escapement-go/escapement/retry"
)

type values = map[string]float64

// enter lets n callers enter at once. Each stays for as long as stay says.
func enter(b *bubble.B, ctx context.Context, g gate.Gate, n int, stay time.Duration) {
	for range n {
		go func() {
			p, err := g.Enter(ctx, 1)
			if err != nil {
				return
			}
			if stay > 0 {
				b.Sleep(stay)
			}
			p.Leave(nil)
		}()
	}
}

// A rate of 10/s: six callers come at 0, two of them give up at 250 ms, one has a deadline that is too short.
func TestRate(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		var set observe.Set
		g := gate.Named("api", gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Clock: b.Clock()}))
		gate.Observe(g, set.AddGate(g).Observer())
		plan := values{`gate_info kind="rate"`: 1, "gate_tokens_per_second": 10, "gate_burst_tokens": 1, "gate_span_seconds": 1}
		with := func(more values) values {
			for name, v := range plan {
				more[name] = v
			}
			return more
		}
		expect(b, scrape(b, &set), `gate="api"`, with(values{"gate_left": 1}))

		enter(b, context.Background(), g, 4, 0) // at 0, 100, 200 and 300 ms
		b.Settle()
		ctx, cancel := context.WithCancel(context.Background())
		enter(b, ctx, g, 2, 0)
		b.Settle()
		short, end := b.WithTimeout(10 * time.Millisecond)
		defer end()
		if _, err := g.Enter(short, 1); !errors.Is(err, context.DeadlineExceeded) {
			b.Error(err)
		}
		g.TryEnter(1)
		b.AdvanceTo(250 * time.Millisecond)
		expect(b, scrape(b, &set), `gate="api"`, with(values{
			"gate_granted_total": 3, "gate_refused_total": 2, "gate_wait_seconds_total": 0.3, "gate_waits_total": 2,
			"gate_waiting": 3, "gate_longest_wait_seconds": 0.25,
		}))
		cancel()
		b.Settle()
		g.Hold(time.Second)
		expect(b, scrape(b, &set), `gate="api"`, with(values{
			"gate_granted_total": 3, "gate_refused_total": 2, "gate_wait_seconds_total": 0.3, "gate_waits_total": 2,
			"gate_abandoned_total": 2, "gate_wait_in_vain_seconds_total": 0.5, "gate_holds_total": 1,
			"gate_waiting": 1, "gate_longest_wait_seconds": 0.25, "gate_held_seconds": 1,
		}))
		b.AdvanceTo(10 * time.Second)
		g.Hold(math.MaxInt64)
		g.Resume()
		g.SetRate(pace.PerMinute(30))
		plan["gate_tokens_per_second"], plan["gate_span_seconds"] = 0.5, 60
		expect(b, scrape(b, &set), `gate="api"`, with(values{
			"gate_granted_total": 4, "gate_refused_total": 2, "gate_wait_seconds_total": 1.55, "gate_waits_total": 3,
			"gate_abandoned_total": 2, "gate_wait_in_vain_seconds_total": 0.5, "gate_holds_total": 2, "gate_resumes_total": 1,
			"gate_plan_changes_total": 1, "gate_left": 1,
		}))
	})
}

// What has no end or no limit is +Inf, and a plan without tokens, slots or a bucket has no such metric.
func TestLimits(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		var set observe.Set
		held := gate.Named("held", gate.NewWindow(6, 2*time.Minute, &gate.WindowOptions{Clock: b.Clock()}))
		held.TryEnter(2)
		held.Hold(math.MaxInt64)
		slots := gate.Named("slots", gate.NewConcurrency(3))
		slots.TryEnter(2)
		free := gate.Named("free", gate.NewRate(pace.Unlimited(), nil))
		adaptive := gate.Named("adaptive", gate.NewAdaptive(pace.PerSecond(10), &gate.AdaptiveOptions{Clock: b.Clock()}))
		p, _ := adaptive.TryEnter(1)
		p.Leave(gate.Throttled(0, errors.New("429")))
		for _, g := range []gate.Gate{held, slots, free, adaptive} {
			set.AddGate(g)
		}
		s := scrape(b, &set)
		expect(b, s, `gate="held"`, values{
			`gate_info kind="window"`: 1, "gate_tokens_per_second": 0.05, "gate_span_seconds": 120,
			"gate_granted_total": 1, "gate_in_use": 2, "gate_held_seconds": math.Inf(1),
		})
		expect(b, s, `gate="slots"`, values{`gate_info kind="concurrency"`: 1, "gate_slots": 3, "gate_granted_total": 1, "gate_in_use": 2, "gate_left": 1})
		expect(b, s, `gate="free"`, values{`gate_info kind="rate"`: 1, "gate_left": math.Inf(1), "gate_burst_tokens": 1})
		if got := s[`gate_tokens_per_second{gate="adaptive"}`]; got != float64(time.Second)/float64(adaptive.Interval()) || got >= 10 {
			b.Errorf("%v per second, with an interval of %v", got, adaptive.Interval())
		}
	})
}

// Ten calls behind a rate of 10/s and two slots, of 300 ms each: the slots keep them back.
func TestAll(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		var set observe.Set
		rate := gate.Named("rate", gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Clock: b.Clock()}))
		slots := gate.Named("slots", gate.NewConcurrency(2))
		all := gate.Named("llm", gate.All(rate, slots))
		for _, g := range append(all.Members(), all) {
			gate.Observe(g, set.AddGate(g).Observer())
		}
		var granted []time.Duration
		come := make(chan time.Duration, 10)
		for range 10 {
			go func() {
				p, err := all.Enter(context.Background(), 1)
				if err != nil {
					b.Error(err)
				}
				come <- b.Now()
				b.Sleep(300 * time.Millisecond)
				p.Leave(gate.Throttled(0, errors.New("429")))
			}()
		}
		b.AdvanceTo(650 * time.Millisecond)
		for len(come) > 0 {
			granted = append(granted, <-come)
		}
		// At 0 and 100 ms by the rate, then as slots become free: 300, 400, 600 ms.
		var waited time.Duration
		for _, at := range granted {
			waited += at
		}
		s := scrape(b, &set)
		expect(b, s, `gate="llm"`, values{
			`gate_info kind="all"`: 1, "gate_granted_total": 5, "gate_wait_seconds_total": waited.Seconds(), "gate_waits_total": 4,
			"gate_waiting": 5, "gate_longest_wait_seconds": 0.65, "gate_throttled_total": 3, "gate_in_use": 2,
		})
		if waited != 1400*time.Millisecond {
			b.Errorf("granted at %v", granted)
		}
		if s[`gate_granted_total{gate="slots"}`] != 5 || s[`gate_granted_total{gate="rate"}`] != 5 || s[`gate_in_use{gate="slots"}`] != 2 {
			b.Errorf("%v", s)
		}
		b.AdvanceTo(3 * time.Second)
		s = scrape(b, &set)
		for len(come) > 0 {
			waited += <-come
		}
		if s[`gate_wait_seconds_total{gate="llm"}`] != waited.Seconds() || s[`gate_throttled_total{gate="llm"}`] != 10 || s[`gate_waits_total{gate="llm"}`] != 9 {
			b.Errorf("%v, want 10 throttles and waits of %v", s, waited)
		}
	})
}

// Three keys of 10/s, the two busiest one by one. The rest has the others, and the entry without room for its key.
func TestKeyed(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		var set observe.Set
		tenants := gate.NewKeyed(func(string) gate.Gate {
			return gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Clock: b.Clock()})
		}, &gate.KeyedOptions{Name: "tenants", MaxKeys: 3, Clock: b.Clock()})
		tenants.Observe(observe.AddKeyed(&set, tenants, 2).Observer())
		enter(b, context.Background(), tenants.For("alice"), 5, 0)
		enter(b, context.Background(), tenants.For("<b>"), 3, 0)
		enter(b, context.Background(), tenants.For("carol"), 2, 0)
		b.Settle()
		tenants.TryEnter("carol", 1)
		tenants.TryEnter("dave", 1)
		b.AdvanceTo(150 * time.Millisecond)
		tenants.For("carol").Hold(time.Second)
		s := scrape(b, &set)
		expect(b, s, `gate="tenants"`, values{
			"keyed_keys": 3, "keyed_granted_total": 6, "keyed_refused_total": 2, "keyed_no_room_total": 1,
			"keyed_wait_seconds_total": 0.3, "keyed_waits_total": 3, "keyed_waiting": 4, "keyed_holds_total": 1,
			"keyed_longest_wait_seconds": 0.15, "keyed_held_seconds": 1,
			`key_granted_total key="alice",keys="top"`: 2, `key_wait_seconds_total key="alice",keys="top"`: 0.1,
			`key_waiting key="alice",keys="top"`: 3, `key_longest_wait_seconds key="alice",keys="top"`: 0.15,
			`key_granted_total key="<b>",keys="top"`: 2, `key_wait_seconds_total key="<b>",keys="top"`: 0.1,
			`key_waiting key="<b>",keys="top"`: 1, `key_longest_wait_seconds key="<b>",keys="top"`: 0.15,
			`key_granted_total key="",keys="rest"`: 2, `key_wait_seconds_total key="",keys="rest"`: 0.1,
			`key_refused_total key="",keys="rest"`: 2, `key_held_seconds key="",keys="rest"`: 1,
		})
		b.AdvanceTo(time.Hour) // all keys are forgotten
		s = scrape(b, &set)
		expect(b, s, `gate="tenants"`, values{
			"keyed_granted_total": 10, "keyed_refused_total": 2, "keyed_no_room_total": 1, "keyed_holds_total": 1,
			"keyed_wait_seconds_total": 0.1 + 0.2 + 0.3 + 0.4 + 0.1 + 0.2 + 0.1, "keyed_waits_total": 7,
			`key_granted_total key="",keys="rest"`: 6, `key_refused_total key="",keys="rest"`: 2,
			`key_wait_seconds_total key="",keys="rest"`: 1.2,
		})
	})
}

// A call that is throttled twice, one that fails, one that needs two attempts, and one that is in a delay.
func TestRetry(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		var set observe.Set
		g := gate.Named("api", gate.NewConcurrency(2))
		gate.Observe(g, set.AddGate(g).Observer())
		policy := &retry.Policy{
			Gate: g, Backoff: retry.Constant(time.Second), Attempts: 3, Clock: b.Clock(),
			Budget: &retry.Budget{}, Counter: &retry.Counter{Name: "fetch"},
		}
		set.AddPolicy(policy)
		boom := errors.New("boom")
		call := func(results ...error) {
			go func() {
				n := 0
				_ = retry.Run(context.Background(), policy, func(context.Context) error {
					n++
					return results[n-1]
				})
			}()
			b.Settle()
		}
		call(gate.Throttled(0, boom), gate.Throttled(0, boom), nil)
		call(boom, boom, boom)
		call(boom, nil)
		call(retry.Stop(boom))
		call(nil)
		b.AdvanceTo(500 * time.Millisecond)
		left := float64(policy.Stats().Budget)
		expect(b, scrape(b, &set), `policy="fetch"`, values{
			"retry_calls_total": 5, "retry_calls_succeeded_total": 1, "retry_calls_failed_total": 1,
			"retry_attempts_total": 5, "retry_errors_total": 3, "retry_throttled_total": 1,
			"retry_delays_total": 3, "retry_calls_in_delay": 3, "retry_budget_left": left,
		})
		b.AdvanceTo(time.Minute)
		left = float64(policy.Stats().Budget)
		s := scrape(b, &set)
		expect(b, s, `policy="fetch"`, values{
			"retry_calls_total": 5, "retry_calls_succeeded_total": 3, "retry_calls_failed_total": 2,
			"retry_attempts_total": 10, "retry_retries_total": 5, "retry_errors_total": 5, "retry_throttled_total": 2,
			"retry_delays_total": 5, "retry_delay_seconds_total": 5, "retry_budget_left": left,
		})
		if got := s[`gate_throttled_total{gate="api"}`]; got != 2 {
			b.Errorf("%v throttles at the gate, want 2", got)
		}
	})
}

// Ten items through two stages, of which the second one is slow, and ten jobs of a group with a limit.
func TestPipelineAndGroup(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		var set observe.Set
		g, _ := group.WithContext(context.Background())
		read, write := &group.Meter{Name: "read"}, &group.Meter{Name: "write"}
		set.AddMeter(read)
		set.AddMeter(write)
		numbers := group.From(g, func(yield func(int) bool) {
			for i := range 10 {
				if !yield(i) {
					return
				}
			}
		})
		results := group.TryMap(g, numbers, func(_ context.Context, i int) (int, error) {
			if i%5 == 4 {
				return 0, errors.New("boom")
			}
			return i, nil
		}, &group.Stage{Workers: 2, Buffer: -1, Meter: read})
		go group.ForEach(g, results, func(context.Context, group.Result[int, int]) error {
			b.Sleep(time.Second)
			return nil
		}, &group.Stage{Workers: 3, Meter: write})

		jobs := &group.Group{}
		jobs.SetName("jobs")
		jobs.SetLimit(4)
		set.AddGroup(jobs)
		free := &group.Group{}
		free.SetName("free")
		set.AddGroup(free)
		for i := range 10 {
			jobs.TryGo(func() error {
				b.Sleep(time.Second)
				if i == 0 {
					return errors.New("boom")
				}
				return nil
			})
		}
		b.AdvanceTo(500 * time.Millisecond)
		s := scrape(b, &set)
		expect(b, s, `stage="read"`, values{"stage_items_total": 5, "stage_results_total": 3, "stage_errors_total": 1, `stage_workers state="blocked"`: 2})
		expect(b, s, `stage="write"`, values{"stage_items_total": 3, `stage_workers state="in_flight"`: 3})
		expect(b, s, `group="jobs"`, values{"group_jobs_started_total": 4, `group_jobs state="running"`: 4, "group_jobs_limit": 4})
		if _, limited := s[`group_jobs_limit{group="free"}`]; limited {
			b.Error("a group without a limit has one")
		}
		b.AdvanceTo(10 * time.Second)
		s = scrape(b, &set)
		expect(b, s, `stage="read"`, values{"stage_items_total": 10, "stage_results_total": 10, "stage_errors_total": 2})
		expect(b, s, `stage="write"`, values{"stage_items_total": 10})
		expect(b, s, `group="jobs"`, values{"group_jobs_started_total": 4, "group_jobs_done_total": 4, "group_jobs_failed_total": 1, "group_jobs_limit": 4})
		_ = g.Wait()
		_ = jobs.Wait()
	})
}
