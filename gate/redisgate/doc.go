// Package redisgate is a gate of many machines: processes that name the same key in the same
// Redis share one limit, and every one of them sees a [gate.Gate] like any other.
//
//	client := redis.NewClient(&redis.Options{Addr: "localhost:6379", ContextTimeoutEnabled: true})
//	api := redisgate.New(client, "api", redisgate.Limits{
//		redisgate.Strict(100, time.Second, nil), // never more than 100 in any second
//	}, nil)
//	err := api.Do(ctx, 1, call)
//
// # Slots, not polls
//
// A slot is an instant at which an entry may go. A process asks for the slots of all who wait in
// its own queue at once, in one call of one script, and lets them in by its own alarm. So one
// round trip serves many entries, waiting costs no traffic, and order of arrival is kept inside
// a process. Between processes the shares are even as far as the horizon allows, which is how
// far ahead slots are handed out. What is not needed goes back.
//
// Only the server's clock decides. What crosses the wire is a delay from now, counted by a
// process from when the answer came, so that nobody is early, and void when it is later than
// the guard or slack of the limit after the call was sent, so that nobody is late: a process
// that was stopped, or an answer that was held up, can't bring entries together.
//
// # Words
//
// Beside those of package gate: the horizon is how far ahead slots are handed out. A member is
// one Gate of one process. A unit is one place of a [Concurrency] limit; a lease is what a member
// has of them, for a time to live that it renews. An epoch is one life of the state in the
// server: it begins with the first call, and again when the server has lost or restored it.
//
// # What it is not for
//
// One process needs no Redis: [gate.Rate] and its siblings are exact to the nanosecond and a
// thousand times faster.
package redisgate
