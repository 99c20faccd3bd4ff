package group_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/internal/bubble"
)

// arrival is a value that is sent at an instant.
type arrival struct {
	at time.Duration
	n  int
}

// sendAll sends values at their instants, and closes the channel at the end.
func sendAll(b *bubble.B, all []arrival, end time.Duration) <-chan int {
	in := make(chan int)
	go func() {
		defer close(in)
		for _, a := range all {
			if d := a.at - b.Now(); d > 0 {
				b.Sleep(d)
			}
			in <- a.n
		}
		b.Sleep(end - b.Now())
	}()
	return in
}

// Batches come when they are full, when their first value has waited long enough, and at
// the end, at these very instants.
func TestBatchInstants(t *testing.T) {
	arrivals := []arrival{{0, 0}, {30 * ms, 1}, {101 * ms, 2}, {199 * ms, 3}, {250 * ms, 4}, {260 * ms, 5}, {270 * ms, 6}, {280 * ms, 7}, {370 * ms, 8}, {1000 * ms, 9}}
	for _, test := range []struct {
		wait time.Duration
		want string
	}{
		{0, "280ms[0 1 2 3 4 5 6 7] 1.01s[8 9]"},
		{100 * ms, "100ms[0 1] 201ms[2 3] 350ms[4 5 6 7] 470ms[8] 1.01s[9]"},
		{50 * ms, "50ms[0 1] 151ms[2] 249ms[3] 300ms[4 5 6 7] 420ms[8] 1.01s[9]"},
		{82 * ms, "82ms[0 1] 183ms[2] 281ms[3 4 5 6 7] 452ms[8] 1.01s[9]"},
		{time.Hour, "280ms[0 1 2 3 4 5 6 7] 1.01s[8 9]"},
		{-1, "0s[0] 30ms[1] 101ms[2] 199ms[3] 250ms[4] 260ms[5] 270ms[6] 280ms[7] 370ms[8] 1s[9]"},
	} {
		bubble.Both(t, func(b *bubble.B) {
			g, _ := group.WithContext(context.Background())
			out := group.Batch(g, sendAll(b, arrivals, 1010*ms), 8, &group.BatchOptions{Wait: test.wait, Clock: b.Clock()})
			got := make(chan string, 100)
			go func() {
				defer close(got)
				for batch := range out {
					got <- fmt.Sprintf("%v%v", b.Now(), batch)
				}
			}()
			// In steps: the mock tells who waits the instant of the end of a step.
			for b.Now() < 1010*ms {
				b.Advance(ms)
			}
			var all string
			for s := range got {
				all += " " + s
			}
			if all != " "+test.want {
				b.Errorf("wait %v: got%s\nwant %s", test.wait, all, test.want)
			}
			checkWait(b, g, nil)
		})
	}
}

// A batch whose time has come grows while nobody takes it, but not beyond its size, and the
// time of the next one begins with its first value.
func TestBatchGrowsWhileNobodyTakesIt(t *testing.T) {
	for _, wait := range []time.Duration{-1, 10 * ms} {
		bubble.Both(t, func(b *bubble.B) {
			g, _ := group.WithContext(context.Background())
			in := make(chan int)
			out := group.Batch(g, in, 4, &group.BatchOptions{Wait: wait, Clock: b.Clock()})
			sent := 0
			fill := func() {
				for range 3 {
					b.Settle()
					select {
					case in <- sent:
						sent++
					default:
					}
				}
			}
			for range 3 {
				fill()
				b.Advance(10 * ms)
			}
			if sent != 4 {
				b.Errorf("wait %v: %d values taken, want 4", wait, sent)
			}
			if got := <-out; !slices.Equal(got, []int{0, 1, 2, 3}) {
				b.Errorf("wait %v: got %v", wait, got)
			}
			in <- 4
			b.Settle()
			select {
			case got := <-out:
				if wait > 0 {
					b.Errorf("wait %v: %v came at once", wait, got)
				}
			default:
				if wait < 0 {
					b.Error("the batch was not offered at once")
				}
			}
			close(in)
			b.Settle()
			if got, err := group.Collect(g, out); err != nil || (wait > 0) != (len(got) == 1) {
				b.Errorf("wait %v: at the end: %v and %v", wait, got, err)
			}
		})
	}
}

// With no wait at all, a batch is all there is.
func TestBatchAtOnceTakesWhatIsThere(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g, _ := group.WithContext(context.Background())
		got, err := group.Collect(g, group.Batch(g, counted(10), 4, &group.BatchOptions{Wait: -1}))
		if want := "[[0 1 2 3] [4 5 6 7] [8 9]]"; fmt.Sprint(got) != want || err != nil {
			t.Errorf("got %v and %v, want %s", got, err, want)
		}
	})
}

// Batches are slices of their own: who reads one may keep and change it.
func TestBatchesShareNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g, _ := group.WithContext(context.Background())
		all, err := group.Collect(g, group.Batch(g, counted(10), 3, nil))
		if err != nil {
			t.Error(err)
		}
		for i, batch := range all {
			for j := range batch {
				if batch[j] != 3*i+j {
					t.Errorf("batch %d is %v", i, batch)
				}
				batch[j] = -1
			}
			all[i] = append(batch, -1, -1, -1)
		}
	})
}

// While a batch is gathered the stage ends with its context.
func TestBatchCancelled(t *testing.T) {
	for _, wait := range []time.Duration{-1, 0, time.Second} {
		for _, read := range []bool{false, true} {
			bubble.Both(t, func(b *bubble.B) {
				parent, cancel := context.WithCancelCause(context.Background())
				g, _ := group.WithContext(parent)
				in := make(chan int, 3)
				in <- 1
				out := group.Batch(g, in, 3, &group.BatchOptions{Wait: wait, Clock: b.Clock()})
				ended := make(chan bool)
				go func() {
					defer close(ended)
					if read {
						for range out {
						}
					}
				}()
				synctest.Wait()
				cancel(errTwo)
				checkWait(b, g, errTwo)
				<-ended
			})
		}
	}
}

// An alarm that rang for an earlier batch, while nobody took that, does not end the next one.
func TestBatchOldAlarm(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g, _ := group.WithContext(context.Background())
		in := make(chan int)
		out := group.Batch(g, in, 2, &group.BatchOptions{Wait: 10 * ms, Clock: b.Clock()})
		in <- 0
		in <- 1
		b.Advance(25 * ms)
		if got := <-out; len(got) != 2 {
			b.Errorf("got %v", got)
		}
		in <- 2
		b.Advance(9 * ms)
		select {
		case got := <-out:
			b.Errorf("%v came at %v", got, b.Now())
		default:
		}
		b.Advance(ms)
		select {
		case got := <-out:
			if len(got) != 1 {
				b.Errorf("got %v", got)
			}
		default:
			b.Errorf("nothing came at %v", b.Now())
		}
		close(in)
		checkWait(b, g, nil)
	})
}

// A batch goes when its time has come, however many values are there.
func TestBatchInFlood(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g, _ := group.WithContext(context.Background())
		out := group.Batch(g, counted(1000), 1000, &group.BatchOptions{Wait: time.Second, Clock: hasty{clock.NewMock()}})
		if got := <-out; len(got) != 1 {
			t.Errorf("the first batch has %d values, want 1", len(got))
		}
		for range out {
		}
		checkWait(t, g, nil)
	})
}

// hasty is a clock whose time comes as soon as an alarm is set.
type hasty struct{ *clock.Mock }

func (c hasty) AfterFunc(d time.Duration, f func()) *clock.Timer {
	c.Mock.Add(d)
	f()
	return c.Mock.AfterFunc(time.Hour, func() {})
}
