package figure

import "math"

// draw paints the whole page and returns how much of the names inside the
// panels had to be put over data, 0 for none.
func (c *chart) draw() float64 {
	s := c.s
	s.lines(pt{margin, margin + capHeight*titleSize + 1}, c.titleLines, titleSize, true, start, inkText)
	covered := 0.0
	for i := range c.Facets {
		b := c.panel(i)
		c.frame(i, b)
		p := &panel{chart: c, facet: &c.Facets[i], b: b}
		p.data()
		covered += p.names()
	}
	first, last := c.panel(0), c.panel(min(c.columns, len(c.Facets))-1)
	bottom := c.panel(len(c.Facets) - 1).y1
	if c.XLabel != "" {
		y := bottom + c.below + labelGap + capHeight*labelSize
		s.text(pt{(first.x0 + last.x1) / 2, y}, c.XLabel, labelSize, middle, inkText)
	}
	if c.YLabel != "" {
		s.text(pt{margin + capHeight*labelSize, (first.y0 + bottom) / 2}, c.YLabel, labelSize, middle, inkText).upward = true
	}
	c.legend.draw(s, pt{last.x1, first.y0})
	return covered
}

// frame draws grid, axes, tick labels and title of facet i.
func (c *chart) frame(i int, b box) {
	s := c.s
	if t := c.Facets[i].Title; t != "" {
		rows := wrap(t, labelSize, false, c.panelW)
		y := b.y0 - 4 - float64(len(rows)-1)*labelSize*leading
		s.lines(pt{(b.x0 + b.x1) / 2, y}, rows, labelSize, false, middle, inkText)
	}
	firstColumn := i%c.columns == 0
	for _, t := range c.yticks {
		y := b.y1 - c.y.norm(t.value)*b.height()
		if t.label != "" && y < b.y1-0.1 {
			s.line("grid", inkGrid, gridWidth, nil, pt{b.x0, y}, pt{b.x1, y})
		}
		if !firstColumn {
			continue
		}
		length := tickLength
		if t.label == "" {
			length /= 2
		}
		s.line("axis", inkAxis, axisWidth, nil, pt{b.x0 - length, y}, pt{b.x0, y})
		if t.label != "" {
			s.text(pt{b.x0 - tickLength - labelGap/2, y + capHeight*tickSize/2}, t.label, tickSize, end, inkText)
		}
	}
	s.line("axis", inkAxis, axisWidth, nil, pt{b.x0, b.y0}, pt{b.x0, b.y1}, pt{b.x1, b.y1})
	for k, t := range c.xticks {
		x := b.x0 + c.x.norm(t.value)*b.width()
		length := tickLength
		if t.label == "" {
			length /= 2
		}
		rows := []string{t.label}
		if c.names != nil {
			rows, length = c.names[k], 0
		}
		if length > 0 {
			s.line("axis", inkAxis, axisWidth, nil, pt{x, b.y1}, pt{x, b.y1 + length})
		}
		if t.label != "" {
			s.lines(pt{x, b.y1 + tickLength + labelGap/2 + capHeight*tickSize + 1}, rows, tickSize, false, middle, inkText)
		}
	}
}

// panel is one facet while it is drawn.
type panel struct {
	*chart
	facet *Facet
	b     box
	// dots are points on lines and marks, taken as obstacles by names.
	dots  []pt
	boxes []box // names placed so far
}

func (p *panel) at(x, y float64) pt {
	return pt{p.b.x0 + p.x.norm(x)*p.b.width(), p.b.y1 - p.y.norm(y)*p.b.height()}
}

// refLine draws a line across the panel. Lines at Y are named in the legend.
func (p *panel) refLine(m *Mark) {
	switch {
	case m.Axis == AtY && usable(m.Value, p.YLog):
		l := p.looks.of(m.Label, true)
		y := p.at(p.x.min, m.Value).y
		p.s.line("ref", l.k, 1, l.dash, pt{p.b.x0, y}, pt{p.b.x1, y})
		p.s.shapes[len(p.s.shapes)-1].tip = m.Label + ": " + formatValue(m.Value)
		p.dots = append(p.dots, sample(pt{p.b.x0, y}, pt{p.b.x1, y})...)
	case m.Axis == AtX && usable(m.Value, p.XLog):
		x := p.at(m.Value, p.y.max).x
		p.s.line("ref", inkRef, 0.8, dashes[2], pt{x, p.b.y0}, pt{x, p.b.y1})
		p.dots = append(p.dots, sample(pt{x, p.b.y0}, pt{x, p.b.y1})...)
	}
}

// names writes the names of vertical lines and ringed points where they hide
// nothing, and returns how much they hide at the best place.
func (p *panel) names() float64 {
	covered := 0.0
	for i := range p.facet.Marks {
		m := &p.facet.Marks[i]
		switch {
		case m.Axis == AtX && usable(m.Value, p.XLog):
			x := p.at(m.Value, p.y.max).x
			name := clip(m.Label, smallSize, false, p.b.width()-4)
			covered += p.place(name, sideways(x, p.b, textWidth(name, smallSize, false)))
		case m.Axis == AtPoint && usable(m.X, p.XLog) && usable(m.Value, p.YLog):
			q := p.at(m.X, m.Value)
			p.s.add(shape{kind: circle, class: "ring", pts: []pt{q}, r: markRadius + 2.2, stroke: inkText, width: 0.9,
				tip: m.Label + ": " + formatValue(m.Value)})
			name := clip(m.Label, smallSize, false, p.b.width()-4)
			covered += p.place(name, around(q, p.b, textWidth(name, smallSize, false)))
		}
	}
	return covered
}

// spot is where a name may go: the point that the anchor of its box is at.
type spot struct {
	p pt // of the base line
	a anchor
}

// sideways lists the places beside a vertical line at x, from the top down.
// Where the name is wider than both sides, it crosses the line.
func sideways(x float64, b box, width float64) (out []spot) {
	step := smallSize * leading
	for y := b.y0 + capHeight*smallSize + 1; y < b.y1-2; y += step {
		out = append(out, spot{pt{x + 3, y}, start}, spot{pt{x - 3, y}, end})
	}
	return append(out, spot{pt{pushInto(x, b, width), b.y0 + capHeight*smallSize + 1}, middle})
}

// pushInto is the centre nearest to x of a text that shall lie inside b.
func pushInto(x float64, b box, width float64) float64 {
	return max(b.x0+width/2+1, min(b.x1-width/2-1, x))
}

// around lists the places round a ringed point, nearest first.
func around(q pt, b box, width float64) (out []spot) {
	mid := q.y + capHeight*smallSize/2
	for d := 7.0; d <= 43; d += 6 {
		up, down := q.y-d, q.y+d+capHeight*smallSize
		out = append(out,
			spot{pt{q.x, up}, middle}, spot{pt{q.x + d*0.7, up + 2}, start}, spot{pt{q.x - d*0.7, up + 2}, end},
			spot{pt{q.x + d, mid}, start}, spot{pt{q.x - d, mid}, end},
			spot{pt{q.x, down}, middle}, spot{pt{q.x + d*0.7, down - 2}, start}, spot{pt{q.x - d*0.7, down - 2}, end},
			spot{pt{pushInto(q.x, b, width), up}, middle}, spot{pt{pushInto(q.x, b, width), down}, middle})
	}
	return out
}

// place writes str at the first spot that hides nothing, else at the one that
// hides least, and returns the cost there.
func (p *panel) place(str string, spots []spot) float64 {
	if str == "" {
		return 0
	}
	best, bestCost := spot{}, math.Inf(1)
	for _, sp := range spots {
		sh := shape{kind: label, pts: []pt{sp.p}, text: str, size: smallSize, anchor: sp.a}
		if cost := p.cost(sh.textBox()); cost < bestCost {
			best, bestCost = sp, cost
			if cost == 0 {
				break
			}
		}
	}
	if math.IsInf(bestCost, 1) {
		panic("figure: a clipped name fits nowhere in its panel")
	}
	t := p.s.text(best.p, str, smallSize, best.a, inkText)
	p.boxes = append(p.boxes, t.textBox())
	return bestCost
}

func (p *panel) cost(b box) float64 {
	if !b.inside(p.b) {
		return math.Inf(1)
	}
	cost := 0.0
	for _, d := range p.dots {
		if b.grow(1.2).contains(d) {
			cost++
		}
	}
	for _, o := range p.boxes {
		cost += 20 * b.grow(1).overlap(o)
	}
	return cost
}
