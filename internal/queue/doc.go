// Package queue decides when entries that share limits are admitted. It knows how entries wait, and
// nothing of what they wait for: a gate tells it by a [Limit].
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
//   - At each Queue, heads are admitted in order of arrival. A head that another limit keeps back is
//     not parked there, so it is in no entry's way. A head that has been sent from one limit to another
//     too often insists: it is parked at all its limits until it is admitted.
//   - An entry that waits holds nothing. So one that gives up costs nothing, and a change of a limit's
//     plan applies to all that wait.
//   - All state is guarded by the lock of the Group, but for what a [Freezer] has given away. While a
//     head is parked at a Queue, its limit is frozen.
//   - Before the lock is released, every head that could be admitted has been. Callers learn of it
//     afterwards: they would stand at the lock together otherwise.
//
// # The life of an entry
//
//  1. The caller takes the lock of the Group, and admits the heads whose alarm is late.
//  2. If nothing waits before the entry and all limits have room, it is charged, and done.
//  3. If the wait is known to outlast the deadline of its context, it is refused.
//  4. The entry goes to the end of its Set. If it is the head, it is parked where it is kept back.
//  5. The caller releases the lock and waits for its grant, or for the end of its context.
//  6. An alarm rings, an entry leaves, or a plan changes: the Queue is marked, and looked at before
//     the lock is released.
//  7. A head that its limit lets go is parked at the next one that keeps it back. If there is none,
//     it is charged everywhere, and the one behind it becomes the head.
//  8. The caller of the admitted entry is woken. It reports when it ran.
//  9. If its context has ended meanwhile, the entry is taken back.
//  10. What the entry turns out to cost is settled, by all limits at one instant.
//
// # Lateness
//
// An alarm rings late, and a caller runs late. A limit that makes up for that has to know from which
// instant an entry counts. In a look at a Queue whose alarm is overdue, heads count from the instant that
// it was set for; in any other, from now. Beyond that there is one report, when a caller that waited
// gets to run; see [Lateness].
//
// # A limit
//
// A gate of so many slots, without a fast path, is no more than this:
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
//		l.Queue.Init(l, nil, false) // time does not matter to it
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
// Settle and Undo are alike. Entries come by l.set.Enter. For a composite, Join the queues of its limits,
// make a Set of all of them, and enter that.
//
// # Files
//
//   - limit.go: what a gate tells, and the errors that it gets
//   - group.go: the lock, and the run through the heads that can go
//   - queue.go: a limit with its alarm
//   - set.go: entering, settling, and taking back
//   - line.go: how entries move, from their coming to their grant
//   - deadline.go: what is known in advance
//   - waiter.go: an entry that waits, and what wakes its caller
package queue
