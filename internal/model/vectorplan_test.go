package model

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// web is what a graph with a cost for each gate is made from: leaves first, then what is made of them.
type web struct {
	unit  int64
	exact bool // every Rate keeps its account from the start
	nodes []node
}

// node is a gate of a web: a leaf, a composite, a view, or the key of a Keyed.
type node struct {
	kind    string // rate, window, answered, slots; all; each, cost, costs; key
	n       int
	rate    pace.Rate
	span    time.Duration
	guard   time.Duration
	members []int // of an all, and what a view or a key stands for
	costs   []int // of a view
	hidden  bool  // a leaf that the gates made of it take for one from elsewhere
}

// elsewhere hides what a gate is.
type elsewhere struct{ gate.Gate }

func (n node) leaf() bool { return n.members == nil }

func (w web) String() string {
	var s strings.Builder
	for i, n := range w.nodes {
		fmt.Fprintf(&s, "g%d := ", i)
		if n.hidden {
			s.WriteString("(from elsewhere) ")
		}
		switch n.kind {
		case "rate":
			fmt.Fprintf(&s, "NewRate(%v, Burst: %d)\n", n.rate, n.n)
		case "window", "answered":
			fmt.Fprintf(&s, "NewWindow(%d, %d, Guard: %d, UntilAnswer: %v)\n", n.n, n.span, n.guard, n.kind == "answered")
		case "slots":
			fmt.Fprintf(&s, "NewConcurrency(%d)\n", n.n)
		case "all":
			fmt.Fprintf(&s, "All(%v)\n", n.members)
		case "each":
			fmt.Fprintf(&s, "Each(g%d)\n", n.members[0])
		case "key":
			fmt.Fprintf(&s, "For(1) of a Keyed that makes g%d\n", n.members[0])
		default:
			fmt.Fprintf(&s, "WithCost(g%d, %v)\n", n.members[0], n.costs)
		}
	}
	return s.String()
}

func drawWeb(t *rapid.T, rates func(*rapid.T) pace.Rate, hides bool) web {
	w := web{
		unit:  rapid.SampledFrom([]int64{int64(time.Second), 1000, 999_983, int64(time.Hour), 7}).Draw(t, "unit"),
		exact: rapid.Bool().Draw(t, "exact"),
	}
	leaves := rapid.IntRange(1, 4).Draw(t, "leaves")
	for range leaves {
		n := w.drawLeaf(t, rates)
		n.hidden = hides && rapid.Bool().Draw(t, "hidden")
		w.nodes = append(w.nodes, n)
	}
	for range rapid.IntRange(1, 6).Draw(t, "others") {
		any := rapid.IntRange(0, len(w.nodes)-1)
		kind := rapid.SampledFrom([]string{"all", "all", "all", "each", "cost", "costs", "key"}).Draw(t, "kind")
		n := node{kind: kind}
		switch kind {
		case "all":
			n.members = rapid.SliceOfN(any, 1, 5).Draw(t, "members")
		case "each":
			n.members, n.costs = []int{any.Draw(t, "of")}, []int{1}
		case "cost":
			n.members = []int{any.Draw(t, "of")}
			n.costs = []int{max(1, costOf(drawCost(t), w.capacity(n.members[0])))}
		case "costs":
			of := any.Draw(t, "of")
			if w.nodes[of].kind != "all" {
				continue
			}
			n.members, n.costs = []int{of}, w.drawCosts(t, of)
		case "key": // with a gate of its own and some that are shared
			w.nodes = append(w.nodes, node{kind: "all", members: rapid.SliceOfN(any, 1, 3).Draw(t, "members")})
			n.members = []int{len(w.nodes) - 1}
		}
		w.nodes = append(w.nodes, n)
	}
	return w
}

func (w web) drawLeaf(t *rapid.T, rates func(*rapid.T) pace.Rate) node {
	n := node{kind: rapid.SampledFrom([]string{"rate", "window", "answered", "slots"}).Draw(t, "kind")}
	n.n = rapid.IntRange(1, 6).Draw(t, "n")
	if rapid.IntRange(0, 3).Draw(t, "n form") == 0 {
		n.n = drawBurst(t, "n")
	}
	n.span = time.Duration(w.unit * rapid.Int64Range(1, 40).Draw(t, "span") / 10)
	if rapid.IntRange(0, 4).Draw(t, "span form") == 0 {
		n.span = drawSpan(t, "span")
	}
	n.span = max(1, n.span)
	n.rate = pace.Every(n.span)
	if rapid.IntRange(0, 2).Draw(t, "rate form") == 0 {
		n.rate = rates(t)
	}
	if rapid.IntRange(0, 2).Draw(t, "guarded") == 0 {
		n.guard = time.Duration(w.unit * rapid.Int64Range(0, 20).Draw(t, "guard") / 10)
	}
	return n
}

// drawCosts draws one cost for each gate that was named, at least one of them positive.
func (w web) drawCosts(t *rapid.T, all int) []int {
	return rapid.Custom(func(t *rapid.T) []int {
		var costs []int
		for _, m := range w.nodes[all].members {
			c := 0
			if rapid.IntRange(0, 2).Draw(t, "wanted") > 0 {
				c = costOf(drawCost(t), w.capacity(m))
			}
			costs = append(costs, c)
		}
		return costs
	}).Filter(positive).Draw(t, "costs")
}

func positive(costs []int) bool {
	for _, c := range costs {
		if c > 0 {
			return true
		}
	}
	return false
}

// capacity is what drawn costs go by: the lowest capacity of the leaves that an entry's cost reaches.
func (w web) capacity(v int) int {
	switch n := w.nodes[v]; {
	case n.leaf():
		return n.n
	case n.kind == "all" || n.kind == "key":
		c := 1 << 30
		for _, m := range n.members {
			c = min(c, w.capacity(m))
		}
		return c
	}
	return 1 << 30
}

// price is what an entry costs, as it was asked for.
type price struct {
	base int   // the leaf, the composite or the Each that it enters, behind other views and keys
	one  int   // the cost, or
	each []int // one cost for each gate
}

// price returns what an entry of a gate costs.
func (w web) price(v, cost int) price {
	for {
		switch n := w.nodes[v]; n.kind {
		case "each":
			return price{base: v, one: cost}
		case "cost":
			cost = n.costs[0]
			v = n.members[0]
		case "costs":
			return price{base: n.members[0], each: n.costs}
		case "key":
			v = n.members[0]
		default:
			return price{base: v, one: cost}
		}
	}
}

// bill is what an entry costs.
type bill struct {
	cost    map[int]int    // at each leaf that it wants
	through map[int]bool   // the composites that it comes through
	via     map[[2]int]int // by composite and leaf: the cost on ways through the composite and no key behind it
	viewed  bool           // a view names some of its gates
}

// bill returns what an entry costs that asked for p and is settled at actual. A gate that was passed by
// stays so.
func (w web) bill(p, actual price) bill {
	b := bill{cost: map[int]int{}, through: map[int]bool{}, via: map[[2]int]int{}, viewed: w.views(p.base)}
	var flow func(v, asked, actual int, keys, way []int)
	flow = func(v, asked, actual int, keys, way []int) {
		if asked == 0 {
			return
		}
		n := w.nodes[v]
		switch {
		case n.leaf():
			b.cost[v] = max(b.cost[v], actual)
			for _, c := range keys {
				b.through[c] = true
			}
			for _, c := range way {
				b.through[c] = true
				b.via[[2]int{c, v}] = max(b.via[[2]int{c, v}], actual)
			}
		case n.kind == "all":
			for _, m := range n.members {
				flow(m, asked, actual, keys, append(way[:len(way):len(way)], v))
			}
		case n.kind == "key":
			b.viewed = b.viewed || w.views(n.members[0])
			flow(n.members[0], asked, actual, slices.Concat(keys, way), nil)
		case n.kind == "costs":
			for i, m := range w.nodes[n.members[0]].members {
				flow(m, n.costs[i], n.costs[i], keys, append(way[:len(way):len(way)], n.members[0]))
			}
		default:
			flow(n.members[0], n.costs[0], n.costs[0], keys, way)
		}
	}
	n := w.nodes[p.base]
	switch {
	case n.kind == "each":
		b.viewed = true
		flow(p.base, 1, 1, nil, nil)
	case n.leaf():
		flow(p.base, p.one, actual.one, nil, nil)
	default:
		for i, m := range n.members {
			asked, now := p.one, actual.one
			if p.each != nil {
				asked = p.each[i]
			}
			if actual.each != nil {
				now = actual.each[i]
			}
			flow(m, asked, now, nil, []int{p.base})
		}
	}
	return b
}

// views reports whether a view names a gate of a composite. What the gate of a key has is not known before
// the key is used.
func (w web) views(v int) bool {
	for _, m := range w.nodes[v].members {
		switch w.nodes[m].kind {
		case "each", "cost", "costs":
			return true
		}
		if w.nodes[m].kind != "key" && w.views(m) {
			return true
		}
	}
	return false
}

// keyed reports whether a gate is, or has below it, the key of a Keyed.
func (w web) keyed(v int) bool {
	return w.nodes[v].kind == "key" || slices.ContainsFunc(w.nodes[v].members, w.keyed)
}

// clocked reports whether a gate has a clock as soon as it is made. A Concurrency has none, and that of a key
// is not known before the key is used.
func (w web) clocked(v int) bool {
	n := w.nodes[v]
	if n.leaf() {
		return n.kind != "slots"
	}
	return n.kind != "key" && slices.ContainsFunc(n.members, w.clocked)
}

// build makes the gates and their model.
func (w web) build(b *bubble.B) ([]gate.Gate, *mesh) {
	var gates, named []gate.Gate
	g := &mesh{web: w, leaves: map[int]leaf{}, lean: map[int]leaf{}, held: map[int]int64{}, shadows: map[[2]int]leaf{}, own: map[[2]int]leaf{}, seen: map[int]outcome{}, granted: map[int]uint64{}}
	for i, n := range w.nodes {
		var made gate.Gate
		var members []gate.Gate
		for _, m := range n.members {
			members = append(members, named[m])
		}
		switch n.kind {
		case "rate":
			r := gate.NewRate(n.rate, &gate.RateOptions{Burst: n.n, Precision: pace.PrecisionPrecise, Clock: b.Clock()})
			g.leaves[i] = newBucket(n.rate, n.n)
			if w.exact {
				accounting(r, n.n)
			} else {
				g.lean[i] = newBucket(n.rate, n.n)
			}
			made = r
		case "window", "answered":
			until := n.kind == "answered"
			made = gate.NewWindow(n.n, n.span, &gate.WindowOptions{Guard: n.guard, UntilAnswer: until, Clock: b.Clock()})
			g.leaves[i] = &log{n: n.n, span: add(int64(n.span), int64(n.guard)), guard: int64(n.guard), until: until}
		case "slots":
			made = gate.NewConcurrency(n.n)
			g.leaves[i] = newSlots(n.n)
		case "all":
			made = gate.All(members...)
		case "each":
			made = gate.Each(members[0])
		case "key":
			k := gate.NewKeyed(func(int) gate.Gate { return members[0] }, &gate.KeyedOptions{Clock: b.Clock()})
			made = k.For(1)
		default:
			made = gate.WithCost(members[0], n.costs...)
		}
		gates = append(gates, made)
		if n.hidden {
			made = elsewhere{made}
		}
		named = append(named, made)
	}
	return gates, g
}
