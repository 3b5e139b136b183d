package figure

import "slices"

// marker is a filled shape of a series' points.
type marker uint8

const (
	disc marker = iota
	square
	upTriangle
	diamond
	downTriangle
	cross
	markers
)

// draw paints the marker at p. Sizes are balanced so that all look equally big.
func (m marker) draw(s *scene, p pt, k ink, tip string) {
	r := markRadius
	// The white edge keeps marks apart from each other and from their line.
	sh := shape{kind: polygon, class: "mark", fill: k, stroke: inkPaper, width: 0.5, tip: tip}
	switch m {
	case disc:
		sh.kind, sh.pts, sh.r = circle, []pt{p}, r
	case square:
		h := r * 0.9
		sh.pts = []pt{{p.x - h, p.y - h}, {p.x + h, p.y - h}, {p.x + h, p.y + h}, {p.x - h, p.y + h}}
	case upTriangle:
		h := r * 1.25
		sh.pts = []pt{{p.x, p.y - h}, {p.x + h*0.95, p.y + h*0.7}, {p.x - h*0.95, p.y + h*0.7}}
	case diamond:
		h := r * 1.3
		sh.pts = []pt{{p.x, p.y - h}, {p.x + h, p.y}, {p.x, p.y + h}, {p.x - h, p.y}}
	case downTriangle:
		h := r * 1.25
		sh.pts = []pt{{p.x, p.y + h}, {p.x + h*0.95, p.y - h*0.7}, {p.x - h*0.95, p.y - h*0.7}}
	case cross:
		h, t := r*1.2, r*0.42
		sh.pts = []pt{{p.x - t, p.y - h}, {p.x + t, p.y - h}, {p.x + t, p.y - t}, {p.x + h, p.y - t},
			{p.x + h, p.y + t}, {p.x + t, p.y + t}, {p.x + t, p.y + h}, {p.x - t, p.y + h},
			{p.x - t, p.y + t}, {p.x - h, p.y + t}, {p.x - h, p.y - t}, {p.x - t, p.y - t}}
	}
	s.add(sh)
}

// Dashes of lines in points. Solid first.
var dashes = [][]float64{nil, {4, 2}, {1, 1.6}, {6, 2, 1, 2}, {8, 3}}

// look is how everything of one name is drawn.
type look struct {
	k    ink
	mark marker
	dash []float64
}

// entry is one row of the legend. Exactly one of series and mark is set, or
// neither for a plain swatch.
type entry struct {
	name   string
	look   look
	series *Series
	mark   *Mark
}

// looks gives every series name a colour by its hue and a marker of its own,
// both by first appearance, so a name looks the same in every panel.
type looks struct {
	entries []entry
	hues    []string
	grey    int // grey reference lines so far: they differ by dash
}

func newLooks(f *Figure) *looks {
	l := &looks{}
	for i := range f.Facets {
		for k := range f.Facets[i].Series {
			l.addSeries(&f.Facets[i].Series[k])
		}
	}
	for i := range f.Facets {
		for k := range f.Facets[i].Marks {
			if m := &f.Facets[i].Marks[k]; m.Axis == AtY {
				l.addMark(m)
			}
		}
	}
	return l
}

// hue returns the colour of a hue and how often the palette has been used up
// before it: past its end, dashes keep the names apart.
func (l *looks) hue(name string) (ink, int) {
	i := slices.Index(l.hues, name)
	if i < 0 {
		i = len(l.hues)
		l.hues = append(l.hues, name)
	}
	return okabeIto[i%len(okabeIto)], i / len(okabeIto)
}

func (l *looks) addSeries(s *Series) {
	if l.find(s.Name, false) != nil {
		return
	}
	e := entry{name: s.Name, series: s}
	if s.Style == Reference {
		e.look = look{k: inkText}
	} else {
		k, round := l.hue(s.hue())
		n := 0
		for _, o := range l.entries {
			if o.series != nil && o.series.hasMarks() {
				n++
			}
		}
		e.look = look{k: k, mark: marker(n % int(markers)), dash: dashes[round%len(dashes)]}
		if s.Dashed {
			e.look.dash = dashes[1+round%(len(dashes)-1)]
		}
	}
	l.entries = append(l.entries, e)
}

func (l *looks) addMark(m *Mark) {
	if l.find(m.Label, true) != nil {
		return
	}
	e := entry{name: m.Label, mark: m, look: look{k: inkRef}}
	if m.Hue != "" {
		e.look.k, _ = l.hue(m.Hue)
		e.look.dash = dashes[1]
	} else {
		e.look.dash = dashes[1+l.grey%(len(dashes)-1)]
		l.grey++
	}
	l.entries = append(l.entries, e)
}

func (l *looks) find(name string, mark bool) *entry {
	for i := range l.entries {
		if e := &l.entries[i]; e.name == name && (e.mark != nil) == mark {
			return e
		}
	}
	return nil
}

// of returns the look of a series that newLooks has seen.
func (l *looks) of(name string, mark bool) look {
	e := l.find(name, mark)
	if e == nil {
		panic("figure: no look for " + name)
	}
	return e.look
}

const (
	thumbWidth  = 20.0
	thumbGap    = 5.0
	legendGap   = 12.0  // between the panels and the legend
	legendLimit = 118.0 // text width from which names wrap
	entryGap    = 4.5
)

// legend is laid out before the panels, which get the width that it leaves.
type legend struct {
	entries []entry
	lines   [][]string
	width   float64 // 0: nothing to show
}

func newLegend(entries []entry) legend {
	var g legend
	for _, e := range entries {
		if e.name == "" {
			continue
		}
		rows := wrap(e.name, tickSize, false, legendLimit)
		g.entries, g.lines = append(g.entries, e), append(g.lines, rows)
		for _, r := range rows {
			g.width = max(g.width, legendGap+thumbWidth+thumbGap+textWidth(r, tickSize, false))
		}
	}
	return g
}

func (g *legend) height() float64 {
	h := 0.0
	for _, l := range g.lines {
		h += float64(len(l))*tickSize*leading + entryGap
	}
	return h
}

// draw puts the legend with its upper left corner, gap included, at p.
func (g *legend) draw(s *scene, p pt) {
	x, y := p.x+legendGap, p.y
	for i, e := range g.entries {
		e.thumb(s, box{x, y, x + thumbWidth, y + tickSize*leading})
		s.lines(pt{x + thumbWidth + thumbGap, y + capHeight*tickSize + 1}, g.lines[i], tickSize, false, start, inkText)
		y += float64(len(g.lines[i]))*tickSize*leading + entryGap
	}
}

// thumb draws the sample beside a name.
func (e *entry) thumb(s *scene, b box) {
	first := len(s.shapes)
	mid := (b.y0+b.y1)/2 - 0.7 // centre of the capitals
	ends := []pt{{b.x0, mid}, {b.x1, mid}}
	switch {
	case e.series == nil && e.mark == nil, e.series != nil && e.series.Style == Bars:
		s.rect("swatch", e.look.k, box{b.x0 + 4, mid - 3.5, b.x1 - 4, mid + 3.5})
	case e.mark != nil:
		s.line("ref", e.look.k, 1, e.look.dash, ends...)
	case e.series.Style == Reference:
		s.line("reference", e.look.k, 1.6, nil, pt{b.x0 + 3, mid}, pt{b.x1 - 3, mid})
	default:
		if e.series.Style != Points {
			s.line("line", e.look.k, lineWidth, e.look.dash, ends...)
		}
		if e.series.hasMarks() {
			e.look.mark.draw(s, pt{(b.x0 + b.x1) / 2, mid}, e.look.k, "")
		}
	}
	for i := first; i < len(s.shapes); i++ {
		s.shapes[i].class += " legend" // so that marks of data can be counted
	}
}
