package model

import (
	"context"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
)

func newWalk(b *bubble.B, p plan, gates []gate.Gate, g *graph) *walk {
	return &walk{b: b, unit: p.unit, gates: gates, g: g, passes: map[int]gate.Pass{}, cancels: map[int]context.CancelFunc{}, entries: map[int]*queued{}}
}

// To look changes nothing: the same calls with and without Stats come out the same.
func TestGraphStats(t *testing.T) {
	kinds := strings.Fields("enter enter late try advance advance cancel leave leave settle hold resume rate burst limit stats stats stats")
	explore(t, 1500, func(rt *rapid.T) {
		p := drawPlan(rt)
		for i := range p.leaves { // two that have room from the same instant on race
			p.leaves[i].span += time.Duration([]int{100_003, 200_017, 300_007, 400_009}[i])
		}
		mock := rapid.Bool().Draw(rt, "mock")
		calls := script{kinds: kinds, rates: whole, gates: 9}.draw(rt, 40)
		var text [2]string
		for i := range text {
			err := within(t, mock, func(b *bubble.B) error {
				gates, g := p.build(b)
				w := newWalk(b, p, gates, g)
				w.any, w.blind, w.mute = true, true, i == 0
				err := w.script(calls)
				text[i] = w.text.String()
				return err
			})
			if err != nil {
				rt.Fatal(err)
			}
		}
		if text[0] != text[1] {
			rt.Fatalf("mock %v, without Stats\n%s\nand with\n%s\n%v", mock, text[0], text[1], p)
		}
	})
}

func testGraph(t *testing.T, foresees bool, kinds string, any ...bool) {
	explore(t, 1500, func(rt *rapid.T) {
		p := drawPlan(rt)
		mock := rapid.Bool().Draw(rt, "mock")
		calls := script{kinds: strings.Fields(kinds), rates: whole, gates: 9}.draw(rt, 40)
		err := within(t, mock, func(b *bubble.B) error {
			gates, g := p.build(b)
			g.foresees = foresees
			w := newWalk(b, p, gates, g)
			w.any = any != nil
			return w.script(calls)
		})
		if err != nil {
			rt.Fatalf("mock %v, %v\n%v", mock, err, p)
		}
	})
}

func TestGraph(t *testing.T) {
	testGraph(t, false, "enter enter enter enter advance advance cancel leave leave leave")
}

func TestGraphTry(t *testing.T) {
	testGraph(t, false, "enter enter enter try try advance advance cancel leave leave leave stats")
}

func TestGraphPlans(t *testing.T) {
	testGraph(t, false, "enter enter enter try advance advance cancel leave leave leave rate burst limit stats")
}

func TestGraphDeadline(t *testing.T) {
	testGraph(t, false, "enter late late late advance advance cancel leave leave leave")
}

func TestGraphHold(t *testing.T) {
	testGraph(t, false, "enter enter enter try advance advance cancel leave leave leave hold hold resume stats")
}

func TestGraphSettle(t *testing.T) {
	testGraph(t, false, "enter enter enter try advance advance settle settle leave leave leave stats")
}

func TestGraphEverything(t *testing.T) {
	testGraph(t, false, "enter late enter try advance advance cancel leave leave leave settle hold resume rate burst limit stats")
}

// Plans are changed also while a composite or one of its members is held.
func TestGraphPlansHeld(t *testing.T) {
	testGraph(t, false, "enter enter enter try advance advance leave leave hold hold resume rate rate burst limit stats", true)
}
