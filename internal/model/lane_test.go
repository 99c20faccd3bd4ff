package model

import (
	"fmt"
	"slices"
	"time"
)

const century = 100 * 365 * 24 * int64(time.Hour)

// want is an entry that waits.
type want struct {
	id, gate, cost int
	deadline       int64 // never if it has none
	arrived        int64
	cancelled      bool
}

// outcome is what became of an entry.
type outcome struct {
	id   int
	at   int64
	kind string // granted, late (a DeadlineError), large (a CapacityError), done (its context)
	wait int64  // in the DeadlineError
	// least is the shortest wait that outlasts the deadline.
	least int64
}

func (o outcome) String() string {
	if o.kind == "late" {
		return fmt.Sprintf("#%d refused at %d with a DeadlineError, wait %d", o.id, o.at, o.wait)
	}
	return fmt.Sprintf("#%d %s at %d", o.id, map[string]string{
		"granted": "admitted", "large": "refused with a CapacityError", "done": "got its context's error"}[o.kind], o.at)
}

// lane foretells the outcome of every entry of one queue, first come, first served.
type lane struct {
	leaves []leaf
	queue  []*want
	now    int64
	want   []outcome // not yet compared
	counts counts
	seen   map[int]outcome // what happened since the last comparison
	// judged says that the plan has just changed, so that all deadlines are looked at.
	judged bool
}

// counts are those of Stats.
type counts struct{ granted, refused, abandoned uint64 }

// plan returns when each of the queue is admitted if nothing else happens, and which are
// refused at once. Nothing is known from the first unknown on.
//
// Where entries must leave, the earliest instant passes by while they do not. A waiter is told so
// when it comes and when the plan changes; at any other time it may be. Until it is told, those
// behind it may count it, or not.
func (l *lane) plan() []outcome {
	leaves := cloned(l.leaves)
	var p []outcome
	at, least, most := l.now, l.now, l.now
	var without, with []leaf // those whose deadline has come out of reach
	g, _ := l.leaves[0].(*log)
	until := g != nil && g.until
	if until {
		without, with = []leaf{g.soonest(l.now)}, []leaf{g.soonest(l.now)}
	}
	for _, w := range l.queue {
		o := outcome{id: w.id, kind: "granted", at: at}
		if w.cost > capacity(leaves) {
			p = append(p, outcome{id: w.id, kind: "large", at: l.now})
			continue
		}
		if at != unknown && at != never {
			o.at = together(leaves, at, w.cost)
		}
		from, to := o.at, o.at
		if until {
			from, to = together(without, least, w.cost), together(with, most, w.cost)
		}
		s := l.seen[w.id]
		race := w.deadline == l.now && s.kind == "granted"    // a place came free at the deadline
		if to >= w.deadline && w.deadline != never && !race { // at the deadline the context is done, and wins
			told := s.kind == "late" && s.at == l.now
			must := !until || l.judged || w.arrived == l.now
			if told || must && from >= w.deadline {
				p = append(p, outcome{id: w.id, kind: "late", at: l.now, wait: to - l.now, least: w.deadline - l.now})
				continue
			}
		}
		if until {
			most = to
			charge(with, w, most)
			if from >= w.deadline && w.deadline != never && !race {
				if at != unknown {
					at = max(at, w.deadline)
				}
				p = append(p, outcome{id: w.id, kind: "granted", at: unknown})
				continue
			}
			least = from
			charge(without, w, least)
		}
		at = o.at
		if at != unknown && at != never {
			charge(leaves, w, at)
		}
		p = append(p, o)
	}
	return p
}

func cloned(leaves []leaf) []leaf {
	var c []leaf
	for _, f := range leaves {
		c = append(c, f.clone())
	}
	return c
}

func capacity(leaves []leaf) int {
	c := int(^uint(0) >> 1)
	for _, f := range leaves {
		c = min(c, f.capacity())
	}
	return c
}

// together returns the first instant at which all leaves have room.
func together(leaves []leaf, now int64, cost int) int64 {
	for again := true; again; {
		again = false
		for _, f := range leaves {
			at := f.when(now, cost)
			if at == unknown || at == never {
				return at
			}
			if at > now {
				now, again = at, true
			}
		}
	}
	return now
}

// charge takes the cost from all leaves.
func charge(leaves []leaf, w *want, at int64) {
	for _, f := range leaves {
		f.take(at, w.id, w.cost)
	}
}

// enter is what an entry does that waits; it has been counted when rest returns.
func (l *lane) enter(w *want) { l.queue = append(l.queue, w) }

// try returns whether a TryEnter gets in, and charges it then.
func (l *lane) try(id, cost int) bool {
	if len(l.queue) > 0 || cost > capacity(l.leaves) || together(l.leaves, l.now, cost) != l.now {
		l.counts.refused++
		return false
	}
	charge(l.leaves, &want{id: id, cost: cost}, l.now)
	l.counts.granted++
	return true
}

// rest decides what happens without any time passing.
func (l *lane) rest() {
	for i := 0; i < len(l.queue); {
		w := l.queue[i]
		s, ok := l.seen[w.id]
		switch {
		case w.cancelled, w.deadline == l.now && ok && s.kind == "done":
			l.ends(w, outcome{id: w.id, kind: "done", at: l.now})
		default:
			i++
		}
	}
	for _, o := range l.plan() {
		w := l.find(o.id)
		switch {
		case o.kind == "granted" && o.at == l.now:
			charge(l.leaves, w, l.now)
			l.ends(w, o)
		case o.kind != "granted":
			l.ends(w, o)
		}
	}
	for i := 0; i < len(l.queue); {
		if w := l.queue[i]; w.deadline <= l.now {
			l.ends(w, outcome{id: w.id, kind: "done", at: l.now})
		} else {
			i++
		}
	}
	l.judged = false
}

func (l *lane) find(id int) *want {
	i := slices.IndexFunc(l.queue, func(w *want) bool { return w.id == id })
	return l.queue[i]
}

func (l *lane) ends(w *want, o outcome) {
	l.queue = slices.DeleteFunc(l.queue, func(x *want) bool { return x == w })
	l.want = append(l.want, o)
	switch o.kind {
	case "granted":
		l.counts.granted++
	case "done":
		l.counts.abandoned++
	default:
		l.counts.refused++
	}
}

// next returns the instant at which something happens by itself.
func (l *lane) next() int64 {
	next := int64(never)
	for _, o := range l.plan() {
		if o.at != unknown && o.kind == "granted" {
			next = min(next, o.at)
		}
	}
	for _, w := range l.queue {
		next = min(next, w.deadline)
		if s := l.seen[w.id]; s.kind == "late" && s.at > l.now {
			next = min(next, s.at)
		}
	}
	return next
}

// advance lets time pass.
func (l *lane) advance(to int64) {
	for at := l.next(); at <= to; at = l.next() {
		l.now = at
		l.rest()
	}
	l.now = to
}

// due returns when an entry of that cost would be admitted that came now.
func (l *lane) due(cost int) int64 {
	l.queue = append(l.queue, &want{id: -1, cost: cost, deadline: never})
	p := l.plan()
	l.queue = l.queue[:len(l.queue)-1]
	return p[len(p)-1].at
}

// compare returns how what was seen differs from what was foretold.
func (l *lane) compare() error {
	seen := l.seen
	var wrong []string
	for _, o := range l.want {
		s, ok := seen[o.id]
		if o.kind == "late" && s.kind == "late" && o.least <= s.wait && s.wait <= o.wait {
			s.wait = o.wait // it is what the wait is at least
		}
		s.least = o.least
		if !ok {
			wrong = append(wrong, fmt.Sprintf("want %v; it waits", o))
		} else if s != o {
			wrong = append(wrong, fmt.Sprintf("want %v; got %v", o, s))
		}
		delete(seen, o.id)
	}
	l.want = nil
	for _, s := range seen {
		wrong = append(wrong, fmt.Sprintf("want #%d to wait; got %v", s.id, s))
	}
	if wrong == nil {
		return nil
	}
	return fmt.Errorf("%q", wrong)
}
