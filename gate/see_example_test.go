package gate_test

import (
	"bytes"
	"context"
	"expvar"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
)

// A name stands around the constructor, and the gate keeps its type.
func ExampleNamed() {
	api := gate.Named("api", gate.NewRate(pace.PerSecond(100), nil))
	api.SetRate(pace.PerSecond(50))
	fmt.Println(api)
	// Output: api: 50/s burst 1
}

func ExampleNameOf() {
	api := gate.Named("api", gate.NewRate(pace.PerSecond(100), nil))
	fmt.Println(gate.NameOf(api))
	fmt.Println(gate.NameOf(gate.WithCost(api, 3))) // a view has the name of the gate
	// Output:
	// api
	// api
}

func ExamplePlanOf() {
	tokens := gate.NewWindow(90_000, time.Minute, nil)
	p, _ := gate.PlanOf(tokens)
	fmt.Println(p)
	fmt.Println(p.Kind, p.N, p.Span)
	// Output:
	// 90000 in any 1m
	// window 90000 1m0s
}

func ExampleRate_Rate() {
	api := gate.NewRate(pace.PerSecond(100), nil)
	api.SetRate(pace.Per(5, 10*time.Second))
	fmt.Println(api.Rate())
	// Output: 5/10s
}

func ExampleRate_Burst() {
	api := gate.NewRate(pace.PerSecond(100), &gate.RateOptions{Burst: 20})
	fmt.Println(api.Burst())
	// Output: 20
}

func ExampleWindow_Limit() {
	tokens := gate.NewWindow(90_000, time.Minute, nil)
	fmt.Println(tokens.Limit())
	// Output: 90000 1m0s
}

func ExampleConcurrency_Limit() {
	slots := gate.NewConcurrency(32)
	slots.SetLimit(64)
	fmt.Println(slots.Limit())
	// Output: 64
}

// The rate asked for stays when the gate slows down.
func ExampleAdaptive_Rate() {
	api := gate.NewAdaptive(pace.PerSecond(100), nil)
	pass, _ := api.TryEnter(1)
	pass.Leave(gate.Throttled(0, nil))
	fmt.Println(api.Rate(), api.Interval())
	// Output: 100/s 20ms
}

func ExampleAdaptiveConcurrency_Most() {
	api := gate.NewAdaptiveConcurrency(32, nil)
	pass, _ := api.TryEnter(1)
	pass.Leave(gate.Throttled(0, nil))
	fmt.Println(api.Most(), api.Limit())
	// Output: 32 1
}

func ExampleComposite_Members() {
	llm := gate.All(
		gate.Named("requests", gate.NewWindow(500, time.Minute, nil)),
		gate.Named("slots", gate.NewConcurrency(40)),
	)
	for _, g := range llm.Members() {
		fmt.Println(g)
	}
	// Output:
	// requests: 500 in any 1m
	// slots: 40 slots
}

// All goes through the keys, the busiest first.
func ExampleKeyed_All() {
	tenants := gate.NewKeyed(func(string) gate.Gate { return gate.NewConcurrency(10) }, nil)
	for tenant, entries := range map[string]int{"alice": 2, "bob": 7, "carol": 4} {
		for range entries {
			tenants.TryEnter(tenant, 1)
		}
	}
	for tenant, g := range tenants.All() {
		s, _ := gate.StatsOf(g)
		fmt.Println(tenant, s.Granted)
	}
	// Output:
	// bob 7
	// carol 4
	// alice 2
}

func ExampleKeyed_Name() {
	tenants := gate.NewKeyed(func(string) gate.Gate { return gate.NewConcurrency(10) }, &gate.KeyedOptions{Name: "tenants"})
	fmt.Println(tenants.Name())
	// Output: tenants
}

func ExampleKey_Name() {
	tenants := gate.NewKeyed(func(string) gate.Gate { return gate.NewConcurrency(10) }, &gate.KeyedOptions{Name: "tenants"})
	fmt.Println(tenants.For("alice").Name())
	// Output: tenants[alice]
}

// Explain says what keeps the first waiter back, and what an entry would meet that comes now.
func ExampleExplain() {
	mock := clock.NewMock()
	points := gate.Named("points", gate.NewWindow(900, time.Minute, &gate.WindowOptions{Clock: mock}))
	slots := gate.Named("slots", gate.NewConcurrency(2))
	llm := gate.Named("llm", gate.All(points, gate.Each(slots)))

	llm.TryEnter(897)
	mock.Add(30 * time.Second)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go llm.Enter(ctx, 5)
	for llm.Stats().Waiting == 0 {
		runtime.Gosched()
	}
	mock.Add(2 * time.Second)

	fmt.Println(gate.Explain(llm, 1))
	// Output:
	// llm: all of points, slots, 897 in use, 1 waiting, next in 28s
	// entry of cost 5, 2s in line, kept back by "points" (3 of 900 left, due in 28s)
	// now: entry of cost 1, 1 before it, kept back by "points" (3 of 900 left, due in 28s)
}

// Track finds the place where a pass was entered that was never left.
func ExampleTrack() {
	mock := clock.NewMock()
	slots := gate.NewAdaptiveConcurrency(2, &gate.AdaptiveConcurrencyOptions{Clock: mock})
	gate.Track(slots, gate.TrackStack)

	slots.TryEnter(1) // the pass is lost
	mock.Add(10 * time.Minute)

	for _, p := range gate.Explain(slots).Open {
		function, _, _ := strings.Cut(p.Where, " ")
		fmt.Println(p.Cost, p.Age, function[strings.LastIndex(function, "/")+1:])
	}
	// Output: 1 10m0s gate_test.ExampleTrack
}

// Observe tells of what Stats only count.
func ExampleObserve() {
	api := gate.Named("api", gate.NewRate(pace.PerSecond(100), nil))
	gate.Observe(api, gate.ObserverFunc(func(e gate.Event) {
		fmt.Println(e.Name, e.Kind, e.For)
	}))
	api.Hold(time.Second)
	api.TryEnter(1)
	api.Resume()
	// Output:
	// api held 1s
	// api refused 0s
	// api resumed 0s
}

func ExampleObserverFunc_Observe() {
	print := gate.ObserverFunc(func(e gate.Event) { fmt.Println(e.Kind) })
	print.Observe(gate.Event{Kind: gate.EventThrottled})
	// Output: throttled
}

func ExampleKeyed_Observe() {
	tenants := gate.NewKeyed(func(string) gate.Gate { return gate.NewConcurrency(1) }, &gate.KeyedOptions{Name: "tenants"})
	tenants.Observe(gate.ObserverFunc(func(e gate.Event) { fmt.Println(e.Name, e.Kind) }))
	tenants.TryEnter("alice", 1)
	tenants.TryEnter("alice", 1)
	// Output: tenants[alice] refused
}

func ExampleMultiObserver() {
	counts := map[gate.EventKind]int{}
	count := gate.ObserverFunc(func(e gate.Event) { counts[e.Kind]++ })
	print := gate.ObserverFunc(func(e gate.Event) { fmt.Println(e.Name, e.Kind) })

	slots := gate.Named("slots", gate.NewConcurrency(1))
	gate.Observe(slots, gate.MultiObserver(count, print))
	slots.TryEnter(2)
	fmt.Println(counts[gate.EventRefused])
	// Output:
	// slots refused
	// 1
}

func ExampleLogObserver() {
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
	api := gate.Named("api", gate.NewAdaptive(pace.PerSecond(100), nil))
	gate.Observe(api, gate.LogObserver(log))
	pass, _ := api.TryEnter(1)
	pass.Leave(gate.Throttled(5*time.Second, nil))
	// Output:
	// level=WARN msg="gate throttled" gate=api cost=1 for=5s err="throttled for 5s"
	// level=INFO msg="gate held" gate=api for=5s
}

// With labels, a goroutine profile tells which gate a caller waits at.
func ExampleLabelWaits() {
	gate.LabelWaits(true)
	defer gate.LabelWaits(false)
	slots := gate.Named("slots", gate.NewConcurrency(1))
	slots.TryEnter(1)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go slots.Enter(ctx, 1)
	for slots.Stats().Waiting == 0 {
		time.Sleep(time.Millisecond)
	}

	var profile bytes.Buffer
	for !strings.Contains(profile.String(), "slots") {
		profile.Reset()
		pprof.Lookup("goroutine").WriteTo(&profile, 1)
	}
	for line := range strings.Lines(profile.String()) {
		if strings.Contains(line, "labels") {
			fmt.Print(line)
		}
	}
	// Output: # labels: {"gate":"slots"}
}

// Package expvar shows the statistics of a gate as JSON, at /debug/vars.
func ExampleStatsOf_expvar() {
	api := gate.Named("api", gate.NewRate(pace.PerSecond(100), nil))
	expvar.Publish("gate "+gate.NameOf(api), expvar.Func(func() any {
		s, _ := gate.StatsOf(api)
		return map[string]any{"granted": s.Granted, "waiting": s.Waiting, "waited": s.Waited.Seconds()}
	}))
	api.Allow()
	fmt.Println(expvar.Get("gate api"))
	// Output: {"granted":1,"waited":0,"waiting":0}
}
