package pace

import (
	"sync"
	"time"

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
// Burst + rate·(w + Slack) tokens are received, by any number of receivers.
//
// All methods can be called from any goroutine. For entries that wait in order, have costs
// or deadlines, use the gates of package gate instead.
type Pacer struct {
	// C gives one value per token: the instant at which it was due, which is not later than
	// the one at which it is received. It is never closed: a closed channel would give
	// tokens without end. A stopped pacer gives none.
	C <-chan time.Time

	c       chan time.Time // the feeder sends; room for Burst-1, because its hand holds one
	clk     *timing.Clock
	exact   timing.Precision
	state   schedule.Schedule // owned by the feeder: when the next token comes up, one by one
	timer   *timing.Timer     // owned by the feeder
	calls   chan func()       // run by the feeder, which always takes them before long
	stopped bool              // owned by the feeder: it is to end
	once    sync.Once
	done    chan struct{} // closed by the feeder when it has ended
}

// New returns a pacer for the given rate that starts with Burst tokens. It panics on the
// zero Rate, on a negative burst and on an unknown precision.
func New(r Rate, o *Options) *Pacer {
	o.Check("pace: New", r)
	if o == nil {
		o = &Options{}
	}
	p := &Pacer{
		c:     make(chan time.Time, max(o.Burst, 1)-1),
		clk:   timing.New(o.Clock),
		exact: timing.Precision(o.Precision),
		state: schedule.New(int64(r.Count()), int64(r.Span()), 1, int64(o.Slack)),
		calls: make(chan func()),
		done:  make(chan struct{}),
	}
	p.C = p.c
	p.timer = timing.NewTimer(p.clk)
	p.timer.Tune(p.exact, int64(r.Interval()))
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
	(*Options)(nil).Check("pace: Pacer.SetRate", r)
	p.call(func() {
		p.state.SetRate(p.clk.Now(), int64(r.Count()), int64(r.Span()))
		p.timer.Tune(p.exact, int64(r.Interval()))
	})
}

// Hold takes back the tokens that are there and gives none until d from now. Then there
// is one, and the others come at the rate, so that nobody bursts. A hold is never
// shortened: one that would end earlier than another changes nothing. A d that is not
// positive, or a stopped pacer, does nothing.
func (p *Pacer) Hold(d time.Duration) {
	if d <= 0 {
		return
	}
	p.call(func() {
		p.state.Hold(timing.Later(p.clk.Now(), d))
		p.drain()
	})
}

// Stop ends the pacer. When it returns, the goroutine that fed the channel has ended, and
// no token comes any more, those that were there included. C stays open. Calling it again
// does nothing.
func (p *Pacer) Stop() {
	p.once.Do(func() { p.calls <- func() { p.stopped = true } })
	<-p.done
}

// call has the feeder run f, unless the pacer is stopped.
func (p *Pacer) call(f func()) {
	ran := make(chan struct{})
	select {
	case p.calls <- func() { f(); close(ran) }:
		<-ran
	case <-p.done:
	}
}

// feed sends the tokens until the pacer is stopped. The next token is in its hand, so
// with those in the channel there are Burst of them when it waits for a receiver.
//
// It reads the clock only when a token is not due by the last reading, and when one has
// been taken for which nobody waited; and what it selects from is few, because that is most of
// what a token costs.
func (p *Pacer) feed(since int64) {
	defer close(p.done)
	defer p.drain()
	defer p.timer.Stop()
	for now := p.clk.Now(); !p.stopped; {
		due := p.state.Due(since, 0, 1)
		if due > now {
			now = p.clk.Now()
		}
		if due > now {
			p.timer.Set(now, due)
			select {
			case <-p.timer.C:
				p.timer.Rang()
			case f := <-p.calls:
				f()
			}
			continue
		}
		p.timer.Stop()
		select {
		case f := <-p.calls:
			f()
			continue
		default:
		}
		token := p.clk.Time(due)
		select {
		case p.c <- token:
			// Somebody waited, or there was room: the token went when it came up, and the
			// next one comes an interval later, however late this goroutine is.
			p.state.Take(now, due, 1)
			since = due
			continue
		default:
		}
		for offered := true; offered && !p.stopped; {
			select {
			case p.c <- token:
				// The channel was full. It was the receiver who let time pass.
				now = p.clk.Now()
				since = p.state.Arrive(now)
				p.state.Take(now, since, 1)
				offered = false
			case f := <-p.calls:
				f()
				// Only a hold takes a token back that is on offer.
				offered = p.state.Held() <= p.clk.Now()
			}
		}
	}
}

// drain takes back what is in the channel.
func (p *Pacer) drain() {
	for {
		select {
		case <-p.c:
		default:
			return
		}
	}
}
