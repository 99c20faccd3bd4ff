package pace

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/escapement-go/escapement/internal/misuse"
	"github.com/escapement-go/escapement/internal/schedule"
	"github.com/escapement-go/escapement/internal/timing"
)

// Pacer hands out the tokens of a rate through a channel. Use one to wait, in one select, for the
// next token and for other things. Make it with [New], and [Pacer.Stop] it when it is no longer
// needed: until then a goroutine feeds the channel.
//
// All methods can be called from any goroutine. Where callers wait in order, or have costs or
// deadlines, use the gates of package gate instead.
//
// # The bound
//
// After any idle time exactly Burst tokens are there. Until one is taken, no more come, and
// nothing runs. The next one comes an interval after that.
//
// So in any window of length w, at most Burst + rate·(w + Slack) tokens are granted, to any number of
// receivers. A token counts from when the pacer saw that it was due, or that it had been taken. If
// the system stops the pacer before the token is received, the next one can follow sooner.
//
// # Slow receivers
//
// The pacer makes up for its own lateness. It can't know how long a receiver waited for a
// processor. With a Burst of 1, a receiver that is away for longer than an interval misses tokens.
// At intervals of a few tens of microseconds or less, every receiver does. There, set Burst to the
// number of intervals in such a delay, to keep the rate.
type Pacer struct {
	// C gives one value per token: the instant at which the token was due, which is never in the
	// future. C is never closed, because a closed channel would give tokens without end. A stopped
	// pacer gives none.
	C <-chan time.Time

	c     chan time.Time // the feeder sends; room for Burst-1, because the feeder holds one more
	clk   *timing.Clock
	exact timing.Precision
	state schedule.Schedule // owned by the feeder: when the next token comes up, one by one
	timer *timing.Timer     // owned by the feeder
	done  chan struct{}     // closed by the feeder when it has ended

	mu      sync.Mutex  // held for the whole of a call
	asked   atomic.Bool // set by a goroutine before it hands a call to the feeder, which unsets it
	calls   chan call   // run by the feeder, which always takes them before long
	stopped bool        // guarded by mu; the feeder writes it while the caller of Stop holds mu
}

// call is what the feeder does between two tokens, for another goroutine.
type call struct {
	f     func()
	ran   chan struct{} // closed when f has run
	freed bool          // a token was received to free the feeder, which must put it back
	token time.Time     // that token
}

// maxBurst is the largest Burst of a Pacer. Its channel takes 400 MB.
const maxBurst = 1 << 24

// New returns a pacer for the given rate that starts with Burst tokens. It panics on the zero Rate,
// on an unknown precision, and on a negative burst. It also panics on a burst above 2^24, because
// each token of it takes memory.
func New(r Rate, o *Options) *Pacer {
	if o == nil {
		o = &Options{}
	}
	misuse.Options("pace: New", r.Valid(), o.Burst, int(o.Precision))
	if o.Burst > maxBurst {
		panic(fmt.Sprintf("pace: New: Burst must be at most %d, got %d", maxBurst, o.Burst))
	}
	p := &Pacer{
		c:     make(chan time.Time, max(o.Burst, 1)-1),
		clk:   timing.New(o.Clock),
		exact: timing.Precision(o.Precision),
		state: schedule.New(int64(r.Count()), int64(r.Span()), 1, int64(o.Slack)),
		calls: make(chan call),
		done:  make(chan struct{}),
	}
	p.C = p.c
	p.timer = timing.NewTimer(p.clk)
	p.timer.Tune(p.exact, int64(r.Interval()), p.state.Slack())
	now := p.clk.Now()
	for range cap(p.c) {
		p.c <- p.clk.Time(now)
	}
	go p.feed(now)
	return p
}

// SetRate changes the rate at once. Tokens that are there stay, and so does the fraction of the next
// one. On a stopped pacer it does nothing. It panics on the zero Rate.
func (p *Pacer) SetRate(r Rate) {
	misuse.Rate("pace: Pacer.SetRate", r.Valid())
	p.call(func() {
		p.state.SetRate(p.clk.Now(), int64(r.Count()), int64(r.Span()))
		p.timer.Tune(p.exact, int64(r.Interval()), p.state.Slack())
	})
}

// Hold takes back the tokens that are there and grants none until d from now. Use it when the far
// side asks for a pause, as with a Retry-After.
//
// At the end of the hold at most one token is there, and no more than without the hold. The others
// come at the rate, so there is no burst.
//
// Hold never shortens a hold. It does nothing if d is not positive or the pacer is stopped.
func (p *Pacer) Hold(d time.Duration) {
	if d <= 0 {
		return
	}
	p.call(func() {
		now := p.clk.Now()
		if p.drain() {
			p.state.Fill(now) // at the end of the hold, one of the tokens that were there is there again
		}
		p.state.Hold(now, timing.Later(now, d))
	})
}

// Resume ends a hold now. From then on the pacer is as at the end of a hold. One token is there, or as
// much of one as there would be without the hold, and the others come at the rate. The other tokens that
// Hold took back do not return.
//
// Without a hold, and on a stopped pacer, it does nothing.
func (p *Pacer) Resume() {
	p.call(func() { p.state.Resume(p.clk.Now()) })
}

// Stop ends the pacer. When it returns, the goroutine that fed the channel has ended. No token
// comes any more, not even those that were there. C stays open. Calling it again does nothing.
func (p *Pacer) Stop() {
	p.call(func() {
		p.stopped = true
		p.drain()
	})
	<-p.done
}

// call has the feeder run f, unless the pacer is stopped.
//
// A select of the sending and the calls would cost the feeder more than all its other work for a
// token. So it sends, and looks for a call after that. While no receiver takes the token, the
// caller takes it to free the feeder, and has it put back.
func (p *Pacer) call(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return
	}
	c := call{f: f, ran: make(chan struct{})}
	p.asked.Store(true)
	select {
	case p.calls <- c:
	case c.token = <-p.c:
		c.freed = true
		p.calls <- c // one token is enough: from here on the feeder has room for the next
	}
	<-c.ran
}

// run runs a call, in the feeder.
func (p *Pacer) run(c call) {
	p.asked.Store(false)
	c.f()
	close(c.ran)
}

// feed sends the tokens until the pacer is stopped. It holds the next token itself, so with those
// in the channel there are Burst of them while it waits for a receiver.
//
// It reads the clock where a token is not due at the very instant of the last reading. It also does
// where a token had to wait for a receiver.
func (p *Pacer) feed(since int64) {
	defer close(p.done)
	defer p.timer.Stop()
	busy := false // it has not waited since the last token went, which was at now
	for now := p.clk.Now(); !p.stopped; {
		due := p.state.Due(since, 0, 1)
		if due != now {
			last := now
			if now = p.clk.Now(); busy && due <= now {
				p.state.Ran(now, last) // sending took so long, perhaps because it woke a goroutine
			}
		}
		again := busy
		busy = due <= now
		if !busy {
			p.await(now, due)
			continue
		}
		if again {
			p.timer.Stop() // it has rung, and many tokens may come before it is set again
		}
		now, since = p.offer(now, due, since)
	}
}

// await waits until the next token is due, or runs a call that comes before.
func (p *Pacer) await(now, due int64) {
	p.timer.Set(now, due)
	select {
	case <-p.timer.C:
		p.timer.Rang()
	case c := <-p.calls:
		if c.freed {
			p.restore(c.token)
		}
		p.run(c)
	}
}

// offer sends the token that was due at that instant, and then runs a call that has come meanwhile.
// It returns the last reading of the clock, and the instant from which the next token takes an
// interval. If a call has taken this token back, that instant is since.
func (p *Pacer) offer(now, due, since int64) (int64, int64) {
	token := p.clk.Time(due)
	for {
		// A receiver waits, or there is room. The token goes when it comes up, and the next one
		// comes an interval later, however late this goroutine is.
		arrived := due
		select {
		case p.c <- token:
		default:
			p.timer.Stop()
			p.c <- token
			// The receiver let time pass, not this goroutine.
			now = p.clk.Now()
			arrived = p.state.Arrive(now)
		}
		var c call
		over := false
		if p.asked.Load() {
			if c = <-p.calls; c.freed {
				token, over = p.restore(c.token)
			}
		}
		if !over {
			since = arrived
			p.state.Take(now, since, 1)
		}
		if c.f != nil {
			p.run(c)
		}
		// Only a hold takes back a token that is on offer.
		if !over || p.stopped || p.state.Held() > p.clk.Now() {
			return now, since
		}
	}
}

// restore puts token back as the first one in the channel. If there is no room for the last one any
// more, it returns that, and true.
func (p *Pacer) restore(token time.Time) (last time.Time, over bool) {
	for range len(p.c) {
		select {
		case next := <-p.c:
			p.c <- token // this goroutine is the only sender
			token = next
		default:
		}
	}
	select {
	case p.c <- token:
		return token, false
	default:
		return token, true
	}
}

// drain takes back what is in the channel, and reports whether there was a token.
func (p *Pacer) drain() (any bool) {
	for {
		select {
		case <-p.c:
			any = true
		default:
			return any
		}
	}
}
