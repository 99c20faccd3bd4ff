package gate

import (
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
		if got := g.contend(1); got != want {
			t.Errorf("entry %d: %d, want %d", i, got, want)
		}
	}
	if got := g.Stats().InUse; got != 2 {
		t.Errorf("%d slots are taken, want 2", got)
	}
	g.word.Or(locked)
	if got := g.contend(1); got != busy {
		t.Errorf("with the lock held by others: %d, want %d", got, busy)
	}
	g.word.And(^locked)
}
