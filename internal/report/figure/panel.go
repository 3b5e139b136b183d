package figure

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
