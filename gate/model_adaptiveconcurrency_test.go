package gate_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/gate"
)

// slotsOp is a random call of an AdaptiveConcurrency.
type slotsOp struct {
	kind string
	n    int
	cost int
	d    time.Duration
}

// The reference of an AdaptiveConcurrency takes its limit from the gate, and whether a refusal is noise. It knows the
// rest: a plain queue, the slots in use, and the end of a hold. It also knows what the limit may do. It never leaves [Least, n]. Only a
// refusal of the present generation makes it smaller, and nothing but a success, a Reset or an hour without a word
// makes it larger.
type slotsModel struct {
	s       *stage
	g       *gate.AdaptiveConcurrency
	most    int
	least   int
	ceiling time.Duration

	now, held  int64
	used, next int
	waiting    []int       // ids, in order of arrival
	inside     []int       // ids of those that have yet to leave
	granted    map[int]int // the generation and instant of the grant
	at         map[int]int64
	generation int
	cost       map[int]int
	fates      map[int]error // of those that were decided
	refused    bool          // since the last Reset
}

func (m *slotsModel) room(cost int) bool {
	return m.now >= m.held && (m.used == 0 || m.used+cost <= m.g.Limit())
}

func (m *slotsModel) admit(id int) {
	m.used += m.cost[id]
	m.inside = append(m.inside, id)
	m.granted[id], m.at[id] = m.generation, m.now
	m.fates[id] = nil
}

// look admits all heads that have room.
func (m *slotsModel) look() {
	for len(m.waiting) > 0 && m.room(m.cost[m.waiting[0]]) {
		m.admit(m.waiting[0])
		m.waiting = m.waiting[1:]
	}
}

// learned compares the limit with the one before a call.
func (m *slotsModel) learned(before int, shrinks, grows bool) error {
	after := m.g.Limit()
	switch {
	case after < m.least || after > m.most:
		return fmt.Errorf("limit %d is not from %d to %d", after, m.least, m.most)
	case after < before && !shrinks, after > before && !grows:
		return fmt.Errorf("limit %d, it was %d", after, before)
	case after < before:
		m.generation++
	}
	return nil
}

func (m *slotsModel) enter(cost int, try bool) error {
	id := m.next
	m.next++
	m.cost[id] = cost
	free := len(m.waiting) == 0 && m.room(cost)
	if try {
		p, ok := m.g.TryEnter(cost)
		if ok != (free && cost <= m.most) {
			return fmt.Errorf("TryEnter(%d) with %d of %d in use: %v", cost, m.used, m.g.Limit(), ok)
		}
		if ok {
			m.s.passes[id] = p
			m.admit(id)
		}
		return nil
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	m.s.cancels[id] = cancel
	m.s.running++
	go func() {
		p, err := m.g.Enter(ctx, cost)
		m.s.results <- modelResult{id, fate{m.s.now(), err}, p}
	}()
	m.s.settle()
	switch {
	case cost > m.most:
		m.fates[id] = &gate.CapacityError{Cost: cost, Capacity: m.most}
	case free:
		m.admit(id)
	default:
		m.waiting = append(m.waiting, id)
	}
	return nil
}

func (m *slotsModel) leave(n int, how string, after time.Duration) error {
	if len(m.inside) == 0 {
		return nil
	}
	i := n % len(m.inside)
	id := m.inside[i]
	m.inside = slices.Delete(m.inside, i, i+1)
	err := map[string]error{
		"success": nil, "throttle": gate.Throttled(after, errTooMany), "timeout": context.DeadlineExceeded, "other": errGone,
	}[how]
	late := m.ceiling > 0 && time.Duration(m.now-m.at[id]) > m.ceiling
	current := m.granted[id] == m.generation
	shrinks := current && (how == "throttle" || how == "timeout" || how == "success" && late)
	before, first := m.g.Limit(), !m.refused && current && (how == "throttle" || how == "timeout")
	m.s.passes[id].Leave(err)
	m.s.settle()
	m.used -= m.cost[id]
	// Noise holds no entry, and there is none before some entries were refused.
	if until := max(m.held, m.now+int64(after)); how == "throttle" && (!m.refused || m.now+int64(m.g.Stats().HeldFor) == until) {
		m.held = until
	}
	m.refused = m.refused || how == "throttle" || how == "timeout" || how == "success" && late
	if first && m.g.Limit() == before && before > m.least {
		return fmt.Errorf("limit %d after the first refusal", before)
	}
	return m.learned(before, shrinks, how == "success")
}

func (m *slotsModel) advance(d time.Duration) error {
	end := m.now + int64(d)
	for _, at := range []int64{m.held, end} {
		if at > m.now && at <= end {
			before := m.g.Limit()
			m.s.advance(at - m.now)
			m.now = at
			m.look()
			// What was learned may be forgotten meanwhile.
			if m.g.Limit() == m.most && before != m.most {
				m.refused = false
				m.generation++
				continue
			}
			if err := m.learned(before, false, false); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *slotsModel) run(ops []slotsOp) error {
	for i, o := range ops {
		var err error
		switch o.kind {
		case "enter", "try":
			err = m.enter(o.cost, o.kind == "try")
		case "cancel":
			if len(m.waiting) > 0 {
				at := o.n % len(m.waiting)
				id := m.waiting[at]
				m.waiting = slices.Delete(m.waiting, at, at+1)
				m.fates[id] = errGone
				m.s.cancels[id](errGone)
			}
		case "hold":
			m.g.Hold(o.d)
			if o.d > 0 {
				m.held = max(m.held, m.now+int64(o.d))
			}
		case "resume":
			m.g.Resume()
			m.held = min(m.held, m.now)
		case "reset":
			m.g.Reset()
			m.refused = false
			m.generation++
			if got := m.g.Limit(); got != m.most {
				err = fmt.Errorf("limit %d after Reset", got)
			}
		case "advance":
			err = m.advance(o.d)
		default:
			err = m.leave(o.n, o.kind, o.d)
		}
		m.s.settle()
		m.look()
		if err == nil {
			err = m.compare()
		}
		if err != nil {
			return fmt.Errorf("op %d of %+v: %w", i, ops, err)
		}
	}
	return nil
}

// compare compares what has become of all entries, and the statistics.
func (m *slotsModel) compare() error {
	for id := range m.next {
		real, decided := m.s.real[id]
		want, should := m.fates[id]
		if m.s.cancels[id] == nil {
			continue // by TryEnter
		}
		var c, d *gate.CapacityError
		same := errors.Is(real.err, want) || errors.As(real.err, &c) && errors.As(want, &d) && *c == *d
		if decided != should || decided && !same {
			return fmt.Errorf("entry %d of cost %d: decided %v, %v; want %v, %v; %d of %d in use", id, m.cost[id], decided, real.err, should, want, m.used, m.g.Limit())
		}
	}
	s := m.g.Stats()
	held := time.Duration(max(m.held-m.now, 0))
	if s.InUse != m.used || s.Waiting != len(m.waiting) || s.HeldFor != held {
		return fmt.Errorf("%+v, want %d in use, %d waiting, held for %v", s, m.used, len(m.waiting), held)
	}
	return nil
}

func TestModelAdaptiveConcurrency(t *testing.T) {
	kinds := []string{"enter", "enter", "enter", "enter", "try", "success", "success", "success", "throttle", "timeout", "other", "cancel", "advance", "hold", "resume", "reset"}
	spans := []time.Duration{-1, 0, 1, ms, 10 * ms, time.Second, time.Minute, 2 * time.Hour}
	checkModel(t, []time.Duration{0}, func(t *rapid.T, _ time.Duration) func(*stage) error {
		most := rapid.SampledFrom([]int{1, 2, 5, 20}).Draw(t, "n")
		least := rapid.IntRange(0, most).Draw(t, "least")
		ceiling := rapid.SampledFrom([]time.Duration{0, 0, ms, time.Second}).Draw(t, "ceiling")
		backoff := rapid.SampledFrom([]float64{0, 1.1, 2, 10}).Draw(t, "backoff")
		ops := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) slotsOp {
			return slotsOp{
				kind: rapid.SampledFrom(kinds).Draw(t, "kind"),
				n:    rapid.IntRange(0, 99).Draw(t, "n"),
				cost: max(1, rapid.IntRange(-2, 7).Draw(t, "cost")),
				d:    rapid.SampledFrom(spans).Draw(t, "d"),
			}
		}), 1, 60).Draw(t, "ops")
		return func(s *stage) error {
			m := &slotsModel{
				s: s, most: most, least: max(least, 1), ceiling: ceiling,
				g:       gate.NewAdaptiveConcurrency(most, &gate.AdaptiveConcurrencyOptions{Least: least, Backoff: backoff, Latency: ceiling, Clock: s.clock}),
				granted: map[int]int{}, at: map[int]int64{}, cost: map[int]int{}, fates: map[int]error{},
			}
			return m.run(ops)
		}
	})
}
