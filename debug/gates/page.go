package gates

import (
	"fmt"
	"math"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/internal/timing"
	"github.com/escapement-go/escapement/retry"
)

// Options are the settings of a [Page]. Nil, as well as the zero value, means the defaults.
type Options struct {
	// Title is the heading of the page, such as the name of the program. "" means "Gates".
	Title string

	// Every is the time between two looks at the gates. 0 means 1 second.
	Every time.Duration

	// Keep is for how long the page remembers what the gates did. 0 means 300 times Every, which is 5 minutes by
	// default. It takes 8 bytes a gate for each Every.
	Keep time.Duration

	// Keys is the number of keys of each Keyed that are shown, the busiest. 0 means 20.
	Keys int

	// Authorize reports whether the request may change gates: hold and resume them, and change their limits. Nil
	// means that no request may.
	//
	// The page itself refuses requests that another site makes a browser send. It does not know its own name,
	// though. So look for credentials, or at the Host as well: to trust an address alone is not enough.
	Authorize func(*http.Request) bool

	// Clock is the clock by which the page looks. Nil means the real clock.
	Clock clock.Clock
}

const mostPoints = 100_000 // of a gate: Keep divided by Every

// Page shows gates, and what belongs to them, by HTTP. It is an [http.Handler]: mount it under any prefix that ends in a
// slash. Make one with [New]; the zero Page does not work.
//
// What is added to a page is kept by it until it is removed. Things can be added and removed at any time. All
// methods are safe for use by any number of goroutines.
type Page struct {
	title     string
	every     int64 // nanoseconds
	points    int   // kept of each gate
	keys      int
	authorize func(*http.Request) bool
	protect   *http.CrossOriginProtection
	clk       *timing.Clock
	done      chan struct{} // closed by Close

	// looking is held for a look at the gates. It guards what they did, and what was published of it. It is locked
	// before mu.
	looking  sync.Mutex
	alarm    *timing.Alarm // calls tick
	next     int64         // when the next look is due
	lookedAt int64
	tail     *frame // the one that comes next
	complete []byte // the event with everything, as of the last look; nil: not encoded yet
	shown    uint64 // the version of the things in it
	rest     restJSON
	restLast []byte // as it was encoded last

	throttles sync.Map // by the name of a gate that is shown: *atomic.Uint64, what Observe has counted

	mu       sync.Mutex // guards what follows; no gate is called under it
	closed   bool
	number   int // of the last thing that was added
	version  uint64
	gates    []*gateItem
	keyeds   []*keyedItem
	groups   []*groupItem
	pipes    []*pipelineItem
	policies []*policyItem
	viewers  map[*viewer]struct{}
	streams  sync.WaitGroup // added to under mu, unless closed
}

// New returns a page without anything on it, which looks at its gates from now on until [Page.Close]. Nil options
// mean the defaults. It panics if Every, Keep or Keys is negative, or if Keep is more than 100,000 times Every.
func New(o *Options) *Page {
	if o == nil {
		o = &Options{}
	}
	switch {
	case o.Every < 0:
		panic(fmt.Sprintf("gates: New: Every must not be negative, got %v", o.Every))
	case o.Keep < 0:
		panic(fmt.Sprintf("gates: New: Keep must not be negative, got %v", o.Keep))
	case o.Keys < 0:
		panic(fmt.Sprintf("gates: New: Keys must not be negative, got %d", o.Keys))
	}
	every, keep := o.Every, o.Keep
	if every == 0 {
		every = time.Second
	}
	if keep == 0 {
		keep = 300 * min(every, math.MaxInt64/300)
	}
	if keep/every > mostPoints {
		panic(fmt.Sprintf("gates: New: Keep must be at most %d times Every, got %v and %v", mostPoints, keep, every))
	}
	p := &Page{
		title:     o.Title,
		every:     int64(every),
		points:    max(int(keep/every), 2),
		keys:      o.Keys,
		authorize: o.Authorize,
		protect:   http.NewCrossOriginProtection(),
		clk:       timing.New(o.Clock),
		done:      make(chan struct{}),
		tail:      newFrame(1),
		viewers:   map[*viewer]struct{}{},
	}
	if p.title == "" {
		p.title = "Gates"
	}
	if p.keys == 0 {
		p.keys = 20
	}
	p.alarm = timing.NewAlarm(p.clk, p.tick)
	p.lookedAt = p.clk.Now()
	p.next = timing.Later(p.lookedAt, every)
	p.alarm.Set(p.lookedAt, p.next)
	return p
}

// Close ends the page: it looks at no gate any more, and all streams of viewers end. It returns when they have ended,
// which takes a second if the network of a viewer is stuck. After it, requests are answered with 503 Service
// Unavailable. A second Close does nothing.
func (p *Page) Close() {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		close(p.done)
		for v := range p.viewers {
			v.cut()
		}
	}
	p.mu.Unlock()
	p.looking.Lock()
	p.alarm.Stop()
	p.looking.Unlock()
	p.streams.Wait()
}

// Gate shows gates, by their names: see [gate.Named]. The members of an All are shown below it. The function that
// it returns takes them from the page. It panics if a gate is nil.
//
// A gate that is shown already is not shown twice, also if it was named by a view. It stays on the page until everything
// that has added it is removed, such as each All that has it as a member.
func (p *Page) Gate(gates ...gate.Gate) (remove func()) {
	for i, g := range gates {
		if isNil(g) {
			panic(fmt.Sprintf("gates: Page.Gate: a gate must not be nil, got nil for gate %d", i+1))
		}
	}
	// Names and members are asked for without the lock: gates from elsewhere may do anything.
	var found []found
	for _, g := range gates {
		found = family(found, g, -1)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	by := p.add()
	ids := make([]string, len(found))
	for n, f := range found {
		item := p.shownAs(f.item.g)
		if item == nil {
			item = f.item
			p.number++
			item.id = fmt.Sprintf("g%d", p.number)
			p.gates = append(p.gates, item)
			p.throttlesOf(item.name)
		}
		ids[n] = item.id
		c := claim{by: by}
		if f.parent >= 0 {
			c.parent = ids[f.parent]
		}
		if !slices.Contains(item.claims, c) {
			item.claims = append(item.claims, c)
		}
	}
	return func() { p.remove(func() { p.removeGates(by) }) }
}

// found is a gate that is to be added.
type found struct {
	item   *gateItem
	parent int // the number of the All that has named it, or -1
}

// family adds g to all, and its members if it is an All. parent is the number of its own All in all, or -1.
func family(all []found, g gate.Gate, parent int) []found {
	if v, ok := g.(interface{ Viewed() gate.Gate }); ok {
		g = v.Viewed()
	}
	at := len(all)
	all = append(all, found{&gateItem{g: g, name: gate.NameOf(g), can: abilities(g)}, parent})
	if c, ok := g.(interface{ Members() []gate.Gate }); ok {
		for _, m := range c.Members() {
			all = family(all, m, at)
		}
	}
	return all
}

// shownAs returns the item of the gate, or nil.
func (p *Page) shownAs(g gate.Gate) *gateItem {
	for _, i := range p.gates {
		if same(i.g, g) {
			return i
		}
	}
	return nil
}

// removeGates takes away the gates that only the thing with the number by has added. A gate that is from now on shown
// below another All moves there.
func (p *Page) removeGates(by int) {
	var moved []*gateItem
	p.gates = slices.DeleteFunc(p.gates, func(i *gateItem) bool {
		first := i.claims[0]
		i.claims = slices.DeleteFunc(i.claims, func(c claim) bool { return c.by == by })
		if len(i.claims) > 0 && i.claims[0] != first && i.parent() != "" {
			moved = append(moved, i)
			return true
		}
		return len(i.claims) == 0
	})
	for len(moved) > 0 {
		i := moved[0]
		moved = moved[1:]
		at := slices.IndexFunc(p.gates, func(o *gateItem) bool { return o.id == i.parent() })
		if at < 0 { // it has moved, too
			moved = append(moved, i)
			continue
		}
		for at++; at < len(p.gates) && p.below(p.gates[at], i.parent()); at++ {
		}
		p.gates = slices.Insert(p.gates, at, i)
	}
}

// below reports whether i is shown below the All with that id, at any depth.
func (p *Page) below(i *gateItem, id string) bool {
	for i.parent() != "" {
		if i.parent() == id {
			return true
		}
		at := slices.IndexFunc(p.gates, func(o *gateItem) bool { return o.id == i.parent() })
		if at < 0 {
			return false
		}
		i = p.gates[at]
	}
	return false
}

// Group shows the jobs of a group, by its name: see [group.Group.SetName]. The function that it returns takes it from
// the page. It panics if g is nil.
func (p *Page) Group(g *group.Group) (remove func()) {
	if g == nil {
		panic("gates: Page.Group: g must not be nil, got nil")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	by := p.add()
	p.groups = append(p.groups, &groupItem{by: by, id: fmt.Sprintf("j%d", by), g: g})
	return func() {
		p.remove(func() { p.groups = slices.DeleteFunc(p.groups, func(i *groupItem) bool { return i.by == by }) })
	}
}

// Pipeline shows the stages of a pipeline by their meters, in the order in which items pass them. A stage has the
// name of its meter. The page marks the stage that holds up the others. The function that it returns takes the
// pipeline from the page. It panics if there is no meter, or a nil one.
func (p *Page) Pipeline(name string, stages ...*group.Meter) (remove func()) {
	if len(stages) == 0 {
		panic("gates: Page.Pipeline: there must be a stage at least, got none")
	}
	for i, m := range stages {
		if m == nil {
			panic(fmt.Sprintf("gates: Page.Pipeline: a meter must not be nil, got nil for stage %d", i+1))
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	by := p.add()
	item := &pipelineItem{by: by, id: fmt.Sprintf("l%d", by), name: name}
	for _, m := range stages {
		item.stages = append(item.stages, &stageItem{meter: m})
	}
	p.pipes = append(p.pipes, item)
	return func() {
		p.remove(func() { p.pipes = slices.DeleteFunc(p.pipes, func(i *pipelineItem) bool { return i.by == by }) })
	}
}

// Policy shows what the calls of a retry policy do, under a name. Counts need a [retry.Counter] in the policy, and
// an empty name means that of the counter. The function that it returns takes it from the page. It panics if r is
// nil.
func (p *Page) Policy(name string, r *retry.Policy) (remove func()) {
	if r == nil {
		panic("gates: Page.Policy: r must not be nil, got nil")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	by := p.add()
	p.policies = append(p.policies, &policyItem{by: by, id: fmt.Sprintf("p%d", by), name: name, r: r})
	return func() {
		p.remove(func() { p.policies = slices.DeleteFunc(p.policies, func(i *policyItem) bool { return i.by == by }) })
	}
}

// Keyed shows the busiest keys of k, by its name, on page p: see [Options.Keys]. The function that it returns takes it
// from the page. It panics if p or k is nil.
//
// To find the busiest keys takes a look at each of them. With very many keys the page does that less often, so that it
// takes a twentieth of one processor at most.
func Keyed[K comparable](p *Page, k *gate.Keyed[K]) (remove func()) {
	if p == nil {
		panic("gates: Keyed: p must not be nil, got nil")
	}
	if k == nil {
		panic("gates: Keyed: k must not be nil, got nil")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	by := p.add()
	id := fmt.Sprintf("k%d", by)
	p.keyeds = append(p.keyeds, &keyedItem{by: by, id: id, name: k.Name, stats: k.Stats, size: k.Len, top: topOf(id, k)})
	return func() {
		p.remove(func() { p.keyeds = slices.DeleteFunc(p.keyeds, func(i *keyedItem) bool { return i.by == by }) })
	}
}

// add returns the number of a thing that is being added.
func (p *Page) add() int {
	p.number++
	p.version++
	return p.number
}

// remove takes a thing away by the function f.
func (p *Page) remove(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	p.version++
	shown := map[any]bool{}
	for _, i := range p.gates {
		shown[i.name] = true
	}
	p.throttles.Range(func(name, _ any) bool {
		if !shown[name] {
			p.throttles.Delete(name)
		}
		return true
	})
}

// Observe counts the throttles of gates that are shown, by their names, and ignores all other events. So a page is a
// [gate.Observer]:
//
//	gate.Observe(search, page)
//
// Without it, the page marks when the limit of an Adaptive or an AdaptiveConcurrency fell, but it does not know how
// often they were throttled. If the gate has another observer, use [gate.MultiObserver].
func (p *Page) Observe(e gate.Event) {
	if e.Kind != gate.EventThrottled {
		return
	}
	if n, ok := p.throttles.Load(e.Name); ok {
		n.(*atomic.Uint64).Add(1)
	}
}

// throttlesOf returns what Observe has counted of a gate that is shown. It counts from the first call on.
func (p *Page) throttlesOf(name string) uint64 {
	n, ok := p.throttles.Load(name)
	if !ok {
		n, _ = p.throttles.LoadOrStore(name, new(atomic.Uint64))
	}
	return n.(*atomic.Uint64).Load()
}

// isNil reports whether g is nil, or holds a nil pointer.
func isNil(g gate.Gate) bool {
	if g == nil {
		return true
	}
	v := reflect.ValueOf(g)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// same reports whether a and b are one gate.
func same(a, b gate.Gate) bool {
	return reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.ValueOf(a).Comparable() && a == b
}
