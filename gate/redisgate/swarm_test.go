//go:build unix

package redisgate_test

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/gate/redisgate"
)

// calls counts round trips.
type calls struct{ n atomic.Int64 }

func (c *calls) DialHook(next redis.DialHook) redis.DialHook { return next }
func (c *calls) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.count(cmd)
		return next(ctx, cmd)
	}
}
func (c *calls) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.count(cmds...)
		return next(ctx, cmds)
	}
}

func (c *calls) count(cmds ...redis.Cmder) {
	for _, cmd := range cmds {
		switch cmd.Name() {
		case "evalsha", "eval", "fcall":
			c.n.Add(1)
		}
	}
}

// swarm is several members of one gate, each with a client of its own, and what all of them were granted.
type swarm struct {
	gates []*redisgate.Gate
	calls calls

	mu     sync.Mutex
	grants []grant
	halted time.Duration // this process was kept from running
}

type grant struct {
	at   int64
	cost int
}

// newSwarm makes so many members, whose clients connect to the addresses in turn.
func newSwarm(t testing.TB, n int, limits redisgate.Limits, addrs ...string) *swarm {
	t.Helper()
	w := &swarm{}
	name := key()
	for i := range n {
		c := redis.NewClient(&redis.Options{Addr: addrs[i%len(addrs)], ContextTimeoutEnabled: true, MaxRetries: -1})
		c.AddHook(&w.calls)
		c.Ping(context.Background())
		g := redisgate.New(c, name, limits, nil)
		t.Cleanup(func() {
			closed(t, g)
			c.Close()
		})
		w.gates = append(w.gates, g)
	}
	return w
}

// enter enters the i-th gate and notes the grant.
func (w *swarm) enter(ctx context.Context, i, cost int) (gate.Pass, error) {
	p, err := w.gates[i].Enter(ctx, cost)
	if err == nil {
		w.note(p, cost)
	}
	return p, err
}

func (w *swarm) note(p gate.Pass, cost int) {
	at := redisgate.GrantedAt(p).UnixNano()
	w.mu.Lock()
	w.grants = append(w.grants, grant{at, cost})
	w.mu.Unlock()
}

// most returns the most tokens in any span, half open.
func (w *swarm) most(span time.Duration) (most int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.SortFunc(w.grants, func(a, b grant) int { return cmp.Compare(a.at, b.at) })
	first, sum := 0, 0
	for _, g := range w.grants {
		sum += g.cost
		for w.grants[first].at <= g.at-int64(span) {
			sum -= w.grants[first].cost
			first++
		}
		most = max(most, sum)
	}
	return most
}

// between returns how many entries and tokens were granted between two instants.
func (w *swarm) between(from, to time.Time) (entries, tokens int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, g := range w.grants {
		if g.at >= from.UnixNano() && g.at < to.UnixNano() {
			entries++
			tokens += g.cost
		}
	}
	return entries, tokens
}

// measure lets the callers work for a while. It returns what was granted after the warm-up, per second, and the
// round trips a grant.
//
// What the machine kept the process from doing is told to soft.
func (w *swarm) measure(soft *soft, warm, long time.Duration, callers int, loop func(ctx context.Context, i int)) (entries, tokens, trips float64) {
	ctx, cancel := context.WithTimeout(context.Background(), warm+long)
	defer cancel()
	var all sync.WaitGroup
	all.Go(func() { w.halted += halts(ctx.Done()) })
	for i := range callers {
		all.Go(func() {
			for ctx.Err() == nil {
				loop(ctx, i)
			}
		})
	}
	time.Sleep(warm)
	from, before := time.Now(), w.calls.n.Load()
	<-ctx.Done()
	to, after := time.Now(), w.calls.n.Load()
	all.Wait()
	soft.crew = []*worker{{halted: w.halted}}
	n, sum := w.between(from, to)
	took := to.Sub(from).Seconds()
	return float64(n) / took, float64(sum) / took, float64(after-before) / float64(max(n, 1))
}
