package gate

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/escapement-go/escapement/internal/queue"
)

// Explanation says what keeps back the entries of a gate. [Explain] returns it.
type Explanation struct {
	Gate  string // the name of the gate
	Plan  Plan
	Stats Stats

	// Heads are the first entries of all lines, in order of arrival. A gate has one line. An All has one for each
	// combination of members that its entries want. A gate that is a member, too, also shows the lines of those Alls that
	// it keeps back. The entries behind a head wait for that head.
	Heads []Blocked

	// Elsewhere is the number of entries of an All that are at its gates from elsewhere, which tell no more.
	Elsewhere int

	// Entry is an entry of the given costs that would come now. It is nil if no costs were given, and for
	// a gate that tells no more than its name. That is one from elsewhere, or that of a key that is not remembered.
	Entry *Blocked

	// Open are the passes that were not left, the oldest first and at most ten. It is empty unless the gate keeps
	// them, see [Track].
	Open []OpenPass
}

// Blocked is an entry, and what keeps it back.
type Blocked struct {
	Cost   int           // the highest of its costs
	Waited time.Duration // how long it has been in line
	Ahead  int           // entries before it in its line
	Behind int           // entries behind it in its line

	// By is what keeps it back, the gate that it waits for first. Then come the others that would not admit it now. It
	// is empty if the entry would be admitted now, and if only the entries before it keep it back.
	By []Obstacle

	// Due is the time until it is admitted as things stand. Behind other entries of an [All], it is the least, and so
	// it is if an Obstacle has entries Ahead. It is negative if it is not known, because it depends on when other entries leave.
	Due time.Duration

	// Err is why it would be refused however long it waits: a *[CapacityError] or [ErrGaveUp].
	Err error
}

// Obstacle is a gate that keeps an entry back.
type Obstacle struct {
	Gate string // its name
	Plan Plan
	Cost int // of the entry, there
	Left int // the highest cost that it would admit now, see [Stats]

	// Due is the time until it admits the entry as things stand, if the other gates do. Entries of other lines that are
	// before it are left out, see Ahead. It is negative if that is not known, because it depends on when other entries
	// leave.
	Due time.Duration

	HeldFor time.Duration // the time until its hold ends, or 0
	Ahead   int           // entries that came earlier and wait for it, also in other lines

	// Open are the passes of its own entries that were not left, as in [Explanation].
	Open []OpenPass
}

// OpenPass is a pass that was not left yet.
type OpenPass struct {
	Cost  int           // with which it has entered
	Since time.Time     // when it was admitted, on the gate's clock
	Age   time.Duration // the time from then until now
	Where string        // with [TrackStack]: the stack of its caller, one frame a line
}

// Explain says what keeps back the entries that wait for g. For the head of each line it names the gate, with what is
// left there and how long that takes as things stand. Then it names the gates that come next. With costs, it says the
// same of an entry that would come now. Give one cost, or one for each gate that was named in an [All].
//
// It is for people and for pages, and can be called at any time. It changes nothing, and makes no key. The entries
// of a [Rate] or another single gate are those that it keeps back, also those that came through an All. Nothing
// foresees what later entries and settlements do. Of an All, a key that is not remembered is left out.
//
// Explain panics if g is nil, and on costs that [WithCost] panics on. Of a gate from elsewhere it returns the name,
// the plan and the Stats, as far as it tells them.
func Explain(g Gate, costs ...int) Explanation {
	if isNil(g) {
		panic(fmt.Sprintf("gate: Explain: g must not be nil, got %s", typedNil(g)))
	}
	if len(costs) > 0 {
		WithCost(g, costs...) // for its panics
	}
	of, view := unview(g)
	if len(costs) > 0 && len(view) > 0 {
		costs = view
	}
	e := Explanation{Gate: NameOf(of)}
	e.Plan, _ = PlanOf(of)
	e.Stats, _ = StatsOf(of)
	e.explain(of, costs, map[uint64]string{})
	return e
}

// explain sets all but the name, the plan and the statistics. keys has the names of gates that are those of keys, by
// their number.
func (e *Explanation) explain(g Gate, costs []int, keys map[uint64]string) {
	var heads []queue.Head
	switch of := native(g).(type) {
	case keyed:
		of.nameIn(keys)
		if in := of.remembered(); in != nil {
			in, view := unview(in)
			if len(costs) > 0 && len(view) > 0 {
				costs = view
			}
			e.explain(in, costs, keys)
		}
		return
	case *Composite:
		for i := range of.keys {
			of.keys[i].to.nameIn(keys)
		}
		heads = of.waits.Explain(see)
		e.Elsewhere = of.elsewhere()
		if len(costs) > 0 {
			e.Entry = of.newcomer(costs, keys)
		}
	case limited:
		l := of.member()
		heads = l.queued().Explain(see)
		if len(costs) > 0 {
			h, due := l.lane().Newcomer([]queue.Claim{{Cost: costs[0]}}, see)
			if h.Ahead > 0 && l.kind().answers {
				due = queue.Never
			}
			b := blocked(h, keys)
			if h.Err != nil {
				_, b.Err = new(counts).failed(h.Err, func(int) (string, string) { return l.kind().capacity, "" })
			}
			b.until(due)
			e.Entry = &b
		}
	}
	for _, h := range heads {
		b := blocked(h, keys)
		b.until(0)
		e.Heads = append(e.Heads, b)
	}
	if n, ok := native(g).(noted); ok {
		e.Open = n.noted().oldest(g)
	}
}

// keyed is a Key.
type keyed interface {
	remembered() Gate
	nameIn(keys map[uint64]string)
}

// nameIn adds the name of the key for its gate, if that is no composite: the members of a composite have names of their
// own.
func (v Key[K]) nameIn(keys map[uint64]string) {
	of, _ := unview(v.remembered())
	switch of := of.(type) {
	case limited:
		keys[of.part().born()] = v.Name()
	case keyed:
		of.nameIn(keys)
	}
}

func (a *Composite) nameIn(map[uint64]string) {}

// elsewhere returns how many entries are at gates from elsewhere.
func (a *Composite) elsewhere() int {
	if len(a.keys) > 0 {
		j := a.joined.Load()
		if j == nil {
			return 0
		}
		a = j.all
	}
	return int(a.at.Load())
}

// explained is a limit, as an explanation needs it.
type explained interface {
	gate() Gate
	born() uint64
	kind() kind
	present(now int64) (left int, held int64)
}

// see notes what is left at a limit.
func see(o *queue.Obstacle, now int64) {
	o.Left, o.Held = o.Limit.(explained).present(now)
	o.Held = max(o.Held-now, 0)
}

// newcomer explains an entry of these costs that would come now.
func (a *Composite) newcomer(each []int, keys map[uint64]string) *Blocked {
	c := costs{each: each}
	if len(each) == 1 {
		c = costs{all: each[0]}
	}
	j := a.joint(c)
	defer j.free()
	h, due := j.want().set.Newcomer(j.claims, see)
	for _, limit := range j.want().limits {
		if i := limit - len(a.holds); i >= 0 && a.inside[i].to.kind().answers && h.Ahead > 0 {
			due = queue.Never
		}
	}
	b := blocked(h, keys)
	if tight, ok := h.Err.(*queue.TooMuch); ok {
		_, b.Err = new(counts).failed(tight, func(limit int) (string, string) { return a.which(j.want().limits[limit], j.costs()) })
	}
	b.until(due)
	for i := range a.keys {
		if n := cost(&a.keys[i], c); n > 0 {
			k := Explain(a.keys[i].to, n).Entry
			if k == nil {
				continue // its gate would be made first
			}
			b.By = append(b.By, k.By...)
			b.Due = later(b.Due, k.Due)
			if b.Err == nil {
				b.Err = k.Err
			}
		}
	}
	return &b
}

// blocked turns what the queue knows of an entry into what is told.
func blocked(h queue.Head, keys map[uint64]string) Blocked {
	b := Blocked{Cost: h.Cost, Waited: time.Duration(h.Waited), Ahead: h.Ahead, Behind: h.Behind}
	places := map[Gate]int{} // of composites in b.By: a hold of one is a limit for each of its members
	for _, o := range h.By {
		of := o.Limit.(explained)
		g := of.gate()
		told := Obstacle{Gate: NameOf(g), Cost: o.Cost, Left: o.Left, Due: time.Duration(o.Due), HeldFor: heldFor(0, o.Held), Ahead: o.Ahead}
		if name, ok := keys[of.born()]; ok {
			told.Gate = name
		}
		told.Plan, _ = PlanOf(g)
		if n, ok := g.(noted); ok && told.Plan.Kind != "all" {
			told.Open = n.noted().oldest(g)
		}
		if o.Due == queue.Never || of.kind().answers && o.Ahead > 0 {
			told.Due = notKnown
		}
		if told.Plan.Kind == "all" {
			if at, again := places[g]; again {
				b.By[at].merge(told)
				continue
			}
			places[g] = len(b.By)
		}
		b.By = append(b.By, told)
	}
	return b
}

// merge makes one obstacle of two limits that are the same gate to a caller.
func (o *Obstacle) merge(p Obstacle) {
	o.Cost = max(o.Cost, p.Cost)
	o.Left = min(o.Left, p.Left)
	o.Due = later(o.Due, p.Due)
	o.HeldFor = max(o.HeldFor, p.HeldFor)
	o.Ahead = max(o.Ahead, p.Ahead)
}

// notKnown is a time that depends on when other entries leave.
const notKnown = -1

// until sets Due: the longest of its obstacles, and at least due.
func (b *Blocked) until(due int64) {
	b.Due = time.Duration(due)
	if due == queue.Never {
		b.Due = notKnown
	}
	for _, o := range b.By {
		b.Due = later(b.Due, o.Due)
	}
}

// later returns the later of two times, or notKnown if one is not known.
func later(a, b time.Duration) time.Duration {
	if a < 0 || b < 0 {
		return notKnown
	}
	return max(a, b)
}

// String returns the explanation for people: a line for the gate, and one for each entry and open pass. An example is:
//
//	llm: all of points, slots, 12 waiting, next in 14s
//	entry of cost 5, 2.1s in line, 11 behind it, kept back by "points" (3 of 900 left, due in 14s)
func (e Explanation) String() string {
	lines := []string{fmt.Sprintf("%s: %v%s", inLine(e.Gate), e.Plan, e.Stats.text())}
	if e.Plan.Kind == "" {
		lines[0] = inLine(e.Gate) + ": not known"
	}
	for _, h := range e.Heads {
		lines = append(lines, h.String())
	}
	if e.Elsewhere > 0 {
		lines = append(lines, fmt.Sprintf("%d at gates from elsewhere", e.Elsewhere))
	}
	if e.Entry != nil {
		lines = append(lines, "now: "+e.Entry.String())
	}
	for _, p := range e.Open {
		lines = append(lines, p.String())
	}
	return strings.Join(lines, "\n")
}

// String returns the entry and what keeps it back, in one line.
func (b Blocked) String() string {
	parts := []string{fmt.Sprintf("entry of cost %d", b.Cost)}
	if b.Waited > 0 {
		parts = append(parts, brief(b.Waited)+" in line")
	}
	if b.Ahead > 0 {
		parts = append(parts, fmt.Sprintf("%d before it", b.Ahead))
	}
	if b.Behind > 0 {
		parts = append(parts, fmt.Sprintf("%d behind it", b.Behind))
	}
	switch {
	case b.Err != nil:
		parts = append(parts, fmt.Sprintf("refused: %v", b.Err))
	case len(b.By) == 0 && b.Ahead == 0:
		parts = append(parts, "admitted")
	}
	for i, o := range b.By {
		by := "kept back by "
		if i > 0 {
			by = "then by "
		}
		parts = append(parts, by+o.String())
	}
	if b.Due > 0 && (len(b.By) != 1 || b.Due != b.By[0].Due) {
		parts = append(parts, "due in "+brief(b.Due))
	}
	return strings.Join(parts, ", ")
}

// String returns the gate and its state in a few words.
func (o Obstacle) String() string {
	var parts []string
	most := cmp.Or(o.Plan.Burst, o.Plan.Limit, o.Plan.N)
	switch {
	case o.HeldFor > 0:
		parts = append(parts, "held for "+forText(o.HeldFor))
	case most > 0:
		parts = append(parts, fmt.Sprintf("%d of %d left", o.Left, most))
	}
	if o.Due > 0 && o.Due != o.HeldFor {
		parts = append(parts, "due in "+brief(o.Due))
	}
	if o.Ahead > 0 {
		parts = append(parts, fmt.Sprintf("%d before it", o.Ahead))
	}
	if len(o.Open) > 0 {
		parts = append(parts, "the oldest pass open for "+brief(o.Open[0].Age))
	}
	s := fmt.Sprintf("%q", o.Gate)
	if len(parts) > 0 {
		s += " (" + strings.Join(parts, ", ") + ")"
	}
	return s
}

// String returns the cost and the age of the pass in a few words, and the function in which it was entered.
func (p OpenPass) String() string {
	s := fmt.Sprintf("pass of cost %d, open for %s", p.Cost, brief(p.Age))
	if p.Where != "" {
		first, _, _ := strings.Cut(p.Where, "\n")
		s += ", entered in " + first
	}
	return s
}
