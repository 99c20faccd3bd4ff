package pace_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/escapement-go/escapement/pace"
)

// A pacer that waits for its next token has the process woken for it, on the real clock, if
// its precision says so.
func TestPrecision(t *testing.T) {
	slow, fast := pace.Every(20*time.Hour), pace.PerSecond(1e6)
	for _, c := range []struct {
		name      string
		rate      pace.Rate
		then      pace.Rate
		precision pace.Precision
		want      bool
	}{
		{"Auto", slow, slow, pace.PrecisionAuto, true},
		{"Auto at a high rate", fast, fast, pace.PrecisionAuto, false},
		{"Auto, made slow", fast, slow, pace.PrecisionAuto, true},
		{"Auto, made fast", slow, fast, pace.PrecisionAuto, false},
		{"Precise", fast, fast, pace.PrecisionPrecise, true},
		{"Coalesced", slow, slow, pace.PrecisionCoalesced, false},
	} {
		p := pace.New(c.rate, &pace.Options{Precision: c.precision})
		p.SetRate(c.then)
		p.Hold(19 * time.Hour)
		p.SetRate(c.then) // when it returns, the feeder has seen the hold, or is about to
		asked := false
		for range 1000 {
			if asked = remaining(t) > 18*time.Hour; asked {
				break
			}
			p.Hold(time.Nanosecond) // changes nothing
		}
		if asked != c.want {
			t.Errorf("%s: a wake-up is asked for: %v, want %v", c.name, asked, c.want)
		}
		p.Stop()
		other := pace.New(pace.PerHour(1), nil)
		<-other.C
		for range 1000 {
			if d := remaining(t); d > 0 && d <= time.Hour {
				break
			}
			other.Hold(time.Nanosecond)
		}
		if d := remaining(t); d > time.Hour || d < time.Minute {
			t.Errorf("%s: after it was stopped the next wake-up is in %v, want an hour", c.name, d)
		}
		other.Stop()
	}
}

// A pacer whose token nobody takes stands in the way of nobody else's wake-up.
func TestPrecisionOfOthers(t *testing.T) {
	other := pace.New(pace.PerHour(1), nil)
	defer other.Stop()
	<-other.C
	idle := pace.New(pace.PerSecond(1000), &pace.Options{Precision: pace.PrecisionPrecise})
	defer idle.Stop()
	for range 3 {
		<-idle.C // the next one comes up in a ms, and stays
	}
	var d time.Duration
	for end := time.Now().Add(time.Second); d < time.Minute && time.Now().Before(end); {
		d = remaining(t)
		runtime.Gosched()
	}
	if d < time.Minute || d > time.Hour {
		t.Errorf("while another pacer's token lies there the next wake-up is in %v, want an hour", d)
	}
}

// Nor does one that has many tokens to send.
func TestPrecisionOfOthersMeanwhile(t *testing.T) {
	other := pace.New(pace.PerHour(1), nil)
	defer other.Stop()
	<-other.C
	slow := pace.PerSecond(1000)
	busy := pace.New(slow, &pace.Options{Precision: pace.PrecisionPrecise, Burst: 1 << 20})
	defer busy.Stop()
	var d time.Duration
	for end := time.Now().Add(5 * time.Second); d < time.Minute && time.Now().Before(end); {
		for range cap(busy.C) + 3 { // the last ones are waited for
			<-busy.C
		}
		busy.SetRate(pace.Unlimited())
		for d < time.Minute {
			next := remaining(t)
			if len(busy.C) == cap(busy.C) {
				break // it has sent them
			}
			d = next
		}
		busy.SetRate(slow)
	}
	if d < time.Minute || d > time.Hour {
		t.Errorf("while another pacer sends, the next wake-up is in %v, want an hour", d)
	}
}

// So has the stage, while a value waits for its token.
func TestThrottlePrecision(t *testing.T) {
	for _, c := range []struct {
		name      string
		rate      pace.Rate
		precision pace.Precision
		want      bool
	}{
		{"Auto", pace.Every(20 * time.Hour), pace.PrecisionAuto, true},
		{"Coalesced", pace.Every(20 * time.Hour), pace.PrecisionCoalesced, false},
	} {
		in := make(chan int) // unbuffered: the stage has taken what was sent
		ctx, cancel := context.WithCancel(t.Context())
		out := pace.Throttle(ctx, in, c.rate, &pace.Options{Precision: c.precision})
		in <- 1
		<-out
		in <- 2
		asked := false
		for range 1000 {
			if asked = remaining(t) > 18*time.Hour; asked {
				break
			}
			runtime.Gosched()
		}
		if asked != c.want {
			t.Errorf("%s: a wake-up is asked for: %v, want %v", c.name, asked, c.want)
		}
		cancel()
		for range out {
		}
		// What was armed stays so until somebody else waits.
		other := pace.New(pace.PerHour(1), nil)
		<-other.C
		for range 10 {
			other.Hold(time.Nanosecond)
		}
		other.Stop()
	}
}

// remaining returns for how long the process's timerfd, if there is one, is armed.
func remaining(t *testing.T) (d time.Duration) {
	t.Helper()
	fds, _ := filepath.Glob("/proc/self/fd/*")
	for _, fd := range fds {
		if link, _ := os.Readlink(fd); link != "anon_inode:[timerfd]" {
			continue
		}
		info, err := os.ReadFile(strings.Replace(fd, "/fd/", "/fdinfo/", 1))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(info)) {
			var sec, nsec int64
			if n, _ := fmt.Sscanf(line, "it_value: (%d, %d)", &sec, &nsec); n == 2 {
				d = time.Duration(sec)*time.Second + time.Duration(nsec)
			}
		}
	}
	return d
}
