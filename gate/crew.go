package gate

import "sync/atomic"

// A crew is those whom a domain has let go and who have yet to get to run, which is up to the
// scheduler. If the system takes the processors away meanwhile, they come late, together with all who
// are let go then to make up for it: up to twice the slack. So no more than two shifts are let go at
// a time, and the next one when somebody has reported that one of them runs. Then the lock is not
// held for long either, however many are due, and when they are all to be held few have gone already.
//
// Where few wait that is left alone: so many can't be late together, and if both who are to report stay
// behind on a busy machine, the others would have to wait for them while they could go round and round.
//
// The last but one of each shift reports: what the scheduler hears of last, it runs first.
type crew struct {
	count int         // of the shift under way; as many as make one: it is complete
	out   [2]reporter // the last of whom it was asked
}

// shift is how many make one.
const shift = 64

// A reporter has been asked to tell when he has got to run.
type reporter struct {
	lane *lane
	seq  uint64 // among those of the lane, from 1 on; they count, whoever of them it is
}

// reports counts those who report. They do so without the lock.
type reports struct {
	asked uint64 // guarded by the domain
	heard atomic.Uint64
}

func (r *reporter) reported() bool {
	return r.lane == nil || r.lane.reports.heard.Load() >= r.seq
}

// busy reports whether as many have been let go as may be at a time.
func (c *crew) busy() bool {
	return c.count == shift && !c.out[0].reported() && !c.out[1].reported()
}

// add counts an entry that was let go, when the crew was not busy.
func (c *crew) add(l *lane, w *waiter) {
	if c.count == shift {
		c.count = 0
	}
	if c.count++; c.count < shift-1 || c.count == shift {
		return
	}
	r := &c.out[0]
	if !r.reported() {
		r = &c.out[1]
	}
	l.reports.asked++
	*r = reporter{l, l.reports.asked}
	w.reports = true
}

// report is what a reporter does as soon as he runs. He does not stand in line for the lock: who has
// it looks at the crew again when he has released it.
func (l *lane) report() {
	l.reports.heard.Add(1)
	d := l.places[0].n.dom.Load()
	for p := d.parent.Load(); p != nil; p = d.parent.Load() {
		d = p
	}
	if d.mu.TryLock() {
		d.unlock()
	}
}
