package strictapi

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A Phase is a limit that comes into force at an instant. See [Phases].
type Phase struct {
	From  time.Duration // the instant, which is the first of the phase
	Limit Limit
}

// Phases is a limit that changes: first is in force from the epoch on, and each of the later ones from
// its own instant on.
//
// What it advertises changes at the same instants; for a change that no client is told of, see
// [Advertise]. Policy returns that of first.
//
// A change is no fresh start. Every call let through before it counts as if the limit had been there
// from the beginning: where that is more than the limit holds, it is full, and no fuller. (A Limit
// from outside this package is asked for such calls like for any other, and its verdict ignored.)
//
// A refusal knows nothing of the phases to come: its Reset, and so Retry-After, is what the limit in
// force would hold to. After a limit went down, a client that waited as told can be refused again.
// That is no strike.
//
// It panics if a limit is nil, or if the instants are not positive and ascending.
func Phases(first Limit, later ...Phase) Limit {
	if first == nil {
		panic("strictapi: Phases: first must not be nil")
	}
	l := phases{{Limit: first}}
	for _, p := range later {
		if before := l[len(l)-1].From; p.From <= before {
			panic(fmt.Sprintf("strictapi: Phases: From must be after %v, got %v", before, p.From))
		}
		if p.Limit == nil {
			panic(fmt.Sprintf("strictapi: Phases: the Limit from %v on must not be nil", p.From))
		}
		l = append(l, p)
	}
	return l
}

// phases is never empty and never changes. The first one is from 0 on.
type phases []Phase

func (l phases) Policy() (int, time.Duration) { return l[0].Limit.Policy() }

func (l phases) policyAt(now time.Duration) (int, time.Duration) {
	return policyAt(l[l.at(now)].Limit, now)
}

func (l phases) shortestSpan() time.Duration {
	shortest := forever
	for _, p := range l {
		shortest = min(shortest, shortestSpan(p.Limit))
	}
	return shortest
}

func (l phases) Meter(tolerance time.Duration) Meter {
	m := &phasesMeter{phases: l, meters: make([]Meter, len(l))}
	for i, p := range l {
		m.meters[i] = p.Limit.Meter(tolerance)
	}
	return m
}

// at returns which phase the instant now is in.
func (l phases) at(now time.Duration) int {
	i, found := slices.BinarySearchFunc(l, now, func(p Phase, now time.Duration) int { return cmp.Compare(p.From, now) })
	if !found {
		i--
	}
	return i
}

type phasesMeter struct {
	phases phases
	meters []Meter // those of past phases are out of date
}

func (m *phasesMeter) Take(now time.Duration) Verdict {
	i := m.phases.at(now)
	v := m.meters[i].Take(now)
	if v.OK {
		for _, later := range m.meters[i+1:] {
			note(later, now)
		}
	}
	return v
}

func (m *phasesMeter) note(now time.Duration) {
	for _, meter := range m.meters[m.phases.at(now):] {
		note(meter, now)
	}
}

// note has a meter count a call that another one let through, whether it would have or not.
func note(m Meter, now time.Duration) {
	if n, ok := m.(interface{ note(now time.Duration) }); ok {
		n.note(now)
		return
	}
	m.Take(now)
}

// policyAt returns what a limit advertises at the instant now.
func policyAt(l Limit, now time.Duration) (n int, span time.Duration) {
	if l, ok := l.(interface {
		policyAt(now time.Duration) (int, time.Duration)
	}); ok {
		return l.policyAt(now)
	}
	return l.Policy()
}

// shortestSpan returns the shortest of the spans that a limit and its parts have.
func shortestSpan(l Limit) time.Duration {
	if l, ok := l.(interface{ shortestSpan() time.Duration }); ok {
		return l.shortestSpan()
	}
	_, span := l.Policy()
	return span
}
