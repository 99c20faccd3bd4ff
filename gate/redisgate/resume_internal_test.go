package redisgate

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// stuck returns a gate whose calls never begin, with one waiter.
func stuck(t *testing.T) *Gate {
	c := redis.NewClient(&redis.Options{})
	t.Cleanup(func() { c.Close() })
	g := New(c, "x", Limits{Window(5, time.Second, nil)}, &Options{Timeout: time.Millisecond})
	g.running = true
	g.queue.push(&waiter{claim: g.one, deadline: never, ready: make(chan struct{}, 1)})
	return g
}

// The call that reports a Resume also asks for the slots of the waiters, and not only of those without one: what
// they have in hand is for the end of the hold.
func TestResumeAsks(t *testing.T) {
	for what, inhand := range map[string]bool{"no slot": false, "a slot": true} {
		g := stuck(t)
		g.mu.Lock()
		now := instant()
		g.link.epoch, g.link.ask, g.link.held = 1, later(now, time.Hour), later(now, time.Hour)
		if inhand {
			g.take(slot{from: g.link.held, until: never, claim: g.one})
		}
		g.mu.Unlock()
		g.Resume()
		g.mu.Lock() // its alarm may ring
		r := g.build(instant())
		g.mu.Unlock()
		if len(r.ops) != 1 || r.ops[0].what != opResume || len(r.asked) != 1 {
			t.Errorf("with %s in hand it reports %+v, and asks for %d entries, want a Resume and 1", what, r.ops, len(r.asked))
		}
	}
}

// An answer from before a Resume does not hold the process again, and the one that says when Resume was called is
// remembered.
func TestAnswersAndResume(t *testing.T) {
	g := stuck(t)
	g.mu.Lock() // its alarm may ring
	defer g.mu.Unlock()
	g.link.held = later(instant(), time.Hour)
	answer := func(hold int64) *reply {
		return &reply{now: 1_790_000_000_000_000, epoch: 1, hold: hold, wait: -1, keep: -1, debts: []int64{0, 0}}
	}
	take := func(r *request, hold, at int64) {
		t.Helper()
		if err := g.takeAnswer(r, answer(hold), at); err != nil {
			t.Fatal(err)
		}
	}
	before := g.build(instant())
	g.mu.Unlock()
	g.Resume()
	g.mu.Lock()
	take(before, 3_600_000_000, instant())
	if now := instant(); g.held(now) {
		t.Errorf("held for %v by an answer from before Resume", time.Duration(g.link.held-now))
	}
	take(g.build(instant()), 3_600_000_000, instant()) // another process has called Hold after it
	if !g.held(instant()) {
		t.Error("not held by an answer from after Resume")
	}
	g.link.resumed = 0
	at := later(instant(), time.Minute) // so that it may have been called before
	take(g.build(at), -1-5_000_000, at)
	r := g.build(at)
	if known := g.knownHold(r); known == nil || known.Ended == nil || *known.Ended < 5_000_000 || *known.Ended > 6_000_000 || g.held(r.sent) {
		t.Errorf("it reports the hold as %+v, want a Resume 5 s ago", known)
	}
}
