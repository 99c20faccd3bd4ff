package redisgate

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/escapement-go/escapement/gate"
)

// claim is what an entry takes of each limit. It is not changed once it is made.
type claim struct {
	costs  []int  // one for each limit; 0: the entry passes it by
	each   bool   // the entry came with a cost for each of several limits
	text   string // how the script gets it; claims of the same text are the same to it
	weight int    // what shares between processes are counted in
	units  int    // of the limit on concurrency
}

// claimOf returns the claim of an entry that costs the same at all limits.
func (g *Gate) claimOf(cost int) *claim {
	if cost == 1 {
		return g.one
	}
	costs := make([]int, len(g.limits))
	for i, l := range g.limits {
		costs[i] = cost
		if l.each {
			costs[i] = 1
		}
	}
	return g.newClaim(costs, false)
}

// claimOfEach returns the claim of an entry with these costs.
func (g *Gate) claimOfEach(costs []int) *claim {
	costs = slices.Clone(costs)
	for i, l := range g.limits {
		if l.each {
			costs[i] = min(costs[i], 1)
		}
	}
	return g.newClaim(costs, len(costs) > 1)
}

func (g *Gate) newClaim(costs []int, each bool) *claim {
	c := &claim{costs: costs, each: each}
	if g.unitsAtLimit >= 0 {
		c.units = costs[g.unitsAtLimit]
	}
	if !slices.ContainsFunc(costs, func(n int) bool { return n != costs[0] }) {
		c.weight, c.text = costs[0], strconv.Itoa(costs[0])
		return c
	}
	weight := 1.0
	for i, n := range costs {
		weight = max(weight, float64(n)*g.shares[i])
	}
	c.weight = int(math.Ceil(min(weight, 1<<30) - 1e-9))
	c.text = joined(c.weight, costs)
	return c
}

// joined returns the numbers as the script takes them: a weight, and one for each limit.
func joined(weight int, costs []int) string {
	var b strings.Builder
	b.WriteString(strconv.Itoa(weight))
	for _, n := range costs {
		b.WriteByte(':')
		b.WriteString(strconv.Itoa(n))
	}
	return b.String()
}

// unused returns what the script is told of a slot that was not used.
func (c *claim) unused() string {
	if !strings.Contains(c.text, ":") {
		return "-" + c.text
	}
	back := make([]int, len(c.costs))
	for i, n := range c.costs {
		back[i] = -n
	}
	return joined(-1, back)
}

// same reports whether a slot for one of the claims is one for the other, too.
func (c *claim) same(o *claim) bool { return c == o || c.text == o.text }

// plain reports whether the claim is one token of each limit.
func (c *claim) plain() bool { return c.text == "1" }

// covers reports whether c takes at least what o does, of every limit.
func (c *claim) covers(o *claim) bool {
	for i, n := range c.costs {
		if n < o.costs[i] {
			return false
		}
	}
	return true
}

// setShares works out what a token of each limit weighs in an entry with several costs. The horizon has room
// for fewest tokens of one limit, and one of these weighs 1.
func (g *Gate) setShares() {
	g.shares = make([]float64, len(g.limits))
	least := math.Inf(1)
	room := func(l *Limit) float64 {
		horizon := float64(micros(g.horizon))
		switch l.kind {
		case bucket:
			return horizon * float64(l.n) / float64(l.span)
		case window:
			return float64(l.n) * max(1, math.Floor(horizon/float64(l.span)))
		case adaptive:
			return float64(g.horizon) / float64(l.span)
		}
		return math.Inf(1) // units are counted apart
	}
	for i := range g.limits {
		least = min(least, room(&g.limits[i]))
	}
	for i := range g.limits {
		if r := room(&g.limits[i]); !math.IsInf(r, 1) {
			g.shares[i] = least / r
		}
	}
}

// tooMuch returns the error of an entry that costs more than a limit ever admits, or nil. Of several such
// limits it is the one of the lowest capacity.
func (g *Gate) tooMuch(c *claim) error {
	at := -1
	for i, n := range c.costs {
		if n > g.limits[i].capacity && (at < 0 || g.limits[i].capacity < g.limits[at].capacity) {
			at = i
		}
	}
	if at < 0 {
		return nil
	}
	return &gate.CapacityError{Cost: c.costs[at], Capacity: g.limits[at].capacity, Gate: g.which(at + 1)}
}

// which says which limit it is, counted from 1, for an error. It is "" for the only limit, and for 0.
func (g *Gate) which(limit int) string {
	if limit == 0 || len(g.limits) == 1 {
		return ""
	}
	return fmt.Sprintf("limit %d, %s", limit, g.limits[limit-1].plan)
}

// gaveUp returns the error of an entry that an adaptive limit has refused because it has given up.
func (g *Gate) gaveUp() error {
	if which := g.which(g.adaptsAtLimit + 1); which != "" {
		return fmt.Errorf("redisgate: %s: %w", which, gate.ErrGaveUp)
	}
	return gate.ErrGaveUp
}

// adapts reports whether the claim takes tokens of a limit that adapts.
func (g *Gate) adapts(c *claim) bool { return g.adaptsAtLimit >= 0 && c.costs[g.adaptsAtLimit] > 0 }

// EnterEach is Enter with one cost for each limit, in the order of [Limits]. A limit with the cost 0 is passed
// by: it takes nothing of the entry, and does not keep it back. A limit of [Each] counts 1, whatever else the
// entry costs there.
//
// Entries are admitted in order of arrival all the same. So an entry waits for those before it, also if they
// wait for a limit that it passes by.
//
// It panics if ctx is nil, the number of costs is wrong, one is negative, or all are 0.
func (g *Gate) EnterEach(ctx context.Context, costs ...int) (gate.Pass, error) {
	if ctx == nil {
		panic("redisgate: Gate.EnterEach: ctx must not be nil")
	}
	g.checkCosts("Gate.EnterEach", costs)
	return g.enter(ctx, g.claimOfEach(costs), nil)
}

// TryEnterEach is TryEnter with one cost for each limit, as [Gate.EnterEach] has.
func (g *Gate) TryEnterEach(costs ...int) (gate.Pass, bool) {
	g.checkCosts("Gate.TryEnterEach", costs)
	return g.tryEnter(g.claimOfEach(costs))
}

// checkCosts panics unless there is one cost for each limit, none is negative, and one is positive.
func (g *Gate) checkCosts(name string, costs []int) {
	if len(costs) != len(g.limits) {
		panic(fmt.Sprintf("redisgate: %s: there must be one cost for each of the %d limits, got %d", name, len(g.limits), len(costs)))
	}
	for i, n := range costs {
		if n < 0 {
			panic(fmt.Sprintf("redisgate: %s: a cost must not be negative, got %d for limit %d", name, n, i+1))
		}
	}
	if slices.Max(costs) == 0 {
		panic(fmt.Sprintf("redisgate: %s: one cost must be positive, got %v", name, slices.Clone(costs)))
	}
}
