package queue

import (
	"sync"
	"sync/atomic"
)

// Group is the lock of all limits that have a Set in common, directly or through other limits. While it is
// held, no other goroutine changes these limits, so that an entry can be admitted by all of them at one instant.
//
// Nothing blocks while it is held. Clocks are read under it, so that instants are in the order of the
// decisions. A change under the lock marks the queues at which a head may now have room. These are looked at
// once, before the lock is released.
type Group struct {
	mu     sync.Mutex
	number uint64   // of two groups, the one with the lower number is locked first
	into   *Group   // guarded by mu, like all below: the group that this one was merged into, or nil
	seq    uint64   // arrivals so far
	marked []*Queue // to be looked at before the lock is released
	frozen []*Queue // frozen since the lock was taken
	told   *waiter  // the first of the waiters to be woken when the lock is released
	last   *waiter  // the last of them

	agendas []agenda // one for each clock
}

// numbers has the last number that Number returned.
var numbers atomic.Uint64

// Number returns a number that is higher than those of all queues so far.
func Number() uint64 { return numbers.Add(1) }

// Join merges the groups of two queues, for good. It holds both locks for a moment, that of the older group
// first, so two calls can't deadlock. Goroutines that wait for the lock of the merged group then take that of the
// other; see Queue.lock.
func Join(a, b *Queue) {
	for {
		ga, gb := a.root(), b.root()
		if ga == gb {
			return
		}
		if gb.number < ga.number {
			ga, gb = gb, ga
		}
		ga.mu.Lock()
		gb.mu.Lock()
		joined := ga.into == nil && gb.into == nil
		if joined {
			ga.seq = max(ga.seq, gb.seq)
			gb.into = ga
			ga.adopt(gb)
		}
		gb.mu.Unlock()
		ga.mu.Unlock()
		if joined {
			return
		}
	}
}

// root returns the present group of the queue. It may be merged into another one right after that.
func (q *Queue) root() *Group {
	g := q.lock()
	g.mu.Unlock()
	return g
}

// lock locks the group of the queue, and returns it. If the group has been merged into another, lock follows it
// there, and notes that group for the next time.
func (q *Queue) lock() *Group {
	g := q.group.Load()
	for {
		g.mu.Lock()
		if g.into == nil {
			return g
		}
		next := g.into
		g.mu.Unlock()
		q.group.Store(next)
		g = next
	}
}

// unlock admits all heads that now have room, releases the lock, and wakes the callers of decided entries. It
// thaws a limit if no head is parked there, and if the callers of all granted waiters are known to run.
func (g *Group) unlock() {
	g.run()
	for i, q := range g.frozen {
		q.frozen = false
		if len(q.parked) == 0 && q.out == 0 {
			q.freezer.Thaw(q.now)
		}
		g.frozen[i] = nil
	}
	g.frozen = g.frozen[:0]
	w := g.told
	g.told = nil
	g.mu.Unlock()
	for w != nil {
		next := w.next // read first: once its caller is woken, w belongs to it
		w.next = nil
		w.ready <- struct{}{}
		w = next
	}
}

// mark notes that the heads parked at q must be looked at.
func (g *Group) mark(q *Queue) {
	if !q.marked {
		q.marked = true
		g.marked = append(g.marked, q)
	}
}

// run looks at the heads of marked queues, until no queue is marked. It takes the heads of all marked queues in
// order of arrival, so that an earlier one is admitted first. A look can mark other queues. But each look ends
// the wait of a head, moves it, or unmarks a queue, so run ends.
func (g *Group) run() {
	var l look
	for len(g.marked) > 0 {
		next := 0
		for i, q := range g.marked[1:] {
			if q.before(g.marked[next]) {
				next = i + 1
			}
		}
		q := g.marked[next]
		if l.step(g, q) {
			continue
		}
		last := len(g.marked) - 1
		g.marked[next] = g.marked[last]
		g.marked = g.marked[:last]
		q.marked = false // only now: q was looked at until its first head must wait
	}
}

// before reports whether the first head parked at q came before that at o.
func (q *Queue) before(o *Queue) bool {
	return len(q.parked) > 0 && (len(o.parked) == 0 || q.parked[0].seq() < o.parked[0].seq())
}

// look is the state of one run.
type look struct {
	set *Set  // the set that the clock was last read for
	now int64 // that reading
}

// step looks at the first head that is parked at q. It reports whether q must be looked at again, because
// the head is no longer parked there. Otherwise the head must wait, and step sets the alarm of q for it, unless
// only another entry can make room.
func (l *look) step(g *Group, q *Queue) bool {
	if len(q.parked) == 0 {
		q.rest(g)
		q.freeze(g) // so that it is thawed
		return false
	}
	p := q.parked[0]
	s, w := p.set, p.set.head
	if s != l.set {
		l.now, l.set = s.read(g), s
		if g.markDue(s.clk, l.now) {
			return true // one of these may have come before this one
		}
	}
	now := l.now
	since := max(s.since, s.from(p, now))
	due := q.limit.Due(now, since, 0, w.claims()[p.number].Cost)
	if due > now {
		if due >= w.deadline && due != Never {
			s.finish(g, w, now, tooLate, due-now)
			w.limit = int32(p.number)
			return true
		}
		if q.aside {
			s.stopReserving(g, p, s.stamp(now))
		}
		q.wake(g, now, due, s.bell(w))
		return false
	}
	// This limit kept the entry back until due. Only lateness after that is made up for.
	s.since = max(since, due)
	blocked := s.blocked(p, now)
	switch {
	case blocked == nil:
		s.grant(g, now)
	case s.reserving && blocked.q.aside:
		s.stopReserving(g, blocked, s.stamp(now))
		g.mark(blocked.q)
	case s.reserving:
		// The head is parked at blocked, too. Its alarm there may be unset, if another entry has just taken
		// what the head was waiting for.
		g.mark(blocked.q)
		q.rest(g)
		return false
	default:
		s.move(g, p, blocked, s.stamp(now))
	}
	return true
}
