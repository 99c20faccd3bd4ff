package queue

import (
	"sync"
	"sync/atomic"
)

// Group is the lock of all limits that are, directly or through others, wanted by a common Set. Under
// it their whole state stands still, so that an entry can be admitted by all of its limits at once.
//
// Nothing blocks while it is held. Clocks are read under it, so that instants are in the order of the
// decisions. Whatever changes under the lock marks the queues at which a head may go because of that. They
// are looked at before the lock is released, once for all changes.
type Group struct {
	mu     sync.Mutex
	number uint64   // the order in which two are locked
	into   *Group   // guarded by mu, like all below: the group that this one was merged into
	seq    uint64   // arrivals so far
	marked []*Queue // to be looked at before the lock is released
	frozen []*Queue // frozen since the lock was taken
	told   *waiter  // first of the waiters that are to be woken when the lock is released
	last   *waiter  // the last of them
}

// numbers counts groups, and whatever else wants a number that is higher than earlier ones.
var numbers atomic.Uint64

// Number returns a number that is higher than those of all queues so far.
func Number() uint64 { return numbers.Add(1) }

// Join makes one group of those of two queues, for good. The locks of both are held for a moment, that of
// the older group first, so two calls can't wait for each other. Goroutines that wait for the lock that
// goes out of use go on to the other one, see Queue.lock.
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
		}
		gb.mu.Unlock()
		ga.mu.Unlock()
		if joined {
			return
		}
	}
}

// root returns the group that the queue belongs to at some instant.
func (q *Queue) root() *Group {
	g := q.lock()
	g.mu.Unlock()
	return g
}

// lock locks the group that the queue belongs to, and returns it. The group may have been merged into
// another since the queue last looked: then the way leads there, and is noted for the next time.
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

// unlock admits all heads that can go after what has changed, releases the lock, and wakes the callers
// that have met their fate. A limit is thawed if no head is parked at it, and no caller of an entry that
// has waited for it has yet to run.
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
		next := w.next // w belongs to its caller as soon as that is woken
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

// run looks at the marked queues until none is. Of the heads that are parked there, the one that came
// first is next, at whichever queue it is: two heads that both could go would race otherwise. A look can
// mark other queues, but each either ends the wait of a head or leaves one queue unmarked.
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
		q.marked = false // not before: it is looked at until a head must wait
	}
}

// before reports whether the first head parked at q came before that at o.
func (q *Queue) before(o *Queue) bool {
	return len(q.parked) > 0 && (len(o.parked) == 0 || q.parked[0].seq() < o.parked[0].seq())
}

// look is one look at the heads that wait.
type look struct {
	set *Set // the one that the clock was last read for
	now int64
}

// step looks at the first head that is parked at q. It reports whether the head is not parked there any
// more: it was admitted, refused, or moved to a limit that can't admit it at this instant. Otherwise
// the alarm of q is set for the head, if time can help it.
func (l *look) step(g *Group, q *Queue) bool {
	if len(q.parked) == 0 {
		q.rest()
		q.freeze(g) // so that it is thawed
		return false
	}
	p := q.parked[0]
	s, w := p.set, p.set.head
	if s != l.set {
		l.now, l.set = s.read(g), s
	}
	now := l.now
	since := max(s.since, s.from(p, now))
	due := q.limit.Due(now, since, 0, w.claims()[p.number].Cost)
	if due > now {
		if due >= w.deadline && due != Never {
			s.finish(g, w, tooLate, due-now)
			w.limit = int32(p.number)
			return true
		}
		if q.aside {
			s.relent(g, p)
		}
		q.wake(now, due, s.bell(w))
		return false
	}
	// Until then it was this limit that kept the entry back. Only lateness after this instant counts.
	s.since = max(since, due)
	blocked := s.blocked(p, now)
	switch {
	case blocked == nil:
		s.grant(g, now)
	case s.insists && blocked.q.aside:
		s.relent(g, blocked)
		g.mark(blocked.q)
	case s.insists:
		// It is parked there, too, at a queue whose alarm may be unset: another entry has just taken
		// what it would have had.
		g.mark(blocked.q)
		q.rest()
		return false
	default:
		s.move(g, p, blocked)
	}
	return true
}
