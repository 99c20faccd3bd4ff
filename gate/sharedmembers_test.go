package gate_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// Composites that share members, under settlements, holds and changes of plan: slots, counts and waits are those of the
// callers, and no entry waits that would be admitted.
func TestSharedMembersAtRandom(t *testing.T) {
	for c := range 150 {
		seed := uint64(c)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			if seed%2 == 0 {
				bubble.Real(t, func(b *bubble.B) { sharedAtRandom(b, seed) })
			} else {
				bubble.Mock(t, func(b *bubble.B) { sharedAtRandom(b, seed) })
			}
		})
	}
}

func sharedAtRandom(b *bubble.B, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 2))
	clk := b.Clock()
	iv := []time.Duration{time.Millisecond, 7 * time.Millisecond, 13, time.Second}[r.IntN(4)]
	rate := gate.NewRate(pace.Every(iv), &gate.RateOptions{Clock: clk, Burst: 1 + r.IntN(4)})
	rate2 := gate.NewRate(pace.Every(2*iv), &gate.RateOptions{Clock: clk, Burst: 4})
	win := gate.NewWindow(5+r.IntN(3), 5*iv, &gate.WindowOptions{Clock: clk, UntilAnswer: r.IntN(3) == 0})
	c1 := gate.NewConcurrency(4 + r.IntN(4))
	c2 := gate.NewConcurrency(5)
	members := []gate.Gate{rate, rate2, win, c1, c2}
	type comp struct {
		g   gate.Gate
		c   *gate.Composite
		idx []int
	}
	var comps []comp
	for range 2 + r.IntN(4) {
		var idx []int
		var gs []gate.Gate
		for _, i := range r.Perm(len(members))[:1+r.IntN(4)] {
			idx = append(idx, i)
			gs = append(gs, members[i])
		}
		if r.IntN(5) == 0 && len(idx) == 1 {
			comps = append(comps, comp{members[idx[0]], nil, idx})
		} else {
			a := gate.All(gs...)
			comps = append(comps, comp{a, a, idx})
		}
	}
	clockless := func(idx []int) bool {
		return clk != nil && !slices.ContainsFunc(idx, func(i int) bool { return i < 3 })
	}
	var mu sync.Mutex
	type count struct {
		granted, refused, abandoned uint64
		waited, vain                time.Duration
	}
	counts := make([]count, len(comps))
	mgranted := make([]uint64, len(members))
	inuse := make([]int, len(members))
	limit := func(i int) int {
		if i == 3 {
			return c1.Limit()
		}
		return 5
	}
	maxc1 := c1.Limit()
	quiet := seed%5 == 0 // no changes of limits
	waiting := make([]map[int]time.Duration, len(comps))
	for i := range waiting {
		waiting[i] = map[int]time.Duration{}
	}
	var wg sync.WaitGroup
	id := 0
	withDead := r.IntN(2) == 0
	for range 3 + r.IntN(25) {
		sd := r.Uint64()
		wg.Go(func() {
			r := rand.New(rand.NewPCG(sd, 3))
			for range 1 + r.IntN(5) {
				if d := time.Duration(r.IntN(4)) * iv; d > 0 {
					b.Sleep(d)
				}
				ci := r.IntN(len(comps))
				k := comps[ci]
				cost := 1
				if r.IntN(3) == 0 {
					cost = 1 + r.IntN(4)
				}
				costs := make([]int, len(members))
				var each []int
				for _, m := range k.idx {
					costs[m] = cost
				}
				useEach := k.c != nil && r.IntN(3) == 0
				if useEach {
					any := false
					for range k.idx {
						v := r.IntN(3)
						any = any || v > 0
						each = append(each, v)
					}
					if !any {
						each[0] = 1
					}
					for j, m := range k.idx {
						costs[m] = each[j]
					}
				}
				ctx, cancel := context.WithCancel(context.Background())
				if withDead && r.IntN(4) == 0 {
					cancel()
					ctx, cancel = b.WithTimeout(time.Duration(r.IntN(5))*iv + 1)
				} else if withDead && r.IntN(4) == 0 {
					d := time.Duration(r.IntN(5)) * iv
					wg.Go(func() {
						if d > 0 {
							b.Sleep(d)
						}
						cancel()
					})
				}
				try := r.IntN(6) == 0
				mu.Lock()
				id++
				me := id
				at := b.Now()
				if !try {
					waiting[ci][me] = at
				}
				mu.Unlock()
				var p gate.Pass
				var err error
				var ok bool
				switch {
				case try && useEach:
					if p, ok = k.c.TryEnterEach(each...); !ok {
						err = errTried
					}
				case try:
					if p, ok = k.g.TryEnter(cost); !ok {
						err = errTried
					}
				case useEach:
					p, err = k.c.EnterEach(ctx, each...)
				default:
					p, err = k.g.Enter(ctx, cost)
				}
				w := b.Now() - at
				mu.Lock()
				delete(waiting[ci], me)
				n := &counts[ci]
				var de *gate.DeadlineError
				var ce *gate.CapacityError
				switch {
				case err == nil:
					n.granted++
					n.waited += w
					for m, c := range costs {
						if c > 0 {
							mgranted[m]++
							inuse[m] += c
						}
					}
					for m := 3; m < 5; m++ {
						if inuse[m] > limit(m) && (quiet || m == 4) || m == 3 && inuse[m] > maxc1+4 {
							b.Errorf("seed %d: %d of %d in use at %d", seed, inuse[m], limit(m), m)
						}
					}
				case err == errTried, errors.As(err, &de), errors.As(err, &ce):
					n.refused++
					n.vain += w
				default:
					n.abandoned++
					n.vain += w
				}
				mu.Unlock()
				cancel()
				if err != nil {
					continue
				}
				if d := time.Duration(r.IntN(4)) * iv; d > 0 {
					b.Sleep(d)
				}
				settle := r.IntN(3)
				doSettle := func() {
					if useEach {
						act := make([]int, len(each))
						for j, v := range each {
							if v > 0 {
								act[j] = r.IntN(3)
							}
						}
						p.SettleEach(act...)
					} else {
						p.Settle(r.IntN(4))
					}
				}
				mu.Lock()
				for m, c := range costs {
					inuse[m] -= c
				}
				mu.Unlock()
				if settle == 1 && !quiet {
					doSettle()
					p.Leave(nil)
				} else if settle == 2 {
					p.Leave(nil)
					doSettle()
				} else {
					p.Leave(nil)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	holds := r.IntN(2) == 0
	for i := 0; ; i++ {
		b.Settle()
		mu.Lock()
		for ci, k := range comps {
			s, _ := gate.StatsOf(k.g)
			var first time.Duration
			for _, at := range waiting[ci] {
				first = max(first, b.Now()-at)
			}
			if k.c != nil {
				if s.Waiting != len(waiting[ci]) {
					b.Errorf("seed %d: comp %d %v: waiting %d, model %d", seed, ci, k.idx, s.Waiting, len(waiting[ci]))
				}
				if s.Longest != first && !clockless(k.idx) {
					b.Errorf("seed %d: comp %d %v: longest %v, model %v", seed, ci, k.idx, s.Longest, first)
				}
			}
			for _, h := range gate.Explain(k.g).Heads {
				if len(h.By) == 0 && h.Ahead == 0 && h.Err == nil {
					b.Errorf("seed %d at %v: comp %d %v: lost wake-up: %v", seed, b.Now(), ci, k.idx, h)
				}
			}
		}
		for m := 3; m < 5; m++ {
			s, _ := gate.StatsOf(members[m])
			if s.InUse != inuse[m] {
				b.Errorf("seed %d: member %d in use %d, model %d", seed, m, s.InUse, inuse[m])
			}
		}
		mu.Unlock()
		if b.Failed() {
			b.Fatal("stop")
		}
		select {
		case <-done:
			goto end
		default:
		}
		if holds && r.IntN(6) == 0 {
			d := time.Duration(r.IntN(5)) * iv
			switch r.IntN(6) {
			case 0:
				rate.Hold(d)
			case 1:
				rate.Resume()
			case 2:
				win.Hold(d)
			case 3:
				if k := comps[r.IntN(len(comps))]; k.c != nil {
					k.c.Hold(d)
				}
			case 4:
				if k := comps[r.IntN(len(comps))]; k.c != nil {
					k.c.Resume()
				}
			case 5:
				gate.Resume(win)
			}
		}
		if !quiet && r.IntN(6) == 0 {
			switch r.IntN(3) {
			case 0:
				c1.SetLimit(4 + r.IntN(4))
			case 1:
				rate.SetRate(pace.Every(iv * time.Duration(1+r.IntN(3))))
			case 2:
				win.SetLimit(5+r.IntN(3), iv*time.Duration(3+r.IntN(4)))
			}
			mu.Lock()
			maxc1 = max(maxc1, c1.Limit())
			mu.Unlock()
		}
		b.Advance(iv)
		if i > 1e5 {
			for _, k := range comps {
				b.Log(gate.Explain(k.g))
			}
			b.Fatalf("seed %d hangs", seed)
		}
	}
end:
	for ci, k := range comps {
		if k.c == nil {
			continue
		}
		s, n := k.c.Stats(), counts[ci]
		if s.Granted != n.granted || s.Refused != n.refused || s.Abandoned != n.abandoned || !clockless(k.idx) && (s.Waited != n.waited || s.WaitedInVain != n.vain) || s.Waiting != 0 {
			b.Errorf("seed %d comp %d %v: %+v; model %+v", seed, ci, k.idx, s, n)
		}
	}
	for m, g := range members {
		s, _ := gate.StatsOf(g)
		if s.Granted != mgranted[m] {
			b.Errorf("seed %d member %d: granted %d; model %d", seed, m, s.Granted, mgranted[m])
		}
		if s.Waiting != 0 || m >= 3 && (s.InUse != 0 || !s.Idle) {
			b.Errorf("seed %d member %d: %+v at the end", seed, m, s)
		}
	}
}

var errTried = errors.New("refused")
