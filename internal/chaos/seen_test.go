package chaos_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/observe"
	"github.com/escapement-go/escapement/pace"
)

// Callers come and go at gates that share members, while an operator looks at all of them, changes plans, and sets
// observers that enter the gates, too. In the end, what the gates have counted is what the callers have seen, and how
// long those have waited, to the nanosecond.
func TestSeenWhileInUse(t *testing.T) {
	for seed := range uint64(4) {
		synctest.Test(t, func(t *testing.T) { (&seen{T: t, seed: seed}).run() })
	}
}

// seen is a run of that test.
type seen struct {
	*testing.T
	seed    uint64
	roots   []*root
	tenants *gate.Keyed[string]
	others  root // the callers of other tenants than those that are members
	set     observe.Set
	rate    *gate.Rate
	window  *gate.Window
	slots   *gate.Concurrency
	done    chan struct{}
}

// root is a gate that callers enter, with what they have seen.
type root struct {
	gate.Gate
	granted, refused, abandoned, waited, vain atomic.Int64
}

// entered books an entry that has waited, or has not.
func (r *root) entered(err error, wait time.Duration) {
	late, much, full := (*gate.DeadlineError)(nil), (*gate.CapacityError)(nil), (*gate.KeysError)(nil)
	switch {
	case err == nil:
		r.granted.Add(1)
		r.waited.Add(int64(wait))
		return
	case errors.Is(err, errNoRoom), errors.As(err, &late), errors.As(err, &much), errors.As(err, &full):
		r.refused.Add(1)
	default:
		r.abandoned.Add(1)
	}
	r.vain.Add(int64(wait))
}

var errNoRoom = errors.New("TryEnter found no room")

func (s *seen) run() {
	s.begin()
	var callers, operator sync.WaitGroup
	for n := range 8 {
		callers.Go(func() { s.call(rand.New(rand.NewPCG(s.seed, uint64(n)))) })
	}
	operator.Go(func() { s.operate(rand.New(rand.NewPCG(s.seed, 99))) })
	callers.Wait()
	close(s.done)
	operator.Wait()
	gate.LabelWaits(false)

	across := []int64{s.roots[1].granted.Load() + s.roots[2].granted.Load(), s.roots[2].granted.Load(), 0, 0}
	for n, r := range s.roots {
		got, _ := gate.StatsOf(r.Gate)
		want := gate.Stats{Granted: uint64(r.granted.Load() + across[n]), Refused: uint64(r.refused.Load()), Abandoned: uint64(r.abandoned.Load()),
			Waited: time.Duration(r.waited.Load()), WaitedInVain: time.Duration(r.vain.Load())}
		if got.Granted != want.Granted || got.Refused != want.Refused || got.Abandoned != want.Abandoned || got.Waited != want.Waited ||
			got.WaitedInVain != want.WaitedInVain || got.Waiting != 0 || got.Longest != 0 {
			s.Errorf("seed %d, gate %d: %+v, want %+v", s.seed, n, got, want)
		}
	}
	want := s.others.granted.Load() + s.roots[2].granted.Load() + 2*s.roots[3].granted.Load()
	if got := s.tenants.Stats(); int64(got.Granted) != want || int64(got.Abandoned) != s.others.abandoned.Load() {
		s.Errorf("seed %d, tenants: %+v, want %d granted and %d abandoned", s.seed, got, want, s.others.abandoned.Load())
	}
	time.Sleep(5 * time.Second) // the contexts of all callers end
}

func (s *seen) begin() {
	s.done = make(chan struct{})
	s.rate = gate.NewRate(pace.PerSecond(97), &gate.RateOptions{Burst: 3})
	s.window = gate.NewWindow(13, time.Second, &gate.WindowOptions{UntilAnswer: s.seed%2 == 0})
	s.slots = gate.NewConcurrency(5)
	s.tenants = gate.NewKeyed(func(string) gate.Gate {
		switch s.seed % 3 {
		case 0:
			return gate.NewConcurrency(2)
		case 1:
			return gate.NewRate(pace.PerSecond(20), nil)
		}
		return gate.All(gate.NewRate(pace.PerSecond(20), nil), s.slots)
	}, &gate.KeyedOptions{MaxKeys: 5, Idle: 100 * time.Millisecond, Name: "tenants\n<"})
	inner := gate.All(s.rate, gate.Each(s.slots))
	middle := gate.All(inner, s.window)
	learning := gate.NewAdaptiveConcurrency(6, nil)
	for n, g := range []gate.Gate{inner, middle, gate.All(s.tenants.For("ann\n"), middle), gate.All(s.tenants.For("bob"), s.tenants.For("\xff"), learning)} {
		s.roots = append(s.roots, &root{Gate: gate.Named(fmt.Sprintf("gate\n%d", n), g)})
		s.set.AddGate(g)
	}
	observe.AddKeyed(&s.set, s.tenants, 2)
}

// call makes some entries, one after the other.
func (s *seen) call(r *rand.Rand) {
	for range 40 {
		to, g := &s.others, gate.Gate(s.tenants.For(fmt.Sprint(r.IntN(9))))
		if n := r.IntN(len(s.roots) + 1); n < len(s.roots) {
			to, g = s.roots[n], s.roots[n].Gate
		}
		var pass gate.Pass
		var err error
		var wait time.Duration
		if cost := 1 + r.IntN(2); r.IntN(3) == 0 {
			var ok bool
			if pass, ok = g.TryEnter(cost); !ok {
				err = errNoRoom
			}
		} else {
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+r.IntN(3000))*time.Millisecond)
			stop := time.AfterFunc(time.Duration(r.IntN(1000))*time.Millisecond, cancel)
			begun := time.Now()
			pass, err = g.Enter(ctx, cost)
			wait = time.Since(begun)
			stop.Stop()
			cancel()
		}
		to.entered(err, wait)
		if err != nil {
			continue
		}
		time.Sleep(time.Duration(r.IntN(30)) * time.Millisecond)
		if r.IntN(3) == 0 {
			pass.Settle(r.IntN(3))
		}
		pass.Leave([]error{nil, errors.New("of the work"), gate.Throttled(time.Duration(r.IntN(50))*time.Millisecond, nil)}[r.IntN(3)])
	}
}

// enterToo enters the gate of an event, as a caller.
func (s *seen) enterToo(e gate.Event) {
	if e.Kind != gate.EventAdmitted {
		return
	}
	to := &s.others
	for _, r := range s.roots {
		if r.Gate == e.Gate {
			to = r
		}
	}
	pass, ok := e.Gate.TryEnter(1)
	if !ok {
		to.entered(errNoRoom, 0)
		return
	}
	to.entered(nil, 0)
	pass.Leave(nil)
}

// operate looks at the gates and changes them, until all callers have gone.
func (s *seen) operate(r *rand.Rand) {
	last := make([]gate.Stats, len(s.roots)+1)
	for {
		select {
		case <-s.done:
			return
		case <-time.After(time.Duration(r.IntN(int(30 * time.Millisecond)))):
		}
		n := r.IntN(len(s.roots) + 1)
		now, text := s.tenants.Stats(), s.tenants.String()
		if n < len(s.roots) {
			g := s.roots[n].Gate
			now, _ = gate.StatsOf(g)
			text = fmt.Sprint(g)
			_ = gate.Explain(g, 1).String()
			s.operateOn(g, r)
		} else {
			for _, g := range s.tenants.All() {
				text += fmt.Sprint(g)
				gate.Explain(g)
			}
			s.tenants.Observe([]gate.Observer{nil, gate.ObserverFunc(s.enterToo)}[r.IntN(2)])
		}
		if strings.ContainsAny(text, "\r\n") {
			s.Errorf("seed %d: %q is not one line", s.seed, text)
		}
		if was := last[n]; now.Granted < was.Granted || now.Refused < was.Refused || now.Abandoned < was.Abandoned || now.Waited < was.Waited ||
			now.WaitedInVain < was.WaitedInVain || now.NoRoom < was.NoRoom || now.Forfeited < was.Forfeited {
			s.Errorf("seed %d, gate %d: a count fell: %+v after %+v", s.seed, n, now, was)
		}
		last[n] = now
		if _, err := json.Marshal(s.set.Snapshot()); err != nil {
			s.Error(err)
		}
	}
}

func (s *seen) operateOn(g gate.Gate, r *rand.Rand) {
	switch r.IntN(10) {
	case 0:
		gate.Observe(g, gate.ObserverFunc(s.enterToo))
	case 1:
		gate.Observe(g, nil)
	case 2:
		gate.Track(g, gate.Tracking(r.IntN(3)))
	case 3:
		gate.Hold(g, time.Duration(r.IntN(60))*time.Millisecond)
	case 4:
		gate.Resume(g)
	case 5:
		gate.LabelWaits(r.IntN(2) == 0)
	case 6:
		s.slots.SetLimit(2 + r.IntN(9))
	case 7:
		s.rate.SetRate(pace.PerSecond(1 + r.IntN(300)))
	case 8:
		s.rate.SetBurst(2 + r.IntN(9))
	default:
		s.window.SetLimit(2+r.IntN(20), time.Second)
	}
}
