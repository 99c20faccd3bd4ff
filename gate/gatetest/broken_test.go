package gatetest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/gate/gatetest"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// fault is what a broken gate does wrong.
type fault string

const (
	none              fault = "none"
	oneTooMany        fault = "admits one too many"
	oneTooFew         fault = "admits one too few"
	hoards            fault = "has more after it has been empty"
	tryTakes          fault = "a refused try takes a token"
	refusedPassGives  fault = "the pass of a refused try gives a token"
	ignoresDone       fault = "a free token wins over a done context"
	losesCause        fault = "returns ctx.Err()"
	neverWakes        fault = "nobody is woken"
	lastFirst         fault = "last in, first out"
	lightFirst        fault = "who fits goes first"
	losesOnCancel     fault = "who gives up takes a token"
	holdsUpOnCancel   fault = "who gives up is not gone before the next leaves"
	deafToCancel      fault = "a wait can't be cancelled"
	losesPhotoFinish  fault = "a grant to a done context is lost"
	doublesPhoto      fault = "a grant to a done context is given back twice"
	heavyWaits        fault = "waits for what can't be"
	saysNotHow        fault = "an error of its own for what is too costly"
	heavyTakes        fault = "what is too costly takes a token"
	takesAnything     fault = "no panic for misuse"
	misuseTakes       fault = "misuse takes a token before it panics"
	ownDeadline       fault = "an error of its own for the deadline"
	losesOnDeadline   fault = "a deadline takes a token"
	settlesNothing    fault = "ignores Settle"
	settlesDownOnly   fault = "no debts"
	settlesAsleep     fault = "wakes nobody for Settle"
	settlesTwice      fault = "Leave after Settle gives everything back"
	settlesLeft       fault = "Settle after Leave gives everything back again"
	leaksOnError      fault = "Leave with an error leaks"
	leaksOnPanic      fault = "Leave in a panic leaks"
	givesTwice        fault = "a second Leave gives a second token"
	racyTry           fault = "looks, and takes later"
	generous          fault = "admits more in a crowd"
	leavesGoroutine   fault = "a goroutine for each who waits, without an end"
	countsNoRefusal   fault = "counts no refusals"
	countsNoWaiter    fault = "counts nobody who waits"
	countsCostlyTwice fault = "counts what is too costly twice"
)

// fake is a gate for slots, simple and, but for its fault, right.
type fake struct {
	fault fault
	over  chan struct{} // closed by the test when nobody needs to wait any more

	mu        sync.Mutex
	size      int
	used      int
	line      []*caller
	granted   uint64
	refused   uint64
	abandoned uint64
}

type caller struct {
	cost  int
	ready chan struct{}
	in    bool
}

func newFake(size int, f fault, over chan struct{}) *fake {
	g := &fake{fault: f, over: over, size: size}
	switch f {
	case oneTooMany:
		g.size++
	case oneTooFew:
		g.size--
	}
	return g
}

func (g *fake) is(faults ...fault) bool { return slices.Contains(faults, g.fault) }

// serve lets in who fits. The lock is held.
func (g *fake) serve() {
	for len(g.line) > 0 {
		i := 0
		switch {
		case g.is(lastFirst):
			i = len(g.line) - 1
		case g.is(lightFirst):
			i = max(0, slices.IndexFunc(g.line, func(c *caller) bool { return g.used+c.cost <= g.size }))
		}
		room := g.size
		if g.is(generous) && len(g.line) > 5 {
			room += 3
		}
		c := g.line[i]
		if g.used+c.cost > room {
			return
		}
		g.line = slices.Delete(g.line, i, i+1)
		g.used += c.cost
		g.granted++
		c.in = true
		close(c.ready)
	}
}

func (g *fake) pass(cost int) gate.Pass {
	return gate.NewPass(&token{g: g, cost: cost, given: cost}, 0, cost)
}

func (g *fake) Enter(ctx context.Context, cost int) (gate.Pass, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if ctx == nil || cost < 1 {
		if g.is(takesAnything) {
			return gate.Pass{}, nil
		}
		if g.is(misuseTakes) {
			g.used++
		}
		panic("fake: misuse")
	}
	if ctx.Err() != nil && !g.is(ignoresDone) {
		g.abandoned++
		return gate.Pass{}, g.cause(ctx)
	}
	if cost > g.size && !g.is(heavyWaits) {
		g.refused++
		switch {
		case g.is(countsCostlyTwice):
			g.refused++
		case g.is(saysNotHow):
			return gate.Pass{}, errors.New("fake: too costly")
		case g.is(heavyTakes):
			g.used++
		}
		return gate.Pass{}, &gate.CapacityError{Cost: cost, Capacity: g.size}
	}
	c := &caller{cost: cost, ready: make(chan struct{})}
	if g.line = append(g.line, c); len(g.line) == 1 || g.is(lightFirst) {
		g.serve()
	}
	if c.in {
		return g.pass(cost), nil
	}
	if g.is(leavesGoroutine) {
		go func() { <-g.over }()
	}
	g.mu.Unlock()
	done := ctx.Done()
	if g.is(deafToCancel) {
		done = nil
	}
	select {
	case <-c.ready:
	case <-done:
	case <-g.over:
	}
	g.mu.Lock()
	if ctx.Err() == nil || g.is(deafToCancel) {
		return g.pass(cost), nil
	}
	if c.in {
		if g.is(losesPhotoFinish) {
			return gate.Pass{}, g.cause(ctx)
		}
		if g.is(doublesPhoto) {
			g.used -= 2 * cost
			g.serve()
			return gate.Pass{}, g.cause(ctx)
		}
		return g.pass(cost), nil
	}
	g.abandoned++
	if i := slices.Index(g.line, c); i >= 0 {
		g.line = slices.Delete(g.line, i, i+1)
		if i == 0 && !g.is(holdsUpOnCancel) {
			g.serve()
		}
	}
	err := g.cause(ctx)
	switch late := errors.Is(err, context.DeadlineExceeded); {
	case g.is(losesOnCancel) && !late, g.is(losesOnDeadline) && late:
		g.used += cost
	case g.is(ownDeadline) && late:
		err = errors.New("fake: too late")
	}
	return gate.Pass{}, err
}

func (g *fake) cause(ctx context.Context) error {
	if g.is(losesCause) {
		return ctx.Err()
	}
	return context.Cause(ctx)
}

func (g *fake) TryEnter(cost int) (gate.Pass, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if cost < 1 {
		if g.is(takesAnything) {
			return gate.Pass{}, false
		}
		panic("fake: misuse")
	}
	fits := cost <= g.size && g.used+cost <= g.size && (len(g.line) == 0 || g.is(lightFirst))
	if g.is(racyTry) {
		g.mu.Unlock()
		for range 10 {
			runtime.Gosched()
		}
		g.mu.Lock()
	}
	if fits {
		g.used += cost
		g.granted++
		return g.pass(cost), true
	}
	if !g.is(countsNoRefusal) {
		g.refused++
	}
	switch {
	case g.is(tryTakes):
		g.used++
	case g.is(countsCostlyTwice) && cost > g.size:
		g.refused++
	case g.is(refusedPassGives):
		return g.pass(1), false
	}
	return gate.Pass{}, false
}

func (g *fake) Stats() gate.Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := gate.Stats{
		Granted: g.granted, Refused: g.refused, Abandoned: g.abandoned,
		Waiting: len(g.line), InUse: g.used, Idle: g.used == 0 && len(g.line) == 0,
	}
	if g.is(countsNoWaiter) {
		s.Waiting = 0
	}
	return s
}

// token is what a pass of a fake goes back to.
type token struct {
	g     *fake
	cost  int
	given int
	left  bool
}

func (k *token) Leave(_ uint64, _ int, err error) {
	k.g.mu.Lock()
	defer k.g.mu.Unlock()
	if k.left && !k.g.is(givesTwice) {
		panic("fake: left twice")
	}
	k.left = true
	if k.g.is(leaksOnError) && err != nil || k.g.is(leaksOnPanic) && panicking() {
		return
	}
	if k.g.is(settlesTwice) {
		k.cost = k.given
	}
	k.g.used -= k.cost
	if k.g.is(hoards) && k.g.used == 0 {
		k.g.used--
	}
	if !k.g.is(neverWakes) {
		k.g.serve()
	}
}

func (k *token) Settle(_ uint64, _, actual int) {
	k.g.mu.Lock()
	defer k.g.mu.Unlock()
	if k.left && !k.g.is(settlesLeft) || k.g.is(settlesNothing) || k.g.is(settlesDownOnly) && actual > k.cost {
		return
	}
	k.g.used += actual - k.cost
	k.cost = actual
	if !k.g.is(settlesAsleep) {
		k.g.serve()
	}
}

// panicking reports whether the goroutine is unwinding after a panic.
func panicking() bool {
	pcs := make([]uintptr, 50)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(0, pcs)])
	for {
		f, more := frames.Next()
		if f.Function == "runtime.gopanic" {
			return true
		}
		if !more {
			return false
		}
	}
}

// recorder is a testing.TB that keeps to itself what goes wrong.
type recorder struct {
	testing.TB
	mu      sync.Mutex
	said    []string
	skipped string
}

func (r *recorder) say(s string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, s)
}

func (r *recorder) Helper()                   {}
func (r *recorder) Errorf(f string, a ...any) { r.say(fmt.Sprintf(f, a...)) }
func (r *recorder) Fatal(a ...any)            { r.say(fmt.Sprint(a...)); runtime.Goexit() }
func (r *recorder) Fatalf(f string, a ...any) { r.say(fmt.Sprintf(f, a...)); runtime.Goexit() }
func (r *recorder) Skip(a ...any)             { r.skipped = fmt.Sprint(a...); runtime.Goexit() }

// record runs the check and returns what it has to say. over is closed as soon as the
// check is through, so that whoever a broken gate has forgotten does not wait for ever.
func record(tb testing.TB, check gatetest.Check, s gatetest.Subject, over chan struct{}) []string {
	r := &recorder{TB: tb}
	through := make(chan struct{})
	go func() {
		defer close(through)
		defer func() {
			if v := recover(); v != nil {
				r.say(fmt.Sprintf("panic: %v", v))
			}
		}()
		check.Run(r, s)
	}()
	<-through
	close(over)
	return r.said
}

// naive is a composite that takes a token and then looks for a slot.
type naive struct {
	rate  *gate.Rate
	slots *gate.Concurrency
}

func (n naive) Enter(ctx context.Context, cost int) (gate.Pass, error) {
	if _, err := n.rate.Enter(ctx, cost); err != nil {
		return gate.Pass{}, err
	}
	return n.slots.Enter(ctx, cost)
}

func (n naive) TryEnter(cost int) (gate.Pass, bool) {
	if _, ok := n.rate.TryEnter(cost); !ok {
		return gate.Pass{}, false
	}
	return n.slots.TryEnter(cost)
}

func TestNaiveCompositeFails(t *testing.T) {
	for _, check := range gatetest.Checks() {
		if check.Name != "all or nothing" {
			continue
		}
		bubble.Both(t, func(b *bubble.B) {
			said := record(b, check, gatetest.Subject{
				New: func(testing.TB) gate.Gate {
					return naive{
						gate.NewRate(pace.PerSecond(100), &gate.RateOptions{Burst: 4, Clock: b.Clock()}),
						gate.NewConcurrency(4),
					}
				},
				Capacity: 4, Slots: true, Back: 10 * ms, Most: evenly(4, 10*ms), Clock: b.Clock(), Advance: b.Advance,
			}, make(chan struct{}))
			if len(said) == 0 {
				t.Error("a composite that spends tokens for want of a slot passes")
			}
		})
	}
}

// TestChecksCanFail shows every check a gate that it finds out. A gate with one fault may
// fail other checks, too; one without passes them all.
func TestChecksCanFail(t *testing.T) {
	cases := map[fault][]string{
		none:              nil,
		oneTooMany:        {"capacity", "stampede", "crowd", "wake-up", "order"},
		oneTooFew:         {"capacity", "stampede"},
		hoards:            {"idleness"},
		tryTakes:          {"refused try"},
		refusedPassGives:  {"refused pass"},
		ignoresDone:       {"done context"},
		losesCause:        {"done context", "cancelled head", "cancelled many"},
		neverWakes:        {"wake-up", "order", "crowd"},
		lastFirst:         {"order"},
		lightFirst:        {"overtaking"},
		losesOnCancel:     {"cancelled head", "cancelled middle", "cancelled tail", "cancelled many", "crowd"},
		holdsUpOnCancel:   {"cancelled head"},
		deafToCancel:      {"cancelled head", "cancelled middle", "cancelled tail", "cancelled many"},
		losesPhotoFinish:  {"photo finish"},
		doublesPhoto:      {"photo finish"},
		heavyWaits:        {"too costly"},
		saysNotHow:        {"too costly"},
		heavyTakes:        {"too costly"},
		takesAnything:     {"misuse"},
		misuseTakes:       {"misuse"},
		ownDeadline:       {"deadline"},
		losesOnDeadline:   {"deadline"},
		settlesNothing:    {"settle down", "settle up", "settle to nothing"},
		settlesDownOnly:   {"settle up"},
		settlesAsleep:     {"settle down", "settle to nothing"},
		settlesTwice:      {"settle down", "settle to nothing"},
		settlesLeft:       {"settle after leave"},
		leaksOnError:      {"do"},
		leaksOnPanic:      {"do panics"},
		givesTwice:        {"left twice"},
		racyTry:           {"stampede"},
		generous:          {"crowd"},
		leavesGoroutine:   {"goroutines"},
		countsNoRefusal:   {"stats", "refusals"},
		countsNoWaiter:    {"stats"},
		countsCostlyTwice: {"refusals"},
	}
	found := map[string]bool{"all or nothing": true} // TestNaiveCompositeFails
	for _, checks := range heldWrong {
		for _, name := range checks {
			found[name] = true // TestHoldChecksCanFail
		}
	}
	for f, want := range cases {
		for _, check := range gatetest.Checks() {
			if f != none && !slices.Contains(want, check.Name) {
				continue
			}
			t.Run(string(f)+"/"+check.Name, func(t *testing.T) {
				bubble.Mock(t, func(b *bubble.B) {
					over := make(chan struct{})
					said := record(b, check, gatetest.Subject{
						New:      func(testing.TB) gate.Gate { return newFake(4, f, over) },
						Capacity: 4, Slots: true, Clock: b.Clock(), Advance: b.Advance,
					}, over)
					switch {
					case f == none && len(said) > 0:
						t.Errorf("a gate without a fault fails:\n%s", strings.Join(said, "\n"))
					case f != none && len(said) == 0:
						t.Errorf("a gate that has this fault passes: %s", f)
					}
				})
				found[check.Name] = found[check.Name] || f != none
			})
		}
		for _, name := range want {
			if !slices.ContainsFunc(gatetest.Checks(), func(c gatetest.Check) bool { return c.Name == name }) {
				t.Errorf("there is no check %q", name)
			}
		}
	}
	for _, check := range gatetest.Checks() {
		if !found[check.Name] {
			t.Errorf("nothing fails the check %q", check.Name)
		}
	}
}

// wrong is a rate with a fault that only a gate of time can have.
type wrong struct {
	*gate.Rate
	enter func(context.Context, int) (gate.Pass, error)
	try   func(int) (gate.Pass, bool)
}

func (w *wrong) Enter(ctx context.Context, cost int) (gate.Pass, error) {
	if w.enter == nil {
		return w.Rate.Enter(ctx, cost)
	}
	return w.enter(ctx, cost)
}

func (w *wrong) TryEnter(cost int) (gate.Pass, bool) {
	if w.try == nil {
		return w.Rate.TryEnter(cost)
	}
	return w.try(cost)
}

// timeless is a context that keeps its deadline to itself.
type timeless struct{ context.Context }

func (timeless) Deadline() (time.Time, bool) { return time.Time{}, false }

func TestChecksCanFailInTime(t *testing.T) {
	for _, c := range []struct {
		name  string
		gate  func(rate func(pace.Rate, int) *gate.Rate) gate.Gate
		fails []string
	}{
		{"as it should be", func(rate func(pace.Rate, int) *gate.Rate) gate.Gate {
			return &wrong{Rate: rate(pace.PerSecond(100), 4)}
		}, nil},
		{"too fast", func(rate func(pace.Rate, int) *gate.Rate) gate.Gate {
			return rate(pace.PerSecond(101), 4)
		}, []string{"crowd"}},
		{"much too fast", func(rate func(pace.Rate, int) *gate.Rate) gate.Gate {
			return rate(pace.PerSecond(200), 4)
		}, []string{"crowd", "settle up"}},
		{"too slow", func(rate func(pace.Rate, int) *gate.Rate) gate.Gate {
			return rate(pace.PerSecond(99), 4)
		}, []string{"wake-up", "cancelled many"}},
		{"much too slow", func(rate func(pace.Rate, int) *gate.Rate) gate.Gate {
			return rate(pace.PerSecond(50), 4)
		}, []string{"wake-up", "order", "overtaking", "crowd"}},
		{"hoards", func(rate func(pace.Rate, int) *gate.Rate) gate.Gate {
			w := &wrong{Rate: rate(pace.PerSecond(100), 4)}
			w.try = func(cost int) (gate.Pass, bool) {
				p, ok := w.Rate.TryEnter(cost)
				w.Rate.SetBurst(5)
				return p, ok
			}
			return w
		}, []string{"idleness"}},
		{"foresees nothing", func(rate func(pace.Rate, int) *gate.Rate) gate.Gate {
			w := &wrong{Rate: rate(pace.PerSecond(100), 4)}
			w.enter = func(ctx context.Context, cost int) (gate.Pass, error) {
				if ctx == nil {
					return w.Rate.Enter(ctx, cost)
				}
				return w.Rate.Enter(timeless{ctx}, cost)
			}
			return w
		}, []string{"deadline"}},
		{"takes before it looks at the context", func(rate func(pace.Rate, int) *gate.Rate) gate.Gate {
			w := &wrong{Rate: rate(pace.PerSecond(100), 4)}
			w.enter = func(ctx context.Context, cost int) (gate.Pass, error) {
				if ctx != nil && ctx.Err() != nil {
					w.Rate.TryEnter(cost)
				}
				return w.Rate.Enter(ctx, cost)
			}
			return w
		}, []string{"done context"}},
		{"spends what is given up", func(rate func(pace.Rate, int) *gate.Rate) gate.Gate {
			w := &wrong{Rate: rate(pace.PerSecond(100), 4)}
			w.enter = func(ctx context.Context, cost int) (gate.Pass, error) {
				p, err := w.Rate.Enter(ctx, cost)
				if errors.Is(err, context.Cause(ctx)) && err != nil {
					w.Rate.TryEnter(1)
				}
				return p, err
			}
			return w
		}, []string{"done context", "cancelled head", "cancelled middle", "cancelled tail"}},
	} {
		for _, check := range gatetest.Checks() {
			if c.fails != nil && !slices.Contains(c.fails, check.Name) {
				continue
			}
			t.Run(c.name+"/"+check.Name, func(t *testing.T) {
				bubble.Both(t, func(b *bubble.B) {
					rate := func(r pace.Rate, burst int) *gate.Rate {
						return gate.NewRate(r, &gate.RateOptions{Burst: burst, Clock: b.Clock()})
					}
					said := record(b, check, gatetest.Subject{
						New:      func(testing.TB) gate.Gate { return c.gate(rate) },
						Capacity: 4, Back: 10 * ms, Most: evenly(4, 10*ms), Foresees: true,
						Clock: b.Clock(), Advance: b.Advance,
					}, make(chan struct{}))
					if failed := len(said) > 0; failed != (c.fails != nil) {
						t.Errorf("failed: %v, want %v\n%s", failed, !failed, strings.Join(said, "\n"))
					}
				})
			})
		}
	}
}

// What needs no clock to be seen is seen on the real one, too, where nobody can be told to
// come to rest.
func TestChecksCanFailInRealTime(t *testing.T) {
	for f, name := range map[fault]string{
		oneTooMany:       "capacity",
		hoards:           "idleness",
		ignoresDone:      "done context",
		losesCause:       "cancelled tail",
		lastFirst:        "order",
		lightFirst:       "overtaking",
		saysNotHow:       "too costly",
		settlesDownOnly:  "settle up",
		refusedPassGives: "refused pass",
		givesTwice:       "left twice",
		countsNoRefusal:  "stats",
	} {
		for _, check := range gatetest.Checks() {
			if check.Name != name {
				continue
			}
			t.Run(string(f)+"/"+name, func(t *testing.T) {
				t.Parallel()
				over := make(chan struct{})
				said := record(t, check, gatetest.Subject{
					New:      func(testing.TB) gate.Gate { return newFake(4, f, over) },
					Capacity: 4, Slots: true,
				}, over)
				if len(said) == 0 {
					t.Errorf("a gate that has this fault passes: %s", f)
				}
			})
		}
	}
}
