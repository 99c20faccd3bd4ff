package model

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// What gates tell of themselves is what their callers have seen, and what Explain foresees comes true to the nanosecond.
func TestSeen(t *testing.T)            { testSeen(t, true, false) }
func TestSeenAdaptive(t *testing.T)    { testSeen(t, true, true) }
func TestSeenAll(t *testing.T)         { testSeen(t, false, false) }
func TestSeenAllAdaptive(t *testing.T) { testSeen(t, false, true) }

func testSeen(t *testing.T, single, learning bool) {
	explore(t, 1000, func(rt *rapid.T) {
		mock := rapid.Bool().Draw(rt, "mock")
		begin := drawLedger(rt, single, learning)
		least := rapid.SampledFrom([]int{1, 30}).Draw(rt, "least") // short ones shrink well, long ones find more
		moves := rapid.SliceOfN(rapid.Custom(drawMove), least, 50).Draw(rt, "moves")
		var l *ledger
		err := within(t, mock, func(b *bubble.B) error {
			l = begin(b)
			defer func() {
				for _, e := range l.entries {
					if e.cancel != nil {
						e.cancel()
					}
				}
				b.Settle()
			}()
			for _, m := range moves {
				operations++
				if err := l.do(m); err != nil {
					return err
				}
				b.Settle()
				if err := l.check(); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			rt.Fatalf("mock %v\n%v\n%v", mock, l, err)
		}
	})
}

// move is something that callers do. The numbers choose what they do it to.
type move struct {
	kind    string
	at      int // the gate
	n, m    int
	lasting time.Duration
	rate    pace.Rate
}

func drawMove(t *rapid.T) move {
	kinds := []string{"enter", "enter", "enter", "each", "try", "advance", "advance", "leave", "leave", "settle", "cancel", "hold", "resume", "plan",
		"explain", "left", "newcomer"}
	number := rapid.IntRange(0, 1000)
	return move{rapid.SampledFrom(kinds).Draw(t, "kind"), number.Draw(t, "at"), number.Draw(t, "n"), number.Draw(t, "m"), drawSpan(t, "lasting"), drawRate(t)}
}

func (l *ledger) do(m move) error {
	at := m.at % len(l.gates)
	a := l.gates[at]
	switch m.kind {
	case "enter":
		deadline := time.Duration(0)
		if m.n%5 == 0 {
			deadline = m.lasting
		}
		l.enter(at, priceAt(a.Gate, m.n, m.m), nil, deadline)
	case "each":
		if all, ok := a.Gate.(*gate.Composite); ok {
			var each []int
			for n, g := range all.Members() {
				each = append(each, (m.n>>n)%(highestAt(g)+1))
			}
			each[0] = max(each[0], 1)
			l.enter(at, slices.Max(each), each, 0)
		}
	case "try":
		l.try(at, priceAt(a.Gate, m.n, m.m))
	case "advance":
		l.advance(m.lasting)
	case "leave":
		if e := choose(l, m.n, func(e *booked) bool { return !e.left }); e != nil {
			e.left = true
			err := [...]error{nil, errors.New("of the work"), gate.Throttled(0, nil), gate.Throttled(m.lasting, nil)}[m.m%4]
			l.note("entry %d: Leave(%v)", e.id, err)
			e.pass.Leave(err)
		}
	case "settle":
		if e := choose(l, m.n, func(e *booked) bool { return !e.settled && e.each == nil }); e != nil {
			e.settled = true
			l.note("entry %d: Settle(%d)", e.id, m.m%(2*e.cost+2))
			e.pass.Settle(m.m % (2*e.cost + 2))
		}
	case "cancel":
		if w := l.waiting(-1); len(w) > 0 {
			l.note("entry %d: canceled", w[m.n%len(w)].id)
			w[m.n%len(w)].cancel()
		}
	case "hold", "resume":
		return l.hold(at, m)
	case "plan":
		l.plan(m)
	case "explain":
		return l.explain(at)
	case "left":
		return l.leftAt(at)
	default:
		return l.newcomer(at, m)
	}
	return nil
}

// choose returns one of the admitted entries that suit, or nil.
func choose(l *ledger, n int, suit func(*booked) bool) *booked {
	if all := l.admitted(suit); len(all) > 0 {
		return all[n%len(all)]
	}
	return nil
}

// plan changes the plan of a gate.
func (l *ledger) plan(m move) {
	at := m.at % l.leaves
	switch g := l.gates[at].Gate.(type) {
	case *gate.Rate:
		if m.n%2 == 0 {
			g.SetBurst(1 + m.m)
		} else {
			g.SetRate(m.rate)
		}
	case *gate.Window:
		g.SetLimit(1+m.m%50, m.lasting)
	case *gate.Concurrency:
		g.SetLimit(1 + m.m%50)
	}
	l.b.Settle()
	l.note("g%d has a plan: %v", at, l.gates[at].Gate)
}

// hold holds a gate or resumes it. Its observer is told just if that changes something.
func (l *ledger) hold(at int, m move) error {
	a := l.gates[at]
	heldFor := func() time.Duration { s, _ := gate.StatsOf(a.Gate); return s.HeldFor }
	before, held, resumed := heldFor(), a.told[gate.EventHeld], a.told[gate.EventResumed]
	l.note("g%d: %s %v", at, m.kind, m.lasting)
	if m.kind == "hold" {
		if gate.Hold(a.Gate, m.lasting) == clockless(a.Gate) {
			return fmt.Errorf("g%d can't be held, or can", at)
		}
	} else {
		gate.Resume(a.Gate)
	}
	l.b.Settle()
	if a.composite {
		return nil // HeldFor is that of any member
	}
	if now := heldFor(); (a.told[gate.EventHeld] > held) != (now > before) || (a.told[gate.EventResumed] > resumed) != (now < before) {
		return fmt.Errorf("g%d is held for %v after %v: its observer was told otherwise", at, now, before)
	}
	return nil
}

// alone reports whether entries wait at no gate but this.
func (l *ledger) alone(at int) bool { return len(l.waiting(at)) == len(l.waiting(-1)) }

// fate counts the entries that were decided without being admitted. When they are more, others moved up.
func (l *ledger) fate() (n int) {
	for _, a := range l.gates {
		n += a.refused + a.abandoned
	}
	return n
}

// explain lets the time pass until the first head is due. Then it is admitted, and no entry is before.
func (l *ledger) explain(at int) error {
	x := gate.Explain(l.gates[at].Gate)
	l.note("%v", x)
	entries, first := x.Elsewhere, time.Duration(math.MaxInt64)
	for _, h := range x.Heads {
		entries += 1 + h.Behind
		if h.Err != nil || len(h.By) == 0 {
			return fmt.Errorf("a head that waits is kept back by nothing")
		}
		behind := slices.ContainsFunc(h.By, func(o gate.Obstacle) bool { return o.Ahead > 0 })
		switch {
		case h.Due >= 0 && behind:
			first = 0 // some time after that
		case h.Due == 0:
			return fmt.Errorf("a head waits that is due")
		case h.Due > 0:
			first = min(first, h.Due)
		}
	}
	if entries != x.Stats.Waiting {
		return fmt.Errorf("the lines have %d entries, and %d wait", entries, x.Stats.Waiting)
	}
	if first == 0 || first > 24*time.Hour || !l.alone(at) {
		return nil
	}
	granted, fate := l.gates[at].granted, l.fate()
	l.advance(first - 1)
	if l.fate() != fate {
		return nil
	}
	if l.gates[at].granted > granted {
		return fmt.Errorf("an entry was admitted before %v", first)
	}
	l.advance(1)
	if l.gates[at].granted == granted {
		return fmt.Errorf("no entry was admitted after %v", first)
	}
	return nil
}

// leftAt tries what is left, and one more. With nothing left, an entry of 1 is admitted when it is due.
func (l *ledger) leftAt(at int) error {
	a := l.gates[at]
	s, _ := gate.StatsOf(a.Gate)
	if len(l.waiting(-1)) > 0 {
		return nil
	}
	if s.Left < math.MaxInt && l.try(at, s.Left+1) {
		return fmt.Errorf("more was admitted than the %d that are left at g%d", s.Left, at)
	}
	if s.Left > 0 {
		if cost := min(s.Left, 1<<30); !l.try(at, cost) {
			return fmt.Errorf("%d are left at g%d, but %d are refused", s.Left, at, cost)
		}
		return nil
	}
	if p, _ := gate.PlanOf(a.Gate); a.composite || p.GaveUp || s.NextDue == 0 || s.NextDue > 24*time.Hour {
		return nil
	}
	l.advance(s.NextDue - 1)
	if l.try(at, 1) {
		return fmt.Errorf("admitted before it is due in %v", s.NextDue)
	}
	l.advance(1)
	if !l.try(at, 1) {
		return fmt.Errorf("refused when it is due in %v", s.NextDue)
	}
	return nil
}

// newcomer makes an entry that Explain has foreseen.
func (l *ledger) newcomer(at int, m move) error {
	a := l.gates[at]
	cost := priceAt(a.Gate, m.n, m.m)
	x := gate.Explain(a.Gate, cost)
	l.note("%v", x)
	if !l.alone(at) {
		return nil
	}
	e := x.Entry
	free := e.Err == nil && e.Due == 0 && e.Ahead == 0 && len(e.By) == 0
	if l.try(at, cost) != free {
		return fmt.Errorf("an entry of %d was not treated as foreseen", cost)
	}
	behind := a.composite && e.Ahead > 0 || slices.ContainsFunc(e.By, func(o gate.Obstacle) bool { return o.Ahead > 0 })
	if free || behind || e.Err == nil && (e.Due < 0 || e.Due > 24*time.Hour) {
		return nil
	}
	entry := l.enter(at, cost, nil, 0)
	if e.Err != nil {
		if entry.err == nil {
			return fmt.Errorf("an entry of %d was not refused", cost)
		}
		return nil
	}
	fate := l.fate()
	l.advance(e.Due - 1)
	if l.fate() != fate {
		return nil
	}
	if entry.decided {
		return fmt.Errorf("entry %d was decided before %v", entry.id, e.Due)
	}
	l.advance(1)
	if !entry.decided && l.fate() == fate {
		return fmt.Errorf("entry %d was not admitted after %v", entry.id, e.Due)
	}
	return nil
}
