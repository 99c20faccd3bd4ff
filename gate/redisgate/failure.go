package redisgate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// requeueOps puts the operations of a failed call back. Those that take something are sent again:
// better twice than never. Those that give something back are not, as the failed call may have been
// executed.
func (g *Gate) requeueOps(r *request) {
	r.ops = slices.DeleteFunc(r.ops, func(o op) bool { return o.back })
	g.ops = append(r.ops, g.ops...)
	for _, t := range r.tries {
		close(t.done)
	}
}

// noteFailure notes that a call has failed.
func (g *Gate) noteFailure(r *request, err error, now int64) {
	k := &g.link
	k.failed, k.mistake = err, nil
	if isMistake(err) {
		g.noteMistake(err, now)
		return
	}
	k.fails++
	k.retry = later(now, g.pause(time.Duration(now-r.sent)))
	if k.fails > 1 || now-r.sent >= int64(g.timeout) {
		k.away = err
	}
	if g.closed && k.away != nil {
		g.dropUnsent()
	}
}

// pause returns how long to wait after a failure that took so long. A call without an answer may be one of many that a
// server has yet to do, and another one makes that worse. So the pause is as long as the call was, and longer each time,
// and each member's is another one. Else there is a short pause after the second failure in a row.
func (g *Gate) pause(took time.Duration) time.Duration {
	fails, wait := g.link.fails, time.Duration(0)
	if fails > 1 {
		wait = max(min(firstWait<<min(fails-2, 10), lastWait), min(took, g.timeout))
	}
	if took >= g.timeout {
		wait = g.timeout << min(fails-1, 2)
	}
	return wait/2 + rand.N(wait/2+1)
}

// noteMistake refuses all entries that wait for Redis. While what is left to report is not tried again, those that come
// are refused, too.
func (g *Gate) noteMistake(err error, now int64) {
	k := &g.link
	k.fails++
	k.mistake, k.away = &ServerError{Err: err}, nil
	k.retry = later(now, min(firstWait<<min(k.fails-1, 10), lastWait))
	for w := g.queue.first(); w != nil; w = g.queue.first() {
		g.refuse(w, k.mistake)
	}
	if g.closed {
		g.dropUnsent()
	}
}

// dropUnsent drops what a closed gate could not report. The gate goes on renewing the lease of
// units in use.
func (g *Gate) dropUnsent() {
	g.ops, g.lessons, g.link.askNow = nil, lessons{}, false
	if u := &g.units; u.use == 0 {
		u.held, u.noted = 0, false
	}
}

// whyAway returns what keeps Redis away, or seems to.
func (g *Gate) whyAway(now int64) error {
	k := &g.link
	switch {
	case k.away != nil:
		return k.away
	case k.failed != nil:
		return k.failed
	case k.sent != 0 && now-k.sent > int64(g.timeout/4):
		return fmt.Errorf("no answer within %v", time.Duration(now-k.sent).Round(time.Millisecond))
	}
	return nil
}
