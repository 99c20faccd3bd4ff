//go:build unix

package redisgate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/gate/redisgate"
	"github.com/escapement-go/escapement/pace"
)

// arrival is a slot of a bucket, and what of its cost was not given back.
type arrival struct{ at, cost int64 }

// scheduleOf returns the schedule of a bucket that has had these entries alone, and how many of them came too early.
func scheduleOf(l *limitModel, all []arrival) (tat *big.Rat, early int) {
	m := limitModel{span: l.span, n: l.n, burst: l.burst, tat: new(big.Rat)}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b arrival) int { return int(a.at - b.at) })
	for _, a := range all {
		if a.cost == 0 {
			continue
		}
		if m.earliest(a.at, a.cost) > a.at {
			early++
		}
		m.take(a.at, a.cost)
	}
	return m.tat, early
}

// A bucket, strict or not, lacks what it would lack had the slots that were not used never been taken. It does not lack
// less, and more only by what is rounded. The slots that were used are as far apart as such a bucket demands.
func TestScriptUnusedAsIfNotCome(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	rapid.Check(t, func(t *rapid.T) {
		s.fresh()
		l := &limitModel{
			span:  rapid.OneOf(rapid.Int64Range(1, 1000), rapid.Int64Range(1, 5_000_000), rapid.Int64Range(1, 86_400_000_000)).Draw(t, "span"),
			n:     rapid.SampledFrom([]int64{1, 2, 3, 7, 97, 1999}).Draw(t, "n"),
			burst: rapid.Int64Range(1, 40).Draw(t, "burst"),
		}
		strict := rapid.Int64Range(0, 1).Draw(t, "strict")
		token := max(1, l.span/l.n)
		const horizon = 60_000_000
		now, epoch, refunds := int64(1_790_000_000_000_000), int64(0), int64(0)
		var all []arrival // that were handed out, with what is left of their cost
		var hand, back []int
		for range rapid.IntRange(2, 16).Draw(t, "calls") {
			now += rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, 2*token), rapid.Int64Range(0, 2*token*l.burst)).Draw(t, "after")
			s.at(nop{}, now, "one", 1000)
			var ops []any
			for range rapid.IntRange(0, 4).Draw(t, "gone") {
				if len(hand) == 0 {
					break
				}
				k := rapid.IntRange(0, len(hand)-1).Draw(t, "which")
				i := hand[k]
				a := &all[i]
				switch {
				case a.at <= now && rapid.Bool().Draw(t, "late"): // it was still to come when the member sent that
					ops = append(ops, "r", a.at, a.cost, 0)
					a.cost = 0
					refunds++
				case a.at <= now:
					ops = append(ops, "v", a.at, -a.cost, 0)
					a.cost = 0
					refunds++
				case slices.ContainsFunc(back, func(k int) bool { return all[k].at == a.at }):
					continue // which of two the next entry gets is not said
				default:
					ops = append(ops, "r", a.at, a.cost, 0)
					back = append(back, i)
				}
				hand = slices.Delete(hand, k, k+1)
			}
			back = slices.DeleteFunc(back, func(i int) bool {
				over := all[i].at < now
				if over {
					all[i].cost = 0
					refunds++
				}
				return over
			})
			cost := rapid.Int64Range(1, l.burst).Draw(t, "cost")
			if count := rapid.Int64Range(0, 5).Draw(t, "count"); count > 0 {
				ops = append(ops, "d", cost, count, 0)
			}
			if len(ops) == 0 {
				continue
			}
			a := s.call(nop{}, append([]any{"me", horizon, 10_000, rapid.SampledFrom([]int64{0, horizon}).Draw(t, "ahead"), epoch, 0, min(1, epoch), 0, 0, 0, 0, 0, 1,
				"g", l.span, l.n, l.burst, 0, strict, 0, 0, 0, 0}, ops...)...)
			epoch = a[1]
			for _, d := range a[20:][:a[17]] {
				if k := slices.IndexFunc(back, func(i int) bool { return all[i].at == now+d && all[i].cost >= cost }); k >= 0 {
					i := back[k]
					if all[i].cost -= cost; all[i].cost == 0 {
						back = slices.Delete(back, k, k+1)
					}
				}
				hand = append(hand, len(all))
				all = append(all, arrival{now + d, cost})
			}
			exact, early := scheduleOf(l, all)
			if early > 0 {
				t.Fatalf("at %d: %d entries of %v are too early", now, early, all)
			}
			exact.Sub(exact, big.NewRat(now, 1))
			lacks, _ := exact.Float64()
			if lacks = max(0, lacks); float64(a[18]) < lacks-1 || float64(a[18]) > lacks+1+float64(refunds) {
				t.Fatalf("at %d: the bucket lacks %d µs, want %g, after %d slots that were not used: %v", now, a[18], lacks, refunds, all)
			}
		}
	})
}

// Slots that were not used give back nothing of what others have taken besides: of what is known from a lost state, and
// of what they would have been by another version of the limit.
func TestScriptUnusedGivesNoMore(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const sec, now = 1_000_000, int64(1_790_000_000_000_000)
	for name, c := range map[string]struct {
		debt, n int64 // of another member, which comes from a state that is lost if there is a debt
		want    int64 // in seconds, after 5 slots of a second were not used
	}{
		"nothing else":                 {0, 10, 0},
		"a debt from a lost state":     {8 * sec, 10, 8},
		"a lesser debt":                {3 * sec, 10, 3},
		"a version with longer tokens": {0, 5, 5},
	} {
		s.fresh()
		s.at(t, now, "one", 1000)
		call := func(member string, version, epoch, n, debt int64, op ...any) []int64 {
			s.calls++
			row := append([]any{member, sec, 0, sec, epoch, 0, 0, 0, 0, 0, 0, 0, s.calls, 1, "g", 10 * sec, n, 10, debt, 1, 0, 0, 0, 0}, op...)
			var q map[string]any
			read := json.NewDecoder(strings.NewReader(s.question(t, row)))
			read.UseNumber()
			if err := read.Decode(&q); err != nil {
				t.Fatal(err)
			}
			q["plan"], q["version"] = fmt.Sprint(n, " in ten seconds"), version
			text, err := json.Marshal(q)
			if err != nil {
				t.Fatal(err)
			}
			a, err := s.c.EvalSha(context.Background(), s.hash, s.keys, text).Slice()
			if err != nil {
				t.Fatal(err)
			}
			return s.numbers(t, a)
		}
		epoch := call("a", 0, 0, 10, 0, "d", 1, 5, 0)[1]
		version := int64(0)
		if c.n < 10 {
			version = 1
		}
		other := int64(0)
		if c.debt > 0 {
			other = epoch - sec
		}
		call("b", version, other, c.n, c.debt)
		var ops []any
		for range 5 {
			ops = append(ops, "v", now, -1, 0)
		}
		a := call("a", 0, epoch, 10, 0, ops...)
		if got := a[18]; got != c.want*sec {
			t.Errorf("%s: the bucket lacks %d µs, want %d s", name, got, c.want)
		}
	}
}

// Callers that give up just when they are granted, or before that, cost no token: of a limit that gets none back within
// an hour, the others are admitted for all that there are.
func TestCallersThatGiveUpCostNothing(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(3 * time.Second)
	const tokens, callers = 500, 5
	for name, limit := range map[string]redisgate.Limit{
		"rate":   redisgate.Rate(pace.Per(1, time.Hour), &redisgate.RateOptions{Burst: tokens, Slack: time.Second}),
		"strict": redisgate.Strict(tokens+1, time.Hour, &redisgate.StrictOptions{Burst: tokens, Guard: time.Second}),
		"window": redisgate.Window(tokens, time.Hour, &redisgate.WindowOptions{Guard: time.Second}),
	} {
		// What an answer gives that is lost, or too late, passes unused.
		g := member(t, s, key(), redisgate.Limits{limit}, &redisgate.Options{Timeout: patience})
		var in, gone atomic.Int64
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				r := rand.New(rand.NewPCG(uint64(i), 31))
				for range 240 {
					ctx, cancel := context.WithCancel(context.Background())
					stop := time.AfterFunc(time.Duration(r.IntN(1000))*time.Microsecond, cancel)
					if p, err := g.Enter(ctx, 1); err == nil {
						in.Add(1)
						p.Leave(nil)
					} else {
						gone.Add(1)
					}
					stop.Stop()
					cancel()
				}
			})
		}
		all.Wait()
		time.Sleep(1200 * ms) // what was handed out is over, or was given back
		rest := int64(0)
		for {
			ctx, cancel := context.WithTimeout(context.Background(), 500*ms)
			_, err := g.Enter(ctx, 1)
			cancel()
			if err != nil {
				break
			}
			rest++
		}
		if lost := tokens - in.Load() - rest; lost != 0 {
			t.Errorf("%s: %d entries were admitted, then %d more: %d of %d tokens are lost by %d callers that gave up", name, in.Load(), rest, lost, tokens, gone.Load())
		}
	}
}
