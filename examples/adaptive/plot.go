package main

import (
	"fmt"
	"image/color"
	"io"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/escapement-go/escapement/examples/internal/picture"
)

// Colours that colour-blind readers can tell apart, too (Okabe and Ito).
var colours = map[int]color.Color{
	1: color.RGBA{R: 0x00, G: 0x72, B: 0xb2, A: 0xff},
	5: color.RGBA{R: 0xe6, G: 0x9f, B: 0x00, A: 0xff},
}

// plotTo draws the interval over time for a client that was told too much, one panel for each
// latency, and writes it to w as SVG.
func plotTo(w io.Writer) error {
	var panels []*plot.Plot
	for _, latency := range latencies {
		p, err := panel(latency)
		if err != nil {
			return err
		}
		if len(panels) > 0 {
			p.Legend = plot.NewLegend() // that of the first panel is for all
		}
		panels = append(panels, p)
	}
	return picture.Write(w, "svg", 24*vg.Centimeter, 6*vg.Centimeter, panels...)
}

// panel draws the interval at one latency, and that of the far side.
func panel(latency float64) (*plot.Plot, error) {
	p := picture.New(fmt.Sprintf("round trip %v, told %.2f × the limit", latency, 1/0.6),
		"time, in the far side's first intervals", "interval")
	p.X.Min, p.X.Max = 0, 3*phase
	p.X.Tick.Marker = picture.Every(1000)
	p.Y.Min, p.Y.Max = 0, 5
	p.Y.Tick.Marker = picture.Every(1)
	for _, burst := range bursts {
		var points plotter.XYs
		w := find(name("limit", latency, "burst", burst, times(0.6)))
		now := new(virtual)
		w.play(now, newGated(now, w), 1, func(at, interval time.Duration) {
			points = append(points, point(w, at, interval))
		})
		points = append(points, plotter.XY{X: p.X.Max, Y: points[len(points)-1].Y})
		line, err := stairs(points)
		if err != nil {
			return nil, err
		}
		line.Color = colours[burst]
		p.Add(line)
		p.Legend.Add(fmt.Sprintf("gate, burst %d", burst), line)
	}
	var points plotter.XYs
	for i, interval := range halving {
		points = append(points, plotter.XY{X: float64(i) * phase, Y: interval}, plotter.XY{X: float64(i+1) * phase, Y: interval})
	}
	line, err := stairs(points)
	if err != nil {
		return nil, err
	}
	line.Width = vg.Points(1.5)
	line.Dashes = []vg.Length{vg.Points(5), vg.Points(3)}
	p.Add(line)
	p.Legend.Add("limit", line)
	return p, nil
}

func point(w world, at, interval time.Duration) plotter.XY {
	return plotter.XY{X: w.units(at), Y: w.units(interval)}
}

// stairs is a line that stays until the next point.
func stairs(points plotter.XYs) (*plotter.Line, error) {
	line, err := plotter.NewLine(points)
	if err != nil {
		return nil, err
	}
	line.StepStyle = plotter.PostStep
	line.Width = vg.Points(0.8)
	return line, nil
}
