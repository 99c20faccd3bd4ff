package peers

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/escapement-go/escapement/bench/measure"
)

func machine() []measure.Candidate {
	return []measure.Candidate{{Name: clockNanosleep, New: newSleeper, Deaf: true}}
}

// sleeper lets callers sleep in turn, each until the next interval ends. It makes up for any lateness.
type sleeper struct {
	interval int64 // in ns
	now      func() int64
	sleep    func(until int64) error // may end too early

	mu   sync.Mutex
	next int64 // when the next one wakes
}

func newSleeper(perSecond int) measure.Limiter {
	return &sleeper{interval: int64(time.Second) / int64(perSecond), now: monotonic, sleep: sleepUntil, next: monotonic()}
}

func (s *sleeper) Wait(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	due := s.next
	s.next += s.interval
	for due > s.now() {
		if err := s.sleep(due); err != nil {
			return err
		}
	}
	return nil
}

// monotonic returns what CLOCK_MONOTONIC shows, in ns.
func monotonic() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err) // every Linux has it
	}
	return now.Nano()
}

// sleepUntil sleeps until that clock shows the given instant, or one of the runtime's signals comes.
func sleepUntil(at int64) error {
	until := unix.NsecToTimespec(at)
	if err := unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &until, nil); err != unix.EINTR {
		return err
	}
	return nil
}
