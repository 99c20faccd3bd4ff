//go:build unix

package redisgate_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"
)

// asker is a member as the script sees it: it asks as a gate does, for a constant number of
// waiters.
type asker struct {
	waiting  int64
	from, to int64 // when it is there

	slots, granted []int64 // their instants
	trips          int
	keep, next     int64 // as it was told
	turn           int64
	epoch, gen     int64
}

// asks returns when it asks next.
func (a *asker) asks(now int64) int64 {
	bound := int64(len(a.slots))
	at := now
	switch {
	case a.waiting <= bound:
		return a.slots[0] + 1 // and then another entry comes
	case a.keep >= 0:
		if bound > a.keep {
			at = a.slots[bound-1-a.keep]
		}
	case bound > 0 && a.waiting-bound < max(24, bound):
		at = a.slots[bound-1] - 3000
	}
	return max(at, a.next, a.from)
}

func (a *asker) use(now int64) {
	for len(a.slots) > 0 && a.slots[0] <= now {
		a.granted = append(a.granted, a.slots[0])
		a.slots = a.slots[1:]
	}
}

// However many entries wait, in however many processes: all slots are used, evenly, and asked for
// in bulk. A member that joins gets its share within a horizon, and one that has gone is not
// missed.
func TestScriptCrowd(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const sec, never = 1_000_000, math.MaxInt64
	same := func(count int, waiting int64) []asker {
		return slices.Repeat([]asker{{waiting: waiting, to: never}}, count)
	}
	for _, c := range []struct {
		name    string
		n       int64 // in a second
		horizon int64
		as      []asker
		trips   float64 // for each grant, at most
		lost    int     // slots that pass unused
	}{
		{"one", 100, sec, same(1, 200), 0.02, 0},
		{"three", 100, sec, same(3, 200), 0.05, 0},
		{"three, all fit", 100, sec, same(3, 20), 0.1, 0},
		{"three, nearly all fit", 100, sec, same(3, 34), 0.1, 0},
		{"half a horizon", 100, sec / 2, same(3, 200), 0.1, 0},
		{"half a horizon, few", 100, sec / 2, same(3, 20), 0.1, 0},
		{"ten", 100, sec, same(10, 1000), 0.15, 0},
		{"a hundred for a hundred slots", 100, sec, same(100, 100), 0.3, 0},
		{"a hundred for ten slots", 10, sec, same(100, 100), 0.7, 0},
		{"three hundred for a hundred slots", 100, sec, same(300, 100), 0.25, 0},
		{"two hundred with one waiter for a hundred slots", 100, sec, same(200, 1), 1.1, 0},
		{"250 with ten waiters for five hundred slots", 500, sec, same(250, 10), 0.2, 0},
		{"three for no slot", 1, sec / 2, same(3, 20), 4.1, 0},
		{"10000 at once", 10_000, sec, same(3, 10_000), 0.01, 0},
		{"one joins three", 100, sec, append(same(3, 200), asker{waiting: 200, from: 3*sec + sec/7, to: never}), 0.08, 0},
		{"one joins one", 100, sec, append(same(1, 200), asker{waiting: 200, from: 3 * sec, to: never}), 0.05, 0},
		{"most go", 10, sec, append(same(10, 100), slices.Repeat([]asker{{waiting: 100, to: 5 * sec}}, 90)...), 0.7, 30},
		{"one goes", 100, sec, append(same(3, 200), asker{waiting: 200, to: 3 * sec}), 0.08, 25},
	} {
		s.fresh()
		s.listen(t)
		start := int64(1_790_000_000_000_000)
		length := max(12*sec, 20*int64(len(c.as))*sec/c.n)
		for i := range c.as {
			c.as[i].keep = -1
		}
		for now, steps := int64(0), 0; steps < 100_000; steps++ {
			who, at := 0, int64(never)
			for i := range c.as {
				if x := c.as[i].asks(now); x < at && x < c.as[i].to {
					who, at = i, x
				}
			}
			now = max(now, at) + int64(steps*7919%700) // not all are as fast
			if now > length {
				break
			}
			m := &c.as[who]
			m.use(now)
			if m.asks(now) > now {
				continue
			}
			behind := int64(0)
			if k := len(m.slots); k > 0 {
				behind = start + m.slots[k-1]
			}
			came := m.from // or when an entry went and its caller came again
			if i := len(m.granted) + len(m.slots) - int(m.waiting); i >= 0 {
				came = append(slices.Clone(m.granted), m.slots...)[i]
			}
			s.at(t, start+now, "one", 1000)
			a := s.call(t, fmt.Sprint("m", who), c.horizon, 20_000, c.horizon, m.epoch, m.gen, 0, 0, 0, behind, now-came, len(m.slots), 1,
				"g", sec, c.n, 1, 0, 0, 0, 0, 0, 0, "d", 1, min(m.waiting-int64(len(m.slots)), 256), 0)
			m.trips++
			m.turn = s.turn
			if was := s.skips; was != s.skipped() {
				called, interval := s.called(t)
				for i := range c.as {
					if o := &c.as[i]; o.turn > 0 {
						o.next = now + int64(float64(max(0, o.turn-called))*interval/1000)
					}
				}
			}
			m.epoch, m.gen, m.keep, m.next = a[1], a[2], a[12], 0
			if a[6] >= 0 {
				m.next = now + a[6]
			}
			for _, d := range a[20:] {
				m.slots = append(m.slots, now+d)
			}
		}
		trips, all := 0, 0
		var shares []float64 // of the second half
		for i := range c.as {
			m := &c.as[i]
			m.use(min(length, m.to))
			trips += m.trips
			all += len(m.granted)
			if m.to < never {
				continue
			}
			half, _ := slices.BinarySearch(m.granted, length/2)
			shares = append(shares, float64(len(m.granted)-half))
			if len(m.granted) == 0 || m.from > 0 && m.granted[0]-m.from > c.horizon*11/10 {
				t.Errorf("%s: who comes later has to wait for its first slot: %v", c.name, m.granted[:min(1, len(m.granted))])
			}
		}
		least, most := slices.Min(shares), slices.Max(shares)
		t.Logf("%s: %d slots, %.3f trips for each, shares of the second half from %.0f to %.0f", c.name, all, float64(trips)/float64(all), least, most)
		if want := int(length*c.n/sec) - c.lost; all < want {
			t.Errorf("%s: %d slots were used, want %d", c.name, all, want)
		}
		if got := float64(trips) / float64(all); got > c.trips {
			t.Errorf("%s: %.3f trips for each slot, want at most %.3f", c.name, got, c.trips)
		}
		// A tenth from an even share, or what is granted in one turn: if they are many, at most a quarter of what
		// fits into the horizon, and no more than eight.
		turn := 1.0
		if fits := c.n * c.horizon / sec; int64(len(c.as))*min(8, fits/4) > fits {
			turn = float64(min(8, fits/4))
		}
		if even := float64(length*c.n/sec/2) / float64(len(shares)); most > even+max(turn, even/10) || least < even-max(turn, even/10) {
			t.Errorf("%s: shares from %.0f to %.0f, want %.1f for each", c.name, least, most, even)
		}
	}
}

// While another member wants slots, a member has at most half of the horizon in hand, and leaves
// room for what the other lacks. A member that does not come again is forgotten after two horizons.
func TestScriptParts(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fresh()
	const start, sec = int64(1_790_000_000_000_000), 1_000_000
	epoch := int64(0)
	ask := func(at int64, who string, inhand, count int64) (slots []int64, keep int64) {
		s.at(t, start+at, "one", 1000)
		a := s.call(t, who, sec, 20_000, sec, epoch, 0, 0, 0, 0, 0, 0, inhand, 1,
			"g", sec, 100, 1, 0, 0, 0, 0, 0, 0, "d", 1, count, 0)
		epoch = a[1]
		return a[20:], a[12]
	}
	if got, keep := ask(0, "a", 0, 200); len(got) != 101 || keep != 12 {
		t.Errorf("alone: %d slots, and more when %d are left, want 101 and 12", len(got), keep)
	}
	if got, keep := ask(sec/100, "b", 0, 200); len(got) > 1 || keep < 200 {
		t.Errorf("where all are taken: %d slots, keep %d", len(got), keep)
	}
	if got, keep := ask(sec*6/10, "a", 45, 200); len(got) != 5 || keep != 6 {
		t.Errorf("with 45 in hand beside another: %d slots, and more when %d are left, want 5 and 6", len(got), keep)
	}
	if got, _ := ask(sec*7/10, "a", 0, 200); len(got) == 0 || got[len(got)-1] > sec-48*sec/100 {
		t.Errorf("beside one who is short: slots %v, want none in the last 0.48 s of the horizon", got)
	}
	if got, _ := ask(8*sec, "a", 0, 200); len(got) != 101 {
		t.Errorf("alone again: %d slots, want 101", len(got))
	}
	if _, err := s.c.ZScore(context.Background(), s.keys[2], "b").Result(); err == nil {
		t.Error("what is known of b has stayed")
	}
}

// A process that joins a crowd gets a slot within a horizon, and an even share from then on; nothing is
// left behind when all have gone.
func TestJoin(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	judge(t, func(soft *soft) {
		j := job{Addrs: []string{s.addr()}, Key: key(), Kind: "strict", N: 100, Span: time.Second, Callers: 200, For: 9 * time.Second}
		ws := crew(t, 2, j)
		j.For -= 3 * time.Second
		third := hire(t, j)
		begin(ws)
		time.Sleep(3 * time.Second)
		joined := time.Now().UnixNano()
		begin([]*worker{third})
		ws = append(ws, third)
		soft.crew = ws
		most, _ := report(t, ws, time.Second)
		if most > j.N {
			t.Errorf("%d in one second, where %d is the limit", most, j.N)
		}
		var halted time.Duration
		sum, trips, all := 0, 0, 0
		var late []int
		for _, w := range ws {
			halted = max(halted, w.halted)
			trips += w.trips
			all += len(w.grants) + w.late
			slices.Sort(w.grants)
			i, _ := slices.BinarySearch(w.grants, joined+int64(1200*ms))
			late = append(late, len(w.grants)-i)
			sum += len(w.grants) - i
		}
		if len(third.grants) == 0 {
			t.Fatal("who joined got nothing")
		}
		soft.atMost("seconds that the one who joined waited", time.Duration(third.grants[0]-joined).Seconds(), 1.2+halted.Seconds())
		away := min(halted.Seconds(), j.For.Seconds()) * float64(j.N)
		for i, n := range late {
			if d := float64(n) - float64(sum)/3; math.Abs(d) > 0.1*float64(sum)/3+away {
				soft.Errorf("since one has joined, worker %d has had %d of %d entries", i+1, n, sum)
			}
		}
		soft.atMost("round trips", float64(trips), 0.1*float64(all)+away)
	})
	within(t, 20*time.Second, "all keys are gone", func() bool { return s.keys() == 0 })
}
