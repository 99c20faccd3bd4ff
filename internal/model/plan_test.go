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

// plan is what a graph is made from.
type plan struct {
	unit   int64
	leaves []leafPlan
	alls   [][]int // the gates of each composite, by their place among leaves and composites
}

type leafPlan struct {
	kind string // rate, window, answered, slots
	n    int
	span time.Duration
}

func (p plan) String() string {
	var s strings.Builder
	for i, l := range p.leaves {
		switch l.kind {
		case "rate":
			fmt.Fprintf(&s, "g%d := NewRate(Every(%v), Burst: %d)\n", i, l.span, l.n)
		case "window":
			fmt.Fprintf(&s, "g%d := NewWindow(%d, %v)\n", i, l.n, l.span)
		case "answered":
			fmt.Fprintf(&s, "g%d := NewWindow(%d, %v, UntilAnswer)\n", i, l.n, l.span)
		default:
			fmt.Fprintf(&s, "g%d := NewConcurrency(%d)\n", i, l.n)
		}
	}
	for i, all := range p.alls {
		fmt.Fprintf(&s, "g%d := All(%v)\n", len(p.leaves)+i, all)
	}
	return s.String()
}

func drawPlan(t *rapid.T) plan {
	p := plan{unit: rapid.SampledFrom([]int64{int64(time.Second), 1000, 999_983, int64(time.Hour)}).Draw(t, "unit")}
	p.leaves = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) leafPlan {
		l := leafPlan{
			kind: rapid.SampledFrom([]string{"rate", "window", "answered", "slots"}).Draw(t, "kind"),
			n:    rapid.IntRange(1, 6).Draw(t, "n"),
			span: time.Duration(p.unit * rapid.Int64Range(1, 40).Draw(t, "span") / 10),
		}
		return l
	}), 1, 4).Draw(t, "leaves")
	gates := len(p.leaves)
	for range rapid.IntRange(1, 5).Draw(t, "composites") {
		all := rapid.SliceOfNDistinct(rapid.IntRange(0, gates-1), 1, 3, rapid.ID[int]).Draw(t, "all")
		p.alls = append(p.alls, all)
		gates++
	}
	return p
}

// build makes the gates and their model.
func (p plan) build(b *bubble.B) ([]gate.Gate, *graph) {
	var gates []gate.Gate
	g := &graph{seen: map[int]outcome{}, lean: map[int]leaf{}}
	for i, l := range p.leaves {
		switch l.kind {
		case "rate":
			r := pace.Every(l.span)
			gates = append(gates, gate.NewRate(r, &gate.RateOptions{Burst: l.n, Precision: pace.PrecisionPrecise, Clock: b.Clock()}))
			g.leaves = append(g.leaves, newBucket(r, l.n))
			g.lean[i] = newBucket(r, l.n)
		case "window", "answered":
			until := l.kind == "answered"
			gates = append(gates, gate.NewWindow(l.n, l.span, &gate.WindowOptions{UntilAnswer: until, Clock: b.Clock()}))
			g.leaves = append(g.leaves, &log{n: l.n, span: int64(l.span), until: until})
		default:
			gates = append(gates, gate.NewConcurrency(l.n))
			g.leaves = append(g.leaves, newSlots(l.n))
		}
		g.gates = append(g.gates, vertex{members: []int{i}})
	}
	for _, all := range p.alls {
		var members []gate.Gate
		var v vertex
		for _, m := range all {
			members = append(members, gates[m])
			v.members = append(v.members, g.gates[m].members...)
			v.through = append(v.through, g.gates[m].through...)
		}
		v.through = append(v.through, len(g.gates))
		for _, s := range []*[]int{&v.members, &v.through} {
			slices.Sort(*s)
			*s = slices.Compact(*s)
		}
		gates = append(gates, gate.All(members...))
		g.gates = append(g.gates, v)
	}
	return gates, g
}
