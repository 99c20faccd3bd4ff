//go:build unix

package redisgate_test

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"sort"
	"testing"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/gate/redisgate"
)

// stage is the script on a server with a clock that the test moves.
type stage struct {
	c      *redis.Client
	hash   string
	keys   []string
	old    bool    // the server is yet to say that it has lost no key
	calls  int     // so far
	turn   int64   // the end of the turn in the last answer
	seq    int64   // how many writes the member has seen, as the next question says
	wrote  int64   // … as the last answer said
	picks  []int64 // of the last answer
	given  bool    // … whether slots were given back
	silent int64   // how long to wait to be told that the row of turns goes on, by that answer

	plan  string // the text of the limits, as the next question says
	skips string // when a part of the row of turns was skipped
	heard *redis.PubSub
}

// listen subscribes to the messages of the gate.
func (s *stage) listen(t testing.TB) {
	if s.heard != nil {
		s.heard.Close()
	}
	s.heard, s.skips = s.c.Subscribe(context.Background(), s.keys[0]), ""
	if _, err := s.heard.Receive(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// skipped returns when a part of the row of turns was skipped last.
func (s *stage) skipped() string {
	s.skips = s.c.HGet(context.Background(), s.keys[0], "skipped").Val()
	return s.skips
}

// called waits for the message that calls members to their turns.
func (s *stage) called(t testing.TB) (upTo int64, interval float64) {
	for {
		m, err := s.heard.ReceiveMessage(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if n, _ := fmt.Sscanf(m.Payload, "turns %d %g", &upTo, &interval); n == 2 {
			return upTo, interval
		}
	}
}

func newStage(t testing.TB) *stage {
	s := newServer(t)
	c := s.client()
	hash, err := c.ScriptLoad(context.Background(), redisgate.Script()).Result()
	if err != nil {
		t.Fatal(err)
	}
	return &stage{c: c, hash: hash}
}

// fresh begins with keys that were not used before, on a server that has lost none.
func (s *stage) fresh() {
	s.old = true
	k := key()
	s.keys = nil
	for _, name := range []string{"gate", "slots", "crowd", "turns", "units", "leases", "life", "clock", "server"} {
		s.keys = append(s.keys, "{"+k+"}:"+name)
	}
}

func (s *stage) at(t testing.TB, now int64, run string, uptime int64) {
	ctx := context.Background()
	p := s.c.Pipeline()
	clock, server := s.keys[len(s.keys)-2], s.keys[len(s.keys)-1]
	p.Del(ctx, clock)
	p.RPush(ctx, clock, now/1e6, now%1e6)
	p.Set(ctx, server, fmt.Sprintf("master_replid:%s\r\nuptime_in_seconds:%d\r\n", run, uptime), 0)
	if s.old {
		p.Set(ctx, s.keys[6], run+":0", 0)
		s.old = false
	}
	if _, err := p.Exec(ctx); err != nil {
		t.Fatal(err)
	}
}

// call numbers the calls of all processes together.
func (s *stage) call(t testing.TB, args ...any) []int64 {
	t.Helper()
	s.calls++
	return s.late(t, s.calls, args...)
}

// late is a call with the number of an earlier one.
func (s *stage) late(t testing.TB, number int, args ...any) []int64 {
	t.Helper()
	args = slices.Insert(slices.Clone(args), 12, any(number))
	a, err := s.c.EvalSha(context.Background(), s.hash, s.keys, s.question(t, args)).Slice()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return s.numbers(t, a)
}

// limitModel is one limit, exactly.
type limitModel struct {
	span, n, burst int64
	tat            *big.Rat
	cell           int64           // of a window; 0: it is a bucket
	cells, lasts   map[int64]int64 // how much, and the latest instant of it
}

func (l *limitModel) interval() *big.Rat { return big.NewRat(l.span, l.n) }

// earliest returns the first whole microsecond, not before s, for an entry of that cost.
func (l *limitModel) earliest(s, cost int64) int64 {
	if l.cell == 0 {
		x := new(big.Rat).Mul(l.interval(), big.NewRat(cost-l.burst, 1))
		x.Add(x, l.tat)
		up := new(big.Int).Neg(new(big.Int).Div(new(big.Int).Neg(x.Num()), x.Denom()))
		return max(s, up.Int64())
	}
	var ends []int64
	for c := range l.cells {
		ends = append(ends, l.lasts[c]+l.span)
	}
	sort.Slice(ends, func(i, j int) bool { return ends[i] < ends[j] })
	for i := -1; ; i++ {
		if i >= 0 {
			s = max(s, ends[i])
		}
		sum := cost
		for c, n := range l.cells {
			if l.lasts[c]+l.span > s {
				sum += n
			}
		}
		if sum <= l.n {
			return s
		}
	}
}

func (l *limitModel) take(s, cost int64) {
	if l.cell > 0 {
		l.cells[s/l.cell] += cost
		l.lasts[s/l.cell] = max(l.lasts[s/l.cell], s)
		return
	}
	if at := big.NewRat(s, 1); l.tat.Cmp(at) < 0 {
		l.tat.Set(at)
	}
	l.tat.Add(l.tat, new(big.Rat).Mul(l.interval(), big.NewRat(cost, 1)))
}

// gateModel is the part of the contract that is arithmetic: slots, holds and debts.
type gateModel struct {
	limits     []*limitModel
	last, hold int64
}

func (g *gateModel) earliest(now, cost int64) int64 {
	s := max(now, g.last, g.hold)
	for _, l := range g.limits {
		s = l.earliest(s, cost)
	}
	for again := s; ; s = again { // one may have moved it to where another is full
		for _, l := range g.limits {
			again = l.earliest(again, cost)
		}
		if again == s {
			return s
		}
	}
}

func (g *gateModel) take(s, cost int64) {
	for _, l := range g.limits {
		l.take(s, cost)
	}
	g.last = s
}

// The script gives the slots that exact arithmetic gives, to the microsecond.
func TestScriptAgainstModel(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	rapid.Check(t, func(t *rapid.T) {
		s.fresh()
		m := &gateModel{}
		var specs []any
		capacity := int64(1 << 30)
		for range rapid.IntRange(1, 3).Draw(t, "limits") {
			l := &limitModel{tat: new(big.Rat)}
			if rapid.Bool().Draw(t, "window") {
				l.span = rapid.Int64Range(1, 5_000_000).Draw(t, "span")
				l.n = rapid.Int64Range(1, 30).Draw(t, "n")
				l.cell, l.cells, l.lasts = max(1, l.span/128), map[int64]int64{}, map[int64]int64{}
				capacity = min(capacity, l.n)
				specs = append(specs, "w", l.span, l.n, l.cell, 0, 0, 0, 0, 0, 0)
			} else {
				l.span = rapid.OneOf(rapid.Int64Range(1, 100), rapid.Int64Range(1, 5_000_000), rapid.Int64Range(1, 86_400_000_000)).Draw(t, "span")
				l.n = rapid.SampledFrom([]int64{1, 2, 3, 7, 97, 1999, 1_000_003}).Draw(t, "n")
				l.burst = rapid.Int64Range(1, 30).Draw(t, "burst")
				capacity = min(capacity, l.burst)
				specs = append(specs, "g", l.span, l.n, l.burst, 0, 0, 0, 0, 0, 0)
			}
			m.limits = append(m.limits, l)
		}
		const horizon = 60_000_000
		head := func(ahead, epoch int64) []any {
			return append([]any{"me", horizon, 10_000, ahead, epoch, 0, 0, 0, 0, 0, 0, 0, len(m.limits)}, specs...)
		}
		now, epoch := int64(1_790_000_000_000_000), int64(0)
		for range rapid.IntRange(1, 25).Draw(t, "calls") {
			now += rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, 100_000), rapid.Int64Range(0, 20_000_000)).Draw(t, "after")
			s.at(nop{}, now, "one", 1000)
			cost := rapid.Int64Range(1, capacity).Draw(t, "cost")
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0: // a try
				a := s.call(nop{}, append(head(0, epoch), "y", cost, 0, 0)...)
				epoch = a[1]
				at := m.earliest(now, cost)
				if got, want := a[len(a)-1] == 0, at == now; got != want {
					t.Fatalf("at %d: a try for %d: %v, want %v", now, cost, got, want)
				}
				if at == now {
					m.take(now, cost)
				}
			case 1: // a debt
				if epoch == 0 {
					continue
				}
				s.call(nop{}, append(head(0, epoch), "s", now, cost, 0)...)
				for _, l := range m.limits {
					l.take(now, cost)
				}
			default:
				count := rapid.Int64Range(1, 8).Draw(t, "count")
				ahead := rapid.SampledFrom([]int64{0, 20_000, 1_000_000, 60_000_000}).Draw(t, "ahead")
				most := rapid.SampledFrom([]int64{0, 0, 0, 50_000}).Draw(t, "most")
				a := s.call(nop{}, append(head(ahead, epoch), "d", cost, count, most)...)
				epoch = a[1]
				got := a[18+2*len(m.limits):]
				wait := int64(-1)
				for i := range count {
					at := m.earliest(now, cost)
					switch {
					case most > 0 && at-now > most:
						if i >= int64(len(got)) || got[i] != -1-(at-now) {
							t.Fatalf("at %d: %d of %d: %v, want one that comes too late, in %d", now, i, count, got, at-now)
						}
						continue
					case at > now+ahead:
						wait = at - now - ahead
						// It may be told to wait for more than one, or to come once a horizon.
						least := min(wait, horizon)
						if int64(len(got)) != i || a[6] < least || a[6] > wait+ahead/2 || a[7] != at-now {
							t.Fatalf("at %d: %d slots %v, wait %d, due %d, want %d slots, wait %d to %d, due %d", now, len(got), got, a[6], a[7], i, least, wait+ahead/2, at-now)
						}
					case i >= int64(len(got)) || got[i] != at-now:
						t.Fatalf("at %d: slot %d of %d in %v, want %d", now, i, count, got, at-now)
					}
					if wait >= 0 {
						break
					}
					m.take(at, cost)
				}
			}
		}
	})
}

// given is a slot that was used, or may be.
type given struct{ at, cost, epoch, gen int64 }

// Whatever is held, settled, given back and asked for, by any member, and whatever the server
// forgets: the slots that were handed out and not given back keep within the limits.
func TestScriptNeverOver(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	rapid.Check(t, func(t *rapid.T) {
		s.fresh()
		n := rapid.Int64Range(1, 20).Draw(t, "n")
		burst := rapid.Int64Range(1, 10).Draw(t, "burst")
		// The window has room for all that the bucket lets through. Or it has less, and then the server
		// keeps its state: it would forget what only a process knew that reports nothing.
		room, narrow := n+burst, rapid.Bool().Draw(t, "narrow")
		if narrow {
			room = rapid.Int64Range(1, n+burst).Draw(t, "room")
		}
		const span, late = 1_000_000, 0
		type client struct {
			epoch, gen, newest, alive int64
			at                        int64 // of the last answer
			debt                      [2]int64
			slots                     []given
			void                      []given // by a plan of which it has not heard yet
		}
		const horizon = 500_000
		clients := make([]client, 3)
		var used []given
		now, run, offset := int64(1_790_000_000_000_000), 0, int64(0)
		born := now - 1e9
		for range rapid.IntRange(1, 40).Draw(t, "calls") {
			now += rapid.OneOf(rapid.Int64Range(0, 1000), rapid.Int64Range(0, 300_000)).Draw(t, "after")
			i := rapid.IntRange(0, len(clients)-1).Draw(t, "client")
			// All members use the slots that have become due. None uses a slot that another life of
			// the plan made void.
			for j := range clients {
				c := &clients[j]
				for len(c.slots) > 0 && c.slots[0].at <= now {
					used = append(used, c.slots[0])
					c.slots = c.slots[1:]
				}
			}
			c := &clients[i]
			op := []any{"d", rapid.Int64Range(1, min(n, burst, room)).Draw(t, "cost"), rapid.Int64Range(1, 5).Draw(t, "count"), 0}
			what := rapid.IntRange(0, 13).Draw(t, "what")
			if what != 3 {
				c.void = nil // it has heard
			}
			if what == 2 && narrow {
				what = 3
			}
			switch what {
			case 0:
				op = []any{"h", rapid.Int64Range(1, 400_000).Draw(t, "hold"), 0, 0}
			case 12:
				op = append([]any{"e", 0, 0, 0}, op...) // and it asks
			case 13:
				op = []any{"h", int64(3_600_000_000), 0, 0}
			case 1:
				if k := len(c.slots); k > 0 && c.slots[k-1].epoch == c.epoch {
					back := c.slots[k-1]
					c.slots = c.slots[:k-1]
					op = []any{"r", back.at + offset, back.cost, back.gen}
				}
			case 3: // it was stopped, and gives back what it thinks it has
				op = nil
				for _, x := range c.void {
					if x.epoch == c.epoch {
						say := rapid.SampledFrom([]string{"r", "v", "s"}).Draw(t, "say")
						cost := -x.cost
						if say == "r" {
							cost = x.cost
						}
						op = append(op, say, x.at+offset, cost, x.gen)
					}
				}
				c.void = nil
			case 4:
				if len(c.slots) > 0 && c.slots[0].epoch == c.epoch {
					op = []any{"v", c.slots[0].at + offset, -c.slots[0].cost, c.slots[0].gen}
					c.slots = c.slots[1:]
				}
			case 2: // the server is another, which takes time
				run++
				now++
				born = now
				if rapid.Bool().Draw(t, "empty") {
					s.c.Del(context.Background(), s.keys[:6]...)
				}
				if rapid.Bool().Draw(t, "clock") {
					offset = rapid.Int64Range(-300_000_000, 300_000_000).Draw(t, "offset")
				}
				// Every member hears of it by asking, as after a break of the subscription.
			}
			s.at(nop{}, now+offset, fmt.Sprint("run", run), (now-born)/1e6)
			inhand := int64(0)
			for _, x := range c.slots {
				inhand += x.cost
			}
			state := 0
			if now < c.alive {
				state = 1
			}
			pass := now - c.at
			a := s.call(nop{}, append([]any{fmt.Sprint("c", i), horizon, late, horizon, c.epoch, c.gen, state, 0, c.newest - now, 0, 0, inhand, 2,
				"g", span, n, burst, max(0, c.debt[0]-pass), 1, 0, 0, 0, 0,
				"w", span, room, span / 128, c.debt[1], 0, 0, 0, 0, 0}, op...)...)
			if a[1] != c.epoch || a[2] != c.gen {
				if a[1] == c.epoch {
					c.slots = nil
				}
				for j := range clients { // published
					if clients[j].epoch == a[1] && clients[j].gen < a[2] {
						clients[j].void = append(clients[j].void, clients[j].slots...)
						clients[j].slots, clients[j].gen = nil, a[2]
					}
				}
			}
			c.epoch, c.gen, c.at = a[1], a[2], now
			c.newest, c.alive = now+a[4], now+a[5]
			c.debt = [2]int64{a[18], a[20]}
			for _, d := range a[22:] {
				if d >= 0 {
					c.slots = append(c.slots, given{now + d, op[len(op)-3].(int64), a[1], a[2]})
				}
			}
			sort.Slice(c.slots, func(x, y int) bool { return c.slots[x].at < c.slots[y].at })
		}
		for _, c := range clients {
			used = append(used, c.slots...)
		}
		sort.Slice(used, func(x, y int) bool { return used[x].at < used[y].at })
		for x := range used {
			sum := int64(0)
			for _, u := range used[x:] {
				sum += u.cost
				w := u.at - used[x].at
				if w < span && sum > room {
					t.Fatalf("%d tokens within %d µs, where %d may go: %v", sum, w, room, used)
				}
				if most := burst + w*n/span + 1; sum > most {
					t.Fatalf("%d tokens within %d µs, where %d may go: %v", sum, w, most, used)
				}
			}
		}
	})
}

// nop stands in for a test where rapid's is no testing.TB.
type nop struct{ testing.TB }

func (nop) Helper() {}
func (nop) Fatal(args ...any) {
	panic(fmt.Sprint(args...))
}
func (nop) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// What a process remembers counts where the server has forgotten it.
func TestScriptRemembers(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const sec = 1_000_000
	now := int64(1_790_000_000_000_000)
	for name, c := range map[string]struct {
		hold, debt, count int64
		want              int64 // of the first slot
	}{
		"nothing": {0, 0, 0, sec},
		"a hold":  {7 * sec, 0, 0, 7 * sec},
		"a debt":  {0, 9 * sec, 0, 9 * sec},
		// The cell that the newest slot is in ends within a 128th of the span.
		"a full window": {0, 0, 5, 20 * sec},
	} {
		s.fresh()
		s.at(t, now, "one", 1000)
		a := s.call(t, "me", sec/2, 0, sec/2, 77, 0, 1, c.hold, 0, 0, 0, 0, 2,
			"g", sec/2, 1, 1, c.debt, 0, 0, 0, 0, 0,
			"w", 20*sec, 5, 20*sec/128, c.count, 0, 0, 0, 0, 0,
			"d", 1, 1, 0)
		if len(a) != 22 || a[7] < c.want || a[7] > c.want+20*sec/64 {
			t.Errorf("%s: the first slot is due in %d µs, want %d: %v", name, a[7], c.want, a)
		}
	}
}

// A slot of a plan that was changed is worth nothing when it is given back.
func TestScriptTakesBackNothingVoid(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fresh()
	now := int64(1_790_000_000_000_000)
	s.at(t, now, "one", 1000)
	call := func(who string, epoch, gen int64, op ...any) []int64 {
		return s.call(t, append([]any{who, 10_000_000, 0, 10_000_000, epoch, gen, min(epoch, 1), 0, 0, 0, 0, 0, 1,
			"g", 1_000_000, 1, 1, 0, 1, 0, 0, 0, 0}, op...)...)
	}
	a := call("a", 0, 0, "d", 1, 5, 0)
	epoch := a[1]
	// It was lost on the way that the plan has changed.
	call("b", epoch, a[2], "h", 10, 0, 0)
	call("a", epoch, a[2], "r", now+a[20+3], 1, 0)
	var got []int64
	for range 5 {
		b := call("b", epoch, a[2]+1, "d", 1, 1, 0)
		got = append(got, b[20:]...)
	}
	for i := 1; i < len(got); i++ {
		if got[i]-got[i-1] < 1_000_000 {
			t.Errorf("slots at %v, want a second between two", got)
		}
	}
}
