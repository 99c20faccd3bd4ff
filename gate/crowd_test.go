package gate_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// A crowd whose arrivals tie with due instants, at a Rate, at composites of it and at a key: the bound, all counts, the
// waits, and the instants of all grants.
func TestRateCrowd(t *testing.T) {
	for c := range 200 {
		seed := uint64(c)
		for _, mock := range []bool{false, true} {
			run := bubble.Real
			if mock {
				run = bubble.Mock
			}
			t.Run(fmt.Sprint(seed, mock), func(t *testing.T) { run(t, func(b *bubble.B) { rateCrowd(b, seed) }) })
		}
	}
}

func rateCrowd(b *bubble.B, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	n := []int{1, 2, 3, 7, 10, 97, 1000, 1009}[r.IntN(8)]
	span := []time.Duration{time.Second, 7 * time.Millisecond, time.Second + 1, 3 * time.Nanosecond * 1009, time.Minute}[r.IntN(5)]
	burst := []int{1, 1, 2, 5, 13}[r.IntN(5)]
	rate := pace.Per(n, span)
	g := gate.NewRate(rate, &gate.RateOptions{Burst: burst, Clock: b.Clock()})
	var via gate.Gate = g
	kind := r.IntN(4)
	var keyed *gate.Keyed[string]
	switch kind {
	case 1:
		via = gate.All(g)
	case 2:
		via = gate.All(g, gate.NewConcurrency(1<<20))
	case 3:
		k := gate.NewKeyed(func(string) gate.Gate { return g }, &gate.KeyedOptions{Clock: b.Clock()})
		via, keyed = k.For("a"), k
	}
	workers := 1 + r.IntN(20)
	per := 1 + r.IntN(4)
	iv := span / time.Duration(n)
	if iv < 1 {
		iv = 1
	}
	type rec struct {
		at, got time.Duration
		err     error
		try     bool
		set     bool
	}
	var mu sync.Mutex
	var recs []rec
	var wg sync.WaitGroup
	for range workers {
		sleeps := make([]time.Duration, per)
		var kinds []int
		var outs []time.Duration
		for i := range sleeps {
			sleeps[i] = time.Duration(r.IntN(4)) * iv
			if r.IntN(5) == 0 {
				sleeps[i] += time.Duration(r.IntN(3) - 1)
				sleeps[i] = max(sleeps[i], 0)
			}
			k := 0
			if seed%3 == 1 && r.IntN(4) == 0 {
				k = 1
			}
			if seed%3 == 2 {
				k = r.IntN(4)
			}
			kinds = append(kinds, k)
			outs = append(outs, time.Duration(r.IntN(6))*iv)
		}
		wg.Go(func() {
			for i, s := range sleeps {
				if s > 0 {
					b.Sleep(s)
				}
				x := rec{at: b.Now()}
				switch kinds[i] {
				case 0:
					_, x.err = leftPass(via.Enter(context.Background(), 1))
				case 1:
					x.try = true
					p, ok := via.TryEnter(1)
					if ok {
						p.Leave(nil)
					} else {
						x.err = errors.New("refused")
					}
				case 2:
					ctx, cancel := context.WithCancel(context.Background())
					var in sync.WaitGroup
					in.Go(func() {
						if outs[i] > 0 {
							b.Sleep(outs[i])
						}
						cancel()
					})
					_, x.err = leftPass(via.Enter(ctx, 1))
					x.got, x.set = b.Now(), true
					in.Wait()
				case 3:
					ctx, cancel := b.WithTimeout(outs[i] + 1)
					_, x.err = leftPass(via.Enter(ctx, 1))
					cancel()
				}
				if !x.set {
					x.got = b.Now()
				}
				mu.Lock()
				recs = append(recs, x)
				mu.Unlock()
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
loop:
	for i := 0; ; i++ {
		b.Settle()
		select {
		case <-done:
			break loop
		default:
		}
		b.Advance(max(iv, 1))
		if i > 1e6 {
			b.Fatal("hangs")
		}
	}
	// The mock clock advances in steps, so grants may be late there, and the slack counts.
	var got []time.Duration
	var granted, refused, abandoned uint64
	var waited, vain time.Duration
	for _, x := range recs {
		switch {
		case x.err == nil:
			granted++
			got = append(got, x.got)
			waited += x.got - x.at
		case x.try:
			refused++
		default:
			var d *gate.DeadlineError
			if errors.As(x.err, &d) {
				refused++
				vain += x.got - x.at
			} else {
				abandoned++
				vain += x.got - x.at
			}
		}
	}
	slices.Sort(got)
	_, isMock := b.Clock().(interface{ Add(time.Duration) })
	slack := time.Duration(0)
	if isMock {
		slack = 100 * time.Millisecond
	}
	for i := range got {
		for j := i; j < len(got); j++ {
			k := j - i + 1 - burst
			if k <= 0 {
				continue
			}
			if float64(k) > float64(n)*float64(got[j]-got[i]+slack)/float64(span)+1e-9+float64(n)/float64(span)*1.0 {
				b.Errorf("seed %d: %d/%v burst %d: %d grants in %v", seed, n, span, burst, j-i+1, got[j]-got[i])
				return
			}
		}
	}
	s, _ := gate.StatsOf(via)
	m := g.Stats()
	if kind == 3 {
		s = keyed.Stats()
		s.Idle = false
	}
	if kind != 0 {
		m = s
	}
	for _, s := range []gate.Stats{s, m} {
		if s.Granted != granted || s.Refused != refused || s.Abandoned != abandoned || s.Waiting != 0 || s.Longest != 0 || s.InUse != 0 {
			b.Errorf("seed %d kind %d: %+v; want granted %d refused %d abandoned %d", seed, kind, s, granted, refused, abandoned)
		}
		if s.Waited != waited || s.WaitedInVain != vain {
			b.Errorf("seed %d kind %d mock %v: waited %v in vain %v; want %v %v", seed, kind, isMock, s.Waited, s.WaitedInVain, waited, vain)
		}
	}
	// If no caller gives up, each grant on the real clock is that of a greedy bucket.
	if seed%3 == 0 && !isMock {
		at := make([]time.Duration, 0, len(recs))
		for _, x := range recs {
			at = append(at, x.at)
		}
		slices.Sort(at)
		// level counts in parts of a token, span of which are one.
		level := int64(burst) * int64(span)
		now := time.Duration(0)
		full := level
		for i, a := range at {
			if a > now {
				// A full bucket keeps what has come within the present nanosecond: it may have been due in its course.
				if level += int64(a-now) * int64(n); level >= full+int64(n) {
					level = full
				}
				now = a
			}
			if level < int64(span) {
				need := int64(span) - level
				d := (need + int64(n) - 1) / int64(n)
				level += d * int64(n)
				now += time.Duration(d)
			}
			level -= int64(span)
			if got[i] != now {
				b.Errorf("seed %d kind %d: grant %d of %d at %v, model %v (%d/%v burst %d)", seed, kind, i, len(at), got[i], now, n, span, burst)
				return
			}
		}
	}
}

func leftPass(p gate.Pass, err error) (gate.Pass, error) {
	if err == nil {
		p.Leave(nil)
	}
	return p, err
}
