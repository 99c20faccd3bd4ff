package measure

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// ErrDeaf says that a case was left out, because the limiter does not look at contexts. Its
// callers would have gone on waiting for more than two seconds after the end.
var ErrDeaf = errors.New("left out: its waits can't be cancelled")

// patience is how long callers of a deaf limiter may go on waiting.
const patience = 2 * time.Second

var errOver = errors.New("measure: the case is over")

// crowd is what the callers of a case share.
type crowd struct {
	ctx   context.Context         // ended by the end of the case
	end   context.CancelCauseFunc // the first cause counts; an error of Wait before the end is one
	epoch time.Time
	wg    sync.WaitGroup
}

func newCrowd(ctx context.Context) *crowd {
	c := &crowd{epoch: time.Now()}
	c.ctx, c.end = context.WithCancelCause(ctx)
	return c
}

func (c *crowd) now() int64 { return int64(time.Since(c.epoch)) }

// sleep waits, but not beyond the end of the case.
func (c *crowd) sleep(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.ctx.Done():
	}
}

// close ends the case and waits for the callers. It returns an error if the result is worth
// nothing.
func (c *crowd) close() error {
	c.end(errOver)
	c.wg.Wait()
	if err := context.Cause(c.ctx); err != errOver {
		return err
	}
	return nil
}

// loop plays a case in which each caller takes one token after the other.
func loop(ctx context.Context, l Limiter, what Case) (*Result, error) {
	c := newCrowd(ctx)
	var over atomic.Bool // beside the context, because Context.Err takes a lock
	start := make(chan struct{})
	room := int(min(float64(what.PerSecond)*(what.warmUp()+what.length()).Seconds()*1.25, 1<<26))
	grants := make([][]int64, what.Callers)
	for i := range grants {
		grants[i] = make([]int64, 0, room/what.Callers+16)
	}
	for i := range what.Callers {
		c.wg.Go(func() {
			mine := grants[i]
			defer func() { grants[i] = mine }()
			<-start // closed below, whatever happens
			for !over.Load() {
				if err := l.Wait(c.ctx); err != nil {
					c.end(err)
					return
				}
				mine = append(mine, c.now())
			}
		})
	}
	close(start)
	for range what.Busy * runtime.GOMAXPROCS(0) {
		c.wg.Go(func() {
			for !over.Load() { // keeps a processor busy
			}
		})
	}
	c.sleep(what.warmUp())
	used, known := CPU()
	from := c.now()
	c.sleep(what.length())
	to := c.now()
	usedBy, _ := CPU()
	over.Store(true)
	if err := c.close(); err != nil {
		return nil, err
	}

	all := slices.Concat(grants...)
	slices.Sort(all)
	r := &Result{Case: what, Excess: Excess(all, what.PerSecond, 1)}
	r.Grants = within(all, from, to)
	r.Length = time.Duration(to - from)
	r.figures()
	r.CPU = perToken(used, usedBy, known, r.Tokens)
	return r, nil
}

// within returns the instants of a sorted slice that are after from and not after to.
func within(at []int64, from, to int64) []int64 {
	after := func(t, limit int64) int {
		if t <= limit {
			return -1
		}
		return 1
	}
	i, _ := slices.BinarySearchFunc(at, from, after)
	j, _ := slices.BinarySearchFunc(at, to, after)
	return at[i:max(i, j)]
}
