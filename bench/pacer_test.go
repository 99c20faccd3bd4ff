package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/escapement-go/escapement/bench/measure"
	"github.com/escapement-go/escapement/pace"
)

// hop receives n times from a channel that another goroutine does nothing but send to.
func hop(buffer int) loop {
	return func(n int) {
		c := make(chan time.Time, buffer)
		go func() { // ends when all have been received
			for range n {
				c <- epoch
			}
		}()
		for range n {
			<-c
		}
	}
}

// stamped is hop with values that tell when they were sent, as a pacer's and a ticker's do.
func stamped(buffer int) loop {
	return func(n int) {
		c := make(chan time.Time, buffer)
		go func() { // likewise
			for range n {
				c <- time.Now()
			}
		}()
		for range n {
			<-c
		}
	}
}

// stoppable is hop from a goroutine that can be stopped at any time.
func stoppable(buffer int) loop {
	return func(n int) {
		c, stop := make(chan time.Time, buffer), make(chan struct{})
		go func() { // likewise
			for range n {
				select {
				case c <- epoch:
				case <-stop:
					return
				}
			}
		}()
		for range n {
			<-c
		}
	}
}

// BenchmarkPacer is one token received from a pacer without a limit, so that only the channel
// counts. It is compared with a hop over a channel of the same kind: with a burst of 1, one without
// a buffer. A token tells when it was due. A hop of values that tell when they were sent has that
// cost without a pacer. A sender that can be stopped must select, which is a hop that can be
// stopped. A time.Ticker that should tick every ns is beside it.
func BenchmarkPacer(b *testing.B) {
	for _, burst := range []int{1, 64} {
		b.Run(fmt.Sprintf("burst=%d/by=escapement", burst), func(b *testing.B) {
			p := pace.New(pace.Unlimited(), &pace.Options{Burst: burst})
			defer p.Stop()
			receive := func(n int) {
				for range n {
					<-p.C
				}
			}
			b.ReportAllocs()
			receive(b.N)
			against(b, "×hop", hop(burst-1), receive)
			against(b, "×stamped-hop", stamped(burst-1), receive)
			against(b, "×stoppable-hop", stoppable(burst-1), receive)
		})
		b.Run(fmt.Sprintf("burst=%d/by=channel", burst), func(b *testing.B) {
			b.ReportAllocs()
			hop(burst - 1)(b.N)
		})
		b.Run(fmt.Sprintf("burst=%d/by=channel-stamped", burst), func(b *testing.B) {
			b.ReportAllocs()
			stamped(burst - 1)(b.N)
		})
		b.Run(fmt.Sprintf("burst=%d/by=channel-stoppable", burst), func(b *testing.B) {
			b.ReportAllocs()
			stoppable(burst - 1)(b.N)
		})
	}
	b.Run("burst=1/by=time-Ticker", func(b *testing.B) {
		t := time.NewTicker(1)
		defer t.Stop()
		b.ReportAllocs()
		for range b.N {
			<-t.C
		}
	})
}

// BenchmarkPacerIdle is 100 ms in which no token is taken from 1,000 pacers at 1,000 a second each,
// and the processor time of that; and the same for tickers.
func BenchmarkPacerIdle(b *testing.B) {
	const many, perSecond = 1000, 1000
	idle := func(b *testing.B) {
		time.Sleep(20 * time.Millisecond) // until the first tokens are there
		from, known := measure.CPU()
		b.ResetTimer()
		for range b.N {
			time.Sleep(100 * time.Millisecond)
		}
		b.StopTimer()
		if to, _ := measure.CPU(); known {
			b.ReportMetric((to-from).Seconds()*1000/b.Elapsed().Seconds(), "cpu-ms/s")
		}
	}
	b.Run("by=escapement", func(b *testing.B) {
		for range many {
			defer pace.New(pace.PerSecond(perSecond), nil).Stop()
		}
		idle(b)
	})
	b.Run("by=time-Ticker", func(b *testing.B) {
		for range many {
			defer time.NewTicker(time.Second / perSecond).Stop()
		}
		idle(b)
	})
}
