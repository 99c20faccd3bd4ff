package redisgate

import (
	"embed"
	"encoding/json"
	"fmt"
	"strings"
)

// What the script and its callers say to each other, in Go. The script describes it: script/1_wire.lua.

// Names of operations: what a member reports, and what it asks for.
const (
	opSettle   = "settle"   // the cost of an entry has changed
	opUnused   = "unused"   // a slot was not used, and its instant has come
	opGiveBack = "giveback" // a slot that is still to come is not needed
	opSuccess  = "success"  // entries have succeeded, for an adaptive limit
	opThrottle = "throttle" // an entry was throttled
	opHold     = "hold"     // no member may admit an entry for some time
	opResume   = "resume"   // the hold is over
	opReset    = "reset"    // an adaptive limit starts afresh
	opTry      = "try"      // one slot that is due now, or none
	opAsk      = "ask"      // slots for waiting entries of one cost
)

// Messages on the channel of a gate.
const (
	msgReplanned   = "replanned" // with an epoch and a generation: slots of earlier ones are void
	msgUnitsFree   = "free"      // with a member: units have become free
	msgUnitsWanted = "wanted"    // with a member: it lacks units
	msgUnitsShort  = "short"     // with a member: units are scarcer than slots
	msgFaster      = "faster"    // with a ratio: what members wait for comes sooner by that
	msgVersions    = "versions"  // with a version: members of two versions of the limits are about
	msgRow         = "row"       // with a span: the row of turns goes on, and members with turns wait so long for the next such message
	msgTurns       = "turns"     // with an end of turns, an interval and a number of tokens: see Gate.onTurns
)

// question is what one call says. Spans are in microseconds.
type question struct {
	Member  string      `json:"member"`
	Call    int         `json:"call"`
	Horizon int64       `json:"horizon"`
	Late    int64       `json:"late"`
	Ahead   int64       `json:"ahead"`
	Brief   int64       `json:"brief,omitempty"`
	Epoch   int64       `json:"epoch"`
	Gen     int64       `json:"gen"`
	Seq     int64       `json:"seq"`
	Alive   bool        `json:"alive,omitempty"`
	Jumped  bool        `json:"jumped,omitempty"`
	Hold    *knownHold  `json:"hold,omitempty"`
	Newest  int64       `json:"newest"`
	Behind  int64       `json:"behind"`
	Waited  int64       `json:"waited"`
	Mute    bool        `json:"mute,omitempty"`
	InHand  int         `json:"inhand"`
	Plan    string      `json:"plan"`
	Version int         `json:"version"`
	Limits  []saidLimit `json:"limits"`
	Ops     []saidOp    `json:"ops"`
}

// knownHold is what a member knows of a hold, for a server that does not.
type knownHold struct {
	Left  int64  `json:"left"`
	Age   int64  `json:"age"`
	Ended *int64 `json:"ended,omitempty"` // how long ago Resume was called; the others mean nothing then
}

// saidLimit is a limit, with what the member knows of its state. Of the fields, each kind has its own.
type saidLimit struct {
	Kind string `json:"kind"`

	N      int64 `json:"n,omitempty"`
	Span   int64 `json:"span"`
	Burst  int   `json:"burst,omitempty"`
	Debt   int64 `json:"debt"`
	Strict bool  `json:"strict,omitempty"`

	Cell  int64 `json:"cell,omitempty"`
	Count int64 `json:"count"`
	Late  int64 `json:"late,omitempty"`

	Wide    int64 `json:"wide,omitempty"`
	Heard   int64 `json:"heard,omitempty"`
	WideFor int64 `json:"widefor,omitempty"`

	*saidAdaptive
	*saidUnits
}

// saidAdaptive is what is said of an adaptive limit besides. Intervals are in nanoseconds.
type saidAdaptive struct {
	Fastest  int64   `json:"fastest"`
	Slowest  int64   `json:"slowest"`
	Interval int64   `json:"interval"`
	Backoff  float64 `json:"backoff"`
	Recover  float64 `json:"recover"`
	GiveUp   int     `json:"giveup"`
}

// saidUnits is what is said of a limit of concurrency besides.
type saidUnits struct {
	TTL     int64 `json:"ttl"`
	Used    int   `json:"used"`
	Apart   bool  `json:"apart"`
	More    int   `json:"more"`
	Idle    int   `json:"idle"`
	Lead    int64 `json:"lead"`
	Likes   int   `json:"likes"`
	Starved bool  `json:"starved"`
}

// saidOp is an operation. Of the fields, each has its own.
type saidOp struct {
	Op      string  `json:"op"`
	Slot    int64   `json:"slot"`
	Cost    string  `json:"cost,omitempty"`
	Gen     int64   `json:"gen"`
	Mark    int64   `json:"mark"`
	Slow    bool    `json:"slow,omitempty"`
	Numbers []int64 `json:"numbers,omitempty"`
	After   int64   `json:"after"`
	Span    int64   `json:"span"`
	Age     int64   `json:"age"`
	Count   int     `json:"count,omitempty"`
	Most    int64   `json:"most"`
}

// text returns the question as the script takes it.
func (q *question) text() []byte {
	text, err := json.Marshal(q)
	if err != nil {
		panic(err) // a field that is no JSON: a bug
	}
	return text
}

// reply is what the script answers. Spans are in microseconds.
type reply struct {
	now       int64 // the server's instant
	epoch     int64 // the life of the state
	gen       int64 // the generation of the plan
	seq       int64 // how often the state has been written
	hold      int64 // how long the hold goes on; -1-age: there is none, and Resume was called so long ago
	newest    int64 // how far away the newest slot is
	life      int64 // how long the server should keep the state
	wait      int64 // how long not to ask for slots; -1: until there is a message
	silent    int64 // how long it waits for msgRow
	turn      int64 // where the member's turn ends in the row of tokens; 0: it has none
	due       int64 // how far away the next slot is
	by        int64 // the limit that the next slot waits for, counted from 1; 0: it is not known, or none
	keep      int64 // tokens in hand from which on to ask again; -1: all entries got slots
	cap       int64 // how many units the member may use while others want some
	units     int64 // how many units it got besides those that it kept
	again     int64 // how long not to ask for units; 0: it has all that it wants; -1: until there is a message
	wanted    int64 // 1: other members want units
	tight     int64 // 1: units are scarcer than slots
	gaveUp    int64 // 1: an adaptive limit has given up
	mark      int64 // what an adaptive limit calls its present interval
	given     int64 // 1: there are slots that were given back
	slow      int64 // 1: entries at that interval are its control group
	granted   int64 // how many entries it had granted before those of this call
	wants     int64 // how soon it is to hear of successes; see lessons
	calm      int64 // 1: the next call may be a quick one
	version   int64 // of the limits in differs
	overlap   int64 // how long members of two versions of the limits are about yet
	overtaken int64 // 1: a later call came before this one

	differs string // the gate has these limits, and not the member's

	debts   []int64 // two for each limit
	slots   []int64 // one for each opTry, and each entry of an opAsk that is decided
	picks   []int64 // for entries behind the first that is not decided: place among the opAsks, from 1, and delay
	reasons []int64 // for each of these that gets no slot in time: the limit that keeps it back, or 0
}

// number returns where the number of that name is kept, or nil.
func (r *reply) number(name string) *int64 {
	switch name {
	case "now":
		return &r.now
	case "epoch":
		return &r.epoch
	case "gen":
		return &r.gen
	case "seq":
		return &r.seq
	case "hold":
		return &r.hold
	case "newest":
		return &r.newest
	case "life":
		return &r.life
	case "wait":
		return &r.wait
	case "turn":
		return &r.turn
	case "silent":
		return &r.silent
	case "due":
		return &r.due
	case "by":
		return &r.by
	case "keep":
		return &r.keep
	case "cap":
		return &r.cap
	case "units":
		return &r.units
	case "again":
		return &r.again
	case "wanted":
		return &r.wanted
	case "tight":
		return &r.tight
	case "gaveup":
		return &r.gaveUp
	case "mark":
		return &r.mark
	case "given":
		return &r.given
	case "slow":
		return &r.slow
	case "granted":
		return &r.granted
	case "wants":
		return &r.wants
	case "calm":
		return &r.calm
	case "version":
		return &r.version
	case "overlap":
		return &r.overlap
	case "overtaken":
		return &r.overtaken
	}
	return nil
}

// list returns where the list of that name is kept, or nil.
func (r *reply) list(name string) *[]int64 {
	switch name {
	case "debts":
		return &r.debts
	case "slots":
		return &r.slots
	case "reasons":
		return &r.reasons
	case "picks":
		return &r.picks
	}
	return nil
}

// readReply reads the names and values of an answer. Names that it does not know are of another release: it
// passes them by.
func readReply(said []any) (*reply, error) {
	r := &reply{}
	for i := 0; i+1 < len(said); i += 2 {
		name, _ := said[i].(string)
		switch value := said[i+1].(type) {
		case string:
			if name == "differs" {
				r.differs = value
			}
		case int64:
			if to := r.number(name); to != nil {
				*to = value
			}
		case []any:
			to := r.list(name)
			if to == nil {
				continue
			}
			*to = make([]int64, len(value))
			for k, x := range value {
				(*to)[k], _ = x.(int64)
			}
		default:
			return nil, fmt.Errorf("redisgate: the script gave %v for %q, want a number or a list", value, name)
		}
	}
	return r, nil
}

//go:embed script/*.lua
var parts embed.FS

// text is the script: the files of the folder script, one behind the other, without the lines that are comments. All but
// the first, which has the names that they share, are blocks. It is sent to each server that does not know it.
var text = joinedScript()

func joinedScript() string {
	files, err := parts.ReadDir("script")
	if err != nil {
		panic(err) // it is part of the program
	}
	var all strings.Builder
	for i, f := range files {
		part, err := parts.ReadFile("script/" + f.Name())
		if err != nil {
			panic(err)
		}
		if i > 0 {
			all.WriteString("do\n")
		}
		for line := range strings.Lines(string(part)) {
			if !strings.HasPrefix(strings.TrimSpace(line), "--") {
				all.WriteString(line)
			}
		}
		if i > 0 {
			all.WriteString("end\n")
		}
	}
	return all.String()
}
