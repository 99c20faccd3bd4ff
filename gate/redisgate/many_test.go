//go:build unix

package redisgate_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/escapement-go/escapement/gate/redisgate"
)

// fleet is many members of one gate in this process, with few connections. Callers enter and note when.
type fleet struct {
	s       *server
	n       int64
	members []*redisgate.Gate
	granted [][]int64 // by member, in order; read after stop
	began   time.Time
	end     context.CancelFunc
	all     sync.WaitGroup
	halted  time.Duration // this process was kept from running
}

// guard is that of the limit: all members are on this machine, and may be kept from running.
const guard = 100 * time.Millisecond

// newFleet starts so many members with so many callers each, all at once.
func newFleet(t *testing.T, s *server, members, callers int, n int64) *fleet {
	t.Helper()
	f := &fleet{s: s, n: n, granted: make([][]int64, members)}
	var clients []*redis.Client
	for range 4 {
		c := redis.NewClient(&redis.Options{Addr: s.addr(), ContextTimeoutEnabled: true, PoolSize: 16, PoolTimeout: 30 * time.Second})
		t.Cleanup(func() { c.Close() })
		clients = append(clients, c)
	}
	ctx, cancel := context.WithCancel(context.Background())
	f.end = cancel
	name := key()
	for i := range members {
		f.members = append(f.members, redisgate.New(clients[i%len(clients)], name, redisgate.Limits{redisgate.Strict(int(n), time.Second, &redisgate.StrictOptions{Guard: guard})},
			&redisgate.Options{Timeout: 10 * time.Second}))
	}
	f.began = time.Now()
	f.all.Go(func() { f.halted = halts(ctx.Done()) })
	for i, g := range f.members {
		var mu sync.Mutex
		for range callers {
			f.all.Go(func() {
				for {
					if _, err := g.Enter(ctx, 1); err != nil {
						return
					}
					at := int64(time.Since(f.began)) // not once it has the lock: that may be later
					mu.Lock()
					f.granted[i] = append(f.granted[i], at)
					mu.Unlock()
				}
			})
		}
	}
	return f
}

func (f *fleet) stop() {
	f.end()
	f.all.Wait()
	for _, g := range f.granted {
		slices.Sort(g)
	}
}

// afterFaults has the server lose its state, and then itself. It returns when that was over.
func (f *fleet) afterFaults(t *testing.T) map[string]time.Duration {
	back := map[string]time.Duration{}
	if err := f.s.client().FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	back["a flush"] = time.Since(f.began)
	time.Sleep(5 * time.Second)
	f.s.kill()
	f.s.start()
	back["a restart"] = time.Since(f.began)
	time.Sleep(5 * time.Second)
	return back
}

// merged returns the instants of all members in order.
func (f *fleet) merged() (all []int64) {
	for _, g := range f.granted {
		all = append(all, g...)
	}
	slices.Sort(all)
	return all
}

// between counts instants of a sorted list.
func between(all []int64, from, to time.Duration) int {
	a, _ := slices.BinarySearch(all, int64(from))
	b, _ := slices.BinarySearch(all, int64(to))
	return b - a
}

// cpu returns the processor time of the server so far.
func (s *server) cpu(t testing.TB) (sum time.Duration) {
	t.Helper()
	for line := range strings.Lines(s.client().Info(context.Background(), "cpu").Val()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			x, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += time.Duration(x * 1e9)
		}
	}
	return sum
}

// atFullSize reports whether tests are to run at full size, which takes minutes.
func atFullSize() bool { return os.Getenv("REDISGATE_LONG") != "" }

// Many members share a limit: nearly all of it is used, evenly, with few round trips, and the work of the server does
// not grow with their number. They start all at once.
func TestManyMembers(t *testing.T) {
	t.Parallel()
	type size struct {
		members, callers int
		n                int64
		length           time.Duration
	}
	sizes := []size{{60, 100, 100, 9 * time.Second}, {1000, 1, 100, 9 * time.Second}}
	if atFullSize() {
		sizes = []size{
			{100, 100, 100, 30 * time.Second}, {100, 1, 100, 30 * time.Second}, {1000, 100, 100, 110 * time.Second}, {1000, 1, 100, 60 * time.Second},
			{1000, 10, 2000, 30 * time.Second}, {1000, 1, 2000, 20 * time.Second}, {10_000, 10, 2000, 60 * time.Second}, {10_000, 1, 2000, 30 * time.Second},
			{10_000, 1, 100, 220 * time.Second},
		}
	}
	for _, c := range sizes {
		t.Run(fmt.Sprintf("%d members of %d callers at %d", c.members, c.callers, c.n), func(t *testing.T) {
			if !atFullSize() {
				t.Parallel()
			}
			judge(t, func(soft *soft) {
				s := newServer(t).settled(2 * time.Second)
				f := newFleet(t, s, c.members, c.callers, c.n)
				// At the start a member asks before all its callers wait. That is over when each has had two turns.
				start := 5 * time.Second
				if c.callers >= 10 {
					start += time.Duration(16*c.members) * time.Second / time.Duration(c.n)
				}
				time.Sleep(start)
				trips, cpu := s.evals(t), s.cpu(t)
				time.Sleep(c.length)
				trips, cpu = s.evals(t)-trips, s.cpu(t)-cpu
				end := time.Since(f.began)
				back := f.afterFaults(t)
				f.stop()
				soft.crew = []*worker{{halted: f.halted}}
				all := f.merged()
				for what, at := range back {
					got := between(all, at+3*time.Second, at+5*time.Second)
					soft.atLeast("entries from 3 to 5 seconds after "+what, float64(got), 1.8*float64(c.n-1)/(time.Second+guard).Seconds())
				}
				// Shares are those of the quiet time.
				for i, g := range f.granted {
					f.granted[i] = g[:between(g, 0, end)]
				}
				if most, from := densest(all, time.Second); most > int(c.n) {
					t.Errorf("%d in one second from %v on, where %d is the limit", most, time.Duration(from), c.n)
				}
				got := between(all, start, start+c.length)
				used := float64(got) / (float64(c.n-1) / (time.Second + guard).Seconds() * c.length.Seconds())
				first := between(all, 0, start)
				share := float64(cpu) / float64(c.length)
				least, most, sum := len(all), 0, 0
				for _, g := range f.granted {
					least, most, sum = min(least, len(g)), max(most, len(g)), sum+len(g)
				}
				t.Logf("%.1f %% used, %.3f round trips a grant, %.0f %% of a core, %d grants in the first %v, from %d to %d each",
					100*used, float64(trips)/float64(got), 100*share, first, start, least, most)
				soft.atLeast("used", used, 0.95)
				perGrant := 1.3
				if c.callers >= 100 {
					perGrant = 0.2
				}
				soft.atMost("round trips a grant", float64(trips)/float64(got), perGrant)
				if c.n == 100 {
					soft.atMost("of a core of the server", share, 0.3)
				}
				// Turns are of eight at most. A member may be one ahead of the even share, or behind it, and got another one
				// at the start. Most are within one: with 35 for each, 32 to 48.
				if even := float64(sum) / float64(c.members); float64(least) < 0.9*even-16 || float64(most) > 1.1*even+16 {
					soft.Errorf("from %d to %d each, where %.1f is even", least, most, even)
				}
			})
		})
	}
}
