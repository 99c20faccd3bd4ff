package measure

import (
	"context"
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// never stands for the instant of a caller that got no token.
const never = math.MinInt64

// queue plays a case in which each caller takes one token, and all of them wait at once. It plays
// once more if a hold was over before the machine could extend it.
func queue(ctx context.Context, l Limiter, what Case) (*Result, error) {
	for gather := what.gather(); ; gather *= 2 {
		r, err := gathered(ctx, l, what, gather)
		if err != nil || !r.Held || r.Tokens == 0 || r.Grants[0] >= 0 {
			return r, err
		}
		if r.Held = false; gather >= 4*what.gather() {
			return r, nil
		}
	}
}

// gathered plays the case once. Its callers come under holds of the given length.
func gathered(ctx context.Context, l Limiter, what Case, gather time.Duration) (*Result, error) {
	enough := int64(gather / 4 * 3)
	c := newCrowd(ctx)
	grants := slices.Repeat([]int64{never}, what.Callers)
	var come atomic.Int64
	used, known := CPU()
	release := c.now()
	h, held := l.(Holder)
	// To hold takes time in a crowd that is still coming. So the hold ends between these two
	// instants.
	first, last := release, release
	// extend makes the hold go on for at least three quarters of its length.
	extend := func() {
		if held && first-c.now() < enough {
			first = c.now() + int64(gather)
			h.Hold(gather)
			last = c.now() + int64(gather)
		}
	}
	for i := range grants {
		if i%1000 == 0 {
			extend()
		}
		c.wg.Go(func() {
			come.Add(1)
			if err := l.Wait(c.ctx); err != nil {
				c.end(err)
				return
			}
			grants[i] = c.now()
		})
	}
	for held && int(come.Load()) < what.Callers && c.ctx.Err() == nil {
		extend()
		c.sleep(time.Millisecond)
	}
	// This is the last hold: all callers wait, or are about to. Behind a million waiters, Hold may
	// take seconds to have its effect, and the hold may be over by then. Then it is made once more.
	for left := 10; held && left > 0 && c.ctx.Err() == nil; left-- {
		now := c.now()
		release = max(last, now+enough) + int64(longer)
		h.Hold(time.Duration(release - now))
		last = c.now() + release - now
		if last-release < int64(longer) {
			break
		}
	}
	c.sleep(time.Duration(release - c.now()))
	// Callers that still wait by then are ended.
	cut := time.AfterFunc(time.Duration(release-c.now())+3*what.Ideal()+time.Second, func() { c.end(errOver) })
	defer cut.Stop()
	c.wg.Wait()
	usedBy, _ := CPU()
	if err := c.close(); err != nil {
		return nil, err
	}

	slices.Sort(grants)
	missing, _ := slices.BinarySearch(grants, never+1)
	grants = grants[missing:]
	r := &Result{Case: what, Excess: Excess(grants, what.PerSecond, 1), Held: held, Cut: missing > 0}
	for i := range grants {
		grants[i] -= release
	}
	r.Grants = grants
	r.figures()
	if n := len(grants); n > 0 {
		r.Total = time.Duration(grants[n-1])
	}
	r.CPU = perToken(used, usedBy, known, r.Tokens)
	return r, nil
}
