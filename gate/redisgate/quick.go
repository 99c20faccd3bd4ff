package redisgate

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed quick.lua
var quickLua string

// quickCode is what a server runs for a quick call. It is a function in a library that the server keeps, or a script
// where there are no functions. Their names change with the code, so that releases do not take each other's.
type quickCode struct {
	function, library string
	script, text      string
}

var quick = quickCodeOf(quickLua)

func quickCodeOf(lua string) quickCode {
	text := lua + "return quick(KEYS, ARGV)\n"
	script := hashed(text)
	name := "escapement_quick_" + script[:12]
	return quickCode{name, "#!lua name=" + name + "\n" + lua + "redis.register_function('" + name + "', quick)\n", script, text}
}

// A quick call asks for entries of one claim. In the gate's state, nothing but the time, the buckets and the windows is to
// be considered, and all of the entries get slots: see quick.lua. It costs the server a fraction of a call of the script,
// which follows if that is not so. Quick calls of all gates of a client go in pipelines.

const (
	maxPipelines   = 8                    // of a client under way at once
	worthPipeline  = 8                    // calls for each pipeline under way that are worth another one
	maxPerPipeline = 256                  // calls
	farAway        = 2 * time.Millisecond // a round trip that is too long to wait for the pipeline under way
)

// senders has a sender for each client with gates that have a quick call to make.
var senders = sending{all: map[redis.UniversalClient]*sender{}}

// sending guards all senders and their fields. Its lock may be taken while the lock of a gate is held, never the
// other way round.
type sending struct {
	mu      sync.Mutex
	all     map[redis.UniversalClient]*sender
	lacking map[redis.UniversalClient]bool // clients of servers that have no functions, or none for this user
}

// maxLacking bounds how many such clients are remembered: as long as they are, their memory is kept.
const maxLacking = 16

// lack notes that the server of a client has no functions. A gate that comes later need not find out.
func (s *sending) lack(c redis.UniversalClient) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lacking == nil || len(s.lacking) >= maxLacking {
		s.lacking = map[redis.UniversalClient]bool{}
	}
	s.lacking[c] = true
}

// sender has the gates of a client that have a quick call to make, in order. As long as there are some, it has one
// goroutine for each pipeline that is under way. Gate.Close waits until that of its gate has come back.
type sender struct {
	gates     []*Gate
	pipelines int
}

// add has the quick call of a gate made. Only [redis.Client] goes to one server, so that none of its calls waits for
// a server that another one needs. On other clients each call has a goroutine of its own.
func (s *sending) add(g *Gate) {
	if _, one := g.client.(*redis.Client); !one {
		go quickly([]*Gate{g})
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g.link.noFunctions = g.link.noFunctions || s.lacking[g.client]
	x := s.all[g.client]
	if x == nil {
		x = &sender{}
		s.all[g.client] = x
	}
	x.gates = append(x.gates, g)
	crowded := len(x.gates) >= worthPipeline*x.pipelines || g.link.rtt > int64(farAway)
	if x.pipelines == 0 || crowded && x.pipelines < maxPipelines {
		x.pipelines++
		go s.run(g.client, x)
	}
}

func (s *sending) run(client redis.UniversalClient, x *sender) {
	for {
		gates := s.next(client, x)
		if len(gates) == 0 {
			return
		}
		quickly(gates)
	}
}

// next returns the gates of the next pipeline, or none if its goroutine is to end.
func (s *sending) next(client redis.UniversalClient, x *sender) []*Gate {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(x.gates), maxPerPipeline)
	gates := x.gates[:n:n]
	if x.gates = x.gates[n:]; len(gates) > 0 {
		return gates
	}
	if x.pipelines--; x.pipelines == 0 {
		delete(s.all, client)
	}
	return nil
}

// start begins a call: a quick one if that may do.
func (g *Gate) start(now int64) {
	g.running = true
	if g.mayBeQuick(now) {
		senders.add(g)
	} else {
		go g.run()
	}
}

// mayBeQuick reports whether the next call may be a quick one: the last answer said so, or the state is not there by now.
// Nor is there anything to report.
func (g *Gate) mayBeQuick(now int64) bool {
	k := &g.link
	return g.simple && (k.calm || k.epoch == 0) && !k.jumped && !k.clock.far && !k.askNow && !g.closed && len(g.ops) == 0 && !g.held(now) &&
		(g.queue.count > 0 || len(g.tries) > 0) && g.told() == 0 && !g.widens()
}

// mayBegin reports whether the state may have run out. There must be nothing in it that the member would have to tell a
// server that has lost it.
func (g *Gate) mayBegin(now int64) bool {
	k := &g.link
	return k.epoch == 0 || now >= later(k.aliveUntil, g.horizon) && k.resumed == 0
}

// buildQuick makes a quick call for the tries, or for the waiters of the first one's claim. It returns nil if there
// is something else to say by now.
func (g *Gate) buildQuick(now int64) *request {
	if !g.mayBeQuick(now) {
		return nil
	}
	k := &g.link
	r := &request{epoch: k.epoch, lease: g.units.lease, extra: g.extra, sent: now, timeout: g.patience()}
	r.Epoch, r.Gen = k.epoch, k.gen
	ahead, behind := micros(g.ahead()), g.soonest(now)
	var c *claim
	if len(g.tries) > 0 {
		c, ahead, behind = g.tries[0].claim, 0, -1
		for _, t := range g.tries {
			if !t.claim.same(c) {
				return nil
			}
		}
	} else if w := g.queue.first(); w != nil {
		c = w.claim
		for ; w != nil && w.claim.same(c) && len(r.asked) < maxPerCall; w = w.asking.next.value() {
			r.asked = append(r.asked, w)
			if w.deadline != never {
				ahead = min(ahead, max(0, r.until(w.deadline)))
			}
		}
	}
	if c == nil || slices.Contains(c.costs, 0) {
		return nil // it passes a limit by
	}
	r.tries, g.tries = g.tries, nil
	k.sent = now
	text := make([]byte, 0, 48+33*len(g.limits))
	known := append(strconv.AppendInt(make([]byte, 0, 100), k.epoch, 10), ':')
	known = append(strconv.AppendInt(known, k.gen, 10), ':')
	known = append(known, g.planMark...)
	text = packed(text, k.seq, int64(len(r.tries)+len(r.asked)), micros(g.late+g.extra), micros(g.horizon), ahead, behind)
	for i, l := range g.limits {
		of, most := byte(0), int64(l.burst)
		if l.kind == window {
			of, most = 1, l.cell
		}
		text = packed(append(text, of), l.span, l.n, most, int64(c.costs[i]))
	}
	r.wire = &stamped{text: text}
	r.quick = []any{"fcall", quick.function, 1, g.keys[0], known, r.wire}
	if g.mayBegin(now) {
		last := len(g.keys) - 1
		r.begins = true
		r.quick = []any{"fcall", quick.function, 5, g.keys[0], g.keys[1], g.keys[2], g.keys[3], g.keys[last], known, r.wire, g.plan, g.numbers()}
	}
	if k.noFunctions {
		r.quick[0], r.quick[1] = "evalsha", quick.script
	}
	return r
}

// numbers is what the script writes down of the limits, for a member of another version.
func (g *Gate) numbers() string {
	b := strconv.AppendInt(make([]byte, 0, 64), micros(g.horizon), 10)
	for _, l := range g.limits {
		b = append(append(b, ' '), l.kind.word()...)
		for _, n := range []int64{l.n, l.span, int64(l.burst), 0, 0, micros(l.late)} {
			b = strconv.AppendInt(append(b, ':'), n, 10)
		}
	}
	return string(b)
}

// markOf returns what quick calls say of the limits.
func markOf(version int, plan string) string {
	sum := sha1.Sum([]byte(plan))
	return strconv.Itoa(version) + ":" + hex.EncodeToString(sum[:]) + ":"
}

// packed adds numbers as quick.lua reads them.
func packed(to []byte, numbers ...int64) []byte {
	for _, n := range numbers {
		to = binary.BigEndian.AppendUint64(to, math.Float64bits(float64(n)))
	}
	return to
}

// quickly makes the quick calls of the gates, in one pipeline.
func quickly(gates []*Gate) {
	timeout := time.Duration(0)
	for _, g := range gates {
		g.mu.Lock()
		timeout = max(timeout, g.patience())
		g.mu.Unlock()
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	rs, cmds := make([]*request, len(gates)), make([]*redis.Cmd, len(gates))
	pipe := gates[0].client.Pipeline()
	for i, g := range gates {
		g.mu.Lock()
		rs[i] = g.buildQuick(instant())
		g.mu.Unlock()
		if rs[i] == nil {
			go g.run()
			continue
		}
		cmds[i] = redis.NewCmd(ctx, rs[i].quick...)
		_ = pipe.Process(ctx, once{cmds[i]})
	}
	var err error
	if pipe.Len() > 0 {
		_, err = pipe.Exec(ctx)
	}
	for i, g := range gates {
		if rs[i] != nil {
			if cmds[i].Val() == nil && cmds[i].Err() == nil {
				cmds[i].SetErr(err) // there was no connection
			}
			g.takeQuick(rs[i], cmds[i])
		}
	}
}

// takeQuick takes in the answer to a quick call. If there is none, a call of the script follows.
func (g *Gate) takeQuick(r *request, cmd *redis.Cmd) {
	text, err := cmd.Text()
	if err != nil {
		text, err = g.provide(r, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if errors.Is(err, redis.Nil) {
		g.link.sent, g.link.calm = 0, false
		g.tries = append(r.tries, g.tries...)
		go g.run()
		return
	}
	var said *reply
	if err == nil {
		said, err = r.quickReply(text, g)
	}
	g.finish(r, said, err)
	g.rest()
}

// provide gives the server what it lacks for a quick call, if that is why the call has failed, and makes it again. It
// returns the error if there is another reason.
func (g *Gate) provide(r *request, err error) (string, error) {
	if strings.HasPrefix(err.Error(), "CROSSSLOT") {
		return "", redis.Nil // a cluster behind a client of one server, which the script notices
	}
	if strings.Contains(err.Error(), "Function not found") {
		if err = g.loadLibrary(); err == nil {
			return g.again(r, "fcall", quick.function)
		}
	}
	if lacksFunctions(err) {
		g.mu.Lock()
		g.link.noFunctions = true
		g.mu.Unlock()
		senders.lack(g.client)
		var text string
		if text, err = g.again(r, "evalsha", quick.script); err == nil {
			return text, nil
		}
	}
	if strings.HasPrefix(err.Error(), "NOSCRIPT") {
		return g.again(r, "eval", quick.text)
	}
	return "", err
}

// again makes a quick call again, which has changed nothing.
func (g *Gate) again(r *request, how, what string) (string, error) {
	g.mu.Lock()
	r.sent = instant()
	g.link.sent = r.sent
	g.mu.Unlock()
	r.quick[0], r.quick[1] = how, what
	cmd, err := g.process(r.quick, r.timeout)
	if err != nil {
		return "", err
	}
	return cmd.Text()
}

// loadLibrary loads the library of quick calls into the server of the gate's key. It may be there by now.
func (g *Gate) loadLibrary() error {
	ctx, cancel := context.WithTimeout(context.Background(), g.timeout)
	defer cancel()
	var server redis.Cmdable = g.client
	if c, many := g.client.(*redis.ClusterClient); many {
		one, err := c.MasterForKey(ctx, g.keys[0])
		if err != nil {
			return err
		}
		server = one
	}
	err := server.FunctionLoad(ctx, quick.library).Err()
	if err != nil && strings.Contains(err.Error(), "already exists") {
		return nil
	}
	return err
}

// lacksFunctions reports whether the server has no functions, or none for this user.
func lacksFunctions(err error) bool {
	text := err.Error()
	return strings.HasPrefix(text, "NOPERM") || strings.HasPrefix(text, "ERR unknown command") || strings.HasPrefix(text, "ERR unknown subcommand")
}

// unpack returns the i-th number of an answer.
func unpack(text string, i int) int64 {
	return int64(math.Float64frombits(binary.BigEndian.Uint64([]byte(text[8*i : 8*i+8]))))
}

// quickRefusal returns the reply of the script that says the same: no slot is due now.
func (r *request) quickRefusal(text string, limits int) *reply {
	said := &reply{now: unpack(text, 0), seq: unpack(text, 1), life: unpack(text, 2), newest: unpack(text, 3), due: unpack(text, 4), by: unpack(text, 5),
		epoch: r.Epoch, gen: r.Gen, wait: -1, keep: -1, calm: 1, debts: make([]int64, 2*limits)}
	for i := range limits {
		said.debts[2*i] = unpack(text, 6+i)
	}
	said.slots = slices.Repeat([]int64{-1}, len(r.tries)+len(r.asked))
	return said
}

// quickReply returns the reply of the script that says the same.
func (r *request) quickReply(text string, g *Gate) (*reply, error) {
	limits, entries := len(g.limits), len(r.tries)+len(r.asked)
	numbers, refused := strings.CutPrefix(text, "!")
	if refused && len(numbers) == 8*(6+limits) {
		return r.quickRefusal(numbers, limits), nil
	}
	head := 3
	if r.begins {
		head = 5
	}
	if n := len(text) - 8*(head+limits); n != 0 && n != 8*entries {
		return nil, errors.New("redisgate: the server gave " + strconv.Quote(text) + " to a quick call")
	}
	number := func(i int) int64 { return unpack(text, i) }
	said := &reply{now: number(0), seq: number(1), life: number(2), epoch: r.Epoch, gen: r.Gen, wait: -1, keep: -1, calm: 1}
	if head == 5 {
		said.epoch, said.gen = number(3), number(4)
	}
	said.debts = make([]int64, 2*limits)
	for i := range g.limits {
		said.debts[2*i] = number(head + i)
	}
	said.slots = make([]int64, entries)
	for i := range len(text)/8 - head - limits {
		said.slots[i] = number(head + limits + i)
		said.newest = said.slots[i]
	}
	return said, nil
}
