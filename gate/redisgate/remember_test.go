package redisgate

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/escapement-go/escapement/pace"
)

// What an adaptive limit has learned is told to a server that has lost it, but not to one that has
// forgotten it in time.
func TestLearnedIsForgotten(t *testing.T) {
	c := redis.NewClient(&redis.Options{})
	defer c.Close()
	g := New(c, "x", Limits{Adaptive(pace.PerSecond(10), nil)}, nil)
	learned := int64(200 * time.Millisecond)
	g.link.known[0].y, g.link.epoch = learned, 1
	for _, alive := range []int64{1000, 0} {
		g.link.alive = alive
		want := int64(0)
		if alive > 0 {
			want = learned
		}
		if got := g.build(500).args[19]; got != want {
			t.Errorf("where the state lives until %d, at 500 it tells %v, want %d", alive, got, want)
		}
	}
}
