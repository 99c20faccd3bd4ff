package main

import (
	"strings"
	"testing"
	"time"

	"github.com/escapement-go/escapement/examples/strictapi"
	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
	"github.com/escapement-go/escapement/retry"
)

func TestJournal(t *testing.T) {
	t.Parallel()
	j := newJournal(&options{rate: pace.PerSecond(1000)})
	if j.width != 10*time.Millisecond {
		t.Errorf("bins of %v, want 10ms", j.width)
	}
	g := gate.NewAdaptive(pace.PerSecond(1000), nil)
	const n = 10000
	for i := range n {
		j.add(&result{Status: 200, Start: j.begun.Add(time.Duration(i) * time.Millisecond)}, g)
	}
	sum := 0
	for i, b := range j.bins {
		sum += b.started
		if full := int(j.width / time.Millisecond); b.started != full && i < len(j.bins)-1 || b.interval != time.Millisecond {
			t.Errorf("bin %d of %d: %+v, want %d and 1ms", i, len(j.bins), b, full)
		}
	}
	if sum != n || j.attempts != n || len(j.bins) > mostBins || j.throttles != 0 {
		t.Errorf("%d in %d bins, %d attempts", sum, len(j.bins), j.attempts)
	}
}

// Spans that overlap count once, and one that is not over counts as far as it has come.
func TestJournalHeld(t *testing.T) {
	t.Parallel()
	j := newJournal(&options{rate: pace.PerSecond(1)})
	g := gate.NewAdaptive(pace.PerSecond(1), nil)
	at := func(s float64) time.Time { return j.begun.Add(time.Duration(s * float64(time.Second))) }
	for _, c := range []struct {
		at    float64
		after time.Duration
	}{{0, 2 * time.Second}, {1, 2 * time.Second}, {1.5, time.Second}, {10, 0}, {20, 4 * time.Second}} {
		j.add(&result{Status: 429, verdict: retry.VerdictThrottle, after: c.after, Start: at(c.at)}, g)
	}
	if got := j.heldFor(at(21)); got != 4*time.Second || j.throttles != 5 {
		t.Errorf("held for %v by %d, want 4s by 5", got, j.throttles)
	}
}

func TestGoodput(t *testing.T) {
	t.Parallel()
	var log []strictapi.Arrival
	for i := range 1001 { // 10 a second for 100 s, of which each tenth is refused
		a := strictapi.Arrival{At: time.Second + time.Duration(i)*100*time.Millisecond, Status: 200}
		if i%10 == 5 {
			a.Status = 429
		}
		log = append(log, a)
	}
	eras := []era{{0, pace.PerSecond(10)}, {51 * time.Second, pace.PerSecond(5)}, {101 * time.Second, pace.PerSecond(1)}}
	want := "9.01/s, 120.1 % of the 7.50/s that the server would have let through; throttled: 10.0 %"
	if got := newGoodput(log, eras, time.Second).String(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	got := newGoodput(log, eras, 100*time.Millisecond)
	if got.skipped != 20*time.Second || got.span != 80*time.Second || got.calls != 801 || got.allowed != 550 {
		t.Errorf("%+v", got)
	}
	if got := newGoodput(nil, eras, time.Second).String(); got != "-" {
		t.Errorf("%s for no calls", got)
	}
}

func TestEras(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, want string }{
		{"", "0s 100/s"},
		{"-api-limit none", ""},
		{"-api-mood below", "0s 60/s"},
		{"-api-mood change", "0s 100/s, 2.5s 50/s, 5s 100/s"},
		{"-api-mood change,below,slow", "0s 60/s, 4.166666666s 30/s, 8.333333332s 60/s"},
		{"-api-limit 5/10s -api-mood below", "0s 3/10s"},
	} {
		o, err := parse(strings.Fields(c.args), nil)
		if err != nil {
			t.Errorf("%q: %v", c.args, err)
			continue
		}
		var all []string
		for _, e := range o.api.eras(500) {
			all = append(all, e.from.String()+" "+e.limit.String())
		}
		if got := strings.Join(all, ", "); got != c.want {
			t.Errorf("%q: %s, want %s", c.args, got, c.want)
		}
	}
	// Only where a 429 can't be foreseen is one forgiven.
	for moods, lenient := range map[string]bool{"503,drop,slow": false, "below": true, "slow,change": true} {
		o, err := parse([]string{"-api-mood", moods}, nil)
		if err != nil || (o.api.ban().Grace > 0) != lenient {
			t.Errorf("%s: %v, a ban of %+v", moods, err, o.api.ban())
		}
	}
}
