package main

import (
	"bufio"
	"context"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"
)

// workerVariable has the job of a process of members.
const workerVariable = "FLEET_WORKER"

// job is what a process of members does.
type job struct {
	Limiter        string
	Addr, Key      string
	First, Members int // of all
	Rate, Waiters  int
	Clients        int // that the members share; 0: each has its own
	Connections    int // of each client, at most
	RTT            time.Duration
	Jitter         float64
}

// work is the main function of a process of members. It says that it is ready, and begins at a word. It notes its
// processor time at the next two words, and ends at the fourth one with its entries.
func work(text string) {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		panic(err)
	}
	if j.RTT > 0 {
		addr, err := distance{j.Addr, j.RTT, j.Jitter}.listen()
		if err != nil {
			panic(err)
		}
		j.Addr = addr
	}
	var clients []*redis.Client
	var enter []entrance
	for i := range j.Members {
		if j.Clients == 0 || i < j.Clients {
			c := redis.NewClient(&redis.Options{Addr: j.Addr, ContextTimeoutEnabled: true, PoolSize: j.Connections})
			_ = c.Ping(context.Background())
			clients = append(clients, c)
		}
		enter = append(enter, limiter(j.Limiter).strict(clients[i%len(clients)], j.Key, j.Rate))
	}
	in := bufio.NewReader(os.Stdin)
	fmt.Println("ready")
	_, _ = in.ReadString('\n')
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	seen := make([]entries, j.Members*j.Waiters)
	for i := range seen {
		e, member := &seen[i], i/j.Waiters
		all.Go(func() {
			for came := time.Now(); ; {
				if err := enter[member](ctx); ctx.Err() != nil {
					return
				} else if err != nil {
					time.Sleep(10 * time.Millisecond) // an error that heals by itself; it counts as waiting
					continue
				}
				now := time.Now()
				e.Member = append(e.Member, int32(j.First+member))
				e.At = append(e.At, now.UnixNano())
				e.Wait = append(e.Wait, int64(now.Sub(came)))
				came = now
			}
		})
	}
	var stall int64
	all.Go(func() {
		for ctx.Err() == nil {
			began := time.Now()
			time.Sleep(2 * time.Millisecond)
			stall = max(stall, int64(time.Since(began)-2*time.Millisecond))
		}
	})
	_, _ = in.ReadString('\n')
	busy := processorTime()
	_, _ = in.ReadString('\n')
	busy = processorTime() - busy
	_, _ = in.ReadString('\n') // or the parent has gone
	cancel()
	all.Wait()
	sum := merge(seen).from
	sum.Stall, sum.Busy = stall, busy
	out := bufio.NewWriter(os.Stdout)
	if err := gob.NewEncoder(out).Encode(sum); err != nil {
		panic(err)
	}
	out.Flush()
}

// process is one with members.
type process struct {
	cmd *exec.Cmd
	in  interface{ Write([]byte) (int, error) }
	out *bufio.Reader
}

// tell gives all processes the next word.
func tell(ps []*process) {
	for _, p := range ps {
		_, _ = p.in.Write([]byte("go\n"))
	}
}

func startProcess(j job) (*process, error) {
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(self)}
	p.cmd.Env = append(os.Environ(), workerVariable+"="+string(text))
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	_, err = p.out.ReadString('\n')
	return p, err
}

// line is one line of the table of members.
type line struct {
	limiter                string
	members, rate, waiters int
	rtt                    time.Duration
}

func (c *config) tableOfMembers() error {
	s, err := newServer(c.server)
	if err != nil {
		return err
	}
	defer s.close()
	fmt.Printf("One limit for all members. %v measured after %v, %d processes.\n\n", c.duration, c.warm, c.processes)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 1, ' ', 0)
	fmt.Fprintln(w, "| members\t| rate\t| waiters\t| round trip\t| limiter\t| used\t| most\t| trips\t| server\t| members'\t| shares\t| even\t| median\t| worst\t| start\t| flush\t| restart\t| stall\t|")
	fmt.Fprintln(w, "| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t|")
	over := 0
	for _, rtt := range c.rtts {
		for _, members := range c.members {
			for _, rate := range c.rates {
				for _, waiters := range c.waiters {
					for _, name := range c.limiters {
						l := line{name, members, rate, waiters, rtt}
						text, most, err := c.measure(s, l)
						if err != nil {
							return fmt.Errorf("%v: %w", l, err)
						}
						if name == "redisgate" && most > rate {
							over++
						}
						fmt.Fprintln(w, text)
						fmt.Fprintln(os.Stderr, text)
					}
				}
			}
		}
	}
	w.Flush()
	if over > 0 {
		return fmt.Errorf("redisgate was over its limit in %d lines", over)
	}
	return nil
}

// connections returns how many a client may have: all of them have fewer than a process may have files.
func (c *config) connections(members int) int {
	if c.clients > 0 {
		return max(2, min(32, 8000/c.clients/c.processes))
	}
	return max(2, min(20, 8000/members))
}

// measure plays one line, and returns it with the most entries in any second.
func (c *config) measure(s *server, l line) (text string, most int, err error) {
	if err := s.client.FlushAll(context.Background()).Err(); err != nil {
		return "", 0, err
	}
	s.settle()
	var ps []*process
	defer func() {
		for _, p := range ps {
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait()
		}
	}()
	key := fmt.Sprintf("fleet-%d", time.Now().UnixNano())
	first := 0
	for i := range min(c.processes, l.members) {
		n := l.members * (i + 1) / min(c.processes, l.members)
		p, err := startProcess(job{
			Limiter: l.limiter, Addr: s.addr(), Key: key, First: first, Members: n - first, Rate: l.rate, Waiters: l.waiters,
			Clients: c.clients, Connections: c.connections(l.members), RTT: l.rtt, Jitter: c.jitter,
		})
		if p != nil {
			ps = append(ps, p)
		}
		if err != nil {
			return "", 0, err
		}
		first = n
	}
	began := time.Now().UnixNano()
	tell(ps)
	time.Sleep(c.warm)
	from, err := s.usage()
	if err != nil {
		return "", 0, err
	}
	tell(ps)
	time.Sleep(c.duration)
	tell(ps)
	to, err := s.usage()
	if err != nil {
		return "", 0, err
	}
	flushed, killed := int64(0), int64(0)
	if c.recovery > 0 {
		flushed = time.Now().UnixNano()
		if err := s.client.FlushAll(context.Background()).Err(); err != nil {
			return "", 0, err
		}
		time.Sleep(c.recovery)
		killed = time.Now().UnixNano()
		s.kill()
		if err := s.start(); err != nil {
			return "", 0, err
		}
		time.Sleep(c.recovery)
	}
	end := time.Now().UnixNano()
	tell(ps)
	var all []entries
	for _, p := range ps {
		var e entries
		if err := gob.NewDecoder(p.out).Decode(&e); err != nil {
			return "", 0, err
		}
		all = append(all, e)
	}
	m := merge(all)
	count, span := m.count(from.at, to.at), float64(to.at-from.at)/1e9
	pace := float64(count) / span
	least, best := m.shares(l.members, from.at, to.at)
	even := float64(count) / float64(l.members)
	median, worst := m.waits(from.at, to.at)
	back := func(from, end int64) string {
		switch took := m.recovered(from, end, 0.9*pace); {
		case from == 0 || count == 0:
			return "-"
		case took == never:
			return fmt.Sprintf(">%.0f s", float64(end-from)/1e9)
		default:
			return fmt.Sprintf("%.1f s", took.Seconds())
		}
	}
	trips := "-"
	if count > 0 {
		trips = fmt.Sprintf("%.2f", (to.calls-from.calls)/float64(count))
	}
	most = m.most(time.Second)
	return fmt.Sprintf("| %d\t| %d/s\t| %d\t| %v\t| %s\t| %.1f %%\t| %d\t| %s\t| %.0f %%\t| %.0f %%\t| %.0f-%.0f %%\t| %.0f\t| %s\t| %s\t| %s\t| %s\t| %s\t| %d ms\t|",
		l.members, l.rate, l.waiters, l.rtt, l.limiter, 100*pace/float64(l.rate), most, trips, load(from, to), 100*m.from.Busy.Seconds()/span,
		100*float64(least)/max(even, 1e-9), 100*float64(best)/max(even, 1e-9), even, short(median), short(worst),
		back(began, from.at), back(flushed, killed), back(killed, end), m.from.Stall/1e6), most, nil
}

// short returns a time with three digits at most.
func short(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < 100*time.Millisecond:
		return fmt.Sprintf("%.1f ms", d.Seconds()*1000)
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}
