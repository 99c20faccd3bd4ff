package timing

import (
	"container/heap"
	"sync"
	"time"
)

// Precision says when an alarm asks to be woken exactly. The values are those of pace.Precision.
type Precision int

const (
	Auto      Precision = iota // where the interval is worth it
	Precise                    // always
	Coalesced                  // never
)

// worthwhile is the shortest interval, in nanoseconds, at which Auto asks for wake-ups. There they
// cost twice the processor time of plain timers. Below it they cost much more, because one plain
// timer grants several tokens at once. Measured with one caller in a loop, on a virtual machine of
// two cores, with Go 1.26:
//
//	            plain timers         exact wake-ups
//	interval    gap error   CPU      gap error   CPU
//	            p99         a token  p99         a token
//	200 µs      950 µs      11 µs     65 µs      50 µs
//	300 µs      860 µs      16 µs    100 µs      55 µs
//	500 µs      670 µs      26 µs    190 µs      52 µs
//	700 µs      700 µs      34 µs     75 µs      48 µs
//	1 ms        1,000 µs    37 µs     80 µs      42 µs
//	2 ms        920 µs      70 µs    140 µs      75 µs
//	5 ms        880 µs     130 µs    140 µs     146 µs
const worthwhile = 500e3

// apart is the shortest time between two wake-ups, in nanoseconds. An alarm that is due in between
// is woken a little late. Without it, ten thousand gates, each worth its wake-ups by itself, would
// spend more processor time on them than on all the rest.
//
// Where instants are closer together than this, it is also the least distance to which an alarm
// that is not Precise is set. In a process that is awake, timers ring at their instants, one for
// each token. With one caller in a loop at 100,000/s, that takes 1.03 µs of processor time a token.
// Ringing once for ten tokens takes 0.62 µs. At 1,000,000/s the two are 0.49 and 0.23 µs.
const apart = 100e3

// wakeups has the process woken at the instants of all alarms that want it exactly. It has one
// timer of the system for all of them, armed for the earliest. That timer only ends the process's
// sleep. The runtime then finds the alarm's own timer due. So a wake-up too many does no harm, and
// without wake-ups alarms are only later.
//
// It keeps no goroutine. An instant that has passed is forgotten when the next one is looked for:
// when an alarm is set or stopped. If no other alarm is, the one that rang will be.
type wakeups struct {
	mu    sync.Mutex // a leaf: nothing is locked, and nothing blocks, while it is held
	queue wakeQueue  // guarded by mu, like all below: the alarms to be woken for, earliest first
	armed int64      // the instant for which arm was last called
	gone  int64      // the last armed instant that has passed
	arm   func(now, at int64)
}

// set has the process woken for a at the given instant, and at no other.
func (w *wakeups) set(a *Alarm, now, at int64) {
	if bubbled() {
		return // no time passes outside of the bubble meanwhile
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	a.wakeAt = at
	if a.pos == 0 {
		heap.Push(&w.queue, a)
	} else {
		heap.Fix(&w.queue, a.pos-1)
	}
	w.next(now)
}

// remove forgets a.
func (w *wakeups) remove(a *Alarm) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a.pos == 0 {
		return
	}
	heap.Remove(&w.queue, a.pos-1)
	if len(w.queue) > 0 && w.queue[0].wakeAt != w.armed {
		w.next(a.clk.Now())
	}
}

// next arms the earliest instant to come, or the first after it that is apart from the last
// wake-up. Once an alarm's instant has passed, it needs no wake-up: the process is awake, and finds
// the timer due before it sleeps again. If no alarm is left, the timer stays armed, which costs
// less than to disarm it.
func (w *wakeups) next(now int64) {
	if w.armed <= now {
		w.gone = w.armed
	}
	for len(w.queue) > 0 && w.queue[0].wakeAt <= now {
		heap.Pop(&w.queue)
	}
	if len(w.queue) == 0 {
		return
	}
	if at := max(w.queue[0].wakeAt, w.gone+apart); at != w.armed {
		w.armed = at
		w.arm(now, at)
	}
}

// bubbled reports whether the caller is in a testing/synctest bubble: only there time.Now has no
// monotonic reading.
func bubbled() bool {
	now := time.Now()
	return now == now.Round(0)
}

// wakeQueue is a heap of alarms by the instant at which they are to be woken.
type wakeQueue []*Alarm

func (q wakeQueue) Len() int           { return len(q) }
func (q wakeQueue) Less(i, j int) bool { return q[i].wakeAt < q[j].wakeAt }
func (q wakeQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].pos, q[j].pos = i+1, j+1
}
func (q *wakeQueue) Push(x any) {
	a := x.(*Alarm)
	*q = append(*q, a)
	a.pos = len(*q)
}
func (q *wakeQueue) Pop() any {
	last := len(*q) - 1
	a := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	a.pos = 0
	return a
}
