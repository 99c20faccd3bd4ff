package gate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// withLLM makes the API of a language model, with waiters that want different members.
func withLLM(b *bubble.B, do func(llm *gate.Composite, points *gate.Window, slots *gate.Concurrency, enter func(costs ...int))) {
	points := gate.Named("points", gate.NewWindow(900, time.Minute, &gate.WindowOptions{Clock: b.Clock()}))
	slots := gate.Named("slots", gate.NewConcurrency(2))
	llm := gate.Named("llm", gate.All(points, gate.Each(slots)))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	do(llm, points, slots, func(costs ...int) {
		go llm.EnterEach(ctx, costs...)
		b.Settle()
	})
}

func wantText(b *bubble.B, what string, got any, want ...string) {
	b.Helper()
	if s := fmt.Sprint(got); s != strings.Join(want, "\n") {
		b.Errorf("%s:\n got %s\nwant %s", what, strings.ReplaceAll(s, "\n", "\n     "), strings.Join(want, "\n     "))
	}
}

// The heads of all lines, what keeps each back first and what next, and what an entry would meet that comes now.
func TestExplain(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		withLLM(b, func(llm *gate.Composite, points *gate.Window, slots *gate.Concurrency, enter func(...int)) {
			wantText(b, "empty", gate.Explain(llm, 5), "llm: all of points, slots", "now: entry of cost 5, admitted")
			enter(897, 1)
			b.Advance(10 * time.Second)
			enter(2, 1)
			enter(5, 1) // one point is left
			b.Advance(2 * time.Second)
			enter(1, 1)
			enter(0, 1) // wants a slot alone
			b.Advance(100 * time.Millisecond)
			wantText(b, "full", gate.Explain(llm, 1),
				"llm: all of points, slots, 899 in use, 3 waiting, next in 47.9s",
				`entry of cost 5, 2.1s in line, 1 behind it, kept back by "points" (1 of 900 left, due in 47.9s), then by "slots" (0 of 2 left)`,
				`entry of cost 1, 100ms in line, kept back by "slots" (0 of 2 left)`,
				`now: entry of cost 1, 2 before it, kept back by "points" (1 of 900 left, due in 47.9s), then by "slots" (0 of 2 left, 1 before it)`)
			wantText(b, "the points", gate.Explain(points),
				"points: 900 in any 1m, 899 in use, 2 waiting, next in 47.9s",
				`entry of cost 5, 2.1s in line, 1 behind it, kept back by "points" (1 of 900 left, due in 47.9s), then by "slots" (0 of 2 left)`)
			wantText(b, "the slots", gate.Explain(slots, 2),
				"slots: 2 slots, 2 in use, 1 waiting",
				`entry of cost 1, 100ms in line, kept back by "slots" (0 of 2 left)`,
				`now: entry of cost 2, kept back by "slots" (0 of 2 left, 1 before it)`)
			e := gate.Explain(llm, 0, 1)
			if e.Entry.Due >= 0 || e.Heads[1].Due >= 0 || e.Heads[0].Due >= 0 {
				b.Errorf("it is known when slots come back: %+v", e)
			}
			if p := gate.Explain(points, 3); p.Entry.Due != 47900*time.Millisecond || p.Entry.By[0].Ahead != 2 {
				b.Errorf("an entry for points alone: %+v", p.Entry)
			}
			llm.Hold(time.Minute)
			wantText(b, "held", gate.Explain(llm),
				"llm: all of points, slots, 899 in use, 3 waiting, held for 1m",
				`entry of cost 5, 2.1s in line, 1 behind it, kept back by "points" (1 of 900 left, due in 47.9s), then by "llm" (held for 1m), then by "slots" (0 of 2 left)`,
				`entry of cost 1, 100ms in line, kept back by "slots" (0 of 2 left), then by "llm" (held for 1m)`)
		})
	})
}

// A hold of a composite has a limit for each member with a bucket. To a caller it is one obstacle.
func TestExplainOneHold(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		o := &gate.RateOptions{Clock: b.Clock()}
		both := gate.Named("both", gate.All(gate.NewRate(pace.PerSecond(10), o), gate.NewRate(pace.PerSecond(7), o)))
		both.Hold(time.Minute)
		wantText(b, "held", gate.Explain(both, 1), "both: all of "+strings.Join(gateNames(both), ", ")+", held for 1m",
			`now: entry of cost 1, kept back by "both" (held for 1m)`)
	})
}

func gateNames(c *gate.Composite) (names []string) {
	for _, g := range c.Members() {
		names = append(names, gate.NameOf(g))
	}
	return names
}

// What is told of the first waiter comes true.
func TestExplainForetells(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		c := b.Clock()
		rate := gate.NewRate(pace.PerSecond(2), &gate.RateOptions{Burst: 4, Clock: c})
		window := gate.NewWindow(6, 5*time.Second, &gate.WindowOptions{Clock: c})
		for _, g := range []gate.Gate{rate, window, gate.All(rate, window)} {
			for cost := 1; cost <= 4; cost++ {
				for range 20 {
					g.TryEnter(1)
				}
				ctx, cancel := context.WithCancel(context.Background())
				for range 3 {
					go g.Enter(ctx, cost)
					b.Settle()
				}
				due := gate.Explain(g).Heads[0].Due
				newcomer := gate.Explain(g, 3).Entry.Due
				var took time.Duration
				go func(came time.Duration) {
					g.Enter(ctx, 3)
					took = b.Now() - came
				}(b.Now())
				granted := func() uint64 { s, _ := gate.StatsOf(g); return s.Granted }
				before := granted()
				b.Advance(due - 1)
				if granted() != before {
					b.Errorf("%v: the head was admitted before %v", g, due)
				}
				b.Advance(1)
				if granted() == before {
					b.Errorf("%v: the head was not admitted after %v", g, due)
				}
				b.Advance(time.Minute)
				if _, several := g.(*gate.Composite); took != newcomer && (!several || took < newcomer) {
					b.Errorf("%v: the newcomer was admitted after %v, told %v", g, took, newcomer)
				}
				cancel()
			}
		}
	})
}

// It is not known when slots come back, so neither is when an entry has its turn that could have one now.
func TestExplainKnowsNoAnswers(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		slots := gate.NewConcurrency(3)
		all := gate.All(slots)
		tracked := gate.All(slots)
		gate.Track(tracked, gate.TrackTime)
		mustEnter(tracked, 2)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go all.Enter(ctx, 2)
		b.Settle()
		if e := gate.Explain(all, 1).Entry; e.Due >= 0 || e.Ahead != 1 {
			b.Errorf("an entry of the same line: %+v", e)
		}
		if e := gate.Explain(slots, 1).Entry; e.Due >= 0 || len(e.By) != 1 || e.By[0].Ahead != 1 {
			b.Errorf("an entry of another line: %+v", e)
		}
		cancel()
		b.Settle()
		ctx, cancel = context.WithCancel(context.Background())
		defer cancel()
		go slots.Enter(ctx, 2)
		b.Settle()
		if e := gate.Explain(slots, 1).Entry; e.Due >= 0 || e.Ahead != 1 {
			b.Errorf("an entry of the same line: %+v", e)
		}
		tracked.Hold(time.Minute)
		if e := gate.Explain(tracked, 1); len(e.Open) != 1 || len(e.Entry.By) != 2 || len(e.Entry.By[0].Open)+len(e.Entry.By[1].Open) != 0 {
			b.Errorf("the hold of a tracked All: %+v", e)
		}
		tracked.Resume()
	})
}

// An entry that can never be admitted gets its error at once, and so says the explanation.
func TestExplainRefusals(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		c := b.Clock()
		for _, g := range []gate.Gate{
			gate.NewWindow(3, time.Second, &gate.WindowOptions{Clock: c}),
			gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Burst: 3, Clock: c}),
			gate.NewConcurrency(3),
			gate.All(gate.NewConcurrency(9), gate.NewConcurrency(3)),
		} {
			var want *gate.CapacityError
			_, err := g.Enter(context.Background(), 4)
			if got := gate.Explain(g, 4).Entry.Err; !errors.As(err, &want) || got == nil || got.Error() != want.Error() {
				b.Errorf("%v: %v, want %v", g, got, want)
			}
			if s, _ := gate.StatsOf(g); s.Refused != 1 {
				b.Errorf("%v: an explanation counts: %+v", g, s)
			}
		}
		lost := gate.NewAdaptive(pace.PerSecond(1), &gate.AdaptiveOptions{Clock: c, GiveUp: 1})
		leaveWith(lost, gate.Throttled(0, nil))
		if err := gate.Explain(lost, 1).Entry.Err; err != gate.ErrGaveUp {
			b.Error(err)
		}
	})
}

// Keys are told by their names, and none is made.
func TestExplainKeys(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		keys := gate.NewKeyed(func(string) gate.Gate {
			return gate.Each(gate.NewWindow(1, time.Minute, &gate.WindowOptions{Clock: b.Clock()}))
		}, &gate.KeyedOptions{Name: "tenants", Clock: b.Clock()})
		all := gate.Named("all", gate.All(gate.Named("slots", gate.NewConcurrency(9)), keys.For("a")))
		wantText(b, "no key", gate.Explain(all, 2), "all: all of slots, tenants[a]", "now: entry of cost 2, admitted")
		wantText(b, "no key", gate.Explain(keys.For("a"), 2), "tenants[a]: not known")
		if keys.Len() != 0 {
			b.Errorf("%d keys", keys.Len())
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		all.TryEnter(1)
		go all.Enter(ctx, 2)
		b.Advance(time.Second)
		wantText(b, "a key", gate.Explain(all, 2),
			"all: all of slots, tenants[a], 1 in use, 1 waiting, next in 59s",
			`entry of cost 2, 1s in line, kept back by "tenants[a]" (0 of 1 left, due in 59s)`,
			`now: entry of cost 2, kept back by "tenants[a]" (0 of 1 left, due in 59s, 1 before it)`)
		wantText(b, "the key", gate.Explain(keys.For("a"), 7),
			"tenants[a]: 1 in any 1m, 1 in use, 1 waiting, next in 59s",
			`entry of cost 2, 1s in line, kept back by "tenants[a]" (0 of 1 left, due in 59s)`,
			`now: entry of cost 1, kept back by "tenants[a]" (0 of 1 left, due in 59s, 1 before it)`)
	})
}

// Entries at a gate from elsewhere are counted, and that is all that is known of them.
func TestExplainElsewhere(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		stuck := &sticky{release: make(chan struct{})}
		all := gate.Named("all", gate.All(gate.Named("slots", gate.NewConcurrency(9)), stuck))
		go all.Enter(context.Background(), 1)
		b.Settle()
		wantText(b, "at a gate from elsewhere", gate.Explain(all),
			"all: all of slots, *gate_test.sticky, 1 in use, 1 waiting", "1 at gates from elsewhere")
		close(stuck.release)
		b.Settle()
		wantText(b, "a gate from elsewhere", gate.Explain(&nameable{name: "n"}, 1), "n: 3 in any 1s")
		wantText(b, "a gate from elsewhere", gate.Explain(stuck), "*gate_test.sticky: not known")
	})
}

// sticky is a gate from elsewhere that admits no entry until it is released.
type sticky struct {
	refuser
	release chan struct{}
}

func (s *sticky) Enter(context.Context, int) (gate.Pass, error) {
	<-s.release
	return gate.Pass{}, nil
}

// The oldest passes are listed until they are left, with the stack if asked for. Nothing else about them changes.
func TestTrack(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		for name, g := range kinds(b) {
			plain := name == "rate" || name == "burst" || name == "window" || name == "key"
			if gate.Track(g, gate.TrackStack) == plain {
				b.Errorf("%s: tracked: %v", name, !plain)
			}
			if plain {
				continue
			}
			lost := mustEnter(g, 1)
			b.Advance(time.Second)
			if !gate.Track(g, gate.TrackTime) {
				b.Errorf("%s: not tracked", name)
			}
			p := mustEnter(g, 1)
			open := gate.Explain(g).Open
			if len(open) != 2 || open[0].Age != time.Second && name != "concurrency" || open[0].Cost != 1 ||
				!strings.HasPrefix(open[0].Where, "github.com/escapement-go/escapement/gate_test.mustEnter (") || open[1].Where != "" {
				b.Errorf("%s: open passes %+v", name, open)
			}
			if s := open[0].String(); !strings.HasPrefix(s, "pass of cost 1, open for 1s, entered in ") {
				b.Errorf("%s: %s", name, s)
			}
			if e := gate.Explain(gate.All(g), 1); len(e.Entry.By) > 0 && len(e.Entry.By[0].Open) > 2 {
				b.Errorf("%s: %v", name, e)
			}
			p.Settle(1)
			p.Leave(nil)
			if open := gate.Explain(g).Open; len(open) != 1 || open[0].Age < time.Second {
				b.Errorf("%s: open passes %+v, want the first", name, open)
			}
			if mustPanic(func() { p.Leave(nil) }) != (name != "adaptive") {
				b.Errorf("%s: a second Leave", name)
			}
			gate.Track(g, gate.TrackNone)
			if open := gate.Explain(g).Open; len(open) != 0 {
				b.Errorf("%s: open passes %+v after TrackNone", name, open)
			}
			if lost.Learns() != (name == "adaptive" || name == "adaptiveconcurrency") {
				b.Errorf("%s: learns: %v", name, lost.Learns())
			}
			lost.Leave(nil)
			b.Advance(time.Hour)
			if s, _ := gate.StatsOf(g); s.InUse != 0 {
				b.Errorf("%s: %+v", name, s)
			}
		}
	})
}

// A tracked composite is settled with a cost for each gate, and a tracked key's pass is forgotten as others are.
func TestTrackSettles(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		window := gate.NewWindow(10, time.Hour, &gate.WindowOptions{Clock: b.Clock()})
		all := gate.All(window, gate.NewConcurrency(5))
		gate.Track(all, gate.TrackTime)
		p, _ := all.TryEnterEach(5, 1)
		p.SettleEach(2, 1)
		p.Leave(nil)
		if n := window.Stats().InUse; n != 2 {
			b.Errorf("%d tokens after SettleEach(2, 1)", n)
		}
		keys := gate.NewKeyed(func(int) gate.Gate {
			g := gate.NewConcurrency(1)
			gate.Track(g, gate.TrackTime)
			return g
		}, &gate.KeyedOptions{Clock: b.Clock(), Idle: time.Second})
		q, _ := keys.TryEnter(1, 1)
		q.Leave(nil)
		q.Settle(0) // nothing is left to correct
		b.Advance(time.Minute)
		if keys.Len() != 0 {
			b.Error("the key of a tracked gate is kept")
		}
	})
}

func mustEnter(g gate.Gate, cost int) gate.Pass {
	p, ok := g.TryEnter(cost)
	if !ok {
		panic("refused")
	}
	return p
}

func mustPanic(f func()) (panicked bool) {
	defer func() { panicked = recover() != nil }()
	f()
	return false
}

// An entry behind others at a Window with UntilAnswer has to wait until they are left, too.
func TestExplainUntilAnswer(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewWindow(2, time.Second, &gate.WindowOptions{UntilAnswer: true, Clock: b.Clock()})
		p, _ := g.TryEnter(2)
		p.Leave(nil)
		go g.Enter(context.Background(), 1)
		b.Settle()
		if e := gate.Explain(g, 2); e.Heads[0].Due != time.Second || e.Entry.Due >= 0 {
			b.Errorf("%v", e)
		}
		b.Advance(time.Hour)
		if _, ok := g.TryEnter(2); ok {
			b.Error("admitted beside an entry that was not left")
		}
	})
}

// An entry that is refused for its cost is explained with that.
func TestExplainTooMuch(t *testing.T) {
	slots := gate.NewConcurrency(2)
	for _, g := range []gate.Gate{slots, gate.All(slots)} {
		if e := gate.Explain(g, 3).Entry; e.Cost != 3 || e.Err == nil {
			t.Errorf("%+v", e)
		}
	}
}
