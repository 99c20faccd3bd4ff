package group

import (
	"fmt"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/escapement-go/escapement/internal/timing"
)

// BatchOptions are the options of [Batch]. A nil *BatchOptions, as well as the zero value, means
// the defaults.
type BatchOptions struct {
	// Wait is how long the first value of a batch waits for the others. 0 means until the batch is
	// full or in is closed. Negative means no wait: a reader that is ready to take a batch gets
	// what is there.
	Wait time.Duration

	Clock clock.Clock // nil means the real clock
}

// Batch returns a channel of batches of n values of in, in their order. Use it where a far side
// takes many values in one call. It panics if g or in is nil or n less than 1.
//
// A batch is sent when it is full, when its first value has waited as long as the options say, and
// when in is closed. It is never empty. After its time has come, a batch still grows, up to n,
// until a reader takes it. At most n values are in the stage, and each batch is a slice of its own.
func Batch[T any](g *Group, in <-chan T, n int, o *BatchOptions) <-chan []T {
	checkGroup("Batch", g)
	checkInput("Batch", in)
	if n < 1 {
		panic(fmt.Sprintf("group: Batch: n must be at least 1, got %d", n))
	}
	if o == nil {
		o = &BatchOptions{}
	}
	b := &batcher[T]{in: in, n: n, wait: o.Wait}
	if o.Wait > 0 {
		b.clk = timing.New(o.Clock)
		b.timer = timing.NewTimer(b.clk)
	}
	// No buffer: a batch that is not taken yet can then grow.
	return sourceOf(g, 0, b.run)
}

// batcher is the goroutine of a Batch.
type batcher[T any] struct {
	*sender[[]T]
	in    <-chan T
	n     int
	wait  time.Duration
	batch []T
	usual int // length of the batch before

	// These are set with a Wait above 0.
	clk   *timing.Clock
	timer *timing.Timer
	due   int64 // instant at which the batch's first value has waited long enough
}

func (b *batcher[T]) run(s *sender[[]T]) error {
	b.sender = s
	if b.timer != nil {
		defer b.timer.Stop()
	}
	for open := true; open; {
		var v T
		if v, open = receive(&b.flow, b.in); open {
			b.batch = append(make([]T, 0, min(b.n, max(b.usual, 16))), v)
			open = b.gather() && b.offer()
		}
		if len(b.batch) > 0 && !b.give() {
			break
		}
	}
	return nil
}

// give sends the batch.
func (b *batcher[T]) give() bool {
	batch := b.batch
	b.given()
	return b.send(batch)
}

// given starts an empty batch.
func (b *batcher[T]) given() {
	b.usual = len(b.batch)
	b.batch = nil
}

// add adds v if ok, and returns ok. If not, in or the group has ended.
func (b *batcher[T]) add(v T, ok bool) bool {
	if ok {
		b.batch = append(b.batch, v)
	} else {
		b.ended()
	}
	return ok
}

// gather adds values until the batch is full or its time has come. It returns false at the end of
// in or of the group.
func (b *batcher[T]) gather() bool {
	switch {
	case b.wait < 0:
		return b.gatherReady()
	case b.wait == 0:
		return b.gatherFull()
	}
	return b.gatherTimed()
}

// gatherReady adds the values that can be received at once.
func (b *batcher[T]) gatherReady() bool {
	for len(b.batch) < b.n {
		select {
		case v, ok := <-b.in:
			if !b.add(v, ok) {
				return false
			}
		default:
			return true
		}
	}
	return true
}

// gatherFull adds values until the batch is full.
func (b *batcher[T]) gatherFull() bool {
	for len(b.batch) < b.n {
		v, ok := receive(&b.flow, b.in)
		if !ok {
			return false
		}
		b.batch = append(b.batch, v)
	}
	return true
}

// gatherTimed adds values until the batch is full, or its first value has waited long enough.
func (b *batcher[T]) gatherTimed() bool {
	now := b.clk.Now()
	b.due = timing.Later(now, b.wait)
	b.timer.Set(now, b.due)
	for len(b.batch) < b.n {
		// A value that is there needs no select with three cases. But the timer comes first.
		select {
		case <-b.timer.C:
			if b.isDue() {
				return true
			}
		default:
		}
		select {
		case v, ok := <-b.in:
			if !b.add(v, ok) {
				return false
			}
			continue
		default:
		}
		select {
		case v, ok := <-b.in:
			if !b.add(v, ok) {
				return false
			}
		case <-b.timer.C:
			if b.isDue() {
				return true
			}
		case <-b.done:
			b.ended()
			return false
		}
	}
	return true
}

// isDue reports, after the timer has rung, whether the batch's time has come. If not, the ring was
// for an earlier batch.
func (b *batcher[T]) isDue() bool {
	b.timer.Rang()
	now := b.clk.Now()
	if now < b.due {
		b.timer.Set(now, b.due)
		return false
	}
	b.timer.Stop()
	return true
}

// offer sends the batch, which may grow meanwhile, or returns when it is full. It returns false at
// the end of in or of the group.
func (b *batcher[T]) offer() bool {
	for len(b.batch) < b.n {
		select {
		case b.out <- b.batch:
			b.given()
			return true
		default:
		}
		select {
		case b.out <- b.batch:
			b.given()
			return true
		case v, ok := <-b.in:
			if !b.add(v, ok) {
				return false
			}
		case <-b.done:
			b.ended()
			return false
		}
	}
	return true
}
