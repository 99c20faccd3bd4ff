package gate_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// stay is an entry of a Window that counts until its answer.
type stay struct {
	from, to time.Duration // between its grant and its return from Enter; just before its Leave
	tokens   int
}

// mostAt returns the most tokens that count at one instant if each stay counts until a span after its end.
func mostAt(stays []stay, span time.Duration) int {
	type step struct {
		at     time.Duration
		tokens int
	}
	var steps []step
	for _, s := range stays {
		steps = append(steps, step{s.from, s.tokens}, step{s.to + span, -s.tokens})
	}
	slices.SortFunc(steps, func(a, b step) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return a.tokens - b.tokens // a span is half open
	})
	most, now := 0, 0
	for _, s := range steps {
		now += s.tokens
		most = max(most, now)
	}
	return most
}

// Goroutines that run in parallel for real never have more than n tokens from their grants until a span
// after they left, whether they enter the window itself or a composite of it.
func TestAnswerParallel(t *testing.T) {
	const n, span = 7, 200 * time.Microsecond
	window := gate.NewWindow(n, span, &gate.WindowOptions{UntilAnswer: true})
	gates := []gate.Gate{
		window,
		gate.All(window, gate.NewConcurrency(5)),
		gate.All(gate.NewRate(pace.Every(10*time.Microsecond), &gate.RateOptions{Burst: n}), window),
	}
	var mu sync.Mutex
	var stays []stay
	began := time.Now()
	var wg sync.WaitGroup
	for seed := range uint64(8) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, 22))
			for range 300 {
				cost := 1 + r.IntN(4)
				p, ok := answerEntry(t, r, gates[r.IntN(len(gates))], cost)
				if !ok {
					continue
				}
				s := stay{from: time.Since(began), tokens: cost}
				if r.IntN(3) == 0 {
					s.tokens = r.IntN(cost + 1)
					p.Settle(s.tokens)
				}
				for range r.IntN(200) {
					window.Stats()
				}
				s.to = time.Since(began)
				p.Leave(nil)
				mu.Lock()
				stays = append(stays, s)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if most := mostAt(stays, span); most > n || most < n/2 {
		t.Errorf("%d tokens within a span of their answers, want at most %d and not far less", most, n)
	}
	s := window.Stats()
	if s.Waiting > 0 || s.InUse > n {
		t.Errorf("Stats is %+v in the end", s)
	}
}

// answerEntry enters in one of three ways.
func answerEntry(t *testing.T, r *rand.Rand, g gate.Gate, cost int) (gate.Pass, bool) {
	if r.IntN(4) == 0 {
		return g.TryEnter(cost)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if r.IntN(2) == 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(r.IntN(1000))*time.Microsecond)
	}
	defer cancel()
	p, err := g.Enter(ctx, cost)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	return p, err == nil
}

// SetLimit in parallel never loses a token for good, and every waiter is admitted or refused.
func TestAnswerSetLimitParallel(t *testing.T) {
	g := gate.NewWindow(8, time.Microsecond, &gate.WindowOptions{UntilAnswer: true})
	done := make(chan struct{})
	changed := make(chan struct{})
	go func() {
		defer close(changed)
		r := rand.New(rand.NewPCG(1, 22))
		for {
			select {
			case <-done:
				return
			default:
				g.SetLimit(1+r.IntN(8), time.Duration(1+r.IntN(3000)))
			}
		}
	}()
	var wg sync.WaitGroup
	for seed := range uint64(8) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, 22))
			for range 300 {
				p, err := g.Enter(context.Background(), 1+r.IntN(8))
				if err == nil {
					p.Leave(nil)
				} else if !errors.As(err, new(*gate.CapacityError)) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	close(done)
	<-changed
	g.SetLimit(8, 1)
	left := time.Now()
	for time.Since(left) < time.Microsecond {
		runtime.Gosched()
	}
	if s := g.Stats(); !s.Idle || s.InUse != 0 || s.Waiting != 0 {
		t.Errorf("Stats is %+v in the end, want idle", s)
	}
}

// A pass of a Window that counts until the answer is left once, and settled once.
func TestAnswerMisuse(t *testing.T) {
	one := func() gate.Gate { return gate.NewWindow(9, time.Hour, &gate.WindowOptions{UntilAnswer: true}) }
	for name, make := range map[string]func() gate.Gate{"alone": one, "in All": func() gate.Gate { return gate.All(one(), gate.NewConcurrency(9)) }} {
		for what, f := range map[string]func(gate.Pass){
			"leave twice":         func(p gate.Pass) { p.Leave(nil); p.Leave(nil) },
			"settle twice":        func(p gate.Pass) { p.Settle(1); p.Settle(1) },
			"settle around leave": func(p gate.Pass) { p.Settle(1); p.Leave(nil); p.Settle(1) },
			"settle twice after":  func(p gate.Pass) { p.Leave(nil); p.Settle(1); p.Settle(1) },
			"leave around settle": func(p gate.Pass) { p.Leave(nil); p.Settle(1); p.Leave(nil) },
			"settle below 0":      func(p gate.Pass) { p.Settle(-1) },
		} {
			p, _ := make().TryEnter(2)
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s, %s: no panic", name, what)
					}
				}()
				f(p)
			}()
		}
	}
}

// A turn behind a heavier waiter is known as well: at the earliest all leave now.
func TestAnswerKnowsOnArrival(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewWindow(3, 10*time.Second, &gate.WindowOptions{UntilAnswer: true, Clock: b.Clock()})
		g.TryEnter(1)
		ctx, cancel := context.WithCancel(context.Background())
		defer b.Settle()
		defer cancel()
		go g.Enter(ctx, 3) // at 10 s at the earliest
		b.Settle()
		soon, cancel2 := b.WithTimeout(15 * time.Second)
		defer cancel2()
		failed := make(chan error, 1)
		go func() {
			_, err := g.Enter(soon, 1)
			failed <- err
		}()
		b.Settle()
		select {
		case err := <-failed:
			if late := (*gate.DeadlineError)(nil); !errors.As(err, &late) || late.Wait != 20*time.Second {
				b.Errorf("failed with %v, want a DeadlineError with a wait of 20s", err)
			}
		default:
			b.Error("waits for a turn at 20 s that its deadline does not see")
		}
	})
}

// Debts that can't be counted take no other entry's tokens along when they are over.
func TestAnswerHugeDebts(t *testing.T) {
	for n := range 6 {
		bubble.Both(t, func(b *bubble.B) {
			g := gate.NewWindow(n+2, time.Second, &gate.WindowOptions{UntilAnswer: true, Clock: b.Clock()})
			rest, _ := g.TryEnter(2)
			var debts []gate.Pass
			for range n {
				p, _ := g.TryEnter(1)
				debts = append(debts, p)
			}
			for i, p := range debts {
				p.Settle(math.MaxInt - i)
			}
			for _, p := range debts {
				if _, ok := g.TryEnter(1); ok {
					b.Errorf("%d debts: admitted beside one that is under way", n)
				}
				p.Leave(nil)
			}
			b.Advance(time.Second - 1)
			if _, ok := g.TryEnter(1); ok {
				b.Errorf("%d debts: admitted before they are over", n)
			}
			b.Advance(1)
			if used := g.Stats().InUse; used != 2 {
				b.Errorf("%d debts: %d tokens count after them, want the 2 that are under way", n, used)
			}
			rest.Leave(nil)
			b.Advance(time.Second)
			if _, ok := g.TryEnter(n + 2); !ok {
				b.Errorf("%d debts: refused when all is over", n)
			}
		})
	}
}

// A Window that counts until the answer allocates as little as one that does not.
func TestAnswerAllocates(t *testing.T) {
	g := gate.NewWindow(5, 1, &gate.WindowOptions{UntilAnswer: true})
	enter := func() {
		p, err := g.Enter(context.Background(), 1)
		if err != nil {
			t.Error(err)
		}
		p.Leave(nil)
	}
	for range 5000 {
		enter() // passes that are never settled are kept at first
	}
	if n := testing.AllocsPerRun(1000, enter); n > 0 {
		t.Errorf("%v allocations for an entry", n)
	}
	// Of a forgotten pass, what is owed is charged when it is settled.
	g.SetLimit(50, time.Hour)
	first, _ := g.TryEnter(2)
	first.Leave(nil)
	other, _ := g.TryEnter(1)
	other.Leave(nil)
	before := g.Stats().InUse
	first.Settle(5)
	if used := g.Stats().InUse; used != before+3 {
		t.Errorf("%d in use after a late Settle, before it %d", used, before)
	}
	kept, _ := g.TryEnter(2)
	kept.Leave(nil)
	kept.Settle(0)
	if used := g.Stats().InUse; used != before+3 {
		t.Errorf("%d in use after a Settle, want %d", used, before+3)
	}
	if panics(func() { kept.Settle(0) }) == "" {
		t.Error("settled twice")
	}
}

// An entry that a gate behind the window fails did not take place, and needs no span to be over.
func TestAnswerUndone(t *testing.T) {
	g := gate.NewWindow(3, time.Hour, &gate.WindowOptions{UntilAnswer: true})
	failure := errors.New("failed")
	outside := gate.Of(waitFunc(func(context.Context) error { return failure }))
	if _, err := gate.All(g, outside).Enter(context.Background(), 2); err != failure {
		t.Errorf("failed with %v, want %v", err, failure)
	}
	if s := g.Stats(); s.InUse != 0 || !s.Idle {
		t.Errorf("Stats is %+v, want idle", s)
	}
}

type waitFunc func(context.Context) error

func (w waitFunc) Wait(ctx context.Context) error { return w(ctx) }
