package queue

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Callers in parallel, while groups are joined: never more at a time than there are slots, each entry has
// one outcome, and nothing is left.
func TestParallel(t *testing.T) {
	const callers, calls = 16, 40
	both(t, func(n *bench) {
		l := [2]*slots{n.slots(3), n.slots(2)}
		rate := n.bucket(2, 10)
		queues := []*Queue{&n.door().Queue, &l[0].Queue, &l[1].Queue, &rate.Queue, &n.window(50, 200).Queue}
		var in, fates [3]atomic.Int64 // fates: admitted, too late, given up
		var left atomic.Int64
		use := func(i int) {
			if in[i].Add(1) > int64(l[i].size) {
				n.Errorf("more than %d at a time", l[i].size)
			}
			runtime.Gosched()
			in[i].Add(-1)
			l[i].leave(1)
		}
		caller := func(id int) {
			draw := rand.New(rand.NewPCG(1, uint64(id)))
			mine := queues[id%3 : id%3+1+id%2*2] // one, or three that are joined while others wait
			s := set(mine...)
			for range calls {
				if id%4 == 0 && l[0].pass() {
					use(0)
				}
				ctx, cancel := n.WithTimeout(time.Duration(draw.IntN(300) + 1))
				claims := claims(s, 1)
				switch _, err := s.Enter(ctx, claims, nil); err := err.(type) {
				case nil:
					fates[0].Add(1)
					s.Settle(claims, all(claims, 1))
					for i, q := range mine {
						if _, ok := q.limit.(*slots); ok {
							use((id%3 + i) - 1)
						}
					}
				case *TooLate:
					fates[1].Add(1)
				default:
					if fates[2].Add(1); !errors.Is(err, context.DeadlineExceeded) {
						n.Error(err)
					}
				}
				cancel()
			}
			left.Add(-1)
		}
		left.Store(callers)
		for id := range callers {
			go caller(id)
		}
		for left.Load() > 0 {
			n.Advance(7)
		}
		if sum := fates[0].Load() + fates[1].Load() + fates[2].Load(); sum != callers*calls {
			n.Errorf("%d fates of %d entries", sum, callers*calls)
		}
		for i, q := range queues {
			if len(q.parked)+len(q.wanted) > 0 || q.out > 0 {
				n.Errorf("limit %d: parked %d, wanted %d, out %d", i, len(q.parked), len(q.wanted), q.out)
			}
		}
		if l[0].free() != 3 || l[1].free() != 2 {
			n.Errorf("%d and %d slots are left", l[0].free(), l[1].free())
		}
	})
}

// However groups are joined, at the same time and in any order, one is left.
func TestJoinInParallel(t *testing.T) {
	both(t, func(n *bench) {
		var all sync.WaitGroup
		for range 300 {
			n.toys = nil
			for range 8 {
				n.slots(1)
			}
			for i := range 4 {
				all.Go(func() {
					for j := range 7 {
						j = (j*3 + i*2) % 7
						Join(&n.toys[j].Queue, &n.toys[j+1].Queue)
					}
				})
			}
			all.Wait()
			for i, y := range n.toys {
				if y.root() != n.toys[0].root() {
					n.Fatalf("queue %d is in another group", i)
				}
			}
		}
	})
}

// Each goroutine joins two neighbours, once, in groups of mixed age. No join of one undoes that of another.
func TestJoinOnceEach(t *testing.T) {
	both(t, func(n *bench) {
		for range 10000 {
			n.toys = nil
			for range 8 {
				n.slots(1)
			}
			r := n.toys
			rand.Shuffle(len(r), func(i, j int) { r[i], r[j] = r[j], r[i] })
			var all sync.WaitGroup
			for i := range r[1:] {
				all.Go(func() { Join(&r[i].Queue, &r[i+1].Queue) })
			}
			all.Wait()
			for i, y := range r {
				if y.root() != r[0].root() {
					n.Fatalf("queue %d is in another group", i)
				}
			}
		}
	})
}
