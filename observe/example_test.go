package observe_test

import (
	"context"
	"encoding/json"
	"errors"
	"expvar"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/observe"
	"github.com/escapement-go/escapement/pace"
	"github.com/escapement-go/escapement/retry"
)

// Package expvar shows a snapshot with the other variables of the program, at /debug/vars.
func ExampleSet_expvar() {
	var set observe.Set
	slots := gate.Named("slots", gate.NewConcurrency(2))
	set.AddGate(slots)
	expvar.Publish("gates", expvar.Func(func() any { return set.Snapshot() }))

	slots.TryEnter(1)
	var shown observe.Snapshot
	if err := json.Unmarshal([]byte(expvar.Get("gates").String()), &shown); err != nil {
		fmt.Println(err)
		return
	}
	g := shown.Gates[0]
	fmt.Println(g.Name, g.Plan, "granted", g.Stats.Granted, "left", g.Stats.Left)
	// Output:
	// slots 2 slots granted 1 left 1
}

// Package log/slog gets the events of a gate without a Set. With both, the events are counted and logged.
func ExampleSet_slog() {
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{} // so that the output is the same each time
			}
			return a
		},
	}))
	var set observe.Set
	api := gate.Named("api", gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Clock: clock.NewMock()}))
	gate.Observe(api, gate.MultiObserver(set.AddGate(api).Observer(), gate.LogObserver(log)))

	pass, _ := api.TryEnter(1)
	pass.Leave(gate.Throttled(3*time.Second, errors.New("429 Too Many Requests")))
	api.TryEnter(1)
	api.Hold(3 * time.Second)
	fmt.Println(set.Snapshot().Gates[0].Events.Throttled, "throttled")
	// Output:
	// level=WARN msg="gate throttled" gate=api cost=1 for=3s err="throttled for 3s: 429 Too Many Requests"
	// level=WARN msg="gate refused" gate=api cost=1
	// level=INFO msg="gate held" gate=api for=3s
	// 1 throttled
}

func ExampleSet_AddGate() {
	var set observe.Set
	rate := gate.Named("rate", gate.NewRate(pace.PerSecond(10), nil))
	slots := gate.Named("slots", gate.NewConcurrency(4))
	api := gate.Named("api", gate.All(rate, slots))
	for _, g := range append(api.Members(), api) {
		set.AddGate(g)
	}
	api.TryEnter(1)
	for _, g := range set.Snapshot().Gates {
		fmt.Println(g.Name, g.Plan, g.Stats.Granted)
	}
	// Output:
	// rate 10/s burst 1 1
	// slots 4 slots 1
	// api all of rate, slots 1
}

// The busiest key is shown by itself, and the other two together.
func ExampleAddKeyed() {
	var set observe.Set
	tenants := gate.NewKeyed(func(string) gate.Gate { return gate.NewConcurrency(9) }, &gate.KeyedOptions{Name: "tenants"})
	observe.AddKeyed(&set, tenants, 1)
	for _, tenant := range []string{"alice", "bob", "bob", "carol", "bob"} {
		tenants.TryEnter(tenant, 1)
	}
	k := set.Snapshot().Keyed[0]
	fmt.Println(k.Name, "granted", k.Sum.Granted)
	fmt.Println(k.Top[0].Key, "granted", k.Top[0].Stats.Granted)
	fmt.Println("the rest granted", k.Rest.Granted)
	// Output:
	// tenants granted 5
	// bob granted 3
	// the rest granted 2
}

func ExampleSet_AddGroup() {
	var set observe.Set
	jobs := &group.Group{}
	jobs.SetName("jobs")
	item := set.AddGroup(jobs)
	defer item.Remove() // the Set may outlive the group
	jobs.Go(func() error { return nil })
	jobs.Go(func() error { return errors.New("no route") })
	fmt.Println(jobs.Wait())
	s := set.Snapshot().Groups[0]
	fmt.Printf("%s: %d started, %d done, %d failed\n", s.Name, s.Started, s.Done, s.Failed)
	// Output:
	// no route
	// jobs: 2 started, 2 done, 1 failed
}

func ExampleSet_AddMeter() {
	var set observe.Set
	meter := &group.Meter{Name: "double"}
	set.AddMeter(meter)
	g, _ := group.WithContext(context.Background())
	doubled := group.Map(g, group.From(g, slices.Values([]int{1, 2, 3})), func(_ context.Context, n int) (int, error) {
		return 2 * n, nil
	}, &group.Stage{Meter: meter})
	fmt.Println(group.Collect(g, doubled))
	s := set.Snapshot().Stages[0]
	fmt.Println(s.Name, s.Stats.In, "in", s.Stats.Out, "out")
	// Output:
	// [2 4 6] <nil>
	// double 3 in 3 out
}

func ExampleSet_AddPolicy() {
	var set observe.Set
	policy := &retry.Policy{Counter: &retry.Counter{Name: "fetch"}, Backoff: retry.Constant(time.Millisecond)}
	set.AddPolicy(policy)
	tries := 0
	err := retry.Run(context.Background(), policy, func(context.Context) error {
		if tries++; tries < 3 {
			return errors.New("connection reset")
		}
		return nil
	})
	s := set.Snapshot().Policies[0]
	fmt.Println(err, s.Name, s.Calls, "call", s.Attempts, "attempts")
	// Output:
	// <nil> fetch 1 call 3 attempts
}

func ExampleSet_Snapshot() {
	var set observe.Set
	for range 2 {
		set.AddGate(gate.Named("slots", gate.NewConcurrency(2)))
	}
	for _, g := range set.Snapshot().Gates {
		fmt.Println(g.Name, "left", g.Stats.Left)
	}
	// Output:
	// slots left 2
	// slots #2 left 2
}

func ExampleItem_Observer() {
	var set observe.Set
	slots := gate.Named("slots", gate.NewConcurrency(2))
	gate.Observe(slots, set.AddGate(slots).Observer())
	pass, _ := slots.TryEnter(1)
	pass.Leave(gate.Throttled(0, errors.New("429 Too Many Requests")))
	fmt.Println(set.Snapshot().Gates[0].Events.Throttled)
	// Output:
	// 1
}

func ExampleItem_Remove() {
	var set observe.Set
	item := set.AddGate(gate.NewConcurrency(2))
	fmt.Println(len(set.Snapshot().Gates))
	item.Remove()
	fmt.Println(len(set.Snapshot().Gates))
	// Output:
	// 1
	// 0
}
