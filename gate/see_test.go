package gate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime/trace"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// A gate has a name of its own kind, with a number, until it is given one.
func TestNames(t *testing.T) {
	k := gate.NewKeyed(func(string) gate.Gate { return gate.NewConcurrency(1) }, nil)
	for kind, g := range map[string]gate.Gate{
		"rate":                gate.NewRate(pace.PerSecond(1), nil),
		"window":              gate.NewWindow(1, time.Second, nil),
		"concurrency":         gate.NewConcurrency(1),
		"adaptive":            gate.NewAdaptive(pace.PerSecond(1), nil),
		"adaptiveconcurrency": gate.NewAdaptiveConcurrency(1, nil),
		"all":                 gate.All(),
		"of":                  gate.Of(waiter1{}),
	} {
		name := gate.NameOf(g)
		number, ok := strings.CutPrefix(name, kind+"-")
		if !ok || number == "" || strings.Trim(number, "0123456789") != "" {
			t.Errorf("a %s has the name %q", kind, name)
		}
		if other := gate.NameOf(gate.NewConcurrency(1)); strings.HasSuffix(other, "-"+number) {
			t.Errorf("two gates have the number %s", number)
		}
		if again := gate.NameOf(gate.Named("mine", g)); again != "mine" || gate.NameOf(gate.Each(g)) != "mine" || gate.NameOf(gate.WithCost(g, 2)) != "mine" {
			t.Errorf("after Named, a %s has the name %q", kind, again)
		}
		gate.Named("yours", gate.Each(g))
		if name := gate.NameOf(g); name != "yours" {
			t.Errorf("after Named of a view, a %s has the name %q", kind, name)
		}
	}
	if name := gate.NameOf(k.For("a")); !strings.HasPrefix(name, "keyed-") || !strings.HasSuffix(name, "[a]") {
		t.Errorf("a key has the name %q", name)
	}
	if name := gate.NameOf(&refuser{}); name != "*gate_test.refuser" {
		t.Errorf("a gate from elsewhere has the name %q", name)
	}
	if name := gate.NameOf(gate.Named("told", &nameable{})); name != "told" {
		t.Errorf("a gate with SetName has the name %q", name)
	}
	if k.Len() != 0 {
		t.Error("a name made a key")
	}
}

// An error of an All has the name that a member was given.
func TestNameInErrors(t *testing.T) {
	tokens := gate.NewWindow(5, time.Minute, nil)
	all := gate.All(gate.NewConcurrency(9), tokens)
	for _, want := range []string{"gate 2, a Window of 5 per 1m0s", `gate 2, "tokens", a Window of 5 per 1m0s`} {
		_, err := all.Enter(context.Background(), 6)
		var e *gate.CapacityError
		if !errors.As(err, &e) || e.Gate != want {
			t.Errorf("%v, want one of %s", err, want)
		}
		gate.Named("tokens", tokens)
	}
}

type waiter1 struct{}

func (waiter1) Wait(context.Context) error { return nil }

// nameable is a gate from elsewhere that can be named, planned and observed.
type nameable struct {
	refuser
	name string
	o    gate.Observer
}

func (n *nameable) Name() string                { return n.name }
func (n *nameable) SetName(name string)         { n.name = name }
func (n *nameable) Plan() gate.Plan             { return gate.Plan{Kind: "mine", N: 3, Span: time.Second} }
func (n *nameable) SetObserver(o gate.Observer) { n.o = o }

func TestNamedPanics(t *testing.T) {
	k := gate.NewKeyed(func(string) gate.Gate { return gate.NewConcurrency(1) }, nil)
	for want, f := range map[string]func(){
		"gate: Named: g must not be nil, got nil":                                   func() { gate.Named[gate.Gate]("a", nil) },
		"gate: Named: g must not be nil, got a nil *gate.Rate":                      func() { gate.Named("a", (*gate.Rate)(nil)) },
		"gate: Named: g must be a gate that can be named, got a gate.Key[string]":   func() { gate.Named("a", k.For("a")) },
		"gate: Named: g must be a gate that can be named, got a *gate_test.refuser": func() { gate.Named("a", &refuser{}) },
		"gate: Explain: g must not be nil, got nil":                                 func() { gate.Explain(nil) },
		"gate: WithCost: cost must be at least 1, got 0":                            func() { gate.Explain(gate.NewConcurrency(1), 0) },
		"gate: MultiObserver: an observer must not be nil, got nil for observer 2":  func() { gate.MultiObserver(&events{}, nil) },
		"gate: LogObserver: the logger must not be nil":                             func() { gate.LogObserver(nil) },
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); got != want {
					t.Errorf("panic %q, want %q", got, want)
				}
			}()
			f()
		}()
	}
}

func TestLines(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		c := b.Clock()
		rate := gate.Named("api", gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Clock: c}))
		window := gate.Named("tokens", gate.NewWindow(900, time.Minute, &gate.WindowOptions{Clock: c}))
		slots := gate.Named("slots", gate.NewConcurrency(1))
		adaptive := gate.Named("far", gate.NewAdaptive(pace.PerSecond(10), &gate.AdaptiveOptions{Clock: c}))
		learner := gate.Named("db", gate.NewAdaptiveConcurrency(8, &gate.AdaptiveConcurrencyOptions{Clock: c}))
		all := gate.Named("llm", gate.All(rate, gate.Each(slots)))
		keys := gate.NewKeyed(func(string) gate.Gate { return gate.NewWindow(3, 2*time.Hour, &gate.WindowOptions{Clock: c}) },
			&gate.KeyedOptions{Name: "tenants", Clock: c})
		same := func(want string, got any) {
			b.Helper()
			if s := fmt.Sprint(got); s != want {
				b.Errorf("\n got %s\nwant %s", s, want)
			}
		}
		same("api: 10/s burst 1", rate)
		same("tokens: 900 in any 1m", window)
		same("slots: 1 slot", slots)
		same("far: 10/s burst 1", adaptive)
		same("db: at most 8 slots, now 8", learner)
		same("llm: all of api, slots", all)
		same("slots: 1 slot, at a cost of 1", gate.Each(slots))
		same("llm: all of api, slots, at a cost of 2, 1", gate.WithCost(all, 2, 1))
		same("tenants: 0 keys", keys)
		same("tenants[a]: not known", keys.For("a"))
		same("x: of", gate.Named("x", gate.Of(waiter1{})))

		keys.TryEnter("a", 3)
		same("tenants: 1 key, 3 in use, next in 2h", keys)
		same("tenants[a]: 3 in any 2h, 3 in use, next in 2h", keys.For("a"))
		p, _ := all.TryEnter(1)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		for range 3 {
			go all.Enter(ctx, 1)
		}
		b.Advance(30 * time.Millisecond)
		same("llm: all of api, slots, 1 in use, 3 waiting, next in 70ms", all)
		same("api: 10/s burst 1, 3 waiting, next in 70ms", rate)
		b.Advance(100 * time.Millisecond)
		same("slots: 1 slot, 1 in use, 3 waiting", slots)
		all.Hold(1500 * time.Millisecond)
		rate.Hold(math.MaxInt64)
		same("api: 10/s burst 1, held for ever", rate)
		rate.Resume()
		p.Leave(nil)
		b.Advance(time.Millisecond)
		if got := fmt.Sprint(all); !strings.Contains(got, "held for 1.5s") {
			b.Error(got)
		}
		q, _ := adaptive.TryEnter(1)
		q.Leave(gate.Throttled(0, nil))
		same("far: 10/s burst 1, now every 200ms, next in 200ms", adaptive)
		q, _ = learner.TryEnter(2)
		q.Leave(gate.Throttled(0, nil))
		same("db: at most 8 slots, now 1", learner)
	})
}

// The getters follow the setters, also while entries wait.
func TestPlans(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		rate := gate.NewRate(pace.PerSecond(100), &gate.RateOptions{Burst: 3, Clock: b.Clock()})
		check := func(want gate.Plan, g gate.Gate) {
			b.Helper()
			if got, ok := gate.PlanOf(g); !ok || fmt.Sprint(got) != fmt.Sprint(want) || got.Kind != want.Kind || got.N != want.N || got.Span != want.Span || got.Burst != want.Burst || got.Limit != want.Limit || got.Interval != want.Interval {
				b.Errorf("plan %+v, want %+v", got, want)
			}
		}
		check(gate.Plan{Kind: "rate", N: 100, Span: time.Second, Burst: 3}, rate)
		rate.SetRate(pace.Per(5, 10*time.Second))
		rate.SetBurst(4)
		check(gate.Plan{Kind: "rate", N: 5, Span: 10 * time.Second, Burst: 4}, gate.Each(rate))
		if rate.Rate() != pace.Per(5, 10*time.Second) || rate.Burst() != 4 {
			b.Errorf("%v, %d", rate.Rate(), rate.Burst())
		}
		rate.SetRate(pace.Unlimited())
		check(gate.Plan{Kind: "rate", Burst: 4}, rate)

		window := gate.NewWindow(9, time.Second, &gate.WindowOptions{Clock: b.Clock(), Guard: time.Second})
		window.SetLimit(7, time.Minute)
		check(gate.Plan{Kind: "window", N: 7, Span: time.Minute}, window)
		slots := gate.NewConcurrency(3)
		slots.SetLimit(5)
		check(gate.Plan{Kind: "concurrency", N: 5}, slots)
		check(gate.Plan{Kind: "mine", N: 3, Span: time.Second}, &nameable{})
		if _, ok := gate.PlanOf(&refuser{}); ok {
			b.Error("a gate without a plan has one")
		}
		all := gate.All(slots, gate.Each(window))
		if m := all.Members(); len(m) != 2 || m[0] != gate.Gate(slots) || gate.NameOf(m[1]) != gate.NameOf(window) {
			b.Errorf("members %v", m)
		}
	})
}

// Left is what TryEnter would take.
func TestLeft(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		for name, g := range kinds(b) {
			for range 12 {
				s, _ := gate.StatsOf(g)
				if s.Left < 0 {
					s.Left = 7 // a key that is not remembered
				}
				if _, ok := g.TryEnter(s.Left + 1); ok {
					b.Errorf("%s: more than the %d that are left", name, s.Left)
				}
				if s, _ = gate.StatsOf(g); s.Left > 0 {
					if _, ok := g.TryEnter(min(s.Left, 2)); !ok {
						b.Errorf("%s: refused, with %d left", name, s.Left)
					}
				}
				b.Advance(70 * time.Millisecond)
			}
			if gate.Hold(g, time.Second) {
				if s, _ := gate.StatsOf(g); s.Left != 0 {
					b.Errorf("%s: %d left during a hold", name, s.Left)
				}
			}
		}
	})
}

// A gate that has given up says so: it is idle otherwise, and no entry waits. Its observer is told, also where the
// interval is the longest already.
func TestGivenUpIsSeen(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.Named("api", gate.NewAdaptive(pace.PerSecond(1), &gate.AdaptiveOptions{GiveUp: 1, Slowest: time.Second, Clock: b.Clock()}))
		var told []gate.Plan
		gate.Observe(g, gate.ObserverFunc(func(e gate.Event) {
			if e.Kind == gate.EventPlan {
				told = append(told, e.Plan)
			}
		}))
		pass, _ := g.TryEnter(1)
		pass.Leave(gate.Throttled(10*time.Millisecond, nil))
		b.Advance(10 * time.Millisecond)
		if s, want := fmt.Sprint(g), "api: 1/s burst 1, given up"; s != want {
			b.Errorf("got %q, want %q", s, want)
		}
		if s := g.Stats(); s.NextDue != 0 || s.Left != 0 {
			b.Errorf("due in %v with %d left, want neither", s.NextDue, s.Left)
		}
		g.Reset()
		if len(told) != 2 || !told[0].GaveUp || told[1].GaveUp {
			b.Errorf("told of %v, want the end and the new beginning", told)
		}
	})
}

// What is left at an All is what an entry can cost there, and not what is left at a member that a view names: in the usual
// plan of requests, tokens and slots, that is tokens as long as there are a request and a slot.
func TestLeftOfViews(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		requests := gate.NewWindow(3, time.Minute, &gate.WindowOptions{Clock: b.Clock()})
		tokens := gate.NewWindow(900, time.Minute, &gate.WindowOptions{Clock: b.Clock()})
		both := gate.All(gate.WithCost(requests, 2), tokens)
		for _, c := range []struct {
			g    *gate.Composite
			left int
		}{{both, 900}, {gate.All(gate.Each(requests)), math.MaxInt}, {gate.All(gate.Each(both), tokens), 900}, {gate.All(requests, both), 3}} {
			if got := c.g.Stats().Left; got != c.left {
				b.Errorf("%v: %d left, want %d", c.g, got, c.left)
			}
		}
		requests.TryEnter(2)
		if got := both.Stats().Left; got != 0 {
			b.Errorf("%v: %d left with 1 request left, want 0", both, got)
		}
	})
}

// The events of plans, holds and throttles come with what has changed, and no others do.
func TestEvents(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		c := b.Clock()
		rate := gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Clock: c})
		window := gate.NewWindow(5, time.Second, &gate.WindowOptions{Clock: c})
		slots := gate.NewConcurrency(5)
		adaptive := gate.NewAdaptive(pace.PerSecond(10), &gate.AdaptiveOptions{Clock: c, Burst: 2})
		learner := gate.NewAdaptiveConcurrency(8, &gate.AdaptiveConcurrencyOptions{Clock: c})
		all := gate.All(rate, slots)
		for _, test := range []struct {
			name string
			g    gate.Gate
			do   func()
			want string
		}{
			{"SetRate", rate, func() { rate.SetRate(pace.PerSecond(20)) }, "plan 20/s burst 1"},
			{"SetBurst", rate, func() { rate.SetBurst(2) }, "plan 20/s burst 2"},
			{"Hold", rate, func() { rate.Hold(time.Second) }, "held 1s"},
			{"Hold shorter", rate, func() { rate.Hold(time.Millisecond) }, ""},
			{"Hold longer", rate, func() { rate.Hold(2 * time.Second) }, "held 2s"},
			{"TryEnter", rate, func() { rate.TryEnter(1) }, "refused 1"},
			{"Resume", rate, rate.Resume, "resumed"},
			{"Resume again", rate, rate.Resume, ""},
			{"Hold of nothing", rate, func() { rate.Hold(0) }, ""},
			{"window SetLimit", window, func() { window.SetLimit(6, time.Minute) }, "plan 6 in any 1m"},
			{"window Hold", window, func() { window.Hold(time.Second) }, "held 1s"},
			{"window Resume", window, window.Resume, "resumed"},
			{"window Resume again", window, window.Resume, ""},
			{"window Leave", window, func() { leaveWith(window, gate.Throttled(time.Second, nil)) }, "throttled 1s"},
			{"rate Leave", rate, func() { leaveWith(rate, gate.Throttled(0, nil)) }, "throttled 0s"},
			{"rate Leave well", rate, func() { leaveWith(rate, errors.New("other")) }, ""},
			{"SetLimit", slots, func() { slots.SetLimit(6) }, "plan 6 slots"},
			{"slots Leave", slots, func() { leaveWith(slots, fmt.Errorf("wrapped: %w", gate.Throttled(0, nil))) }, "throttled 0s"},
			{"all Leave", all, func() { leaveWith(all, gate.Throttled(time.Minute, nil)) }, "throttled 1m0s"},
			{"all Hold", all, func() { all.Hold(time.Minute) }, "held 1m0s"},
			{"all Hold shorter", all, func() { all.Hold(time.Second) }, ""},
			{"all Resume", all, all.Resume, "resumed"},
			{"all Resume again", all, all.Resume, ""},
			{"adaptive Leave", adaptive, func() { leaveWith(adaptive, gate.Throttled(0, nil)) }, "throttled 0s; plan 10/s burst 2, now every 200ms"},
			{"adaptive Reset", adaptive, adaptive.Reset, "plan 10/s burst 2"},
			{"adaptive Leave well", adaptive, func() { leaveWith(adaptive, nil) }, ""},
			{"Leave of a view", adaptive, func() { leaveWith(gate.Each(adaptive), gate.Throttled(0, nil)) }, "throttled 0s; plan 10/s burst 2, now every 200ms"},
			{"adaptive Reset again", adaptive, adaptive.Reset, "plan 10/s burst 2"},
			{"adaptive Retry-After", adaptive, func() { leaveWith(adaptive, gate.Throttled(time.Second, nil)) },
				"throttled 1s; held 1s; plan 10/s burst 2, now every 200ms"},
			{"adaptive Resume", adaptive, adaptive.Resume, "resumed"},
			{"learner Leave", learner, func() { leaveWith(learner, gate.Throttled(time.Second, nil)) },
				"throttled 1s; held 1s; plan at most 8 slots, now 1"},
			{"learner Resume", learner, learner.Resume, "resumed"},
			{"learner Reset", learner, learner.Reset, "plan at most 8 slots, now 8"},
		} {
			if strings.Contains(test.name, "Leave") || strings.Contains(test.name, "Retry") {
				b.Advance(10 * time.Second)
			}
			e := observe(b, test.g)
			test.do()
			var got []string
			for _, ev := range e.all {
				if ev.Gate != test.g || ev.Name != gate.NameOf(test.g) || !ev.At.Equal(b.Time()) && c != nil && test.g != gate.Gate(slots) {
					b.Errorf("%s: an event of %v at %v, want one of %v at %v", test.name, ev.Gate, ev.At, test.g, b.Time())
				}
				s := ev.Kind.String()
				switch ev.Kind {
				case gate.EventPlan:
					s += " " + ev.Plan.String()
				case gate.EventRefused:
					s += fmt.Sprint(" ", ev.Cost)
				case gate.EventHeld, gate.EventThrottled:
					s += fmt.Sprint(" ", ev.For)
				}
				got = append(got, s)
			}
			if s := strings.Join(got, "; "); s != test.want {
				b.Errorf("%s: events %q, want %q", test.name, s, test.want)
			}
		}
		for _, g := range []gate.Gate{rate, window, adaptive, learner, all} {
			e := observe(b, g)
			gate.Observe(g, nil)
			gate.Hold(g, time.Hour)
			g.TryEnter(1)
			gate.Resume(g)
			if len(e.all) > 0 {
				b.Errorf("%v: an event after the observer was removed", g)
			}
		}
	})
}

func leaveWith(g gate.Gate, err error) {
	p, ok := g.TryEnter(1)
	if !ok {
		panic("refused")
	}
	p.Leave(err)
}

// An observer is called before the call returns, without a lock: it can call the gate.
func TestObserverMayCallTheGate(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		for name, g := range kinds(b) {
			if name == "key" {
				continue
			}
			n := 0
			gate.Observe(g, gate.ObserverFunc(func(e gate.Event) {
				if n++; n > 1 {
					return
				}
				if s, _ := gate.StatsOf(g); s.Refused != 1 {
					b.Errorf("%s: told before the entry was counted: %+v", name, s)
				}
				gate.Hold(g, time.Second)
				gate.Explain(g, 1)
				g.TryEnter(1)
			}))
			g.TryEnter(100)
			if want := map[bool]int{true: 3, false: 1}[canHold(g)]; n < want {
				b.Errorf("%s: %d events before TryEnter returned, want %d", name, n, want)
			}
		}
	})
}

func canHold(g gate.Gate) bool { return gate.Hold(g, 0) }

// All keys are observed, those that were there and those to come, under their own names. Gates that they share are not.
func TestObserveKeys(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		shared := gate.NewConcurrency(1)
		k := gate.NewKeyed(func(key string) gate.Gate {
			if key == "shared" {
				return shared
			}
			return gate.NewWindow(1, time.Second, &gate.WindowOptions{Clock: b.Clock()})
		}, &gate.KeyedOptions{Name: "k", MaxKeys: 3, Clock: b.Clock()})
		k.TryEnter("old", 1)
		e := &events{}
		k.Observe(e)
		k.TryEnter("old", 1)
		k.TryEnter("new", 1)
		k.TryEnter("new", 1)
		k.TryEnter("shared", 1)
		k.TryEnter("shared", 1)
		k.TryEnter("third", 1)
		k.TryEnter("one more", 1) // no room
		k.Enter(context.Background(), "one more", 1)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		k.Enter(ctx, "one more", 1)
		var got []string
		for _, ev := range e.all {
			got = append(got, fmt.Sprint(ev.Name, " ", ev.Kind))
			if ev.Gate != gate.Gate(k.For(strings.TrimSuffix(strings.TrimPrefix(ev.Name, "k["), "]"))) {
				b.Errorf("%+v", ev)
			}
		}
		want := "k[old] refused, k[new] refused, k[one more] refused, k[one more] refused, k[one more] abandoned"
		if s := strings.Join(got, ", "); s != want {
			b.Errorf("events %s, want %s", s, want)
		}
		if gate.Observe(k.For("old"), e) {
			b.Error("a key was observed by itself")
		}
		n := len(e.all)
		k.Observe(nil)
		k.TryEnter("old", 1)
		k.TryEnter("one more", 1)
		if len(e.all) != n {
			b.Error("an event after the observer was removed")
		}
	})
}

func TestObserveElsewhere(t *testing.T) {
	n := &nameable{}
	if e := (&events{}); !gate.Observe(n, e) || n.o != gate.Observer(e) {
		t.Error("SetObserver was not called")
	}
	if gate.Observe(&refuser{}, &events{}) {
		t.Error("a gate without SetObserver was observed")
	}
}

// The iteration makes no key, and holds no lock: its body can enter. Keys are in order of what waits, and then of
// what was granted.
func TestKeyedAll(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		made := 0
		k := gate.NewKeyed(func(int) gate.Gate {
			made++
			return gate.NewConcurrency(3)
		}, &gate.KeyedOptions{Clock: b.Clock(), MaxKeys: 5, Idle: time.Second})
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		for key, entries := range []int{1, 3, 2, 5} {
			for range entries {
				go k.Enter(ctx, key, 1)
				b.Settle() // two callers of a new key can both make its gate
			}
		}
		var got []int
		for key, g := range k.All() {
			got = append(got, key)
			if g != gate.Gate(k.For(key)) {
				b.Errorf("%v for key %d", g, key)
			}
			k.TryEnter(100+key, 1)
			k.Len()
		}
		if fmt.Sprint(got) != "[3 1 2 0]" || made != 5 {
			b.Errorf("keys %v, %d made", got, made)
		}
		for range k.All() {
			break
		}
		all := k.All()
		idle := gate.NewKeyed(func(int) gate.Gate { return gate.NewConcurrency(1) }, &gate.KeyedOptions{Clock: b.Clock(), Idle: time.Second})
		p, _ := idle.TryEnter(1, 1)
		p.Leave(nil)
		for key, g := range idle.All() {
			b.Advance(10 * time.Second)
			if idle.Len() != 0 {
				b.Error("the iteration keeps a key")
			}
			if s, _ := gate.StatsOf(g); s.Granted != 0 || key != 1 || idle.Len() != 0 {
				b.Errorf("%+v of key %d", s, key)
			}
		}
		_ = all
	})
}

// While the program is traced, each wait is a region with the name of its gate.
func TestWaitsAreTraced(t *testing.T) {
	if trace.IsEnabled() {
		t.Skip("the program is traced already")
	}
	var out bytes.Buffer
	if err := trace.Start(&out); err != nil {
		t.Skip(err)
	}
	slots := gate.Named("traced slots", gate.NewConcurrency(1))
	all := gate.Named("traced all", gate.All(slots))
	p, _ := slots.TryEnter(1)
	var callers sync.WaitGroup
	for _, g := range []gate.Gate{slots, all, gate.NewKeyed(func(int) gate.Gate { return slots }, nil).For(1)} {
		callers.Go(func() {
			p, _ := g.Enter(context.Background(), 1)
			p.Leave(nil)
		})
	}
	for slots.Stats().Waiting < 3 {
		time.Sleep(time.Millisecond)
	}
	p.Leave(nil)
	callers.Wait()
	trace.Stop()
	for _, region := range []string{"gate traced slots", "gate traced all"} {
		if !bytes.Contains(out.Bytes(), []byte(region)) {
			t.Errorf("no region %q in the trace", region)
		}
	}
}

func TestLogLevels(t *testing.T) {
	var out bytes.Buffer
	log := gate.LogObserver(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	for kind := gate.EventAdmitted; kind <= gate.EventPlan; kind++ {
		log.Observe(gate.Event{Kind: kind, Name: "g", Cost: 2, Wait: time.Second, Err: errors.New("why"), For: time.Minute, Plan: gate.Plan{Kind: "concurrency", N: 3}})
	}
	for _, want := range []string{
		`level=DEBUG msg="gate admitted" gate=g cost=2 wait=1s for=1m0s err=why`,
		`level=WARN msg="gate refused"`, `level=INFO msg="gate abandoned"`, `level=INFO msg="gate held"`,
		`level=INFO msg="gate resumed"`, `level=WARN msg="gate throttled"`,
		`level=DEBUG msg="gate plan" gate=g cost=2 wait=1s for=1m0s err=why plan="3 slots"`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in\n%s", want, out.String())
		}
	}
	if s := gate.EventKind(99).String(); s != "EventKind(99)" {
		t.Error(s)
	}
}
