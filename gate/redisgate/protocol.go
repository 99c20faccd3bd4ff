package redisgate

// What the script and its callers say to each other. script.lua has the same names.

// Operations of a call: what a member reports, and what it asks for.
const (
	opSettle   = 's' // the cost of an entry has changed
	opUnused   = 'v' // a slot was not used, and its instant has come
	opGiveBack = 'r' // a slot that is still to come is not needed
	opSuccess  = 'o' // an entry has succeeded, for an adaptive limit
	opThrottle = 't' // an entry was throttled
	opHold     = 'h' // no member may admit an entry for some time
	opResume   = 'e' // the hold is over
	opReset    = 'x' // an adaptive limit starts afresh
	opTry      = 'y' // one slot that is due now, or none
	opAsk      = 'd' // slots for waiting entries of one cost
)

// Messages on the channel of a gate.
const (
	msgReplanned   = "g" // with an epoch and a generation: slots of earlier ones are void
	msgUnitsFree   = "c" // with a member: units have become free
	msgUnitsWanted = "w" // with a member: it lacks units
	msgUnitsShort  = "u" // with a member: units are scarcer than slots
)

// Numbers of a reply, by position. Two for each limit follow, then one for each opTry and each
// entry of an opAsk that is decided. At the end is one for each of these that gets no slot in time: the
// limit that keeps it back, or 0.
const (
	replyNow     = iota // the server's instant, in microseconds
	replyEpoch          // the life of the state
	replyGen            // the generation of the plan
	replyHold           // how long the hold goes on; -1-age: there is none, and Resume was called so long ago
	replyNewest         // how far away the newest slot is
	replyLife           // how long the server should keep the state
	replyWait           // how long not to ask for slots; -1: until there is a message
	replyDue            // how far away the next slot is
	replyCap            // how many units the member may use while others want some
	replyUnits          // how many units it got besides those that it kept
	replyGaveUp         // 1: an adaptive limit has given up
	replyMark           // what an adaptive limit calls its present interval
	replyKeep           // tokens in hand from which on to ask again; -1: all entries got slots
	replyAgain          // how long not to ask for units; 0: it has all that it wants; -1: until there is a message
	replyWanted         // 1: other members want units
	replyTight          // 1: units are scarcer than slots
	replyBy             // the limit that the next slot waits for, counted from 1; 0: it is not known, or none
	replyDecided        // how many entries are decided
	replyLimits         // the first number of the limits
)
