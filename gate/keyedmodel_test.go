package gate_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// telling is a gate from elsewhere with Stats.
type telling struct{ gate.Gate }

func (g telling) Stats() gate.Stats {
	s, _ := gate.StatsOf(g.Gate)
	return s
}

// keyKind is a kind of gates of keys, and what the model has to know of them.
type keyKind struct {
	make  func(b *bubble.B, r *rapid.T) func() (_ gate.Gate, idle func() bool)
	kept  bool // a pass pins the key
	mute  bool // forgotten after Idle without a use, if what idle tells is so
	asked bool // that it is idle is found out within Idle
}

// shown is idle for a gate whose statistics say so.
func shown(g gate.Gate) (gate.Gate, func() bool) {
	return g, func() bool { s, _ := gate.StatsOf(g); return s.Idle }
}

// always is a rate for composites to share: it has no limit, so it is idle.
func always(b *bubble.B) gate.Gate {
	return gate.NewRate(pace.Unlimited(), &gate.RateOptions{Clock: b.Clock()})
}

var keyKinds = map[string]keyKind{
	"Rate": {make: func(b *bubble.B, r *rapid.T) func() (gate.Gate, func() bool) {
		rate := someRate(b, r)
		return func() (gate.Gate, func() bool) { return shown(rate()) }
	}},
	"Window": {make: func(b *bubble.B, r *rapid.T) func() (gate.Gate, func() bool) {
		window := someWindow(b, r)
		return func() (gate.Gate, func() bool) { return shown(window()) }
	}},
	"Concurrency": {kept: true, make: func(_ *bubble.B, r *rapid.T) func() (gate.Gate, func() bool) {
		n := rapid.IntRange(1, 5).Draw(r, "slots")
		return func() (gate.Gate, func() bool) { return shown(gate.NewConcurrency(n)) }
	}},
	"Adaptive": {kept: true, make: func(b *bubble.B, r *rapid.T) func() (gate.Gate, func() bool) {
		adaptive := someAdaptive(b, r)
		return func() (gate.Gate, func() bool) { return shown(adaptive()) }
	}},
	"All of rates": {make: func(b *bubble.B, r *rapid.T) func() (gate.Gate, func() bool) {
		rate, window, shared := someRate(b, r), someWindow(b, r), always(b)
		return func() (gate.Gate, func() bool) {
			return shown(gate.All(shared, rate(), gate.All(shared, window())))
		}
	}},
	"All": {kept: true, make: func(b *bubble.B, r *rapid.T) func() (gate.Gate, func() bool) {
		rate, adaptive, shared := someRate(b, r), someAdaptive(b, r), always(b)
		return func() (gate.Gate, func() bool) {
			return shown(gate.All(adaptive(), gate.NewConcurrency(3), shared, rate()))
		}
	}},
	"mute": {kept: true, mute: true, make: func(_ *bubble.B, r *rapid.T) func() (gate.Gate, func() bool) {
		n := rapid.IntRange(1, 5).Draw(r, "slots")
		return func() (gate.Gate, func() bool) {
			return mute{gate.NewConcurrency(n)}, func() bool { return true }
		}
	}},
	"All with a mute one": {kept: true, mute: true, make: func(b *bubble.B, r *rapid.T) func() (gate.Gate, func() bool) {
		rate := someRate(b, r)
		return func() (gate.Gate, func() bool) {
			own := rate()
			return gate.All(mute{gate.NewConcurrency(2)}, own), func() bool { return own.Stats().Idle }
		}
	}},
	"telling": {asked: true, make: func(b *bubble.B, r *rapid.T) func() (gate.Gate, func() bool) {
		rate := someRate(b, r)
		return func() (gate.Gate, func() bool) { return shown(telling{rate()}) }
	}},
	"All with a telling one": {asked: true, make: func(b *bubble.B, r *rapid.T) func() (gate.Gate, func() bool) {
		rate, window := someRate(b, r), someWindow(b, r)
		return func() (gate.Gate, func() bool) { return shown(gate.All(telling{rate()}, window())) }
	}},
}

// someSpan is from a nanosecond to days, all orders of magnitude alike.
func someSpan(r *rapid.T, label string) time.Duration {
	return time.Duration(rapid.Int64Range(1, int64(1)<<rapid.IntRange(1, 48).Draw(r, label+" bits")).Draw(r, label))
}

func someRate(b *bubble.B, r *rapid.T) func() *gate.Rate {
	rate := pace.Per(rapid.IntRange(1, 1000).Draw(r, "events"), someSpan(r, "rate span"))
	o := &gate.RateOptions{Burst: rapid.IntRange(1, 10).Draw(r, "burst"), Clock: b.Clock()}
	return func() *gate.Rate { return gate.NewRate(rate, o) }
}

func someWindow(b *bubble.B, r *rapid.T) func() *gate.Window {
	n, span := rapid.IntRange(1, 10).Draw(r, "window"), someSpan(r, "window span")
	return func() *gate.Window { return gate.NewWindow(n, span, &gate.WindowOptions{Clock: b.Clock()}) }
}

func someAdaptive(b *bubble.B, r *rapid.T) func() *gate.Adaptive {
	interval := someSpan(r, "interval")
	o := &gate.AdaptiveOptions{
		Burst:   rapid.IntRange(1, 5).Draw(r, "saved"),
		Slowest: interval + someSpan(r, "slower"),
		GiveUp:  rapid.IntRange(0, 2).Draw(r, "give up"),
		Clock:   b.Clock(),
	}
	return func() *gate.Adaptive { return gate.NewAdaptive(pace.Every(interval), o) }
}

// keyModel is a Keyed beside twins of the gates that it remembers.
type keyModel struct {
	*bubble.B
	r    *rapid.T
	kind keyKind
	make func() (gate.Gate, func() bool)
	k    *gate.Keyed[int]
	max  int
	idle time.Duration
	keys map[int]*twin
	out  []*twinPass
}

type twin struct {
	gate  gate.Gate
	idle  func() bool
	out   int           // passes
	used  time.Duration // last
	since time.Duration // when it was first seen idle since it was used; -1: it was not
}

type twinPass struct {
	twin       *twin
	pass, copy gate.Pass
}

// forgettable reports whether the key may be forgotten, and whether it must be found.
func (m *keyModel) forgettable(t *twin) (may, must bool) {
	may = t.idle() && (!m.kind.kept || t.out == 0) && (!m.kind.mute || m.Now()-t.used >= m.idle)
	if may && t.since < 0 {
		t.since = m.Now()
	}
	return may, may && (!m.kind.asked || m.Now()-t.since >= m.idle)
}

// check looks for what has been forgotten, after time has passed or some key has got its place.
func (m *keyModel) check(evicted bool) {
	if n := m.k.Len(); n > m.max {
		m.Fatalf("%d keys, want at most %d", n, m.max)
	}
	for key, t := range m.keys {
		may, _ := m.forgettable(t)
		if gate.Remembers(m.k, key) {
			// When it became idle is not known, but only by when. That makes the bound no tighter.
			if may && !m.kind.asked && m.Now()-max(t.used, t.since) > 2*m.idle {
				m.Fatalf("key %d is still remembered: used at %v, idle by %v, now %v", key, t.used, t.since, m.Now())
			}
			continue
		}
		switch {
		case !may:
			m.Fatalf("key %d forgotten: %d passes out, used at %v, now %v", key, t.out, t.used, m.Now())
		case !evicted && m.Now()-t.used < m.idle:
			m.Fatalf("key %d forgotten after %v, want at least %v", key, m.Now()-t.used, m.idle)
		}
		delete(m.keys, key)
	}
}

// enter enters the Keyed and the twin.
func (m *keyModel) enter(key, cost int) {
	t := m.keys[key]
	known := t != nil
	may := known || len(m.keys) < m.max
	must := may
	if !known {
		for _, other := range m.keys {
			one, sure := m.forgettable(other)
			may, must = may || one, must || sure
		}
		t = &twin{}
		t.gate, t.idle = m.make()
	}
	noRoom := m.k.Stats().NoRoom
	q, want := t.gate.TryEnter(cost)
	var p gate.Pass
	var ok bool
	var full *gate.KeysError
	if want && rapid.Bool().Draw(m.r, "waits") { // not that it has to
		var err error
		p, err = m.k.Enter(context.Background(), key, cost)
		if ok = err == nil; errors.As(err, &full) != (m.k.Stats().NoRoom != noRoom) {
			m.Fatalf("%v, but %d had no room before and %d have none after it", err, noRoom, m.k.Stats().NoRoom)
		}
	} else {
		p, ok = m.k.TryEnter(key, cost)
	}
	refused := m.k.Stats().NoRoom != noRoom
	if refused && must || !refused && !may {
		m.Fatalf("key %d has no room: %v, want %v; %d keys of %d", key, refused, !must, len(m.keys), m.max)
	}
	if !known {
		m.check(true)
	}
	if refused {
		return
	}
	if ok != want {
		m.Fatalf("key %d at cost %d: let in %v, want %v", key, cost, ok, want)
	}
	m.keys[key] = t
	t.used, t.since = m.Now(), -1
	if ok {
		t.out++
		m.out = append(m.out, &twinPass{t, p, q})
	}
}

// leave leaves one of the passes, settled or not.
func (m *keyModel) leave() {
	i := rapid.IntRange(0, len(m.out)-1).Draw(m.r, "pass")
	p := m.out[i]
	if rapid.Bool().Draw(m.r, "settles") {
		actual := rapid.IntRange(0, 4).Draw(m.r, "actual")
		p.pass.Settle(actual)
		p.copy.Settle(actual)
	}
	err := rapid.SampledFrom([]error{nil, errGone, gate.Throttled(0, nil), gate.Throttled(time.Minute, nil)}).Draw(m.r, "error")
	p.pass.Leave(err)
	p.copy.Leave(err)
	p.twin.out--
	p.twin.since = -1
	if m.kind.kept {
		p.twin.used = m.Now()
	}
	m.out = slices.Delete(m.out, i, i+1)
}

func (m *keyModel) step() {
	key := rapid.IntRange(1, 9)
	switch rapid.SampledFrom([]string{"enter", "enter", "enter", "leave", "leave", "wait", "wait", "hold", "resume"}).Draw(m.r, "step") {
	case "enter":
		m.enter(key.Draw(m.r, "key"), rapid.IntRange(1, 6).Draw(m.r, "cost"))
	case "leave":
		if len(m.out) > 0 {
			m.leave()
		}
	case "wait":
		m.Advance(min(someSpan(m.r, "wait"), 40*m.idle))
		m.check(false)
	case "hold":
		key := key.Draw(m.r, "held")
		t := m.keys[key]
		if t == nil || m.kind.mute {
			return
		}
		if h, ok := t.gate.(interface{ Hold(time.Duration) }); ok {
			d := someSpan(m.r, "hold")
			h.Hold(d)
			hold(m.k.For(key), d)
			t.used, t.since = m.Now(), -1
		}
	case "resume":
		key := key.Draw(m.r, "resumed")
		t := m.keys[key]
		if t == nil || m.kind.mute {
			return
		}
		if h, ok := t.gate.(interface{ Resume() }); ok {
			h.Resume()
			m.k.For(key).Resume()
			t.used, t.since = m.Now(), -1
		}
	}
}

// A Keyed of any gates forgets what can be forgotten, when its place is needed or after Idle, and nothing
// else; and what it remembers does what the gate by itself does.
func TestKeyedModel(t *testing.T) {
	for name, kind := range keyKinds {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(r *rapid.T) {
				bubble.Mock(t, func(b *bubble.B) {
					m := &keyModel{B: b, r: r, kind: kind, make: kind.make(b, r), keys: map[int]*twin{}}
					m.max = rapid.IntRange(1, 6).Draw(r, "MaxKeys")
					m.idle = someSpan(r, "Idle")
					m.k = gate.NewKeyed(func(int) gate.Gate { g, _ := m.make(); return g },
						&gate.KeyedOptions{MaxKeys: m.max, Idle: m.idle, Clock: b.Clock()})
					for range rapid.IntRange(1, 60).Draw(r, "steps") {
						m.step()
					}
					for len(m.out) > 0 {
						m.leave()
					}
				})
			})
		})
	}
}
