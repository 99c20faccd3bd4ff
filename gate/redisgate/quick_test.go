//go:build unix

package redisgate_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/gate/redisgate"
	"github.com/escapement-go/escapement/pace"
)

// packed returns numbers as a quick call has them.
func packed(numbers ...int64) []byte {
	var b []byte
	for _, n := range numbers {
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(float64(n)))
	}
	return b
}

// unpacked is the other way round.
func unpacked(text string) (numbers []int64) {
	for b := []byte(text); len(b) >= 8; b = b[8:] {
		numbers = append(numbers, int64(math.Float64frombits(binary.BigEndian.Uint64(b))))
	}
	return numbers
}

// fieldsOf returns the state, with what quick calls have written in the fields that the script has for it.
func (s *stage) fieldsOf(t interface{ Fatal(args ...any) }) map[string]string {
	m, err := s.c.HGetAll(context.Background(), s.keys[0]).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"gen", "hold"} {
		if m[name] == "0" {
			delete(m, name) // which says the same
		}
	}
	quick, ok := m["quick"]
	if !ok {
		return m
	}
	delete(m, "quick")
	maps.DeleteFunc(m, func(name, _ string) bool { return strings.Contains(name, ":") }) // cells
	number := func() int64 {
		n := unpacked(quick[:8])[0]
		quick = quick[8:]
		return n
	}
	octets := func(n int) (x int) {
		for ; n > 0; n-- {
			x, quick = x<<8+int(quick[0]), quick[1:]
		}
		return x
	}
	m["seq"], m["seen"], m["last"] = fmt.Sprint(number()), fmt.Sprint(number()), fmt.Sprint(number())
	m["till"] = fmt.Sprint(number()) // the key lives
	for i := 1; quick != ""; i++ {
		if octets(1) == 0 {
			m[fmt.Sprint("t", i)], m[fmt.Sprint("f", i)] = fmt.Sprint(number()), fmt.Sprint(number())
			var lows []string
			for range octets(1) {
				lows = append(lows, fmt.Sprintf("%d:%d", number(), number()))
			}
			m[fmt.Sprint("d", i)] = strings.Join(lows, " ")
			continue
		}
		span, sum := number(), number()
		for range octets(2) {
			e, count, last := number(), number(), number()
			m[fmt.Sprintf("w%d:%d", i, e)] = fmt.Sprintf("%d:%d:%d", count, last, last+span)
			sum -= count
		}
		if sum != 0 {
			t.Fatal("the sum of a window's cells is off by ", sum)
		}
	}
	return m
}

// snapshot keeps what the keys of the gate have, and returns what restores that.
func (s *stage) snapshot(t interface{ Fatal(args ...any) }) (restore func()) {
	ctx := context.Background()
	type dump struct {
		data string
		ttl  time.Duration
	}
	var all []dump
	for _, k := range s.keys[:7] {
		data, err := s.c.Dump(ctx, k).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
		all = append(all, dump{data, max(0, s.c.PTTL(ctx, k).Val())})
	}
	return func() {
		s.c.Del(ctx, s.keys[:7]...)
		for i, d := range all {
			if d.data == "" {
				continue
			}
			if err := s.c.RestoreReplace(ctx, s.keys[i], d.ttl, d.data).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A quick call gives what the script would give, and leaves the state that the script would leave, or does nothing.
// Whatever has been asked, given back, settled, held and resumed before, by whichever member, and if the state is gone.
func TestQuickIsTheScript(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	ctx := context.Background()
	quickHash, err := s.c.ScriptLoad(ctx, redisgate.QuickScript()).Result()
	if err != nil {
		t.Fatal(err)
	}
	const horizon, late = 1_000_000, 50_000
	decided, calm, asked, ahead, begun, met, windows, refusals := 0, 0, 0, 0, 0, 0, 0, 0
	s.plan = "the limits of the test"
	rapid.Check(t, func(t *rapid.T) {
		s.fresh()
		var specs []any
		type limit struct{ kind, span, n, most int64 }
		var limits []limit
		numbers := fmt.Sprint(horizon)
		least, windowed := int64(1<<30), false
		for range rapid.IntRange(1, 2).Draw(t, "limits") {
			span := rapid.OneOf(rapid.Int64Range(1, 1000), rapid.Int64Range(1, 5_000_000), rapid.Int64Range(1, 86_400_000_000)).Draw(t, "span")
			if rapid.IntRange(0, 2).Draw(t, "window") == 0 {
				n, cell := rapid.Int64Range(1, 300).Draw(t, "n"), max(1, span/128)
				limits, least, windowed = append(limits, limit{1, span, n, cell}), min(least, n), true
				specs = append(specs, "w", span, n, cell, 0, "", 0, 0, 0, 0)
				numbers += fmt.Sprintf(" window:%d:%d:0:0:0:0", n, span)
				continue
			}
			n := rapid.SampledFrom([]int64{1, 2, 3, 7, 97, 1999, 1_000_003}).Draw(t, "n")
			burst := rapid.OneOf(rapid.Int64Range(1, 5), rapid.Int64Range(1, 300)).Draw(t, "burst")
			limits, least = append(limits, limit{0, span, n, burst}), min(least, burst)
			specs = append(specs, "g", span, n, burst, 0, rapid.IntRange(0, 1).Draw(t, "strict"), 0, 0, 0, 0)
			numbers += fmt.Sprintf(" bucket:%d:%d:%d:0:0:0", n, span, burst)
		}
		type given struct{ at, cost, gen int64 }
		var slots []given
		now, run := int64(1_790_000_000_000_000), "one"
		epoch, gen := int64(0), int64(0)
		head := func(member string, ahead int64) []any {
			return append([]any{member, horizon, late, ahead, epoch, gen, 0, 0, 0, 0, 0, 0, len(limits)}, specs...)
		}
		call := func(ops ...any) []int64 {
			a := s.call(nop{}, append(head(rapid.SampledFrom([]string{"me", "you"}).Draw(t, "member"), horizon), ops...)...)
			epoch, gen = a[1], a[2]
			return a
		}
		// note takes in the slots that an answer has.
		note := func(a []int64, cost int64) (delays []int64) {
			delays = a[18+2*len(limits):]
			delays = delays[:a[17]]
			for _, d := range delays {
				if d >= 0 {
					slots = append(slots, given{a[0] + d, cost, a[2]})
				}
			}
			return delays
		}
		for range rapid.IntRange(1, 25).Draw(t, "calls") {
			now += rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, 100_000), rapid.Int64Range(0, 1_100_000), rapid.Int64Range(0, 1_000_000_000)).Draw(t, "after")
			uptime := rapid.SampledFrom([]int64{1000, 1000, 1000, 2}).Draw(t, "uptime")
			s.at(nop{}, now, run, uptime)
			cost, count := rapid.Int64Range(1, min(least, 4)).Draw(t, "cost"), rapid.Int64Range(1, 5).Draw(t, "count")
			switch rapid.IntRange(0, 34).Draw(t, "what") {
			case 0:
				call("h", rapid.Int64Range(1, 2_000_000).Draw(t, "hold"), 0, 0)
				continue
			case 1:
				call("e", 0, 0, 0)
				continue
			case 2:
				if len(slots) > 0 {
					x := slots[len(slots)-1]
					call("r", x.at, x.cost, x.gen)
					slots = slots[:len(slots)-1]
				}
				continue
			case 3:
				if len(slots) > 0 {
					x := rapid.SampledFrom(slots).Draw(t, "slot")
					call("s", x.at, rapid.SampledFrom([]int64{-x.cost, 1, 3}).Draw(t, "delta"), x.gen)
				}
				continue
			case 4:
				run = rapid.SampledFrom([]string{"one", "two"}).Draw(t, "run")
				s.at(nop{}, now, run, uptime)
			case 5:
				now -= rapid.Int64Range(0, 1_200_000).Draw(t, "back")
				s.at(nop{}, now, run, uptime)
			case 6, 7:
				note(call("d", cost, count, 0), cost)
				continue
			case 8, 9, 10:
				s.c.Del(ctx, s.keys[0])
			case 11:
				s.c.Set(ctx, s.keys[6], fmt.Sprintf("%s:%d", run, now-rapid.Int64Range(-10, 2_000_000).Draw(t, "since")), time.Hour)
			case 12:
				s.c.Del(ctx, s.keys[6])
			}
			// The same entries by both ways, from the same state.
			before := s.fieldsOf(t)
			_, isCalm := before["calm"]
			_, there := before["epoch"]
			restore := s.snapshot(t)
			reach := rapid.SampledFrom([]int64{0, 0, 20_000, horizon, horizon}).Draw(t, "ahead")
			knows := s.wrote + rapid.SampledFrom([]int64{0, 0, 0, 0, 0, -1, 1}).Draw(t, "knows")
			wasEpoch, wasGen := epoch, gen
			stranger := rapid.IntRange(0, 3).Draw(t, "stranger") == 0
			if stranger {
				epoch, gen = 0, 0
			}
			known := fmt.Sprintf("%d:%d:%s", epoch, gen, redisgate.MarkOf(0, s.plan))
			behind, tries, entries := int64(0), false, []any{"d", cost, count, 0}
			if reach > 0 {
				behind = max(0, rapid.SampledFrom([]int64{-now, -now, 0, 5_000}).Draw(t, "behind")+now)
			} else if tries = rapid.Bool().Draw(t, "tries"); tries {
				entries = slices.Repeat([]any{"y", cost, 0, 0}, int(count))
			}
			said := behind
			if tries {
				said = -1
			}
			arg := packed(knows, count, late, horizon, reach, said)
			for _, l := range limits {
				arg = append(append(arg, byte(l.kind)), packed(l.span, l.n, l.most, cost)...)
			}
			asked++
			if isCalm {
				calm++
			}
			keys, args := []string{s.keys[0], s.keys[7], s.keys[8]}, []any{known, arg}
			mayBegin := stranger || rapid.Bool().Draw(t, "begins")
			if mayBegin {
				keys = []string{s.keys[0], s.keys[1], s.keys[2], s.keys[3], s.keys[6], s.keys[7], s.keys[8]}
				args = append(args, s.plan, numbers)
			}
			quickCall := func() (string, error) { return s.c.EvalSha(ctx, quickHash, keys, args...).Text() }
			text, err := quickCall()
			if errors.Is(err, redis.Nil) {
				if after := s.fieldsOf(t); !maps.Equal(after, before) {
					t.Fatalf("a quick call that gave nothing has made\n%v\nof\n%v", after, before)
				}
			} else if err != nil {
				t.Fatal(err)
			}
			packedRefusal, refused := strings.CutPrefix(text, "!")
			gave := unpacked(packedRefusal)
			if after := s.fieldsOf(t); refused && !maps.Equal(after, before) {
				t.Fatalf("a quick call that refused has made\n%v\nof\n%v", after, before)
			}
			quick, quickLives := s.fieldsOf(t), s.c.PTTL(ctx, s.keys[0]).Val()
			left := s.c.Exists(ctx, s.keys[1:4]...).Val()
			restore()
			s.seq = knows
			row := head("me", reach)
			row[9] = behind
			a := s.call(nop{}, append(row, entries...)...)
			if s.seq = 0; stranger {
				epoch, gen = wasEpoch, wasGen
			}
			epoch, gen = a[1], a[2]
			delays := note(a, cost)
			if gave == nil {
				if !there && mayBegin && int64(len(delays)) == count && delays[count-1] == 0 {
					t.Fatalf("a quick call began no state, and gave nothing, where the script gave %v", delays)
				}
				continue
			}
			if refused {
				refusals++
				if !tries || epoch != wasEpoch || gen != wasGen {
					t.Fatalf("a quick call refused, by epoch %d and generation %d; tries %v, and the script has %d and %d", wasEpoch, wasGen, tries, epoch, gen)
				}
				if !slices.Equal(delays, slices.Repeat([]int64{-1}, int(count))) {
					t.Fatalf("a quick call refused, and the script gave %v", delays)
				}
				var seq int64 // the script may write that the member is in no crowd any more
				fmt.Sscan(before["seq"], &seq)
				want := []int64{a[0], seq, a[5], a[4], a[7], a[16]}
				for i := range limits {
					want = append(want, a[18+2*i])
				}
				if gave[2] < want[2] || gave[2] > want[2]+late {
					t.Fatalf("the server keeps the state for %d by a quick call, for %d by the script", gave[2], want[2])
				}
				if want[2] = gave[2]; !slices.Equal(gave, want) || a[6] != -1 || a[12] != -1 || a[3] > 0 {
					t.Fatalf("a quick call refused with %v, the script with %v: %v", gave, want, a)
				}
				continue
			}
			decided++
			fixed := 3
			if mayBegin {
				if fixed = 5; gave[3] != epoch || gave[4] != gen {
					t.Fatalf("a quick call gave epoch %d and generation %d, the script %d and %d", gave[3], gave[4], epoch, gen)
				}
			}
			if stranger && there {
				met++
			}
			if !there {
				if begun++; left != 0 {
					t.Fatalf("a quick call began a state, and left %d other keys", left)
				}
			} else if epoch != wasEpoch {
				t.Fatal("a quick call believed in a state that the script does not believe in")
			}
			got := gave[fixed+len(limits):]
			if len(got) == 0 {
				got = make([]int64, count) // all are due now
			}
			if !slices.Equal(got, delays) || int64(len(got)) != count {
				t.Fatalf("a quick call gave slots in %v, the script in %v", got, delays)
			}
			if delays[count-1] > 0 {
				ahead++
			}
			if windowed {
				windows++
			}
			if a[0] != gave[0] || s.wrote != gave[1] || a[5] != gave[2] || a[3] > 0 || a[12] != -1 {
				t.Fatalf("a quick call gave %v, the script %v", gave, a)
			}
			for i := range limits {
				if gave[fixed+i] != a[18+2*i] {
					t.Fatalf("the debt of limit %d is %d by a quick call, %d by the script", i, gave[fixed+i], a[18+2*i])
				}
			}
			script := s.fieldsOf(t)
			till, was := quick["till"], before["till"]
			for _, m := range []map[string]string{quick, script} {
				delete(m, "till")
			}
			if !maps.Equal(script, quick) {
				t.Fatalf("a quick call left\n%v\nand the script\n%v", quick, script)
			}
			// The key lives as long as after a call of the script, or ten seconds longer. Time passes faster for keys than
			// by the test's clock, so that counts when it was set.
			var instant int64
			fmt.Sscan(till, &instant)
			life := time.Duration(instant-a[0]) * time.Microsecond
			if need := time.Duration(a[5]+horizon+1_000_000) * time.Microsecond; life < need-time.Millisecond {
				t.Fatalf("the state lives for %v after a quick call, want %v", life, need)
			}
			if till != was && (quickLives > life+time.Millisecond || quickLives < life-time.Second) {
				t.Fatalf("the key lives for %v, and the state says %v", quickLives, life)
			}
			// From now on by the quick call, half of the time.
			if rapid.Bool().Draw(t, "quick") {
				restore()
				quickCall()
			}
		}
	})
	t.Logf("%d of %d states were calm, and %d quick calls gave slots, %d of them ahead, %d of windows; %d began a state, and %d met one; %d refused", calm, asked, decided, ahead, windows, begun, met, refusals)
	if decided*20 < asked || ahead*100 < asked || windows*100 < asked || begun*100 < asked || met*100 < asked || asked > 2000 && refusals == 0 {
		t.Error("too few quick calls gave slots")
	}
}

// quickCall makes a quick call for one entry by the function, as a member that knows the state of the server.
func quickCall(t testing.TB, s *server, known, key string, l [3]int64) bool {
	t.Helper()
	ctx := context.Background()
	name, library := redisgate.QuickFunction()
	arg := append(append(packed(0, 1, 50_000, 1_000_000, 0, 0), 0), packed(l[0], l[1], l[2], 1)...)
	err := s.client().FCall(ctx, name, []string{key}, known, arg).Err()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatalf("%v; the library is\n%s", err, library)
	}
	return err == nil
}

// The function of quick calls keeps the server's name for its data in the server's process. A process that comes after it, with the data
// and the function of the one before, believes in none of its states, nor does a replica that has become the master.
func TestQuickOtherLife(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(3 * time.Second)
	replica := newServer(t, "--replicaof", fmt.Sprintf("127.0.0.1 %d", s.port))
	ctx := context.Background()
	replicates(t, replica)
	state, known, limit := calmState(t, s)
	for range 3 {
		if !quickCall(t, s, known, state, limit) {
			t.Fatal("the server that has made the state does not believe in it")
		}
	}
	within(t, 10*time.Second, "the replica has the state", func() bool {
		return replica.client().HGet(ctx, state, "quick").Val() == s.client().HGet(ctx, state, "quick").Val()
	})
	within(t, 10*time.Second, "the state is saved", func() bool { return s.client().Save(ctx).Err() == nil })
	s.kill()
	s.start()
	if err := replica.client().ReplicaOf(ctx, "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*server{"a server that was started with its data": s, "a replica that is the master now": replica} {
		if got := s.client().HGet(ctx, state, "calm").Val(); !strings.HasPrefix(got, known) {
			t.Fatalf("%s has %q for %q", name, got, known)
		}
		for range 2 {
			if quickCall(t, s, known, state, limit) {
				t.Errorf("%s believes in the state of another life", name)
			}
		}
	}
}

// A server that becomes a replica and then the master again, without ever needing all data, keeps its functions and what
// they know. What it was called before counts for a horizon.
func TestQuickThereAndBack(t *testing.T) {
	t.Parallel()
	a := newServer(t, "--repl-diskless-sync-delay", "0").settled(3 * time.Second)
	b := newServer(t, "--repl-diskless-sync-delay", "0", "--replicaof", fmt.Sprintf("127.0.0.1 %d", a.port))
	ctx := context.Background()
	replicates(t, b)
	state, known, limit := calmState(t, a)
	same := func(of, as *server) {
		within(t, 10*time.Second, "the replica has the state", func() bool {
			want := as.client().HGet(ctx, state, "quick").Val()
			link := of.client().Info(ctx, "replication").Val()
			return want != "" && strings.Contains(link, "master_link_status:up") && of.client().HGet(ctx, state, "quick").Val() == want
		})
	}
	same(b, a)
	if !quickCall(t, a, known, state, limit) {
		t.Fatal("the server that has made the state does not believe in it")
	}
	for _, err := range []error{b.client().ReplicaOf(ctx, "NO", "ONE").Err(), a.client().ReplicaOf(ctx, "127.0.0.1", fmt.Sprint(b.port)).Err()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	same(a, b)
	if err := a.client().ReplicaOf(ctx, "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1100 * ms)
	if quickCall(t, a, known, state, limit) {
		t.Error("a server that was a replica in the meantime believes in its state")
	}
}

// replicates waits until a replica has a master, which gets another name with its first one.
func replicates(t *testing.T, s *server) {
	within(t, 20*time.Second, "the replica has a master", func() bool {
		return strings.Contains(s.client().Info(context.Background(), "replication").Val(), "master_link_status:up")
	})
}

// calmState has a gate make a state that quick calls may use, and returns its key, what a member knows of it, and its
// limit.
func calmState(t *testing.T, s *server) (state, known string, limit [3]int64) {
	t.Helper()
	s.lived()
	k := key()
	g := member(t, s, k, redisgate.Limits{redisgate.Rate(pace.Per(1, time.Hour), &redisgate.RateOptions{Burst: 1000})}, nil)
	for range 3 {
		enter(t, g, 1).Leave(nil)
	}
	state = "{" + k + "}:gate"
	calm, err := s.client().HGet(context.Background(), state, "calm").Result()
	if err != nil {
		t.Fatal(err)
	}
	return state, calm[:strings.LastIndex(calm, ":")+1], [3]int64{3_600_000_000, 1, 1000}
}

// A gate of buckets is served by quick calls once its state is calm: by the function, or by a script where functions
// may not be had. Either way an entry is one round trip.
func TestQuickIsUsed(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(3 * time.Second)
	ctx := context.Background()
	calls := func(command string) (n int) {
		info := s.client().Info(ctx, "commandstats").Val()
		if _, rest, found := strings.Cut(info, "cmdstat_"+command+":calls="); found {
			fmt.Sscan(rest[:strings.IndexByte(rest, ',')], &n)
		}
		return n
	}
	for _, c := range []struct {
		name, command string
		more          []any
	}{
		{"all", "fcall", nil},
		{"nofcall", "evalsha", []any{"-fcall"}},
		{"noload", "evalsha", []any{"-function"}},
	} {
		if c.name == "noload" {
			if err := s.client().FunctionFlush(ctx).Err(); err != nil {
				t.Fatal(err)
			}
		}
		rules := append([]any{"acl", "setuser", c.name, "on", ">secret", "~*", "&*", "+@all"}, c.more...)
		if err := s.client().Do(ctx, rules...).Err(); err != nil {
			t.Fatal(err)
		}
		client := redis.NewClient(&redis.Options{Addr: s.addr(), Username: c.name, Password: "secret"})
		g := redisgate.New(client, key(), redisgate.Limits{redisgate.Rate(pace.PerSecond(1000), &redisgate.RateOptions{Burst: 1000})}, nil)
		for range 3 { // until the server has what it needs
			enter(t, g, 1).Leave(nil)
		}
		before, all := calls(c.command), s.evals(t)
		for range 20 {
			enter(t, g, 1).Leave(nil)
		}
		if _, ok := g.TryEnter(3); !ok {
			t.Errorf("%s: a TryEnter was refused", c.name)
		}
		if got, other := calls(c.command)-before, s.evals(t)-all; got < 21 || other > 31 { // on a busy machine some answers come too late
			t.Errorf("%s: 21 entries took %d calls, %d of them by %s, want 21", c.name, other, got, c.command)
		}
		closed(t, g)
		client.Close()
	}
}

// A member that was alone in the crowd, and got what it lacked, leaves a calm state.
func TestQuickAfterACrowdOfOne(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	now := int64(1_790_000_000_000_000)
	ask := func(member string, epoch, count int64) []int64 {
		limit := []any{"g", 1_000_000, 10, 1, 0, 1, 0, 0, 0, 0}
		return s.call(t, append(append([]any{member, 1_000_000, 50_000, 1_000_000, epoch, 0, 0, 0, 0, 0, 0, 0, 1}, limit...), "d", 1, count, 0)...)
	}
	isCalm := func() bool { return s.c.HExists(context.Background(), s.keys[0], "calm").Val() }
	for _, other := range []bool{false, true} {
		s.fresh()
		s.at(t, now, "one", 1000)
		epoch := ask("me", 0, 20)[1]
		if isCalm() {
			t.Error("the state is calm, where a member lacks slots")
		}
		if other {
			ask("you", epoch, 20)
		}
		s.at(t, now+500_000, "one", 1000)
		ask("me", epoch, 1)
		if isCalm() == other {
			t.Errorf("with another member that lacks slots %v: the state is calm is %v", other, isCalm())
		}
	}
}
