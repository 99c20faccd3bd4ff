package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/cheggaaa/pb/v3"
	"github.com/mattn/go-isatty"
)

// isTerminal reports whether f is a terminal.
func isTerminal(f any) bool {
	file, ok := f.(*os.File)
	return ok && isatty.IsTerminal(file.Fd())
}

// refresh is how often the bar is drawn.
const refresh = 100 * time.Millisecond

// bar is the progress bar: calls done, their rate, calls in flight and waiting, time to go. The
// nil bar does nothing. One goroutine uses it.
type bar struct {
	pb    *pb.ProgressBar
	gate  gates
	total int
	note  string

	marks [32]mark // the last ones, one per drawing, in a ring: about three seconds
	made  int      // marks that were ever made
}

type mark struct {
	at   time.Time
	done int
}

const barTemplate = `{{counters . }} {{bar . "[" "=" ">" " " "]"}} {{string . "state"}}`

func newBar(w io.Writer, total int, gate gates) *bar {
	b := &bar{pb: pb.ProgressBarTemplate(barTemplate).New(total), gate: gate, total: total}
	b.pb.SetWriter(w)
	b.pb.Set(pb.Terminal, true).Set(pb.ReturnSymbol, "\r").Set(pb.Static, true)
	b.pb.Start()
	return b
}

// draw draws the bar; done calls have ended.
func (b *bar) draw(done int) {
	if b == nil {
		return
	}
	state := fmt.Sprintf("%3d in flight, %4d waiting", b.gate.inFlight(), b.gate.waiting())
	if rate := b.rate(mark{time.Now(), done}); rate > 0 {
		eta := time.Duration(float64(b.total-done) / rate * float64(time.Second))
		state = fmt.Sprintf("%.1f/s, %s, ETA %v", rate, state, eta.Round(time.Second))
	}
	if b.note != "" {
		state += ", " + b.note
	}
	b.pb.Set("state", state).SetCurrent(int64(done))
	b.pb.Write()
}

// rate makes a mark, and returns the rate at which calls have ended since the oldest one, or 0 if
// that can't be said yet. Until the first call has ended there are none: its latency is not a gap.
func (b *bar) rate(now mark) float64 {
	if now.done == 0 {
		return 0
	}
	i := b.made % len(b.marks)
	oldest := b.marks[0]
	if b.made >= len(b.marks) {
		oldest = b.marks[i]
	}
	b.marks[i] = now
	b.made++
	if b.made == 1 || now.done == oldest.done {
		return 0
	}
	return float64(now.done-oldest.done) / now.at.Sub(oldest.at).Seconds()
}

// remark adds a note to the bar.
func (b *bar) remark(note string) {
	if b != nil {
		b.note = note
	}
}

// finish draws the bar for the last time and ends its line.
func (b *bar) finish(done int) {
	if b == nil {
		return
	}
	b.pb.Finish()
	b.draw(done)
}
