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

// Pacer hands out the tokens of a rate through a channel, so that callers can wait for
// the next one and for other things in one select. Make one with [New], and [Pacer.Stop]
// it when it is no longer needed: until then a goroutine feeds the channel.
//
// The channel holds at most Burst tokens; while it is full no more come up, and nothing
// runs. After any idle time exactly Burst tokens are there, and the next one comes an
// interval after the first of them was taken. So in any window of length w at most
// Burst + rate·(w + Slack) tokens go, to any number of receivers. That counts the instants at
// which the pacer saw that a token was due or had been taken: where the system stops it between
// that and the receiving, the next token can be received sooner after it.
//
// The pacer makes up for its own lateness, but can't know how long a receiver waited for a
// processor. With a Burst of 1, one that is away for longer than an interval has let tokens
// go by; where intervals are a few tens of microseconds or less, that happens to everybody, and a
// Burst of as many intervals as such a delay takes keeps the rate.
//
// All methods can be called from any goroutine. For entries that wait in order, have costs
// or deadlines, use the gates of package gate instead.
type Pacer struct {
	// C gives one value per token: the instant at which it was due, which is not later than
	// the one at which it is received. It is never closed: a closed channel would give
	// tokens without end. A stopped pacer gives none.
	C <-chan time.Time

	c     chan time.Time // the feeder sends; room for Burst-1, because its hand holds one
	clk   *timing.Clock
	exact timing.Precision
	state schedule.Schedule // owned by the feeder: when the next token comes up, one by one
	timer *timing.Timer     // owned by the feeder
	done  chan struct{}     // closed by the feeder when it has ended

	mu      sync.Mutex  // held by whoever has a call, until it is over
	asked   atomic.Bool // somebody has a call for the feeder: set before, unset by the feeder
	calls   chan call   // run by the feeder, which always takes them before long
	stopped bool        // guarded by mu, but written by the feeder meanwhile: it ends
}

// call is what the feeder is to do between two tokens.
type call struct {
	f     func()
	ran   chan struct{} // closed when it has
	freed bool          // a token was received to free the feeder, which is to put it back
	token time.Time     // that one
}

// maxBurst is the largest Burst of a Pacer, whose channel has room for it: 400 MB.
const maxBurst = 1 << 24

// New returns a pacer for the given rate that starts with Burst tokens. It panics on the
// zero Rate, on a burst that is negative or above 2^24, since each token of it takes memory,
// and on an unknown precision.
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

// SetRate changes the rate at once. The tokens that are there, and the part of the next
// one that has already come, stay. On a stopped pacer it does nothing. It panics on the
// zero Rate.
func (p *Pacer) SetRate(r Rate) {
	misuse.Rate("pace: Pacer.SetRate", r.Valid())
	p.call(func() {
		p.state.SetRate(p.clk.Now(), int64(r.Count()), int64(r.Span()))
		p.timer.Tune(p.exact, int64(r.Interval()), p.state.Slack())
	})
}

// Hold takes back the tokens that are there and gives none until d from now. Then there
// is one, or as much of one as there would have been, and the others come at the rate, so that
// receivers don't burst. A hold is never
// shortened: one that would end earlier than another changes nothing. A d that is not
// positive, or a stopped pacer, does nothing.
func (p *Pacer) Hold(d time.Duration) {
	if d <= 0 {
		return
	}
	p.call(func() {
		now := p.clk.Now()
		if p.drain() {
			p.state.Fill(now) // what was there is there again when the hold is over: one token of it
		}
		p.state.Hold(now, timing.Later(now, d))
	})
}

// Stop ends the pacer. When it returns, the goroutine that fed the channel has ended, and
// no token comes any more, those that were there included. C stays open. Calling it again
// does nothing.
func (p *Pacer) Stop() {
	p.call(func() {
		p.stopped = true
		p.drain()
	})
	<-p.done
}

// call has the feeder run f, unless the pacer is stopped.
//
// A select of the sending and the calls would cost the feeder more than all else that it does
// for a token. So it sends, and looks for a call after that; where nobody receives, the caller
// does, and has the token put back.
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

// run runs a call.
func (p *Pacer) run(c call) {
	p.asked.Store(false)
	c.f()
	close(c.ran)
}

// feed sends the tokens until the pacer is stopped. The next token is in its hand, so
// with those in the channel there are Burst of them when it waits for a receiver.
//
// It reads the clock when a token is not due at the very instant of the last reading, and when
// one has been taken for which nobody waited.
func (p *Pacer) feed(since int64) {
	defer close(p.done)
	defer p.timer.Stop()
	busy := false // it has not waited since the last token went, which was at now
	for now := p.clk.Now(); !p.stopped; {
		due := p.state.Due(since, 0, 1)
		if due != now {
			last := now
			if now = p.clk.Now(); busy && due <= now {
				p.state.Ran(now, last) // to send it took so long, if only because it woke somebody
			}
		}
		again := busy
		busy = due <= now
		if !busy {
			p.await(now, due)
			continue
		}
		if again {
			p.timer.Stop() // it has rung, and there may be many tokens before it is set again
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

// offer sends the token that was due at that instant, and runs a call that has come meanwhile. It returns
// the last reading of the clock, and the instant from which the next token takes an interval: since,
// if a call has taken this token back.
func (p *Pacer) offer(now, due, since int64) (int64, int64) {
	token := p.clk.Time(due)
	for {
		// A receiver waits, or there is room: the token goes when it comes up, and the
		// next one comes an interval later, however late this goroutine is.
		arrived := due
		select {
		case p.c <- token:
		default:
			p.timer.Stop()
			p.c <- token
			// It was the receiver who let time pass.
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
		// Only a hold takes a token back that is on offer.
		if !over || p.stopped || p.state.Held() > p.clk.Now() {
			return now, since
		}
	}
}

// restore puts back the token that came first in the channel. If there is no room for the last
// one any more, it returns that, and true.
func (p *Pacer) restore(token time.Time) (last time.Time, over bool) {
	for range len(p.c) {
		select {
		case next := <-p.c:
			p.c <- token // nobody else sends
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

// drain takes back what is in the channel, and reports whether there was anything.
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
