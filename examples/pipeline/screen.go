package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cheggaaa/pb/v3"
	"github.com/mattn/go-colorable"
	"github.com/mattn/go-isatty"

	"github.com/escapement-go/escapement/gate"
)

// refresh is how often the screen is drawn.
const refresh = 100 * time.Millisecond

// screen is the progress bar and the table of the stages, on a terminal. The nil screen is
// nowhere.
type screen struct {
	w        io.Writer
	bar      *pb.ProgressBar
	pipeline *pipeline
	begun    time.Time
	lines    int // of the last drawing

	over, ended chan struct{}
}

const barTemplate = `{{counters . }} {{bar . "[" "=" ">" " " "]"}} {{string . "state"}}`

// startScreen shows how far the pipeline is, until stop, if standard error is a terminal.
func (p *program) startScreen(l *pipeline) *screen {
	f, ok := p.stderr.(*os.File)
	if !ok || !isatty.IsTerminal(f.Fd()) {
		return nil
	}
	s := &screen{
		w:        colorable.NewColorable(f), // on Windows, makes the cursor go up
		bar:      pb.ProgressBarTemplate(barTemplate).New(len(l.list)),
		pipeline: l,
		begun:    time.Now(),
		over:     make(chan struct{}),
		ended:    make(chan struct{}),
	}
	s.bar.SetWidth(79).Set(pb.Static, true).Start()
	go func() { // ends with stop, which waits for it
		defer close(s.ended)
		tick := time.NewTicker(refresh)
		defer tick.Stop()
		for {
			s.draw()
			select {
			case <-tick.C:
			case <-s.over:
				s.draw()
				return
			}
		}
	}()
	return s
}

// stop draws the screen for the last time.
func (s *screen) stop() {
	if s == nil {
		return
	}
	close(s.over)
	<-s.ended
}

// draw draws over what was drawn before.
func (s *screen) draw() {
	var text strings.Builder
	if s.lines > 0 {
		fmt.Fprintf(&text, "\x1b[%dA", s.lines) // up
	}
	l := s.pipeline
	left := l.missing()
	s.bar.Set("state", s.state(left)).SetCurrent(int64(len(l.list) - left))
	frame := s.bar.String() + "\n" + l.table()
	s.lines = strings.Count(frame, "\n")
	text.WriteString(strings.ReplaceAll(frame, "\n", "\x1b[K\n")) // what is left of a longer line goes
	io.WriteString(s.w, text.String())
}

// state says how fast it goes, and for how long it still will. Rows come in batches; the items
// that have been fetched come evenly.
func (s *screen) state(left int) string {
	if s.pipeline.stopping.Load() {
		return "stopping, again to cut"
	}
	fetched := s.pipeline.fetching.Stats().Out
	if fetched == 0 {
		return ""
	}
	each := time.Since(s.begun) / time.Duration(fetched)
	return fmt.Sprintf("%.1f/s, ETA %v", 1/each.Seconds(), (time.Duration(left) * each).Round(time.Second))
}

// table shows what the stages do. In the first of them a gate inside the function makes an
// item wait, of which its meter knows nothing; the gate does.
func (l *pipeline) table() string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "stage\tin\tout\terrors\tat gate\tin flight\tpausing\tblocked\tidle\t")
	f := l.fetching.Stats()
	wrong := max(0, int64(f.Errors)-l.left.Load()) // the meter takes what an interrupt left for an error
	stats, _ := gate.StatsOf(l.calls.gate)
	inFlight := l.calls.slots.Stats().InUse
	pausing := max(0, f.InFlight-stats.Waiting-inFlight) // before another try
	fmt.Fprintf(w, "fetch\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", f.In, f.Out, wrong, stats.Waiting, inFlight, pausing, f.Blocked, f.Idle)
	d := l.decoding.Stats()
	fmt.Fprintf(w, "decode\t%d\t%d\t%d\t-\t%d\t-\t%d\t%d\t\n", d.In, d.Out, d.Errors, d.InFlight, d.Blocked, d.Idle)
	b := l.writing.Stats()
	fmt.Fprintf(w, "write\t%d\t-\t%d\t-\t%d\t-\t-\t%d\t\n", b.In, b.Errors, b.InFlight, b.Idle)
	w.Flush()
	return text.String()
}
