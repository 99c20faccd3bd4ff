package timing

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// open opens a descriptor by arming it.
func open(t *testing.T) *descriptor {
	t.Helper()
	d := new(descriptor)
	d.arm(0, 3600e9)
	if d.file == nil {
		t.Fatal("no timerfd to be had")
	}
	t.Cleanup(func() { d.file.Close() })
	return d
}

// The call that opens the descriptor arms it, too, and a new instant takes the place of the old.
func TestDescriptorIsArmed(t *testing.T) {
	d := open(t)
	for _, c := range []struct{ now, at, want int64 }{
		{0, 0, 3600e9}, // as it was opened
		{1e18, 1e18 + 60e9, 60e9},
		{0, math.MaxInt64, math.MaxInt32 * 1e9}, // no more fits into the seconds of all systems
	} {
		if c.at != 0 {
			d.arm(c.now, c.at)
		}
		var left struct{ interval, value syscall.Timespec }
		if _, _, errno := syscall.RawSyscall(syscall.SYS_TIMERFD_GETTIME, d.fd, uintptr(unsafe.Pointer(&left)), 0); errno != 0 {
			t.Fatal(errno)
		}
		if got := left.value.Nano(); got > c.want || got < c.want-30e9 || left.interval.Nano() != 0 {
			t.Errorf("armed to expire in %v, want %v", time.Duration(got), time.Duration(c.want))
		}
	}
}

// It counts on the clock of the runtime's timers, which nobody sets.
func TestDescriptorCountsOnMonotonic(t *testing.T) {
	d := open(t)
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", d.fd))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(info), "clockid: 1\n") {
		t.Errorf("not CLOCK_MONOTONIC:\n%s", info)
	}
}

// What the runtime's poller does: it waits for edges, and nobody ever reads.
func TestDescriptorExpiresAgainAndAgain(t *testing.T) {
	d := open(t)
	poller, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(poller)
	const edges = 1 << 31 // EPOLLET, without its sign
	event := syscall.EpollEvent{Events: syscall.EPOLLIN | edges, Fd: int32(d.fd)}
	if err := syscall.EpollCtl(poller, syscall.EPOLL_CTL_ADD, int(d.fd), &event); err != nil {
		t.Fatal(err)
	}
	expired := func(timeout int) bool {
		for {
			n, err := syscall.EpollWait(poller, make([]syscall.EpollEvent, 1), timeout)
			if err == syscall.EINTR {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			return n == 1
		}
	}
	for i := range 20 {
		d.arm(0, 3600e9)
		if expired(0) {
			t.Fatalf("round %d: expired an hour early", i)
		}
		d.arm(0, 100e3)
		expired(-1)
		if expired(0) {
			t.Fatalf("round %d: expired twice", i)
		}
		if i%3 == 0 {
			d.arm(5, 6) // the shortest there is
			expired(-1)
		}
	}
}

// The poller of the runtime has it, so that whatever it is armed for wakes the process.
func TestRuntimeWatchesDescriptor(t *testing.T) {
	d := open(t)
	fds, err := filepath.Glob("/proc/self/fd/*")
	if err != nil || len(fds) == 0 {
		t.Fatal("no /proc/self/fd", err)
	}
	for _, fd := range fds {
		if link, _ := os.Readlink(fd); link != "anon_inode:[eventpoll]" {
			continue
		}
		info, err := os.ReadFile(strings.Replace(fd, "/fd/", "/fdinfo/", 1))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(info)) {
			var watched uintptr
			if n, _ := fmt.Sscanf(line, "tfd: %d", &watched); n == 1 && watched == d.fd {
				return
			}
		}
	}
	t.Error("no poller watches the timerfd")
}

// Where no descriptor is free it is tried again a while later, and not before.
func TestNoDescriptorFree(t *testing.T) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	none := limit
	none.Cur = 3
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	d := new(descriptor)
	d.arm(1000, 3600e9)
	missing := d.file == nil
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if !missing {
		t.Fatal("a descriptor was to be had, but for three")
	}
	if d.arm(1000+pause-1, 3600e9); d.file != nil {
		t.Error("tried again before its time")
	}
	if d.arm(1000+pause, 3600e9); d.file == nil {
		t.Fatal("not tried again")
	}
	d.file.Close()
}

// One descriptor serves the process.
func TestOneDescriptor(t *testing.T) {
	count := func() (n int) {
		fds, _ := filepath.Glob("/proc/self/fd/*")
		for _, fd := range fds {
			if link, _ := os.Readlink(fd); link == "anon_inode:[timerfd]" {
				n++
			}
		}
		return n
	}
	for range 100 {
		k := New(nil)
		now := k.Now()
		for range 10 {
			a := NewAlarm(k, func() {})
			a.Tune(Precise, 0, 0)
			a.Set(now, now+3600e9)
			defer a.Stop()
		}
	}
	if n := count(); n != 1 {
		t.Errorf("%d timerfds are open, want 1", n)
	}
}
