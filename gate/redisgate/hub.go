package redisgate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// linger is how long a gate goes on listening after the last entry has left.
const linger = 5 * time.Second

// hubs has a hub for each client whose gates listen: one subscription for all of them. A gate
// listens while somebody waits in it or holds units, and for a while longer.
var hubs = registry{all: map[redis.UniversalClient]*hub{}}

// registry guards all hubs and what is in them. Its lock is taken while that of a gate is held,
// never the other way round.
type registry struct {
	mu  sync.Mutex
	all map[redis.UniversalClient]*hub
}

// hub is the subscription of a client. Its goroutine ends when no gate listens any more, which
// the silence of the gates sees to, or their Close, which waits for it.
type hub struct {
	client redis.UniversalClient
	gates  map[string][]*Gate // by channel
	joined []*Gate            // since the hub last looked
	left   []string           // channels, likewise
	kick   chan struct{}      // of capacity 1: something of this has changed
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

// leave takes the gate out of its hub. If that ends the hub, it returns what is closed then.
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

// listen joins or leaves the hub, as is due. Who has a [redis.Ring] leases no further ahead and asks
// for units as often as somebody whom the hub does not hear for.
func (g *Gate) listen(now int64, wake func(int64)) {
	if _, ring := g.client.(*redis.Ring); ring {
		return // where a key is may change, and the subscription would not go with it
	}
	if !g.closed && (g.queue.count > 0 && (len(g.slots) > 0 || g.link.ask > 0) || g.ttl > 0 && g.units.use > 0) {
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

// news returns who has joined and what was left since it was last called, and whether nobody
// listens any more.
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
	confirmed := map[string]bool{} // by channel that was asked for
	var events, heard <-chan any   // events, or nil when there are no more
	for {
		select {
		case e, ok := <-heard:
			if !ok {
				heard = nil // the client was closed
			}
			h.hear(e, confirmed)
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

// hear passes an event on to the gates that listen to its channel.
func (h *hub) hear(event any, confirmed map[string]bool) {
	switch e := event.(type) {
	case *redis.Subscription:
		if again, ok := confirmed[e.Channel]; ok && e.Kind == "subscribe" {
			h.each(e.Channel, func(g *Gate) { g.tuned(again) })
			confirmed[e.Channel] = true
		}
	case *redis.Message:
		h.each(e.Channel, func(g *Gate) { g.message(e.Payload) })
	}
}

// subscribe asks for the channels of the gates that have joined, and no longer for those that were left.
// What fails here is made up for when the connection is there again.
func subscribe(ps *redis.PubSub, joined []*Gate, left []string, confirmed map[string]bool) {
	var fresh []string
	for _, g := range joined {
		name := g.keys[0]
		if ready, ok := confirmed[name]; !ok {
			confirmed[name] = false
			fresh = append(fresh, name)
		} else if ready {
			g.tuned(false)
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

// tuned notes that the hub hears for the gate. After a break something may have been missed, and
// the server may be another: the gate asks.
func (g *Gate) tuned(again bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := instant()
	if g.listens && !g.heard {
		g.heard, g.link.ask = true, min(g.link.ask, now)
	}
	if again && (g.queue.count > 0 || now < g.link.alive || g.units.noted) {
		g.link.poke = true
	}
	g.look(now)
}

// message takes in what was published: "g epoch generation", "c member" where units have become
// free, "w member" where some are wanted, and "u member" where they have become what is short.
func (g *Gate) message(payload string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	what, rest, _ := strings.Cut(payload, " ")
	switch what {
	case "g":
		var epoch, gen int64
		if n, _ := fmt.Sscan(rest, &epoch, &gen); n < 2 || epoch != g.link.epoch || gen <= g.link.gen {
			return
		}
		g.link.gen = gen
		g.void()
	case "c", "w", "u":
		if rest == g.id || g.queue.count <= len(g.slots) && !g.units.noted {
			return
		}
		if g.apart() {
			switch what {
			case "c":
				g.units.ask, g.units.freed = 0, true
			case "w":
				g.urge(instant())
			case "u":
				g.units.tight, g.link.poke = true, true
				g.bare()
			}
			g.look(instant())
			return
		}
	default:
		return
	}
	g.units.ask = 0
	g.link.ask, g.link.poke = 0, g.link.poke || g.queue.count > 0 || g.units.noted
	g.look(instant())
}
