//go:build unix

package redisgate_test

import (
	"fmt"
	"hash/maphash"
	"math/bits"
	"slices"
	"testing"
)

// This is the protocol of slots in small, as PROTOCOL.md has it, and a search through all that can happen to it: three
// members, each with one call under way and one slot in hand, whose requests and answers are delayed and lost and whose
// processes crash, and a server whose state is lost or runs out. Time goes in ticks. All instants of a world are
// relative to now, and those that mean nothing any more are cut off, so the worlds are finite.
//
// A bucket of burst 1 has a slot each interval. A slot may be used for late after it, and is at most horizon away.
// So two grants are at least interval - late apart.
const (
	tickInterval = 3
	tickLate     = 1
	tickHorizon  = 2
	longGone     = -9
)

// smallRules are the parts of the protocol that the search can leave out, to see that it finds what they are for.
type smallRules struct {
	noGrace      bool // a state that is lost begins with a full bucket
	trustsAbsent bool // a state that is not there has run out, whatever the key that is shared by all gates says
	noUntil      bool // an answer counts however late it comes
	runsOutEarly bool // the state runs out with its last slot, and not when the bucket is full again
	keepsBack    bool // a member uses a slot that it has given back
	keepsUnused  bool // … or of which it has said, when its instant had come, that it was not used
	neverAsks    bool // quick calls go by what the server was called once, however long ago
}

// flight is a call under way.
type flight struct {
	phase    int8 // 0: none, 1: not executed yet, 2: answered
	age      int8 // since it was sent
	epoch    int8 // that the member knew
	back     bool // it gives a slot back, and asks for none
	slot     int8 // what it gives back, or gets
	got      bool // it gets a slot
	executed int8 // how long ago, in phase 2
	answer   int8 // the epoch of the answer
	orphan   bool // its member has crashed since, or has given it up
}

// smallMember is one member.
type smallMember struct {
	epoch       int8
	has         bool
	from, until int8 // of the slot in hand
	slot        int8
	of          int8 // the epoch of that slot
	call        flight
}

// world is all that matters.
type world struct {
	members [3]smallMember

	there     bool // the server has a state
	lost      bool // … or had one that was lost
	life      bool // the server has the key that is shared by all gates, from long ago
	epoch     int8
	next      int8 // the first slot that is free
	last      int8 // the newest slot
	back      int8 // a slot that was given back
	hasBack   bool
	grant     int8 // the last grant
	newest    int8 // the newest epoch of all
	losses    int8 // so many may still come
	crashes   int8
	mistakes  int8 // answers and requests that may still be lost
	callsLeft int8

	// A server that was the master, then a replica, and is the master again: its data has another name. Quick calls have asked
	// for the old one until the moment at which it lost that role, and may go by it.
	away  bool  // the other server is the master
	aside small // what the first one has meanwhile
	stale bool  // the first one is back, and what it has is from before
	named int8  // how long ago quick calls have asked
	backs int8  // so many times the first one may still come back
}

// small is the state of a server that is not the master.
type small struct {
	there, hasBack    bool
	lost, life        bool
	epoch, next, last int8
	back              int8
}

// longAsked is how long ago it does not matter any more.
const longAsked = tickHorizon + 1

func past(x int8) int8 { return max(x-1, longGone) }

// tick lets time pass.
func (w world) tick() world {
	w.next, w.last, w.back, w.grant = past(w.next), past(w.last), past(w.back), past(w.grant)
	if w.hasBack && w.back < 0 {
		w.hasBack, w.back = false, 0
	}
	if w.away || w.stale {
		w.named = min(w.named+1, longAsked)
	}
	if s := &w.aside; w.away {
		s.next, s.last, s.back = past(s.next), past(s.last), past(s.back)
		if s.hasBack && s.back < 0 {
			s.hasBack, s.back = false, 0
		}
	}
	for i := range w.members {
		m := &w.members[i]
		if m.has {
			m.from, m.until, m.slot = past(m.from), past(m.until), past(m.slot)
			if m.until < 0 {
				m.has, m.from, m.until, m.slot, m.of = false, 0, 0, 0, 0
			}
		}
		if c := &m.call; c.phase > 0 {
			c.age = min(c.age+1, 5)
			c.slot = past(c.slot)
			if c.phase == 2 {
				c.executed = min(c.executed+1, 5)
			}
		}
	}
	return w
}

// execute is the script: one call, at once.
func (w world) execute(i int, r smallRules) world {
	c := &w.members[i].call
	if w.stale {
		if n, ok := w.quick(i, r); ok {
			return n
		}
		w.there, w.lost, w.stale, w.named = false, true, false, 0
	}
	if !w.there {
		grace := w.lost || !w.life
		if c.epoch == 0 && r.trustsAbsent || r.noGrace {
			grace = false
		}
		w.there, w.lost, w.life, w.hasBack, w.back = true, false, true, false, 0
		w.newest++
		w.epoch = w.newest
		w.last, w.next = longGone, longGone
		if grace {
			w.last = tickHorizon + tickLate
			w.next = w.last + tickInterval
		}
	}
	if c.back {
		if c.slot > 0 && c.epoch == w.epoch {
			w.hasBack, w.back = true, c.slot
		} else if c.epoch == w.epoch && c.slot == w.last {
			w.next = w.last // as if it had not been taken; a later one has found the bucket full
		}
		c.got = false
	} else if s := max(0, w.next, w.last); w.hasBack {
		c.got, c.slot = true, w.back
		w.hasBack, w.back = false, 0
	} else if s <= tickHorizon {
		c.got, c.slot = true, s
		w.last, w.next = s, s+tickInterval
	}
	c.phase, c.executed, c.answer = 2, 0, w.epoch
	return w
}

// quick is a quick call on a server that is back, and goes by its old name. It reports false if the script follows. On all
// other states, it does what the script does.
func (w world) quick(i int, r smallRules) (world, bool) {
	c := &w.members[i].call
	if c.back || w.hasBack || w.named >= tickHorizon && !r.neverAsks || c.epoch != 0 && c.epoch != w.epoch {
		return w, false
	}
	if !w.there {
		if w.lost || !w.life {
			return w, false
		}
		w.there = true
		w.newest++
		w.epoch = w.newest
		w.last, w.next = longGone, longGone
	}
	s := max(0, w.next, w.last)
	if s > tickHorizon || s+w.named > tickHorizon && !r.neverAsks {
		return w, false
	}
	w.last, w.next = s, s+tickInterval
	c.got, c.slot, c.phase, c.executed, c.answer = true, s, 2, 0, w.epoch
	return w, true
}

// take is the member that gets its answer.
func (w world) take(i int, r smallRules) world {
	m := &w.members[i]
	c := m.call
	m.call = flight{}
	if c.orphan {
		return w
	}
	m.epoch = c.answer
	if c.got && !m.has {
		// It counts a delay from the arrival of the answer, and drops the slot late after the delay from the sending.
		delay := c.slot + c.executed
		from, until := delay, delay-c.age+tickLate
		if r.noUntil {
			until = delay + tickLate
		}
		if from <= until {
			m.has, m.from, m.until, m.slot, m.of = true, from, until, c.slot, c.answer
		}
	}
	return w
}

// smallEvent is what leads from one world to the next.
type smallEvent struct {
	what   string
	member int
}

func (e smallEvent) String() string { return fmt.Sprintf("%s, member %d", e.what, e.member) }

// granted is the event that the search is about.
const granted = "a grant"

// steps calls f with all worlds that may come next, and what has led there.
func (w *world) steps(r smallRules, f func(what smallEvent, next world)) {
	f(smallEvent{"a tick", 0}, w.tick())
	if w.there && w.losses > 0 {
		n := *w
		n.there, n.lost, n.losses = false, false, w.losses-1
		n.life = false // a flush takes it along
		f(smallEvent{"a flush", 0}, n)
		n.lost, n.life = true, w.life
		f(smallEvent{"a failover", 0}, n)
	}
	if w.backs > 0 && !w.away && !w.stale {
		n := *w
		n.aside = small{w.there, w.hasBack, w.lost, w.life, w.epoch, w.next, w.last, w.back}
		n.there, n.hasBack, n.back, n.lost = false, false, 0, true
		n.away, n.named, n.backs = true, 0, w.backs-1
		f(smallEvent{"the other server is the master", 0}, n)
	}
	if w.away {
		n := *w
		n.there, n.hasBack, n.epoch, n.next, n.last, n.back = w.aside.there, w.aside.hasBack, w.aside.epoch, w.aside.next, w.aside.last, w.aside.back
		n.lost, n.life = w.aside.lost, w.aside.life
		n.away, n.aside, n.stale = false, small{}, true
		f(smallEvent{"the first server is back", 0}, n)
	}
	if ends := max(w.last+tickLate, w.next); w.there && (ends < 0 || r.runsOutEarly && w.last < 0) {
		n := *w
		n.there = false
		f(smallEvent{"the state runs out", 0}, n)
	}
	for i, m := range w.members {
		if m.has && m.from <= 0 {
			n := *w
			n.grant = 0
			n.members[i].has, n.members[i].from, n.members[i].until, n.members[i].slot, n.members[i].of = false, 0, 0, 0, 0
			f(smallEvent{granted, i}, n)
		}
		switch m.call.phase {
		case 0:
			if w.callsLeft == 0 {
				break
			}
			n := *w
			n.callsLeft--
			if !m.has {
				n.members[i].call = flight{phase: 1, epoch: m.epoch}
				f(smallEvent{"a question", i}, n)
			} else if m.slot > 0 {
				n.members[i].call = flight{phase: 1, epoch: m.of, back: true, slot: m.slot}
				if !r.keepsBack {
					n.members[i].has, n.members[i].from, n.members[i].until, n.members[i].slot, n.members[i].of = false, 0, 0, 0, 0
				}
				f(smallEvent{"a slot is given back", i}, n)
			} else {
				n.members[i].call = flight{phase: 1, epoch: m.of, back: true, slot: m.slot}
				if !r.keepsUnused {
					n.members[i].has, n.members[i].from, n.members[i].until, n.members[i].slot, n.members[i].of = false, 0, 0, 0, 0
				}
				f(smallEvent{"a slot was not used", i}, n)
			}
		case 1:
			f(smallEvent{"the server hears", i}, w.execute(i, r))
			if w.mistakes > 0 {
				n := *w
				n.mistakes--
				n.members[i].call = flight{}
				f(smallEvent{"a question is lost", i}, n)
			}
		case 2:
			f(smallEvent{"an answer", i}, w.take(i, r))
			if w.mistakes > 0 {
				n := *w
				n.mistakes--
				n.members[i].call = flight{}
				f(smallEvent{"an answer is lost", i}, n)
			}
		}
		if w.crashes > 0 {
			n := *w
			n.crashes--
			c := m.call
			c.orphan = c.phase > 0
			n.members[i] = smallMember{call: c}
			f(smallEvent{"a crash", i}, n)
		}
	}
}

// same returns the world with its members in order, and epochs that none can tell apart made alike: members do not
// differ but in what they know.
func (w world) same() world {
	used := uint64(1)<<w.epoch | 1<<w.aside.epoch | 1
	for i := range w.members {
		m := &w.members[i]
		used |= 1<<m.epoch | 1<<m.of | 1<<m.call.epoch | 1<<m.call.answer
	}
	rank := func(e int8) int8 { return int8(bits.OnesCount64(used & (1<<e - 1))) }
	for i := range w.members {
		m := &w.members[i]
		m.epoch, m.of, m.call.epoch, m.call.answer = rank(m.epoch), rank(m.of), rank(m.call.epoch), rank(m.call.answer)
	}
	w.epoch, w.aside.epoch = rank(w.epoch), rank(w.aside.epoch)
	w.newest = int8(bits.OnesCount64(used) - 1)
	var keys [3]uint64
	for i := range keys {
		keys[i] = w.members[i].key()
	}
	swap := func(i, j int) {
		if keys[i] > keys[j] {
			keys[i], keys[j] = keys[j], keys[i]
			w.members[i], w.members[j] = w.members[j], w.members[i]
		}
	}
	swap(0, 1)
	swap(1, 2)
	swap(0, 1)
	return w
}

// key is a number of its own for each member.
func (m *smallMember) key() uint64 {
	c := &m.call
	n := uint64(0)
	for _, x := range [...]int8{m.epoch, m.from, m.until, m.slot, m.of, c.phase, c.age, c.epoch, c.slot, c.executed, c.answer} {
		n = n*23 + uint64(x-longGone)
	}
	for _, b := range [...]bool{m.has, c.back, c.got, c.orphan} {
		n *= 2
		if b {
			n++
		}
	}
	return n
}

// search goes through all worlds, and returns how many there are and the way to one with two grants too close together.
// It remembers the hashes of worlds, of 64 bits. That two of some million are alike is less likely than one in a million.
func search(r smallRules, first world, most int) (worlds int, way []smallEvent) {
	first.life, first.grant = true, longGone
	type step struct {
		from   int32 // the number of the world before
		what   uint8 // the number of the kind of event
		member uint8
	}
	type numbered struct {
		world
		number int32
	}
	seed := maphash.MakeSeed()
	steps := []step{{from: -1}}
	came := map[uint64]struct{}{maphash.Comparable(seed, first.same()): {}}
	var kinds []string
	next := []numbered{{first.same(), 0}}
	for len(next) > 0 && len(way) == 0 && len(steps) <= most {
		now := next
		next = nil
		for i := range now {
			w := &now[i]
			w.steps(r, func(what smallEvent, then world) {
				if len(way) > 0 {
					return
				}
				if then.grant == 0 && what.what == granted && w.grant > -(tickInterval-tickLate) {
					way = []smallEvent{what}
					for at := w.number; steps[at].from >= 0; at = steps[at].from {
						way = append(way, smallEvent{kinds[steps[at].what], int(steps[at].member)})
					}
					slices.Reverse(way)
					return
				}
				then = then.same()
				hash := maphash.Comparable(seed, then)
				if _, ok := came[hash]; ok {
					return
				}
				came[hash] = struct{}{}
				kind := slices.Index(kinds, what.what)
				if kind < 0 {
					kind, kinds = len(kinds), append(kinds, what.what)
				}
				next = append(next, numbered{then, int32(len(steps))})
				steps = append(steps, step{w.number, uint8(kind), uint8(what.member)})
			})
		}
	}
	return len(steps), way
}

// In no order of events are two grants closer together than an interval less late. Each rule that is left out is missed.
//
// It is not parallel to other tests: it takes all processors for some time, and they would be late.
func TestProtocolInSmall(t *testing.T) {
	firsts := []world{{losses: 1, mistakes: 1, callsLeft: 3}, {crashes: 1, callsLeft: 3}, {losses: 1, crashes: 1, callsLeft: 2}, {backs: 1, callsLeft: 3}}
	if atFullSize() {
		firsts = []world{{losses: 1, crashes: 1, mistakes: 1, callsLeft: 4}, {losses: 2, callsLeft: 5}, {backs: 1, callsLeft: 4}}
	}
	const most = 30_000_000
	for i, first := range firsts {
		t.Run(fmt.Sprint("all rules, ", i), func(t *testing.T) {
			t.Parallel()
			worlds, way := search(smallRules{}, first, most)
			t.Logf("%d worlds", worlds)
			if len(way) > 0 {
				t.Errorf("two grants are too close: %q", way)
			}
			if worlds > most {
				t.Errorf("more than %d worlds, so not all were seen", most)
			}
		})
	}
	for what, r := range map[string]smallRules{
		"no grace after a loss":         {noGrace: true},
		"an absent state has run out":   {trustsAbsent: true},
		"late answers count":            {noUntil: true},
		"the state runs out early":      {runsOutEarly: true},
		"a slot is used and given back": {keepsBack: true},
		"an old name is good for ever":  {neverAsks: true},
		"a slot is used and is not":     {keepsUnused: true},
	} {
		first := world{losses: 1, callsLeft: 4}
		if r.neverAsks {
			first = world{backs: 1, callsLeft: 3}
		}
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			if worlds, way := search(r, first, most); len(way) == 0 {
				t.Errorf("nothing is wrong in %d worlds", worlds)
			} else {
				t.Logf("%q", way)
			}
		})
	}
}
