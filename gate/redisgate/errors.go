package redisgate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ErrClosed is what a closed gate returns to every entry, waiting or new.
var ErrClosed = errors.New("redisgate: the gate is closed")

// ErrLeaseLost is the cause with which the context of [Gate.Do] and [Gate.EnterContext] ends when
// the lease of its units could not be renewed in time. Other entries may get the units then.
var ErrLeaseLost = errors.New("redisgate: the lease was lost")

// ServerError is returned to an entry when Redis has refused the call of the gate for a reason that does not pass.
// Examples are a key of another type, a missing permission and a wrong password. It matches Err. The entry did not
// wait, and has taken nothing. It does not use the fallback: a mistake is not an absence.
//
// What may pass, such as a failover or a server without memory, is waited for. See [AwayError].
type ServerError struct {
	Err error // what Redis said
}

// Error says what Redis said.
func (e *ServerError) Error() string { return "redisgate: Redis refuses the call: " + e.Err.Error() }

// Unwrap returns Err.
func (e *ServerError) Unwrap() error { return e.Err }

// passing are words of errors of a server that works again by itself, or when it is repaired.
var passing = []string{"READONLY", "NOREPLICAS", "LOADING", "BUSY", "MASTERDOWN", "OOM", "CLUSTERDOWN", "TRYAGAIN", "MISCONF", "MOVED", "ASK "}

// mistakes are words of errors that stay, whatever the server does.
var mistakes = []string{
	"WRONGTYPE", "NOPERM", "NOAUTH", "WRONGPASS", "DENIED", "CROSSSLOT", "NOPROTO",
	"ERR unknown command", "ERR user_script", "ERR Error running script", "ERR Error compiling script", "ERR The user executing the script",
	"ERR invalid password", "ERR AUTH", "ERR Client sent AUTH",
}

// isMistake reports whether Redis has refused a call for a reason that does not pass.
func isMistake(err error) bool {
	if e := redis.Error(nil); err == nil || !errors.As(err, &e) {
		return false
	}
	said := err.Error()
	in := func(word string) bool { return strings.Contains(said, word) }
	return !slices.ContainsFunc(passing, in) && slices.ContainsFunc(mistakes, in)
}

// AwayError is returned to an entry when its context has ended while Redis could not be reached, or
// was too slow to be of use. It matches both Cause and Err. While the client retries by itself, Err
// knows only that there was no answer.
type AwayError struct {
	Cause error // why the wait ended: the cause of the context
	Err   error // what kept Redis away
}

// Error says both why the wait ended and what kept Redis away.
func (e *AwayError) Error() string {
	return fmt.Sprintf("redisgate: Redis is away (%v): %v", e.Err, e.Cause)
}

// Unwrap returns Cause and Err.
func (e *AwayError) Unwrap() []error { return []error{e.Cause, e.Err} }

// LimitsError is returned to the entries of a process whose limits are not those of the gate: other processes use the
// key with other ones. Nothing was done. To change a limit with a release, see Options.Version.
type LimitsError struct {
	Key           string // in Redis, of the gate's state
	Mine          string // what this process was made with
	MyVersion     int
	Theirs        string // what the gate has
	TheirsVersion int
}

// Error shows both.
func (e *LimitsError) Error() string {
	return fmt.Sprintf("redisgate: %s has other limits: this process has %s (version %d), others have %s (version %d)",
		e.Key, e.Mine, e.MyVersion, e.Theirs, e.TheirsVersion)
}
