package timing

import (
	"math"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// system is what all alarms on the real clock are woken by.
var system = &wakeups{arm: new(descriptor).arm}

// descriptor is a timerfd: when it expires, the runtime's poller, which watches it,
// returns from epoll_wait at that very instant. By itself the poller sleeps for whole
// milliseconds. Nobody reads the descriptor: its being armed again is what makes it
// unreadable, and its expiring an event anew.
//
// It counts on CLOCK_MONOTONIC, as the runtime's timers do: both stand still while the
// machine is suspended.
type descriptor struct {
	file  *os.File // keeps it open and watched; nil: there is none
	fd    uintptr
	again int64 // when there is none: the instant from which to try again
}

// pause is the time between two attempts to open the descriptor, in nanoseconds.
const pause = 1e9

// Linux has the same values on all architectures, but for those of the flags, which are
// those of open.
const (
	clockMonotonic = 1
	timerfdCloexec = syscall.O_CLOEXEC
	timerfdNonblok = syscall.O_NONBLOCK
)

// arm makes the descriptor expire at the given instant, if there is one or it can be had.
// It tells the system how long that is from now: the instant must not come before the
// runtime's own timer is due, which counts from a later now as well.
func (d *descriptor) arm(now, at int64) {
	if d.file == nil && !d.open(now) {
		return
	}
	spec := struct{ interval, value syscall.Timespec }{
		value: syscall.NsecToTimespec(min(at-now, math.MaxInt32*1e9)),
	}
	// It can't fail, unless the program has closed a descriptor that isn't its own. Then
	// there are plain timers from now on: the number may be somebody else's.
	syscall.RawSyscall6(syscall.SYS_TIMERFD_SETTIME, d.fd, 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
}

// open makes the descriptor, and reports whether it did. The process may have no
// descriptor free, or be forbidden the call: then it tries again a while later.
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
		file.Close() // the poller does not take it
		return false
	}
	d.file, d.fd = file, fd
	return true
}
