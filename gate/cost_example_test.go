package gate_test

import (
	"context"
	"fmt"
	"time"

	"github.com/escapement-go/escapement/gate"
)

// An API allows 500 requests and 90,000 tokens a minute.
func ExampleEach() {
	requests := gate.NewWindow(500, time.Minute, nil)
	tokens := gate.NewWindow(90_000, time.Minute, nil)
	api := gate.All(gate.Each(requests), tokens)

	pass, err := api.Enter(context.Background(), 1_500) // the estimate
	fmt.Println(err, requests.Stats().InUse, tokens.Stats().InUse)
	pass.Settle(1_200) // what the answer says
	fmt.Println(requests.Stats().InUse, tokens.Stats().InUse)
	pass.Leave(nil)
	// Output:
	// <nil> 1 1500
	// 1 1200
}

// A function that enters any Gate with a cost of 1 is given one that costs more.
func ExampleWithCost() {
	once := func(g gate.Gate) error {
		return gate.Do(context.Background(), g, 1, func(context.Context) error { return nil })
	}
	tokens := gate.NewWindow(1_000, time.Minute, nil)
	fmt.Println(once(gate.WithCost(tokens, 300)), tokens.Stats().InUse)

	requests := gate.NewWindow(50, time.Minute, nil)
	api := gate.All(requests, tokens)
	fmt.Println(once(gate.WithCost(api, 1, 200)), requests.Stats().InUse, tokens.Stats().InUse)
	fmt.Println(once(gate.WithCost(api, 1, 2_000)))
	// Output:
	// <nil> 300
	// <nil> 1 500
	// gate: All: gate 2, a Window of 1000 per 1m0s: cost must be at most the capacity of 1000, got 2000
}

// The cost of a call is known when its answer is there. The code that makes the call did not enter the gate
// itself.
func ExamplePassOf() {
	tokens := gate.NewWindow(1_000, time.Minute, nil)
	call := func(ctx context.Context) error {
		if pass, ok := gate.PassOf(ctx); ok {
			pass.Settle(120)
		}
		return nil
	}
	do := func(ctx context.Context) error { // packages group and retry do this
		pass, err := tokens.Enter(ctx, 300)
		if err != nil {
			return err
		}
		err = call(gate.WithPass(ctx, pass))
		pass.Leave(err)
		return err
	}
	fmt.Println(do(context.Background()), tokens.Stats().InUse)
	// Output: <nil> 120
}

func ExampleWithPass() {
	slots := gate.NewConcurrency(10)
	pass, _ := slots.TryEnter(4)
	defer pass.Leave(nil)

	_, ok := gate.PassOf(context.Background())
	fmt.Println(ok)
	found, ok := gate.PassOf(gate.WithPass(context.Background(), pass))
	fmt.Println(ok, found == pass)
	// Output:
	// false
	// true true
}

// An API has a limit for requests, one for the tokens of prompts, and one for those of answers.
func ExampleComposite_EnterEach() {
	requests := gate.NewWindow(50, time.Minute, nil)
	input := gate.NewWindow(30_000, time.Minute, nil)
	output := gate.NewWindow(8_000, time.Minute, nil)
	api := gate.All(requests, input, output)

	pass, err := api.EnterEach(context.Background(), 1, 1_200, 4_096)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(requests.Stats().InUse, input.Stats().InUse, output.Stats().InUse)
	pass.Leave(nil)

	pass, err = api.EnterEach(context.Background(), 1, 800, 0) // a call without an answer passes output by
	fmt.Println(err, output.Stats().InUse)
	pass.Leave(nil)
	// Output:
	// 1 1200 4096
	// <nil> 4096
}

func ExampleComposite_TryEnterEach() {
	requests := gate.NewWindow(50, time.Minute, nil)
	tokens := gate.NewWindow(1_000, time.Minute, nil)
	api := gate.All(requests, tokens)

	_, ok := api.TryEnterEach(1, 700)
	fmt.Println(ok, requests.Stats().InUse, tokens.Stats().InUse)
	_, ok = api.TryEnterEach(1, 700) // refused by one, it takes nothing of the other
	fmt.Println(ok, requests.Stats().InUse, tokens.Stats().InUse)
	// Output:
	// true 1 700
	// false 1 700
}

func ExamplePass_SettleEach() {
	requests := gate.NewWindow(50, time.Minute, nil)
	tokens := gate.NewWindow(1_000, time.Minute, nil)
	api := gate.All(requests, tokens)

	pass, _ := api.TryEnterEach(1, 700)
	pass.Leave(nil)
	pass.SettleEach(1, 120) // before Leave or after it
	fmt.Println(requests.Stats().InUse, tokens.Stats().InUse)
	// Output: 1 120
}

func ExampleComposite_Enter() {
	requests := gate.NewWindow(50, time.Minute, nil)
	slots := gate.NewConcurrency(2)
	api := gate.All(requests, slots)

	pass, err := api.Enter(context.Background(), 2)
	fmt.Println(err, requests.Stats().InUse, slots.Stats().InUse)
	pass.Leave(nil)
	_, err = api.Enter(context.Background(), 3)
	fmt.Println(err)
	// Output:
	// <nil> 2 2
	// gate: All: gate 2, a Concurrency of 2: cost must be at most the capacity of 2, got 3
}

func ExampleComposite_TryEnter() {
	api := gate.All(gate.NewWindow(50, time.Minute, nil), gate.NewConcurrency(2))
	_, ok := api.TryEnter(2)
	fmt.Println(ok)
	_, ok = api.TryEnter(1)
	fmt.Println(ok)
	// Output:
	// true
	// false
}

func ExampleComposite_Stats() {
	requests := gate.NewWindow(50, time.Minute, nil)
	api := gate.All(requests, gate.NewConcurrency(2))
	requests.TryEnter(10) // not through the composite
	api.TryEnter(2)
	api.TryEnter(1)

	s := api.Stats()
	fmt.Println(s.Granted, s.Refused) // its own entries
	fmt.Println(s.InUse)              // the highest of its members
	// Output:
	// 1 1
	// 12
}

func ExampleHold() {
	slots := gate.NewConcurrency(2)
	fmt.Println(gate.Hold(slots, time.Minute)) // it has no hold
	api := gate.All(slots)
	fmt.Println(gate.Hold(api, time.Minute))
	_, ok := api.TryEnter(1)
	fmt.Println(ok)
	// Output:
	// false
	// true
	// false
}

func ExampleKey_Enter() {
	hosts := gate.NewKeyed(func(string) gate.Gate { return gate.NewConcurrency(2) }, nil)
	a := hosts.For("a")
	pass, err := a.Enter(context.Background(), 2)
	fmt.Println(err, a.Stats().InUse, hosts.For("b").Stats().InUse)
	pass.Leave(nil)
	// Output: <nil> 2 0
}

func ExampleKey_TryEnter() {
	hosts := gate.NewKeyed(func(string) gate.Gate { return gate.NewConcurrency(1) }, nil)
	a, b := hosts.For("a"), hosts.For("b")
	_, first := a.TryEnter(1)
	_, second := a.TryEnter(1)
	_, other := b.TryEnter(1)
	fmt.Println(first, second, other)
	// Output: true false true
}

func ExampleKey_Hold() {
	hosts := gate.NewKeyed(func(string) gate.Gate { return gate.NewWindow(10, time.Second, nil) }, nil)
	hosts.For("a").Hold(time.Minute)
	_, a := hosts.TryEnter("a", 1)
	_, b := hosts.TryEnter("b", 1)
	fmt.Println(a, b)
	// Output: false true
}

func ExampleKey_Resume() {
	hosts := gate.NewKeyed(func(string) gate.Gate { return gate.NewWindow(10, time.Second, nil) }, nil)
	hosts.For("a").Hold(time.Minute)
	hosts.For("a").Resume()
	_, a := hosts.TryEnter("a", 1)
	fmt.Println(a)
	// Output: true
}

func ExampleKey_Stats() {
	hosts := gate.NewKeyed(func(string) gate.Gate { return gate.NewWindow(10, time.Minute, nil) }, nil)
	fmt.Println(hosts.For("a").Stats().Idle, hosts.Len()) // it makes no gate
	hosts.TryEnter("a", 3)
	fmt.Println(hosts.For("a").Stats().InUse, hosts.Len())
	// Output:
	// true 0
	// 3 1
}
