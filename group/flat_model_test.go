package group_test

import "testing"

// The model of a FlatMap behind a gate of slots: all orders in which its workers, the stage
// behind it and the reader can take their steps. Each step brings an item or a result
// further, so where no state is stuck every run ends.

// flatRule says what a send inside the gate does where there is no room.
type flatRule int

const (
	ruleWait  flatRule = iota // it waits, and its slot with it
	ruleLeave                 // it waits, gives up its slot for that time, and f goes on without one
	ruleKeep                  // the worker keeps the result until f has returned and its slot is free
)

// flatModel is what does not change in a run.
type flatModel struct {
	rule                   flatRule
	ordered                bool
	workers, slots, buffer int8
	items, results         int8 // how many items, and how many results each
	later                  int8 // workers of a stage behind it that has the same gate; 0: there is none

	// What was found.
	stuck int // states that are not the end, and have no next step
	most  int // calls at once
	kept  int // results at once that workers keep
}

type flatPhase int8

const (
	flatIdle     flatPhase = iota
	flatAtGate             // waits for a slot
	flatInF                // runs f, with a slot unless it gave it up
	flatOutside            // waits in f for room, without a slot
	flatHandsOn            // f has returned; the worker hands on what was kept
	flatFlushing           // sends what waits in the ring, as the only one
)

type flatWorker struct {
	phase            flatPhase
	item, made, gone int8 // results that f has sent, and those of them that have left the worker
	bare             bool // runs f without a slot
}

type flatState struct {
	workers       [3]flatWorker
	next, head    int8
	ring          [4]int8 // results of each item that wait in the stage for its turn
	finished      [4]bool
	out           int8 // results in the output channel
	atGate, later int8 // workers of the later stage at the gate, and in its f
}

func (m *flatModel) used(s *flatState) (n int8) {
	for _, w := range s.workers {
		if w.phase == flatInF && !w.bare {
			n++
		}
	}
	return n + s.later
}

func (s *flatState) flusher() bool {
	for _, w := range s.workers {
		if w.phase == flatFlushing {
			return true
		}
	}
	return false
}

// place moves a result of worker i out of it, if there is room.
func (m *flatModel) place(s *flatState, i int8) bool {
	w := &s.workers[i]
	turn := !m.ordered || w.item == s.head && !s.flusher()
	if m.ordered && turn {
		for s.ring[w.item] > 0 && s.out < m.buffer {
			s.ring[w.item]--
			s.out++
		}
	}
	if turn && s.out < m.buffer && s.ring[w.item] == 0 {
		s.out++
		w.gone++
		return true
	}
	ahead := int8(0)
	for _, n := range s.ring {
		ahead += n
	}
	if m.ordered && ahead < m.buffer {
		s.ring[w.item]++
		w.gone++
		return true
	}
	return false
}

// steps returns the states that can follow.
func (m *flatModel) steps(s flatState) (all []flatState) {
	step := func(f func(*flatState) bool) {
		if after := s; f(&after) {
			all = append(all, after)
		}
	}
	for i := range m.workers {
		step(func(s *flatState) bool { return m.step(s, i) })
	}
	if m.later == 0 {
		step(func(s *flatState) bool { s.out--; return s.out >= 0 })
		return all
	}
	step(func(s *flatState) bool {
		s.out--
		s.atGate++
		return s.out >= 0 && s.atGate+s.later <= m.later
	})
	step(func(s *flatState) bool {
		free := m.used(s) < m.slots
		s.atGate--
		s.later++
		return free && s.atGate >= 0
	})
	step(func(s *flatState) bool { s.later--; return s.later >= 0 })
	return all
}

// step is a step of worker i. It returns false if there is none.
func (m *flatModel) step(s *flatState, i int8) bool {
	w := &s.workers[i]
	switch w.phase {
	case flatIdle:
		if s.next == m.items || m.ordered && s.next-s.head == m.workers+m.buffer {
			return false
		}
		*w = flatWorker{phase: flatAtGate, item: s.next}
		s.next++
	case flatAtGate:
		if m.used(s) >= m.slots {
			return false
		}
		w.phase = flatInF
	case flatInF:
		if w.made == m.results {
			w.phase = flatHandsOn
			break
		}
		if m.rule == ruleKeep {
			for w.made++; w.gone < w.made && m.place(s, i); {
			}
			break
		}
		if m.place(s, i) {
			w.made++
		} else if m.rule == ruleWait {
			return false
		} else {
			w.phase, w.bare = flatOutside, true
		}
	case flatOutside:
		if !m.place(s, i) {
			return false
		}
		w.made++
		w.phase = flatInF
	case flatHandsOn:
		switch {
		case w.gone < w.made:
			return m.place(s, i)
		case !m.ordered:
			w.phase = flatIdle
		default:
			s.finished[w.item] = true
			w.phase = flatIdle
			if !s.flusher() {
				w.phase = flatFlushing
			}
		}
	case flatFlushing:
		switch {
		case s.head == s.next || s.ring[s.head] == 0 && !s.finished[s.head]:
			w.phase = flatIdle
		case s.ring[s.head] == 0:
			s.head++
		case s.out < m.buffer:
			s.ring[s.head]--
			s.out++
		default:
			return false
		}
	}
	return true
}

func (m *flatModel) over(s *flatState) bool {
	for _, w := range s.workers {
		if w.phase != flatIdle {
			return false
		}
	}
	return s.next == m.items && (!m.ordered || s.head == m.items) && s.out+s.atGate+s.later == 0
}

// explore looks at every state that can be reached.
func (m *flatModel) explore() {
	seen := map[flatState]bool{{}: true}
	for todo := []flatState{{}}; len(todo) > 0; {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		calls, kept := int(s.later), 0
		for _, w := range s.workers {
			if w.phase == flatInF {
				calls++
			}
			kept += int(w.made - w.gone)
		}
		m.most, m.kept = max(m.most, calls), max(m.kept, kept)
		after := m.steps(s)
		if len(after) == 0 && !m.over(&s) {
			m.stuck++
		}
		for _, s := range after {
			if !seen[s] {
				seen[s] = true
				todo = append(todo, s)
			}
		}
	}
}

// models returns the models that are explored: with few items, as a larger stage has states like
// these, only more of them.
func (r flatRule) models() (all []*flatModel) {
	for i := range int8(1 << 6) {
		bit := func(n int) int8 { return i >> n & 1 }
		m := &flatModel{
			rule: r, ordered: bit(0) == 1, workers: 2 + bit(1), slots: 1 + bit(2),
			buffer: 1 + bit(3), results: 1 + 2*bit(4), later: 2 * bit(5), items: 3,
		}
		if m.workers == 3 { // or there are too many states for a test
			m.buffer, m.later = 1, min(m.later, 1)
			m.results = min(m.results, 2-m.later)
			if i>>3&1 == 1 {
				continue // was there with the other buffer
			}
		}
		all = append(all, m)
	}
	return all
}

// Inside the gate nothing of the library waits for another stage: with that rule no state is
// stuck, and no slot is used twice. Each of the others breaks one of the two.
func TestModelOfGatedFlatMap(t *testing.T) {
	for _, m := range ruleKeep.models() {
		m.explore()
		if m.stuck > 0 || m.most > int(m.slots) || m.kept > int(m.workers*m.results) {
			t.Errorf("the rule does not hold: %+v", *m)
		}
	}
	for _, m := range ruleWait.models() {
		if m.explore(); m.stuck == 0 && m.ordered && m.workers > m.slots && m.results > m.buffer && m.later == 0 {
			t.Errorf("the model does not find the known deadlock: %+v", *m)
		}
		if m.stuck == 0 && m.workers > m.slots && m.results == 3 && m.buffer == 1 && m.later > 0 {
			t.Errorf("the model does not find the deadlock with a later stage: %+v", *m)
		}
	}
	m := ruleLeave.models()[0]
	if m.explore(); m.stuck > 0 || m.most <= int(m.slots) {
		t.Errorf("leaving is stuck, or uses no slot twice: %+v", *m)
	}
}
