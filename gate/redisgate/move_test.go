//go:build unix

package redisgate_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// newSentinel starts a sentinel that watches the server under the given name.
func newSentinel(t *testing.T, name string, of *server) *server {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	s := &server{tb: t, dir: t.TempDir(), port: port}
	conf := filepath.Join(s.dir, "sentinel.conf")
	text := fmt.Sprintf("bind 127.0.0.1\nport %d\ndir %s\nlogfile %s/log\nsentinel monitor %s 127.0.0.1 %d 1\n"+
		"sentinel down-after-milliseconds %s 300\nsentinel failover-timeout %s 2000\n", s.port, s.dir, s.dir, name, of.port, name, name)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.cmd = exec.Command(program(), conf, "--sentinel")
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	c := redis.NewSentinelClient(&redis.Options{Addr: s.addr()})
	defer c.Close()
	within(t, 20*time.Second, "the sentinel knows of the replica", func() bool {
		all, err := c.Replicas(context.Background(), name).Result()
		return err == nil && len(all) == 1 && all[0]["flags"] == "slave" && all[0]["master-link-status"] == "ok"
	})
	return s
}

// recent returns how many of the instants are in the last second of them.
func recent(all []int64) int {
	i, _ := slices.BinarySearch(all, all[len(all)-1]-int64(time.Second))
	return len(all) - i
}

// When the server is killed and a sentinel makes its replica the master, processes go on
// there, and are not over the limit of either kind.
func TestSentinel(t *testing.T) {
	t.Parallel()
	for name, j := range map[string]job{"slots": {N: 100}, "units": {N: 100, Units: 9, TTL: time.Second, Work: 20 * ms}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			judge(t, func(soft *soft) {
				s := newServer(t)
				newServer(t, "--replicaof", fmt.Sprintf("127.0.0.1 %d", s.port)).settled(2 * time.Second)
				sentinel := newSentinel(t, "gates", s)
				j.Addrs, j.Master, j.Key, j.Kind, j.Span, j.Callers, j.For = []string{sentinel.addr()}, "gates", key(), "strict", time.Second, 20, 6*time.Second
				ws := crew(t, 3, j)
				soft.crew = ws
				begin(ws)
				time.Sleep(time.Second)
				s.kill()
				most, _ := report(t, ws, time.Second)
				if most > j.N {
					t.Errorf("%d in one second, where %d is the limit", most, j.N)
				}
				if j.Units > 0 {
					if units, _, _ := inUse(t, ws); units > j.Units {
						t.Errorf("%d units in use at once, where %d is the limit", units, j.Units)
					}
				}
				soft.atLeast("entries in the last second", float64(recent(merged(ws))), float64(j.N)*2/3)
			})
		})
	}
}

// The keys of a gate are moved to another node of the cluster while it is in use. It goes on there,
// and is not over its limit.
func TestReshard(t *testing.T) {
	t.Parallel()
	judge(t, func(soft *soft) {
		nodes, addrs := newCluster(t, 3)
		ctx := context.Background()
		name := key()
		j := job{Addrs: addrs, Key: name, Kind: "strict", N: 100, Span: time.Second, Callers: 20, For: 6 * time.Second}
		ws := crew(t, 3, j)
		soft.crew = ws
		begin(ws)
		time.Sleep(1500 * ms)

		do := func(s *server, args ...any) any {
			t.Helper()
			v, err := s.client().Do(ctx, args...).Result()
			if err != nil {
				t.Fatalf("%v: %v", args, err)
			}
			return v
		}
		slot := do(nodes[0], "cluster", "keyslot", "{"+name+"}:gate")
		from := slices.IndexFunc(nodes, func(s *server) bool {
			return s.client().ClusterCountKeysInSlot(ctx, int(slot.(int64))).Val() > 0
		})
		if from < 0 {
			t.Fatal("no node has the gate's keys")
		}
		source, target := nodes[from], nodes[(from+1)%len(nodes)]
		do(target, "cluster", "setslot", slot, "importing", do(source, "cluster", "myid"))
		do(source, "cluster", "setslot", slot, "migrating", do(target, "cluster", "myid"))
		time.Sleep(300 * ms) // the keys are on neither node for sure
		for range 100 {
			keys := source.client().ClusterGetKeysInSlot(ctx, int(slot.(int64)), 100).Val()
			if len(keys) == 0 {
				break
			}
			args := []any{"migrate", "127.0.0.1", target.port, "", 0, 5000, "keys"}
			for _, k := range keys {
				args = append(args, k)
			}
			do(source, args...)
		}
		for _, s := range []*server{target, source} {
			do(s, "cluster", "setslot", slot, "node", do(target, "cluster", "myid"))
		}
		most, _ := report(t, ws, time.Second)
		if most > j.N {
			t.Errorf("%d in one second, where %d is the limit", most, j.N)
		}
		soft.atLeast("entries in the last second", float64(recent(merged(ws))), float64(j.N)*2/3)
		if n := target.client().ClusterCountKeysInSlot(ctx, int(slot.(int64))).Val(); n == 0 {
			t.Error("the gate's keys are not where they were moved to")
		}
	})
}

// The units of a process that is stopped for longer than their TTL are given to others. When it
// goes on, its work is told at once that it has lost them.
func TestHolderStopped(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	j := job{Addrs: []string{s.addr()}, Key: key(), Kind: "strict", N: 1000, Span: time.Second, Units: 9, TTL: time.Second, Callers: 9, Work: 5 * time.Second, For: 8 * time.Second}
	ws := crew(t, 1, j)
	begin(ws)
	time.Sleep(time.Second) // it has them all
	j.Work = 20 * ms
	others := crew(t, 2, j)
	begin(others)
	time.Sleep(200 * ms)
	stopped := time.Now().UnixNano()
	ws[0].cmd.Process.Signal(syscall.SIGSTOP)
	time.Sleep(3 * time.Second)
	resumed := time.Now().UnixNano()
	ws[0].cmd.Process.Signal(syscall.SIGCONT)
	all := merged(others)
	holder := ws[0]
	<-holder.done
	for _, at := range all {
		if at < stopped {
			t.Fatalf("another got in while all units were held")
		}
	}
	t.Logf("others had to wait for %v, where the TTL is 1s", time.Duration(all[0]-stopped))
	if all[0] > resumed {
		t.Errorf("others got no unit within 3 s, where the TTL is 1s")
	}
	if len(holder.grants) < 9 || len(holder.lost) != 9 {
		t.Fatalf("of %d entries %d were told that their lease was lost, want 9", len(holder.grants), len(holder.lost))
	}
	for _, at := range holder.lost {
		if d := time.Duration(at - resumed); d < 0 || d > time.Second+holder.halted {
			t.Errorf("told %v after it went on", d)
		}
	}
	// From then on all count.
	slices.Sort(holder.grants)
	for i := range holder.grants[:9] {
		holder.grants[i] = holder.lost[i] // the place of one that is gone
	}
	slices.Sort(holder.leaves)
	copy(holder.leaves, holder.lost)
	if most, _, _ := inUse(t, append(others, holder)); most > 9 {
		t.Errorf("%d units in use at once, where 9 is the limit", most)
	}
}
