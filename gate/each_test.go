package gate_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// used returns what each gate counts as in use.
func used(gates ...gate.Gate) (all []int) {
	for _, g := range gates {
		s, _ := gate.StatsOf(g)
		all = append(all, s.InUse)
	}
	return all
}

func wantUsed(t testing.TB, what string, want []int, gates ...gate.Gate) {
	t.Helper()
	if got := used(gates...); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: in use are %v, want %v", what, got, want)
	}
}

// Requests count once each, tokens by the entry's cost, and slots until the entry leaves.
func TestEach(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		clk := &gate.WindowOptions{Clock: b.Clock()}
		requests, tokens, slots := gate.NewWindow(500, time.Minute, clk), gate.NewWindow(90_000, time.Minute, clk), gate.NewConcurrency(40)
		llm := gate.All(gate.Each(requests), tokens, gate.Each(slots))
		p, err := llm.Enter(context.Background(), 1500)
		if err != nil {
			b.Fatal(err)
		}
		wantUsed(b, "entered", []int{1, 1500, 1}, requests, tokens, slots)
		q, ok := llm.TryEnterEach(3, 200, 0)
		if !ok {
			b.Fatal("refused")
		}
		wantUsed(b, "entered with costs", []int{2, 1700, 1}, requests, tokens, slots)
		p.Leave(nil)
		p.Settle(1100)
		q.SettleEach(7, 250, 0)
		q.Leave(nil)
		wantUsed(b, "settled", []int{2, 1350, 0}, requests, tokens, slots)
		for name, f := range map[string]func(){
			"Settle":      func() { p.Settle(1) },
			"SettleEach":  func() { p.SettleEach(1, 1, 1) },
			"both passes": func() { q.SettleEach(1, 1, 0) },
		} {
			if got := panics(f); got != "gate: Pass.Settle: must be called once, got a second call" {
				b.Errorf("%s again: %q", name, got)
			}
		}
		wantUsed(b, "settled again", []int{2, 1350, 0}, requests, tokens, slots)

		_, err = llm.Enter(context.Background(), 100_000)
		var e *gate.CapacityError
		if !errors.As(err, &e) || e.Capacity != 90_000 || e.Cost != 100_000 ||
			err.Error() != "gate: All: gate 2, a Window of 90000 per 1m0s: cost must be at most the capacity of 90000, got 100000" {
			b.Errorf("error %v", err)
		}
		tokens.Hold(time.Hour)
		ctx, cancel := b.WithTimeout(time.Minute)
		defer cancel()
		_, err = llm.Enter(ctx, 10)
		var late *gate.DeadlineError
		if !errors.As(err, &late) || late.Wait != time.Hour ||
			err.Error() != "gate: All: gate 2, a Window of 90000 per 1m0s: the wait of 1h0m0s would outlast the context's deadline" {
			b.Errorf("error %v", err)
		}
	})
}

// An entry that passes a gate by is not kept back by it, nor by entries that wait for it.
func TestPassedBy(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		clk := &gate.WindowOptions{Clock: b.Clock()}
		one, two := gate.NewWindow(10, time.Second, clk), gate.NewWindow(10, time.Second, clk)
		all := gate.All(one, two)
		if _, ok := all.TryEnterEach(10, 0); !ok {
			b.Fatal("refused")
		}
		wantUsed(b, "entered", []int{10, 0}, one, two)
		ctx := context.Background()
		q := newFates(b)
		q.enter(ctx, gate.WithCost(all, 1, 9), "both", 1)
		if _, ok := all.TryEnter(1); ok {
			b.Error("overtaken")
		}
		if s := all.Stats(); s.Waiting != 1 {
			b.Errorf("%d wait, want 1", s.Waiting)
		}
		p, ok := all.TryEnterEach(0, 2)
		if !ok {
			b.Fatal("kept back by a gate that it passes by")
		}
		if got := panics(func() { p.SettleEach(1, 2) }); got != "gate: Pass.SettleEach: the entry has passed gate 1 by, got 1 for it" {
			b.Errorf("%q", got)
		}
		p.SettleEach(0, 1)
		b.Advance(time.Second)
		q.want("both: 1s")
	})
}

// However often a gate is named, and through whatever, it counts once, at the highest cost.
func TestNamedInManyWays(t *testing.T) {
	w := func() *gate.Window { return gate.NewWindow(100, time.Hour, nil) }
	for name, f := range map[string]struct {
		all  func(a, b *gate.Window) gate.Gate
		want []int // after an entry that costs 7
	}{
		"each":             {func(a, b *gate.Window) gate.Gate { return gate.All(gate.Each(a), b) }, []int{1, 7}},
		"each, alone":      {func(a, _ *gate.Window) gate.Gate { return gate.Each(a) }, []int{1, 0}},
		"cost, alone":      {func(a, _ *gate.Window) gate.Gate { return gate.WithCost(a, 3) }, []int{3, 0}},
		"each, then plain": {func(a, b *gate.Window) gate.Gate { return gate.All(gate.Each(a), a, b) }, []int{7, 7}},
		"high and low":     {func(a, b *gate.Window) gate.Gate { return gate.All(gate.WithCost(a, 9), a, b) }, []int{9, 7}},
		"nested":           {func(a, b *gate.Window) gate.Gate { return gate.All(gate.All(gate.Each(a), b), b) }, []int{1, 7}},
		"each of an All":   {func(a, b *gate.Window) gate.Gate { return gate.All(gate.Each(gate.All(a, b))) }, []int{1, 1}},
		"costs of an All":  {func(a, b *gate.Window) gate.Gate { return gate.All(gate.WithCost(gate.All(a, b), 4, 0)) }, []int{4, 0}},
		"innermost wins":   {func(a, b *gate.Window) gate.Gate { return gate.All(gate.Each(gate.WithCost(a, 5)), b) }, []int{5, 7}},
		"view of an Each":  {func(a, b *gate.Window) gate.Gate { return gate.WithCost(gate.All(gate.Each(a), b), 6) }, []int{1, 6}},
		"views of a key": {func(a, b *gate.Window) gate.Gate {
			k := gate.NewKeyed(func(int) gate.Gate { return gate.All(gate.Each(a), b) }, nil)
			return gate.All(k.For(1), gate.NewConcurrency(9))
		}, []int{1, 7}},
		"each of a key": {func(a, b *gate.Window) gate.Gate {
			k := gate.NewKeyed(func(int) gate.Gate { return gate.All(a, b) }, nil)
			return gate.All(gate.Each(k.For(1)), gate.NewConcurrency(9))
		}, []int{1, 1}},
	} {
		a, b := w(), w()
		g := f.all(a, b)
		p, err := g.Enter(context.Background(), 7)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		wantUsed(t, name, f.want, a, b)
		p.Leave(nil)
		a, b = w(), w()
		g = f.all(a, b)
		if q, ok := g.TryEnter(7); !ok {
			t.Errorf("%s: refused", name)
		} else {
			wantUsed(t, name+", tried", f.want, a, b)
			q.Leave(gate.Throttled(0, nil))
		}
	}
}

// What a refused entry costs comes back, but for what it costs at gates that were named by a view.
func TestThrottleGivesBack(t *testing.T) {
	requests, tokens := gate.NewWindow(500, time.Hour, nil), gate.NewWindow(900, time.Hour, nil)
	llm := gate.All(gate.Each(requests), tokens)
	plain := gate.All(requests, tokens)
	ctx := context.Background()
	for range 2 {
		p, _ := llm.Enter(ctx, 300)
		p.Leave(gate.Throttled(0, nil))
		p.Settle(300) // it was refused: of no account
	}
	wantUsed(t, "refused", []int{2, 0}, requests, tokens)
	p, _ := llm.EnterEach(ctx, 1, 300)
	p.Leave(gate.Throttled(0, nil))
	wantUsed(t, "refused, with costs", []int{3, 0}, requests, tokens)
	q, _ := llm.Enter(ctx, 300)
	q.Settle(20)
	q.Leave(gate.Throttled(0, nil))
	wantUsed(t, "settled", []int{4, 20}, requests, tokens)
	r, _ := plain.Enter(ctx, 5)
	r.Leave(gate.Throttled(0, nil))
	wantUsed(t, "without a view", []int{9, 25}, requests, tokens)
	s, _ := llm.Enter(ctx, 5)
	s.Leave(errors.New("lost"))
	wantUsed(t, "lost", []int{10, 30}, requests, tokens)
}

// A view that was passed by has no say in what a throttled entry is charged at the same gate.
func TestThrottleBesideAViewPassedBy(t *testing.T) {
	w := gate.NewWindow(10, time.Hour, nil)
	all := gate.All(w, gate.WithCost(w, 2))
	p, _ := all.EnterEach(context.Background(), 1, 0)
	wantUsed(t, "entered", []int{1}, w)
	p.Leave(gate.Throttled(0, nil))
	wantUsed(t, "refused", []int{0}, w)
	p, _ = all.EnterEach(context.Background(), 3, 0)
	p.SettleEach(1, 0)
	wantUsed(t, "settled", []int{1}, w)
}

// Misuse of the pass of a refused entry is told, too.
func TestMisuseAfterThrottle(t *testing.T) {
	a, b := gate.NewWindow(9, time.Hour, nil), gate.NewWindow(9, time.Hour, nil)
	p, _ := gate.All(gate.Each(a), b).EnterEach(context.Background(), 0, 5)
	p.Leave(gate.Throttled(0, nil))
	for want, f := range map[string]func(){
		"gate: Pass.Settle: the entry has a cost for each gate, use SettleEach": func() { p.Settle(1) },
		"gate: Pass.SettleEach: the entry has passed gate 1 by, got 1 for it":   func() { p.SettleEach(1, 2) },
	} {
		if got := panics(f); got != want {
			t.Errorf("panic %q, want %q", got, want)
		}
	}
	p.SettleEach(0, 2)
	if got := panics(func() { p.SettleEach(0, 2) }); got != "gate: Pass.Settle: must be called once, got a second call" {
		t.Errorf("again: %q", got)
	}
	wantUsed(t, "refused", []int{0, 0}, a, b)
}

// A composite has forgotten its passes after many entries without a Settle. The first one charges what it
// can, and from then on all are kept.
func TestFirstSettleIsLate(t *testing.T) {
	w, slots := gate.NewWindow(1<<20, time.Hour, nil), gate.NewConcurrency(9)
	all := gate.All(w, gate.Each(slots))
	var last gate.Pass
	for range 5000 {
		last, _ = all.TryEnter(2)
		last.Leave(nil)
	}
	again, _ := all.TryEnter(2) // has its record
	last.Settle(5)
	wantUsed(t, "settled late", []int{10_002 + 3, 1}, w, slots)
	again.Settle(1)
	if got := panics(func() { again.Settle(1) }); got == "" {
		t.Error("settled twice")
	}
	again.Leave(nil)
	if got := panics(func() { again.Settle(1) }); got == "" {
		t.Error("settled twice, after it was left")
	}
	if got := panics(func() { again.Leave(nil) }); got == "" {
		t.Error("left twice")
	}
	wantUsed(t, "settled", []int{10_004, 0}, w, slots)
	each := gate.All(w, gate.NewConcurrency(9))
	for range 5000 {
		last, _ = each.TryEnterEach(1, 1)
		last.Leave(nil)
	}
	each.TryEnter(1) // has its record
	if got := panics(func() { last.Settle(2) }); got != "gate: Pass.Settle: the entry has a cost for each gate, use SettleEach" {
		t.Errorf("%q", got)
	}
	last.SettleEach(4, 7) // all anew, as what it was charged is forgotten
	wantUsed(t, "settled late, with costs", []int{10_004 + 5001 + 4, 0}, w, slots)
	p, _ := all.TryEnter(2)
	p.Leave(nil)
	for range 100 {
		q, _ := all.TryEnter(1)
		q.Leave(nil)
	}
	p.Settle(0)
	wantUsed(t, "kept", []int{15_109, 0}, w, slots)
}

// Bad costs are told, and nothing is taken.
func TestBadCosts(t *testing.T) {
	a, b := gate.NewWindow(9, time.Hour, nil), gate.NewWindow(9, time.Hour, nil)
	all, ctx := gate.All(a, b), context.Background()
	for _, c := range []struct {
		want string
		f    func()
	}{
		{"gate: All.EnterEach: there must be one cost for each of the 2 gates, got 1", func() { all.EnterEach(ctx, 1) }},
		{"gate: All.EnterEach: there must be one cost for each of the 2 gates, got 3", func() { all.EnterEach(ctx, 1, 2, 3) }},
		{"gate: All.EnterEach: a cost must not be negative, got -2 for gate 2", func() { all.EnterEach(ctx, 1, -2) }},
		{"gate: All.EnterEach: one cost must be positive, got [0 0]", func() { all.EnterEach(ctx, 0, 0) }},
		{"gate: All.EnterEach: ctx must not be nil", func() { all.EnterEach(noContext, 1, 1) }},
		{"gate: All.TryEnterEach: one cost must be positive, got [0 0]", func() { all.TryEnterEach(0, 0) }},
		{"gate: WithCost: there must be one cost for each of the 2 gates, got 3", func() { gate.WithCost(all, 1, 2, 3) }},
		{"gate: WithCost: there must be one cost for each of the 1 gates, got 2", func() { gate.WithCost(a, 1, 2) }},
		{"gate: WithCost: there must be one cost for each of the 1 gates, got 2", func() { gate.WithCost(gate.Each(all), 1, 2) }},
		{"gate: WithCost: cost must be at least 1, got 0", func() { gate.WithCost(a, 0) }},
		{"gate: WithCost: g must not be nil, got nil", func() { gate.WithCost(nil, 1) }},
		{"gate: Each: g must not be nil, got a nil *gate.Window", func() { gate.Each((*gate.Window)(nil)) }},
	} {
		if got := panics(c.f); got != c.want {
			t.Errorf("panic %q, want %q", got, c.want)
		}
	}
	p, _ := all.EnterEach(ctx, 1, 2)
	for _, c := range []struct {
		want string
		f    func()
	}{
		{"gate: Pass.SettleEach: there must be one cost for each of the 2 gates, got 1", func() { p.SettleEach(1) }},
		{"gate: Pass.SettleEach: a cost must not be negative, got -1 for gate 2", func() { p.SettleEach(1, -1) }},
		{"gate: Pass.Settle: the entry has a cost for each gate, use SettleEach", func() { p.Settle(1) }},
	} {
		if got := panics(c.f); got != c.want {
			t.Errorf("panic %q, want %q", got, c.want)
		}
	}
	wantUsed(t, "after misuse", []int{1, 2}, a, b)
	p.SettleEach(0, 1)
	wantUsed(t, "settled after misuse", []int{0, 1}, a, b)
	q, _ := a.Enter(ctx, 3)
	q.SettleEach(1)
	wantUsed(t, "a lone gate", []int{1, 1}, a, b)
}

// A second Settle is found out by every gate.
func TestSettleTwiceAnywhere(t *testing.T) {
	rate := func() *gate.Rate { return gate.NewRate(pace.PerHour(1), &gate.RateOptions{Burst: 10}) }
	for name, g := range map[string]gate.Gate{
		"Rate":     rate(),
		"Adaptive": gate.NewAdaptive(pace.PerHour(1), &gate.AdaptiveOptions{Burst: 10}),
		"All":      gate.All(rate()),
		"Each":     gate.All(gate.Each(rate()), rate()),
		"Window":   gate.NewWindow(10, time.Hour, &gate.WindowOptions{UntilAnswer: true}),
	} {
		p, _ := g.TryEnter(5)
		p.Settle(2)
		p.Leave(nil)
		for _, actual := range []int{1, 2, 0, 7} {
			if got := panics(func() { p.Settle(actual) }); got != "gate: Pass.Settle: must be called once, got a second call" {
				t.Errorf("%s: Settle(%d) after Settle(2): %q", name, actual, got)
			}
		}
	}
}

// Costs allocate nothing once passes are settled.
func TestCostsAllocateNothing(t *testing.T) {
	plenty := &gate.RateOptions{Burst: 1 << 30}
	all := gate.All(gate.NewRate(pace.PerSecond(1e9), plenty), gate.NewWindow(1<<20, time.Nanosecond, nil), gate.NewConcurrency(9), gate.NewRate(pace.PerSecond(1e9), plenty))
	ctx := context.Background()
	f := func() {
		p, err := all.EnterEach(ctx, 1, 20, 1, 300)
		if err != nil {
			t.Fatal(err)
		}
		p.Leave(nil)
		p.SettleEach(1, 10, 1, 400)
	}
	for range 1000 {
		f()
	}
	if n := testing.AllocsPerRun(1000, f); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
	slots := gate.All(gate.NewConcurrency(9), gate.NewConcurrency(9))
	f = func() {
		p, _ := slots.EnterEach(ctx, 1, 2)
		p.Leave(nil)
	}
	for range 5000 {
		f()
	}
	if n := testing.AllocsPerRun(1000, f); n != 0 {
		t.Errorf("never settled: %v allocations, want none", n)
	}
}

// The pass is in the context.
func TestPassOf(t *testing.T) {
	ctx := context.Background()
	if _, ok := gate.PassOf(ctx); ok {
		t.Error("a pass of nothing")
	}
	w := gate.NewWindow(10, time.Hour, nil)
	p, _ := w.TryEnter(5)
	inner, _ := w.TryEnter(2)
	outer := gate.WithPass(ctx, p)
	got, ok := gate.PassOf(context.WithoutCancel(gate.WithPass(outer, inner)))
	if !ok {
		t.Fatal("no pass")
	}
	got.Settle(1)
	got, _ = gate.PassOf(outer)
	got.Settle(0)
	wantUsed(t, "settled", []int{1}, w)
	if got := panics(func() { gate.WithPass(noContext, p) }); got != "gate: WithPass: ctx must not be nil" {
		t.Errorf("%q", got)
	}
}

// After a hold of a composite a Rate has one token for the entries that come through it. So an entry that
// costs 2 at the Rate waits for the second one, also where the composite's own share of that is 1.
func TestHeldCompositeNamedBesideItsMember(t *testing.T) {
	for _, costs := range [][]int{{2, 1}, {2, 2}, {1, 2}} {
		bubble.Real(t, func(b *bubble.B) {
			rate := gate.NewRate(pace.Every(100*time.Millisecond), &gate.RateOptions{Burst: 2})
			in := gate.All(rate)
			out := gate.All(in, rate)
			in.Hold(250 * time.Millisecond)
			if _, err := out.EnterEach(context.Background(), costs...); err != nil {
				b.Fatal(err)
			}
			if b.Now() != 350*time.Millisecond {
				b.Errorf("EnterEach(%v): admitted at %v, want 350ms", costs, b.Now())
			}
		})
	}
}

// What a forgotten entry owes is counted as far as it can be.
func TestForgottenDebt(t *testing.T) {
	w, slots := gate.NewWindow(1<<30, time.Hour, nil), gate.NewConcurrency(9)
	all := gate.All(w, slots)
	var last gate.Pass
	for range 5000 {
		last, _ = all.TryEnter(1)
		last.Leave(nil)
	}
	other, _ := all.TryEnter(1) // has its record
	last.Settle(math.MaxInt)
	other.Leave(nil)
	if s := w.Stats(); s.InUse <= 1<<30 {
		t.Errorf("%d in use", s.InUse)
	}
	if s := slots.Stats(); s.InUse != 0 {
		t.Errorf("%d slots in use", s.InUse)
	}
	if _, ok := all.TryEnter(1); ok {
		t.Error("admitted")
	}
}

// A hold of keys alone goes by the clock of their Keyed.
func TestHoldOfKeysAlone(t *testing.T) {
	bubble.Mock(t, func(b *bubble.B) {
		k := gate.NewKeyed(func(int) gate.Gate {
			return gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Clock: b.Clock()})
		}, &gate.KeyedOptions{Clock: b.Clock()})
		all := gate.All(k.For(1))
		all.Hold(time.Second)
		q := newFates(b)
		q.enter(context.Background(), all, "held", 1)
		b.Advance(2 * time.Second)
		q.want("held: 1s")
	})
}
