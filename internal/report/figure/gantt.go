package figure

import (
	"fmt"
	"math"
	"slices"
)

// Gantt shows what each model and request did over time: panels (one a system)
// below each other on one time axis.
type Gantt struct {
	Title  string
	XLabel string // with its unit
	Panels []GanttPanel
	// Kinds fixes the order and the colours of the kinds of span. Kinds that
	// are not listed follow by first appearance.
	Kinds []Kind
	// To ends the time axis; 0 means at the last span.
	To float64
	// WidthIn is the printed width in inches, 0 for 7.
	WidthIn float64
	About   string
}

// GanttPanel is one system's schedule. Its title usually names the system and its
// mean latency.
type GanttPanel struct {
	Title string
	Rows  []Row
}

// Row is one model or request. Spans must not overlap by more than rounding.
type Row struct {
	Name  string
	Spans []Span
	// Apart puts a gap above the row, between models and requests.
	Apart bool
}

// Span is a filled rectangle; its label is left out where it does not fit.
type Span struct {
	From, To float64
	Kind     string
	Label    string
}

// Kind is a row of the legend.
type Kind struct {
	Name string
	// Quiet spans (waiting, pending) are grey and thin, so that work stands out.
	Quiet bool
}

const (
	ganttRow   = 11.0 // height of a row
	ganttApart = 5.0
	ganttPanel = 12.0 // gap between panels
)

func (g *Gantt) check() error {
	if len(g.Panels) == 0 {
		return fmt.Errorf("gantt %q: no panels; give at least one", g.Title)
	}
	if !within(g.WidthIn, 2, 40) {
		return fmt.Errorf("gantt %q: %g inches wide; want 2 to 40 (0 for 7)", g.Title, g.WidthIn)
	}
	for _, p := range g.Panels {
		for _, r := range p.Rows {
			last := math.Inf(-1)
			for _, s := range r.Spans {
				if !(s.From <= s.To) || math.IsInf(s.From, 0) || math.IsInf(s.To, 0) {
					return fmt.Errorf("gantt %q, panel %q, row %q: span %q runs from %g to %g", g.Title, p.Title, r.Name, s.Label, s.From, s.To)
				}
				if s.From < last-1e-9*(1+math.Abs(last)) {
					return fmt.Errorf("gantt %q, panel %q, row %q: span %q starts at %g, before the end %g of the one before", g.Title, p.Title, r.Name, s.Label, s.From, last)
				}
				last = s.To
			}
		}
	}
	return nil
}

// kinds lists all kinds with their looks: colours for work, grey for the rest.
func (g *Gantt) kinds() (kinds []Kind, colours []ink) {
	kinds = slices.Clone(g.Kinds)
	for _, p := range g.Panels {
		for _, r := range p.Rows {
			for _, s := range r.Spans {
				if !slices.ContainsFunc(kinds, func(k Kind) bool { return k.Name == s.Kind }) {
					kinds = append(kinds, Kind{Name: s.Kind})
				}
			}
		}
	}
	n := 0
	for _, k := range kinds {
		if k.Quiet {
			colours = append(colours, inkQuiet)
			continue
		}
		colours = append(colours, okabeIto[n%len(okabeIto)])
		n++
	}
	return kinds, colours
}

func (g *Gantt) layout() (*scene, error) {
	if err := g.check(); err != nil {
		return nil, err
	}
	width := 7 * 72.0
	if g.WidthIn > 0 {
		width = g.WidthIn * 72
	}
	s := &scene{width: width, title: g.Title, about: g.About}
	if s.title == "" {
		s.title = "schedule"
	}
	kinds, colours := g.kinds()
	var entries []entry
	for i, k := range kinds {
		entries = append(entries, entry{name: k.Name, look: look{k: colours[i]}})
	}
	leg := newLegend(entries)
	left := margin
	for _, p := range g.Panels {
		for _, r := range p.Rows {
			left = max(left, margin+min(textWidth(r.Name, tickSize, false), width/4)+labelGap)
		}
	}
	right := width - margin - max(leg.width, 4)
	if right-left < minPanel {
		return nil, fmt.Errorf("gantt %q: names and legend leave no room in %.1f inches; widen it", g.Title, width/72)
	}
	y := margin
	if g.Title != "" {
		rows := wrap(g.Title, titleSize, true, width-2*margin)
		s.lines(pt{margin, y + capHeight*titleSize + 1}, rows, titleSize, true, start, inkText)
		y += float64(len(rows))*titleSize*leading + titleGap
	}
	x := scale{min: g.from(), max: g.to()}
	ticks := x.ticks(int((right-left)/36), false)
	top := y
	for i := range g.Panels {
		y = g.panel(s, &g.Panels[i], box{left, y, right, 0}, x, ticks, kinds, colours)
		if i+1 < len(g.Panels) {
			y += ganttPanel
		}
	}
	y = g.axis(s, left, right, y, x, ticks)
	leg.draw(s, pt{right, top})
	s.height = max(y, top+leg.height()) + margin
	return s, nil
}

func (g *Gantt) from() float64 {
	from := 0.0
	g.each(func(s Span) { from = min(from, s.From) })
	return from
}

func (g *Gantt) to() float64 {
	to := g.To
	if to <= 0 {
		g.each(func(s Span) { to = max(to, s.To) })
	}
	if to <= g.from() {
		return g.from() + 1 // nothing happened, yet an axis needs a length
	}
	return to
}

func (g *Gantt) each(f func(Span)) {
	for _, p := range g.Panels {
		for _, r := range p.Rows {
			for _, s := range r.Spans {
				f(s)
			}
		}
	}
}

// panel draws one system from b.y0 down and returns where it ends.
func (g *Gantt) panel(s *scene, p *GanttPanel, b box, x scale, ticks []tick, kinds []Kind, colours []ink) float64 {
	y := b.y0
	if p.Title != "" {
		rows := wrap(p.Title, labelSize, true, b.x1-b.x0)
		s.lines(pt{b.x0, y + capHeight*labelSize}, rows, labelSize, true, start, inkText)
		y += float64(len(rows))*labelSize*leading + 2
	}
	top := y
	at := func(v float64) float64 { return b.x0 + x.norm(v)*(b.x1-b.x0) }
	bottom := top
	for _, r := range p.Rows {
		if r.Apart {
			bottom += ganttApart
		}
		bottom += ganttRow
	}
	for _, t := range ticks {
		s.line("grid", inkGrid, gridWidth, nil, pt{at(t.value), top}, pt{at(t.value), bottom})
	}
	for _, r := range p.Rows {
		if r.Apart {
			y += ganttApart
		}
		name := clip(r.Name, tickSize, false, s.width/4)
		s.text(pt{b.x0 - labelGap, y + ganttRow/2 + capHeight*tickSize/2}, name, tickSize, end, inkText)
		for _, sp := range r.Spans {
			if sp.From >= x.max {
				continue
			}
			i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == sp.Kind })
			g.span(s, sp, box{at(sp.From), y, at(min(sp.To, x.max)), y + ganttRow}, kinds[i], colours[i], r.Name)
		}
		y += ganttRow
	}
	return y
}

func (g *Gantt) span(s *scene, sp Span, b box, k Kind, colour ink, row string) {
	inset := 0.8
	if k.Quiet {
		inset = 3.4
	}
	b.y0, b.y1 = b.y0+inset, b.y1-inset
	sh := s.rect("span", colour, b)
	sh.stroke, sh.width = inkPaper, 0.5
	sh.tip = fmt.Sprintf("%s, %s %s: %s to %s", row, sp.Kind, sp.Label, formatValue(sp.From), formatValue(sp.To))
	if sp.Label == "" || k.Quiet {
		return
	}
	const size = smallSize
	if textWidth(sp.Label, size, false)+2 > b.width() {
		return
	}
	s.text(pt{(b.x0 + b.x1) / 2, (b.y0+b.y1)/2 + capHeight*size/2}, sp.Label, size, middle, onto(colour))
}

// axis draws the time axis below the last panel and returns where it ends.
func (g *Gantt) axis(s *scene, left, right, y float64, x scale, ticks []tick) float64 {
	y += 2
	s.line("axis", inkAxis, axisWidth, nil, pt{left, y}, pt{right, y})
	for _, t := range ticks {
		at := left + x.norm(t.value)*(right-left)
		s.line("axis", inkAxis, axisWidth, nil, pt{at, y}, pt{at, y + tickLength})
		s.text(pt{at, y + tickLength + labelGap/2 + capHeight*tickSize + 1}, t.label, tickSize, middle, inkText)
	}
	y += tickLength + labelGap/2 + tickSize + 1
	if g.XLabel != "" {
		y += labelGap + capHeight*labelSize
		s.text(pt{(left + right) / 2, y}, g.XLabel, labelSize, middle, inkText)
		y += descent * labelSize
	}
	return y
}
