package gate

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The log agrees with a plain list of runs, whatever is added, settled and forgotten. Some runs have so many tokens
// that an int can't count two of them.
func TestWindowLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type entry struct {
			number uint64
			at     int64
			tokens int
		}
		var l windowLog
		var all []entry // those that count
		tokens := rapid.OneOf(rapid.IntRange(0, 9), rapid.IntRange(math.MaxInt-9, math.MaxInt))
		span := rapid.Int64Range(1, 1000).Draw(t, "span")
		now := int64(0)
		for range rapid.IntRange(1, 600).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				now += rapid.Int64Range(0, span).Draw(t, "after")
				l.expire(now, span)
				all = slices.DeleteFunc(all, func(e entry) bool { return e.at+span <= now })
			case 1, 2:
				if len(all) > 0 {
					e := &all[rapid.IntRange(0, len(all)-1).Draw(t, "which")]
					e.tokens = tokens.Draw(t, "actual")
					l.change(e.number, e.tokens)
				}
			default:
				cost := tokens.Draw(t, "cost")
				all = append(all, entry{l.push(now, cost), now, cost})
			}
			sum := new(big.Int)
			for _, e := range all {
				sum.Add(sum, big.NewInt(int64(e.tokens)))
			}
			if used(l.used).Cmp(sum) != 0 {
				t.Fatalf("%v tokens are used, want %v", used(l.used), sum)
			}
			var last total // the last token of a run
			for i, e := range all {
				if e.tokens > 0 {
					if got := l.holder(last.plus(1)); got != e.at {
						t.Fatalf("the first token of run %d is held from %d on, want %d", i, got, e.at)
					}
				}
				last = last.plus(e.tokens)
				if e.tokens > 0 {
					if got := l.holder(last); got != e.at {
						t.Fatalf("the last token of run %d is held from %d on, want %d", i, got, e.at)
					}
				}
			}
		}
	})
}

// The first pass takes the gate's own ticket. Those beyond, and those that entered under the lock, take others. The
// ticket is free again when its pass has left, whatever it was settled for.
func TestOwnTicket(t *testing.T) {
	g := NewConcurrency(20)
	out := func() int { return int(g.l.word.Load() & slotTicket / slotTicket) }
	passes := make([]Pass, 20)
	for i := range passes {
		if i%2 == 0 {
			g.l.word.Or(slotsSpent) // so that it enters under the lock
		}
		if i%4 == 0 {
			passes[i], _ = g.TryEnter(1)
		} else {
			passes[i], _ = g.Enter(t.Context(), 1)
		}
		if got, want := out(), min((i+1)/2, 1); got != want {
			t.Fatalf("%d own tickets are in use after %d passes, every other of which entered under the lock, want %d", got, i+1, want)
		}
	}
	passes[1].Settle(3) // which has the ticket
	passes[3].Settle(0)
	rand.Shuffle(len(passes), func(i, j int) { passes[i], passes[j] = passes[j], passes[i] })
	for _, p := range passes {
		p.Leave(nil)
	}
	if free := g.l.free(); out() != 0 || free != 20 {
		t.Errorf("%d tickets are in use and %d of 20 slots free when all have left", out(), free)
	}
	for i := range 3 {
		p, _ := g.TryEnter(1)
		if out() != 1 {
			t.Fatalf("entry %d by itself has no ticket", i)
		}
		p.Leave(nil)
	}
}

// used returns the total as a number that has no bound.
func used(t total) *big.Int {
	n := new(big.Int).SetUint64(t.high)
	return n.Lsh(n, 64).Add(n, new(big.Int).SetUint64(t.low))
}
