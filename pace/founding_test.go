package pace_test

import (
	"slices"
	"testing"
	"time"

	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

const ms = time.Millisecond

// take receives all tokens that are there, without waiting.
func take(p *pace.Pacer) (due []time.Time) {
	for {
		select {
		case t := <-p.C:
			due = append(due, t)
		default:
			return due
		}
	}
}

// Founding problem 4: the token channel. At most b tokens, one more every span/n, and
// after any idle time exactly b, not b+1 or b+2.
func TestFounding4_TokenChannel(t *testing.T) {
	for _, burst := range []int{1, 2, 5} {
		bubble.Both(t, func(b *bubble.B) {
			p := pace.New(pace.Per(5, 10*time.Second), &pace.Options{Burst: burst, Clock: b.Clock()})
			defer p.Stop()
			for _, idle := range []time.Duration{0, time.Hour, 20 * time.Second, 30*time.Second + 7, 24 * 365 * time.Hour} {
				b.Advance(idle)
				if got := take(p); len(got) != burst {
					b.Fatalf("burst %d: %d tokens after %v", burst, len(got), idle)
				}
				began := b.Now()
				for i := 1; i <= 3; i++ {
					due := began + time.Duration(i)*2*time.Second
					b.AdvanceTo(due - 1)
					if got := take(p); len(got) != 0 {
						b.Fatalf("burst %d: token at %v, %v before it is due", burst, b.Now(), due-b.Now())
					}
					b.AdvanceTo(due)
					got := take(p)
					if len(got) != 1 || !got[0].Equal(b.Time()) {
						b.Fatalf("burst %d: %v at %v, want one token due now", burst, got, b.Time())
					}
				}
			}
		})
	}
}

// A caller that waits in a loop gets each token at the instant it is due.
func TestFounding4_Select(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		p := pace.New(pace.PerSecond(7), &pace.Options{Clock: b.Clock()})
		defer p.Stop()
		var at, want []time.Duration
		quit, done := make(chan bool), make(chan bool)
		go func() {
			defer close(done)
			for {
				select {
				case <-p.C:
					at = append(at, b.Now())
				case <-quit:
					return
				}
			}
		}()
		b.Advance(3 * time.Second)
		close(quit)
		<-done
		for k := range 22 {
			want = append(want, time.Duration((int64(k)*int64(time.Second)+6)/7))
		}
		if !slices.Equal(at, want) {
			b.Errorf("received at\n%v, want\n%v", at, want)
		}
	})
}
