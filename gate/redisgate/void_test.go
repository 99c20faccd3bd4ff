//go:build unix

package redisgate_test

import (
	"context"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate/redisgate"
)

// A hold has voided slots of a window, and others have their tokens by now. A member that did not
// hear of it gives the slots back: as not used, or as having cost less.
func TestScriptTakesBackNothingOthersHave(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const sec, start = 1_000_000, int64(1_790_000_000_000_000)
	for _, what := range []string{"v", "s", "r"} {
		s.fresh()
		epoch := int64(0)
		call := func(at int64, who string, gen int64, op ...any) []int64 {
			s.at(t, start+at, "one", 1000)
			a := s.call(t, append([]any{who, sec, 20_000, sec, epoch, gen, min(epoch, 1), 0, 0, 0, 0, 0, 1,
				"w", 2 * sec, 5, sec / 64, 0, 0, 0, 0, 0, 0}, op...)...)
			epoch = a[1]
			return a[20:]
		}
		call(0, "c", 0, "d", 1, 5, 0) // the window is full
		mine := call(15*sec/10, "a", 0, "d", 1, 5, 0)
		call(15*sec/10, "b", 0, "h", 10_000, 0, 0)
		others := call(152*sec/100, "b", 1, "d", 1, 5, 0)
		cost := -1
		if what == "r" {
			cost = 1
		}
		var back []any
		for _, delay := range mine {
			back = append(back, what, start+15*sec/10+delay, cost, 0)
		}
		call(222*sec/100, "a", 0, back...)
		if got := call(222*sec/100, "c", 1, "d", 1, 5, 0); len(mine) != 5 || len(others) != 5 || len(got) > 0 {
			t.Errorf("%s: of 5 that may go, %d had been handed out, then %d and %d more", what, len(mine), len(others), len(got))
		}
	}
}

// A slot that was given back and not taken in time has cost nothing, whichever member asks next.
// The same goes for a slot that is given back too late for others to take it.
func TestScriptLapsedCostsNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const sec, start = 1_000_000, int64(1_790_000_000_000_000)
	for name, limit := range map[string][]any{
		"window": {"w", 3 * sec, 5, 3 * sec / 128, 0, 0, 0, 0, 0, 0},
		"rate":   {"g", 3 * sec, 5, 5, 0, 0, 0, 0, 0, 0},
		"strict": {"g", 3 * sec, 1, 1, 0, 1, 0, 0, 0, 0},
	} {
		count := 5
		if name == "strict" {
			count = 1
		}
		for _, late := range []bool{false, true} {
			s.fresh()
			epoch := int64(0)
			call := func(at int64, ahead int, op ...any) []int64 {
				s.at(t, start+at, "one", 1000)
				a := s.call(t, append(append([]any{"me", sec, 0, ahead, epoch, 0, min(epoch, 1), 0, 0, 0, 0, 0, 1}, limit...), op...)...)
				epoch = a[1]
				return a[20:]
			}
			call(0, sec, "d", 1, count, 0)
			var back []any
			asked := int64(28 * sec / 10)
			for _, delay := range call(asked, sec, "d", 1, count, 0) {
				back = append(back, "r", start+asked+delay, 1, 0)
			}
			if late {
				call(33*sec/10, 0, back...)
			} else {
				call(asked, 0, back...)
			}
			if got := call(33*sec/10, 0, "d", 1, count, 0); len(back) == 0 || len(got) == 0 || name == "window" && len(got) < count {
				t.Errorf("%s, late %v: %d slots were given back, and %d are to be had after that", name, late, len(back)/4, len(got))
			}
		}
	}
}

// Two slots at one instant are two, whichever member gives them back.
func TestScriptTakesBackTwins(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fresh()
	const sec, start = 1_000_000, int64(1_790_000_000_000_000)
	epoch := int64(0)
	call := func(at int64, op ...any) []int64 {
		s.at(t, start+at, "one", 1000)
		a := s.call(t, append([]any{"me", sec, 20_000, sec, epoch, 0, min(epoch, 1), 0, 0, 0, 0, 0, 1,
			"w", sec, 2, sec / 128, 0, 0, 0, 0, 0, 0}, op...)...)
		epoch = a[1]
		return a[20:]
	}
	call(0, "d", 1, 2, 0)
	at := start + sec/2 + call(sec/2, "d", 1, 2, 0)[0]
	call(sec/2, "r", at, 1, 0)
	call(sec/2, "r", at, 1, 0)
	if got := s.c.ZCard(context.Background(), s.keys[1]).Val(); got != 2 {
		t.Errorf("two slots were given back, and there are %d", got)
	}
}

// A process that is stopped while a hold is called gives back, when it goes on, nothing that others
// have had since.
func TestStoppedThroughAHold(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	const n = 20
	j := job{Addrs: []string{s.addr()}, Key: key(), Kind: "window", N: n, Span: 2 * time.Second, Callers: n, For: 4500 * ms}
	b := member(t, s, j.Key, j.limits(), nil)
	ws := crew(t, 1, j)
	begin(ws)
	time.Sleep(1700 * ms)
	ws[0].cmd.Process.Signal(syscall.SIGSTOP)
	b.Hold(20 * ms)
	var mu sync.Mutex
	var all []int64
	var wait sync.WaitGroup
	for range n {
		wait.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 1500*ms)
			defer cancel()
			if p, err := b.Enter(ctx, 1); err == nil {
				at := redisgate.GrantedAt(p).UnixNano()
				mu.Lock()
				all = append(all, at)
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	time.Sleep(300 * ms) // its slots are too old by now
	ws[0].cmd.Process.Signal(syscall.SIGCONT)
	<-ws[0].done
	all = append(all, ws[0].grants...)
	slices.Sort(all)
	if most, _ := densest(all, 2*time.Second); most > n {
		t.Errorf("%d in two seconds, where %d is the limit", most, n)
	}
}

// Units may be out for their TTL, which can be longer than slots. A server that has not been up for
// that long gives none to a new member, even if it has been up for long enough for slots.
func TestScriptUnitsOutliveSlots(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const sec, start = 1_000_000, int64(1_790_000_000_000_000)
	for uptime, want := range map[int64]int{5: 0, 10: 0, 11: 1} {
		s.fresh()
		s.at(t, start, "one", uptime)
		a := s.call(t, "me", sec, 20_000, sec, 0, 0, 0, 0, 0, 0, 0, 0, 1, "c", 1, 10*sec, 0, 0, 0, 0, 0, 0, 0, "d", 1, 1, 0)
		if got := len(a[20:]); got != want {
			t.Errorf("a server that has been up for %d s gives %d units with a TTL of 10 s, want %d", uptime, got, want)
		}
	}
}
