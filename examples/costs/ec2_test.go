package costs_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
)

// bucket holds tokens by the nanotoken, and gets so many a second.
type bucket struct {
	size, perSecond int64 // tokens
	level           int64 // nanotokens
	last            time.Duration
	taken           int64 // tokens
}

func newBucket(size, perSecond int64) *bucket {
	return &bucket{size: size, perSecond: perSecond, level: size * 1e9}
}

// has reports whether there are n tokens at the instant now.
func (b *bucket) has(now time.Duration, n int) bool {
	b.level = min(b.level+int64(now-b.last)*b.perSecond, b.size*1e9)
	b.last = now
	return b.level >= int64(n)*1e9
}

func (b *bucket) take(n int) {
	b.level -= int64(n) * 1e9
	b.taken += int64(n)
}

// used returns the share of the tokens that there have been until now.
func (b *bucket) used(now time.Duration) float64 {
	return float64(b.taken) / (float64(b.size) + float64(b.perSecond)*now.Seconds())
}

// ec2 has two limits of the EC2 API: a bucket of 100 calls and 20 more a second, and one of 1,000 instances and 2
// more a second. A call takes up to 30 ms to arrive.
type ec2 struct {
	epoch time.Time

	mu               sync.Mutex // guards what is below
	calls, instances *bucket
	refused          int
}

func newEC2() *ec2 {
	return &ec2{epoch: time.Now(), calls: newBucket(100, 20), instances: newBucket(1000, 2)}
}

// call makes a call that runs so many instances.
func (s *ec2) call(instances int) {
	time.Sleep(rand.N(30 * time.Millisecond))
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Since(s.epoch)
	calls, enough := s.calls.has(now, 1), s.instances.has(now, instances)
	if !calls || !enough {
		s.refused++
		return
	}
	s.calls.take(1)
	s.instances.take(instances)
}

// Of 12 loops each makes call after call for 20 minutes. No call is refused, and of each limit that binds at
// least 97 % are used.
//
// The gates leave room for what arrives late and next to what left later: the jitter and the slack, times the
// rate.
func TestEC2(t *testing.T) {
	const lasts = 20 * time.Minute
	for _, tt := range []struct {
		name             string
		describe, run    int  // loops of calls without instances, and with 1 to 40 of them
		calls, instances bool // bind
	}{
		{"instances", 0, 12, false, true},
		{"calls", 12, 0, true, false},
		{"both, each by the calls that want it", 6, 6, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := newEC2()
				limit := gate.All(
					gate.NewRate(pace.PerSecond(20), &gate.RateOptions{Burst: 100 - 3}), // 20/s × 130 ms, rounded up
					gate.NewRate(pace.PerSecond(2), &gate.RateOptions{Burst: 1000 - 1}), // 2/s × 130 ms, rounded up
				)
				ctx, cancel := context.WithTimeout(t.Context(), lasts)
				defer cancel()
				var loops sync.WaitGroup
				for i := range tt.describe + tt.run {
					loops.Go(func() {
						for j := range 1_000_000 {
							instances := 0
							if i >= tt.describe {
								instances = 1 + (i+j)*7%40
							}
							pass, err := limit.EnterEach(ctx, 1, instances)
							if err != nil {
								return // it would be admitted after the end
							}
							api.call(instances)
							pass.Leave(nil)
						}
					})
				}
				loops.Wait()
				calls, instances := api.calls.used(lasts), api.instances.used(lasts)
				t.Logf("%d calls, %.1f %% of what was possible; %d instances, %.1f %%",
					api.calls.taken, 100*calls, api.instances.taken, 100*instances)
				if api.refused != 0 {
					t.Errorf("%d refused", api.refused)
				}
				if tt.calls && calls < 0.97 || tt.instances && instances < 0.97 {
					t.Error("want at least 97 % of what binds")
				}
			})
		})
	}
}
