//go:build unix

package redisgate_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/escapement-go/escapement/gate/redisgate"
	"github.com/escapement-go/escapement/pace"
)

// job is what a worker does, in a process of its own.
type job struct {
	Addrs   []string // several: a cluster
	Master  string   // its name, if the addresses are those of sentinels
	Key     string
	Kind    string // strict, window, rate, adaptive, concurrency
	N       int
	Span    time.Duration
	Burst   int
	Guard   time.Duration
	Units   int           // that may be in use at once, besides; 0: any number
	TTL     time.Duration // of units besides; 0: the default
	Callers int           // goroutines in a loop of entering
	Work    time.Duration // between entering and leaving
	For     time.Duration
	HoldAt  time.Duration // when to call Hold, of a second; 0: never
	Horizon time.Duration
	Tokens  int  // in a window of the span, beside N and Units that count each entry as 1; 0: none
	Cost    int  // of the most costly entry; 0: all cost 1
	Warm    int  // entries before it is ready. Nothing is said of them
	Skewed  bool // the server's clock is wrong by what is in the key "skew"
}

func (j job) limits() redisgate.Limits {
	if j.Tokens > 0 {
		tokens := redisgate.Window(j.Tokens, j.Span, &redisgate.WindowOptions{Guard: j.Guard})
		j.Tokens = 0
		all := j.limits()
		for i := range all {
			all[i] = redisgate.Each(all[i])
		}
		return append(all, tokens)
	}
	if j.Units > 0 {
		units := redisgate.Concurrency(j.Units, &redisgate.ConcurrencyOptions{TTL: j.TTL})
		j.Units = 0
		return append(j.limits(), units)
	}
	switch j.Kind {
	case "window":
		return redisgate.Limits{redisgate.Window(j.N, j.Span, &redisgate.WindowOptions{Guard: j.Guard})}
	case "rate":
		return redisgate.Limits{redisgate.Rate(pace.Per(j.N, j.Span), &redisgate.RateOptions{Burst: j.Burst, Slack: j.Guard})}
	case "adaptive":
		return redisgate.Limits{redisgate.Adaptive(pace.Per(j.N, j.Span), &redisgate.AdaptiveOptions{Burst: j.Burst, Slack: j.Guard})}
	case "concurrency":
		return redisgate.Limits{redisgate.Concurrency(j.N, &redisgate.ConcurrencyOptions{TTL: time.Second})}
	}
	return redisgate.Limits{redisgate.Strict(j.N, j.Span, &redisgate.StrictOptions{Burst: j.Burst, Guard: j.Guard})}
}

func TestMain(m *testing.M) {
	if text := os.Getenv("REDISGATE_WORKER"); text != "" {
		var j job
		if err := json.Unmarshal([]byte(text), &j); err != nil {
			panic(err)
		}
		work(j)
		os.Exit(0)
	}
	// Most of the time is spent waiting.
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		flag.Set("test.parallel", "6")
	}
	code := m.Run()
	stocked.close()
	os.Exit(code)
}

// trips counts round trips, and the tokens of slots that were not used in time.
type trips struct{ n, late atomic.Int64 }

func (c *trips) DialHook(next redis.DialHook) redis.DialHook { return next }
func (c *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.count(cmd)
		return next(ctx, cmd)
	}
}
func (c *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			c.count(cmd)
		}
		return next(ctx, cmds)
	}
}

func (c *trips) count(cmd redis.Cmder) {
	switch cmd.Name() {
	case "evalsha", "eval", "fcall":
		c.n.Add(1)
		c.late.Add(unused(cmd.Args()))
	}
}

// unused returns the tokens that a call gives back of slots which were not used in time.
func unused(args []any) (n int64) {
	if keys, _ := args[2].(int); len(args) != 3+keys+1 {
		return 0 // a quick call
	}
	question, ok := args[len(args)-1].([]byte)
	if !ok {
		return 0 // a probe
	}
	var q struct{ Ops []struct{ Op, Cost string } }
	if err := json.Unmarshal(question, &q); err != nil {
		panic(err)
	}
	for _, o := range q.Ops {
		if o.Op == "unused" {
			delta, _ := strconv.ParseInt(o.Cost, 10, 64)
			n -= delta
		}
	}
	return n
}

// halts returns for how long this process was kept from running until stop is closed.
func halts(stop <-chan struct{}) (sum time.Duration) {
	for {
		began := time.Now()
		time.Sleep(2 * time.Millisecond)
		if late := time.Since(began) - 2*time.Millisecond; late > 5*time.Millisecond {
			sum += late
		}
		select {
		case <-stop:
			return sum
		default:
		}
	}
}

// work is the main function of a worker. It says "r" when it is ready, "g" and the instant for each
// entry, and "l" when it leaves one, with an "x" before if its lease was lost. It says "h" when it
// has held. In the end it says "t" with its round trips, the slots that it has used too late, and
// for how many nanoseconds it was kept from running.
func work(j job) {
	if j.Skewed {
		redisgate.Skew()
	}
	client := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: j.Addrs, MasterName: j.Master, ContextTimeoutEnabled: true})
	var count trips
	switch c := client.(type) {
	case *redis.Client:
		c.AddHook(&count)
	case *redis.ClusterClient:
		c.AddHook(&count)
	}
	client.Ping(context.Background())
	g := redisgate.New(client, j.Key, j.limits(), &redisgate.Options{Horizon: j.Horizon})
	var mu sync.Mutex
	say := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		os.Stdout.WriteString(what + "\n")
	}
	for range j.Warm {
		if p, err := g.Enter(context.Background(), 1); err == nil {
			p.Leave(nil)
		}
	}
	count.n.Store(0)
	say("r")
	bufio.NewReader(os.Stdin).ReadString('\n')
	ctx, cancel := context.WithTimeout(context.Background(), j.For)
	defer cancel()
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0) // the parent has gone
	}()
	var all sync.WaitGroup
	var stalled time.Duration
	all.Go(func() { stalled = halts(ctx.Done()) })
	for range j.Callers {
		all.Go(func() {
			for {
				cost := 1
				if j.Cost > 0 {
					cost = 1 + rand.IntN(j.Cost)
				}
				work, p, err := g.EnterContext(ctx, cost)
				if err != nil {
					return
				}
				say(fmt.Sprintf("g %d %d", redisgate.GrantedAt(p).UnixNano(), cost))
				if j.Work > 0 {
					select {
					case <-time.After(j.Work):
					case <-work.Done():
						if context.Cause(work) == redisgate.ErrLeaseLost {
							say("x " + strconv.FormatInt(time.Now().UnixNano(), 10))
						}
					}
					say("l " + strconv.FormatInt(time.Now().UnixNano(), 10))
				}
				p.Leave(nil)
			}
		})
	}
	if j.HoldAt > 0 {
		time.Sleep(j.HoldAt)
		before := time.Now().UnixNano()
		g.Hold(time.Second)
		say(fmt.Sprintf("h %d %d", before, time.Now().UnixNano()))
	}
	all.Wait()
	say(fmt.Sprintf("t %d %d %d", count.n.Load(), count.late.Load(), stalled))
	end, cancel2 := context.WithTimeout(context.Background(), time.Second)
	defer cancel2()
	g.Close(end)
}

// worker is a process.
type worker struct {
	cmd    *exec.Cmd
	in     io.Closer
	begin  io.Writer
	done   chan struct{} // closed when all it has said is in
	grants []int64       // instants; read after done
	costs  []int         // of these
	leaves []int64
	lost   []int64 // leases
	holds  [][2]int64
	trips  int
	late   int           // slots that it has used too late
	halted time.Duration // it was kept from running
}

// crew starts n workers and returns when all are ready.
func crew(t testing.TB, n int, j job) []*worker {
	t.Helper()
	var ws []*worker
	for range n {
		ws = append(ws, hire(t, j))
	}
	return ws
}

func hire(t testing.TB, j job) *worker {
	t.Helper()
	text, _ := json.Marshal(j)
	w := &worker{cmd: exec.Command(os.Args[0]), done: make(chan struct{})}
	w.cmd.Env = append(os.Environ(), "REDISGATE_WORKER="+string(text))
	w.cmd.Stderr = os.Stderr
	in, _ := w.cmd.StdinPipe()
	out, _ := w.cmd.StdoutPipe()
	w.in, w.begin = in, in
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.cmd.Process.Signal(syscall.SIGCONT)
		w.cmd.Process.Kill()
		w.cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("a worker did not start")
	}
	go func() {
		defer close(w.done)
		for lines.Scan() {
			f := strings.Fields(lines.Text())
			if len(f) < 2 {
				continue
			}
			v, _ := strconv.ParseInt(f[1], 10, 64)
			switch f[0] {
			case "g":
				cost, _ := strconv.Atoi(f[2])
				w.grants, w.costs = append(w.grants, v), append(w.costs, cost)
			case "l":
				w.leaves = append(w.leaves, v)
			case "x":
				w.lost = append(w.lost, v)
			case "h":
				end, _ := strconv.ParseInt(f[2], 10, 64)
				w.holds = append(w.holds, [2]int64{v, end})
			case "t":
				w.trips = int(v)
				w.late, _ = strconv.Atoi(f[2])
				ns, _ := strconv.ParseInt(f[3], 10, 64)
				w.halted = time.Duration(ns)
			}
		}
	}()
	return w
}

func begin(ws []*worker) {
	for _, w := range ws {
		io.WriteString(w.begin, "\n")
	}
}

// merged waits for all and returns the instants of all grants, in order.
func merged(ws []*worker) (all []int64) {
	for _, w := range ws {
		<-w.done
		all = append(all, w.grants...)
	}
	slices.Sort(all)
	return all
}

// densest returns the most grants in any span that is half open, and where it begins.
func densest(all []int64, span time.Duration) (most int, from int64) {
	first := 0
	for i, at := range all {
		for all[first] <= at-int64(span) {
			first++
		}
		if n := i - first + 1; n > most {
			most, from = n, all[first]
		}
	}
	return most, from
}

// inUse returns the most entries of all workers that were inside at once, those of killed workers
// that were never left, and those admitted in the last second. It logs when there were the most,
// and where.
func inUse(t testing.TB, ws []*worker) (most, left, late int) {
	t.Helper()
	type change struct {
		at int64
		by int
	}
	var all []change
	for i, w := range ws {
		<-w.done
		for _, at := range w.grants {
			all = append(all, change{at, 1})
		}
		for _, at := range w.leaves {
			all = append(all, change{at, -1})
		}
		if n := len(w.grants) - len(w.leaves); i > 0 && n != 0 {
			t.Errorf("worker %d has entered %d times more than left", i+1, n)
		}
	}
	slices.SortFunc(all, func(x, y change) int { return cmp.Or(cmp.Compare(x.at, y.at), x.by-y.by) })
	when := int64(0)
	for _, c := range all {
		if left += c.by; left > most {
			most, when = left, c.at
		}
		if c.at > all[len(all)-1].at-int64(time.Second) && c.by > 0 {
			late++
		}
	}
	var inside, lost []int
	var halted []time.Duration
	for _, w := range ws {
		upTo := func(instants []int64) (n int) {
			for _, at := range instants {
				if at <= when {
					n++
				}
			}
			return n
		}
		inside = append(inside, upTo(w.grants)-upTo(w.leaves))
		lost = append(lost, len(w.lost))
		halted = append(halted, w.halted)
	}
	if len(all) > 0 {
		t.Logf("the most inside, %d, after %v: %v; leases lost %v, halted %v", most, time.Duration(when-all[0].at).Round(time.Millisecond), inside, lost, halted)
	}
	return most, left, late
}

// report prints what a crew did, and returns the most in any span and the achieved rate.
func report(t testing.TB, ws []*worker, span time.Duration) (most int, perSpan float64) {
	t.Helper()
	all := merged(ws)
	if len(all) < 2 {
		t.Fatalf("only %d entries", len(all))
	}
	most, from := densest(all, span)
	took := all[len(all)-1] - all[0]
	perSpan = float64(len(all)-1) / float64(took) * float64(span)
	var shares []int
	trips, late := 0, 0
	var halted time.Duration
	gap := int64(0)
	for i := range all[1:] {
		gap = max(gap, all[i+1]-all[i])
	}
	for _, w := range ws {
		shares = append(shares, len(w.grants))
		trips += w.trips
		late += w.late
		halted += w.halted
	}
	t.Logf("%d entries in %v, %.1f per %v, at most %d in any (from %v on), shares %v, longest gap %v, %.3f round trips a grant; %d slots came too late, the processes were halted for %v",
		len(all), time.Duration(took).Round(time.Millisecond), perSpan, span, most, time.Duration(from-all[0]).Round(time.Millisecond),
		shares, time.Duration(gap).Round(time.Millisecond), float64(trips)/float64(len(all)), late, halted.Round(time.Millisecond))
	return most, perSpan
}

// soft takes what is said of how fast and how evenly a crew worked. Other work on the machine, or on its host, can make
// that any worse, so it is printed. Only what is four times worse than it should be may fail; see judge.
type soft struct {
	testing.TB
	said  []string
	gross []string
	crew  []*worker
}

// Errorf notes what is not as it should be.
func (s *soft) Errorf(format string, args ...any) {
	s.said = append(s.said, fmt.Sprintf(format, args...))
}

// atLeast notes it if got is less than want.
func (s *soft) atLeast(what string, got, want float64) {
	if got < want {
		s.Errorf("%s: %.4g, want at least %.4g", what, got, want)
	}
	if got < want/4 {
		s.gross = append(s.gross, s.said[len(s.said)-1])
	}
}

// atMost notes it if got is more than want.
func (s *soft) atMost(what string, got, want float64) {
	if got > want {
		s.Errorf("%s: %.4g, want at most %.4g", what, got, want)
	}
	if got > 4*want {
		s.gross = append(s.gross, s.said[len(s.said)-1])
	}
}

// judge lets f have a crew work, and prints what it says of soft. Something gross is a failure if there is some each of
// three times, and no process of the crew was halted for a fiftieth of the time or more; without a crew that is this
// process. That a limit was exceeded is a failure at once. With REDISGATE_EXACT, all that is said counts as gross: on a machine that has nothing else to do.
func judge(t *testing.T, f func(soft *soft)) {
	t.Helper()
	for left := 2; ; left-- {
		s := &soft{TB: t}
		began := time.Now()
		stop, own := make(chan struct{}), make(chan time.Duration, 1)
		go func() { own <- halts(stop) }()
		f(s)
		close(stop)
		halted := <-own
		if s.crew != nil {
			halted = 0
		}
		for _, w := range s.crew {
			halted = max(halted, w.halted)
		}
		if os.Getenv("REDISGATE_EXACT") != "" {
			s.gross = s.said
		}
		if len(s.said) > 0 {
			t.Logf("soft, a process was halted for %v of %v: %s", halted, time.Since(began), strings.Join(s.said, "; "))
		}
		switch {
		case len(s.gross) == 0 || halted > time.Since(began)/50:
			return
		case left == 0:
			t.Error(strings.Join(s.gross, "; "))
			return
		}
	}
}

// even notes a worker whose share is further than that from an even one. A difference of as many
// entries as wait in one process is no offence at the end of a short run.
func even(soft *soft, ws []*worker, far float64) {
	sum := 0
	for _, w := range ws {
		sum += len(w.grants)
	}
	for i, w := range ws {
		share := float64(len(w.grants)*len(ws)) / float64(sum)
		soft.atLeast(fmt.Sprintf("the share of worker %d, where 1 is even", i+1), share, 1-far)
		if share > 1+far {
			soft.Errorf("worker %d of %d has had %d of %d entries, %+.0f %% of an even share", i+1, len(ws), len(w.grants), sum, 100*(share-1))
		}
	}
}
