package gate_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/gate"
)

// windowModel is the reference of a Window: a list of all grants there ever were.
type windowModel struct {
	most int
	span int64
	held int64
	all  []windowGrant
}

type windowGrant struct {
	at      int64
	tokens  int
	id      int
	settled bool
}

// at returns the tokens that count at an instant, of those that have gone.
func (m *windowModel) at(now int64) (tokens int) {
	for _, g := range m.all {
		if now < g.at+m.span {
			tokens += g.tokens
		}
	}
	return tokens
}

// first returns the first instant, not before from, at which there is room. There is some
// when one of the grants no longer counts, if not before.
func (m *windowModel) first(from int64, cost int) int64 {
	if m.at(from)+cost <= m.most {
		return from
	}
	at := int64(math.MaxInt64)
	for _, g := range m.all {
		if end := g.at + m.span; end > from && end < at && m.at(end)+cost <= m.most {
			at = end
		}
	}
	return at
}

func (m *windowModel) capacity() int                   { return m.most }
func (m *windowModel) arrive(now int64) int64          { return now }
func (m *windowModel) due(_, since int64, c int) int64 { return m.first(max(since, m.held), c) }

// plan lets all in front go, one after the other, as soon as there is room.
func (m *windowModel) plan(now int64, ahead []int, cost int) int64 {
	probe := windowModel{m.most, m.span, m.held, append([]windowGrant(nil), m.all...)}
	at := max(now, m.held)
	for _, c := range append(ahead[:len(ahead):len(ahead)], cost) {
		if c > 0 {
			at = probe.first(at, c)
		}
		probe.all = append(probe.all, windowGrant{at: at, tokens: c})
	}
	return at
}

// least lets their tokens go one by one: the entries themselves can't be faster.
func (m *windowModel) least(now int64, ahead []int, cost int) int64 {
	var tokens []int
	for _, c := range append(ahead[:len(ahead):len(ahead)], cost) {
		for range c {
			tokens = append(tokens, 1)
		}
	}
	return m.plan(now, tokens[:len(tokens)-1], 1)
}

func (m *windowModel) take(now, _ int64, cost, id int) {
	m.all = append(m.all, windowGrant{at: now, tokens: cost, id: id})
}

func (m *windowModel) settle(now int64, id, actual int) {
	for i := range m.all {
		if g := &m.all[i]; g.id == id && now < g.at+m.span {
			g.tokens, g.settled = actual, true
		}
	}
}

func (m *windowModel) rest(int64)          {}
func (m *windowModel) inUse(now int64) int { return m.at(now) }
func (m *windowModel) heldUntil() int64    { return m.held }
func (m *windowModel) idle(now int64) bool { return m.at(now) == 0 && m.held <= now }
func (m *windowModel) fresh() int64 {
	at := m.held
	for _, g := range m.all {
		at = max(at, g.at+m.span)
	}
	return at
}

// bound checks all pairs of grants: in the span that begins with one of them there are
// never more than most tokens. An entry that turned out to cost more than it had said
// makes a debt; it counts as what it had said.
func (m *windowModel) bound(costs map[int]int) error {
	for _, first := range m.all {
		tokens := 0
		for _, g := range m.all {
			if g.at >= first.at && g.at < first.at+m.span {
				tokens += min(g.tokens, costs[g.id])
			}
		}
		if tokens > m.most {
			return fmt.Errorf("%d tokens in the span from %v, want at most %d", tokens, time.Duration(first.at), m.most)
		}
	}
	return nil
}

func TestModelWindow(t *testing.T) {
	kinds := []modelKind{opEnter, opEnter, opEnter, opEnter, opTry, opTry, opCancel, opAdvance, opAdvance,
		opNext, opNext, opIdle, opSettle, opLeave, opHold, opResume, opStats}
	lates := []time.Duration{0, 0, 3*time.Millisecond + 777}
	checkModel(t, lates, func(t *rapid.T, late time.Duration) func(*stage) error {
		most := rapid.IntRange(1, 40).Draw(t, "n")
		span := rapid.OneOf(
			rapid.SampledFrom([]time.Duration{time.Nanosecond, 10 * time.Millisecond, time.Second, time.Minute}),
			rapid.Custom(func(t *rapid.T) time.Duration {
				return time.Duration(rapid.Int64Range(1, int64(2*time.Second)).Draw(t, "ns"))
			})).Draw(t, "span")
		guard := rapid.SampledFrom([]time.Duration{0, 3 * time.Millisecond}).Draw(t, "guard")
		// Not both in one case: somebody who gets in and whose context ends at that instant
		// may by then have made it known to another that the deadline comes first.
		more := rapid.SampledFrom([]modelKind{opDeadline, opTie}).Draw(t, "more")
		ops := drawOps(t, append(kinds, more, more)...)
		return func(s *stage) error {
			g := gate.NewWindow(most, span, &gate.WindowOptions{Guard: guard, Clock: s.clock})
			m := &windowModel{most: most, span: int64(span + guard)}
			p := newPlot(s, g, m, late)
			first := map[int]int{} // what the entries said that they cost
			p.costs = func(a int64) int { return 1 + int(a/3)%(most+1)*int(a%2) }
			p.adjust = func(q *modelQueue, id, cost, actual int) {
				first[id] = cost
				change := q.change
				if actual < cost {
					change = q.refund
				}
				change(func() { m.settle(q.now, id, actual) })
			}
			p.change = func(o modelOp) bool {
				if d := time.Duration(o.a+o.b) * time.Millisecond; o.kind == opHold {
					if g.Hold(d); d > 0 {
						p.modelQueue.change(func() { m.held = max(m.held, p.modelQueue.now+int64(d)) })
					}
					return true
				}
				if o.kind == opResume {
					g.Resume()
					p.modelQueue.refund(func() { m.held = min(m.held, p.modelQueue.now) })
					return true
				}
				return false
			}
			if err := p.run(ops); err != nil {
				return err
			}
			for id, cost := range p.stage.costs {
				if _, ok := first[id]; !ok {
					first[id] = cost
				}
			}
			return m.bound(first)
		}
	})
}
