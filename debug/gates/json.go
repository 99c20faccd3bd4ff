package gates

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/escapement-go/escapement/gate"
)

// entries are the counts of a gate. Durations are in seconds. What is 0 is left out.
type entries struct {
	Granted   uint64     `json:"granted,omitempty"`
	Refused   uint64     `json:"refused,omitempty"`
	Abandoned uint64     `json:"abandoned,omitempty"`
	Forfeited uint64     `json:"forfeited,omitempty"`
	PerSecond float64    `json:"perSecond,omitempty"` // granted, between the last two ticks
	Waiting   int        `json:"waiting,omitempty"`
	Since     *time.Time `json:"since,omitempty"`  // when the entry came that has waited for longest
	Waited    float64    `json:"waited,omitempty"` // the sum
	InUse     int        `json:"inUse,omitempty"`
	Left      *int       `json:"left,omitempty"`      // left out if there is no limit
	Held      bool       `json:"held,omitempty"`      // there is a hold
	HeldUntil *time.Time `json:"heldUntil,omitempty"` // left out if the hold never ends
}

// fill sets the entries, but not the pace, which needs two looks.
func (e *entries) fill(s gate.Stats, at time.Time) {
	e.Granted, e.Refused, e.Abandoned, e.Forfeited = s.Granted, s.Refused, s.Abandoned, s.Forfeited
	e.Waiting, e.InUse = s.Waiting, s.InUse
	e.Waited = seconds(s.Waited)
	if s.Waiting > 0 && s.Longest > 0 {
		e.Since = instant(at.Add(-s.Longest))
	}
	if s.Left < math.MaxInt {
		e.Left = &s.Left
	}
	if s.HeldFor > 0 {
		e.Held = true
		if s.HeldFor < math.MaxInt64 {
			e.HeldUntil = instant(at.Add(s.HeldFor))
		}
	}
}

// gateJSON is a gate.
type gateJSON struct {
	ID     string   `json:"id"`
	Name   string   `json:"name"`
	Kind   string   `json:"kind"`
	Plan   string   `json:"plan,omitempty"`
	Parent string   `json:"parent,omitempty"` // the id of the All that has it as a member
	Can    []string `json:"can,omitempty"`    // what can be done to it

	// What is drawn: the kind of the measure, its value, its limit, and what the limit may come to if it is learned.
	Measure string  `json:"measure"`
	Value   float64 `json:"value"`
	Limit   float64 `json:"limit,omitempty"`
	Most    float64 `json:"most,omitempty"`

	// Whether the gate was throttled, or its limit fell, between the last two ticks. How often it was throttled is known only
	// if the page observes it.
	Throttled bool   `json:"throttled,omitempty"`
	Throttles uint64 `json:"throttles,omitempty"`

	entries
}

// encode appends the gate as JSON.
func (g *gateJSON) encode(to []byte) []byte { return encode(to, g) }

func gateOf(i *gateItem, plan gate.Plan, s gate.Stats, at time.Time) gateJSON {
	g := gateJSON{ID: i.id, Name: gate.NameOf(i.g), Kind: plan.Kind, Can: i.can}
	if plan.Kind != "" {
		g.Plan = plan.String()
	}
	g.fill(s, at)
	g.PerSecond = round(i.perSecond)
	g.Measure, g.Value, g.Limit, g.Most = measure(plan, s, i.perSecond)
	g.Value, g.Limit, g.Most = round(g.Value), round(g.Limit), round(g.Most)
	return g
}

type keyedJSON struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Keys    int       `json:"keys"`
	Granted uint64    `json:"granted"`
	Refused uint64    `json:"refused,omitempty"`
	NoRoom  uint64    `json:"noRoom,omitempty"`
	Waiting int       `json:"waiting,omitempty"`
	Top     []keyJSON `json:"top"`
}

type keyJSON struct {
	ID   string `json:"id"`
	Key  string `json:"key"`
	Plan string `json:"plan,omitempty"`
	entries
}

type groupJSON struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Limit   int    `json:"limit"` // negative: none
	Started uint64 `json:"started"`
	Done    uint64 `json:"done"`
	Failed  uint64 `json:"failed"`
	Skipped uint64 `json:"skipped"`
	Queued  int    `json:"queued"`
	AtGate  int    `json:"atGate"`
	Running int    `json:"running"`
}

func groupOf(i *groupItem) groupJSON {
	s := i.g.Stats()
	return groupJSON{i.id, s.Name, s.Limit, s.Started, s.Done, s.Failed, s.Skipped, s.Queued, s.AtGate, s.Running}
}

type pipelineJSON struct {
	ID      string      `json:"id"`
	Name    string      `json:"name"`
	Slowest int         `json:"slowest"` // the number of the stage that holds up the others, from 0; -1: none does
	Stages  []stageJSON `json:"stages"`
}

type stageJSON struct {
	Name      string  `json:"name"`
	In        uint64  `json:"in"`
	Out       uint64  `json:"out"`
	Errors    uint64  `json:"errors"`
	PerSecond float64 `json:"perSecond"` // in
	Idle      int     `json:"idle"`
	AtGate    int     `json:"atGate"`
	InFlight  int     `json:"inFlight"`
	Blocked   int     `json:"blocked"`
}

type policyJSON struct {
	ID        string  `json:"id"`
	Name      string  `json:"name"`
	Calls     uint64  `json:"calls"`
	Succeeded uint64  `json:"succeeded"`
	Failed    uint64  `json:"failed"`
	Attempts  uint64  `json:"attempts"`
	Retries   uint64  `json:"retries"`
	Errors    uint64  `json:"errors"`
	Throttles uint64  `json:"throttles"`
	Lost      uint64  `json:"lost"`
	Slept     float64 `json:"slept"` // seconds
	AtGate    int     `json:"atGate"`
	Asleep    int     `json:"asleep"`
	Budget    *int    `json:"budget,omitempty"` // left out if there is none
	NoBudget  uint64  `json:"noBudget"`
}

func policyOf(i *policyItem) policyJSON {
	s := i.r.Stats()
	p := policyJSON{i.id, i.name, s.Calls, s.Succeeded, s.Failed, s.Attempts, s.Retries, s.Errors, s.Throttles, s.Lost,
		seconds(s.Slept), s.AtGate, s.Asleep, nil, s.NoBudget}
	if p.Name == "" {
		p.Name = s.Name
	}
	if s.Budget >= 0 {
		p.Budget = &s.Budget
	}
	return p
}

// restJSON is everything but the gates.
type restJSON struct {
	Keyed     []keyedJSON    `json:"keyed"`
	Groups    []groupJSON    `json:"groups"`
	Pipelines []pipelineJSON `json:"pipelines"`
	Policies  []policyJSON   `json:"policies"`
}

// encode appends all of it as one JSON object.
func (r *restJSON) encode(to []byte) []byte { return encode(to, r) }

// serveJSON answers with everything, as it is now, but without the history.
func (p *Page) serveJSON(w http.ResponseWriter) {
	p.looking.Lock()
	now := p.clk.Now()
	p.lookLocked(now, false, true)
	b := append([]byte{'{'}, p.headJSON(now)...)
	t := p.things()
	for n, i := range t.gates {
		if n > 0 {
			b = append(b, ',')
		}
		b = i.state.encode(b)
	}
	b = append(b, "],"...)
	b = append(b, p.rest.encode(nil)[1:]...)
	p.looking.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(b, '\n'))
}

// headJSON returns the members that all JSON begins with, up to the first gate.
func (p *Page) headJSON(now int64) []byte {
	b := append([]byte(`"at":`), encode(nil, instant(p.clk.Time(now)))...)
	b = append(b, `,"every":`...)
	b = appendNumber(b, time.Duration(p.every).Seconds())
	return append(b, `,"gates":[`...)
}

// beginEvent returns the beginning of an event, up to the first gate.
func (p *Page) beginEvent(name string) []byte {
	return append([]byte("event: "+name+"\ndata: {"), p.headJSON(p.clk.Now())...)
}

// encodeAll returns an event with everything and the history.
func (p *Page) encodeAll(t things) []byte {
	b := append([]byte("retry: 2000\n"), p.beginEvent("state")...)
	for n, i := range t.gates {
		if n > 0 {
			b = append(b, ',')
		}
		b = i.state.encode(b)
	}
	b = append(b, `],"points":`...)
	b = strconv.AppendInt(b, int64(p.points), 10)
	b = append(b, `,"history":{`...)
	for n, i := range t.gates {
		if n > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendQuote(b, i.id)
		b = append(b, ':')
		b = i.encodeHistory(b)
	}
	b = append(b, "},"...)
	b = append(b, p.rest.encode(nil)[1:]...)
	return append(b, "\n\n"...)
}

// encodeHistory appends the number of points, their values unless all are 0, the points at which the limit has
// changed, and those before which there were throttles: {"n":3,"v":[0,98,100],"limit":[[0,100]],"throttled":[1]}.
func (i *gateItem) encodeHistory(b []byte) []byte {
	points := slices.Concat(i.history[i.head:], i.history[:i.head])
	b = strconv.AppendInt(append(b, `{"n":`...), int64(len(points)), 10)
	if slices.ContainsFunc(points, func(p point) bool { return p.value != 0 }) {
		b = append(b, `,"v":[`...)
		for n, p := range points {
			if n > 0 {
				b = append(b, ',')
			}
			b = appendNumber(b, shorten(p.value))
		}
		b = append(b, ']')
	}
	b = append(b, `,"limit":[`...)
	for n, p := range points {
		switch {
		case n > 0 && p.limit == points[n-1].limit:
			continue
		case n > 0:
			b = append(b, ',')
		}
		b = strconv.AppendInt(append(b, '['), int64(n), 10)
		b = append(appendNumber(append(b, ','), shorten(p.limit)), ']')
	}
	b = append(b, ']')
	sep := `,"throttled":[`
	for n, p := range points {
		if p.throttled {
			b = strconv.AppendInt(append(b, sep...), int64(n), 10)
			sep = ","
		}
	}
	if sep == "," {
		b = append(b, ']')
	}
	return append(b, '}')
}

// shorten keeps as many digits as a picture shows.
func shorten(v float32) float64 {
	switch f := float64(v); {
	case f >= 100:
		return math.Round(f)
	case f >= 1:
		return math.Round(f*10) / 10
	default:
		return round(f)
	}
}

// encode appends v as JSON. Every value here can be encoded.
func encode(to []byte, v any) []byte {
	b, _ := json.Marshal(v)
	return append(to, b...)
}

func appendNumber(b []byte, v float64) []byte { return strconv.AppendFloat(b, v, 'f', -1, 64) }

// instant returns t to the millisecond.
func instant(t time.Time) *time.Time {
	t = t.Round(time.Millisecond).UTC()
	return &t
}

// seconds returns d in seconds, to the millisecond.
func seconds(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }

// longestKey is how much of a key is shown, in bytes.
const longestKey = 200

// text returns a key as a text.
func text(key any) string {
	s := fmt.Sprint(key)
	if len(s) > longestKey {
		s = strings.ToValidUTF8(s[:longestKey], "") + "…"
	}
	return s
}

func itoa(n int) string { return strconv.Itoa(n) }
