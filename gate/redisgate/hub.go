package redisgate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// linger is how long a gate goes on listening after its last entry has left.
const linger = 5 * time.Second

// hubs has a hub for each client with gates that listen, so that they share one subscription. A
// gate listens while entries wait in it or hold units, and for a while longer.
var hubs = registry{all: map[redis.UniversalClient]*hub{}}

// registry guards all hubs and their fields. Its lock may be taken while the lock of a gate is
// held, never the other way round.
type registry struct {
	mu  sync.Mutex
	all map[redis.UniversalClient]*hub
}

// hub is the subscription of a client. Its goroutine ends when the last gate has left: a gate
// leaves some time after its last entry, or when it is closed. Gate.Close waits for the goroutine
// if its gate was the last.
type hub struct {
	client redis.UniversalClient
	gates  map[string][]*Gate // by channel
	joined []*Gate            // since news was last called
	left   []string           // channels that have no gate any more, since then
	kick   chan struct{}      // of capacity 1; sent to when one of the above has changed
	done   chan struct{}      // closed by run
}

func (r *registry) join(g *Gate) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.all[g.client]
	if h == nil {
		h = &hub{client: g.client, gates: map[string][]*Gate{}, kick: make(chan struct{}, 1), done: make(chan struct{})}
		r.all[g.client] = h
		go h.run()
	}
	h.gates[g.keys[0]] = append(h.gates[g.keys[0]], g)
	h.joined = append(h.joined, g)
	h.changed()
	g.listens = true
}

// leave takes the gate out of its hub. If that ends the hub, leave returns a channel that is closed
// when its goroutine has ended.
func (r *registry) leave(g *Gate) (ends <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	g.listens, g.heard = false, false
	name := g.keys[0]
	h := r.all[g.client]
	h.gates[name] = slices.DeleteFunc(slices.Clone(h.gates[name]), func(o *Gate) bool { return o == g })
	h.joined = slices.DeleteFunc(h.joined, func(o *Gate) bool { return o == g })
	if len(h.gates[name]) == 0 {
		delete(h.gates, name)
		h.left = append(h.left, name)
	}
	h.changed()
	if len(h.gates) > 0 {
		return nil
	}
	delete(r.all, g.client)
	return h.done
}

func (h *hub) changed() {
	select {
	case h.kick <- struct{}{}:
	default:
	}
}

// listen joins or leaves the hub, as is due. A gate on a [redis.Ring] never joins. It leases only a
// short horizon ahead, and asks for units as often as a gate that its hub can not hear for yet.
func (g *Gate) listen(now int64, wake func(int64)) {
	if _, ring := g.client.(*redis.Ring); ring {
		return // a key may move to another server, and its subscription would stay behind
	}
	if !g.closed && (g.queue.count > 0 && (g.queue.slots.count > 0 || g.link.ask > 0) || g.ttl > 0 && g.units.use > 0) {
		g.quiet = 0
		if !g.listens {
			hubs.join(g)
		}
		return
	}
	if !g.listens {
		return
	}
	if g.quiet == 0 {
		g.quiet = now
	}
	if at := later(g.quiet, linger); now >= at {
		hubs.leave(g)
	} else {
		wake(at)
	}
}

// news returns the gates that have joined and the channels that were left since its last call. over
// reports that no gate is left.
func (h *hub) news() (joined []*Gate, left []string, over bool) {
	hubs.mu.Lock()
	defer hubs.mu.Unlock()
	for _, name := range h.left {
		if h.gates[name] == nil {
			left = append(left, name)
		}
	}
	joined, h.joined, h.left = h.joined, nil, nil
	return joined, left, len(h.gates) == 0
}

func (h *hub) run() {
	defer close(h.done)
	ps := h.client.Subscribe(context.Background())
	confirmed := map[string]bool{} // by subscribed channel: whether the server has confirmed it
	var events, heard <-chan any   // heard is events, or nil when there are no more
	for {
		select {
		case e, ok := <-heard:
			if !ok {
				heard = nil // the client is closed
			}
			h.dispatch(e, confirmed)
			continue
		case <-h.kick:
		}
		joined, left, over := h.news()
		if over {
			break
		}
		subscribe(ps, joined, left, confirmed)
		if events == nil {
			events = ps.ChannelWithSubscriptions(redis.WithChannelHealthCheckInterval(time.Second), redis.WithChannelPingTimeout(time.Second))
			heard = events
		}
	}
	_ = ps.Close()
	if events != nil {
		for range events {
		}
	}
}

// dispatch passes an event on to the gates that listen to its channel.
func (h *hub) dispatch(event any, confirmed map[string]bool) {
	switch e := event.(type) {
	case *redis.Subscription:
		if again, ok := confirmed[e.Channel]; ok && e.Kind == "subscribe" {
			h.each(e.Channel, func(g *Gate) { g.subscribed(again) })
			confirmed[e.Channel] = true
		}
	case *redis.Message:
		h.each(e.Channel, func(g *Gate) { g.message(e.Payload) })
	}
}

// subscribe subscribes to the channels of the gates that have joined, and unsubscribes from those
// that were left. Errors need no handling: the client subscribes again when it is connected again.
func subscribe(ps *redis.PubSub, joined []*Gate, left []string, confirmed map[string]bool) {
	var fresh []string
	for _, g := range joined {
		name := g.keys[0]
		if ready, ok := confirmed[name]; !ok {
			confirmed[name] = false
			fresh = append(fresh, name)
		} else if ready {
			g.subscribed(false)
		}
	}
	for _, name := range left {
		delete(confirmed, name)
	}
	if len(fresh) > 0 {
		_ = ps.Subscribe(context.Background(), fresh...)
	}
	if len(left) > 0 {
		_ = ps.Unsubscribe(context.Background(), left...)
	}
}

// each calls f for all gates that listen to the channel.
func (h *hub) each(name string, f func(*Gate)) {
	hubs.mu.Lock()
	gates := h.gates[name]
	hubs.mu.Unlock()
	for _, g := range gates {
		f(g)
	}
}

// subscribed notes that the hub receives the messages of the gate. After a break of the connection,
// messages may have been missed and the server may be another one, so the gate asks.
func (g *Gate) subscribed(again bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := instant()
	if g.listens && !g.heard {
		g.heard = true
		if !g.link.overlap {
			g.link.showUp = 0
		}
		if k := &g.link; k.turn > 0 && k.ask != never {
			k.ask -= int64(g.horizon - min(g.horizon, shortHorizon)) // slots may be that much further ahead
		} else {
			k.ask = min(k.ask, now)
		}
	}
	if again && (g.queue.count > 0 || now < g.link.aliveUntil || g.units.noted) {
		g.link.askNow = true
	}
	g.advance(now)
}

// message handles a published message: one of msgReplanned and its siblings, and its arguments.
func (g *Gate) message(payload string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	what, rest, _ := strings.Cut(payload, " ")
	switch what {
	case msgReplanned:
		var epoch, gen int64
		if n, _ := fmt.Sscan(rest, &epoch, &gen); n < 2 || epoch != g.link.epoch || gen <= g.link.gen {
			return
		}
		g.link.gen = gen
		g.link.wants = max(g.link.wants, 3) // for all that is known here
		g.voidSlots()
	case msgUnitsFree, msgUnitsWanted, msgUnitsShort:
		if rest == g.id || g.queue.asking.count == 0 && !g.units.noted {
			return
		}
		if g.apart() {
			switch what {
			case msgUnitsFree:
				g.units.ask, g.units.freed = 0, true
			case msgUnitsWanted:
				g.onUnitsWanted(instant())
			case msgUnitsShort:
				g.units.tight, g.link.askNow = true, true
				g.returnUnitlessSlots()
			}
			g.advance(instant())
			return
		}
	case msgFaster:
		g.onFaster(rest)
		return
	case msgRow:
		var silent int64
		if n, _ := fmt.Sscan(rest, &silent); n == 1 && g.link.silent > 0 {
			g.expectRow(instant(), silent)
		}
		return
	case msgTurns:
		g.onTurns(rest)
		return
	case msgVersions:
		if k := &g.link; !k.overlap && g.occupied() {
			k.showUp = later(instant(), rand.N(showEvery*g.horizon)) // not all at once
			g.advance(instant())
		}
		return
	default:
		return
	}
	g.units.ask = 0
	g.link.ask, g.link.full, g.link.askNow = 0, 0, g.link.askNow || g.queue.count > 0 || g.units.noted
	g.advance(instant())
}

// onTurns sets when the member calls for its turn.
func (g *Gate) onTurns(message string) {
	var upTo, free int64
	var interval float64
	// A member of an older release sends no number of free tokens: then all members whose turns fit call at once.
	if n, _ := fmt.Sscan(message, &upTo, &interval, &free); n < 2 || g.link.turn == 0 {
		return
	}
	g.link.ask = later(instant(), untilTurn(g.link.turn-upTo, free, interval))
	g.advance(instant())
}

// untilTurn returns how long a member waits to call for its turn. So many free tokens of the row fit into the horizon, and
// the member's turn ends so many tokens behind them. Members whose turns fit call one after the other, in half of the time
// that their slots take. If all called at once, the server would answer the last of them too late for their slots.
func untilTurn(behind, free int64, interval float64) time.Duration {
	tokens := float64(free)/2 + float64(behind)
	if behind < 0 {
		tokens = float64(free+behind) / 2
	}
	return time.Duration(min(max(0, tokens*interval), float64(maxProduct)))
}
