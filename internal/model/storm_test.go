package model

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// A storm is a web that many goroutines use at once: they enter, give up, settle during Leave and after it,
// and change plans. Their order within an instant is left to the scheduler, so what is checked are bounds,
// and that nothing is lost: in the end every gate is as if it were new.
type storm struct {
	b     *bubble.B
	web   web
	gates []gate.Gate
	most  []atomic.Int64 // by leaf: the highest limit so far
	inUse []atomic.Int64 // by leaf of slots: the costs under way
	long  []atomic.Int64 // by leaf of windows: the shortest span so far

	mu     sync.Mutex
	wrong  []string
	grants map[int][]granted // by leaf
	count  map[string]int
}

type granted struct {
	at   time.Duration
	left time.Duration // when Leave was called
	cost int           // the lowest that the leaf has counted
}

func (s *storm) fail(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
}

func (s *storm) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count[what]++
}

// work enters so many times.
func (s *storm) work(r *rand.Rand, times int, calm bool) {
	for range times {
		s.enter(r, calm)
		if r.IntN(3) == 0 {
			time.Sleep(s.some(r))
		}
	}
}

func (s *storm) some(r *rand.Rand) time.Duration {
	return time.Duration(s.web.unit * r.Int64N(12) / 7)
}

func (s *storm) cost(r *rand.Rand, capacity int) int {
	if r.IntN(3) == 0 {
		return 1 + r.IntN(max(1, min(capacity, 1<<20)+1))
	}
	return 1 + r.IntN(3)
}

func (s *storm) enter(r *rand.Rand, calm bool) {
	v := r.IntN(len(s.gates))
	var each []int
	a, composite := s.gates[v].(*gate.Composite)
	if composite && r.IntN(2) == 0 {
		for _, m := range s.web.nodes[v].members {
			each = append(each, max(0, s.cost(r, s.web.capacity(m))-r.IntN(3)))
		}
		if !positive(each) {
			each[r.IntN(len(each))] = 1
		}
	}
	cost := s.cost(r, s.web.capacity(v))
	p := s.web.price(v, cost)
	if each != nil {
		p = price{base: v, each: each}
	}
	bill := s.web.bill(p, p)

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var ends, deadline bool
	if !calm {
		switch r.IntN(5) {
		case 0:
			deadline, ends = true, true
			ctx, cancel = context.WithTimeout(ctx, s.some(r))
			defer cancel()
		case 1:
			ends = true
			defer time.AfterFunc(s.some(r), cancel).Stop()
		case 2:
			ends = true
			go cancel()
		}
	}
	var pass gate.Pass
	var err error
	if r.IntN(4) == 0 {
		ok := false
		if each != nil {
			pass, ok = a.TryEnterEach(each...)
		} else {
			pass, ok = s.gates[v].TryEnter(cost)
		}
		if !ok {
			s.note("refused")
			return
		}
	} else if each != nil {
		pass, err = a.EnterEach(ctx, each...)
	} else {
		pass, err = s.gates[v].Enter(ctx, cost)
	}
	switch {
	case errors.As(err, new(*gate.CapacityError)):
		s.note("large")
		return
	case errors.As(err, new(*gate.DeadlineError)) && deadline:
		s.note("late")
		return
	case err != nil && ends && err == context.Cause(ctx):
		s.note("ended")
		return
	case err != nil:
		s.fail("g%d: %v", v, err)
		return
	}
	s.note("granted")
	s.use(r, v, p, bill, pass)
}

// use is what a caller does with its pass.
func (s *storm) use(r *rand.Rand, v int, p price, was bill, pass gate.Pass) {
	at := s.b.Now()
	for m, c := range was.cost {
		if n := s.inUse[m].Add(int64(c)); s.web.nodes[m].kind == "slots" && n > s.most[m].Load() {
			s.fail("g%d: %d slots in use, of at most %d", m, n, s.most[m].Load())
		}
	}
	if r.IntN(2) == 0 {
		time.Sleep(s.some(r))
	}
	actual := p
	lower := func(c int) int {
		if c == 0 {
			return 0
		}
		return r.IntN(c + 1)
	}
	actual.one = lower(p.one)
	actual.each = nil
	for _, c := range p.each {
		actual.each = append(actual.each, lower(c))
	}
	settle := func() {
		if p.each != nil {
			pass.SettleEach(actual.each...)
		} else {
			pass.Settle(actual.one)
		}
	}
	var left time.Duration
	free := func(by map[int]int) {
		for m, c := range by {
			s.inUse[m].Add(-int64(c))
		}
	}
	is := was
	var err error
	if r.IntN(5) == 0 {
		err = gate.Throttled(0, nil)
	}
	leave := func() {
		left = s.b.Now()
		pass.Leave(err)
	}
	alone := s.web.nodes[s.behind(v)].kind == "slots"
	how := r.IntN(5)
	if how >= 3 && alone {
		how = 2
	}
	switch how {
	case 0: // it is not settled
		free(was.cost)
		leave()
		if err != nil && was.viewed {
			is = s.web.bill(p, price{base: p.base})
		}
	case 1:
		free(was.cost)
		leave()
		if r.IntN(2) == 0 {
			time.Sleep(s.some(r))
		}
		settle()
		is = s.web.bill(p, actual)
		if err != nil && was.viewed { // nothing is counted from Leave on
			is = s.web.bill(p, price{base: p.base})
		}
	case 2:
		is = s.web.bill(p, actual)
		for m, c := range was.cost {
			s.inUse[m].Add(int64(is.cost[m] - c))
		}
		settle()
		free(is.cost)
		leave()
	default: // during Leave
		free(was.cost)
		done := make(chan bool)
		go func() {
			settle()
			close(done)
		}()
		leave()
		<-done
		is = s.web.bill(p, actual)
		if err != nil && was.viewed {
			is = s.web.bill(p, price{base: p.base})
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for m, c := range was.cost {
		s.grants[m] = append(s.grants[m], granted{at, left, min(c, is.cost[m])})
	}
}

func (s *storm) behind(v int) int {
	for !s.web.nodes[v].leaf() && s.web.nodes[v].kind != "all" {
		v = s.web.nodes[v].members[0]
	}
	return v
}

// meddle changes plans.
func (s *storm) meddle(r *rand.Rand, times int) {
	for range times {
		time.Sleep(s.some(r))
		v := r.IntN(len(s.gates))
		switch g := s.gates[v].(type) {
		case *gate.Rate:
			switch r.IntN(3) {
			case 0:
				g.SetBurst(1 + r.IntN(9))
			case 1:
				g.SetRate(pace.Every(1 + s.some(r)))
			default:
				g.Hold(s.some(r))
			}
		case *gate.Window:
			n, span := 1+r.Int64N(9), int64(1+s.some(r))
			raise(&s.most[v], n)
			sink(&s.long[v], span)
			if r.IntN(3) == 0 {
				g.Hold(s.some(r))
			} else {
				g.SetLimit(int(n), time.Duration(span))
			}
		case *gate.Concurrency:
			n := 1 + r.Int64N(9)
			raise(&s.most[v], n)
			g.SetLimit(int(n))
		default:
			if s.web.clocked(s.behind(v)) {
				gate.Hold(g, s.some(r))
			} else {
				gate.StatsOf(g)
			}
		}
	}
}

func raise(a *atomic.Int64, n int64) {
	for {
		old := a.Load()
		if old >= n || a.CompareAndSwap(old, n) {
			return
		}
	}
}

func sink(a *atomic.Int64, n int64) {
	for {
		old := a.Load()
		if old <= n || a.CompareAndSwap(old, n) {
			return
		}
	}
}

func (s *storm) run(seed uint64, workers, meddlers int) error {
	var done sync.WaitGroup
	for i := range workers {
		done.Go(func() { s.work(rand.New(rand.NewPCG(seed, uint64(i))), 12, false) })
	}
	for i := range meddlers {
		done.Go(func() { s.meddle(rand.New(rand.NewPCG(seed, uint64(1000+i))), 25) })
	}
	// The limits are as at first from now on. What still waits is admitted.
	time.Sleep(time.Duration(s.web.unit * 20))
	for range meddlers {
		done.Go(func() {
			time.Sleep(time.Duration(s.web.unit * 100))
			s.restore()
		})
	}
	done.Wait()
	s.restore()
	time.Sleep(10 * 365 * 24 * time.Hour)
	return s.check()
}

func (s *storm) restore() {
	for v, n := range s.web.nodes {
		switch g := s.gates[v].(type) {
		case *gate.Rate:
			g.SetRate(n.rate)
			g.SetBurst(n.n)
		case *gate.Window:
			g.SetLimit(n.n, n.span)
		case *gate.Concurrency:
			g.SetLimit(n.n)
		}
	}
}

func (s *storm) check() error {
	for v, g := range s.gates {
		st, _ := gate.StatsOf(g)
		if st.Waiting != 0 || st.InUse != 0 || !st.Idle || st.HeldFor != 0 || st.NextDue != 0 {
			s.fail("g%d in the end: %+v", v, st)
		}
		if n := s.web.nodes[v]; n.leaf() {
			if used := s.inUse[v].Load(); used != 0 {
				return fmt.Errorf("the test counts %d in use of g%d", used, v)
			}
			p, ok := g.TryEnter(n.n)
			if !ok {
				s.fail("g%d has no room for %d in the end", v, n.n)
			} else {
				p.Settle(0)
				p.Leave(nil)
			}
			if err := s.within(v); err != nil {
				s.fail("%v", err)
			}
		}
	}
	if len(s.wrong) > 0 {
		return fmt.Errorf("%q", s.wrong)
	}
	return nil
}

// within checks the grants of a window against the highest limit and the shortest span that it ever had.
func (s *storm) within(v int) error {
	n := s.web.nodes[v]
	if n.kind != "window" && n.kind != "answered" {
		return nil
	}
	span := time.Duration(s.long[v].Load()) + n.guard
	for _, from := range s.grants[v] {
		sum := int64(0)
		for _, g := range s.grants[v] {
			until := g.at
			if n.kind == "answered" {
				until = g.left
			}
			if g.at <= from.at && from.at < until+span {
				sum += int64(g.cost)
			}
		}
		if sum > s.most[v].Load() {
			return fmt.Errorf("g%d counts %d at %v, of at most %d", v, sum, from.at, s.most[v].Load())
		}
	}
	return nil
}

// calm leaves a web in which nothing takes years, and whose composites have a clock from the start.
func (w *web) calm() {
	for i := range w.nodes {
		n := &w.nodes[i]
		n.n = min(n.n, 1<<20)
		n.span = min(n.span, 2*time.Hour)
		switch {
		case i == 0 && n.kind == "slots":
			n.kind = "window"
		case n.kind == "all" && !slices.ContainsFunc(n.members, func(m int) bool { return w.nodes[m].leaf() && w.clocked(m) }):
			n.members = append(n.members, 0)
		case n.kind == "costs":
			n.costs = append(n.costs, make([]int, len(w.nodes[n.members[0]].members)-len(n.costs))...)
		}
		if n.leaf() {
			n.rate = pace.Every(n.span)
		}
		if n.kind == "rate" {
			n.n = min(n.n, 20)
		}
	}
}

func TestStorm(t *testing.T) {
	count := map[string]int{}
	explore(t, 300, func(rt *rapid.T) {
		p := drawWeb(rt, whole, false)
		p.calm()
		seed := rapid.Uint64().Draw(rt, "seed")
		workers, meddlers := rapid.IntRange(1, 12).Draw(rt, "workers"), rapid.IntRange(0, 3).Draw(rt, "meddlers")
		var err error
		bubble.Real(t, func(b *bubble.B) {
			gates, _ := p.build(b)
			s := &storm{b: b, web: p, gates: gates, grants: map[int][]granted{}, count: count, most: make([]atomic.Int64, len(gates)), inUse: make([]atomic.Int64, len(gates)), long: make([]atomic.Int64, len(gates))}
			for v, n := range p.nodes {
				s.most[v].Store(int64(n.n))
				s.long[v].Store(int64(n.span))
			}
			err = s.run(seed, workers, meddlers)
		})
		if err != nil {
			rt.Fatalf("%v\n%v", err, p)
		}
	})
	for _, n := range count {
		operations += n
	}
	t.Log(count)
}
