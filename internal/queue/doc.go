// Package queue decides when entries that share limits are admitted. It knows how entries wait, but not
// what limits them: a gate answers that by a [Limit].
//
//	         Set {api}             Set {api, slots}          a Set is a queue of entries that
//	    head ◀ w ◀ w ◀ w            head ◀ w ◀ w             want the same limits
//	      │                           │
//	    parked                      parked                   a head is parked at one limit that
//	      ▼                           ▼                      keeps it back
//	┌───────────────┐         ┌───────────────┐
//	│  Queue "api"  │         │ Queue "slots" │              a Queue is a limit, its alarm, and
//	│ Limit   Alarm │         │ Limit         │              the heads that are parked at it
//	└───────────────┘         └───────────────┘
//	└───────────── one Group ─────────────────┘              a Group is the lock of all of them
//
// # Invariants
//
//   - An entry is admitted by all its limits at one instant, or by none of them.
//   - Entries of one Set are admitted in order of arrival: only its head competes.
//   - At each Queue, heads are admitted in order of arrival. A head is parked at one limit that keeps it
//     back, so it is in no entry's way at its other limits. A head that was moved from one limit to
//     another too often reserves: it is parked at all its limits until it is admitted.
//   - Heads that are due at one instant are looked at in order of arrival, in whichever order their alarms ring.
//   - A waiting entry is charged nothing. So an entry that gives up costs nothing, and a change of a limit's
//     plan applies to all waiting entries.
//   - The lock of the Group guards all state, except that of a [Freezer] that is not frozen. While a
//     head is parked at a Queue, its limit is frozen.
//   - Before the lock is released, every head that can be admitted is. Callers are woken only after that, so
//     that they don't contend for the lock.
//
// # The life of an entry
//
//  1. The caller takes the lock of the Group. It first admits heads that are due already, if their alarm is
//     late.
//  2. If no entry waits ahead and all limits have room, the entry is charged and admitted at once.
//  3. If the wait is known to outlast the deadline of its context, it is refused.
//  4. The entry goes to the end of its Set. If it is the head, it is parked at a limit that keeps it back.
//  5. The caller releases the lock and waits for its grant, or for the end of its context.
//  6. An alarm rings, an entry leaves, or a plan changes. That marks the Queue. Before the lock is
//     released, the heads at marked queues are looked at.
//  7. If the limit of a head has room, the head is moved to another limit that keeps it back. If there is
//     none, it is charged by all limits, and the entry behind it becomes the head.
//  8. The caller of the admitted entry is woken. It reports when it ran.
//  9. If its context has ended meanwhile, the entry is taken back.
//  10. When the actual cost is settled, all limits correct their charge at one instant.
//
// # Lateness
//
// An alarm rings late, and a caller runs late. A limit that makes up for that has to know from which
// instant an entry counts. If the alarm of a Queue is overdue, its heads count from the instant that the
// alarm was set for. Otherwise they count from now. Also, a caller that waited reports when it runs; see
// [Lateness].
//
// # A limit
//
// A gate of n slots, without a fast path, is no more than this:
//
//	type slots struct {
//		queue.Queue
//		set  queue.Set
//		size int
//		used int
//	}
//
//	func newSlots(n int) *slots {
//		l := &slots{size: n}
//		l.Queue.Init(l, nil, false) // it needs no clock
//		l.set.Init(&l.Queue)
//		return l
//	}
//
//	func (l *slots) Capacity() int { return l.size }
//
//	func (l *slots) Due(_, since int64, _ uint64, cost int) int64 {
//		if l.used+cost > l.size {
//			return queue.Never // until another entry leaves
//		}
//		return since
//	}
//
//	func (l *slots) Take(_, _ int64, cost int) (mark uint64) { l.used += cost; return 0 }
//
//	func (l *slots) leave(cost int) {
//		l.Change(func(int64) queue.Effect { l.used -= cost; return queue.Sooner })
//	}
//
// Settle and Undo are similar. To enter, call l.set.Enter. For a composite, Join the queues of its limits,
// make a Set of all of them, and enter that.
//
// # Files
//
//   - limit.go: what a gate implements, and the errors that it gets
//   - group.go: the lock, and how it admits heads before it is released
//   - agenda.go: which heads are due
//   - queue.go: a limit with its alarm
//   - set.go: entering, settling, and taking back
//   - line.go: how entries move, from arrival to grant
//   - deadline.go: estimates of waits
//   - waits.go: for how long entries wait
//   - explain.go: what keeps entries back, for people
//   - waiter.go: an entry that waits, and what wakes its caller
package queue
