//go:build unix

package redisgate_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/gate/redisgate"
	"github.com/escapement-go/escapement/pace"
)

// A process with other limits is turned away at once, with both in the error, and has changed nothing.
func TestOtherLimits(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	k := key()
	first := member(t, s, k, redisgate.Limits{redisgate.Strict(100, time.Minute, nil)}, nil)
	other := member(t, s, k, redisgate.Limits{redisgate.Strict(200, time.Minute, nil)}, nil)
	enter(t, first, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := other.Enter(ctx, 1)
	var e *redisgate.LimitsError
	if !errors.As(err, &e) || !strings.Contains(err.Error(), "a Strict of 100 per 1m0s") || !strings.Contains(err.Error(), "a Strict of 200 per 1m0s") {
		t.Errorf("an entry with other limits gets %v, want a *LimitsError that says both", err)
	}
	if _, ok := other.TryEnter(1); ok {
		t.Error("TryEnter has let an entry in by other limits")
	}
	horizon := member(t, s, k, redisgate.Limits{redisgate.Strict(100, time.Minute, nil)}, &redisgate.Options{Horizon: 2 * time.Second})
	if _, err := horizon.Enter(ctx, 1); !errors.As(err, &e) {
		t.Errorf("an entry with another horizon gets %v, want a *LimitsError", err)
	}
}

// While processes of two versions are about, all go by the lower of both limits, whichever of them is older, and neither
// is locked out. A change that can not be made like that is an error.
func TestLimitsChanged(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	window := func(n int) redisgate.Limit { return redisgate.Window(n, time.Minute, nil) }
	every := func(d time.Duration) redisgate.Limit {
		return redisgate.Rate(pace.Every(d), &redisgate.RateOptions{Burst: 9, Slack: time.Second})
	}
	for name, c := range map[string]struct {
		older, newer redisgate.Limits
		room         int // at once, for both together
	}{
		"a window made narrower": {redisgate.Limits{window(9)}, redisgate.Limits{window(5)}, 5},
		"a window made wider":    {redisgate.Limits{window(5)}, redisgate.Limits{window(9)}, 5},
		"a burst made larger": {redisgate.Limits{redisgate.Rate(pace.Every(time.Hour), &redisgate.RateOptions{Burst: 3, Slack: time.Second})},
			redisgate.Limits{redisgate.Rate(pace.Every(time.Hour), &redisgate.RateOptions{Burst: 7, Slack: time.Second})}, 3},
		"a rate made lower": {redisgate.Limits{every(time.Minute)}, redisgate.Limits{every(time.Hour)}, 9},
		"a limit added":     {redisgate.Limits{window(6)}, redisgate.Limits{window(6), redisgate.Window(4, time.Hour, nil)}, 6},
		"fewer units":       {redisgate.Limits{redisgate.Concurrency(9, nil)}, redisgate.Limits{redisgate.Concurrency(4, nil)}, 4},
	} {
		k := key()
		older := member(t, s, k, c.older, nil)
		enter(t, older, 1)
		newer := member(t, s, k, c.newer, &redisgate.Options{Version: 1})
		got := 1
		for i := range 20 {
			if _, ok := []*redisgate.Gate{newer, older}[i%2].TryEnter(1); ok {
				got++
			}
		}
		if got != c.room {
			t.Errorf("%s: %d are let in at once, want %d", name, got, c.room)
		}
	}
	for name, c := range map[string]struct{ older, newer redisgate.Limit }{
		"another span":  {window(5), redisgate.Window(5, time.Hour, nil)},
		"another guard": {window(5), redisgate.Window(5, time.Minute, &redisgate.WindowOptions{Guard: 20 * ms})},
		"another kind":  {window(5), redisgate.Strict(5, time.Minute, nil)},
		"another TTL":   {redisgate.Concurrency(5, nil), redisgate.Concurrency(5, &redisgate.ConcurrencyOptions{TTL: time.Minute})},
	} {
		k := key()
		enter(t, member(t, s, k, redisgate.Limits{c.older}, nil), 1)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		_, err := member(t, s, k, redisgate.Limits{c.newer}, &redisgate.Options{Version: 1}).Enter(ctx, 1)
		cancel()
		if e := (*redisgate.LimitsError)(nil); !errors.As(err, &e) {
			t.Errorf("%s: %v, want a *LimitsError", name, err)
		}
	}
}

// The new limit counts when the old version has gone for ten horizons, and an older version yet is turned away.
func TestOldVersionGone(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	k, short := key(), 100*ms
	version := func(v, n int) *redisgate.Gate {
		return member(t, s, k, redisgate.Limits{redisgate.Window(n, time.Minute, nil)}, &redisgate.Options{Version: v, Horizon: short})
	}
	zero, one, two := version(0, 3), version(1, 6), version(2, 9)
	enter(t, zero, 3)
	if _, ok := one.TryEnter(1); ok {
		t.Error("let in by a limit of 6, while there is one of 3")
	}
	time.Sleep(17 * short)
	enter(t, one, 3)
	if _, ok := two.TryEnter(3); ok {
		t.Error("let in by a limit of 9, while there is one of 6")
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := zero.Enter(ctx, 1); err == nil || errors.As(err, new(*gate.DeadlineError)) {
		t.Errorf("two versions back: %v, want a *LimitsError", err)
	}
	time.Sleep(17 * short)
	enter(t, two, 3)
}

// Processes of two versions stay about while an entry waits in each, whatever its limit has it wait, or holds a unit. The
// other version goes by the lower of both limits for as long, and its own counts soon after.
func TestOlderVersionWaits(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(4 * time.Second)
	const horizon = 50 * ms // a lease of units is renewed each second
	window := func(n int) redisgate.Limit { return redisgate.Window(n, 20*time.Second, nil) }
	units := func(n int) redisgate.Limit {
		return redisgate.Concurrency(n, &redisgate.ConcurrencyOptions{TTL: 3 * time.Second})
	}
	for name, c := range map[string]struct {
		older, newer redisgate.Limit
		newerFirst   bool // the entry that waits is of the newer version
		after        int  // how many the other version lets in once no entry waits
	}{
		"the older one waits":            {window(3), window(9), false, 6},
		"the newer one waits":            {window(9), window(3), true, 0},
		"the older one waits for a unit": {units(3), units(9), false, 6},
		"the newer one waits for a unit": {units(9), units(3), true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := key()
			version := func(l redisgate.Limit, v int) *redisgate.Gate {
				return member(t, s, k, redisgate.Limits{l}, &redisgate.Options{Version: v, Horizon: horizon})
			}
			waits, tries := version(c.older, 0), version(c.newer, 1)
			if c.newerFirst {
				waits, tries = tries, waits
			}
			enter(t, waits, 3)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				waits.Enter(ctx, 1)
			}()
			within(t, 5*time.Second, "an entry waits", func() bool { return waits.Stats().Waiting == 1 })
			let := func(span time.Duration) (n int) {
				for began := time.Now(); time.Since(began) < span; time.Sleep(20 * ms) {
					if _, ok := tries.TryEnter(1); ok {
						n++
					}
				}
				return n
			}
			if over := let(40 * horizon); over > 0 {
				t.Errorf("3 is the lower of both limits, and there were %d more, while an entry of the other version waits", over)
			}
			cancel()
			<-done
			if over := let(9 * horizon); over > 0 {
				t.Errorf("3 is the lower of both limits, and there were %d more within ten horizons", over)
			}
			if c.older == window(3) || c.newerFirst {
				n := 0
				for began := time.Now(); n < c.after && time.Since(began) < patience; {
					n += let(horizon)
				}
				if n += let(5 * horizon); n != c.after {
					t.Errorf("%d more, want %d once the other version has gone", n, c.after)
				}
			}
		})
	}
}

// An entry that waits by the limit of the older version goes by its own when that has gone. A message says which version
// there is, also where the entry has waited before the other version came.
func TestNewerVersionWaits(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(3 * time.Second)
	k := key()
	version := func(v, n int) *redisgate.Gate {
		return member(t, s, k, redisgate.Limits{redisgate.Window(n, time.Minute, nil)}, &redisgate.Options{Version: v, Horizon: 100 * ms})
	}
	enter(t, version(0, 3), 3)
	began, took := time.Now(), make(chan time.Duration)
	newer := version(1, 9)
	go func() {
		newer.Enter(t.Context(), 1)
		took <- time.Since(began)
	}()
	select {
	case d := <-took:
		if d < time.Second {
			t.Errorf("an entry of the newer version went after %v, want at least ten horizons", d)
		}
	case <-time.After(patience):
		t.Error("an entry of the newer version still waits by the limit of the older one")
	}
}

// Where the state has run out, the version before is not turned away.
func TestOlderVersionComesLater(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(3 * time.Second)
	k := key()
	rate := func(burst int) redisgate.Limit {
		return redisgate.Rate(pace.Every(time.Hour), &redisgate.RateOptions{Burst: burst, Slack: time.Second})
	}
	newer := member(t, s, k, redisgate.Limits{rate(9)}, &redisgate.Options{Version: 1})
	older := member(t, s, k, redisgate.Limits{rate(4)}, nil)
	got := 0
	enter(t, newer, 1)
	for i := range 20 {
		if _, ok := []*redisgate.Gate{newer, older}[i%2].TryEnter(1); ok {
			got++
		}
	}
	if got != 3 {
		t.Errorf("%d more are let in at once, want 3", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := older.Enter(ctx, 1); errors.As(err, new(*redisgate.LimitsError)) {
		t.Errorf("the version before gets %v", err)
	}
}

// What the newer of two releases has let in by a limit that the older one does not have stays, however the older one
// enters.
func TestOlderReleaseErasesNothing(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(12 * time.Second)
	rate := redisgate.Rate(pace.PerSecond(1000), &redisgate.RateOptions{Burst: 9, Slack: time.Second})
	k := key()
	older := member(t, s, k, redisgate.Limits{rate}, nil)
	newer := member(t, s, k, redisgate.Limits{rate, redisgate.Window(5, time.Minute, nil)}, &redisgate.Options{Version: 1})
	got, beside := 0, 0
	for range 20 {
		if _, ok := newer.TryEnter(1); ok {
			got++
		}
		time.Sleep(50 * ms)
		if _, ok := older.TryEnter(1); ok {
			beside++
		}
	}
	if got != 5 || beside != 20 {
		t.Errorf("the newer release let in %d, where 5 may go, and the older one %d of 20", got, beside)
	}
	// Nor does it shorten the life of units that it knows nothing of.
	k = key()
	both := redisgate.Limits{rate, redisgate.Concurrency(1, nil)}
	next := &redisgate.Options{Version: 1}
	a, b, older := member(t, s, k, both, next), member(t, s, k, both, next), member(t, s, k, redisgate.Limits{rate}, nil)
	enter(t, older, 1)
	enter(t, a, 1)
	time.Sleep(50 * ms)
	enter(t, older, 1)
	if ttl := s.client().PTTL(context.Background(), "{"+k+"}:gate").Val(); ttl < 5*time.Second {
		t.Errorf("the key of a unit that is in use lives for %v", ttl)
	}
	if _, ok := b.TryEnter(1); ok {
		t.Error("two entries hold the one unit")
	}
}
