package main

import (
	"context"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/gate/redisgate"
	"github.com/escapement-go/escapement/pace"
)

// entrance is a limit as a caller sees it: it returns when the caller may go.
type entrance func(ctx context.Context) error

// kind is something that limits.
type kind struct {
	// strict makes the entrance to one limit of n a second.
	strict func(c *redis.Client, key string, n int) entrance
	// keyed makes the entrance to a limit for each key, of n a second that may go at once.
	keyed func(c *redis.Client, n int) func(ctx context.Context, key string) error
}

func limiter(name string) *kind {
	switch name {
	case "redisgate":
		return &kind{strictGate, keyedGate}
	case "redis_rate":
		return &kind{
			strict: func(c *redis.Client, key string, n int) entrance {
				enter := keyedLimiter(c, n)
				return func(ctx context.Context) error { return enter(ctx, key) }
			},
			keyed: keyedLimiter,
		}
	}
	return nil
}

func strictGate(c *redis.Client, key string, n int) entrance {
	g := redisgate.New(c, key, redisgate.Limits{redisgate.Strict(n, time.Second, nil)}, nil)
	return func(ctx context.Context) error {
		p, err := g.Enter(ctx, 1)
		p.Leave(nil)
		return err
	}
}

func keyedGate(c *redis.Client, n int) func(ctx context.Context, key string) error {
	limits := redisgate.Limits{redisgate.Rate(pace.PerSecond(n), &redisgate.RateOptions{Burst: n})}
	gates := gate.NewKeyed(func(key string) gate.Gate { return redisgate.New(c, key, limits, nil) }, nil)
	return func(ctx context.Context, key string) error {
		p, err := gates.Enter(ctx, key, 1)
		p.Leave(nil)
		return err
	}
}

// keyedLimiter asks again after the time that the limiter returns.
func keyedLimiter(c *redis.Client, n int) func(ctx context.Context, key string) error {
	l := redis_rate.NewLimiter(c)
	return func(ctx context.Context, key string) error {
		for {
			r, err := l.Allow(ctx, key, redis_rate.PerSecond(n))
			if err != nil && ctx.Err() == nil {
				r, err = &redis_rate.Result{RetryAfter: 100 * time.Millisecond}, nil // the server is away
			}
			if err != nil || r.Allowed > 0 {
				return err
			}
			select {
			case <-time.After(r.RetryAfter):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}
