package figure

import "math"

// pt is a position in points from the upper left corner of the page; y grows
// downward as in SVG.
type pt struct{ x, y float64 }

type box struct{ x0, y0, x1, y1 float64 }

func (b box) width() float64  { return b.x1 - b.x0 }
func (b box) height() float64 { return b.y1 - b.y0 }

func (b box) overlap(o box) float64 {
	w := min(b.x1, o.x1) - max(b.x0, o.x0)
	h := min(b.y1, o.y1) - max(b.y0, o.y0)
	if w <= 0 || h <= 0 {
		return 0
	}
	return w * h
}

func (b box) contains(p pt) bool {
	return p.x >= b.x0 && p.x <= b.x1 && p.y >= b.y0 && p.y <= b.y1
}

func (b box) inside(o box) bool {
	return b.x0 >= o.x0 && b.y0 >= o.y0 && b.x1 <= o.x1 && b.y1 <= o.y1
}

func (b box) grow(d float64) box { return box{b.x0 - d, b.y0 - d, b.x1 + d, b.y1 + d} }

type shapeKind uint8

const (
	polyline shapeKind = iota // open line
	polygon                   // closed area
	circle
	label // text
)

type anchor uint8

const (
	start anchor = iota
	middle
	end
)

// shape is one mark on the page. A zero fill or stroke name paints nothing.
type shape struct {
	kind  shapeKind
	class string // what it stands for: line, band, error, mark, bar, span, cell, grid, axis, ref, text
	pts   []pt
	r     float64 // circle

	fill, stroke ink
	alpha        float64 // of the fill; 0 means opaque
	width        float64
	dash         []float64

	text   string
	size   float64
	bold   bool
	anchor anchor
	upward bool // text that reads from bottom to top

	tip string // shown by browsers under the pointer
}

// scene is a laid-out drawing.
type scene struct {
	width, height float64 // points
	title, about  string  // for readers who cannot see the picture
	shapes        []shape
}

func (s *scene) add(sh ...shape) { s.shapes = append(s.shapes, sh...) }

func (s *scene) line(class string, k ink, width float64, dash []float64, pts ...pt) {
	s.add(shape{kind: polyline, class: class, pts: pts, stroke: k, width: width, dash: dash})
}

func (s *scene) rect(class string, fill ink, b box) *shape {
	s.add(shape{kind: polygon, class: class, fill: fill, pts: []pt{{b.x0, b.y0}, {b.x1, b.y0}, {b.x1, b.y1}, {b.x0, b.y1}}})
	return &s.shapes[len(s.shapes)-1]
}

func (s *scene) text(p pt, str string, size float64, a anchor, k ink) *shape {
	s.add(shape{kind: label, class: "text", pts: []pt{p}, text: str, size: size, anchor: a, fill: k})
	return &s.shapes[len(s.shapes)-1]
}

// lines sets several lines of text, the first with its base line at p.
func (s *scene) lines(p pt, rows []string, size float64, bold bool, a anchor, k ink) {
	for i, r := range rows {
		s.text(pt{p.x, p.y + float64(i)*size*leading}, r, size, a, k).bold = bold
	}
}

// textBox is the area that a label covers: capitals and digits above the base
// line, descenders below.
func (sh *shape) textBox() box {
	w := textWidth(sh.text, sh.size, sh.bold)
	off := 0.0
	switch sh.anchor {
	case middle:
		off = -w / 2
	case end:
		off = -w
	}
	p := sh.pts[0]
	if sh.upward {
		return box{p.x - capHeight*sh.size, p.y - off - w, p.x + descent*sh.size, p.y - off}
	}
	return box{p.x + off, p.y - capHeight*sh.size, p.x + off + w, p.y + descent*sh.size}
}

// bounds is the area that the shape covers, line widths included.
func (sh *shape) bounds() box {
	if sh.kind == label {
		return sh.textBox()
	}
	b := box{math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)}
	for _, p := range sh.pts {
		b = box{min(b.x0, p.x), min(b.y0, p.y), max(b.x1, p.x), max(b.y1, p.y)}
	}
	return b.grow(sh.r + sh.width/2)
}
