package redisgate

import (
	"math"
	"time"

	"github.com/escapement-go/escapement/gate"
)

// unknownLeft is the Left of a gate that can't tell.
const unknownLeft = -1

// Interval returns the time between two entries of an adaptive limit, as last reported by Redis. It
// is 0 if no limit is adaptive.
func (g *Gate) Interval() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.interval
}

// Name returns the key as it was given to [New], or the name that [gate.Named] has given this member.
func (g *Gate) Name() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.name
}

// SetName is called by [gate.Named]. The name is that of this member alone: processes share a gate by its key.
func (g *Gate) SetName(name string) {
	g.mu.Lock()
	g.name = name
	g.mu.Unlock()
}

// Plan returns what this member was made with, for [gate.PlanOf]. While there are two versions of the limits, the lower
// of both may count. A single limit has the kind "strict", "rate", "window", "concurrency" or "adaptive". Of several, the
// kind is "all" and the members are the limits in words, such as "a Window of 500 per 1m0s".
func (g *Gate) Plan() gate.Plan {
	if len(g.limits) == 1 {
		p := g.limits[0].asked()
		if p.Kind == "adaptive" {
			p.Interval = g.Interval()
		}
		return p
	}
	p := gate.Plan{Kind: "all"}
	for _, l := range g.limits {
		p.Members = append(p.Members, l.plan)
	}
	return p
}

// String returns the gate in one line, for logs: its name, its plan, and what this member does now. An example is
// "api: 100 in any 1s, 37 waiting, next in 8ms".
func (g *Gate) String() string { return gate.Explain(g).String() }

// Stats returns the statistics of this member. What others do is not in them:
//
//	Granted, Refused, Abandoned  the entries of this process, with those of the fallback
//	Waiting                      … that wait now
//	InUse                        units that its entries hold; 0 without a limit of concurrency
//	Left                         0 during a hold, else -1: other processes take from it, so it is not known
//	NextDue                      until the first waiter is due, as last heard from Redis; without a waiter 0, or HeldFor
//	HeldFor                      the rest of a hold, as far as this process has heard
//	Idle                         no entry waits here or holds units, and there is no hold; tokens may be missing in Redis
//
// The other fields are 0.
func (g *Gate) Stats() gate.Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := instant()
	s := g.stats
	s.Waiting = g.queue.count
	if g.ttl > 0 {
		s.InUse = g.units.inside
	}
	s.HeldFor = time.Duration(max(0, g.link.held-now))
	if s.HeldFor > longest/2 {
		s.HeldFor = math.MaxInt64
	}
	if s.HeldFor == 0 {
		s.Left = unknownLeft
	}
	switch {
	case g.queue.slots.count > 0:
		s.NextDue = time.Duration(max(0, g.queue.slots.first.of.from-now))
	case s.Waiting > 0:
		s.NextDue = time.Duration(max(0, g.link.due-now))
	}
	s.NextDue = max(s.NextDue, s.HeldFor)
	s.Idle = s.Waiting == 0 && s.InUse == 0 && s.HeldFor == 0
	return s
}
