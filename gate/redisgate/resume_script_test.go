//go:build unix

package redisgate_test

import (
	"context"
	"fmt"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// resumeModel is a bucket, exactly, with its schedule as it would be without the present hold.
type resumeModel struct {
	held, free *limitModel
	hold       int64
}

func copied(l *limitModel) *limitModel {
	c := *l
	c.tat = new(big.Rat).Set(l.tat)
	return &c
}

// leaveOne leaves one token at most for the instant.
func (l *limitModel) leaveOne(at int64) {
	x := new(big.Rat).Mul(l.interval(), big.NewRat(l.burst-1, 1))
	if x.Add(x, big.NewRat(at, 1)); l.tat.Cmp(x) < 0 {
		l.tat.Set(x)
	}
}

// over ends a hold that is over by now.
func (m *resumeModel) over(now int64) {
	if m.hold <= now {
		m.free = nil
	}
}

func (m *resumeModel) begin(now, span int64) {
	m.over(now)
	if now+span <= m.hold {
		return
	}
	if m.free == nil {
		m.free = copied(m.held)
	}
	m.hold = now + span
	m.held = copied(m.free) // the slots that were handed out meanwhile are void
	m.held.leaveOne(m.hold)
}

func (m *resumeModel) resume(now int64) {
	m.over(now)
	if m.free != nil {
		m.held, m.free, m.hold = m.free, nil, now
		m.held.leaveOne(now)
	}
}

func (m *resumeModel) debt(now, cost int64) {
	m.over(now)
	m.held.take(now, cost)
	if m.free != nil {
		m.free.take(now, cost)
	}
}

// A hold that is ended leaves what there would be without it, but for one token at most, to the microsecond. That
// goes for slots that were handed out for the time after the hold, too, and for debts of that time.
func TestScriptResumeAgainstModel(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	rapid.Check(t, func(t *rapid.T) {
		s.fresh()
		l := &limitModel{
			tat:   new(big.Rat),
			span:  rapid.OneOf(rapid.Int64Range(1, 100), rapid.Int64Range(1, 5_000_000)).Draw(t, "span"),
			n:     rapid.SampledFrom([]int64{1, 2, 3, 7, 97, 1999}).Draw(t, "n"),
			burst: rapid.Int64Range(1, 9).Draw(t, "burst"),
		}
		m := &resumeModel{held: l}
		const horizon = 60_000_000
		now, epoch, last := int64(1_790_000_000_000_000), int64(0), int64(0)
		call := func(ahead int64, op ...any) []int64 {
			s.at(nop{}, now, "one", 1000)
			a := s.call(nop{}, append([]any{"me", horizon, 10_000, ahead, epoch, 0, min(1, epoch), 0, 0, 0, 0, 0, 1,
				"g", l.span, l.n, l.burst, 0, 0, 0, 0, 0, 0}, op...)...)
			epoch = a[1]
			return a
		}
		call(0, "y", 1, 0, 0)
		m.held.take(now, 1)
		last = now
		for range rapid.IntRange(1, 30).Draw(t, "calls") {
			now += rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, 100_000), rapid.Int64Range(0, 9_000_000)).Draw(t, "after")
			m.over(now)
			cost := rapid.Int64Range(1, l.burst).Draw(t, "cost")
			var a []int64
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				span := rapid.Int64Range(1, 20_000_000).Draw(t, "hold")
				if last > now && m.free == nil {
					continue // slots handed out for the time after an earlier hold: void, they leave an empty bucket
				}
				a = call(0, "h", span, 0, 0)
				if now+span > m.hold {
					last = min(last, now)
				}
				m.begin(now, span)
			case 1:
				a = call(0, "e", 0, 0, 0)
				if m.free != nil {
					last = min(last, now)
				}
				m.resume(now)
			case 2:
				debt := rapid.Int64Range(1, 9*l.burst).Draw(t, "debt")
				a = call(0, "s", now, debt, 0)
				m.debt(now, debt)
			default:
				// Ahead only in a hold: so a plan that changes finds no slots that are still to come.
				ahead := int64(0)
				if m.free != nil {
					ahead = rapid.SampledFrom([]int64{0, 1_000_000, 60_000_000}).Draw(t, "ahead")
				}
				a = call(ahead, "d", cost, 1, 0)
				at := m.held.earliest(max(now, last, m.hold), cost)
				got := a[20:]
				if at > now+ahead {
					if len(got) != 0 || a[7] != at-now {
						t.Fatalf("at %d: slots %v, due in %d, want none before %d", now, got, a[7], at-now)
					}
				} else {
					if len(got) != 1 || got[0] != at-now {
						t.Fatalf("at %d: slots %v, want one in %d", now, got, at-now)
					}
					m.held.take(at, cost)
					last = at
				}
			}
			want := m.hold - now
			if got := a[3]; want > 0 && got != want || want <= 0 && got > 0 {
				t.Fatalf("at %d: held for %d, want %d", now, got, want)
			}
		}
	})
}

// Calls that reach the server late count by when they were called.
func TestScriptOrdersHoldAndResume(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const sec = 1_000_000
	for name, c := range map[string]struct {
		ops  []any // each with how long after the last one it arrives
		want int64 // of the hold
	}{
		"a hold":                           {[]any{0, "h", 9 * sec, 0, 0}, 9 * sec},
		"a hold that is ended":             {[]any{0, "h", 9 * sec, 0, 0, sec, "e", 0, 0, 0}, 0},
		"at one instant":                   {[]any{0, "h", 9 * sec, 0, 0, 0, "e", 0, 0, 0}, 0},
		"and held again":                   {[]any{0, "h", 9 * sec, 0, 0, 0, "e", 0, 0, 0, 0, "h", 5 * sec, 0, 0}, 5 * sec},
		"a hold from before":               {[]any{0, "h", 9 * sec, 0, 0, sec, "e", 0, 0, 0, sec, "h", 5 * sec, 0, sec + 1}, 0},
		"a throttle from before":           {[]any{0, "h", 9 * sec, 0, 0, sec, "e", 0, 0, 0, sec, "t", 0, 5 * sec, sec + 1}, 0},
		"a throttle from after":            {[]any{0, "h", 9 * sec, 0, 0, sec, "e", 0, 0, 0, sec, "t", 0, 5 * sec, sec - 1}, 5 * sec},
		"a hold from after":                {[]any{0, "h", 9 * sec, 0, 0, sec, "e", 0, 0, 0, sec, "h", 5 * sec, 0, sec - 1}, 5 * sec},
		"a Resume from before":             {[]any{0, "h", 9 * sec, 0, 0, sec, "e", 0, 0, sec + 1}, 8 * sec},
		"a Resume from before the last":    {[]any{0, "h", 9 * sec, 0, 0, 2 * sec, "h", sec, 0, 0, 0, "e", 0, 0, sec}, 7 * sec},
		"a Resume that is said twice":      {[]any{0, "h", 9 * sec, 0, 0, sec, "e", 0, 0, 0, sec, "h", 5 * sec, 0, 0, sec, "e", 0, 0, 2 * sec}, 4 * sec},
		"without a hold":                   {[]any{0, "e", 0, 0, 0}, 0},
		"without a hold, and a later hold": {[]any{0, "e", 0, 0, 0, sec, "h", 5 * sec, 0, 0}, 5 * sec},
		"both in one call":                 {[]any{0, "h", 9 * sec, 0, 10, -1, "e", 0, 0, 5}, 0},
		"both in one call, and again":      {[]any{0, "h", 9 * sec, 0, 10, -1, "e", 0, 0, 5, -1, "h", 3 * sec, 0, 5}, 3 * sec},
	} {
		s.fresh()
		now, epoch := int64(1_790_000_000_000_000), int64(0)
		var a []int64
		for i := 0; i < len(c.ops); {
			now += max(0, int64(c.ops[i].(int)))
			ops := c.ops[i+1 : i+5]
			for i += 5; i < len(c.ops) && c.ops[i] == -1; i += 5 { // in the same call
				ops = append(ops[:len(ops):len(ops)], c.ops[i+1:i+5]...)
			}
			s.at(t, now, "one", 1000)
			a = s.call(t, append([]any{"me", sec, 0, sec, epoch, 0, min(1, epoch), 0, 0, 0, 0, 0, 1,
				"a", 1000, 1000 * sec, 1, 0, 0, 2, 0.9, 0, 0}, ops...)...)
			epoch = a[1]
		}
		if got := max(0, a[3]); got != c.want {
			t.Errorf("%s: held for %d, want %d", name, got, c.want)
		}
	}
}

// After a restart without state, a member that knows of the hold reports it, and one that knows of the Resume ends
// it, in whichever order they come. A hold that was called after that Resume stays.
func TestScriptRemembersResume(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const sec = 1_000_000
	for name, c := range map[string]struct {
		known []any // by each member
		want  int64
	}{
		"a hold":                            {[]any{fmt.Sprintf("%d:%d", 90*sec, 5*sec)}, 90 * sec},
		"a hold, and then the Resume":       {[]any{fmt.Sprintf("%d:%d", 90*sec, 5*sec), -1 - 3*sec}, 0},
		"the Resume, and then the hold":     {[]any{-1 - 3*sec, fmt.Sprintf("%d:%d", 90*sec, 5*sec)}, 0},
		"an earlier Resume":                 {[]any{fmt.Sprintf("%d:%d", 90*sec, 5*sec), -1 - 7*sec}, 90 * sec},
		"an earlier Resume first":           {[]any{-1 - 7*sec, fmt.Sprintf("%d:%d", 90*sec, 5*sec)}, 90 * sec},
		"a hold, a Resume and another hold": {[]any{fmt.Sprintf("%d:%d", 90*sec, 5*sec), -1 - 3*sec, fmt.Sprintf("%d:%d", 40*sec, 2*sec)}, 40 * sec},
		"a hold of a member without an age": {[]any{90 * sec}, 90 * sec},
	} {
		s.fresh()
		now := int64(1_790_000_000_000_000)
		var a []int64
		for i, known := range c.known {
			s.at(t, now, "one", 1000)
			a = s.call(t, fmt.Sprint("m", i), sec, 0, sec, 77, 0, 1, known, 0, 0, 0, 0, 1,
				"g", sec, 10, 5, 0, 0, 0, 0, 0, 0)
		}
		if got := max(0, a[3]); got != c.want {
			t.Errorf("%s: held for %d, want %d", name, got, c.want)
		}
		// What is left of the hold's charge: by the end of the time in which slots of before may be used, the
		// bucket is empty, and it has one token at the end of a hold.
		now += 2 * sec
		s.at(t, now, "one", 1000)
		a = s.call(t, "last", sec, 0, sec, a[1], 0, 1, 0, 0, 0, 0, 0, 1,
			"g", sec, 10, 5, 0, 0, 0, 0, 0, 0, "d", 1, 1, 0)
		if c.want == 0 && (len(a) != 21 || a[20] != 0) || c.want > 0 && a[7] != c.want-2*sec {
			t.Errorf("%s: two seconds later %v", name, a)
		}
	}
}

// The state outlives a hold that was ended for as long as a member may know of the hold, so that none brings it
// back.
func TestScriptKeepsResume(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fresh()
	const sec = 1_000_000
	now, epoch := int64(1_790_000_000_000_000), int64(0)
	for _, op := range []string{"h", "e", "y"} {
		s.at(t, now, "one", 1000)
		now += sec
		a := s.call(t, "me", sec, 0, sec, epoch, 0, min(1, epoch), 0, 0, 0, 0, 0, 1,
			"g", sec, 10, 5, 0, 0, 0, 0, 0, 0, op, int64(3600*sec), 0, 0)
		epoch = a[1]
		if ttl := s.c.PTTL(context.Background(), s.keys[0]).Val().Seconds(); ttl < 3590 || a[5] < 3590*sec {
			t.Errorf("after %q the state lives for %v s, and the member is told %d µs", op, ttl, a[5])
		}
	}
}

// A release that knows nothing of Resume changes the schedule in a hold. Then what it has changed counts, and no
// token comes back that it has charged.
func TestScriptResumeOfOlderRelease(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fresh()
	const sec = 1_000_000
	now, epoch := int64(1_790_000_000_000_000), int64(0)
	call := func(op ...any) []int64 {
		s.at(t, now, "one", 1000)
		a := s.call(t, append([]any{"me", sec, 0, sec, epoch, 0, min(1, epoch), 0, 0, 0, 0, 0, 1,
			"g", sec, 10, 5, 0, 0, 0, 0, 0, 0}, op...)...)
		epoch = a[1]
		return a
	}
	call("h", 20*sec, 0, 0)
	tat, err := s.c.HGet(context.Background(), s.keys[0], "t1").Int64()
	if err != nil {
		t.Fatal(err)
	}
	s.c.HSet(context.Background(), s.keys[0], "t1", tat+3*sec) // a debt of 30
	now += sec
	a := call("e", 0, 0, 0, "d", 1, 1, 0)
	if len(a) != 20 || a[3] > 0 || a[7] < 20*sec {
		t.Errorf("after Resume: %v, want no slot before the bucket is paid", a)
	}
}

// What a member carries for a server that loses its state: the hold by itself, the debt of a bucket without the hold,
// and for how long there has been none since a Resume.
func TestScriptReportsHoldAndResume(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fresh()
	const sec = 1_000_000
	now, epoch := int64(1_790_000_000_000_000), int64(0)
	call := func(who string, knows int64, debt int64, hold any, op ...any) []int64 {
		s.at(t, now, "one", 1000)
		return s.call(t, append([]any{who, sec, 0, sec, knows, 0, min(1, knows), hold, 0, 0, 0, 0, 1,
			"g", sec, 10, 5, debt, 0, 0, 0, 0, 0}, op...)...)
	}
	a := call("a", 0, 0, 0, "y", 1, 0, 0)
	epoch = a[1]
	if a[3] != 0 {
		t.Errorf("without a Resume: %d, want 0", a[3])
	}
	now += sec
	a = call("a", epoch, 0, 0, "h", int64(3600*sec), 0, 0, "s", now, 30, 0)
	if a[3] != 3600*sec || a[18] != 3*sec {
		t.Errorf("held for %d with a debt of %d, want an hour and 3s", a[3], a[18])
	}
	now += sec
	a = call("a", epoch, 0, 0, "e", 0, 0, sec/2)
	if a[3] != -1-sec/2 || a[18] != 2*sec {
		t.Errorf("after Resume: held for %d with a debt of %d, want -1-500,000 and 2s", a[3], a[18])
	}
	now += sec
	if a = call("a", epoch, 0, 0); a[3] != -1-3*sec/2 {
		t.Errorf("a second later: %d, want -1-1,500,000", a[3])
	}

	// Two members remember: one the hold, the other the debt. Then the hold is ended.
	s.fresh()
	epoch = call("a", 77, 0, fmt.Sprintf("%d:0", int64(3600*sec)))[1]
	call("b", 77, 9*sec, 0)
	now += 4 * sec
	a = call("a", epoch, 0, 0, "e", 0, 0, 0, "d", 1, 1, 0)
	if len(a) != 20 || a[7] < 46*sec/10 || a[7] > 5*sec {
		t.Errorf("after Resume with a debt of 5s in a bucket of 500ms: %v, want the next one due in 4.6s", a)
	}
}

// What entries of before give back during a hold, and what an adaptive limit unlearns, is there after Resume, but for
// one token at most. At the end of a hold there is one token, too.
func TestScriptCorrectsDuringHold(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const sec = 1_000_000
	start := int64(1_790_000_000_000_000)
	for name, c := range map[string]struct {
		before []any // operations right before the hold
		during []any // and a second later
		want   int64 // when the first one is due after a Resume another second later; the next one is 100 ms later
	}{
		"nothing":                         {nil, nil, 0},
		"a debt":                          {[]any{"s", start, 45, 0}, nil, 26 * sec / 10},
		"a debt in the hold":              {nil, []any{"s", start, 45, 0}, 31 * sec / 10},
		"the last one unused":             {nil, []any{"s", start, -5, 0}, 0},
		"a debt, and the last one unused": {[]any{"s", start, 45, 0}, []any{"s", start, -5, 0}, 21 * sec / 10},
		"a debt, and a reset":             {[]any{"t", 0, 0, 0, "s", start, 45, 0}, []any{"x", 0, 0, 0}, 31 * sec / 10},
		"a debt, a reset and a throttle":  {[]any{"t", 0, 0, 0, "s", start, 45, 0}, []any{"x", 0, 0, 0, "t", 2, 0, 0}, 27 * sec / 10},
	} {
		for _, resume := range []bool{true, false} {
			s.fresh()
			now, epoch, gen := start, int64(0), int64(0)
			call := func(op ...any) []int64 {
				s.at(t, now, "one", 1000)
				a := s.call(t, append([]any{"me", 10 * sec, 0, 10 * sec, epoch, gen, min(1, epoch), 0, 0, 0, 0, 0, 1,
					"a", 100_000_000, int64(1e12), 5, 0, 0, 2, 0.9, 0, 0}, op...)...)
				epoch, gen = a[1], a[2]
				return a
			}
			call("d", 5, 1, 0)
			call(append(c.before[:len(c.before):len(c.before)], "h", 12*sec, 0, 0)...)
			now += sec
			if c.during != nil {
				call(c.during...)
			}
			now += sec
			if !resume {
				now += 10 * sec
				a := call("d", 1, 5, 0)
				for i, d := range a[20:] {
					if i > 0 && d-a[20+i-1] < 100_000 {
						t.Errorf("%s: at the end of the hold entries in %v", name, a[20:])
					}
				}
				continue
			}
			a := call("e", 0, 0, 0, "d", 1, 1, 0)
			if len(a) != 21 || a[20] != c.want {
				t.Errorf("%s: after Resume %v, want the first one in %d", name, a, c.want)
			}
		}
	}
}
