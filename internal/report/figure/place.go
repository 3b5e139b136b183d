package figure

import "math"

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
			covered += p.place(m.Label, sideways(x, p.b))
		case m.Axis == AtPoint && usable(m.X, p.XLog) && usable(m.Value, p.YLog):
			q := p.at(m.X, m.Value)
			p.s.add(shape{kind: circle, class: "ring", pts: []pt{q}, r: markRadius + 2.2, stroke: inkText, width: 0.9,
				tip: m.Label + ": " + formatValue(m.Value)})
			covered += p.place(m.Label, around(q))
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
func sideways(x float64, b box) (out []spot) {
	step := smallSize * leading
	for y := b.y0 + capHeight*smallSize + 1; y < b.y1-2; y += step {
		out = append(out, spot{pt{x + 3, y}, start}, spot{pt{x - 3, y}, end})
	}
	return out
}

// around lists the places round a ringed point, nearest first.
func around(q pt) (out []spot) {
	mid := q.y + capHeight*smallSize/2
	for d := 7.0; d <= 43; d += 6 {
		up, down := q.y-d, q.y+d+capHeight*smallSize
		out = append(out,
			spot{pt{q.x, up}, middle}, spot{pt{q.x + d*0.7, up + 2}, start}, spot{pt{q.x - d*0.7, up + 2}, end},
			spot{pt{q.x + d, mid}, start}, spot{pt{q.x - d, mid}, end},
			spot{pt{q.x, down}, middle}, spot{pt{q.x + d*0.7, down - 2}, start}, spot{pt{q.x - d*0.7, down - 2}, end})
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
		// Wider than the panel wherever it goes: the edge it starts from is cut
		// from the page least if the name is centred on the panel.
		best, bestCost = spot{pt{(p.b.x0 + p.b.x1) / 2, p.b.y0 + smallSize}, middle}, 1
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
