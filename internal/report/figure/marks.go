package figure

import (
	"fmt"
	"math"
	"slices"
)

// data draws the facet from back to front: bands, bars, references, lines,
// marks, intervals.
func (p *panel) data() {
	each := func(f func(*Series, look)) {
		for i := range p.facet.Series {
			s := &p.facet.Series[i]
			f(s, p.looks.of(s.Name, false))
		}
	}
	each(p.band)
	each(p.drawBars)
	for i := range p.facet.Marks {
		p.refLine(&p.facet.Marks[i])
	}
	each(p.drawLine)
	each(p.drawMarks)
	each(p.errorBars) // over the white edges of the marks
	each(p.references)
}

func (p *panel) ok(s *Series, i int) bool { return usable(s.X[i], p.XLog) && usable(s.Y[i], p.YLog) }

// runs returns the stretches [from, to) of s without a gap.
func (p *panel) runs(s *Series) (out [][2]int) {
	from := -1
	for i := 0; i <= len(s.X); i++ {
		good := i < len(s.X) && p.ok(s, i)
		if good && from < 0 {
			from = i
		}
		if !good && from >= 0 {
			out = append(out, [2]int{from, i})
			from = -1
		}
	}
	return out
}

// band fills the intervals of a line.
func (p *panel) band(s *Series, l look) {
	if s.Low == nil || s.Style != Line && s.Style != Step {
		return
	}
	for _, r := range p.runs(s) {
		var upper, lower []pt
		flush := func() {
			if len(upper) >= 2 {
				slices.Reverse(lower)
				p.edges(upper, lower)
				p.s.add(shape{kind: polygon, class: "band", pts: append(upper, lower...), fill: l.k, alpha: 0.16})
			}
			upper, lower = nil, nil
		}
		for i := r[0]; i < r[1]; i++ {
			lo, hi, ok := s.interval(i, p.YLog)
			if !ok {
				flush()
				continue
			}
			if s.Style == Step && len(upper) > 0 {
				upper = append(upper, pt{p.at(s.X[i], hi).x, upper[len(upper)-1].y})
				lower = append(lower, pt{p.at(s.X[i], lo).x, lower[len(lower)-1].y})
			}
			upper, lower = append(upper, p.at(s.X[i], hi)), append(lower, p.at(s.X[i], lo))
		}
		flush()
	}
}

// edges makes the outlines of a band obstacles.
func (p *panel) edges(outlines ...[]pt) {
	for _, o := range outlines {
		for i := 1; i < len(o); i++ {
			p.dots = append(p.dots, sample(o[i-1], o[i])...)
		}
	}
}

// barBox is the place of the n-th of the bars at x, from zero to y.
func (p *panel) barBox(n int, x, y float64) box {
	group := p.slot * 0.78
	w := group / float64(len(p.bars))
	x0 := x - group/2 + float64(n)*w
	a, z := p.at(x0+w*0.04, y), p.at(x0+w*0.96, 0)
	return box{a.x, min(a.y, z.y), z.x, max(a.y, z.y)}
}

func (p *panel) drawBars(s *Series, l look) {
	if s.Style != Bars {
		return
	}
	n := slices.Index(p.bars, s.Name)
	for i := range s.X {
		if !p.ok(s, i) {
			continue
		}
		b := p.barBox(n, s.X[i], s.Y[i])
		p.s.rect("bar", l.k, b).tip = p.tip(s, i)
		top := b.y0
		if _, hi, ok := s.interval(i, p.YLog); ok {
			top = min(top, p.at(s.X[i], hi).y)
		}
		p.dots = append(p.dots, sample(pt{b.x0, b.y0}, pt{b.x1, b.y0})...)
		if p.BarValues && s.Y[i] >= 0 {
			top = min(top, p.referenceAbove(s.X[i], n)-1)
			p.barValue(pt{(b.x0 + b.x1) / 2, top - 2}, formatValue(s.Y[i]), b.width()*1.08-1)
		}
	}
}

// referenceAbove is the height on the page of the highest reference that crosses
// the n-th bar at x, or the bottom of the panel.
func (p *panel) referenceAbove(x float64, n int) float64 {
	y := p.b.y1
	for i := range p.facet.Series {
		s := &p.facet.Series[i]
		if over := slices.Index(p.bars, s.Over); s.Style != Reference || over >= 0 && over != n {
			continue
		}
		for k := range s.X {
			if s.X[k] == x && p.ok(s, k) {
				y = min(y, p.at(x, s.Y[k]).y)
			}
		}
	}
	return y
}

// barValue prints a value above its bar, smaller where it is wider than its
// share of the axis, and not at all below 5.5 points.
func (p *panel) barValue(at pt, str string, room float64) {
	size := smallSize
	if w := textWidth(str, size, false); w > room {
		size *= room / w
	}
	if size < 5.5 {
		return
	}
	t := p.s.text(at, str, size, middle, inkText)
	p.boxes = append(p.boxes, t.textBox())
}

func (p *panel) drawLine(s *Series, l look) {
	if s.Style != Line && s.Style != LinePoints && s.Style != Step {
		return
	}
	for _, r := range p.runs(s) {
		var pts []pt
		for i := r[0]; i < r[1]; i++ {
			q := p.at(s.X[i], s.Y[i])
			if s.Style == Step && len(pts) > 0 {
				pts = append(pts, pt{q.x, pts[len(pts)-1].y})
			}
			pts = append(pts, q)
		}
		if len(pts) == 1 && s.Style != LinePoints {
			// A point between two gaps has no line; a dot keeps it visible.
			p.s.add(shape{kind: circle, class: "line", pts: pts, r: lineWidth, fill: l.k})
		} else if len(pts) > 1 {
			p.s.line("line", l.k, lineWidth, l.dash, pts...)
		}
		for i := 1; i < len(pts); i++ {
			p.dots = append(p.dots, sample(pts[i-1], pts[i])...)
		}
	}
}

// sample returns points at most 3 points apart along a line.
func sample(a, b pt) []pt {
	n := int(math.Hypot(b.x-a.x, b.y-a.y)/3) + 1
	out := make([]pt, 0, n+1)
	for i := 0; i <= n; i++ {
		f := float64(i) / float64(n)
		out = append(out, pt{a.x + f*(b.x-a.x), a.y + f*(b.y-a.y)})
	}
	return out
}

func (p *panel) errorBars(s *Series, l look) {
	if s.Low == nil || s.Style == Line || s.Style == Step || s.Style == Reference {
		return
	}
	for i := range s.X {
		lo, hi, ok := s.interval(i, p.YLog)
		if !ok || !p.ok(s, i) {
			continue
		}
		a, b, k := p.at(s.X[i], lo), p.at(s.X[i], hi), l.k
		if s.Style == Bars {
			bar := p.barBox(slices.Index(p.bars, s.Name), s.X[i], s.Y[i])
			a.x, b.x, k = (bar.x0+bar.x1)/2, (bar.x0+bar.x1)/2, inkText
		}
		p.s.line("error", k, errorWidth, nil, a, b)
		for _, q := range []pt{a, b} {
			p.s.line("cap", k, errorWidth, nil, pt{q.x - capRadius, q.y}, pt{q.x + capRadius, q.y})
		}
		p.dots = append(p.dots, sample(a, b)...)
	}
}

func (p *panel) drawMarks(s *Series, l look) {
	if !s.hasMarks() {
		return
	}
	for i := range s.X {
		if !p.ok(s, i) {
			continue
		}
		q := p.at(s.X[i], s.Y[i])
		l.mark.draw(p.s, q, l.k, p.tip(s, i))
		r := markRadius
		p.dots = append(p.dots, q, pt{q.x - r, q.y}, pt{q.x + r, q.y}, pt{q.x, q.y - r}, pt{q.x, q.y + r})
	}
}

// references draws short lines across bars, edged in white to show on them.
func (p *panel) references(s *Series, l look) {
	if s.Style != Reference {
		return
	}
	for i := range s.X {
		if !p.ok(s, i) {
			continue
		}
		q := p.at(s.X[i], s.Y[i])
		x0, x1, y := q.x-7, q.x+7, q.y
		if n := slices.Index(p.bars, s.Over); n >= 0 {
			b := p.barBox(n, s.X[i], s.Y[i])
			x0, x1 = b.x0, b.x1
		} else if k := len(p.bars); k > 0 {
			x0, x1 = p.barBox(0, s.X[i], s.Y[i]).x0, p.barBox(k-1, s.X[i], s.Y[i]).x1
		}
		x0, x1 = max(x0-2, p.b.x0), min(x1+2, p.b.x1)
		ends := []pt{{x0, y}, {x1, y}}
		p.s.line("halo", inkPaper, 2.4, nil, ends...)
		p.s.line("reference", l.k, 1.6, nil, ends...)
		p.s.shapes[len(p.s.shapes)-1].tip = p.tip(s, i)
		p.boxes = append(p.boxes, box{x0, y - 2, x1, y + 2})
	}
}

// tip is the text under the pointer, for those who read the SVG in a browser.
func (p *panel) tip(s *Series, i int) string {
	x := formatValue(s.X[i])
	if len(p.XNames) > 0 {
		x = p.XNames[int(s.X[i])]
	} else if p.XLabel != "" {
		x = p.XLabel + " " + x
	}
	t := fmt.Sprintf("%s, %s: %s", s.Name, x, formatValue(s.Y[i]))
	if lo, hi, ok := s.interval(i, p.YLog); ok {
		t += fmt.Sprintf(" (%s to %s)", formatValue(lo), formatValue(hi))
	}
	return t
}
