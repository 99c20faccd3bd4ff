package chaos_test

import (
	"fmt"
	"sync"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
	"pgregory.net/rapid"
)

// gatePlan is a gate to be made in the bubble: a leaf, or a composite of gates before it.
type gatePlan struct {
	Kind    string // concurrency, rate, window, adaptive, all, keyed
	N       int    // slots, tokens or keys
	Span    time.Duration
	Burst   int
	Members []int
}

func drawGates(rt *rapid.T, most int) []gatePlan {
	plans := make([]gatePlan, rapid.IntRange(0, most).Draw(rt, "gates"))
	for i := range plans {
		kinds := []string{"concurrency", "rate", "window", "adaptive", "keyed"}
		if i > 0 {
			kinds = append(kinds, "all", "all")
		}
		p := gatePlan{Kind: rapid.SampledFrom(kinds).Draw(rt, "gate"), N: rapid.IntRange(1, 5).Draw(rt, "n")}
		p.Span, p.Burst = span(rt, "span")+1, rapid.IntRange(1, 5).Draw(rt, "burst")
		if p.Kind == "all" {
			p.Members = rapid.SliceOfN(rapid.IntRange(0, i-1), 1, 3).Draw(rt, "members")
		}
		plans[i] = p
	}
	return plans
}

// grant is one call that was let in.
type grant struct {
	at   time.Time
	cost int
}

// leaf checks one limit by the calls that are under way behind it.
type leaf struct {
	gatePlan
	mu     sync.Mutex
	inUse  int
	peak   int
	grants []grant
}

// tracked is a gate with the limits behind it and the largest cost that all of them admit.
type tracked struct {
	gate.Gate
	leaves   []*leaf
	capacity int
}

func makeGates(plans []gatePlan) []tracked {
	gates := make([]tracked, len(plans))
	for i, p := range plans {
		l := &leaf{gatePlan: p}
		gates[i] = tracked{leaves: []*leaf{l}, capacity: p.N}
		switch p.Kind {
		case "concurrency":
			gates[i].Gate = gate.NewConcurrency(p.N)
		case "keyed":
			k := gate.NewKeyed(func(int) gate.Gate { return gate.NewConcurrency(p.N) }, &gate.KeyedOptions{MaxKeys: 1 + p.Burst})
			gates[i].Gate = k.For(i)
		case "window":
			gates[i].Gate = gate.NewWindow(p.N, p.Span, nil)
		case "rate":
			gates[i].Gate = gate.NewRate(pace.Per(p.N, p.Span), &gate.RateOptions{Burst: p.Burst, Slack: -1})
			gates[i].capacity = p.Burst
		case "adaptive":
			gates[i].Gate = gate.NewAdaptive(pace.Every(p.Span), &gate.AdaptiveOptions{Burst: p.Burst, Slowest: 2 * time.Hour})
			gates[i].capacity, l.N = p.Burst, 1
		case "all":
			members := []gate.Gate{}
			gates[i].leaves, gates[i].capacity = nil, 1<<30
			for _, m := range p.Members {
				members = append(members, gates[m].Gate)
				gates[i].leaves = append(gates[i].leaves, gates[m].leaves...)
				gates[i].capacity = min(gates[i].capacity, gates[m].capacity)
			}
			gates[i].Gate = gate.All(members...)
		}
	}
	return gates
}

// enter notes that a call behind the gate begins, and returns what notes its end. A limit that is
// a member more than once counts once.
func (g tracked) enter(cost int) func() {
	seen := map[*leaf]bool{}
	for _, l := range g.leaves {
		if !seen[l] {
			seen[l] = true
			l.mu.Lock()
			l.inUse += cost
			l.peak = max(l.peak, l.inUse)
			l.grants = append(l.grants, grant{time.Now(), cost})
			l.mu.Unlock()
		}
	}
	return func() {
		for l := range seen {
			l.mu.Lock()
			l.inUse -= cost
			l.mu.Unlock()
		}
	}
}

// over says by which calls the limit was exceeded.
func (l *leaf) over() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inUse != 0 {
		return fmt.Errorf("%+v: %d are still in use", l.gatePlan, l.inUse)
	}
	if (l.Kind == "concurrency" || l.Kind == "keyed") && l.peak > l.N {
		return fmt.Errorf("%+v: %d at once", l.gatePlan, l.peak)
	}
	for i := range l.grants {
		sum := 0
		for _, g := range l.grants[i:] {
			w := g.at.Sub(l.grants[i].at)
			sum += g.cost
			switch {
			case l.Kind == "window" && w < l.Span && sum > l.N:
				return fmt.Errorf("%+v: %d within %v", l.gatePlan, sum, w)
			case (l.Kind == "rate" || l.Kind == "adaptive") &&
				time.Duration(sum-l.Burst)*l.Span > time.Duration(l.N)*(w+1): // the clock's own resolution
				return fmt.Errorf("%+v: %d within %v", l.gatePlan, sum, w)
			}
		}
	}
	return nil
}

// checkGates complains of limits that were exceeded and of gates that were not left.
func checkGates(c *complaints, gates []tracked) {
	for _, g := range gates {
		for _, l := range g.leaves {
			if err := l.over(); err != nil {
				c.add("%v", err)
			}
		}
		if s, ok := gate.StatsOf(g.Gate); !ok || s.Waiting != 0 {
			c.add("gate with %+v: %+v at the end", g.leaves[0].gatePlan, s)
		} else if k := g.leaves[0].Kind; len(g.leaves) == 1 && (k == "concurrency" || k == "keyed") && s.InUse != 0 {
			c.add("%s: %d slots in use at the end", k, s.InUse)
		}
	}
}
