package main

import (
	"fmt"
	"image/color"
	"io"
	"os"
	"path/filepath"
	"time"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	style "github.com/escapement-go/escapement/examples/internal/picture"
)

// pictures are the kinds of picture that -plot can draw.
var pictures = []string{".svg", ".png", ".pdf"}

// openPicture opens the file before the first call is made, so that a long run is not in vain. It returns nil
// for no picture.
func openPicture(name string) (*os.File, error) {
	if name == "" {
		return nil, nil
	}
	return os.Create(name)
}

// picture is the pace over time.
type picture struct {
	journal *journal
	eras    []era         // of the server's limit; none: not known
	shift   time.Duration // from the server's epoch to the journal's
	end     time.Duration
}

// write draws the picture into the file and closes it.
func (p *picture) write(f *os.File) error {
	err := p.draw(f, filepath.Ext(f.Name())[1:])
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("drawing the pace: %w", err)
	}
	return nil
}

func (p *picture) draw(w io.Writer, format string) error {
	pl := style.New("The pace over time", "seconds", "calls a second")
	for _, c := range []struct {
		name   string
		points plotter.XYs
		color  color.Color
		width  float64
		steps  plotter.StepKind
	}{
		{"started", p.counted(func(b bin) int { return b.started }), color.RGBA{0x9e, 0xbc, 0xda, 0xff}, 1.2, plotter.PostStep},
		{"refused", p.counted(func(b bin) int { return b.throttled }), color.RGBA{0xd7, 0x30, 0x27, 0xff}, 1.2, plotter.PostStep},
		{"the gate's pace", p.pace(), color.RGBA{0x08, 0x51, 0x9c, 0xff}, 1.5, plotter.NoStep},
		{"the server's limit", p.limit(), color.Black, 1.5, plotter.PostStep},
	} {
		if len(c.points) == 0 {
			continue
		}
		line, err := plotter.NewLine(c.points)
		if err != nil {
			return err
		}
		line.Color, line.Width, line.StepStyle = c.color, vg.Points(c.width), c.steps
		if c.name == "the server's limit" {
			line.Dashes = []vg.Length{vg.Points(6), vg.Points(3)}
		}
		pl.Add(line)
		pl.Legend.Add(c.name, line)
	}
	// From 0 on, and with room for the legend.
	pl.Y.Min = 0
	pl.Y.Max *= 1.35
	pl.X.Min, pl.X.Max = 0, max(p.end, time.Millisecond).Seconds()
	return style.Write(w, format, 18*vg.Centimeter, 10*vg.Centimeter, pl)
}

// counted returns how many a second there were in each bin. The last one is left out where others are:
// it is not full.
func (p *picture) counted(count func(bin) int) plotter.XYs {
	bins := p.journal.bins
	if len(bins) > 1 {
		bins = bins[:len(bins)-1]
	}
	points := make(plotter.XYs, 0, len(bins)+1)
	for i, b := range bins {
		points = append(points, p.at(i, float64(count(b))/p.journal.width.Seconds()))
	}
	if n := len(points); n > 0 {
		points = append(points, p.at(n, points[n-1].Y))
	}
	return points
}

// pace returns the pace of the gate that listens, at the end of each bin in which it was looked at.
func (p *picture) pace() (points plotter.XYs) {
	for i, b := range p.journal.bins {
		if b.interval > 0 {
			points = append(points, p.at(i+1, 1/b.interval.Seconds()))
		}
	}
	return points
}

func (p *picture) limit() (points plotter.XYs) {
	for _, e := range p.eras {
		if from := max(0, e.from-p.shift); from < p.end {
			points = append(points, plotter.XY{X: from.Seconds(), Y: perSecond(e.limit)})
		}
	}
	if n := len(points); n > 0 {
		points = append(points, plotter.XY{X: p.end.Seconds(), Y: points[n-1].Y})
	}
	return points
}

// at returns the point at the beginning of bin i.
func (p *picture) at(i int, y float64) plotter.XY {
	return plotter.XY{X: (time.Duration(i) * p.journal.width).Seconds(), Y: y}
}
