package bench

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"

	"github.com/escapement-go/escapement/gate/redisgate"
	"github.com/escapement-go/escapement/pace"
)

// entrance is the limit as a caller sees it: it returns when the caller may go.
type entrance func(ctx context.Context) error

// peers make an entrance to the limit with that key, n per second, with the client of a process.
// Those that only say "not now" are asked again when they say.
var peers = []struct {
	name string
	make func(tb testing.TB, c *redis.Client, key string, n, burst int) entrance
}{
	{"redisgate", func(tb testing.TB, c *redis.Client, key string, n, burst int) entrance {
		limit := redisgate.Strict(n, time.Second, nil)
		if burst > 1 {
			limit = redisgate.Rate(pace.PerSecond(n), &redisgate.RateOptions{Burst: burst})
		}
		g := redisgate.New(c, key, redisgate.Limits{limit}, nil)
		tb.Cleanup(func() { g.Close(context.Background()) })
		return func(ctx context.Context) error {
			_, err := g.Enter(ctx, 1)
			return err
		}
	}},
	{"redis_rate", func(_ testing.TB, c *redis.Client, key string, n, burst int) entrance {
		l := redis_rate.NewLimiter(c)
		limit := redis_rate.Limit{Rate: n, Burst: max(burst, n), Period: time.Second} // PerSecond's own
		return func(ctx context.Context) error {
			for {
				r, err := l.Allow(ctx, key, limit)
				if err != nil || r.Allowed > 0 {
					return err
				}
				if err := sleep(ctx, r.RetryAfter); err != nil {
					return err
				}
			}
		}
	}},
	{"fixed window", func(_ testing.TB, c *redis.Client, key string, n, burst int) entrance {
		n = max(burst, n)
		return func(ctx context.Context) error {
			for {
				now := time.Now()
				a, err := fixedWindow.Run(ctx, c, []string{key}, now.UnixMilli(), time.Second.Milliseconds()).Int64Slice()
				if err != nil || a[0] <= int64(n) {
					return err
				}
				if err := sleep(ctx, time.UnixMilli(a[1]+1).Sub(now)); err != nil {
					return err
				}
			}
		}
	}},
	{"throttled", func(tb testing.TB, c *redis.Client, key string, n, burst int) entrance {
		store, err := goredisstore.NewCtx(c, "")
		if err != nil {
			tb.Fatal(err)
		}
		l, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: throttled.PerSec(n), MaxBurst: max(burst, n) - 1})
		if err != nil {
			tb.Fatal(err)
		}
		return func(ctx context.Context) error {
			for {
				limited, r, err := l.RateLimitCtx(ctx, key, 1)
				if err == nil && !limited {
					return nil
				}
				// Under contention it gives up comparing and swapping: an error, ask again.
				if err := sleep(ctx, max(r.RetryAfter, time.Millisecond)); err != nil {
					return err
				}
			}
		}
	}},
}

// fixedWindow is the algorithm of rueidislimiter: it counts from the first call on, for a span, by the clocks of
// its callers. Refused calls count, too. The module of rueidislimiter and its client were not run.
var fixedWindow = redis.NewScript(`
	local now, span = tonumber(ARGV[1]), tonumber(ARGV[2])
	local ends = tonumber(redis.call('HGET', KEYS[1], 'ends') or '0')
	if ends < now then
		ends = now + span
		redis.call('HSET', KEYS[1], 'ends', ends, 'count', 0)
		redis.call('PEXPIRE', KEYS[1], span + 1000)
	end
	return { redis.call('HINCRBY', KEYS[1], 'count', 1), ends }`)

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// start starts a server of its own and returns its address.
func start(tb testing.TB) string {
	tb.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		tb.Skip("redis-server is not in PATH: install it to run this")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	cmd := exec.Command("redis-server", "--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--save", "", "--dir", tb.TempDir())
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	c := redis.NewClient(&redis.Options{Addr: addr})
	defer c.Close()
	for c.Ping(context.Background()).Err() != nil {
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(2500 * time.Millisecond) // a young server could have forgotten something
	return addr
}

// counted counts round trips.
type counted struct{ n atomic.Int64 }

func (c *counted) DialHook(next redis.DialHook) redis.DialHook { return next }
func (c *counted) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmd)
	}
}
func (c *counted) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmds)
	}
}

func client(tb testing.TB, addr string, hook redis.Hook) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 32})
	if hook != nil {
		c.AddHook(hook)
	}
	tb.Cleanup(func() { c.Close() })
	return c
}

// Three clients of twenty callers each, 100 per second for five seconds.
func TestShared(t *testing.T) {
	addr := start(t)
	for _, p := range peers {
		var count counted
		var mu sync.Mutex
		var all []time.Duration
		var worst time.Duration
		shares := make([]int, 3)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		began := time.Now()
		var wg sync.WaitGroup
		for i := range shares {
			enter := p.make(t, client(t, addr, &count), "shared-"+p.name, 100, 1)
			for range 20 {
				wg.Go(func() {
					for {
						came := time.Now()
						if enter(ctx) != nil {
							return
						}
						mu.Lock()
						all = append(all, time.Since(began))
						worst = max(worst, time.Since(came))
						shares[i]++
						mu.Unlock()
					}
				})
			}
		}
		wg.Wait()
		cancel()
		slices.Sort(all)
		most, first := 0, 0
		for i := range all {
			for all[first] <= all[i]-time.Second {
				first++
			}
			most = max(most, i-first+1)
		}
		t.Logf("%-10s %d entries, at most %d in any second, shares %v, longest wait %v, %.2f round trips a grant",
			p.name, len(all), most, shares, worst.Round(time.Millisecond), float64(count.n.Load())/float64(len(all)))
		if p.name == "redisgate" && most > 100 {
			t.Errorf("%d in one second, where 100 is the limit", most)
		}
	}
}

// One entry after the other, none of which has to wait.
func BenchmarkUncontended(b *testing.B) {
	addr := start(b)
	for _, p := range peers {
		b.Run(p.name, func(b *testing.B) {
			var count counted
			enter := p.make(b, client(b, addr, &count), "alone-"+p.name, 1_000_000, 1_000_000)
			for b.Loop() {
				if err := enter(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(count.n.Load())/float64(b.N), "trips/op")
		})
	}
}

// As many entries as one server gives to 64 callers of one process, the limit being out of reach.
func BenchmarkGrants(b *testing.B) {
	addr := start(b)
	for _, p := range peers {
		b.Run(p.name, func(b *testing.B) {
			var count counted
			enter := p.make(b, client(b, addr, &count), "many-"+p.name, 1_000_000, 1_000_000)
			b.SetParallelism(32)
			began := time.Now()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := enter(b.Context()); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "grants/s")
			b.ReportMetric(float64(count.n.Load())/float64(b.N), "trips/op")
		})
	}
}
