package main

import (
	"container/heap"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/escapement-go/escapement/gate"
)

// slotWorld is a far side that works on so many calls at a time, and the way to it. It has its slots for a phase,
// half of them for the next one, and all of them again for the third. The client always has more calls to make.
type slotWorld struct {
	slots   int
	latency float64 // of a call that waits for no slot, in units
	most    float64 // the client's own bound, with which it begins, in multiples of slots
	tails   bool    // service times are lognormal, sigma 1; otherwise they vary by ±20 %
	queue   bool    // a call that finds no slot waits for one, in place of being refused
	ceiling float64 // on latency, in latencies; 0: none. A call beyond it is no success
	noise   float64 // the share of calls that are refused whatever their number
	stays   bool    // the number of slots does
	slower  float64 // in the second phase service takes so many times as long; 0: it does not
	seed    uint64
}

const (
	slotUnit  = time.Millisecond
	slotPhase = 2000 * slotUnit
)

// onTheWay is the share of the latency for which a call takes no slot.
const onTheWay = 0.1

// span is how long a phase is: 2,000 units, or 200 round trips if that is less. Where calls wait for slots, a round
// trip takes longer than the latency, so it is 400.
func (w slotWorld) span() time.Duration {
	trips := 200.0
	if w.queue {
		trips = 400
	}
	return min(slotPhase, time.Duration(trips*w.base()))
}

func (w slotWorld) base() float64 { return w.latency * float64(slotUnit) }
func (w slotWorld) bound() int    { return int(float64(w.slots) * w.most) }

// longest is the ceiling on latency.
func (w slotWorld) longest() time.Duration { return time.Duration(w.ceiling * w.base()) }

// far returns how many slots there are at that instant.
func (w slotWorld) far(at time.Duration) int {
	if w.stays || w.slower > 0 || at < w.span() || at >= 2*w.span() {
		return w.slots
	}
	return max(1, w.slots/2)
}

// service returns how long a call that begins now has its slot.
func (w slotWorld) service(rng *rand.Rand, now time.Duration) time.Duration {
	d := (1 - onTheWay) * w.base()
	if w.tails {
		d *= math.Exp(rng.NormFloat64() - 0.5)
	} else {
		d *= 0.8 + 0.4*rng.Float64()
	}
	if w.slower > 0 && now >= w.span() && now < 2*w.span() {
		d *= w.slower
	}
	return time.Duration(d)
}

// name is how the table calls the world.
func (w slotWorld) name() string {
	var s strings.Builder
	switch {
	case w.slower > 0:
		fmt.Fprintf(&s, "%d servers, ×%v slower", w.slots, w.slower)
	case w.queue:
		fmt.Fprintf(&s, "%d servers", w.slots)
	case w.stays && w.most <= 1:
		fmt.Fprintf(&s, "no limit below %d", w.slots)
	default:
		fmt.Fprintf(&s, "%d slots", w.slots)
	}
	if w.stays && w.most > 1 {
		s.WriteString(", which stay")
	}
	if w.noise > 0 {
		fmt.Fprintf(&s, ", %v %% noise", 100*w.noise)
	}
	if w.ceiling > 0 {
		fmt.Fprintf(&s, ", ceiling ×%v", w.ceiling)
	}
	if w.tails {
		s.WriteString(", tails")
	}
	return s.String()
}

// slotClient decides how many calls are in flight.
type slotClient interface {
	// enter admits a call, or reports false. inFlight is the number of calls in flight with it.
	enter(now time.Duration, inFlight int) (leave func(answer), ok bool)
	// limit returns how many calls may be in flight.
	limit() int
}

// answer is what a client learns of a call.
type answer struct {
	now, took time.Duration
	inFlight  int  // when it was sent, with it
	well      bool // it was not refused, and not later than the ceiling
	refused   bool
}

// slotOutcome counts answers.
type slotOutcome struct {
	well, bad int
	highest   int // the limit's highest value in the last quarter of the second phase
}

func (o *slotOutcome) add(p slotOutcome) {
	o.well += p.well
	o.bad += p.bad
	o.highest = max(o.highest, p.highest)
}

func (o slotOutcome) share() float64 { return 100 * float64(o.bad) / float64(max(o.well+o.bad, 1)) }

// slotCall is a call at its next station.
type slotCall struct {
	at       time.Duration
	order    int
	start    time.Duration
	inFlight int
	leave    func(answer)
	next     int
	well     bool
}

// The stations of a call. The last one is no call: the number of slots changes.
const (
	callArrives = iota
	callServed
	callReturns
	slotsChange
)

type slotCalls []slotCall

func (q slotCalls) Len() int { return len(q) }
func (q slotCalls) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].order < q[j].order
}
func (q slotCalls) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *slotCalls) Push(x any)   { *q = append(*q, x.(slotCall)) }
func (q *slotCalls) Pop() any {
	last := len(*q) - 1
	c := (*q)[last]
	*q = (*q)[:last]
	return c
}

// play makes calls in the world, by the client, for three phases. It counts from a tenth of a phase on.
func (w slotWorld) play(clk *virtual, client slotClient) (o slotOutcome) {
	var (
		rng     = rand.New(rand.NewPCG(w.seed, 7))
		way     = func() time.Duration { return time.Duration(w.base() * onTheWay / 2 * (0.8 + 0.4*rng.Float64())) }
		queue   slotCalls
		waiting slotCalls // at the far side
		order   int
		now     time.Duration
		flying  int
		busy    int
	)
	send := func(c slotCall, to int, after time.Duration) {
		order++
		c.next, c.order, c.at = to, order, now+after
		heap.Push(&queue, c)
	}
	enter := func() {
		for {
			leave, ok := client.enter(now, flying+1)
			if !ok {
				return
			}
			flying++
			send(slotCall{start: now, leave: leave, inFlight: flying}, callArrives, way())
		}
	}
	serve := func() {
		for len(waiting) > 0 && busy < w.far(now) {
			busy++
			send(waiting[0], callServed, w.service(rng, now))
			waiting = waiting[1:]
		}
	}
	for i := range time.Duration(2) {
		send(slotCall{}, slotsChange, (i+1)*w.span())
	}
	enter()
	for now < 3*w.span() {
		c := heap.Pop(&queue).(slotCall)
		now = c.at
		clk.at = now
		switch c.next {
		case callArrives:
			if rng.Float64() < w.noise || !w.queue && busy >= w.far(now) {
				send(c, callReturns, way())
				continue
			}
			waiting = append(waiting, c)
			serve()
		case callServed:
			busy--
			c.well = true
			send(c, callReturns, way())
			serve()
		case slotsChange:
			serve()
		case callReturns:
			flying--
			took := now - c.start
			a := answer{now: now, took: took, inFlight: c.inFlight, refused: !c.well, well: c.well && (w.ceiling == 0 || took <= w.longest())}
			switch {
			case now < w.span()/10:
			case a.well:
				o.well++
			default:
				o.bad++
			}
			c.leave(a)
			if now > w.span()*7/4 && now < 2*w.span() {
				o.highest = max(o.highest, client.limit())
			}
			enter()
		}
	}
	return o
}

// gatedSlots goes through an AdaptiveConcurrency.
type gatedSlots struct{ gate *gate.AdaptiveConcurrency }

func newGatedSlots(clk *virtual, w slotWorld) slotClient {
	return gatedSlots{gate.NewAdaptiveConcurrency(w.bound(), &gate.AdaptiveConcurrencyOptions{Latency: w.longest(), Clock: clk})}
}

func (g gatedSlots) limit() int { return g.gate.Limit() }
func (g gatedSlots) enter(time.Duration, int) (func(answer), bool) {
	p, ok := g.gate.TryEnter(1)
	return func(a answer) {
		if a.refused {
			p.Leave(gate.Throttled(0, errTooMany))
		} else {
			p.Leave(nil) // the gate looks at the ceiling itself
		}
	}, ok
}

// told is a client that knows the number of slots at every instant, and keeps so many calls in flight.
type told struct {
	world slotWorld
	clk   *virtual
}

func (t told) limit() int { return t.world.far(t.clk.at) }
func (t told) enter(_ time.Duration, inFlight int) (func(answer), bool) {
	return func(answer) {}, inFlight <= t.limit()
}

// slotWorlds are the lines of the table.
func slotWorlds() (all []slotWorld) {
	for _, slots := range []int{4, 20, 100} {
		for _, latency := range []float64{0.2, 5, 20, 50} {
			if latency < 20 && slots == 100 || latency < 5 && slots == 20 {
				continue // a phase has 200 round trips, as for 4 slots
			}
			for _, most := range []float64{1, 4} {
				all = append(all, slotWorld{slots: slots, latency: latency, most: most})
			}
		}
		all = append(all, slotWorld{slots: slots, latency: 20, most: 4, tails: true})
	}
	for _, noise := range []float64{0.01, 0.02, 0.05, 0.1} {
		all = append(all, slotWorld{slots: 64, latency: 20, most: 1, stays: true, noise: noise})
	}
	for _, noise := range []float64{0.01, 0.02, 0.05, 0.1} {
		all = append(all, slotWorld{slots: 64, latency: 20, most: 2, stays: true, noise: noise})
	}
	for _, noise := range []float64{0.02, 0.1} {
		all = append(all, slotWorld{slots: 64, latency: 20, most: 2, noise: noise})
	}
	for _, ceiling := range []float64{2, 4} {
		for _, tails := range []bool{false, true} {
			all = append(all, slotWorld{slots: 20, latency: 5, most: 4 * ceiling, queue: true, ceiling: ceiling, tails: tails})
		}
	}
	all = append(all, slotWorld{slots: 20, latency: 5, most: 4, queue: true, ceiling: 4, slower: 10})
	return all
}

// slotRules are the columns of the table.
var slotRules = []struct {
	name string
	make func(*virtual, slotWorld) slotClient
}{
	{"this gate", newGatedSlots},
	{"AIMD", newAIMD},
	{"Vegas", newVegas},
	{"gradient2", newGradient2},
	{"Envoy", newEnvoy},
	{"failsafe", newFailsafe},
}

// slotLine is a line of the table: how all rules did, and the client that knows.
type slotLine struct {
	world slotWorld
	told  slotOutcome
	rules []slotOutcome
}

func (l slotLine) goodput(rule int) float64 {
	return 100 * float64(l.rules[rule].well) / float64(max(l.told.well, 1))
}

// line plays the world by the first rules. With few slots chance has a part, so that is the sum of three plays.
func (w slotWorld) line(rules int) (l slotLine) {
	l.world, l.rules = w, make([]slotOutcome, rules)
	plays := uint64(3)
	if w.slots > 20 {
		plays = 1
	}
	for w.seed = range plays {
		clk := new(virtual)
		l.told.add(w.play(clk, told{w, clk}))
		for i, r := range slotRules[:rules] {
			clk := new(virtual)
			l.rules[i].add(w.play(clk, r.make(clk, w)))
		}
	}
	return l
}

// slotTable plays the worlds by the first rules, and prints how it went.
func slotTable(out io.Writer, worlds []slotWorld, rules int) error {
	var head strings.Builder
	fmt.Fprintf(&head, "%-40s %7s %4s", "goodput % and refused or late %", "latency", "n")
	for _, r := range slotRules[:rules] {
		fmt.Fprintf(&head, "   %11s", r.name)
	}
	if _, err := fmt.Fprintln(out, head.String()); err != nil {
		return err
	}
	for _, w := range worlds {
		l := w.line(rules)
		var s strings.Builder
		fmt.Fprintf(&s, "%-40s %7v %4d", w.name(), w.latency, w.bound())
		for i, o := range l.rules {
			fmt.Fprintf(&s, "   %5.1f %5.1f", l.goodput(i), o.share())
		}
		if _, err := fmt.Fprintln(out, s.String()); err != nil {
			return err
		}
	}
	return nil
}
