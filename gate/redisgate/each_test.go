//go:build unix

package redisgate_test

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/gate/redisgate"
	"github.com/escapement-go/escapement/pace"
)

// said returns what f panics with, or "".
func said(f func()) (what string) {
	defer func() {
		if r := recover(); r != nil {
			what = fmt.Sprint(r)
		}
	}()
	f()
	return ""
}

// room returns how many tokens an entry can have of a limit now, with that many at the other limits.
func room(t testing.TB, g *redisgate.Gate, limit, limits, most int) (n int) {
	t.Helper()
	for step := most; step > 0; {
		costs := make([]int, limits)
		costs[limit] = n + step
		p, ok := g.TryEnterEach(costs...)
		if ok {
			costs[limit] = 0
			p.SettleEach(costs...)
			p.Leave(nil)
			n += step
		}
		if !ok || step > most-n {
			step /= 2
		}
		step = min(step, most-n)
	}
	return n
}

// llm has requests, tokens and slots.
var llm = redisgate.Limits{
	redisgate.Each(redisgate.Window(50, time.Minute, nil)),
	redisgate.Window(9000, time.Minute, nil),
	redisgate.Each(redisgate.Concurrency(4, nil)),
}

func wantRoom(t testing.TB, what string, g *redisgate.Gate, tokens int) {
	t.Helper()
	if got := room(t, g, 1, 3, 9000); got != tokens {
		t.Errorf("%s: there are %d tokens, want %d", what, got, tokens)
	}
}

// Requests and slots count 1 whatever an entry costs, and only tokens are settled, before or after Leave.
func TestEach(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(12 * time.Second)
	k := key()
	a, b := member(t, s, k, llm, nil), member(t, s, k, llm, nil)
	asked := s.evals(t)
	p := enter(t, a, 1500)
	if n := s.evals(t) - asked; n > 2 { // EVALSHA and EVAL
		t.Errorf("three limits took %d round trips", n)
	}
	if n := a.Stats().InUse; n != 1 {
		t.Errorf("%d slots in use, want 1", n)
	}
	wantRoom(t, "entered", b, 7500)
	p.Settle(1000)
	within(t, time.Second, "settled", func() bool { return room(t, b, 1, 3, 9000) == 8000 })
	p.Leave(nil)
	if n := a.Stats().InUse; n != 0 {
		t.Errorf("%d slots in use after Leave", n)
	}

	q, err := b.EnterEach(t.Context(), 7, 2000, 0)
	if err != nil {
		t.Fatal(err)
	}
	if n := b.Stats().InUse; n != 0 {
		t.Errorf("%d slots in use where slots were passed by", n)
	}
	q.Leave(nil)
	wantRoom(t, "left", a, 6000)
	q.SettleEach(3, 2500, 0)
	within(t, time.Second, "settled after Leave, for more", func() bool { return room(t, a, 1, 3, 9000) == 5500 })

	view := gate.WithCost(a, 1, 500, 1)
	r := enter(t, view, 1)
	r.Leave(nil)
	r.SettleEach(9, 0, 9)
	within(t, time.Second, "all tokens of a view are back", func() bool { return room(t, b, 1, 3, 9000) == 5500 })
	for name, f := range map[string]func(){
		"Settle":     func() { p.Settle(1) },
		"SettleEach": func() { p.SettleEach(1, 1, 1) },
		"each":       func() { q.SettleEach(1, 1, 0) },
	} {
		if got := said(f); got != "redisgate: Pass.Settle: must be called once, got a second call" {
			t.Errorf("%s again: %q", name, got)
		}
	}
	wantRoom(t, "settled again", b, 5500)
	for i := range 60 {
		if _, ok := a.TryEnterEach(1, 0, 0); !ok {
			if i < 40 {
				t.Errorf("only %d requests more", i)
			}
			return
		}
	}
	t.Error("60 requests, where 50 may be")
}

// What a refused entry costs comes back at limits that are not of Each, unless it was settled.
func TestThrottleGivesBack(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(12 * time.Second)
	throttled := gate.Throttled(0, errors.New("429"))
	for name, c := range map[string]struct {
		limits redisgate.Limits
		each   bool
		tokens int // left
	}{
		"each":       {llm, false, 9000},
		"with costs": {llm, true, 9000},
		"without":    {redisgate.Limits{redisgate.Window(8000, time.Minute, nil), redisgate.Window(9000, time.Minute, nil), redisgate.Concurrency(8000, nil)}, false, 6000},
		"adapts": {redisgate.Limits{redisgate.Each(redisgate.Adaptive(pace.Per(1, ms), nil)), redisgate.Window(9000, time.Minute, nil),
			redisgate.Each(redisgate.Concurrency(4, nil))}, false, 9000},
	} {
		g := member(t, s, key(), c.limits, nil)
		p := enter(t, g, 3000)
		if c.each {
			p.Leave(nil)
			p.SettleEach(1, 0, 1)
			p, _ = g.EnterEach(t.Context(), 1, 3000, 1)
		}
		p.Leave(throttled)
		within(t, time.Second, name, func() bool { return room(t, g, 1, 3, 9000) == c.tokens })
		if c.tokens < 9000 {
			continue
		}
		p.SettleEach(1, 3000, 1) // it was refused: of no account
		wantRoom(t, name+", settled", g, 9000)
		q := enter(t, g, 3000)
		q.Settle(20)
		q.Leave(throttled)
		within(t, time.Second, name+", settled before", func() bool { return room(t, g, 1, 3, 9000) == 8980 })
		if i := g.Interval(); strings.HasPrefix(name, "adapts") && i < 4*ms {
			t.Errorf("two throttles, and the interval is %v", i)
		}
	}
}

// An error that one limit is the reason for says which, and bad costs take nothing.
func TestErrorsSayWhichLimit(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(12 * time.Second)
	g := member(t, s, key(), llm, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := g.Enter(ctx, 10_000)
	var c *gate.CapacityError
	if !errors.As(err, &c) || c.Cost != 10_000 || c.Capacity != 9000 || c.Gate != "limit 2, a Window of 9000 per 1m0s" {
		t.Errorf("error %v", err)
	}
	var none context.Context
	for what, f := range map[string]func(){
		"redisgate: Gate.EnterEach: there must be one cost for each of the 3 limits, got 1": func() { g.EnterEach(ctx, 1) },
		"redisgate: Gate.EnterEach: there must be one cost for each of the 3 limits, got 4": func() { g.EnterEach(ctx, 1, 2, 3, 4) },
		"redisgate: Gate.EnterEach: a cost must not be negative, got -2 for limit 2":        func() { g.EnterEach(ctx, 1, -2, 1) },
		"redisgate: Gate.EnterEach: one cost must be positive, got [0 0 0]":                 func() { g.EnterEach(ctx, 0, 0, 0) },
		"redisgate: Gate.EnterEach: ctx must not be nil":                                    func() { g.EnterEach(none, 1, 1, 1) },
		"redisgate: Gate.TryEnterEach: one cost must be positive, got [0 0 0]":              func() { g.TryEnterEach(0, 0, 0) },
	} {
		if got := said(f); got != what {
			t.Errorf("panic %q, want %q", got, what)
		}
	}
	p, err := g.EnterEach(ctx, 1, 8000, 0)
	if err != nil {
		t.Fatal(err)
	}
	for what, f := range map[string]func(){
		"redisgate: Pass.SettleEach: there must be one cost for each of the 3 limits, got 2": func() { p.SettleEach(1, 1) },
		"redisgate: Pass.SettleEach: the entry has passed limit 3 by, got 1 for it":          func() { p.SettleEach(1, 1, 1) },
		"redisgate: Pass.Settle: the entry has a cost for each limit, use SettleEach":        func() { p.Settle(1) },
		"gate: Pass.SettleEach: a cost must not be negative, got -1 for gate 2":              func() { p.SettleEach(1, -1, 0) },
	} {
		if got := said(f); got != what {
			t.Errorf("panic %q, want %q", got, what)
		}
	}
	wantRoom(t, "after misuse", g, 1000)
	_, err = g.Enter(ctx, 2000)
	var late *gate.DeadlineError
	if !errors.As(err, &late) || late.Gate != "limit 2, a Window of 9000 per 1m0s" || late.Wait < 50*time.Second {
		t.Errorf("error %v", err)
	}
	if _, err := g.EnterEach(ctx, 1, 0, 1); err != nil {
		t.Errorf("kept back by a limit that it passes by: %v", err)
	}
	// One that waits, and one behind it, which is refused without a call.
	first, end := context.WithCancel(context.Background())
	go g.Enter(first, 2000)
	within(t, 5*time.Second, "one waits and knows for how long", func() bool { return g.Stats().NextDue > 40*time.Second })
	if _, err := g.Enter(ctx, 1); !errors.As(err, &late) || late.Gate != "limit 2, a Window of 9000 per 1m0s" {
		t.Errorf("error %v", err)
	}
	end()
	within(t, 5*time.Second, "none waits", func() bool { return g.Stats().Waiting == 0 })

	alone := member(t, s, key(), redisgate.Limits{redisgate.Window(1, time.Minute, nil)}, nil)
	if _, err = alone.Enter(ctx, 2); !errors.As(err, &c) || c.Gate != "" {
		t.Errorf("error %v", err)
	}
	up := member(t, s, key(), redisgate.Limits{redisgate.Rate(pace.PerSecond(1000), nil), redisgate.Adaptive(pace.PerSecond(1000), &redisgate.AdaptiveOptions{GiveUp: 1})}, nil)
	enter(t, up, 1).Leave(gate.Throttled(0, nil))
	if _, err := up.Enter(ctx, 1); !errors.Is(err, gate.ErrGaveUp) || !strings.Contains(err.Error(), "limit 2, an Adaptive of 1000/s: ") {
		t.Errorf("error %v", err)
	}
	if _, err := up.EnterEach(ctx, 1, 0); err != nil {
		t.Errorf("kept back by a limit that it passes by: %v", err)
	}
}

// While Redis is away, an entry with several costs goes to the fallback at the highest.
func TestEachAway(t *testing.T) {
	t.Parallel()
	w := gate.NewWindow(100_000, time.Hour, nil)
	c := nowhere()
	defer c.Close()
	g := redisgate.New(c, "k", llm, &redisgate.Options{Fallback: w, Timeout: 50 * ms})
	defer closed(t, g)
	p, err := g.EnterEach(t.Context(), 1, 700, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := said(func() { p.Settle(3) }); got != "redisgate: Pass.Settle: the entry has a cost for each limit, use SettleEach" {
		t.Errorf("panic %q", got)
	}
	if n := w.Stats().InUse; n != 700 {
		t.Errorf("%d tokens, want 700", n)
	}
	p.SettleEach(900, 600, 0)
	p.Leave(nil)
	q, ok := g.TryEnter(50)
	if !ok {
		t.Fatal("refused")
	}
	q.Leave(nil)
	q.Settle(40)
	if n := w.Stats().InUse; n != 640 {
		t.Errorf("%d tokens, want 640", n)
	}
}

// Three processes, with a limit on requests, one on tokens and one on slots. No limit is ever exceeded, and
// the one that is short is used up.
func TestSharedTokens(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(12 * time.Second)
	for name, c := range map[string]struct {
		job
		want float64 // of requests or tokens in a second
	}{
		"tokens":             {job{Kind: "window", N: 500, Units: 40, Tokens: 9000, Cost: 360, Callers: 20, Work: 5 * ms}, 9000},
		"tokens and a pace":  {job{Kind: "strict", N: 500, Units: 40, Tokens: 9000, Cost: 360, Callers: 20, Work: 5 * ms}, 9000},
		"requests":           {job{Kind: "window", N: 20, Units: 40, Tokens: 90_000, Cost: 3600, Callers: 20, Work: 5 * ms}, 20},
		"requests at a pace": {job{Kind: "strict", N: 100, Units: 40, Tokens: 900_000, Cost: 10_000, Callers: 20, Work: 5 * ms}, strictly(100)},
		"slots":              {job{Kind: "strict", N: 2000, Units: 6, Tokens: 900_000, Cost: 10_000, Callers: 20, Work: 50 * ms}, 6 / 0.05},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			judge(t, func(soft *soft) {
				j := c.job
				j.Addrs, j.Key, j.Span, j.For = []string{s.addr()}, key(), time.Second, 4*time.Second
				ws := crew(t, 3, j)
				soft.crew = ws
				begin(ws)
				if most, _ := report(t, ws, time.Second); most > j.N {
					t.Errorf("%d requests in one second, where %d is the limit", most, j.N)
				}
				if units, _, _ := inUse(t, ws); units > j.Units {
					t.Errorf("%d slots in use at once, where %d is the limit", units, j.Units)
				}
				type grant struct {
					at   int64
					cost int
				}
				var all []grant
				tokens, trips := 0, 0
				for _, w := range ws {
					for i, at := range w.grants {
						all = append(all, grant{at, w.costs[i]})
						tokens += w.costs[i]
					}
					trips += w.trips
				}
				slices.SortFunc(all, func(x, y grant) int { return int(x.at - y.at) })
				first, sum, most := 0, 0, 0
				for _, x := range all {
					sum += x.cost
					for all[first].at <= x.at-int64(time.Second) {
						sum -= all[first].cost
						first++
					}
					most = max(most, sum)
				}
				if most > j.Tokens {
					t.Errorf("%d tokens in one second, where %d is the limit", most, j.Tokens)
				}
				used, short := float64(len(all)), "requests"
				if c.want == float64(j.Tokens) {
					used, short = float64(tokens), "tokens"
				}
				used /= j.For.Seconds()
				t.Logf("at most %d tokens in a second; %.1f %s a second; %d round trips for %d entries", most, used, short, trips, len(all))
				soft.atLeast(short+" a second", used, 0.8*c.want)
			})
		})
	}
}

// costsText is a cost, or with a sign a delta, as the script takes it.
func costsText(sign int64, costs []int64) string {
	text := fmt.Sprint(sign * max(1, slices.Max(costs)/2))
	for _, n := range costs {
		text += fmt.Sprint(":", sign*n)
	}
	return text
}

// With a cost for each limit, the script gives the slots that exact arithmetic gives, and says which limit
// keeps an entry back.
func TestScriptCostsAgainstModel(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	rapid.Check(t, func(t *rapid.T) {
		s.fresh()
		var limits []*limitModel
		var specs []any
		for range rapid.IntRange(2, 4).Draw(t, "limits") {
			l := &limitModel{tat: new(big.Rat)}
			if rapid.Bool().Draw(t, "window") {
				l.span = rapid.Int64Range(1, 5_000_000).Draw(t, "span")
				l.n = rapid.Int64Range(1, 30).Draw(t, "n")
				l.burst = l.n
				l.cell, l.cells, l.lasts = max(1, l.span/128), map[int64]int64{}, map[int64]int64{}
				specs = append(specs, "w", l.span, l.n, l.cell, 0, 0, 0, 0, 0, 0)
			} else {
				l.span = rapid.OneOf(rapid.Int64Range(1, 100), rapid.Int64Range(1, 5_000_000)).Draw(t, "span")
				l.n = rapid.SampledFrom([]int64{1, 2, 3, 7, 97, 1999}).Draw(t, "n")
				l.burst = rapid.Int64Range(1, 30).Draw(t, "burst")
				specs = append(specs, "g", l.span, l.n, l.burst, 0, 0, 0, 0, 0, 0)
			}
			limits = append(limits, l)
		}
		const horizon = 60_000_000
		now, epoch, last := int64(1_790_000_000_000_000), int64(0), int64(0)
		earliest := func(costs []int64) int64 {
			at := max(now, last)
			for again := int64(0); again != at; {
				again = at
				for i, l := range limits {
					if costs[i] > 0 {
						at = l.earliest(at, costs[i])
					}
				}
			}
			return at
		}
		take := func(at int64, costs []int64) {
			for i, l := range limits {
				if costs[i] > 0 {
					l.take(at, costs[i])
				}
			}
			last = at
		}
		for range rapid.IntRange(1, 25).Draw(t, "calls") {
			now += rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, 100_000), rapid.Int64Range(0, 20_000_000)).Draw(t, "after")
			s.at(nop{}, now, "one", 1000)
			costs := make([]int64, len(limits))
			for i, l := range limits {
				costs[i] = rapid.Int64Range(0, l.burst).Draw(t, "cost")
			}
			costs[0] = max(costs[0], 1) // not all are 0
			ahead := rapid.SampledFrom([]int64{0, 20_000, horizon}).Draw(t, "ahead")
			most := rapid.SampledFrom([]int64{0, 0, 50_000}).Draw(t, "most")
			op := []any{"d", costsText(1, costs), 1, most}
			if rapid.IntRange(0, 3).Draw(t, "try") == 0 {
				op, most = []any{"y", costsText(1, costs), 0, 0}, 0
			}
			a := s.call(nop{}, append(append([]any{"me", horizon, 10_000, ahead, epoch, 0, 0, 0, 0, 0, 0, 0, len(limits)}, specs...), op...)...)
			epoch = a[1]
			at := earliest(costs)
			by, got := a[16], a[18+2*len(limits):]
			// keeps reports whether it is this limit that keeps the entry back.
			keeps := func(limit int64) bool {
				for i, l := range limits {
					if costs[i] > 0 && l.earliest(now, costs[i]) == at {
						return limit > 0 && limits[limit-1].earliest(now, costs[limit-1]) == at
					}
				}
				return true // it is the order of slots
			}
			switch {
			case op[0] == "y":
				if (got[0] == 0) != (at == now) {
					t.Fatalf("at %d: a try for %d: %v, in %d", now, costs, got, at-now)
				}
				if at == now {
					take(at, costs)
				}
			case most > 0 && at-now > most:
				if len(got) != 2 || got[0] != -1-(at-now) || !keeps(got[1]) {
					t.Fatalf("at %d: %d: %v, want one that comes too late, in %d, and why", now, costs, got, at-now)
				}
			case at > now+ahead:
				if len(got) != 0 || a[7] != at-now || !keeps(by) {
					t.Fatalf("at %d: %d: %v, due in %d by limit %d, want it in %d", now, costs, got, a[7], by, at-now)
				}
			default:
				if len(got) != 1 || got[0] != at-now {
					t.Fatalf("at %d: a slot for %d in %v, want %d", now, costs, got, at-now)
				}
				take(at, costs)
			}
		}
	})
}

// With a cost for each limit, whatever is held, given back, not used and asked for: the slots that were handed
// out and not given back keep within every limit.
func TestScriptCostsNeverOver(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	rapid.Check(t, func(t *rapid.T) {
		s.fresh()
		const span, horizon = 1_000_000, 500_000
		n := []int64{rapid.Int64Range(1, 20).Draw(t, "requests"), rapid.Int64Range(1, 50).Draw(t, "rate"), rapid.Int64Range(1, 50).Draw(t, "tokens")}
		burst := rapid.Int64Range(1, 20).Draw(t, "burst")
		type used struct {
			at    int64
			costs []int64
		}
		var all []used
		slots := make([][]used, 3)
		now, epoch, gen := int64(1_790_000_000_000_000), int64(0), int64(0)
		for range rapid.IntRange(1, 40).Draw(t, "calls") {
			now += rapid.OneOf(rapid.Int64Range(0, 1000), rapid.Int64Range(0, 300_000)).Draw(t, "after")
			s.at(nop{}, now, "one", 1000)
			for j := range slots {
				for len(slots[j]) > 0 && slots[j][0].at <= now {
					all, slots[j] = append(all, slots[j][0]), slots[j][1:]
				}
			}
			who := rapid.IntRange(0, 2).Draw(t, "client")
			c := slots[who]
			costs := []int64{1, rapid.Int64Range(0, min(burst, n[1])).Draw(t, "cost"), rapid.Int64Range(0, n[2]).Draw(t, "cost")}
			costs[0] = rapid.Int64Range(0, 1).Draw(t, "request")
			if costs[1]+costs[2] == 0 {
				costs[0] = 1
			}
			op := []any{"d", costsText(1, costs), rapid.Int64Range(1, 5).Draw(t, "count"), 0}
			switch what := rapid.IntRange(0, 8).Draw(t, "what"); {
			case what == 0:
				op = []any{"h", rapid.Int64Range(1, 400_000).Draw(t, "hold"), 0, 0}
			case what == 7:
				op = []any{"h", int64(3_600_000_000), 0, 0}
			case what == 8:
				op = append([]any{"e", 0, 0, 0}, op...)
			case what <= 2 && len(c) > 0: // one that is still to come, and the next entry may have it
				i := rapid.IntRange(0, len(c)-1).Draw(t, "back")
				op = append([]any{"r", c[i].at, costsText(1, c[i].costs), gen}, op...)
				slots[who] = slices.Delete(c, i, i+1)
			case what == 3 && len(c) > 0: // it comes too late, and its instant is past
				now = c[0].at
				for j := range slots {
					for len(slots[j]) > 0 && slots[j][0].at <= now && j != who {
						all, slots[j] = append(all, slots[j][0]), slots[j][1:]
					}
				}
				s.at(nop{}, now, "one", 1000)
				op = append([]any{"v", c[0].at, costsText(-1, c[0].costs), gen}, op...)
				slots[who] = c[1:]
			}
			a := s.call(nop{}, append([]any{fmt.Sprint("c", who), horizon, 0, horizon, epoch, gen, min(1, epoch), 0, 0, 0, 0, 0, 3,
				"w", span, n[0], span / 128, 0, 0, 0, 0, 0, 0,
				"g", span, n[1], burst, 0, 1, 0, 0, 0, 0,
				"w", span, n[2], span / 128, 0, 0, 0, 0, 0, 0}, op...)...)
			if epoch = a[1]; a[2] != gen { // published
				gen = a[2]
				for j := range slots {
					slots[j] = nil
				}
			}
			for _, d := range a[18+2*3:][:a[17]] {
				if d >= 0 {
					slots[who] = append(slots[who], used{now + d, costs})
				}
			}
			slices.SortFunc(slots[who], func(x, y used) int { return int(x.at - y.at) })
		}
		for _, c := range slots {
			all = append(all, c...)
		}
		slices.SortFunc(all, func(x, y used) int { return int(x.at - y.at) })
		for x := range all {
			sum := make([]int64, 3)
			for _, u := range all[x:] {
				for i := range sum {
					sum[i] += u.costs[i]
				}
				w := u.at - all[x].at
				if w < span && (sum[0] > n[0] || sum[2] > n[2]) || sum[1] > burst+w*n[1]/span+1 {
					t.Fatalf("%d tokens within %d µs, where %d may go, with a burst of %d: %v", sum, w, n, burst, all)
				}
			}
		}
	})
}

// What is left of a slot that was given back goes to entries that it is enough for.
func TestScriptTakesPartOfASlot(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fresh()
	const sec, now = 1_000_000, int64(1_790_000_000_000_000)
	s.at(t, now, "one", 1000)
	epoch := int64(0)
	call := func(op ...any) []int64 {
		a := s.call(t, append([]any{"me", 10 * sec, 0, 10 * sec, epoch, 0, min(epoch, 1), 0, 0, 0, 0, 0, 2,
			"w", 5 * sec, 3, 5 * sec / 128, 0, 0, 0, 0, 0, 0,
			"w", 5 * sec, 90, 5 * sec / 128, 0, 0, 0, 0, 0, 0}, op...)...)
		epoch = a[1]
		return a[22:]
	}
	call("d", "1:2:90", 1, 0)
	at := call("d", "9:2:80", 1, 0)[0]
	if at == 0 {
		t.Fatal("two at once, of 170 tokens")
	}
	call("r", now+at, "9:2:80", 0)
	if got := call("d", "1:1:30", 1, 0); len(got) != 1 || got[0] != at {
		t.Errorf("a part of a slot in %d comes in %d", at, got)
	}
	if got := call("d", "1:1:50", 1, 0); len(got) != 1 || got[0] != at {
		t.Errorf("the rest of a slot in %d comes in %d", at, got)
	}
	if got := s.c.ZCard(context.Background(), s.keys[1]).Val(); got != 0 {
		t.Errorf("%d slots are left", got)
	}
	call("r", now+at, "1:1:50", 0)
	if got := call("d", "1:0:60", 1, 0); len(got) > 0 && got[0] <= at {
		t.Errorf("60 tokens of 50 in %d", got)
	}
}

// However late entries are settled for less, the tokens that they took after all keep within the limits: what
// comes back is what would be there had they cost that from the start.
func TestScriptSettledNeverOver(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	rapid.Check(t, func(t *rapid.T) {
		s.fresh()
		const span, horizon = 1_000_000, 300_000
		n, burst := rapid.Int64Range(1, 30).Draw(t, "rate"), rapid.Int64Range(1, 12).Draw(t, "burst")
		room := rapid.Int64Range(burst, 40).Draw(t, "room")
		type entry struct {
			at      int64
			cost    int64
			settled bool
		}
		var all []*entry
		now, epoch, gen := int64(1_790_000_000_000_000), int64(0), int64(0)
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			now += rapid.OneOf(rapid.Int64Range(0, 1000), rapid.Int64Range(0, 100_000), rapid.Int64Range(0, 1_000_000)).Draw(t, "after")
			s.at(nop{}, now, "one", 1000)
			op := []any{"d", fmt.Sprintf("1:%d:%[1]d", rapid.Int64Range(1, burst).Draw(t, "cost")), rapid.Int64Range(1, 3).Draw(t, "count"), 0}
			var asked int64
			fmt.Sscanf(op[1].(string), "1:%d", &asked)
			var came []*entry
			for _, e := range all {
				if e.at <= now && !e.settled && e.cost > 0 {
					came = append(came, e)
				}
			}
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0, 1, 2, 3:
				if len(came) > 0 {
					e := rapid.SampledFrom(came).Draw(t, "entry")
					less := rapid.Int64Range(1, e.cost).Draw(t, "less")
					e.cost, e.settled = e.cost-less, true
					op = append([]any{"s", e.at, fmt.Sprintf("-1:%d:%[1]d", -less), gen}, op...)
				}
			case 4:
				if len(came) > 0 { // for more, which makes a debt
					op = []any{"s", came[0].at, fmt.Sprintf("1:%d:%[1]d", rapid.Int64Range(1, 5).Draw(t, "more")), gen}
				}
			case 5:
				op = []any{"h", rapid.Int64Range(1, 200_000).Draw(t, "hold"), 0, 0}
			case 6:
				op = []any{"h", int64(3_600_000_000), 0, 0}
			case 7:
				op = append([]any{"e", 0, 0, 0}, op...)
			}
			a := s.call(nop{}, append([]any{"me", horizon, 0, horizon, epoch, gen, min(1, epoch), 0, 0, 0, 0, 0, 2,
				"g", span, n, burst, 0, 0, 0, 0, 0, 0,
				"w", span, room, span / 128, 0, 0, 0, 0, 0, 0}, op...)...)
			if epoch = a[1]; a[2] != gen {
				gen = a[2]
				all = slices.DeleteFunc(all, func(e *entry) bool { return e.at > now })
			}
			for _, d := range a[22:][:a[17]] {
				all = append(all, &entry{at: now + d, cost: asked})
			}
		}
		slices.SortFunc(all, func(x, y *entry) int { return int(x.at - y.at) })
		for x := range all {
			sum := int64(0)
			for _, u := range all[x:] {
				sum += u.cost
				w := u.at - all[x].at
				if w < span && sum > room || sum > burst+w*n/span+1 {
					t.Fatalf("%d tokens within %d µs, where %d in a span and %d with a burst of %d may go", sum, w, room, n, burst)
				}
			}
		}
	})
}

// A bucket that was full since an entry came gives nothing back for it, and one that lacked tokens all the time
// gives everything back.
func TestScriptSettledAfterRefill(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const sec, start = 1_000_000, int64(1_790_000_000_000_000)
	for after, want := range map[int64]int64{
		20: 0, // it was full
		7:  3, // it lacked 3 tokens; without the entry, it would have turned 7 away
		1:  9, // … and one
		0:  10,
	} {
		s.fresh()
		epoch := int64(0)
		call := func(at int64, op ...any) []int64 {
			s.at(t, start+at*sec, "one", 1000)
			a := s.call(t, append([]any{"me", sec, 0, sec, epoch, 0, min(epoch, 1), 0, 0, 0, 0, 0, 1, "g", sec, 1, 10, 0, 0, 0, 0, 0, 0}, op...)...)
			epoch = a[1]
			return a[20:]
		}
		call(0, "y", 10, 0, 0)
		call(after, "y", max(1, min(after, 10)), 0, 0) // others take all that there is
		call(after, "s", start, -10, 0)
		got := int64(0)
		for ; call(after, "y", 1, 0, 0)[0] == 0; got++ {
		}
		if got != want {
			t.Errorf("settled after %d s: %d tokens, want %d", after, got, want)
		}
	}
}

// After Leave, Settle moves tokens but not units.
func TestSettledAfterLeave(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(12 * time.Second)
	k, l := key(), redisgate.Limits{redisgate.Window(100, time.Minute, nil), redisgate.Concurrency(10, nil)}
	a, b := member(t, s, k, l, nil), member(t, s, k, l, nil)
	p := enter(t, a, 6)
	other := enter(t, a, 4)
	p.Leave(nil)
	p.Settle(1)
	if n := a.Stats().InUse; n != 4 {
		t.Errorf("%d units in use, want 4", n)
	}
	within(t, time.Second, "95 tokens", func() bool { return room(t, b, 0, 2, 100) == 95 })
	within(t, time.Second, "6 units", func() bool { return room(t, b, 1, 2, 10) == 6 })
	other.Settle(2)
	within(t, time.Second, "8 units", func() bool { return room(t, b, 1, 2, 10) == 8 })
	other.Leave(nil)
	if n := a.Stats().InUse; n != 0 {
		t.Errorf("%d units in use, want none", n)
	}
}
