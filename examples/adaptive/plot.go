package main

import (
	"image/color"
	"io"
	"math"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/escapement-go/escapement/examples/internal/picture"
)

// Colours that colour-blind readers can tell apart, too (Okabe and Ito).
var (
	blue   = color.RGBA{R: 0x00, G: 0x72, B: 0xb2, A: 0xff}
	orange = color.RGBA{R: 0xe6, G: 0x9f, B: 0x00, A: 0xff}
	green  = color.RGBA{R: 0x00, G: 0x9e, B: 0x73, A: 0xff}
)

// plotTo draws how the gate follows a limit, and how it and its peers bear refusals that no pace can avoid. It
// writes the picture to w as SVG.
func plotTo(w io.Writer) error {
	var panels []*plot.Plot
	for _, draw := range []func() (*plot.Plot, error){
		func() (*plot.Plot, error) { return pacePanel("round trip of 5 intervals", 5) },
		func() (*plot.Plot, error) { return pacePanel("round trip of 50 intervals", 50) },
		func() (*plot.Plot, error) {
			return callsPanel("the limit halves and doubles, and 1 % of the calls are refused at random", "moving/64/200ms/burst/5/1.67x")
		},
		func() (*plot.Plot, error) {
			return callsPanel("for a minute, one node of ten refuses all its calls", "node/64/200ms/after")
		},
	} {
		p, err := draw()
		if err != nil {
			return err
		}
		if len(panels)%2 == 1 {
			p.Legend = plot.NewLegend() // that of the panel above is for both
		}
		panels = append(panels, p)
	}
	return picture.Write(w, "svg", 24*vg.Centimeter, 6.5*vg.Centimeter, panels...)
}

// pacePanel draws the pace of a gate that asks for 1.67 times the limit.
func pacePanel(title string, latency float64) (*plot.Plot, error) {
	p := picture.New("the limit halves and doubles, "+title, "time, s", "pace, calls/s")
	var w world
	for i, burst := range bursts {
		w = find(name("limit", latency, "burst", burst, times(0.6)))
		points := plotter.XYs{{X: 0, Y: 1 / w.asked().Seconds()}}
		now := new(virtual)
		w.play(now, watch(newGated(now, w), func(c client, _ bool) {
			if y := 1 / c.interval().Seconds(); y != points[len(points)-1].Y {
				points = append(points, plotter.XY{X: now.at.Seconds(), Y: y})
			}
		}), 1)
		points = append(points, plotter.XY{X: w.span(w.length).Seconds(), Y: points[len(points)-1].Y})
		if err := add(p, "gate; the far side saves up "+[]string{"nothing", "5 calls"}[i], points, []color.Color{blue, orange}[i]); err != nil {
			return nil, err
		}
	}
	return p, frame(p, w, "limit", func(t float64) float64 {
		interval, _ := w.limits.at(t, 0)
		return 1 / interval
	})
}

// callsPanel draws how many calls succeed, in each second.
func callsPanel(title, world string) (*plot.Plot, error) {
	p := picture.New(title, "time, s", "calls that succeed, /s")
	w := find(world)
	for i, line := range []struct {
		kind   int
		colour color.Color
	}{{2, green}, {1, orange}, {0, blue}} {
		var points plotter.XYs
		for x := range int(w.span(w.length).Seconds()) {
			points = append(points, plotter.XY{X: float64(x)})
		}
		points = append(points, plotter.XY{X: w.span(w.length).Seconds()})
		now := new(virtual)
		w.play(now, watch(clients[line.kind].make(now, w), func(_ client, well bool) {
			if well {
				points[now.at/time.Second].Y++
			}
		}), 1)
		points[len(points)-1].Y = points[len(points)-2].Y
		if err := add(p, []string{"AWS SDK", "plain rule", "gate"}[i], points, line.colour); err != nil {
			return nil, err
		}
	}
	return p, frame(p, w, "possible", w.most)
}

// frame adds a dashed line of what the far side allows, a value for each unit, and sets the axes.
func frame(p *plot.Plot, w world, label string, rate func(t float64) float64) error {
	var points plotter.XYs
	for t := 0.; t <= w.length; t++ {
		y := rate(t) / w.unit.Seconds()
		if n := len(points); n == 0 || t == w.length || points[n-1].Y != y {
			points = append(points, plotter.XY{X: w.span(t).Seconds(), Y: y})
		}
	}
	line, err := stairs(points)
	if err != nil {
		return err
	}
	line.Width = vg.Points(1.5)
	line.Dashes = []vg.Length{vg.Points(5), vg.Points(3)}
	p.Add(line)
	p.Legend.Add(label, line)
	p.X.Min, p.X.Max = 0, points[len(points)-1].X
	p.X.Tick.Marker = picture.Every(max(1, int(math.Round(p.X.Max/90)*10)))
	p.Y.Min, p.Y.Max = 0, 2.1/w.unit.Seconds()
	p.Y.Tick.Marker = picture.Every(int(0.5 / w.unit.Seconds()))
	return nil
}

// watched calls seen after each answer.
type watched struct {
	client
	seen func(c client, well bool)
}

func watch(c client, seen func(c client, well bool)) client { return watched{c, seen} }

func (w watched) enter() (leave func(well bool, after time.Duration)) {
	inner := w.client.enter()
	return func(well bool, after time.Duration) {
		inner(well, after)
		w.seen(w.client, well)
	}
}

func add(p *plot.Plot, label string, points plotter.XYs, colour color.Color) error {
	line, err := stairs(points)
	if err != nil {
		return err
	}
	line.Color = colour
	p.Add(line)
	p.Legend.Add(label, line)
	return nil
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
