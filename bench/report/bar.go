package report

import (
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

// bar is the progress bar. The nil bar does nothing. It is drawn between the cases only, because
// drawing is work that would be measured, too.
type bar struct {
	pb   *pb.ProgressBar
	left time.Duration
}

const barTemplate = `{{bar . "[" "=" ">" " " "]"}} {{percent . }} {{string . "state"}}`

// newBar returns a bar for so much planned time.
func newBar(w io.Writer, planned time.Duration) *bar {
	b := &bar{pb: pb.ProgressBarTemplate(barTemplate).New(0).SetTotal(int64(planned)), left: planned}
	b.pb.SetWriter(w)
	b.pb.Set(pb.Terminal, true).Set(pb.ReturnSymbol, "\r").Set(pb.Static, true)
	b.pb.Start()
	return b
}

// begin draws the bar when a case begins.
func (b *bar) begin(what string) {
	if b == nil {
		return
	}
	b.pb.Set("state", "about "+max(b.left, 0).Round(time.Second).String()+" to go: "+what)
	b.pb.Write()
}

// end moves the bar on when a case that was planned to take so long has ended.
func (b *bar) end(planned time.Duration) {
	if b == nil {
		return
	}
	b.left -= planned
	b.pb.Add64(int64(planned))
}

// finish draws the bar for the last time and ends its line.
func (b *bar) finish() {
	if b == nil {
		return
	}
	b.pb.Set("state", "")
	b.pb.Finish()
	b.pb.Write()
}
