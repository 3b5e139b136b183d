package figure

import (
	"fmt"
	"image/color"
	"math"
)

// Heatmap prints a table of numbers on colours: blue below Centre, orange above.
type Heatmap struct {
	Title          string
	XLabel, YLabel string
	XNames, YNames []string
	// Values[y][x]; NaN is a cell without a value. The first row is on top.
	Values [][]float64
	// ValueLabel names the value and its unit beside the colour bar.
	ValueLabel string
	// Centre is the value that is neither good nor bad.
	Centre float64
	// Limit is the distance from Centre at which colours are full, in the unit of
	// the values: it keeps one extreme cell from paling the rest. 0 takes the
	// largest distance.
	Limit float64
	// Decimals are the digits after the point in the cells.
	Decimals int
	// Sign prints + before positive numbers, for gains.
	Sign bool
	// Best frames the largest value of each row.
	Best bool
	// WidthIn is the printed width in inches, 0 for what the cells need.
	WidthIn float64
	About   string
}

const (
	cellHeight = 15.0
	cellWidth  = 30.0
	barWidth   = 9.0
)

func (h *Heatmap) check() error {
	if len(h.XNames) == 0 || len(h.YNames) == 0 {
		return fmt.Errorf("heatmap %q: %d columns and %d rows; give names for at least one of each", h.Title, len(h.XNames), len(h.YNames))
	}
	if len(h.Values) != len(h.YNames) {
		return fmt.Errorf("heatmap %q: %d rows of values but %d YNames", h.Title, len(h.Values), len(h.YNames))
	}
	for i, r := range h.Values {
		if len(r) != len(h.XNames) {
			return fmt.Errorf("heatmap %q, row %q: %d values but %d XNames", h.Title, h.YNames[i], len(r), len(h.XNames))
		}
	}
	if h.Decimals < 0 || h.Decimals > 9 {
		return fmt.Errorf("heatmap %q: %d decimals; want 0 to 9", h.Title, h.Decimals)
	}
	if !(h.Limit >= 0) || math.IsInf(h.Limit, 0) || !usable(h.Centre, false) {
		return fmt.Errorf("heatmap %q: centre %g, limit %g; want a finite centre and a limit of at least 0", h.Title, h.Centre, h.Limit)
	}
	if !within(h.WidthIn, 1, 40) {
		return fmt.Errorf("heatmap %q: %g inches wide; want 1 to 40 (0 for what the cells need)", h.Title, h.WidthIn)
	}
	return nil
}

// number prints a cell.
func (h *Heatmap) number(v float64) string {
	if !usable(v, false) {
		return "–"
	}
	f := math.Pow(10, float64(h.Decimals))
	r := math.Round(v*f) / f
	if math.IsInf(r, 0) || math.Abs(r) >= 1e6 {
		return formatValue(v)
	}
	out := fmt.Sprintf("%.*f", h.Decimals, math.Abs(r))
	switch {
	case r < 0:
		return "−" + out
	case r > 0 && h.Sign:
		return "+" + out
	}
	return out
}

// reach is the distance from Centre at which colours are full.
func (h *Heatmap) reach() float64 {
	if h.Limit > 0 {
		return h.Limit
	}
	d := 0.0
	for _, r := range h.Values {
		for _, v := range r {
			if usable(v, false) {
				d = max(d, math.Abs(v-h.Centre))
			}
		}
	}
	if d == 0 || math.IsInf(d, 0) {
		return 1
	}
	return d
}

// shade mixes white with the blue or orange of the palette. The mix runs in
// linear steps of the three channels, which is even enough for numbers that are
// printed too. Cells keep their colours on a dark page.
func shade(share float64) ink {
	share = max(-1, min(1, share))
	to := rgb(0xe08214)
	if share < 0 {
		to = rgb(0x2b7bba)
	}
	mix := func(b uint8) uint8 {
		return uint8(math.Round(255 + (float64(b)-255)*math.Abs(share)))
	}
	c := color.RGBA{mix(to.R), mix(to.G), mix(to.B), 255}
	return ink{"cell", c, c}
}

func (h *Heatmap) layout() (*scene, error) {
	if err := h.check(); err != nil {
		return nil, err
	}
	m := h.measure()
	s := &scene{width: m.width, title: h.Title, about: h.About}
	if s.title == "" {
		s.title = h.ValueLabel
	}
	y := margin
	if h.Title != "" {
		rows := wrap(h.Title, titleSize, true, m.width-2*margin)
		s.lines(pt{margin, y + capHeight*titleSize + 1}, rows, titleSize, true, start, inkText)
		y += float64(len(rows))*titleSize*leading + titleGap
	}
	area := box{m.left, y, m.left + m.cell*float64(len(h.XNames)), y + cellHeight*float64(len(h.YNames))}
	h.cells(s, area, m)
	bottom := h.axes(s, area, m)
	h.colourBar(s, area)
	s.height = max(bottom, area.y0+minBar) + margin
	if s.width < area.x1+m.right {
		return nil, fmt.Errorf("heatmap %q: %d columns do not fit into %.1f inches; widen it", h.Title, len(h.XNames), s.width/72)
	}
	return s, nil
}

// minBar is the height of the colour bar of a heatmap with few rows.
const minBar = 60.0

type heatSizes struct {
	width, left, right, cell, size float64
	xlines                         int
}

func (h *Heatmap) measure() heatSizes {
	m := heatSizes{size: smallSize + 0.5, xlines: 1}
	names := 0.0
	for _, n := range h.YNames {
		names = max(names, min(textWidth(n, tickSize, false), 120))
	}
	m.left = margin + names + labelGap
	if h.YLabel != "" {
		m.left += labelSize + labelGap
	}
	widest := 0.0
	for _, r := range h.Values {
		for _, v := range r {
			widest = max(widest, textWidth(h.number(v), m.size, true))
		}
	}
	for _, n := range h.XNames {
		widest = max(widest, min(textWidth(n, tickSize, false), 60))
	}
	m.cell = max(cellWidth, widest+6)
	m.right = legendGap + barWidth + 4 + h.barTicksWidth() + margin
	if h.ValueLabel != "" {
		m.right += labelSize + labelGap
	}
	m.width = m.left + m.cell*float64(len(h.XNames)) + m.right
	if h.WidthIn > 0 {
		m.width = h.WidthIn * 72
		m.cell = max(widest+3, (m.width-m.left-m.right)/float64(len(h.XNames)))
	} else if need := min(textWidth(h.Title, titleSize, true)+2*margin, 4.8*72); h.Title != "" && m.width < need {
		m.cell += (need - m.width) / float64(len(h.XNames))
		m.width = need
	}
	for _, n := range h.XNames {
		m.xlines = max(m.xlines, len(wrap(n, tickSize, false, m.cell-2)))
	}
	return m
}

func (h *Heatmap) cells(s *scene, area box, m heatSizes) {
	reach := h.reach()
	var frames []box
	for j, r := range h.Values {
		best := math.Inf(-1)
		for _, v := range r {
			if usable(v, false) {
				best = max(best, v)
			}
		}
		for i, v := range r {
			b := box{area.x0 + float64(i)*m.cell, area.y0 + float64(j)*cellHeight, area.x0 + float64(i+1)*m.cell, area.y0 + float64(j+1)*cellHeight}
			fill := shade(0)
			if usable(v, false) {
				fill = shade((v - h.Centre) / reach)
			}
			c := s.rect("cell", fill, b)
			c.stroke, c.width = inkPaper, 0.8
			c.tip = fmt.Sprintf("%s %s, %s %s: %s", h.YLabel, h.YNames[j], h.XLabel, h.XNames[i], h.number(v))
			t := s.text(pt{(b.x0 + b.x1) / 2, (b.y0+b.y1)/2 + capHeight*m.size/2}, h.number(v), m.size, middle, onto(fill))
			if h.Best && v == best {
				t.bold = true
				frames = append(frames, b.grow(-0.9))
			}
		}
	}
	for _, b := range frames {
		s.line("best", onto(shade(0)), 1.1, nil, pt{b.x0, b.y0}, pt{b.x1, b.y0}, pt{b.x1, b.y1}, pt{b.x0, b.y1}, pt{b.x0, b.y0}, pt{b.x1, b.y0})
	}
}

// axes writes names and axis titles and returns where they end.
func (h *Heatmap) axes(s *scene, area box, m heatSizes) float64 {
	for j, n := range h.YNames {
		y := area.y0 + (float64(j)+0.5)*cellHeight + capHeight*tickSize/2
		s.text(pt{area.x0 - labelGap, y}, clip(n, tickSize, false, 120), tickSize, end, inkText)
	}
	y := area.y1 + labelGap + capHeight*tickSize
	for i, n := range h.XNames {
		x := area.x0 + (float64(i)+0.5)*m.cell
		s.lines(pt{x, y}, wrap(n, tickSize, false, m.cell-2), tickSize, false, middle, inkText)
	}
	y += float64(m.xlines-1)*tickSize*leading + descent*tickSize
	if h.XLabel != "" {
		y += labelGap + capHeight*labelSize
		s.text(pt{(area.x0 + area.x1) / 2, y}, h.XLabel, labelSize, middle, inkText)
		y += descent * labelSize
	}
	if h.YLabel != "" {
		s.text(pt{margin + capHeight*labelSize, (area.y0 + area.y1) / 2}, h.YLabel, labelSize, middle, inkText).upward = true
	}
	return y
}

// barRange is the part of the colours that occurs.
func (h *Heatmap) barRange() scale {
	values := []float64{h.Centre}
	for _, r := range h.Values {
		for _, v := range r {
			values = append(values, max(h.Centre-h.reach(), min(h.Centre+h.reach(), v)))
		}
	}
	return newScale(values, false, false)
}

func (h *Heatmap) barTicksWidth() float64 {
	w := 0.0
	for _, t := range h.barRange().ticks(5, false) {
		w = max(w, textWidth(t.label, tickSize, false))
	}
	return w
}

func (h *Heatmap) colourBar(s *scene, area box) {
	const steps = 48
	x0 := area.x1 + legendGap
	height := max(area.height(), minBar)
	r, reach := h.barRange(), h.reach()
	for i := range steps {
		v := r.min + (float64(i)+0.5)/steps*(r.max-r.min)
		y := area.y0 + height*(1-float64(i+1)/steps)
		// Strips overlap a little, else renderers leave hairlines between them.
		s.rect("colour", shade((v-h.Centre)/reach), box{x0, y, x0 + barWidth, min(y+height/steps+0.3, area.y0+height)})
	}
	right := x0 + barWidth
	for _, t := range r.ticks(5, false) {
		y := area.y0 + height*(1-r.norm(t.value))
		s.line("axis", inkAxis, axisWidth, nil, pt{right, y}, pt{right + 2, y})
		s.text(pt{right + 4, y + capHeight*tickSize/2}, t.label, tickSize, start, inkText)
	}
	if h.ValueLabel != "" {
		x := right + 4 + h.barTicksWidth() + labelGap + capHeight*labelSize
		s.text(pt{x, area.y0 + height/2}, h.ValueLabel, labelSize, middle, inkText).upward = true
	}
}
