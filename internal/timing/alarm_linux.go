package timing

import (
	"math"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// system wakes the process for all alarms on the real clock.
var system = &wakeups{arm: new(descriptor).arm}

// descriptor is a timerfd that the runtime's poller watches. When it expires, the poller returns
// from epoll_wait at that very instant. By itself the poller sleeps for whole milliseconds. Nothing
// reads the descriptor. Arming it again makes it unreadable, so that its next expiry is a new
// event.
//
// It counts on CLOCK_MONOTONIC, as the runtime's timers do: both stand still while the machine is
// suspended.
type descriptor struct {
	file  *os.File // keeps it open and watched; nil: there is none
	fd    uintptr
	again int64 // when there is none: the instant from which to try again
}

// pause is the time between two attempts to open the descriptor, in nanoseconds.
const pause = 1e9

// Linux has the same value of the clock on all architectures. The flags are those of open, and
// differ.
const (
	clockMonotonic = 1
	timerfdCloexec = syscall.O_CLOEXEC
	timerfdNonblok = syscall.O_NONBLOCK
)

// arm makes the descriptor expire at the given instant. It does nothing if there is no descriptor
// and none can be had. It tells the system how long that is from now. The runtime's own timer
// counts from a later now in the same way, and the descriptor must not expire before that timer is
// due.
func (d *descriptor) arm(now, at int64) {
	if d.file == nil && !d.open(now) {
		return
	}
	spec := struct{ interval, value syscall.Timespec }{
		value: syscall.NsecToTimespec(min(at-now, math.MaxInt32*1e9)),
	}
	// It can't fail, unless the program has closed a descriptor that is not its own. Then there are
	// plain timers from now on, as another file may have the number.
	syscall.RawSyscall6(syscall.SYS_TIMERFD_SETTIME, d.fd, 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
}

// open opens the descriptor, and reports whether it did. The process may have no descriptor free,
// or be forbidden the call. Then open fails until a pause is over, and tries again.
func (d *descriptor) open(now int64) bool {
	if now < d.again {
		return false
	}
	d.again = now + pause
	fd, _, errno := syscall.RawSyscall(syscall.SYS_TIMERFD_CREATE, clockMonotonic, timerfdCloexec|timerfdNonblok, 0)
	if errno != 0 {
		return false
	}
	file := os.NewFile(fd, "timerfd")
	if file.SetReadDeadline(time.Time{}) != nil {
		file.Close() // the poller does not watch it
		return false
	}
	d.file, d.fd = file, fd
	return true
}
