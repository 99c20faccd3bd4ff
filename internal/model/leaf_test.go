package model

import (
	"math"
	"math/big"
	"slices"
)

// never is the instant of what does not happen, and unknown that of what cannot be known.
const (
	never   = math.MaxInt64
	unknown = -1
)

// A leaf is the model of a plain gate. Instants are nanoseconds since the bubble began, and
// never run backward.
type leaf interface {
	// capacity returns the highest cost that is ever admitted.
	capacity() int
	// when returns the first instant from now on at which there is room for the cost, if
	// nothing else happens. It is unknown where only a Leave brings it.
	when(now int64, cost int) int64
	// take charges an entry at now.
	take(now int64, id, cost int)
	// settle changes the cost of an entry that was charged.
	settle(now int64, id, actual int)
	// leave ends an entry.
	leave(now int64, id int)
	// inUse and idle are what Stats has.
	inUse(now int64) int
	idle(now int64) bool
	heldFor(now int64) int64
	hold(now, d int64)
	// resume ends a hold now, or later if another one goes on until then.
	resume(now, until int64)
	clone() leaf
}

// slots is the model of a Concurrency.
type slots struct {
	n     int
	taken map[int]int // cost by entry
}

func newSlots(n int) *slots { return &slots{n: n, taken: map[int]int{}} }

func (s *slots) capacity() int { return s.n }

func (s *slots) when(now int64, cost int) int64 {
	if s.inUse(now)+cost <= s.n {
		return now
	}
	return unknown
}

func (s *slots) take(_ int64, id, cost int) { s.taken[id] = cost }

func (s *slots) settle(_ int64, id, actual int) {
	if _, ok := s.taken[id]; ok {
		s.taken[id] = actual
	}
}

func (s *slots) leave(_ int64, id int) { delete(s.taken, id) }

func (s *slots) inUse(int64) int {
	sum := 0
	for _, c := range s.taken {
		sum += c
	}
	return sum
}

func (s *slots) idle(now int64) bool { return s.inUse(now) == 0 }
func (s *slots) heldFor(int64) int64 { return 0 }
func (s *slots) hold(int64, int64)   { panic("a Concurrency has no Hold") }
func (s *slots) resume(int64, int64) { panic("a Concurrency has no Resume") }
func (s *slots) clone() leaf {
	c := newSlots(s.n)
	for id, cost := range s.taken {
		c.taken[id] = cost
	}
	return c
}

// log is the model of a Window: an entry counts from its grant until just before a span
// later, or until a span after it was left.
type log struct {
	n       int
	span    int64 // the guard included
	guard   int64
	until   bool // an entry counts until a span after its answer
	held    int64
	entries []logged // in the order in which their spans began
}

type logged struct {
	id, cost int
	at       int64 // when its span began; never: it is under way
}

func (l *log) capacity() int { return l.n }

func (l *log) when(now int64, cost int) int64 {
	now = max(now, l.held)
	sum := l.inUse(now)
	if sum+cost <= l.n {
		return now
	}
	for _, e := range l.entries {
		if free := add(e.at, l.span); free > now && e.at != never {
			if sum -= e.cost; sum+cost <= l.n {
				return free
			}
		}
	}
	if cost <= l.n {
		return unknown // until some more have left
	}
	return never
}

func (l *log) take(now int64, id, cost int) {
	if l.until {
		now = never
	}
	l.entries = append(l.entries, logged{id, cost, now})
}

func (l *log) settle(_ int64, id, actual int) {
	for i := range l.entries {
		if l.entries[i].id == id {
			l.entries[i].cost = actual
		}
	}
}

func (l *log) leave(now int64, id int) {
	i := slices.IndexFunc(l.entries, func(e logged) bool { return e.id == id && e.at == never })
	if i >= 0 {
		e := l.entries[i]
		l.entries = append(slices.Delete(l.entries, i, i+1), logged{id, e.cost, now})
	}
}

// setLimit changes the limit. What has ceased to count does not come back.
func (l *log) setLimit(now int64, n int, span int64) {
	l.entries = slices.DeleteFunc(l.entries, func(e logged) bool { return add(e.at, l.span) <= now })
	l.n, l.span = n, add(span, l.guard)
}

// soonest returns the log if every entry leaves as early as can be: at now, or with its grant.
func (l *log) soonest(now int64) *log {
	c := l.clone().(*log)
	for _, e := range l.entries {
		c.leave(now, e.id)
	}
	c.until = false
	return c
}

func (l *log) inUse(now int64) int {
	sum := 0
	for _, e := range l.entries {
		if add(e.at, l.span) > now {
			sum += e.cost
		}
	}
	return sum
}

func (l *log) idle(now int64) bool     { return l.inUse(now) == 0 && l.held <= now }
func (l *log) heldFor(now int64) int64 { return max(0, l.held-now) }

func (l *log) hold(now, d int64) {
	if d > 0 {
		l.held = max(l.held, add(now, d))
	}
}

func (l *log) resume(now, until int64) { l.held = min(l.held, max(now, until)) }

func (l *log) clone() leaf {
	c := *l
	c.entries = append([]logged(nil), l.entries...)
	return &c
}

// add is a+b, or never where that is too much.
func add(a, b int64) int64 {
	if a > never-b {
		return never
	}
	return a + b
}

// roundUp returns the first whole number not below x.
func roundUp(x *big.Rat) *big.Int {
	q, r := new(big.Int).QuoRem(x.Num(), x.Denom(), new(big.Int))
	if r.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	return q
}

// ceil is roundUp, or never where that is too much.
func ceil(x *big.Rat) int64 {
	q := roundUp(x)
	if !q.IsInt64() {
		return never
	}
	return q.Int64()
}
