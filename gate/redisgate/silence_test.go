//go:build unix

package redisgate_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/escapement-go/escapement/gate/redisgate"
)

// hanging keeps all calls of a client from the server while it is set.
type hanging struct{ atomic.Bool }

func (h *hanging) DialHook(next redis.DialHook) redis.DialHook { return next }
func (h *hanging) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if h.Load() {
			<-ctx.Done()
			return ctx.Err()
		}
		return next(ctx, cmd)
	}
}
func (h *hanging) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// While a row of turns goes on, a call tells all so each half horizon. When none has come for long enough, the first that
// does skips the row as a whole, and others from it begin a new one in the order in which they come.
func TestScriptSilence(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fresh()
	s.listen(t)
	defer s.heard.Close()
	const sec, start, members = 1_000_000, int64(1_790_000_000_000_000), 150
	epoch := int64(0)
	ask := func(now int64, i int) []int64 {
		s.at(t, now, "one", 1000)
		a := s.call(t, fmt.Sprint("m", i), sec, 0, sec, epoch, 0, min(1, epoch), 0, 0, 0, 0, 0, 1, "g", sec, 20, 1, 0, 1, 0, 0, 0, 0, "d", 1, 1, 0)
		epoch = a[1]
		return a[20:]
	}
	field := func(name string) int64 {
		n, _ := s.c.HGet(context.Background(), s.keys[0], name).Int64()
		return n
	}
	told := func(want string) {
		t.Helper()
		for {
			m, err := s.heard.ReceiveTimeout(context.Background(), 5*time.Second)
			if err != nil {
				t.Fatalf("%v, want %q", err, want)
			}
			if m, ok := m.(*redis.Message); ok && strings.HasPrefix(m.Payload, "row ") {
				if m.Payload != want {
					t.Fatalf("%q, want %q", m.Payload, want)
				}
				return
			}
		}
	}
	for i := range members {
		ask(start, i)
	}
	const turn = 5 * sec / 20 // as long as one takes
	if want := int64(sec/2 + turn + sec/4); s.turn == 0 || s.silent != want {
		t.Fatalf("the last one waits for %d µs of silence with a turn that ends at %d, want %d", s.silent, s.turn, want)
	}
	// The row goes on, and has begun half a horizon ago.
	ask(start+sec*6/10, 20)
	told("row 1000000")
	ask(start+sec*7/10, 21)
	ask(start+sec*11/10, 22)
	told("row 1000000")
	if field("anew") != 0 {
		t.Error("a row that goes on was skipped as a whole")
	}
	// Nothing comes for two horizons.
	tail := field("tail")
	if got := ask(start+sec*31/10, members-1); len(got) != 1 || got[0] != 0 {
		t.Errorf("slots %v, want one now", got)
	}
	if got := field("anew"); got != tail {
		t.Errorf("the row was skipped up to %d, want %d", got, tail)
	}
	last, turns := int64(-1), int64(0)
	for i := 50; i < members-10; i++ {
		if got := ask(start+sec*31/10, i); len(got) > 0 {
			if got[0] <= last || turns > 0 {
				t.Errorf("a slot in %d after one in %d, and after %d turns", got[0], last, turns)
			}
			last = got[0]
			continue
		}
		if turns++; s.turn <= tail+turns-1 || s.turn > field("tail") {
			t.Errorf("the turn of the %d. in the new row ends at %d, in a row from %d to %d", turns, s.turn, tail, field("tail"))
		}
	}
	if turns < members/3 {
		t.Errorf("a new row of %d turns", turns)
	}
	if got := ask(start+sec*35/10, members-5); len(got) != 1 || field("served") != tail {
		t.Errorf("one of the row that was skipped got %v, and %d of the new row have had theirs", got, field("served")-tail)
	}
}

// When most members go at once, or hang, those that stay are admitted within a horizon and a half, and then as often as
// the limit allows.
func TestMostMembersGo(t *testing.T) {
	t.Parallel()
	for name, hang := range map[string]bool{"leave": false, "hang": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			judge(t, func(soft *soft) {
				const members, stay, n = 150, 2, 20
				s := newServer(t).settled(3 * time.Second)
				k := key()
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				var hung hanging
				defer hung.Store(false) // before the gates are closed
				var all sync.WaitGroup
				var mu sync.Mutex
				var grants []time.Time // of those that stay
				mine, leave := context.WithCancel(ctx)
				for i := range members {
					c := s.client()
					enters := ctx
					if i >= stay {
						c.AddHook(&hung)
						if !hang {
							enters = mine
						}
					}
					g := redisgate.New(c, k, redisgate.Limits{redisgate.Strict(n, time.Second, nil)}, nil)
					t.Cleanup(func() { closed(t, g) })
					all.Go(func() {
						for enters.Err() == nil {
							if _, err := g.Enter(enters, 1); err == nil && i < stay {
								mu.Lock()
								grants = append(grants, time.Now())
								mu.Unlock()
							}
						}
					})
				}
				time.Sleep(4 * time.Second)
				left := time.Now()
				hung.Store(hang)
				leave()
				time.Sleep(5 * time.Second)
				end := time.Now()
				cancel()
				all.Wait()
				last, gap, since := left, time.Duration(0), 0
				for _, at := range grants {
					if at.After(left) && at.Before(end) {
						gap, last = max(gap, at.Sub(last)), at
						if at.After(left.Add(2 * time.Second)) {
							since++
						}
					}
				}
				gap = max(gap, end.Sub(last))
				t.Logf("no entry for %v, then %d in 3 s", gap.Round(ms), since)
				soft.atMost("seconds without an entry, where two members wait and the others are gone, with a horizon of 1 s", gap.Seconds(), 1.7)
				soft.atLeast("entries in 3 s", float64(since), 0.9*3*(n-1)/1.02)
			})
		})
	}
}
