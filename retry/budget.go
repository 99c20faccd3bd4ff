package retry

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/escapement-go/escapement/internal/timing"
)

// Budget bounds the retries of all calls that share it: when most of what is sent out fails,
// retries make things worse. Share one by all policies that talk to the same far side.
//
// A retry is allowed as long as there is one in either of two buckets. One gets Share of a
// retry with every call, and holds up to Saved; it starts empty. The other fills by Floor a
// second, and holds up to one second's worth; it starts full. So in any time of length w, in
// which n calls begin, there are at most
//
//	Saved + Share·n + Floor·(w + 1s)
//
// retries, and since the budget's first use even Saved fewer. A call whose retry is refused
// ends with [ErrBudget], and the budget is unchanged.
//
// The zero Budget works, with the defaults. It must not be copied, nor its settings be
// changed, after its first use. It is safe for any number of goroutines. It takes no lock,
// and while it is full, because nobody has to retry, calls do no more than read it.
//
// Sources: the retry budget of Twitter's Finagle (a share of calls and a floor per second),
// and retry throttling in gRPC (proposal A6: a bucket without a clock).
type Budget struct {
	// Share is how many retries every call brings, to the nearest millionth. 0 means 0.2.
	// Negative, and NaN, means none.
	Share float64

	// Floor is the number of retries a second that are there without any calls. 0 means 10.
	// Negative means none.
	Floor int

	// Saved is the number of retries that calls without any may save up. 0 means 100.
	// Negative means 1, which is the least that is of any use.
	Saved int

	// Clock is where the time of the floor comes from. Nil means the real clock.
	Clock clock.Clock

	once  sync.Once
	clk   *timing.Clock
	saved atomic.Int64 // millionths of a retry
	floor atomic.Int64 // the instant at which the floor is full again
}

// coin is the unit in which retries are counted: a millionth.
const coin = 1_000_000

// call counts a call.
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
	n := int64(min(b.Floor, int(time.Second)))
	switch {
	case n < 0:
		return false
	case n == 0:
		n = 10
	}
	b.once.Do(func() { b.clk = timing.New(b.Clock) })
	// Rounded up, so that the floor is never exceeded.
	interval := (int64(time.Second) + n - 1) / n
	now := b.clk.Now()
	for {
		old := b.floor.Load()
		// Whoever read the clock earlier than others but got here later finds less, not more.
		full := max(old, now) + interval
		if full-now > n*interval {
			return false
		}
		if b.floor.CompareAndSwap(old, full) {
			return true
		}
	}
}

// share returns what a call brings.
func (b *Budget) share() int64 {
	switch {
	case b.Share == 0:
		return coin / 5
	case b.Share > 0:
		return int64(min(math.Round(b.Share*coin), float64(b.most())))
	}
	return 0 // negative or not a number
}

// most returns what calls may save up.
func (b *Budget) most() int64 {
	if b.Saved == 0 {
		return 100 * coin
	}
	return min(max(int64(b.Saved), 1), math.MaxInt64/coin/4) * coin
}
