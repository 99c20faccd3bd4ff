package retry

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/escapement-go/escapement/internal/timing"
)

// Budget bounds the retries of all calls that share it. Share one among all policies that talk to
// the same far side: when most of what is sent fails, retries make things worse.
//
// A retry is allowed as long as there is one in either of two buckets:
//
//   - One gets Share of a retry with every call, and holds up to Saved. It starts empty.
//   - The other gets Floor retries a second, and holds up to one second's worth. It starts full.
//
// So in any time of length w, in which n calls begin, there are at most
//
//	Saved + Share·n + Floor·(w + 1s)
//
// retries. Counted from the budget's first use there are Saved fewer. A call that is refused a retry
// ends with [ErrBudget]; the budget is then unchanged.
//
// The zero Budget works, with the defaults. After its first use it must not be copied, and its
// settings must not be changed. It is safe for concurrent use. It takes no lock. While it is full,
// because no call has to retry, calls only read it.
//
// Sources: the retry budget of Twitter's Finagle (a share of calls and a floor per second), and
// retry throttling in gRPC (proposal A6: a bucket without a clock).
type Budget struct {
	// Share is how many retries every call brings, to the nearest millionth. 0 means 0.2. A
	// negative share means none, and so does NaN.
	Share float64

	// Floor is how many retries a second there are even without calls. 0 means 10. Negative means
	// none.
	Floor int

	// Saved is how many retries can be saved up by calls that need none. 0 means 100. Negative
	// means 1, the least that is of any use.
	Saved int

	// Clock is where the time of the floor comes from. Nil means the real clock.
	Clock clock.Clock

	once  sync.Once
	clk   *timing.Clock
	saved atomic.Int64 // millionths of a retry
	floor atomic.Int64 // the instant at which the floor is full again
}

// coin is one retry, in the unit in which they are counted: millionths.
const coin = 1_000_000

// call adds what a call brings.
func (b *Budget) call() {
	share, most := b.share(), b.most()
	for {
		old := b.saved.Load()
		if old >= most || share == 0 {
			return
		}
		if b.saved.CompareAndSwap(old, min(old+share, most)) {
			return
		}
	}
}

// take takes a retry, and reports whether there was one.
func (b *Budget) take() bool {
	for {
		old := b.saved.Load()
		if old < coin {
			break
		}
		if b.saved.CompareAndSwap(old, old-coin) {
			return true
		}
	}
	n, interval := b.perSecond()
	if n < 0 {
		return false
	}
	now := b.now()
	for {
		old := b.floor.Load()
		// A goroutine that read the clock earlier but got here later finds less, not more.
		full := max(old, now) + interval
		if full-now > n*interval {
			return false
		}
		if b.floor.CompareAndSwap(old, full) {
			return true
		}
	}
}

// Left returns how many retries the budget has now, in both buckets.
func (b *Budget) Left() int {
	left := b.saved.Load() / coin
	if n, interval := b.perSecond(); n > 0 {
		now := b.now()
		left += (n*interval - max(b.floor.Load()-now, 0)) / interval
	}
	return int(min(left, math.MaxInt))
}

// perSecond returns the floor, and the time that each of its retries takes. The floor is negative if there is none.
func (b *Budget) perSecond() (n, interval int64) {
	n = int64(min(b.Floor, int(time.Second)))
	switch {
	case n < 0:
		return n, 0
	case n == 0:
		n = 10
	}
	// Rounded up, so that the floor is never exceeded.
	return n, (int64(time.Second) + n - 1) / n
}

func (b *Budget) now() int64 {
	b.once.Do(func() { b.clk = timing.New(b.Clock) })
	return b.clk.Now()
}

// share returns what a call brings, in millionths.
func (b *Budget) share() int64 {
	switch {
	case b.Share == 0:
		return coin / 5
	case b.Share > 0:
		return int64(min(math.Round(b.Share*coin), float64(b.most())))
	}
	return 0 // negative or not a number
}

// most returns how much calls may save up, in millionths.
func (b *Budget) most() int64 {
	if b.Saved == 0 {
		return 100 * coin
	}
	return min(max(int64(b.Saved), 1), math.MaxInt64/coin/4) * coin
}
