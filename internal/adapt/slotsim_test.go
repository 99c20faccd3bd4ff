package adapt_test

import (
	"container/heap"
	"math"
	"math/rand/v2"

	"github.com/escapement-go/escapement/internal/adapt"
)

// The simulation of a far side with hidden slots, and of a client that always has more to do. The far side has so
// many slots for a phase, half of them for the next one, and all of them again for the third. Instants are
// nanoseconds. The same one, with the public gate and the rules of other libraries, is in examples/adaptive.

// slotCell is one line of the table.
type slotCell struct {
	slots   int64
	latency float64 // of a call without any queue, in units
	most    float64 // the limit that the client begins with, in multiples of slots
	spread  spread  // of the service times
	queue   bool    // calls that find no slot wait for one, in place of being refused
	ceiling float64 // on latency, in latencies; 0: none
	noise   float64 // the share of calls that are refused whatever their number
	slow    bool    // a refusal takes as long as a success
	stays   bool    // the number of slots does
	slower  float64 // in the second phase, latency is multiplied by this; 0: it is not
	seed    uint64
}

// spread is how the service times vary. Their mean is the same.
type spread int

const (
	even  spread = iota
	near         // ± 20 %
	tails        // lognormal, sigma 1: one in ten takes 2.2 times as long as the mean, one in a hundred 6.2 times
)

// network is the share of the latency that a call is under way. It takes no slot meanwhile.
const network = 0.1

// phase is how long each number of slots lasts: 2,000 units, or 400 round trips if that is less.
func (c slotCell) phase() int64 { return min(phase, int64(400*c.latency*float64(unit))) }

// far returns how many slots the far side has at that instant.
func (c slotCell) far(at int64) int64 {
	if c.stays || c.slower > 0 || at < c.phase() || at >= 2*c.phase() {
		return c.slots
	}
	return max(1, c.slots/2)
}

func (c slotCell) base() float64 { return c.latency * float64(unit) }

// service returns how long a call has its slot.
func (c slotCell) service(rng *rand.Rand, at int64) int64 {
	d := (1 - network) * c.base()
	switch c.spread {
	case near:
		d *= 0.8 + 0.4*rng.Float64()
	case tails:
		d *= math.Exp(rng.NormFloat64() - 0.5)
	}
	if c.slower > 0 && at >= c.phase() && at < 2*c.phase() {
		d *= c.slower
	}
	return int64(d)
}

// slotLimiter decides how many calls may be in flight.
type slotLimiter interface {
	Limit() int64
	Grant(now, cost, used int64) (mark uint64)
	Success(now int64, mark uint64, cost int64) bool
	Refused(now int64, mark uint64, after int64) (changed, counts bool)
}

// slots returns the Slots under test.
func (c slotCell) limiter() *adapt.Slots {
	s := adapt.NewSlots(adapt.SlotsConfig{
		Most:    int64(float64(c.slots) * c.most),
		Backoff: 2,
		Latency: int64(c.ceiling * c.base()),
	})
	return &s
}

// knowing is a limiter that knows the number of slots at every instant.
type knowing struct {
	cell slotCell
	now  int64
}

func (k *knowing) Limit() int64                              { return k.cell.far(k.now) }
func (k *knowing) Grant(now, _, _ int64) uint64              { k.now = now; return 0 }
func (k *knowing) Success(now int64, _ uint64, _ int64) bool { k.now = now; return false }
func (k *knowing) Refused(now int64, _ uint64, _ int64) (bool, bool) {
	k.now = now
	return false, false
}

// slotOutcome counts the answers from a tenth of a phase on. A late one is neither well nor refused.
type slotOutcome struct {
	well, refused, late int
	limits              []int64 // after each answer
	third               int     // how many of well came in the last nine tenths of the third phase
}

// share is how many of the answers were refused or late, in percent.
func (o slotOutcome) share() float64 {
	return 100 * float64(o.refused+o.late) / float64(max(o.well+o.refused+o.late, 1))
}

func (o *slotOutcome) add(p slotOutcome) {
	o.well += p.well
	o.refused += p.refused
	o.late += p.late
}

// call is a call at its next station.
type call struct {
	at, order int64
	start     int64
	mark      uint64
	station   station
	well      bool
}

type station int

const (
	arrives station = iota
	served
	returns
	changes // not a call: the number of slots changes
)

type calls []call

func (q calls) Len() int { return len(q) }
func (q calls) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].order < q[j].order
}
func (q calls) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *calls) Push(x any)   { *q = append(*q, x.(call)) }
func (q *calls) Pop() any {
	last := len(*q) - 1
	c := (*q)[last]
	*q = (*q)[:last]
	return c
}

// run plays the three phases.
func (c slotCell) run(l slotLimiter) (o slotOutcome) {
	var (
		rng     = rand.New(rand.NewPCG(c.seed, 7))
		way     = func() int64 { return int64(c.base() * network / 2 * (0.8 + 0.4*rng.Float64())) }
		queue   calls
		order   int64
		now     int64
		used    int64 // by the client
		busy    int64 // slots of the far side
		waiting calls // at the far side, in order of arrival
	)
	send := func(e call, to station, after int64) {
		order++
		e.station, e.order, e.at = to, order, now+after
		heap.Push(&queue, e)
	}
	enter := func() {
		for used < l.Limit() {
			used++
			send(call{start: now, mark: l.Grant(now, 1, used)}, arrives, way())
		}
	}
	serve := func() {
		for len(waiting) > 0 && busy < c.far(now) {
			busy++
			send(waiting[0], served, c.service(rng, now))
			waiting = waiting[1:]
		}
	}
	for i := range int64(2) {
		send(call{}, changes, (i+1)*c.phase())
	}
	enter()
	for now < 3*c.phase() {
		e := heap.Pop(&queue).(call)
		now = e.at
		switch e.station {
		case arrives:
			refused := rng.Float64() < c.noise
			if !refused && (c.queue || busy < c.far(now)) {
				waiting = append(waiting, e)
				serve()
				continue
			}
			took := way()
			if c.slow {
				took = c.service(rng, now)
			}
			send(e, returns, took)
		case served:
			busy--
			e.well = true
			send(e, returns, way())
			serve()
		case changes:
			serve()
		case returns:
			used--
			late := c.ceiling > 0 && float64(now-e.start) > c.ceiling*c.base()
			if now >= c.phase()/10 {
				switch {
				case !e.well:
					o.refused++
				case late:
					o.late++
				default:
					o.well++
				}
			}
			if e.well && !late && now > 21*c.phase()/10 {
				o.third++
			}
			if e.well {
				l.Success(now, e.mark, 1)
			} else {
				l.Refused(now, e.mark, 0)
			}
			o.limits = append(o.limits, l.Limit())
			enter()
		}
	}
	return o
}
