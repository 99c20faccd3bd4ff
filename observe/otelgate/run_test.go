package otelgate_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/observe"
	"github.com/escapement-go/escapement/observe/otelgate"
	"github.com/escapement-go/escapement/pace"
	"github.com/escapement-go/escapement/retry"
)

type values = map[string]float64

// reader collects what the SDK gets of a Set.
type reader struct {
	*metric.ManualReader
	t testing.TB
}

func register(t testing.TB, set *observe.Set) reader {
	t.Helper()
	r := metric.NewManualReader()
	if _, err := otelgate.Register(set, metric.NewMeterProvider(metric.WithReader(r))); err != nil {
		t.Fatal(err)
	}
	return reader{r, t}
}

func (r reader) metrics() []metricdata.Metrics {
	r.t.Helper()
	var all metricdata.ResourceMetrics
	if err := r.Collect(context.Background(), &all); err != nil {
		r.t.Fatal(err)
	}
	if len(all.ScopeMetrics) == 0 {
		return nil
	}
	return all.ScopeMetrics[0].Metrics
}

// read returns each figure that is not 0 by its name and the values of its attributes, such as "gate.waiting api".
func (r reader) read() values {
	r.t.Helper()
	all := values{}
	for _, m := range r.metrics() {
		var points []metricdata.DataPoint[float64]
		switch d := m.Data.(type) {
		case metricdata.Sum[int64]:
			points = floats(d.DataPoints)
		case metricdata.Sum[float64]:
			points = d.DataPoints
		case metricdata.Gauge[float64]:
			points = d.DataPoints
		default:
			r.t.Errorf("%s is a %T", m.Name, m.Data)
		}
		for _, p := range points {
			key := strings.TrimPrefix(m.Name, "escapement.")
			for _, kv := range p.Attributes.ToSlice() { // in order of their keys
				key += " " + kv.Value.AsString()
			}
			if _, twice := all[key]; twice {
				r.t.Errorf("%s is there twice", key)
			}
			if p.Value != 0 {
				all[key] = p.Value
			}
		}
	}
	return all
}

func floats(points []metricdata.DataPoint[int64]) (all []metricdata.DataPoint[float64]) {
	for _, p := range points {
		all = append(all, metricdata.DataPoint[float64]{Attributes: p.Attributes, Value: float64(p.Value)})
	}
	return all
}

// expect compares all that is not 0 with those of a run.
func (r reader) expect(b *bubble.B, want values) {
	b.Helper()
	got := r.read()
	names := maps.Clone(got)
	maps.Copy(names, want)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if got[name] != want[name] {
			b.Errorf("%s: %v, want %v", name, got[name], want[name])
		}
	}
}

func enter(b *bubble.B, g gate.Gate, n int, stay time.Duration, result error) {
	for range n {
		go func() {
			if p, err := g.Enter(context.Background(), 1); err == nil {
				b.Sleep(stay)
				p.Leave(result)
			}
		}()
	}
}

// Calls behind an All of a rate of 10/s and two slots, of 300 ms each: granted at 0, 100, 300, 400 and 600 ms.
func TestAll(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		var set observe.Set
		rate := gate.Named("rate", gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Clock: b.Clock()}))
		slots := gate.Named("slots", gate.NewConcurrency(2))
		all := gate.Named("llm", gate.All(rate, slots))
		gate.Observe(all, set.AddGate(all).Observer())
		set.AddGate(rate)
		set.AddGate(slots)
		r := register(b, &set)
		r.expect(b, values{"gate.left llm": 1, "gate.left rate": 1, "gate.left slots": 2, "gate.rate rate": 10, "gate.burst rate": 1, "gate.span rate": 1, "gate.slots slots": 2})
		enter(b, all, 10, 300*time.Millisecond, gate.Throttled(0, errors.New("429")))
		b.AdvanceTo(650 * time.Millisecond)
		slots.TryEnter(1)
		got := r.read()
		want := values{
			"gate.granted llm": 5, "gate.waits llm": 4, "gate.wait_time llm": 1.4, "gate.waiting llm": 5, "gate.longest_wait llm": 0.65,
			"gate.throttled llm": 3, "gate.in_use llm": 2, "gate.left llm": 0, "gate.granted slots": 5, "gate.refused slots": 1, "gate.in_use slots": 2,
			"gate.granted rate": 5, "gate.refused rate": 0,
		}
		for name, want := range want {
			if got[name] != want {
				b.Errorf("%s: %v, want %v", name, got[name], want)
			}
		}
		rate.Hold(time.Minute)
		rate.Resume()
		b.AdvanceTo(10 * time.Second)
		all.Hold(3 * time.Second)
		if got := r.read(); got["gate.throttled llm"] != 10 || got["gate.granted llm"] != 10 || got["gate.held llm"] != 3 || got["gate.holds llm"] != 1 {
			b.Errorf("%v", got)
		}
	})
}

// The two busiest of three keys one by one, and the rest.
func TestKeyed(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		var set observe.Set
		tenants := gate.NewKeyed(func(string) gate.Gate {
			return gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Clock: b.Clock()})
		}, &gate.KeyedOptions{Name: "tenants", MaxKeys: 3, Clock: b.Clock()})
		tenants.Observe(observe.AddKeyed(&set, tenants, 2).Observer())
		r := register(b, &set)
		for n, key := range []string{"carol", "\xff", "alice"} {
			enter(b, tenants.For(key), 2+n, 0, nil)
		}
		b.Settle()
		tenants.TryEnter("carol", 1)
		tenants.TryEnter("dave", 1)
		b.AdvanceTo(150 * time.Millisecond)
		r.expect(b, values{
			"keyed.keys tenants": 3, "keyed.granted tenants": 6, "keyed.refused tenants": 2, "keyed.no_room tenants": 1,
			"keyed.wait_time tenants": 0.3, "keyed.waits tenants": 3, "keyed.waiting tenants": 3, "keyed.longest_wait tenants": 0.15,
			"key.granted tenants alice top": 2, "key.wait_time tenants alice top": 0.1, "key.waiting tenants alice top": 2, "key.longest_wait tenants alice top": 0.15,
			"key.granted tenants \uFFFD top": 2, "key.wait_time tenants \uFFFD top": 0.1, "key.waiting tenants \uFFFD top": 1, "key.longest_wait tenants \uFFFD top": 0.15,
			"key.granted tenants rest": 2, "key.wait_time tenants rest": 0.1, "key.refused tenants rest": 2,
		})
		b.AdvanceTo(time.Hour)
		r.expect(b, values{
			"keyed.granted tenants": 9, "keyed.refused tenants": 2, "keyed.no_room tenants": 1, "keyed.wait_time tenants": 1, "keyed.waits tenants": 6,
			"key.granted tenants rest": 5, "key.refused tenants rest": 2, "key.wait_time tenants rest": 1 - 0.2,
		})
	})
}

// A call that is throttled, one that fails, one in its delay, a slow stage, and a group with a limit.
func TestRetryStageAndGroup(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		var set observe.Set
		policy := &retry.Policy{Backoff: retry.Constant(time.Second), Attempts: 2, Clock: b.Clock(), Counter: &retry.Counter{Name: "fetch"}}
		set.AddPolicy(policy)
		meter := &group.Meter{Name: "write"}
		set.AddMeter(meter)
		jobs := &group.Group{}
		jobs.SetName("jobs")
		jobs.SetLimit(3)
		set.AddGroup(jobs)
		r := register(b, &set)
		boom := errors.New("boom")
		for _, results := range [][]error{{gate.Throttled(0, boom), nil}, {boom, boom}, {nil}} {
			go func() {
				_ = retry.Run(context.Background(), policy, func(context.Context) error {
					result := results[0]
					results = results[1:]
					return result
				})
			}()
		}
		g := &group.Group{}
		go group.ForEach(g, group.From(g, slices.Values([]int{1, 2, 3})), func(_ context.Context, i int) error {
			b.Sleep(time.Duration(i) * time.Second)
			return nil
		}, &group.Stage{Workers: 2, Meter: meter})
		for i := range 5 {
			jobs.TryGo(func() error {
				b.Sleep(time.Duration(i+1) * time.Second)
				return boom
			})
		}
		b.AdvanceTo(500 * time.Millisecond)
		r.expect(b, values{
			"retry.calls fetch": 3, "retry.calls.succeeded fetch": 1, "retry.attempts fetch": 3, "retry.errors fetch": 1, "retry.throttled fetch": 1,
			"retry.delays fetch": 2, "retry.in_delay fetch": 2,
			"stage.items write": 2, "stage.workers write in_flight": 2,
			"group.started jobs": 3, "group.jobs jobs running": 3, "group.limit jobs": 3,
		})
		b.AdvanceTo(2500 * time.Millisecond)
		r.expect(b, values{
			"retry.calls fetch": 3, "retry.calls.succeeded fetch": 2, "retry.calls.failed fetch": 1, "retry.attempts fetch": 5, "retry.retries fetch": 2,
			"retry.errors fetch": 2, "retry.throttled fetch": 1, "retry.delays fetch": 2, "retry.delay_time fetch": 2,
			"stage.items write": 3, "stage.workers write in_flight": 1, // the other worker has ended
			"group.started jobs": 3, "group.done jobs": 2, "group.failed jobs": 2, "group.jobs jobs running": 1, "group.limit jobs": 3,
		})
		b.AdvanceTo(time.Minute)
		_, _ = g.Wait(), jobs.Wait()
	})
}

// In any run of a rate, slots and the keys of a Keyed, what the SDK has is what the callers saw.
func TestRandomRuns(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rate := pace.Per(rapid.IntRange(1, 7).Draw(rt, "n"), time.Duration(rapid.IntRange(1, 3000).Draw(rt, "span"))*time.Millisecond)
		top := rapid.IntRange(0, 3).Draw(rt, "top")
		ops := rapid.SliceOfN(rapid.IntRange(0, 40), 1, 40).Draw(rt, "ops")
		fails := make(chan string, 1)
		bubble.Real(t, func(b *bubble.B) {
			defer close(fails)
			var set observe.Set
			gates := []gate.Gate{gate.Named("rate", gate.NewRate(rate, nil)), gate.Named("slots", gate.NewConcurrency(2))}
			for _, g := range gates {
				gate.Observe(g, set.AddGate(g).Observer())
			}
			keyed := gate.NewKeyed(func(int) gate.Gate { return gate.NewRate(rate, nil) }, &gate.KeyedOptions{Name: "keyed", MaxKeys: 2, Idle: time.Second})
			keyed.Observe(observe.AddKeyed(&set, keyed, top).Observer())
			gates = append(gates, keyed.For(0), keyed.For(1), keyed.For(2))
			r := register(b, &set)
			var mu sync.Mutex
			want := values{}
			waited := map[string]time.Duration{}
			now, cancel := context.WithCancel(context.Background())
			for _, o := range ops {
				ctx := now
				at := o % len(gates)
				g, name := gates[at], []string{"gate.%s rate", "gate.%s slots", "keyed.%s keyed"}[min(at, 2)]
				add := func(what string, n float64) {
					mu.Lock()
					defer mu.Unlock()
					want[fmt.Sprintf(name, what)] += n
				}
				switch o / 10 {
				case 0, 1:
					go func() {
						came := b.Now()
						add("waiting", 1)
						p, err := g.Enter(ctx, 1)
						add("waiting", -1)
						what, took := "wait_time", "granted"
						if err != nil {
							what, took = "wait_time_in_vain", "refused"
							if err == context.Canceled {
								took = "abandoned"
							}
						}
						add(took, 1)
						mu.Lock()
						waited[fmt.Sprintf(name, what)] += b.Now() - came
						mu.Unlock()
						if err == nil {
							time.Sleep(time.Duration(o) * 10 * time.Millisecond)
							p.Leave(gate.Throttled(0, nil))
							add("throttled", 1)
						}
					}()
				case 2:
					p, ok := g.TryEnter(1)
					add(map[bool]string{true: "granted", false: "refused"}[ok], 1)
					p.Leave(nil)
				case 3:
					b.Advance(time.Duration(o) * 37 * time.Millisecond)
				default:
					cancel()
					b.Settle()
					now, cancel = context.WithCancel(context.Background())
				}
				b.Settle()
				got := r.read()
				mu.Lock()
				for name, d := range waited {
					want[name] = d.Seconds()
				}
				for name, n := range want {
					if got[name] != n {
						select {
						case fails <- fmt.Sprintf("%s: %v, want %v", name, got[name], n):
						default:
						}
					}
				}
				mu.Unlock()
			}
			cancel()
			b.Advance(time.Hour)
		})
		if why := <-fails; why != "" {
			rt.Fatal(why)
		}
	})
}
