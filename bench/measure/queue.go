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

// queue plays a case in which each caller takes one token, and all of them wait at once.
func queue(ctx context.Context, l Limiter, what Case) (*Result, error) {
	c := newCrowd(ctx)
	grants := slices.Repeat([]int64{never}, what.Callers)
	var come atomic.Int64
	used, known := CPU()
	release := c.now()
	h, held := l.(Holder)
	// To hold takes time in a crowd that is still coming, so the end of the hold is between these.
	first, last := release, release
	// extend lets the hold go on for at least three quarters as long again.
	extend := func() {
		if held && first-c.now() < int64(what.gather()/4*3) {
			first = c.now() + int64(what.gather())
			h.Hold(what.gather())
			last = c.now() + int64(what.gather())
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
	// For the last time: all of them wait, or are about to. Behind a million who are, it can take
	// seconds until the limiter is held, and nobody knows when; then once more.
	for range 10 {
		if !held || c.ctx.Err() != nil {
			break
		}
		now := c.now()
		release = max(last, now+int64(what.gather()/4*3)) + int64(longer)
		h.Hold(time.Duration(release - now))
		last = c.now() + release - now
		if last-release < int64(longer) {
			break
		}
	}
	c.sleep(time.Duration(release - c.now()))
	// Whoever is still there by then is sent home.
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
