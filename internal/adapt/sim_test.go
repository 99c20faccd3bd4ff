package adapt_test

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/escapement-go/escapement/internal/adapt"
)

// The simulation: a client that asks for more than the far side allows, and a far side that
// is a token bucket. All instants are nanoseconds. The same one, with the public gate in the
// place of the State, is the program examples/adaptive.

const (
	unit    = int64(1e6)  // the far side's first interval
	phase   = 2000 * unit // how long each limit lasts
	leftOut = 200 * unit  // of the start
)

// pacer is what decides how long after an entry the next one may go.
type pacer interface {
	Interval() int64
	Grant(now int64) uint64
	Success(mark uint64) bool
	Throttle(mark uint64, after int64) (changed, counts bool)
}

// cell is one line of the table.
type cell struct {
	latency float64 // round trip in units
	burst   int     // of the far side
	told    float64 // the interval that the client was told, in units
	jitter  float64 // each way takes half the latency, times 1 ± that
	seed    uint64
	later   int64 // the phases come so much later
	far     far   // a token bucket or a window
	hint    hint  // what a refusal tells
	stays   bool  // the limit does
	noise   noise
}

// noise are refusals that do not depend on the pace.
type noise struct {
	share       float64 // of all entries
	from, until int64   // 0: always
	after       int64   // what such a refusal tells
	callers     int     // the most entries under way; 0: no bound
}

// far is the kind of the far side. A window is as many units long as it lets entries through.
type far int

const (
	bucket far = iota
	sliding
	fixed
	open // no limit
)

const window = 100

// hint is what the far side tells with a refusal of how long it will take.
type hint int

const (
	nothing hint = iota
	exact
	rounded // up to whole windows, as seconds are
)

// outcome is how the far side answered, from the time on that counts.
type outcome struct{ well, throttled, possible int }

func (o outcome) goodput() float64 { return 100 * float64(o.well) / float64(o.possible) }
func (o outcome) share() float64   { return 100 * float64(o.throttled) / float64(o.well+o.throttled) }

// adaptive returns the State under test.
func (c cell) adaptive() pacer {
	s := adapt.New(adapt.Config{Fastest: int64(c.told * float64(unit)), Slowest: 1000 * unit, Backoff: 2, Recover: 0.9})
	return &s
}

// length is how long the limits last altogether.
func (c cell) length() int64 {
	if c.stays {
		return 4 * phase
	}
	return 3 * phase
}

// possible is how many entries the far side lets through in the time that counts.
func (c cell) possible() int {
	if c.stays {
		return int((4*phase - leftOut) / unit)
	}
	return int((phase-leftOut)/unit + phase/(2*unit) + phase/unit)
}

// limit returns the far side's interval at that instant, and when it changes.
func (c cell) limit(at int64) (interval, until int64) {
	switch at -= c.later; {
	case c.stays:
		return unit, 1 << 62
	case at < phase:
		return unit, c.later + phase
	case at < 2*phase:
		return 2 * unit, c.later + 2*phase
	}
	return unit, 1 << 62
}

// event is an entry on its way: there, or back.
type event struct {
	at, order int64
	mark      uint64
	back      bool
	well      bool
	after     int64
}

type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].order < q[j].order
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *events) Push(x any)   { *q = append(*q, x.(event)) }
func (q *events) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	*q = (*q)[:last]
	return e
}

// refusedAtRandom decides without a look at the pace.
func (c cell) refusedAtRandom(rng *rand.Rand, now int64) (well bool, after int64) {
	n := c.noise
	if n.share > 0 && now >= n.from && (n.until == 0 || now < n.until) && rng.Float64() < n.share {
		return false, n.after
	}
	return true, 0
}

// run plays the three phases.
func (c cell) run(p pacer) (o outcome) {
	var (
		rng     = rand.New(rand.NewPCG(c.seed, 0))
		queue   events
		order   int64
		far     = newFarSide(c)
		now     int64
		granted = -p.Interval()
		held    int64
		end     = c.later + c.length()
	)
	o.possible = c.possible()
	way := func() int64 {
		return int64(c.latency / 2 * float64(unit) * (1 + c.jitter*(2*rng.Float64()-1)))
	}
	send := func(e event) {
		order++
		e.order = order
		heap.Push(&queue, e)
	}
	for {
		due := max(granted+p.Interval(), held, now)
		if len(queue) == 0 || queue[0].at > due && (c.noise.callers == 0 || len(queue) < c.noise.callers) {
			if due >= end {
				return o
			}
			now, granted = due, due
			send(event{at: now + way(), mark: p.Grant(now)})
			continue
		}
		e := heap.Pop(&queue).(event)
		now = e.at
		switch {
		case !e.back:
			e.well, e.after = c.refusedAtRandom(rng, now)
			if e.well {
				e.well, e.after = far.take(now)
			}
			if now >= c.later+leftOut && now < end {
				if e.well {
					o.well++
				} else {
					o.throttled++
				}
			}
			e.at, e.back = now+way(), true
			send(e)
		case e.well:
			p.Success(e.mark)
		default:
			if _, counts := p.Throttle(e.mark, e.after); counts {
				held = max(held, now+e.after)
			}
		}
	}
}

// founding is the rule as it was found: a throttle doubles, once a generation, and every
// success of the generation × 0.9.
type founding struct {
	interval, fastest int64
	generation        uint64
}

func (f *founding) Interval() int64    { return f.interval }
func (f *founding) Grant(int64) uint64 { return f.generation }
func (f *founding) Success(mark uint64) bool {
	if mark == f.generation {
		f.interval = max(f.interval*9/10, f.fastest)
	}
	return true
}
func (f *founding) Throttle(mark uint64, _ int64) (changed, counts bool) {
	if mark == f.generation {
		f.interval *= 2
		f.generation++
	}
	return true, true
}

// steady knows the far side's limit at any instant and goes at a fixed multiple of its
// interval. As the contract has it, a throttle doubles that, once a generation, until the
// first success of the next one.
type steady struct {
	cell       cell
	multiple   float64
	now        int64
	generation uint64
	doubled    bool
}

func (s *steady) Interval() int64 {
	limit, _ := s.cell.limit(s.now)
	x := int64(s.multiple * float64(limit))
	if s.doubled {
		x *= 2
	}
	return x
}
func (s *steady) Grant(now int64) uint64 { s.now = now; return s.generation }
func (s *steady) Success(mark uint64) bool {
	if mark == s.generation && s.doubled {
		s.doubled = false
		s.generation++
	}
	return true
}
func (s *steady) Throttle(mark uint64, _ int64) (changed, counts bool) {
	if mark == s.generation {
		s.doubled = true
		s.generation++
	}
	return true, true
}

// report is what a simulation has to say.
type report struct{ errors, logs []string }

func (r *report) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func (r *report) Error(args ...any) { r.errors = append(r.errors, fmt.Sprintln(args...)) }

func (r *report) Logf(format string, args ...any) {
	r.logs = append(r.logs, fmt.Sprintf(format, args...))
}

// simulation returns a test that plays once, for all of its runs: a simulation is deterministic.
func simulation(play func(*report)) func(*testing.T) {
	played := sync.OnceValue(func() (r report) {
		play(&r)
		return r
	})
	return func(t *testing.T) {
		r := played()
		for _, s := range r.errors {
			t.Error(s)
		}
		for _, s := range r.logs {
			t.Log(s)
		}
	}
}
