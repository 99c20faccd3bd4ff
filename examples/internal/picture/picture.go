// Package picture is the style of the pictures that the example programs draw.
package picture

import (
	"bytes"
	"image/color"
	"io"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// margin is the room around a picture.
const margin = vg.Length(12)

// New returns a plot with a sans-serif, a pale grid, and room around its labels.
func New(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	for _, s := range []struct {
		style *text.Style
		size  vg.Length
	}{
		{&p.Title.TextStyle, 13},
		{&p.X.Label.TextStyle, 11}, {&p.Y.Label.TextStyle, 11},
		{&p.X.Tick.Label, 10}, {&p.Y.Tick.Label, 10},
		{&p.Legend.TextStyle, 10},
	} {
		s.style.Font.Variant, s.style.Font.Size = "Sans", s.size
	}
	p.Title.Padding = 8
	p.X.Label.Padding, p.Y.Label.Padding = 4, 4
	p.Legend.Top, p.Legend.Padding, p.Legend.XOffs, p.Legend.YOffs = true, 2, -6, -4
	grid := plotter.NewGrid()
	grid.Horizontal.Color = color.Gray{Y: 0xdd}
	grid.Vertical.Color = grid.Horizontal.Color
	p.Add(grid)
	return p
}

// Every is a tick at each multiple of a number.
type Every int

// Ticks returns those from lo to hi.
func (e Every) Ticks(lo, hi float64) (ticks []plot.Tick) {
	for x := 0; float64(x) <= hi; x += int(e) {
		if float64(x) >= lo {
			ticks = append(ticks, plot.Tick{Value: float64(x), Label: strconv.Itoa(x)})
		}
	}
	return ticks
}

// Write draws the plots, one below the other, and writes the picture in a format such as svg. The height is
// that of one plot.
func Write(w io.Writer, format string, width, height vg.Length, plots ...*plot.Plot) error {
	canvas, err := draw.NewFormattedCanvas(width, height*vg.Length(len(plots)), format)
	if err != nil {
		return err
	}
	page := draw.New(canvas)
	page.SetColor(color.White)
	page.Fill(page.Rectangle.Path())
	tiles := draw.Tiles{
		Rows: len(plots), Cols: 1, PadY: 2 * margin,
		PadTop: margin, PadBottom: margin, PadLeft: margin, PadRight: margin,
	}
	var rows [][]*plot.Plot
	for _, p := range plots {
		rows = append(rows, []*plot.Plot{p})
	}
	for i, row := range plot.Align(rows, tiles, page) {
		plots[i].Draw(row[0])
	}
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return err
	}
	// A browser without this font would take a serif. Arial has the same widths.
	_, err = w.Write(bytes.ReplaceAll(b.Bytes(),
		[]byte("font-family:Liberation Sans;"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;")))
	return err
}
