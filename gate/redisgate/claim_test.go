package redisgate

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// What the script is told of the costs of an entry.
func TestClaims(t *testing.T) {
	c := redis.NewClient(&redis.Options{})
	defer c.Close()
	g := New(c, "x", Limits{Each(Window(500, time.Second, nil)), Window(2000, time.Second, nil), Concurrency(100, nil)}, nil)
	for _, x := range []struct {
		claim               *claim
		text, unused        string
		weight, units, most int
	}{
		{g.claimOf(1), "1", "-1", 1, 1, 1},
		// 1 of 500 requests, or 9 of 2000 tokens.
		{g.claimOf(9), "3:1:9:9", "-1:-1:-9:-9", 3, 9, 9},
		{g.claimOfEach([]int{7, 40, 0}), "10:1:40:0", "-1:-1:-40:0", 10, 0, 40},
		{g.claimOfEach([]int{0, 0, 2}), "1:0:0:2", "-1:0:0:-2", 1, 2, 2},
		{g.claimOfEach([]int{5, 1, 1}), "1", "-1", 1, 1, 1},
	} {
		if got := x.claim; got.text != x.text || got.unused() != x.unused || got.weight != x.weight || got.units != x.units || g.atFallback(got) != x.most {
			t.Errorf("%v: %q, %q, weight %d, %d units, want %q, %q, %d and %d", got.costs, got.text, got.unused(), got.weight, got.units, x.text, x.unused, x.weight, x.units)
		}
	}
	plain := New(c, "y", Limits{Window(500, time.Second, nil), Window(2000, time.Second, nil)}, nil)
	if got := plain.claimOf(9); got.text != "9" || got.unused() != "-9" || got.weight != 9 {
		t.Errorf("%q, %q, weight %d", got.text, got.unused(), got.weight)
	}
}
