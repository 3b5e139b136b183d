package figure

import (
	"bufio"
	"encoding/xml"
	"image/color"
	"io"
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgimg"
)

// fontStack names metric-compatible replacements, so that a page without
// Liberation Sans keeps the layout.
const fontStack = "'Liberation Sans',Arial,Helvetica,sans-serif"

// writeSVG writes presentation attributes for the light theme and classes f-NAME
// (fill) and k-NAME (stroke), through which a page can recolour.
func (s *scene) writeSVG(w io.Writer) error {
	b := bufio.NewWriter(w)
	out := func(parts ...string) {
		for _, p := range parts {
			b.WriteString(p) // errors stay in b until Flush
		}
	}
	out(`<svg xmlns="http://www.w3.org/2000/svg" width="`, num(s.width), `pt" height="`, num(s.height),
		`pt" viewBox="0 0 `, num(s.width), " ", num(s.height), `" font-family="`, fontStack,
		`" role="img" aria-label="`, escape(s.title), "\">\n")
	out("<title>", escape(s.title), "</title>\n")
	if s.about != "" {
		out("<desc>", escape(s.about), "</desc>\n")
	}
	out(`<rect class="page f-paper" width="`, num(s.width), `" height="`, num(s.height), `" fill="`, hex(inkPaper.light), "\"/>\n")
	for i := range s.shapes {
		s.shapes[i].svg(out)
	}
	out("</svg>\n")
	return b.Flush()
}

func (sh *shape) svg(out func(...string)) {
	tag := map[shapeKind]string{polyline: "polyline", polygon: "polygon", circle: "circle", label: "text"}[sh.kind]
	out("<", tag, ` class="`, sh.class)
	if sh.fill.name != "" {
		out(" f-", sh.fill.name)
	}
	if sh.stroke.name != "" {
		out(" k-", sh.stroke.name)
	}
	out(`"`)
	switch sh.kind {
	case polyline, polygon:
		out(` points="`)
		for i, p := range sh.pts {
			if i > 0 {
				out(" ")
			}
			out(num(p.x), ",", num(p.y))
		}
		out(`"`)
	case circle:
		out(` cx="`, num(sh.pts[0].x), `" cy="`, num(sh.pts[0].y), `" r="`, num(sh.r), `"`)
	case label:
		sh.svgTextAttrs(out)
	}
	sh.svgPaint(out)
	body := ""
	if sh.tip != "" {
		body = "<title>" + escape(sh.tip) + "</title>"
	}
	body += escape(sh.text)
	if body == "" {
		out("/>\n")
		return
	}
	out(">", body, "</", tag, ">\n")
}

func (sh *shape) svgTextAttrs(out func(...string)) {
	x, y := num(sh.pts[0].x), num(sh.pts[0].y)
	out(` x="`, x, `" y="`, y, `" font-size="`, num(sh.size), `"`)
	if sh.anchor != start {
		out(` text-anchor="`, []string{"start", "middle", "end"}[sh.anchor], `"`)
	}
	if sh.bold {
		out(` font-weight="bold"`)
	}
	if sh.upward {
		out(` transform="rotate(-90 `, x, " ", y, `)"`)
	}
}

func (sh *shape) svgPaint(out func(...string)) {
	if sh.fill.name == "" {
		out(` fill="none"`)
	} else {
		out(` fill="`, hex(sh.fill.light), `"`)
		if sh.alpha > 0 {
			out(` fill-opacity="`, num(sh.alpha), `"`)
		}
	}
	if sh.stroke.name == "" {
		return
	}
	out(` stroke="`, hex(sh.stroke.light), `" stroke-width="`, num(sh.width), `" stroke-linejoin="round"`)
	if len(sh.dash) > 0 {
		parts := make([]string, len(sh.dash))
		for i, d := range sh.dash {
			parts[i] = num(d)
		}
		out(` stroke-dasharray="`, strings.Join(parts, " "), `"`)
	}
}

// num prints a length to 1/100 point, which is finer than any printer.
func num(v float64) string {
	r := math.Round(v*100) / 100
	if r == 0 {
		r = 0 // not -0
	}
	return strconv.FormatFloat(r, 'f', -1, 64)
}

func escape(s string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(s)); err != nil {
		panic("figure: strings.Builder failed: " + err.Error())
	}
	return b.String()
}

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
