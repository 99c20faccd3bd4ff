package model

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// ledger has what the callers of some gates have done, and for how long they have waited. Everything that the gates tell
// of themselves must agree with it, to the nanosecond: Stats, events, open passes and explanations.
type ledger struct {
	b       *bubble.B
	gates   []*accounted
	leaves  int // how many of gates are no composites
	entries []*booked
	log     []string

	mu sync.Mutex // guards what callers write: entries, log and the counts of gates
}

// accounted is a gate with what its callers have seen. A member of a composite is charged by other entries, too: then only
// some of its figures can be checked.
type accounted struct {
	gate.Gate
	composite, member, tracked bool

	granted, refused, abandoned, waited int // waited: of the granted ones, those that have waited
	sum, vain                           time.Duration
	last                                gate.Stats

	told  map[gate.EventKind]int
	waits map[gate.EventKind]time.Duration
}

// booked is an entry.
type booked struct {
	id, at, cost  int
	each          []int
	begun, ended  time.Duration
	decided       bool
	err           error
	pass          gate.Pass
	cancel        context.CancelFunc
	left, settled bool
}

func (l *ledger) note(format string, args ...any) {
	l.log = append(l.log, fmt.Sprintf("%v: ", l.b.Now())+fmt.Sprintf(format, args...))
}

func (l *ledger) String() string { return strings.Join(l.log, "\n") }

// add observes and tracks a gate, and keeps it.
func (l *ledger) add(g gate.Gate) {
	a := &accounted{Gate: g, told: map[gate.EventKind]int{}, waits: map[gate.EventKind]time.Duration{}}
	_, a.composite = g.(*gate.Composite)
	a.tracked = gate.Track(g, gate.TrackTime)
	gate.Observe(g, gate.ObserverFunc(func(e gate.Event) {
		l.mu.Lock()
		defer l.mu.Unlock()
		a.told[e.Kind]++
		a.waits[e.Kind] += e.Wait
	}))
	l.gates = append(l.gates, a)
	l.note("g%d := %v", len(l.gates)-1, g)
}

// decide books the outcome of an entry.
func (l *ledger) decide(e *booked, p gate.Pass, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.pass, e.err, e.ended, e.decided = p, err, l.b.Now(), true
	a, wait := l.gates[e.at], e.ended-e.begun
	late, much := (*gate.DeadlineError)(nil), (*gate.CapacityError)(nil)
	switch {
	case err == nil:
		a.granted++
		a.sum += wait
		if wait > 0 {
			a.waited++
		}
	case errors.Is(err, errTry), errors.As(err, &late), errors.As(err, &much), errors.Is(err, gate.ErrGaveUp):
		a.refused++
		a.vain += wait
	default:
		a.abandoned++
		a.vain += wait
	}
	l.note("entry %d: %v", e.id, err)
}

var errTry = errors.New("refused by TryEnter")

// try books a TryEnter.
func (l *ledger) try(at, cost int) bool {
	e := &booked{id: len(l.entries), at: at, cost: cost, begun: l.b.Now()}
	l.entries = append(l.entries, e)
	p, ok := l.gates[at].TryEnter(cost)
	if !ok {
		l.decide(e, gate.Pass{}, errTry)
		return false
	}
	l.decide(e, p, nil)
	return true
}

// enter books an Enter in a goroutine of its own, or an EnterEach if each is not nil. No deadline means that there is
// none.
func (l *ledger) enter(at, cost int, each []int, deadline time.Duration) *booked {
	ctx, cancel := context.WithCancel(context.Background())
	if deadline > 0 {
		ctx, cancel = l.b.WithTimeout(deadline)
	}
	e := &booked{id: len(l.entries), at: at, cost: cost, each: each, begun: l.b.Now(), cancel: cancel}
	l.entries = append(l.entries, e)
	l.note("entry %d: g%d.Enter(%d, %v), deadline %v", e.id, at, cost, each, deadline)
	go func() {
		if each == nil {
			p, err := l.gates[at].Enter(ctx, cost)
			l.decide(e, p, err)
			return
		}
		p, err := l.gates[at].Gate.(*gate.Composite).EnterEach(ctx, each...)
		l.decide(e, p, err)
	}()
	l.b.Settle()
	return e
}

// advance lets time pass. Callers that it wakes write what was read before: the lock tells the race detector so.
func (l *ledger) advance(d time.Duration) {
	l.mu.Lock()
	l.note("%v pass", d)
	l.mu.Unlock()
	l.b.Advance(d)
}

// waiting returns the entries that wait, at one gate or at any if at is negative.
func (l *ledger) waiting(at int) (waiting []*booked) {
	for _, e := range l.entries {
		if !e.decided && (at < 0 || e.at == at) {
			waiting = append(waiting, e)
		}
	}
	return waiting
}

// admitted returns the entries that were admitted, in order of their grants, and that suit.
func (l *ledger) admitted(suit func(*booked) bool) (admitted []*booked) {
	for _, e := range l.entries {
		if e.decided && e.err == nil && suit(e) {
			admitted = append(admitted, e)
		}
	}
	slices.SortStableFunc(admitted, func(a, b *booked) int { return cmp.Compare(a.ended, b.ended) })
	return admitted
}

// check compares what each gate tells with the books.
func (l *ledger) check() error {
	for i, a := range l.gates {
		s, _ := gate.StatsOf(a.Gate)
		if text := fmt.Sprint(a.Gate); text == "" || strings.Contains(text, "\n") {
			return fmt.Errorf("g%d is %q, want a line", i, text)
		}
		if s.Granted < a.last.Granted || s.Refused < a.last.Refused || s.Abandoned < a.last.Abandoned || s.Forfeited < a.last.Forfeited ||
			s.Waited < a.last.Waited || s.WaitedInVain < a.last.WaitedInVain {
			return fmt.Errorf("a count of g%d fell: %+v after %+v", i, s, a.last)
		}
		a.last = s
		if err := l.open(i, a); err != nil {
			return err
		}
		if a.member {
			continue
		}
		var longest time.Duration
		waiting := l.waiting(i)
		for _, e := range waiting {
			longest = max(longest, l.b.Now()-e.begun)
		}
		if int(s.Granted) != a.granted || int(s.Refused) != a.refused || int(s.Abandoned) != a.abandoned || s.Waiting != len(waiting) ||
			s.Waited != a.sum || s.WaitedInVain != a.vain || s.Longest != longest {
			return fmt.Errorf("g%d tells %+v; its callers %+v, %d waiting, %v the longest", i, s, *a, len(waiting), longest)
		}
		if a.told[gate.EventRefused] != a.refused || a.told[gate.EventAbandoned] != a.abandoned ||
			a.told[gate.EventAdmitted] < a.waited || a.told[gate.EventAdmitted] > a.granted || a.waits[gate.EventAdmitted] != a.sum ||
			a.waits[gate.EventRefused]+a.waits[gate.EventAbandoned] != a.vain {
			return fmt.Errorf("g%d has told its observer of other waits than those of its callers: %+v", i, *a)
		}
	}
	return nil
}

// open compares the passes that Explain shows as open with those that were not left.
func (l *ledger) open(i int, a *accounted) error {
	open := l.admitted(func(e *booked) bool { return e.at == i && !e.left && a.tracked })
	told := gate.Explain(a.Gate).Open
	if len(told) != min(len(open), 10) {
		return fmt.Errorf("g%d shows %d passes open, want the oldest of %d", i, len(told), len(open))
	}
	for n, p := range told {
		// Those of one instant come in any order.
		same := func(e *booked) bool { return e.ended == open[n].ended && e.cost == p.Cost }
		if !clockless(a.Gate) && (p.Age != l.b.Now()-open[n].ended || !slices.ContainsFunc(open, same)) {
			return fmt.Errorf("g%d shows %v as number %d, want that of entry %d", i, p, n, open[n].id)
		}
	}
	return nil
}

func clockless(g gate.Gate) bool {
	_, slots := g.(*gate.Concurrency)
	return slots
}

// highestAt returns the highest cost that g can ever admit, or what is high enough for a test.
func highestAt(g gate.Gate) int {
	const high = 1 << 20
	p, _ := gate.PlanOf(g)
	switch p.Kind {
	case "rate", "adaptive":
		if p.N > 0 {
			return min(p.Burst, high)
		}
		return 10
	case "all":
		least := high
		if all, ok := g.(*gate.Composite); ok {
			for _, m := range all.Members() {
				least = min(least, highestAt(m))
			}
		}
		return least
	}
	return min(p.N, high)
}

// drawLedger draws some gates and, unless single, composites of them. The first gate has a clock.
func drawLedger(rt *rapid.T, single, learning bool) func(*bubble.B) *ledger {
	type leaf struct {
		kind  string
		n     int
		rate  pace.Rate
		span  time.Duration
		guard time.Duration
	}
	kinds := []string{"rate", "rate", "window", "guarded", "answered", "slots"}
	if learning {
		kinds = append(kinds, "adaptive", "adaptive", "learning")
	}
	count := 1
	if !single {
		count = rapid.IntRange(1, 4).Draw(rt, "leaves")
	}
	var leaves []leaf
	for n := range count {
		of := kinds
		if n == 0 {
			of = slices.DeleteFunc(slices.Clone(kinds), func(k string) bool { return k == "slots" })
		}
		leaves = append(leaves, leaf{rapid.SampledFrom(of).Draw(rt, "kind"), rapid.SampledFrom([]int{1, 2, 3, 5, 7, 13, 100, 4096, 1_000_003}).Draw(rt, "n"),
			drawRate(rt), drawSpan(rt, "span"), drawSpan(rt, "guard")})
	}
	views := rapid.SliceOfN(rapid.IntRange(0, 4), count, count).Draw(rt, "views")
	nested := rapid.Bool().Draw(rt, "nested")
	return func(b *bubble.B) *ledger {
		l := &ledger{b: b, leaves: count}
		var members []gate.Gate
		for n, f := range leaves {
			var g gate.Gate
			switch f.kind {
			case "rate":
				g = gate.NewRate(f.rate, &gate.RateOptions{Burst: f.n, Clock: b.Clock()})
			case "adaptive":
				g = gate.NewAdaptive(f.rate, &gate.AdaptiveOptions{Burst: f.n, Slowest: max(f.rate.Interval(), time.Hour), Clock: b.Clock()})
			case "learning":
				g = gate.NewAdaptiveConcurrency(f.n, &gate.AdaptiveConcurrencyOptions{Clock: b.Clock()})
			case "slots":
				g = gate.NewConcurrency(f.n)
			default:
				o := &gate.WindowOptions{Clock: b.Clock(), UntilAnswer: f.kind == "answered"}
				if f.kind == "guarded" {
					o.Guard = f.guard
				}
				g = gate.NewWindow(min(f.n, 100), f.span, o)
			}
			l.add(g)
			switch views[n] {
			case 0:
				g = gate.Each(g)
			case 1:
				g = gate.WithCost(g, 1+n%highestAt(g))
			}
			members = append(members, g)
		}
		if single {
			return l
		}
		all := gate.All(members...)
		if nested {
			outer := gate.All(all, members[0])
			l.add(all)
			l.gates[len(l.gates)-1].member = true
			all = outer
		}
		l.add(all)
		for _, a := range l.gates[:count] {
			a.member = true
		}
		return l
	}
}

// priceAt returns a cost for an entry at g, made of n and m: mostly one that g admits.
func priceAt(g gate.Gate, n, m int) int {
	most := highestAt(g)
	switch n % 8 {
	case 0, 1:
		return 1
	case 2:
		return most
	case 3:
		return most + 1 + m%3
	}
	return 1 + m%most
}
