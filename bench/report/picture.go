package report

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/escapement-go/escapement/bench/measure"
)

// picture is one picture, of a line for each limiter.
type picture struct {
	name, title string
	x, y        string
	log         bool    // of both axes
	logX        bool    // of the x axis alone
	top, right  float64 // of the axes; 0: as they come
	lines       []line
}

// line is the line of a limiter.
type line struct {
	name   string
	points []point
	dashed bool
	marked bool // the points are shown
	steps  bool
}

// Colours that colour-blind readers can tell apart (Okabe and Ito), and two more.
var colours = []color.Color{
	color.RGBA{R: 0x00, G: 0x72, B: 0xb2, A: 0xff},
	color.RGBA{R: 0xd5, G: 0x5e, B: 0x00, A: 0xff},
	color.RGBA{R: 0x00, G: 0x9e, B: 0x73, A: 0xff},
	color.RGBA{R: 0xcc, G: 0x79, B: 0xa7, A: 0xff},
	color.RGBA{R: 0xe6, G: 0x9f, B: 0x00, A: 0xff},
	color.RGBA{R: 0x56, G: 0xb4, B: 0xe9, A: 0xff},
	color.RGBA{R: 0x80, G: 0x80, B: 0x00, A: 0xff},
	color.RGBA{R: 0x66, G: 0x66, B: 0x66, A: 0xff},
}

// pictures returns what can be drawn of the rows.
func (rs rows) pictures() (all []picture) {
	rs = rs.quiet()
	for _, n := range distinct(rs, func(r row) (int, bool) { return r.Callers, !r.Queued }) {
		all = append(all, rs.errorByRate(n))
	}
	for _, perSecond := range []int{100, 1000, 10_000} {
		for _, n := range distinct(rs, func(r row) (int, bool) { return r.Callers, !r.Queued && r.PerSecond == perSecond }) {
			all = append(all, rs.gapErrors(n, perSecond))
		}
	}
	for _, what := range distinctCases(rs) {
		all = append(all, rs.overTime(what))
	}
	return slices.DeleteFunc(all, func(p picture) bool { return len(p.lines) == 0 })
}

// distinct returns the different values of the rows that have one, in order.
func distinct(rs rows, of func(row) (int, bool)) (values []int) {
	for _, r := range rs {
		if x, ok := of(r); ok && r.measured() && !slices.Contains(values, x) {
			values = append(values, x)
		}
	}
	slices.Sort(values)
	return values
}

// distinctCases returns the cases with a picture of the tokens over time: the queues, and one
// caller at 5,000 a second.
func distinctCases(rs rows) (all []measure.Case) {
	for _, r := range rs {
		if (r.Queued || r.Callers == 1 && r.PerSecond == 5000) && !slices.Contains(all, r.Case) {
			all = append(all, r.Case)
		}
	}
	return all
}

// floor is the least error that is drawn, in percent.
const floor = 1e-3

// errorByRate draws the error of the rate for each rate that was asked for.
func (rs rows) errorByRate(n int) picture {
	p := picture{
		name: fmt.Sprintf("error-%d", n), title: "Error of the rate, " + callers(n),
		x: "tokens a second that were asked for", y: "error, in percent of it", log: true, top: 100,
	}
	for _, name := range limiters(rs) {
		l := line{name: name, marked: true}
		for _, r := range rs.loops(name, n, 1, math.MaxInt) {
			if !math.IsNaN(r.offset) {
				l.points = append(l.points, point{float64(r.PerSecond), min(max(100*math.Abs(r.offset), floor), 100)})
			}
		}
		p.add(l)
	}
	return p
}

// gapErrors draws the distribution of the gap error.
func (rs rows) gapErrors(n, perSecond int) picture {
	p := picture{
		name: fmt.Sprintf("gaps-%d-%d", perSecond, n), title: fmt.Sprintf("Gap error at %s/s, %s", thousands(perSecond), callers(n)),
		x: "gap error in microseconds", y: "percent of the gaps that are at most that", logX: true, top: 100,
	}
	for _, name := range limiters(rs) {
		l := line{name: name}
		for _, r := range rs.loops(name, n, perSecond, perSecond) {
			for _, q := range r.gaps {
				l.points = append(l.points, point{max(q.x/1000, 0.1), 100 * q.y})
			}
		}
		p.add(l)
	}
	return p
}

// overTime draws the tokens that had gone by each instant.
func (rs rows) overTime(what measure.Case) picture {
	p := picture{
		name: fmt.Sprintf("tokens-%s-%d-%d", mode(what), what.PerSecond, what.Callers),
		x:    "seconds", y: "tokens",
	}
	last := 0.0
	for _, r := range rs {
		if r.Case != what || !r.measured() || len(r.grants) == 0 {
			continue
		}
		begin := 0.0
		if !what.Queued {
			begin = r.grants[0].x
		}
		l := line{name: r.limiter, steps: true}
		for _, g := range r.grants {
			at := point{(g.x - begin) / 1e9, g.y}
			l.points = append(l.points, at)
			last = max(last, at.x)
		}
		p.add(l)
	}
	ideal := line{name: "asked for", dashed: true, points: []point{{0, 1}, {last, 1 + last*float64(what.PerSecond)}}}
	p.title = fmt.Sprintf("Tokens over time, %s, %s/s", callers(what.Callers), thousands(what.PerSecond))
	if what.Queued {
		p.title = fmt.Sprintf("Tokens over time, %s queued and let go at %s/s", callers(what.Callers), thousands(what.PerSecond))
		ideal.points[1] = point{what.Ideal().Seconds(), float64(what.Callers)}
		p.top, p.right = float64(what.Callers), math.Ceil(10*min(last, 2*what.Ideal().Seconds()))/10 // so that a tick fits at its end
	}
	if len(p.lines) > 0 {
		p.add(ideal)
	}
	return p
}

// limiters returns the names of all limiters, in order.
func limiters(rs rows) (names []string) {
	for _, r := range rs {
		if !slices.Contains(names, r.limiter) {
			names = append(names, r.limiter)
		}
	}
	return names
}

// add adds a line that has points.
func (p *picture) add(l line) {
	if len(l.points) > 0 {
		p.lines = append(p.lines, l)
	}
}

// save draws the picture into the folder, as SVG and as PNG.
func (p picture) save(folder string) error {
	const width, height, legend, margin = 24 * vg.Centimeter, 13 * vg.Centimeter, 5 * vg.Centimeter, 4 * vg.Millimeter
	var all []error
	for _, ext := range []string{"svg", "png"} {
		pl, err := p.plot()
		if err != nil {
			return fmt.Errorf("drawing %s: %w", p.name, err)
		}
		canvas, err := draw.NewFormattedCanvas(width, height, ext)
		if err != nil {
			return fmt.Errorf("drawing %s: %w", p.name, err)
		}
		// The legend stands beside the lines, which may be anywhere.
		names := pl.Legend
		pl.Legend = plot.NewLegend()
		page := draw.New(canvas)
		page.SetColor(color.White)
		page.Fill(page.Rectangle.Path())
		pl.Draw(draw.Crop(page, margin, -legend, margin, -margin))
		names.Draw(draw.Crop(page, width-legend+margin, -margin, 0, -margin-vg.Centimeter))
		var drawn bytes.Buffer
		if _, err := canvas.WriteTo(&drawn); err != nil {
			return fmt.Errorf("drawing %s: %w", p.name, err)
		}
		// A browser without the font takes another one without serifs.
		out := bytes.ReplaceAll(drawn.Bytes(), []byte("font-family:Liberation Sans;"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;"))
		all = append(all, os.WriteFile(filepath.Join(folder, p.name+"."+ext), out, 0o666))
	}
	return errors.Join(all...)
}

// sans returns the font of all text.
func sans(size vg.Length) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
}

func (p picture) plot() (*plot.Plot, error) {
	pl := plot.New()
	pl.Title.Text, pl.X.Label.Text, pl.Y.Label.Text = p.title, p.x, p.y
	pl.Title.TextStyle.Font, pl.Title.Padding = sans(13), vg.Points(10)
	for _, a := range []*plot.Axis{&pl.X, &pl.Y} {
		a.Label.TextStyle.Font, a.Label.Padding = sans(11), vg.Points(6)
		a.Tick.Label.Font = sans(10)
		a.Padding = 0
	}
	grid := plotter.NewGrid()
	for _, l := range []*draw.LineStyle{&grid.Horizontal, &grid.Vertical} {
		l.Color, l.Width = color.Gray{Y: 0xd0}, vg.Points(0.5)
	}
	pl.Add(grid)
	for i, l := range p.lines {
		points := make(plotter.XYs, len(l.points))
		for j, q := range l.points {
			points[j] = plotter.XY{X: q.x, Y: q.y}
		}
		drawn, marks, err := plotter.NewLinePoints(points)
		if err != nil {
			return nil, err
		}
		drawn.Color, drawn.Width = colours[i%len(colours)], vg.Points(1.3)
		marks.Color, marks.Radius = drawn.Color, vg.Points(2)
		if i >= len(colours) || l.dashed {
			drawn.Dashes = []vg.Length{vg.Points(4), vg.Points(2)}
		}
		if l.dashed {
			drawn.Color = color.Black
		}
		if l.steps {
			drawn.StepStyle = plotter.PostStep
		}
		pl.Add(drawn)
		if l.marked {
			pl.Add(marks)
		}
		pl.Legend.Add(l.name, drawn)
	}
	pl.Legend.Top, pl.Legend.Left = true, true
	pl.Legend.TextStyle.Font = sans(9)
	pl.Legend.Padding = vg.Points(3)
	p.scale(pl)
	return pl, nil
}

// scale sets up the axes.
func (p picture) scale(pl *plot.Plot) {
	logarithmic := func(a *plot.Axis) {
		a.Scale = plot.LogScale{}
		a.Tick.Marker = decades{}
		if a.Min <= 0 {
			a.Min = floor
		}
		if a.Max <= a.Min {
			a.Max = 10 * a.Min
		}
	}
	if p.log {
		pl.Y.Min = floor
	} else {
		pl.Y.Min = 0
	}
	if p.top > 0 {
		pl.Y.Max = p.top
	}
	if p.right > 0 {
		pl.X.Max = p.right
	}
	pl.X.Tick.Marker, pl.Y.Tick.Marker = counts{}, counts{}
	if p.log || p.logX {
		logarithmic(&pl.X)
	}
	if p.log {
		logarithmic(&pl.Y)
	}
}

// counts are five or so ticks at round numbers: whole ones, where two of these fit.
type counts struct{}

func (counts) Ticks(lo, hi float64) (ticks []plot.Tick) {
	step := math.Pow(10, math.Floor(math.Log10((hi-lo)/5)))
	for _, times := range []float64{2, 5, 10} {
		if (hi-lo)/step <= 6 {
			break
		}
		step = times * math.Pow(10, math.Floor(math.Log10((hi-lo)/5)))
	}
	if hi-lo >= 2 {
		step = max(step, 1)
	}
	for i := math.Ceil(lo / step); i*step <= hi+step/1000; i++ {
		x := i * step
		label := strconv.FormatFloat(x, 'g', 3, 64)
		if x == math.Trunc(x) {
			label = thousands(int(x))
		}
		ticks = append(ticks, plot.Tick{Value: x, Label: label})
	}
	return ticks
}

// decades are ticks at powers of ten.
type decades struct{}

func (decades) Ticks(lo, hi float64) (ticks []plot.Tick) {
	for e := math.Floor(math.Log10(lo)); e <= math.Ceil(math.Log10(hi)); e++ {
		x := math.Pow(10, e)
		label := strconv.FormatFloat(x, 'f', -1, 64)
		if x >= 1000 {
			label = thousands(int(x))
		}
		ticks = append(ticks, plot.Tick{Value: x, Label: label})
	}
	return ticks
}
