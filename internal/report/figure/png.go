package figure

import (
	"image/color"
	"io"
	"math"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgimg"
)

// writePNG paints the shapes in order through gonum's raster canvas.
func (s *scene) writePNG(w io.Writer, dpi int) error {
	c := vgimg.NewWith(vgimg.UseWH(vg.Length(s.width), vg.Length(s.height)),
		vgimg.UseDPI(dpi), vgimg.UseBackgroundColor(inkPaper.light))
	for i := range s.shapes {
		s.shapes[i].paint(c, s.height)
	}
	_, err := vgimg.PngCanvas{Canvas: c}.WriteTo(w)
	return err
}

// paint draws one shape. The canvas counts y upward from the bottom.
func (sh *shape) paint(c *vgimg.Canvas, height float64) {
	at := func(p pt) vg.Point { return vg.Point{X: vg.Length(p.x), Y: vg.Length(height - p.y)} }
	if sh.kind == label {
		sh.paintText(c, at(sh.pts[0]))
		return
	}
	var path vg.Path
	if sh.kind == circle {
		ctr := at(sh.pts[0])
		path.Move(vg.Point{X: ctr.X + vg.Length(sh.r), Y: ctr.Y})
		path.Arc(ctr, vg.Length(sh.r), 0, 2*math.Pi)
		path.Close()
	} else {
		path.Move(at(sh.pts[0]))
		for _, p := range sh.pts[1:] {
			path.Line(at(p))
		}
		if sh.kind == polygon {
			path.Close()
		}
	}
	if sh.fill.name != "" {
		c.SetColor(withAlpha(sh.fill.light, sh.alpha))
		c.Fill(path)
	}
	if sh.stroke.name != "" {
		dash := make([]vg.Length, len(sh.dash))
		for i, d := range sh.dash {
			dash[i] = vg.Length(d)
		}
		c.SetColor(sh.stroke.light)
		c.SetLineWidth(vg.Length(sh.width))
		c.SetLineDash(dash, 0)
		c.Stroke(path)
	}
}

func (sh *shape) paintText(c *vgimg.Canvas, p vg.Point) {
	f := face(sh.size, sh.bold)
	w := f.Width(sh.text)
	c.SetColor(sh.fill.light)
	off := vg.Length(0)
	switch sh.anchor {
	case middle:
		off = -w / 2
	case end:
		off = -w
	}
	if !sh.upward {
		c.FillString(f, vg.Point{X: p.X + off, Y: p.Y}, sh.text)
		return
	}
	c.Push()
	c.Translate(p)
	c.Rotate(math.Pi / 2)
	c.FillString(f, vg.Point{X: off}, sh.text)
	c.Pop()
}

func withAlpha(c color.RGBA, alpha float64) color.Color {
	if alpha <= 0 {
		return c
	}
	return color.NRGBA{R: c.R, G: c.G, B: c.B, A: uint8(math.Round(alpha * 255))}
}
