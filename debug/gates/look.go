package gates

import (
	"bytes"
	"math"
	"slices"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/internal/timing"
	"github.com/escapement-go/escapement/retry"
)

// gateItem is a gate on the page. The first four are fixed, claims are guarded by Page.mu, the others by Page.looking.
type gateItem struct {
	id     string
	name   string // when it was added
	g      gate.Gate
	can    []string
	claims []claim // why it is there, the first one first

	granted   uint64 // at the last tick, or when it was looked at first
	grantedAt int64  // when that was read
	perSecond float64
	began     bool     // the two above are known
	limit     float64  // at the last tick
	throttles uint64   // at the last tick
	history   []point  // a ring, once it is full; the oldest at head
	head      int      // of history
	state     gateJSON // as it was seen last
	last      []byte   // as it was encoded last
}

// claim says that a gate was added.
type claim struct {
	by     int    // the number of the thing that added it
	parent string // the id of the All that named it, or "" if it was added itself
}

// parent returns the id of the All below which the gate is shown, or "". Page.mu is locked.
func (i *gateItem) parent() string { return i.claims[0].parent }

// point is what a gate did between two ticks.
type point struct {
	value, limit float32
	throttled    bool
}

// add adds a point, in place of the oldest if there are most of them.
func (i *gateItem) add(p point, most int) {
	if len(i.history) < most {
		i.history = append(i.history, p)
		return
	}
	i.history[i.head] = p
	i.head = (i.head + 1) % most
}

// keyedItem is a Keyed on the page. What is below stats is guarded by Page.looking, but shown by Page.mu.
type keyedItem struct {
	by    int
	id    string
	name  func() string
	stats func() gate.Stats
	size  func() int
	top   func(now int64, n int) []shownKey

	next  int64 // when the keys are looked at again
	state keyedJSON
	shown []shownKey
}

// shownKey is a key that is shown.
type shownKey struct {
	id, key string
	g       gate.Gate
	state   keyJSON
}

type groupItem struct {
	by int
	id string
	g  *group.Group
}

type pipelineItem struct {
	by     int
	id     string
	name   string
	stages []*stageItem // guarded by Page.looking
}

type stageItem struct {
	meter     *group.Meter
	in        uint64 // at the last tick
	perSecond float64
	began     bool
	busy      float64 // the share of its workers that are, over the last looks
}

type policyItem struct {
	by   int
	id   string
	name string
	r    *retry.Policy
}

// tick looks at the gates, adds to their history, and sets the alarm again.
func (p *Page) tick() {
	p.looking.Lock()
	defer p.looking.Unlock()
	now := p.clk.Now()
	p.alarm.Rang()
	select {
	case <-p.done:
		return
	default:
	}
	if now >= p.next {
		p.lookLocked(now, true, false)
		p.publishLocked("tick")
		// A tick that comes late does not make the next one early by much: the pace between them would mean nothing.
		every := time.Duration(p.every)
		p.next = max(timing.Later(p.next, every), timing.Later(now, every-every/4))
	}
	p.alarm.Set(now, p.next)
}

// look looks at the gates between two ticks, for viewers to see what has changed.
func (p *Page) look() {
	p.looking.Lock()
	defer p.looking.Unlock()
	p.lookLocked(p.clk.Now(), false, false)
	p.publishLocked("look")
}

// things are the things on the page, as copies of the lists.
type things struct {
	version  uint64
	viewed   bool
	gates    []*gateItem
	parents  []string // of gates
	keyeds   []*keyedItem
	groups   []*groupItem
	pipes    []*pipelineItem
	policies []*policyItem
}

func (p *Page) things() things {
	p.mu.Lock()
	defer p.mu.Unlock()
	parents := make([]string, len(p.gates))
	for n, i := range p.gates {
		parents[n] = i.parent()
	}
	return things{p.version, len(p.viewers) > 0, slices.Clone(p.gates), parents, slices.Clone(p.keyeds), slices.Clone(p.groups),
		slices.Clone(p.pipes), slices.Clone(p.policies)}
}

// lookLocked takes the state of all things, and with keys that of keys. With tick, it adds to the history.
func (p *Page) lookLocked(now int64, tick, keys bool) {
	t := p.things()
	for n, i := range t.gates {
		p.lookAt(i, t.parents[n], tick)
	}
	span := time.Duration(now - p.lookedAt).Seconds()
	rest := restJSON{Groups: []groupJSON{}, Pipelines: []pipelineJSON{}, Policies: []policyJSON{}, Keyed: []keyedJSON{}}
	for _, i := range t.groups {
		rest.Groups = append(rest.Groups, groupOf(i))
	}
	for _, i := range t.pipes {
		rest.Pipelines = append(rest.Pipelines, i.look(span, tick))
	}
	for _, i := range t.policies {
		rest.Policies = append(rest.Policies, policyOf(i))
	}
	for _, i := range t.keyeds {
		if keys || t.viewed {
			p.lookAtKeys(i, now)
		}
		rest.Keyed = append(rest.Keyed, i.state)
	}
	p.rest = rest
	p.complete = nil
	if tick {
		p.lookedAt = now
	}
}

// lookAt takes the state of a gate. It reads the clock for each: with many gates a look is not an instant.
func (p *Page) lookAt(i *gateItem, parent string, tick bool) {
	plan, _ := gate.PlanOf(i.g)
	now := p.clk.Now()
	s, _ := gate.StatsOf(i.g)
	known := i.began
	if tick && known && now > i.grantedAt {
		i.perSecond = float64(since(i.granted, s.Granted)) / time.Duration(now-i.grantedAt).Seconds()
	}
	if tick || !known {
		i.granted, i.grantedAt, i.began = s.Granted, now, true
	}
	throttled := i.state.Throttled
	i.state = gateOf(i, plan, s, p.clk.Time(now))
	i.state.Parent = parent
	i.state.Throttles = p.throttlesOf(i.state.Name)
	if tick || !known {
		fell := i.state.Most > 0 && i.state.Limit < i.limit // of a limit that is learned
		throttled = known && (fell || i.state.Throttles > i.throttles)
		i.limit, i.throttles = i.state.Limit, i.state.Throttles
	}
	i.state.Throttled = throttled
	if tick && known { // of a gate that is looked at for the first time, the pace is not known
		i.add(point{float32(i.state.Value), float32(i.state.Limit), throttled}, p.points)
	}
}

// lookAtKeys takes the state of the busiest keys, unless that would take more than a twentieth of the time.
func (p *Page) lookAtKeys(i *keyedItem, now int64) {
	if now < i.next {
		return
	}
	began := real.Now()
	s := i.stats()
	shown := i.top(now, p.keys)
	at := p.clk.Time(now)
	i.state = keyedJSON{ID: i.id, Name: i.name(), Keys: i.size(), Granted: s.Granted, Refused: s.Refused, NoRoom: s.NoRoom, Waiting: s.Waiting,
		Top: []keyJSON{}}
	for n := range shown {
		k := &shown[n]
		stats, _ := gate.StatsOf(k.g)
		plan, _ := gate.PlanOf(k.g)
		k.state.ID, k.state.Key = k.id, k.key
		if plan.Kind != "" {
			k.state.Plan = plan.String()
		}
		k.state.fill(stats, at)
		i.state.Top = append(i.state.Top, k.state)
	}
	p.mu.Lock()
	i.shown = shown
	p.mu.Unlock()
	i.next = timing.Later(now, time.Duration(20*(real.Now()-began)))
}

// topOf returns a function that returns the busiest keys of k. A key keeps its id as long as it is shown.
func topOf[K comparable](prefix string, k *gate.Keyed[K]) func(now int64, n int) []shownKey {
	type seen struct {
		id      string
		granted uint64
	}
	var before map[K]seen
	var at int64
	number := 0
	return func(now int64, n int) (all []shownKey) {
		span := time.Duration(now - at).Seconds()
		shown := map[K]seen{}
		for key, g := range k.All() {
			if len(all) == n {
				break
			}
			s, _ := gate.StatsOf(g)
			was, known := before[key]
			if !known {
				number++
				was.id = prefix + "-" + itoa(number)
			}
			e := shownKey{id: was.id, key: text(key), g: g}
			if known && span > 0 {
				e.state.PerSecond = round(float64(since(was.granted, s.Granted)) / span)
			}
			shown[key] = seen{was.id, s.Granted}
			all = append(all, e)
		}
		before, at = shown, now
		return all
	}
}

// look takes the state of the stages, and finds the one that holds up the others. That one has the largest share of
// busy workers, over the last few looks. Those before it are blocked, and those behind it are idle.
func (i *pipelineItem) look(span float64, tick bool) pipelineJSON {
	state := pipelineJSON{ID: i.id, Name: i.name, Slowest: -1}
	most := 0.5 // below that, none holds up the others
	for n, s := range i.stages {
		m := s.meter.Stats()
		share := 0.0
		if busy := m.AtGate + m.InFlight; busy > 0 {
			share = float64(busy) / float64(busy+m.Idle+m.Blocked)
		}
		switch {
		case tick && s.began && span > 0:
			s.perSecond = float64(since(s.in, m.In)) / span
			s.busy += (share - s.busy) * 0.3
		case tick || !s.began:
			s.busy = share
		}
		if tick {
			s.in, s.began = m.In, true
		}
		if s.busy >= most {
			most, state.Slowest = s.busy, n
		}
		state.Stages = append(state.Stages, stageJSON{
			Name: s.meter.Name, In: m.In, Out: m.Out, Errors: m.Errors, PerSecond: round(s.perSecond),
			Idle: m.Idle, AtGate: m.AtGate, InFlight: m.InFlight, Blocked: m.Blocked,
		})
	}
	return state
}

// publishLocked gives viewers what has changed since the event before: as a "tick", or as a "look" between two.
func (p *Page) publishLocked(name string) {
	t := p.things()
	if t.version != p.shown {
		p.shown = t.version
		for _, i := range t.gates {
			i.last = i.state.encode(i.last[:0])
		}
		p.restLast = p.rest.encode(p.restLast[:0])
		p.publish(p.encodeAll(t))
		return
	}
	event := p.beginEvent(name)
	comma := false
	for _, i := range t.gates {
		from := len(event)
		if comma {
			event = append(event, ',')
		}
		at := len(event)
		event = i.state.encode(event)
		if bytes.Equal(event[at:], i.last) {
			event = event[:from]
			continue
		}
		i.last = append(i.last[:0], event[at:]...)
		comma = true
	}
	event = append(event, ']')
	if rest := p.rest.encode(nil); !bytes.Equal(rest, p.restLast) {
		event = append(append(event, ','), rest[1:]...) // without its brace
		p.restLast = rest
	} else {
		event = append(event, '}')
	}
	p.publish(append(event, "\n\n"...))
}

// everything returns an event with everything, and the event that will come next.
func (p *Page) everything() (event []byte, next *frame) {
	p.looking.Lock()
	defer p.looking.Unlock()
	p.fresh()
	if p.complete == nil {
		p.complete = p.encodeAll(p.things())
	}
	return p.complete, p.tail
}

// fresh looks once more if something was added, or if keys were not looked at for a while.
func (p *Page) fresh() {
	t := p.things()
	now := p.clk.Now()
	stale := t.version != p.shown
	for _, i := range t.keyeds {
		stale = stale || now >= timing.Later(i.next, time.Duration(p.every))
	}
	if stale {
		p.lookLocked(now, false, false) // a viewer looks, so it looks at keys
		p.publishLocked("look")
	}
}

// measure returns what is drawn of a gate: its value and its limit. It is the slots or tokens in use for gates that
// limit those, and the entries granted a second for others.
func measure(plan gate.Plan, s gate.Stats, perSecond float64) (kind string, value, limit, most float64) {
	switch {
	case plan.Kind == "window" || plan.Kind == "concurrency":
		return "in use", float64(s.InUse), float64(plan.N), 0
	case plan.Kind == "adaptiveconcurrency":
		return "in use", float64(s.InUse), float64(plan.Limit), float64(plan.N)
	case plan.Span > 0:
		most = float64(plan.N) / plan.Span.Seconds()
	}
	limit = most
	if plan.Interval > 0 {
		limit = 1 / plan.Interval.Seconds()
	} else {
		most = 0
	}
	return "granted", perSecond, limit, most
}

// since returns how much a count has grown. One that is less than before has begun anew, as that of a key does that was
// forgotten.
func since(before, now uint64) uint64 {
	if now < before {
		return now
	}
	return now - before
}

// round keeps two digits behind the point, and at least three in all.
func round(v float64) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0
	}
	e := math.Pow(10, max(2, 2-math.Floor(math.Log10(math.Abs(v)))))
	return math.Round(v*e) / e
}
