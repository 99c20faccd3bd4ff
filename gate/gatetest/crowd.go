package gatetest

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/escapement-go/escapement/gate"
)

func stampede(t *trial) {
	const many = 64
	for range 5 {
		t.fresh()
		g := t.g
		passes := make(chan gate.Pass, many)
		start := make(chan struct{})
		var all sync.WaitGroup
		for range many {
			all.Go(func() {
				<-start
				if p, ok := g.TryEnter(1); ok {
					passes <- p
				}
			})
		}
		t.begin()
		close(start)
		all.Wait()
		close(passes)
		n := 0
		for p := range passes {
			n++
			t.book(&entry{cost: 1, pass: p, at: t.now()}, "TryEnter(1)", fmt.Sprintf("with %d goroutines at once", many))
		}
		if n < t.s.Capacity {
			t.Fatalf("%d goroutines at once got %d tokens of %d", many, n, t.s.Capacity)
		}
		t.whole("after a stampede")
	}
	if t.s.Slots && t.s.Back == 0 {
		race(t)
	}
}

// race has goroutines enter and leave in parallel. Some of them give up meanwhile.
func race(t *trial) {
	t.fresh()
	g := t.g
	var inUse, most atomic.Int64
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 50 {
				cost := 1 + (i+j)%t.s.heavy()
				ctx, quit := context.WithCancelCause(t.ctx)
				gone := make(chan struct{})
				go func() {
					defer close(gone)
					if j%3 == 0 {
						quit(errGaveUp)
					}
				}()
				if p, err := g.Enter(ctx, cost); err == nil {
					n := inUse.Add(int64(cost))
					for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
					}
					runtime.Gosched()
					inUse.Add(int64(-cost))
					p.Leave(nil)
				}
				<-gone
				quit(nil)
			}
		})
	}
	all.Wait()
	if n := int(most.Load()); n > t.s.Capacity {
		t.Fatalf("%d tokens were in use at once, where the capacity is %d", n, t.s.Capacity)
	}
	t.whole("after goroutines entered and gave up in parallel")
}

func crowd(t *trial) {
	const why = "in a crowd"
	heavy := min(t.s.heavy(), 3)
	ctx, quit := t.quitter()
	quits := map[*entry]bool{}
	for i := range 4*t.s.Capacity + 4 {
		cost := 1 + i%heavy
		if i%5 == 3 {
			quits[t.start(ctx, cost)] = true
		} else {
			t.start(t.ctx, cost)
		}
	}
	t.rest()
	quit()
	stalled := time.Now().Add(patience)
	for round := 0; ; round++ {
		t.rest()
		waiting, tokens := t.through(quits, why)
		if waiting == 0 {
			break
		}
		// Each round brings a token. A few may be free that the next in line can't use.
		if t.s.exact() && round > tokens-t.s.Capacity+heavy || !t.s.exact() && time.Now().After(stalled) {
			t.Fatalf("%s: %d of %d still wait, where each token is back within %v", why, waiting, len(t.open), t.s.Back)
		}
		if t.s.exact() && t.s.Slots && t.s.Back == 0 && t.s.Capacity-t.inUse >= heavy {
			t.Fatalf("%s: %d wait, although %d tokens of %d are free", why, waiting, t.s.Capacity-t.inUse, t.s.Capacity)
		}
		t.leaveAll()
		t.elapse(t.s.Back)
	}
	if t.s.exact() && t.s.Most != nil {
		grants := slices.DeleteFunc(slices.Clone(t.open), func(e *entry) bool { return !e.seen })
		for _, from := range grants {
			t.span(grants, from)
		}
	}
	t.whole("after a crowd")
}

// through makes sure that each returned entry was admitted, or gave up if it was told to. It
// returns how many still wait, and the cost of all that have not given up.
func (t *trial) through(quits map[*entry]bool, why string) (waiting, tokens int) {
	t.Helper()
	for _, e := range t.open {
		switch {
		case !e.returned():
			waiting++
			tokens += e.cost
		case e.err != nil && quits[e]:
			t.givesUp(e, why)
		default:
			tokens += e.cost
			t.in(e, why)
		}
	}
	return waiting, tokens
}

// span makes sure that no span that begins with from has more grants than may be.
func (t *trial) span(grants []*entry, from *entry) {
	t.Helper()
	for _, to := range grants {
		if to.at.Before(from.at) {
			continue
		}
		w, n := to.at.Sub(from.at), 0
		for _, e := range grants {
			if !e.at.Before(from.at) && !e.at.After(to.at) {
				n += e.cost
			}
		}
		if most := t.s.Most(w); n > most {
			t.Fatalf("in a crowd: %d tokens went within %v, where at most %d may go", n, w, most)
		}
	}
}

func goroutines(t *trial) {
	// Let the gate start now what it needs for itself.
	t.fill(t.s.Capacity)
	ctx, quit := t.quitter()
	e := t.arrive(ctx, 1)
	quit()
	t.until(e.returned)
	t.leaveAll()
	t.elapse(t.s.Back * time.Duration(t.s.Capacity))

	const many = 20
	stalled := time.Now().Add(patience)
	label := fmt.Sprintf("%p", t)
	pprof.Do(t.ctx, pprof.Labels("gatetest", label), func(context.Context) {
		ctx, quit := t.quitter()
		var some []*entry
		for i := range many {
			if i%4 == 0 {
				some = append(some, t.start(t.ctx, 1))
			} else {
				some = append(some, t.start(ctx, 1))
			}
		}
		t.rest()
		quit()
		for round, waiting := 0, 1; waiting > 0; round++ {
			t.leaveAll()
			t.elapse(t.s.Back)
			t.rest()
			waiting = 0
			for _, e := range some {
				switch {
				case !e.returned():
					waiting++
				case e.err == nil && !e.seen:
					t.in(e, "with few others")
				}
			}
			if t.s.exact() && round > many || !t.s.exact() && time.Now().After(stalled) {
				t.Fatalf("%d of %d entries still wait, where each token is back within %v", waiting, many, t.s.Back)
			}
		}
	})
	left := ""
	// A pool may have grown by a few.
	if !t.until(func() bool {
		n := 0
		n, left = labelled(label)
		return n < many/2
	}) {
		t.Fatalf("of %d entries that have ended these goroutines are left behind:\n%s", many, left)
	}
}

// labelled returns the goroutines that carry the label, also inherited, and how many they are.
func labelled(label string) (count int, stacks string) {
	var buf bytes.Buffer
	pprof.Lookup("goroutine").WriteTo(&buf, 1)
	var found strings.Builder
	for _, group := range strings.Split(buf.String(), "\n\n") {
		n := 0
		if strings.Contains(group, `"gatetest":"`+label+`"`) {
			if i := strings.Index(group, " @"); i >= 0 {
				fmt.Sscan(group[strings.LastIndex(group[:i], "\n")+1:i], &n)
			}
			found.WriteString(group + "\n\n")
		}
		count += n
	}
	return count, found.String()
}
