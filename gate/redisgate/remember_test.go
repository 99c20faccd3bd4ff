package redisgate

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/escapement-go/escapement/pace"
)

// A member reports what an adaptive limit has learned to a server that has lost it, but not to one
// that has forgotten it in time.
func TestLearnedIsForgotten(t *testing.T) {
	c := redis.NewClient(&redis.Options{})
	defer c.Close()
	g := New(c, "x", Limits{Adaptive(pace.PerSecond(10), nil)}, nil)
	learned := int64(200 * time.Millisecond)
	g.link.known[0].y, g.link.epoch = learned, 1
	for _, alive := range []int64{1000, 0} {
		g.link.aliveUntil = alive
		want := int64(0)
		if alive > 0 {
			want = learned
		}
		if got := g.build(500).Limits[0].Interval; got != want {
			t.Errorf("where the state lives until %d, at 500 it tells %v, want %d", alive, got, want)
		}
	}
}

// Units that come with an answer after their lease was lost belong to no entry. No entry that was
// asked for before is admitted with them.
func TestUnitsOfLostLease(t *testing.T) {
	c := redis.NewClient(&redis.Options{})
	defer c.Close()
	g := New(c, "x", Limits{Concurrency(5, nil)}, nil)
	w := &waiter{claim: g.one, deadline: never, ready: make(chan struct{}, 1)}
	g.queue.push(w)
	got := &try{claim: g.one, done: make(chan struct{})}
	g.tries = append(g.tries, got)
	now := instant()
	r := g.build(now)
	g.expire()
	answer := &reply{now: 1_790_000_000_000_000, epoch: 1, units: 2, keep: -1, debts: []int64{0, 0}, slots: []int64{0, 0}}
	if err := g.takeAnswer(r, answer, now+1); err != nil {
		t.Fatal(err)
	}
	if u := g.units; got.ok || g.queue.slots.count != 0 || u.inside != 0 || u.use != 0 || u.held != 0 {
		t.Errorf("with a lease that is over: tried %v, %d slots, %d units inside, %d used, %d held, want none", got.ok, g.queue.slots.count, u.inside, u.use, u.held)
	}
}
