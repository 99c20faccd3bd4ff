package gate

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/escapement-go/escapement/internal/schedule"
	"github.com/escapement-go/escapement/pace"
)

// Plan is what a gate admits, as it is set at present. [PlanOf] returns it.
type Plan struct {
	// Kind is "rate", "window", "concurrency", "adaptive", "adaptiveconcurrency", "all" or "of". A gate from
	// elsewhere has a kind of its own, such as "redis".
	Kind string

	// N tokens per Span are the plan of a Rate, a Window or an Adaptive. Without a Span, N slots are that of a
	// Concurrency or an AdaptiveConcurrency. N is 0 if there is no limit, or if it is not known.
	N    int
	Span time.Duration

	// Burst is the number of tokens that idle time may save up. It is 0 for a gate without a bucket.
	Burst int

	// Interval is the present interval of an Adaptive, and Limit the present limit of an AdaptiveConcurrency: what
	// they have learned. They are 0 for other gates.
	Interval time.Duration
	Limit    int

	// GaveUp says that an Adaptive has given up: it refuses all entries, see [ErrGaveUp].
	GaveUp bool

	// Members are the names of the gates that an All has, in their order.
	Members []string
}

// String returns the plan in a few words. Examples are "100/s burst 1", "90000 in any 1m", "32 slots", "at most 32
// slots, now 8", and "all of requests, tokens".
func (p Plan) String() string {
	switch p.Kind {
	case "rate":
		return p.rate()
	case "adaptive":
		s := p.rate()
		if asked := pace.Per(p.N, p.Span).Interval(); p.Interval != asked {
			s += ", now every " + brief(p.Interval)
		}
		if p.GaveUp {
			s += ", given up"
		}
		return s
	case "adaptiveconcurrency":
		return fmt.Sprintf("at most %s, now %d", slotsText(p.N), p.Limit)
	case "all":
		if len(p.Members) == 0 {
			return "no limit"
		}
		members := make([]string, len(p.Members))
		for i, name := range p.Members {
			members[i] = inLine(name)
		}
		return "all of " + strings.Join(members, ", ")
	}
	switch {
	case p.N == 0:
		return p.Kind
	case p.Span == 0:
		return slotsText(p.N)
	}
	return fmt.Sprintf("%d in any %s", p.N, brief(p.Span))
}

// rate returns the plan of a bucket.
func (p Plan) rate() string {
	if p.Span == 0 {
		return pace.Unlimited().String()
	}
	return fmt.Sprintf("%v burst %d", pace.Per(p.N, p.Span), p.Burst)
}

func slotsText(n int) string {
	if n == 1 {
		return "1 slot"
	}
	return fmt.Sprintf("%d slots", n)
}

// brief returns a duration for people: to three digits, and without minutes and seconds that are 0.
func brief(d time.Duration) string {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	if d < time.Minute {
		d = d.Round(unit)
	} else {
		d = d.Round(time.Second)
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// PlanOf returns the plan of g at this instant, and false if g does not tell. Use it for a gate of unknown type.
// Every gate of this package tells its plan. A gate from elsewhere needs a method Plan() Plan.
//
// A view has the plan of the gate that it views. A [Key] has that of the key's gate. If the key is not remembered,
// PlanOf returns false.
func PlanOf(g Gate) (Plan, bool) {
	of, _ := unview(g)
	switch p := native(of).(type) {
	case interface{ planNow() Plan }:
		return p.planNow(), true
	case interface{ remembered() Gate }:
		if g := p.remembered(); g != nil {
			return PlanOf(g)
		}
		return Plan{}, false
	}
	if p, ok := of.(interface{ Plan() Plan }); ok {
		return p.Plan(), true
	}
	return Plan{}, false
}

// remembered returns the gate of the key, or nil.
func (v Key[K]) remembered() Gate {
	if e, ok := v.keyed().keys.Load(v.key); ok {
		return e.(*keyGate[K]).gate
	}
	return nil
}

func (g *Rate) planNow() Plan {
	r, burst := g.now()
	return Plan{Kind: g.kind().name, N: r.Count(), Span: r.Span(), Burst: burst}
}

func (g *Window) planNow() Plan {
	n, span := g.Limit()
	return Plan{Kind: g.kind().name, N: n, Span: span}
}

func (g *Concurrency) planNow() Plan { return Plan{Kind: g.kind().name, N: g.Limit()} }

func (g *Adaptive) planNow() Plan {
	r := g.Rate()
	p := Plan{Kind: g.kind().name, N: r.Count(), Span: r.Span(), Burst: g.l.state.Burst()}
	g.l.View(func(now int64) {
		g.l.fade(now)
		p.Interval, p.GaveUp = time.Duration(g.l.step.Interval()), g.l.step.GaveUp()
	})
	return p
}

func (g *AdaptiveConcurrency) planNow() Plan {
	return Plan{Kind: g.kind().name, N: g.Most(), Limit: g.Limit()}
}

func (g *of) planNow() Plan { return Plan{Kind: g.kind().name} }

func (a *Composite) planNow() Plan {
	p := Plan{Kind: a.kind().name}
	for _, g := range a.gates {
		p.Members = append(p.Members, NameOf(g))
	}
	return p
}

// now returns the present rate and burst.
func (g *Rate) now() (r pace.Rate, burst int) {
	r = g.plan.rate
	g.view(func(_ int64, state *schedule.Schedule, l *rateLimit, _ uint64) {
		if burst = state.Burst(); l != nil {
			r = l.asked
		}
	})
	return r, burst
}

// Rate returns the present rate.
func (g *Rate) Rate() pace.Rate {
	r, _ := g.now()
	return r
}

// Burst returns the present burst.
func (g *Rate) Burst() int {
	_, burst := g.now()
	return burst
}

// Limit returns the present number of tokens and the span that they are for, without the Guard.
func (g *Window) Limit() (n int, span time.Duration) {
	l := g.limit()
	l.View(func(int64) { n, span = l.most, l.asked })
	return n, span
}

// Limit returns the present number of slots, whether they are free or taken.
func (g *Concurrency) Limit() int { return int(g.limit().size.Load()) }

// Rate returns the rate that the gate was made with. [Adaptive.Interval] returns the present pace.
func (g *Adaptive) Rate() pace.Rate { return g.limit().asked }

// Most returns the number of slots that the gate was made with. [AdaptiveConcurrency.Limit] returns the present
// limit.
func (g *AdaptiveConcurrency) Most() int { return int(g.limit().most) }

// Members returns the gates that were named in [All], in their order, and views as views. The slice is the caller's.
func (a *Composite) Members() []Gate { return slices.Clone(a.gates) }

// String returns the gate in one line, for logs: its name, its plan, and what it does now. An example is
// "api: 100/s burst 1, 37 waiting, next in 8ms". A name with characters that can't be printed is quoted.
func (g *Rate) String() string { return line(g) }

// String returns the gate in one line, as [Rate.String] does.
func (g *Window) String() string { return line(g) }

// String returns the gate in one line, as [Rate.String] does.
func (g *Concurrency) String() string { return line(g) }

// String returns the gate in one line, as [Rate.String] does.
func (g *Adaptive) String() string { return line(g) }

// String returns the gate in one line, as [Rate.String] does.
func (g *AdaptiveConcurrency) String() string { return line(g) }

// String returns the gate in one line, as [Rate.String] does.
func (a *Composite) String() string { return line(a) }

// String returns the gate of the key in one line, as [Rate.String] does.
func (v Key[K]) String() string { return line(v) }

// String returns the gate behind the view in one line, and the costs of the view.
func (v *view) String() string {
	of, costs := unview(v)
	return fmt.Sprintf("%s, at a cost of %s", line(of), costsText(costs))
}

// String returns the limiter in one line.
func (g *of) String() string { return line(g) }

// costsText returns costs for people: "5", or "1, 1500".
func costsText(costs []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(costs), " ", ", "), "[]")
}

// String returns the Keyed in one line: its name, the number of its keys, and what they do now.
func (k *Keyed[K]) String() string {
	s := fmt.Sprintf("%s: %d keys", inLine(k.Name()), k.Len())
	if k.Len() == 1 {
		s = inLine(k.Name()) + ": 1 key"
	}
	return s + k.Stats().text()
}

// line returns a gate in one line.
func line(g Gate) string {
	s := inLine(NameOf(g))
	if p, ok := PlanOf(g); ok {
		s += ": " + p.String()
	} else {
		s += ": not known"
	}
	if now, ok := StatsOf(g); ok {
		s += now.text()
	}
	return s
}

// inLine returns a name for a line of text: quoted, if it has characters that can't be printed. A key may be text of a
// stranger, and must not forge lines of a log.
func inLine(name string) string {
	if utf8.ValidString(name) && strings.IndexFunc(name, func(r rune) bool { return !strconv.IsPrint(r) }) < 0 {
		return name
	}
	return strconv.Quote(name)
}

// text returns what a gate does now, for people.
func (s Stats) text() (text string) {
	if s.InUse > 0 {
		text += fmt.Sprintf(", %d in use", s.InUse)
	}
	if s.Waiting > 0 {
		text += fmt.Sprintf(", %d waiting", s.Waiting)
	}
	if s.HeldFor > 0 {
		text += ", held for " + forText(s.HeldFor)
	} else if s.NextDue > 0 {
		text += ", next in " + brief(s.NextDue)
	}
	return text
}

// forText returns how long a hold goes on.
func forText(d time.Duration) string {
	if d == math.MaxInt64 {
		return "ever"
	}
	return brief(d)
}

// All returns the keys that are remembered, each with its gate, the busiest first. These are the keys with the most
// waiting entries. Among equals, they are the ones with the most entries granted. Use it to show or to log the top keys.
//
// The keys are those of the instant at which the loop begins, in their order at that instant. No lock is held while
// the body runs. The gates are those of [Keyed.For]: they neither keep a key from being forgotten nor make it.
//
// To order the keys takes a look at each of them.
func (k *Keyed[K]) All() iter.Seq2[K, Gate] {
	return func(yield func(K, Gate) bool) {
		type busy struct {
			key     K
			waiting int
			granted uint64
		}
		var all []busy
		for _, e := range k.line() {
			s, _ := StatsOf(e.gate)
			all = append(all, busy{e.key, s.Waiting, s.Granted})
		}
		slices.SortStableFunc(all, func(a, b busy) int {
			return cmp.Or(cmp.Compare(b.waiting, a.waiting), cmp.Compare(b.granted, a.granted))
		})
		for _, b := range all {
			if !yield(b.key, k.For(b.key)) {
				return
			}
		}
	}
}

// line returns the gates of all keys, in no order.
func (k *Keyed[K]) line() []*keyGate[K] {
	k.room.mu.Lock()
	defer k.room.mu.Unlock()
	return slices.Clone(k.room.line)
}
