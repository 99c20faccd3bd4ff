package gatetest

import "fmt"

// one takes all tokens, as many as possible with one entry, which it returns.
func (t *trial) one() *entry {
	t.Helper()
	t.in(t.start(t.ctx, t.s.heavy()), "on a new gate")
	heavy := t.held[0]
	for i := t.s.heavy(); i < t.s.Capacity; i++ {
		if !t.try(1, "beside a heavy entry") {
			t.Fatalf("TryEnter(1) was refused with %d tokens of %d taken", i, t.s.Capacity)
		}
	}
	return heavy
}

func settleDown(t *trial) {
	if t.s.heavy() < 2 {
		return
	}
	heavy := t.one()
	why := fmt.Sprintf("an entry of cost %d having been settled for %d", heavy.cost, heavy.cost-1)
	t.settle(heavy, heavy.cost-1)
	t.mustTry(1, why)
	t.full(why + ", and the token that came back being taken")
	t.whole(why)

	t.fresh()
	heavy = t.one()
	e := t.arrive(t.ctx, 1)
	t.waits(e, "on a full gate")
	why = fmt.Sprintf("an entry of cost %d having been settled for 1", heavy.cost)
	free := heavy.cost - 1
	t.settle(heavy, 1)
	t.in(e, why)
	for i := 1; i < free; i++ {
		t.mustTry(1, why)
	}
	t.full(why + ", and all that came back being taken")
	t.whole(why)
}

func settleUp(t *trial) {
	if t.s.Capacity < 2 {
		return
	}
	t.fill(1)
	e := t.held[0]
	why := fmt.Sprintf("an entry of cost 1 having been settled for all %d tokens", t.s.Capacity)
	t.settle(e, t.s.Capacity)
	t.full(why)
	e2 := t.arrive(t.ctx, 1)
	t.waits(e2, why)
	t.leave(e)
	t.elapse(t.s.Back)
	t.in(e2, why+", one token being back")
	t.whole(why)

	// One more is a debt of one, which is paid first.
	t.fresh()
	t.fill(1)
	e = t.held[0]
	why = fmt.Sprintf("an entry of cost 1 having been settled for %d tokens of %d", t.s.Capacity+1, t.s.Capacity)
	t.settle(e, t.s.Capacity+1)
	t.full(why)
	t.leave(e)
	t.elapse(t.s.Back)
	t.try(1, why+", one token being back")
	t.restart() // a window forgets its debt with the entry that made it
	t.elapse(t.s.Back)
	t.mustTry(1, why+", two tokens being back")
	t.whole(why)
}

func settleToNothing(t *trial) {
	heavy := t.one()
	n := heavy.cost
	why := fmt.Sprintf("an entry of cost %d having been settled for 0", n)
	t.settle(heavy, 0)
	for range n {
		t.mustTry(1, why)
	}
	t.full(why + ", and all that came back being taken")
	t.leave(heavy)
	t.full(why + " and left")
	t.whole(why + " and left")

	t.fresh()
	heavy = t.one()
	e := t.arrive(t.ctx, 1)
	t.waits(e, "on a full gate")
	t.settle(heavy, 0)
	t.in(e, why)
	t.whole(why)
}

func settleAfterLeave(t *trial) {
	heavy := t.one()
	n := heavy.cost
	why := fmt.Sprintf("an entry of cost %d having been left, and then settled for 0", n)
	t.leave(heavy)
	t.spent -= n
	heavy.pass.Settle(0)
	for range n {
		t.mustTry(1, why)
	}
	t.full(why + ", and all that came back being taken")
	t.whole(why)
}
