package gate_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/gate"
)

// slotModel is the reference of a Concurrency: two numbers.
type slotModel struct{ size, used int }

func (m *slotModel) capacity() int          { return m.size }
func (m *slotModel) arrive(now int64) int64 { return now }
func (m *slotModel) due(now, _ int64, cost int) int64 {
	if m.used+cost > m.size {
		return noInstant
	}
	return now
}
func (m *slotModel) plan(now int64, _ []int, _ int) int64 { return now }
func (m *slotModel) take(_, _ int64, cost, _ int)         { m.used += cost }
func (m *slotModel) rest(int64)                           {}
func (m *slotModel) inUse(int64) int                      { return m.used }
func (m *slotModel) heldUntil() int64                     { return 0 }
func (m *slotModel) idle(int64) bool                      { return m.used == 0 }
func (m *slotModel) fresh() int64                         { return 0 }

func TestModelConcurrency(t *testing.T) {
	kinds := []modelKind{opEnter, opEnter, opEnter, opDeadline, opTry, opTry, opCancel, opAdvance,
		opLeave, opLeave, opLeave, opSwap, opSwap, opSettle, opLimit, opStats}
	checkModel(t, []time.Duration{0}, func(t *rapid.T, late time.Duration) func(*stage) error {
		size := rapid.SampledFrom([]int{1, 2, 5, 20}).Draw(t, "n")
		ops := drawOps(t, kinds...)
		return func(s *stage) error {
			g := gate.NewConcurrency(size)
			m := &slotModel{size: size}
			p := newPlot(s, g, m, late)
			p.holds = true
			p.timeless = s.mock != nil
			p.costs = func(a int64) int { return 1 + int(a/3)%(m.size+1)*int(a%2) }
			p.adjust = func(q *modelQueue, _, cost, actual int) {
				m.used += actual - cost
				q.look()
			}
			p.leave = func(_, cost int) { m.used -= cost }
			p.change = func(o modelOp) bool {
				if o.kind != opLimit {
					return false
				}
				n := 1 + int(o.a)%25
				g.SetLimit(n)
				p.modelQueue.change(func() { m.size = n })
				return true
			}
			if err := p.run(ops); err != nil {
				return err
			}
			// When all have left, all slots are free.
			for id, f := range p.fates {
				if f.err == nil && !p.used[id] {
					p.passes[id].Leave(nil)
					m.used -= p.stage.costs[id]
					p.look()
				}
				s.settle()
			}
			return p.stats()
		}
	})
}
