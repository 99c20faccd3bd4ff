package redisgate

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"
)

// idle returns a gate whose calls never begin.
func idle(t testing.TB) *Gate {
	c := redis.NewClient(&redis.Options{})
	t.Cleanup(func() { c.Close() })
	g := New(c, "x", Limits{Strict(1000, time.Hour, &StrictOptions{Burst: 40})}, nil)
	g.running = true
	return g
}

func waits(g *Gate, cost int, deadline int64) *waiter {
	w := &waiter{claim: g.claimOf(cost), deadline: deadline, ready: make(chan struct{}, 1)}
	g.queue.push(w)
	return w
}

// tidy checks what holds between any two steps.
func tidy(t *rapid.T, g *Gate, all []*waiter) {
	q := &g.queue
	slots, weight, asking := 0, 0, 0
	for n := q.slots.first; n != nil; n = n.next {
		slots++
		weight += n.of.claim.weight
		if n.next != nil && n.next.of.from < n.of.from {
			t.Fatal("slots are not in order of time")
		}
		if k := n.of.class; k != &q.free && !n.of.claim.same(k.claim) {
			t.Fatalf("a slot for %s is one of the class of %s", n.of.claim.text, k.claim.text)
		}
	}
	for n := q.asking.first; n != nil; n = n.next {
		asking++
		if n.of.bound || !n.of.in || n.next != nil && n.next.of.turn < n.of.turn {
			t.Fatal("waiters without a slot are not in order")
		}
	}
	waiting, inClasses, bound := 0, q.free.slots.count, 0
	for text, k := range q.classes {
		inClasses += k.slots.count
		bound += k.bound
		first := 0
		for n := k.waiters.first; n != nil; n = n.next {
			waiting++
			if n.of.bound {
				first++
			} else if n.next != nil && n.next.of.bound {
				t.Fatalf("%s: a waiter has a slot, and one before it has none", text)
			}
			if n.next != nil && n.next.of.turn < n.of.turn {
				t.Fatalf("%s: waiters are not in order", text)
			}
		}
		if first != k.bound || k.bound != k.slots.count || k.waiters.count == 0 && !k.claim.plain() {
			t.Fatalf("%s: %d waiters have %d slots, %d are noted", text, first, k.slots.count, k.bound)
		}
	}
	if slots != inClasses || slots != q.slots.count || weight != q.weight || asking != q.asking.count || waiting != q.count || waiting != len(all) || asking+bound != waiting {
		t.Fatalf("%d slots of weight %d, %d in classes; %d of %d waiters ask, want %d, %d, %d and %d", slots, weight, inClasses, asking, waiting, q.slots.count, q.weight, q.asking.count, len(all))
	}
}

// Whatever comes and goes: each slot in hand is for a waiter that it fits, or free, and nothing is counted twice.
func TestQueueStaysTidy(t *testing.T) {
	g := idle(t)
	rapid.Check(t, func(t *rapid.T) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.queue, g.ops = queue{}, nil
		var all []*waiter
		gone := func(w *waiter) { all = slices.DeleteFunc(all, func(o *waiter) bool { return o == w }) }
		one := func() *waiter { return all[rapid.IntRange(0, len(all)-1).Draw(t, "which")] }
		handed, used := 0, 0
		at := later(instant(), time.Hour)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 6).Draw(t, "step") {
			case 0, 1:
				all = append(all, waits(g, rapid.IntRange(1, 4).Draw(t, "cost"), never))
			case 2:
				if w := g.queue.first(); w != nil {
					at += int64(rapid.IntRange(-2, 5).Draw(t, "later"))
					handed += w.claim.weight
					g.take(slot{from: at, until: never, claim: w.claim})
				}
			case 3:
				if len(all) > 0 {
					w := one()
					g.removeWaiter(w)
					gone(w)
				}
			case 4:
				if n := g.queue.slots.first; n != nil {
					h := n.of
					if h.class == &g.queue.free && !g.bequeath(h) {
						g.queue.drop(h)
						g.release(h.slot)
						break
					}
					w := g.queue.use(n.of)
					used += w.claim.weight
					gone(w)
					if rapid.Bool().Draw(t, "void") {
						used -= w.claim.weight
						handed -= w.claim.weight
						all = append(all, w)
						g.queue.comeBack(w)
					}
				}
			case 5:
				if rapid.IntRange(0, 9).Draw(t, "all") == 0 {
					for n := g.queue.slots.first; n != nil; n = n.next {
						handed -= n.of.claim.weight
					}
					g.voidSlots()
				}
			case 6:
				g.returnUnitlessSlots()
			}
			tidy(t, g, all)
		}
		back := 0
		for _, o := range g.ops {
			c := g.claimText(o.cost)
			back += c
		}
		if handed != used+back+g.queue.weight {
			t.Fatalf("%d tokens were handed out: %d used, %d given back, %d in hand", handed, used, back, g.queue.weight)
		}
	})
}

// claimText returns the weight of a slot that was given back.
func (g *Gate) claimText(text string) (weight int) {
	for cost := range 100 {
		if c := g.claimOf(max(1, cost)); c.text == text || c.unused() == text {
			return c.weight
		}
	}
	panic(text)
}

// The time that a waiter takes to come and to leave does not grow with the number of those that wait.
func TestManyWaiters(t *testing.T) {
	for what, mixed := range map[string]bool{"one cost": false, "two costs": true} {
		cost := func() int {
			if mixed {
				return 1 + rand.IntN(2)
			}
			return 1
		}
		each := func(n int) time.Duration {
			g := idle(t)
			g.mu.Lock()
			defer g.mu.Unlock()
			var all []*waiter
			now := instant()
			for range n {
				all = append(all, waits(g, cost(), later(now, time.Hour)))
			}
			for i := range n / 4 { // a quarter has slots
				g.take(slot{from: later(now, time.Minute) + int64(i), until: never, claim: g.queue.first().claim})
			}
			const steps = 2000
			began := time.Now()
			for range steps {
				i := rand.IntN(n)
				g.removeWaiter(all[i])
				all[i] = waits(g, cost(), never)
				g.callAt(now)
			}
			return time.Since(began) / steps
		}
		few, many := time.Hour, time.Hour
		for range 5 {
			few, many = min(few, each(100)), min(many, each(50_000))
		}
		t.Logf("%s: %v with 100 waiting, %v with 50000", what, few, many)
		if many > 40*few+20*time.Microsecond { // what looks at each takes 500 times as long
			t.Errorf("%s: it takes %v with 50000 waiting, and %v with 100", what, many, few)
		}
	}
}

// Members whose turns fit into the horizon call in the order of their turns, in half of the time that their slots take. The
// others call an interval later for each token.
func TestUntilTurn(t *testing.T) {
	const interval = 10.0
	for _, c := range []struct{ behind, free, want int64 }{
		{-100, 100, 0}, {-99, 100, 5}, {-50, 100, 250}, {-1, 100, 495}, {0, 100, 500}, {1, 100, 510}, {70, 100, 1200},
		{-130, 100, 0}, {-5, 0, 0}, {0, 0, 0}, {3, 0, 30}, // a turn that has passed; and a message of an older release
		{1 << 60, 1 << 60, maxProduct},
	} {
		if got := untilTurn(c.behind, c.free, interval); got != time.Duration(c.want) {
			t.Errorf("%d tokens behind %d that fit: in %d, want %d", c.behind, c.free, got, c.want)
		}
	}
}
