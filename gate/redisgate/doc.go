// Package redisgate shares one limit among many processes, on any number of machines: those that
// name the same key in the same Redis or Valkey. Use it where several processes call an API under
// one quota; each of them sees a [gate.Gate] like any other.
//
//	client := redis.NewClient(&redis.Options{Addr: "localhost:6379", ContextTimeoutEnabled: true})
//	api := redisgate.New(client, "api", redisgate.Limits{
//		redisgate.Strict(100, time.Second, nil), // never more than 100 in any second
//	}, nil)
//	err := api.Do(ctx, 1, call)
//
// It is not for a single process: [gate.Rate] and its siblings are exact to the nanosecond and a
// thousand times faster.
//
// # Costs
//
// One call decides all limits of a gate, at one instant. At a limit in [Each] every entry counts 1, such
// as at one on requests beside one on tokens. [Gate.EnterEach] says what an entry costs at each limit:
//
//	llm := redisgate.New(client, "llm", redisgate.Limits{
//		redisgate.Each(redisgate.Window(500, time.Minute, nil)), // requests
//		redisgate.Window(90_000, time.Minute, nil),              // tokens
//		redisgate.Each(redisgate.Concurrency(40, nil)),          // requests under way
//	}, nil)
//	pass, err := llm.Enter(ctx, estimate)
//	...
//	pass.Settle(actual) // the tokens
//
// # Slots, not polls
//
// A slot is an instant at which an entry may go. A process reserves slots for all entries in its
// queue with one call of one script, and admits the entries by its own alarm. So one
// round trip serves many entries, and waiting costs no traffic. Slots that are not needed are
// given back.
//
// Within a process, entries are admitted in order of arrival. When an entry has left, its slot serves the
// next entry that fits, whatever that costs. Between processes, shares are as even as the horizon allows.
//
// # Clocks
//
// Only the server's clock decides. The server sends a slot as a delay from now. The process counts
// the delay from the arrival of the answer, so that no entry is early. The slot is void when delay
// and guard (or slack) have passed since the call was sent, so that no entry is late. Both instants are
// narrowed down by the quickest answers of the last seconds. So even after a process was stopped or an
// answer held up, entries don't crowd together.
//
// A guard must be longer than the quickest round trip. While it is not, for any process, all of them keep
// a longer one, which costs slots: a Strict of 100 per second grants 97 where Redis is near, 92 at 50 ms and 75
// at 300 ms. Where that would cost more than a third, the first entry gets a [*DistanceError].
//
// # Words
//
// These are used beside the words of package gate. The horizon is how far ahead slots are handed
// out. A member is one Gate of one process. A unit is one place of a [Concurrency] limit. A lease
// is what a member has of the units, for a time to live, until it renews the lease. An epoch is
// one life of the state in the server. It begins with the first call, and again when the server has
// lost or restored the state.
package redisgate
