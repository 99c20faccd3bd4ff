package gate

import (
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/escapement-go/escapement/pace"
)

// Only who loses shortly after somebody else lets time pass: then losses are the rule.
func TestContest(t *testing.T) {
	var c contest
	now := system.Now()
	for i, step := range []struct {
		after int64
		want  bool
	}{{0, false}, {often, false}, {often - 1, true}, {0, true}, {often + 1, false}, {1, true}} {
		now += step.after
		if got := c.again(now); got != step.want {
			t.Errorf("loss %d, %d ns after the last: steps back: %v, want %v", i, step.after, got, step.want)
		}
	}
}

// Where everybody loses all the time nobody is lost, and nobody gets in too often.
func TestContestedEntries(t *testing.T) {
	const n, each = 8, 2000
	rate, slots := NewRate(pace.Unlimited(), nil), NewConcurrency(n)
	entered := make(chan int)
	for range n {
		go func() {
			in := 0
			for range each {
				if rate.Allow() && rate.Wait(t.Context()) == nil {
					if p, ok := slots.TryEnter(1); ok {
						p.Leave(nil)
						in++
					}
				}
			}
			entered <- in
		}()
	}
	for range n {
		if in := <-entered; in != each {
			t.Errorf("%d of %d entries", in, each)
		}
	}
	if s := rate.Stats(); s.Granted != 2*n*each {
		t.Errorf("%d entries to the rate, want %d", s.Granted, 2*n*each)
	}
	if s := slots.Stats(); s.Granted != n*each || s.InUse != 0 {
		t.Errorf("%d entries to the slots, want %d, and %d are taken", s.Granted, n*each, s.InUse)
	}
}

// Who has lost a race finds out the same as who has won it.
func TestContend(t *testing.T) {
	g := NewConcurrency(2)
	for i, want := range []pick{picked, picked, full} {
		if got, _ := g.contend(again, 1); got != want {
			t.Errorf("entry %d: %d, want %d", i, got, want)
		}
	}
	if got := g.Stats().InUse; got != 2 {
		t.Errorf("%d slots are taken, want 2", got)
	}
	g.word.Or(locked)
	if got, _ := g.contend(again, 1); got != busy {
		t.Errorf("with the lock held by others: %d, want %d", got, busy)
	}
	g.word.And(^locked)
}

// As many passes as there are desks take one each, those beyond and those that got in by the lock take
// none, and every desk is free again when its pass has left.
func TestDesks(t *testing.T) {
	g := NewConcurrency(20)
	desks := func() int { return bits.OnesCount64(uint64(g.word.Load() & g.all)) }
	passes := make([]Pass, 20)
	for i := range passes {
		if i%2 == 0 {
			g.word.Or(spent)
		}
		if i%4 == 0 {
			passes[i], _ = g.TryEnter(1)
		} else {
			passes[i], _ = g.Enter(t.Context(), 1)
		}
		if got, want := desks(), min((i+1)/2, maxDesks); got != want {
			t.Fatalf("%d desks after %d passes, every other of which got in by the lock, want %d", got, i+1, want)
		}
	}
	passes[1].Settle(3) // which has a desk, as all of odd numbers
	passes[3].Settle(large + 1)
	rand.Shuffle(len(passes), func(i, j int) { passes[i], passes[j] = passes[j], passes[i] })
	for _, p := range passes {
		p.Leave(nil)
	}
	if got, free := desks(), g.word.Load()>>freeBits; got != 0 || free != 20 {
		t.Errorf("%d desks are in use and %d of 20 slots free when all have left", got, free)
	}
	for i := range 3 * maxDesks {
		p, _ := g.TryEnter(1)
		if desks() != 1 {
			t.Fatalf("entry %d by itself has no desk", i)
		}
		p.Leave(nil)
	}
}
