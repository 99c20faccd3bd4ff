//go:build unix

package redisgate_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

var long = flag.Duration("long", 0, "how much longer the tests of failures run")

// fault is something that goes wrong while three processes of twenty callers share a limit.
type fault struct {
	name string
	args []string // of the server
	// wrong makes it go wrong, between the first second and the end.
	wrong func(t *testing.T, s *server, p *proxy, ws []*worker)
	stops time.Duration // a worker is stopped for so long, with all units at worst, so the lease must be longer
	skew  bool          // the server's clock is the test's
	want  float64       // share of the limit that must be used all the same
	even  bool
}

var faults = []fault{
	{name: "nothing", wrong: func(*testing.T, *server, *proxy, []*worker) {}, want: 0.9, even: true},
	{name: "server killed and restarted empty", wrong: func(t *testing.T, s *server, _ *proxy, _ []*worker) {
		s.kill()
		time.Sleep(200 * ms)
		s.start()
	}, want: 0.5},
	{name: "server killed and restarted at once, twice", wrong: func(t *testing.T, s *server, _ *proxy, _ []*worker) {
		for range 2 {
			s.kill()
			s.start()
			time.Sleep(300 * ms)
		}
	}, want: 0.4},
	{name: "server restarted from an old snapshot", wrong: func(t *testing.T, s *server, _ *proxy, _ []*worker) {
		if err := s.client().Save(context.Background()).Err(); err != nil {
			t.Error(err)
		}
		time.Sleep(500 * ms)
		s.kill()
		s.start()
	}, want: 0.5},
	{name: "server stopped and continued", wrong: func(t *testing.T, s *server, _ *proxy, _ []*worker) {
		s.signal(syscall.SIGSTOP)
		time.Sleep(700 * ms)
		s.signal(syscall.SIGCONT)
	}, want: 0.6},
	{name: "scripts flushed", wrong: func(t *testing.T, s *server, _ *proxy, _ []*worker) {
		for range 20 {
			if err := s.client().ScriptFlush(context.Background()).Err(); err != nil {
				t.Error(err)
			}
			time.Sleep(50 * ms)
		}
	}, want: 0.9, even: true},
	{name: "out of memory", wrong: func(t *testing.T, s *server, _ *proxy, _ []*worker) {
		c := s.client()
		c.ConfigSet(context.Background(), "maxmemory", "1")
		time.Sleep(500 * ms)
		if err := c.ConfigSet(context.Background(), "maxmemory", "0").Err(); err != nil {
			t.Error(err)
		}
	}, want: 0.5},
	{name: "a worker killed", wrong: func(t *testing.T, _ *server, _ *proxy, ws []*worker) {
		ws[0].cmd.Process.Kill()
	}, want: 0.9},
	{name: "a worker stopped and continued", wrong: func(t *testing.T, _ *server, _ *proxy, ws []*worker) {
		ws[0].cmd.Process.Signal(syscall.SIGSTOP)
		time.Sleep(900 * ms)
		ws[0].cmd.Process.Signal(syscall.SIGCONT)
	}, stops: 900 * ms, want: 0.8},
	{name: "answers held up", wrong: func(t *testing.T, _ *server, p *proxy, _ []*worker) {
		for range 5 {
			p.set(func() { p.delay = 100 * ms })
			time.Sleep(100 * ms)
			p.set(func() { p.delay = 0 })
			time.Sleep(200 * ms)
		}
	}, want: 0.5},
	{name: "answers a little late", wrong: func(t *testing.T, _ *server, p *proxy, _ []*worker) {
		p.set(func() { p.delay = 5 * ms })
	}, want: 0.9, even: true},
	{name: "answers lost after the write", wrong: func(t *testing.T, _ *server, p *proxy, _ []*worker) {
		for range 5 {
			p.set(func() { p.drop = true })
			time.Sleep(20 * ms)
			p.set(func() { p.drop = false })
			time.Sleep(200 * ms)
		}
	}, want: 0.5},
	{name: "failed over to a replica that lags", wrong: func(t *testing.T, s *server, p *proxy, _ []*worker) {
		other := newServer(t, "--replicaof", fmt.Sprintf("127.0.0.1 %d", s.port))
		c := other.client()
		time.Sleep(300 * ms)
		c.ReplicaOf(context.Background(), "NO", "ONE")
		time.Sleep(100 * ms)
		p.set(func() { p.target = other.addr() })
		p.cut()
	}, want: 0.4},
}

// everything is what goes wrong, with the clocks.
func everything() []fault {
	all := faults
	for _, skew := range []string{"300", "-300", "0.8", "-0.8"} {
		all = append(all, fault{name: "server's clock set by " + skew + " s", skew: true, wrong: func(t *testing.T, s *server, _ *proxy, _ []*worker) {
			if err := s.client().Set(context.Background(), "skew", skew, 0).Err(); err != nil {
				t.Error(err)
			}
		}, want: 0.5})
	}
	set := func(t *testing.T, s *server, skew float64) {
		if err := s.client().Set(context.Background(), "skew", fmt.Sprint(skew), 0).Err(); err != nil {
			t.Error(err)
		}
	}
	return append(all,
		fault{name: "server's clock set by 45 ms, five times", skew: true, wrong: func(t *testing.T, s *server, _ *proxy, _ []*worker) {
			for i := range 5 {
				set(t, s, 0.045*float64(i+1))
				time.Sleep(190 * ms)
			}
		}, want: 0.3},
		fault{name: "server's clock faster by 8 % for a second", skew: true, wrong: func(t *testing.T, s *server, _ *proxy, _ []*worker) {
			for began := time.Now(); time.Since(began) < time.Second; time.Sleep(2 * ms) {
				set(t, s, 0.08*time.Since(began).Seconds())
			}
		}, want: 0.3},
	)
}

// Never over, whatever goes wrong; and no less than can be.
func TestFaults(t *testing.T) {
	t.Parallel()
	for k, limits := range []job{{N: 100}, {N: 2000}, {N: 100, Units: 9, TTL: time.Second, Work: 50 * ms}} {
		n := limits.N
		for i, f := range everything() {
			if k > 0 && *long == 0 && i%3 != k {
				continue // a minute less
			}
			j, want := limits, f.want*strictly(n)
			if j.Units > 0 && f.stops > 0 {
				j.TTL = 3 * f.stops
				want *= 1 - f.stops.Seconds()/4
			}
			t.Run(fmt.Sprintf("%d,%d/%s", n, limits.Units, f.name), func(t *testing.T) {
				t.Parallel()
				judge(t, func(soft *soft) {
					s := newServer(t, f.args...).settled(max(2*time.Second, j.TTL))
					p := newProxy(t, s.addr())
					j.Addrs, j.Key, j.Kind, j.Span, j.Callers, j.For, j.Skewed = []string{p.addr()}, key(), "strict", time.Second, 20, 4*time.Second+*long, f.skew
					ws := crew(t, 3, j)
					soft.crew = ws
					begin(ws)
					time.Sleep(time.Second)
					f.wrong(t, s, p, ws)
					most, got := report(t, ws, time.Second)
					if most > n {
						t.Errorf("%d in one second, where %d is the limit", most, n)
					}
					if j.Units > 0 {
						if units, left, _ := inUse(t, ws); units > j.Units+left {
							t.Errorf("%d units in use at once, where %d is the limit", units, j.Units)
						}
					}
					soft.atLeast("entries a second", got, want)
					if f.even {
						even(soft, ws, 0.1+10/float64(n))
					}
				})
			})
		}
	}
}

// newCluster starts a cluster of so many nodes.
func newCluster(t *testing.T, n int) (nodes []*server, addrs []string) {
	t.Helper()
	ctx := context.Background()
	share := (16384 + n - 1) / n
	for range n {
		nodes = append(nodes, newServer(t, "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-node-timeout", "2000"))
	}
	for i, s := range nodes {
		c := s.client()
		for slot := i * share; slot < min((i+1)*share, 16384); slot += 500 {
			if err := c.ClusterAddSlotsRange(ctx, slot, min(slot+499, min((i+1)*share, 16384)-1)).Err(); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.ClusterMeet(ctx, "127.0.0.1", fmt.Sprint(nodes[0].port)).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range nodes {
		addrs = append(addrs, s.addr())
	}
	for limit := time.Now().Add(15 * time.Second); ; time.Sleep(50 * ms) {
		ok := true
		for _, s := range nodes {
			info := s.client().ClusterInfo(ctx).Val()
			ok = ok && len(info) > 16 && info[:16] == "cluster_state:ok"
		}
		if ok {
			break
		}
		if time.Now().After(limit) {
			text, _ := os.ReadFile(filepath.Join(nodes[0].dir, "log"))
			t.Fatalf("the cluster does not come up:\n%s", text)
		}
	}
	for _, s := range nodes {
		s.settled(2 * time.Second)
	}
	return nodes, addrs
}

// In a cluster of three nodes all keys of a gate are in one place.
func TestCluster(t *testing.T) {
	t.Parallel()
	_, addrs := newCluster(t, 3)
	judge(t, func(soft *soft) {
		ws := crew(t, 3, job{Addrs: addrs, Key: key(), Kind: "strict", N: 200, Span: time.Second, Callers: 20, For: 3 * time.Second})
		soft.crew = ws
		begin(ws)
		most, got := report(t, ws, time.Second)
		if most > 200 {
			t.Errorf("%d in one second, where 200 is the limit", most)
		}
		soft.atLeast("entries a second", got, 0.9*strictly(200))
		even(soft, ws, 0.15)
	})
}
