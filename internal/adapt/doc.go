// Package adapt is the arithmetic of an interval that follows an unknown limit. When an entry comes
// back, as a success or throttled, a [State] says how long the interval between entries is now. It
// is pure: instants come in as arguments, and no clock, lock or goroutine is involved.
//
//	s := adapt.New(adapt.Config{Fastest: 10e6, Slowest: 60e9, Backoff: 2, Recover: 0.9})
//	mark := s.Grant(now)     // an entry is granted
//	s.Throttle(mark, 0)      // it came back throttled
//	next := s.Interval()     // 20e6: twice as long
//
// A [Slots] is the same for a limit on the entries in flight. What follows is about the State.
//
// Package gate/redisgate has the State in Lua, too, for a limit that processes share. A test there compares the two, so
// whatever changes here has to change there.
//
// # Words
//
// An entry is granted and comes back, one round trip later, as a success or as a throttle.
//
// A generation lasts until the interval grows. A pass of an earlier generation moves nothing.
//
// A success is fresh if its entry was granted after the last change of the interval, shorter or
// longer. Only a fresh success has seen what the change did.
//
// The known interval is the shortest one that is taken to work. A probe is a few entries at a
// shorter one.
//
// # Noise
//
// A refusal counts only if slowing down would help. A far side may refuse a share of the entries whatever
// the pace: one bad node behind a balancer does, or an item that is refused each time. That share is noise.
//
// After an interval has failed, entries go slower anyway. Those that go clearly slower are the control group, and
// their share of refusals is the noise. A refusal counts as a throttle only if refusals have become more frequent than
// that. As long as no noise is known, each one counts. Once the control group has met noise, the interval that
// seemed to fail gets another trial. See noise.go for the control group, and excess.go for the test.
//
// A refusal may say how long to keep away (Retry-After). To keep to it for nothing costs the entries of that time. To
// ignore a real one may end in a ban. So the fewer entries a hold costs, the more must tell that it is noise.
//
// The test does not look for a rate, as BBR does, nor for a gradient, as PCC Vivace does. Both need many
// entries at each pace, and an entry that is refused is dear. It shares their idea: compare two paces, and believe
// only what differs.
//
// # The simple rule
//
// A throttle multiplies the interval by Backoff, once a generation, however many of the entries
// under way come back throttled. A fresh success multiplies it by Recover. As long as no limit has
// been met, that is all.
//
// It is the multiplicative decrease (of the rate) of TCP (Jacobson, Congestion Avoidance and
// Control, 1988). It acts once per loss event, as NewReno does (RFC 6582), and moves once per round
// trip.
//
// A program that keeps to this rule runs into the limit again and again. It loses half a round trip
// at double the interval each time. At the limit, every second call may be refused until the first
// refusal is back.
//
// # The rule used here
//
// When an interval fails that was approached from slower ones, the one before it is known to work.
// Then:
//
//   - Back in one step. A throttle multiplies the interval by Backoff. The first success at that
//     pace brings the known interval back. CUBIC (RFC 9438, and the adaptive retry mode of the AWS
//     SDKs) also remembers the rate of the last loss and returns to it quickly. Here the known
//     interval is not the one that failed, so the way back need not slow down.
//
//   - Probes. The interval stays until some entries have succeeded at it. Then a few entries are
//     sent at a shorter one, and the known one returns at once, before the first answer is back. If
//     one of them is throttled, its generation has ended: that is no reason to slow down, because
//     that pace is over. BBR probes in this way (Cardwell and others, BBR: Congestion-Based
//     Congestion Control, 2016: a short pulse above the rate, then back without waiting for the
//     answer). It makes a probe cheap where round trips are long. Where they are short, the
//     throttle comes during the probe and counts like any other. If all of the probe comes back
//     well, or no more is refused than noise explains, its interval is the known one. The next
//     probe follows at once, in a longer stride: the convex part of CUBIC's curve. So a limit that has doubled is found in a few round trips.
//
//   - Rarely. A probe that fails makes the next one smaller, down to a third of a Recover, and then
//     large again. The wait between two probes doubles from 24 to 96 successes.
//
//   - Long enough. A far side that saves tokens up lets a probe pass that spends fewer than it has
//     saved. So a probe spends a number of tokens, its room, which is learned. The room doubles
//     when a known interval fails that a probe had found. When an entry of a probe is refused, the
//     room shrinks towards twice what had been spent.
//
//   - When the known interval fails, the far side has changed, or noise was taken for a limit. The
//     interval is lengthened by a third of a Recover. Where the round trip is long, the entries
//     under way at that moment say much more. The share of them that came back well is the share
//     of their rate that the far side takes.
//
//   - Forgotten. When the backed off interval fails, too, before anything came back well, nothing
//     is known any more. The simple rule applies again.
//
//   - Costly refusals. The far side may say how long to keep away (Retry-After), and that may be
//     many intervals. Then all of this is done more carefully. A probe stays at its interval until
//     that has gone well for two such spans. The rest after a probe that failed is as long as 16 of
//     them. A far side that counts by windows takes as many entries in a span as it took since the
//     last hold. See costly.go. The interval that worked before the limit moved is remembered, see moving.go.
//
// None of this needs to know the latency: all of it is counted in entries. A success must be fresh,
// so the steps keep to round trips by themselves.
//
// # What it does not do
//
// Where the latency varies by a tenth of an interval or more, some calls reach the far side too close together at
// any pace near its limit. A far side without a burst refuses them. Most of those refusals count, and double the
// interval for a round trip. A fixed pace, known beforehand, can't do well there either. A far side with a
// burst bears more of that, up to a few intervals.
//
// It needs some refusals to learn what noise is. Where each of these holds all entries for a minute, it learns too
// slowly: with 1 to 10 % of such noise, often less than half of the entries go through. Where a hold lasts a few intervals only, it keeps
// to holds, also to those of noise.
//
// A limit beside noise costs more than a limit alone: with round trips of 40 intervals and 2 % of noise, four fifths of
// the limit are used. The simulation beside the tests has the figures. A rule that takes refusals of the control group
// for noise sooner, even where slowing down has helped, reaches 92 % there. But where there is a limit and no noise, it lets
// up to half of the entries be refused: a far side with a burst refuses few of those that are a little too fast.
//
// A limit that halves and doubles every 20 holds is used to 83 %. To learn that it has doubled takes a probe, and a
// probe that comes too early costs a hold. With a rest of r holds between probes, that is 20/r holds and r/2 holds' worth
// of the lower rate, at least 6.3 of 60. The hold that tells of the lower limit costs 2 more. So no rule can use more
// than 86 %. One that rests for 6 holds would lose a seventh of a limit that stays.
package adapt
