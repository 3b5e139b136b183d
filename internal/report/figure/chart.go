package figure

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// chart is a Figure while it is laid out.
type chart struct {
	*Figure
	s      *scene
	looks  *looks
	legend legend

	x, y           scale
	xticks, yticks []tick
	names          [][]string // wrapped XNames

	columns, rows  int
	titleLines     []string
	facetLines     int
	panelW, panelH float64
	left, top      float64 // of the first panel
	below          float64 // height of tick labels under a panel
	gap, side      float64 // between panels, and right of the last
	slot           float64 // distance in X of neighbouring bars' centres
	bars           []string
}

func (f *Figure) layout() (*scene, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	c := &chart{Figure: f, looks: newLooks(f)}
	c.legend = newLegend(c.looks.entries)
	c.findBars()
	c.grid()
	for err := c.try(); err != nil; err = c.try() {
		if c.Columns > 0 || c.columns == 1 {
			return nil, err
		}
		c.setColumns(c.columns - 1)
	}
	// Names inside the panels may need head room that the data do not leave.
	var best *scene
	least := math.Inf(1)
	for head := 0.0; head < 0.55; head += 0.1 {
		c.s = &scene{title: f.plainTitle(), about: f.about()}
		if err := c.measure(head); err != nil {
			break // the labels of a longer axis are too wide; without head room they were not
		}
		if covered := c.draw(); covered < least {
			best, least = c.s, covered
		}
		if least == 0 {
			break
		}
	}
	return best, nil
}

// try measures once, to find whether the panels fit side by side.
func (c *chart) try() error {
	c.s = &scene{}
	return c.measure(0)
}

// about is About, or what can be said of any chart.
func (f *Figure) about() string {
	if f.About != "" {
		return f.About
	}
	var names, panels []string
	for _, fc := range f.Facets {
		if fc.Title != "" {
			panels = append(panels, fc.Title)
		}
		for _, s := range fc.Series {
			if s.Name != "" && !slices.Contains(names, s.Name) {
				names = append(names, s.Name)
			}
		}
	}
	out := f.YLabel + " against " + f.XLabel
	if len(names) > 0 {
		out += "; series: " + strings.Join(names, ", ")
	}
	if len(panels) > 0 {
		out += "; panels: " + strings.Join(panels, ", ")
	}
	return out
}

func (f *Figure) plainTitle() string {
	if f.Title != "" {
		return f.Title
	}
	return f.YLabel + " against " + f.XLabel
}

func (c *chart) findBars() {
	var xs []float64
	for i := range c.Facets {
		for k := range c.Facets[i].Series {
			if s := &c.Facets[i].Series[k]; s.Style == Bars {
				for _, x := range s.X {
					if usable(x, false) {
						xs = append(xs, x)
					}
				}
				if !slices.Contains(c.bars, s.Name) {
					c.bars = append(c.bars, s.Name)
				}
			}
		}
	}
	slices.Sort(xs)
	c.slot = 1
	if len(c.XNames) == 0 && len(xs) > 0 {
		gap := math.Inf(1)
		for i := 1; i < len(xs); i++ {
			// Differences by rounding are no neighbours.
			if d := xs[i] - xs[i-1]; d > 1e-6*(xs[len(xs)-1]-xs[0]) {
				gap = min(gap, d)
			}
		}
		if !math.IsInf(gap, 1) {
			c.slot = gap
		}
	}
}

// grid picks rows and columns to begin with.
func (c *chart) grid() {
	n := len(c.Facets)
	columns := c.Columns
	if columns == 0 {
		columns = n
		if n > 4 {
			columns = 3
		}
	}
	c.setColumns(min(columns, n))
}

func (c *chart) setColumns(n int) {
	c.columns, c.rows = n, (len(c.Facets)+n-1)/n
}

func (c *chart) pageWidth() float64 {
	switch {
	case c.WidthIn > 0:
		return c.WidthIn * 72
	case c.columns == 1:
		need := 60 + c.legend.width + float64(len(c.XNames))*(longestWord(c.XNames)+nameGap)
		return min(max(need, 4.8*72), 7*72)
	case c.columns == 2:
		return 6.4 * 72
	}
	return 7 * 72
}

func longestWord(names []string) float64 {
	w := 0.0
	for _, n := range names {
		for _, f := range words(n) {
			w = max(w, textWidth(f, tickSize, false))
		}
	}
	return w
}

const (
	nameGap    = 6.0 // between neighbouring XNames
	columnGap  = 10.0
	rowGap     = 10.0
	labelGap   = 4.0 // between ticks, their labels and the axis title
	titleGap   = 6.0
	minPanel   = 40.0 // below this width a panel shows nothing
	goodPanel  = 85.0 // below it, panels wrap into another row if they may
	panelInset = 5.0  // from the outermost mark to the edge
)

// measure fixes the sizes of the panels from the sizes of all text round them.
func (c *chart) measure(head float64) error {
	c.s.width = c.pageWidth()
	c.panelH = 1.9 * 72
	if c.PanelHeightIn > 0 {
		c.panelH = c.PanelHeightIn * 72
	}
	c.titleLines = nil
	if c.Title != "" {
		c.titleLines = wrap(c.Title, titleSize, true, c.s.width-2*margin)
	}
	xs, marks, ys := c.values()
	c.y = newScale(ys, c.YLog, c.YFromZero || len(c.bars) > 0 && !c.YLog)
	c.yRange(head)
	c.yticks = c.y.ticks(int(c.panelH/19), false)

	widest := 0.0
	for _, t := range c.yticks {
		widest = max(widest, textWidth(t.label, tickSize, false))
	}
	c.left = margin + widest + labelGap + tickLength
	if c.YLabel != "" {
		c.left += labelSize + labelGap
	}
	c.gap, c.side = columnGap, 4
	if c.legend.width > 0 {
		c.side = c.legend.width
	}
	// Labels of the outermost ticks reach beyond their panel, which takes width
	// from the panels, which can change the ticks: three rounds settle it.
	for range 3 {
		c.panelW = (c.s.width - c.left - c.side - margin - float64(c.columns-1)*c.gap) / float64(c.columns)
		least := minPanel
		if c.Columns == 0 && c.columns > 1 {
			least = goodPanel
		}
		if c.panelW < least {
			return fmt.Errorf("figure %q: %d panels and the legend do not fit into %.1f inches; widen it or set Columns", c.Title, c.columns, c.s.width/72)
		}
		c.xRange(append(marks, xs...))
		c.xTicks(xs)
		left, right := c.overhang()
		c.gap, c.side = max(c.gap, left+right+5), max(c.side, right)
	}
	c.vertical()
	return nil
}

// overhang is how far tick labels reach beyond the panel on either side.
func (c *chart) overhang() (left, right float64) {
	for _, t := range c.xticks {
		if c.names == nil {
			at, w := c.x.norm(t.value)*c.panelW, textWidth(t.label, tickSize, false)
			left, right = max(left, w/2-at), max(right, at+w/2-c.panelW)
		}
	}
	return left, right
}

// vertical stacks the heights of the page.
func (c *chart) vertical() {
	c.top = margin
	if n := len(c.titleLines); n > 0 {
		c.top += float64(n)*titleSize*leading + titleGap - titleSize*(leading-1)
	}
	c.facetLines = 0
	for i := range c.Facets {
		if t := c.Facets[i].Title; t != "" {
			c.facetLines = max(c.facetLines, len(wrap(t, labelSize, false, c.panelW)))
		}
	}
	c.top += c.facetHeight()
	if c.facetLines == 0 && len(c.titleLines) == 0 {
		c.top += 3 // half a tick label reaches above the panel
	}
	tickLines := 1
	for _, n := range c.names {
		tickLines = max(tickLines, len(n))
	}
	c.below = tickLength + labelGap + capHeight*tickSize + float64(tickLines-1)*tickSize*leading + descent*tickSize
	bottom := c.panel(len(c.Facets)-1).y1 + c.below
	if c.XLabel != "" {
		bottom += labelGap + labelSize
	}
	c.s.height = max(bottom, c.top+c.legend.height()) + margin
}

func (c *chart) facetHeight() float64 {
	if c.facetLines == 0 {
		return 0
	}
	return float64(c.facetLines)*labelSize*leading + 3
}

// panel is the area of data of facet i.
func (c *chart) panel(i int) box {
	col, row := i%c.columns, i/c.columns
	x := c.left + float64(col)*(c.panelW+c.gap)
	y := c.top + float64(row)*(c.panelH+c.facetHeight()+c.below+rowGap)
	return box{x, y, x + c.panelW, y + c.panelH}
}

// yRange leaves room for marks and caps at both ends, save at a zero base line.
func (c *chart) yRange(head float64) {
	inset := panelInset / c.panelH
	if c.BarValues {
		head += (smallSize + 3) / c.panelH
	}
	low := inset
	if !c.y.log && c.y.min == 0 {
		low = 0
	}
	high := inset + head
	if !c.y.log && c.y.max == 0 {
		high = 0
	}
	c.y = c.y.widen(low/(1-low-inset), high/(1-inset-low))
}

func (c *chart) xRange(xs []float64) {
	if n := len(c.XNames); n > 0 {
		c.x = scale{min: -0.5, max: float64(n) - 0.5}
		return
	}
	c.x = newScale(xs, c.XLog, false)
	if len(c.bars) > 0 {
		c.x.min, c.x.max = c.x.min-c.slot/2, c.x.max+c.slot/2
		return
	}
	inset := (panelInset + 2) / c.panelW
	c.x = c.x.widen(inset/(1-2*inset), inset/(1-2*inset))
}

// xTicks takes as many ticks as have room for their labels.
func (c *chart) xTicks(xs []float64) {
	c.names = nil
	if n := len(c.XNames); n > 0 {
		c.xticks = make([]tick, n)
		for i, name := range c.XNames {
			c.xticks[i] = tick{float64(i), name}
			c.names = append(c.names, wrap(name, tickSize, false, c.panelW/float64(n)-nameGap/2))
		}
		return
	}
	whole := !c.XLog && wholeX(xs)
	if c.XLog && len(xs) > 0 && wholeX(xs) {
		if t := valueTicks(xs); len(t) >= 2 && len(t) <= 10 && c.roomFor(t) {
			c.xticks = t
			return
		}
	}
	n := int(c.panelW / 30)
	if whole {
		n = int(c.panelW / 9) // up to a tick for every integer
	}
	for ; ; n-- {
		c.xticks = c.x.ticks(n, whole)
		if n <= 2 || c.roomFor(c.xticks) {
			return
		}
	}
}

// roomFor tells whether the labels keep a space between them.
func (c *chart) roomFor(ticks []tick) bool {
	last := math.Inf(-1)
	for _, t := range ticks {
		if t.label == "" {
			continue
		}
		at, w := c.x.norm(t.value)*c.panelW, textWidth(t.label, tickSize, false)
		if at-w/2 < last+5 {
			return false
		}
		last = at + w/2
	}
	return true
}
