//go:build unix

package redisgate_test

import (
	"container/heap"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/escapement-go/escapement/gate/redisgate"
	"github.com/escapement-go/escapement/internal/adapt"
)

// replay does what a walk has done, and returns after each step what can be seen of the state. ARGV is the settings, the
// steps, and how often the state is stored and restored.
var replay = redis.NewScript(redisgate.Learn(`
local c, steps, every = cjson.decode(ARGV[1]), cjson.decode(ARGV[2]), tonumber(ARGV[3])
local s, marks, seen = learn.new(c.fastest, 1, 0), {}, {}
for i, x in ipairs(steps) do
  local changed, counts = false, false
  if x[1] == 0 then
    local slow = learn.grant(s, x[2])
    marks[#marks + 1] = { s.change, s.grants, slow }
    changed = slow
  else
    local m = marks[x[2]]
    if x[1] == 1 then
      changed = learn.success(s, c, m[1], m[2], m[3])
    else
      changed, counts = learn.throttle(s, c, m[1], m[2], m[3], x[3] * 1000)
    end
  end
  local flags = (changed and 1 or 0) + (counts and 2 or 0) + (s.gaveup and 4 or 0) + (learn.fresh(s, c) and 8 or 0)
  seen[#seen + 1] = s.interval
  seen[#seen + 1] = flags
  if i % every == 0 then s = learn.unpack(learn.pack(s)) end
end
return seen`))

// settings are those of an adaptive limit, as the script has them.
type settings struct {
	Fastest int64   `json:"fastest"`
	Slowest int64   `json:"slowest"`
	Backoff float64 `json:"backoff"`
	Recover float64 `json:"recover"`
	GiveUp  int     `json:"giveup"`
}

// farSide is one side with a limit that changes, refusals at random, and refusals that say how long to keep away.
type farSide struct {
	settings
	rng     *rand.Rand
	latency int64   // µs
	jitter  float64 // share of that
	limit   float64 // its interval, as a multiple of the fastest
	changes float64 // every so many entries, on average; 0: never
	burst   float64
	noise   float64
	hint    int64 // µs
	callers int
	idle    float64 // how often there is no entry for a while
}

func newFarSide(seed uint64) *farSide {
	rng := rand.New(rand.NewPCG(seed, 1))
	pick := func(x ...float64) float64 { return x[rng.IntN(len(x))] }
	w := &farSide{
		settings: settings{
			Fastest: int64(pick(1e5, 1e6, 12_345_678)),
			Backoff: pick(1.1, 2, 2, 2, 8),
			Recover: pick(0.5, 0.9, 0.9, 0.9, 0.99),
			GiveUp:  int(pick(0, 0, 5, 40)),
		},
		rng:     rng,
		jitter:  pick(0, 0, 0.1, 0.9),
		limit:   pick(0, 0.9, 1.3, 2, 5),
		changes: pick(0, 300, 2000),
		burst:   pick(1, 1, 5, 50),
		noise:   pick(0, 0, 0.002, 0.02, 0.1, 0.4),
		callers: int(pick(1, 8, 64, 1000)),
		idle:    pick(0, 0, 0.001, 0.05),
	}
	w.Slowest = w.Fastest * int64(pick(3, 100, 1e5))
	unit := float64(w.Fastest) / 1000
	w.latency = int64(unit * pick(0.1, 1, 4, 40))
	w.hint = int64(unit * pick(0, 0, 3, 20, 300))
	return w
}

// event is an entry that is on its way back.
type event struct {
	at, mark int64
	well     bool
}

type events []event

func (q events) Len() int           { return len(q) }
func (q events) Less(i, j int) bool { return q[i].at < q[j].at }
func (q events) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *events) Push(x any)        { *q = append(*q, x.(event)) }
func (q *events) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	*q = (*q)[:last]
	return e
}

// walk has so many entries in the world, with an adapt.State. It returns the steps: a grant at an instant, and the
// success or the throttle of a grant, by its number. It also returns what was seen after each.
func (w *farSide) walk(entries int) (steps [][]int64, seen []int64) {
	s := adapt.New(adapt.Config{Fastest: w.Fastest, Slowest: w.Slowest, Backoff: w.Backoff, Recover: w.Recover, GiveUp: w.GiveUp})
	var marks []uint64
	note := func(step []int64, changed, counts bool) {
		flags := int64(0)
		for i, x := range []bool{changed, counts, s.GaveUp(), s.Fresh()} {
			if x {
				flags |= 1 << i
			}
		}
		steps, seen = append(steps, step), append(seen, s.Interval(), flags)
	}
	var back events
	now, next := int64(1e9), int64(0)
	tokens, filled := w.burst, now
	for len(marks) < entries {
		if len(back) > 0 && (back[0].at <= max(now, next) || len(back) >= w.callers) {
			e := heap.Pop(&back).(event)
			now = max(now, e.at)
			if e.well {
				note([]int64{1, e.mark}, s.Success(marks[e.mark-1]), false)
				continue
			}
			after := w.hint
			if w.rng.IntN(4) == 0 {
				after = after * int64(w.rng.IntN(100)) / 50
			}
			changed, counts := s.Throttle(marks[e.mark-1], after*1000)
			note([]int64{2, e.mark, after}, changed, counts)
			if counts {
				next = max(next, now+after)
			}
			continue
		}
		now = max(now, next)
		if w.idle > 0 && w.rng.Float64() < w.idle {
			now += w.latency * int64(w.rng.IntN(100))
		}
		if w.changes > 0 && w.rng.Float64()*w.changes < 1 {
			w.limit = w.rng.Float64() * 4
		}
		m := s.Grant(now * 1000)
		marks = append(marks, m)
		note([]int64{0, now}, m>>63 == 1, false)
		next = now + (s.Interval()+999)/1000
		well := w.rng.Float64() >= w.noise
		if each := w.limit * float64(w.Fastest) / 1000; well && each > 0 {
			tokens, filled = min(w.burst, tokens+float64(now-filled)/each), now
			if well = tokens >= 1; well {
				tokens--
			}
		}
		way := int64(float64(w.latency) * (1 + w.jitter*(2*w.rng.Float64()-1)))
		heap.Push(&back, event{now + way, int64(len(marks)), well})
	}
	return steps, seen
}

// The script learns as internal/adapt does, step by step, also from a state that was stored. Powers and logarithms may
// differ in the last bit from one machine to the next, so an interval may be off by a nanosecond. Such a walk ends there.
func TestLearnsAsInternalAdapt(t *testing.T) {
	t.Parallel()
	c := newServer(t).client()
	walks, entries := 300, 3000
	if testing.Short() {
		walks = 40
	}
	off := 0
	for seed := range walks {
		w := newFarSide(uint64(seed))
		set, _ := json.Marshal(w.settings)
		name := fmt.Sprintf("walk %d, %+v", seed, *w)
		steps, seen := w.walk(entries)
		text, _ := json.Marshal(steps)
		got, err := replay.Run(context.Background(), c, nil, set, text, 1+seed%50).Int64Slice()
		if err != nil {
			t.Fatal(err)
		}
		for i := range seen {
			if d := got[i] - seen[i]; d == 0 {
				continue
			} else if i%2 == 0 && (d == 1 || d == -1) {
				off++
				break
			}
			t.Errorf("%s: after step %d, %v, of %d: interval %d, flags %b, want %d, %b", name, i/2, steps[i/2], len(steps), got[i&^1], got[i|1], seen[i&^1], seen[i|1])
			break
		}
	}
	if off > walks/20 {
		t.Errorf("%d of %d walks are off by a nanosecond", off, walks)
	}
	t.Logf("%d of %d walks are off by a nanosecond", off, walks)
}
