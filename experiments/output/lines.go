package output

import (
	"math"
	"slices"
	"strings"

	"github.com/tokenrouter/tokenrouter/experiments"
	"github.com/tokenrouter/tokenrouter/internal/report/figure"
)

// lines draws the plotted figure against a swept number: the chain as lines,
// the simulator as points, systems that do not read B as horizontal lines.
func (v *view) lines() *figure.Figure {
	f := &figure.Figure{XLabel: v.xLabel(), YLabel: v.yLabel(), YFromZero: true, About: v.results.Plan.Question}
	if f.XNames = v.xNames(); f.XNames == nil {
		xs := v.values(v.x)
		first, _ := number(xs[0])
		last, _ := number(xs[len(xs)-1])
		f.XLog = first > 0 && last/first >= 50
	}
	for _, panel := range v.panels() {
		facet := figure.Facet{Title: v.label(panel)}
		for _, system := range v.results.Plan.Systems {
			v.addSystem(&facet, panel, system)
		}
		v.markCut(&facet, panel)
		f.Facets = append(f.Facets, facet)
	}
	return f
}

func (v *view) addSystem(facet *figure.Facet, panel combo, system string) {
	if experiments.IsThreshold(v.x) && !experiments.UsesB(system) {
		v.addLevel(facet, panel, system)
		return
	}
	for _, kind := range v.combos(v.series...) {
		hue := system
		if len(kind) > 0 {
			hue = v.label(kind)
			if len(v.results.Plan.Systems) > 1 {
				hue = system + ", " + hue
			}
		}
		for _, on := range v.results.Plan.On {
			s := v.line(panel.with(kind), system, on)
			if len(s.X) == 0 {
				continue
			}
			s.Name, s.Hue, s.Style = hue+", "+placeName(on), hue, figure.Points
			switch {
			case v.xNames() != nil:
				s.Style = figure.Bars
			case on == experiments.OnChain:
				s.Style = figure.Line
			case len(v.results.Plan.On) == 1:
				s.Name, s.Style = hue, figure.LinePoints
			}
			facet.Series = append(facet.Series, s)
		}
		if len(kind) == 0 {
			v.markBest(facet, panel, system)
		}
	}
}

func placeName(on string) string {
	switch on {
	case experiments.OnChain:
		return "predicted"
	case experiments.OnSim:
		return "simulated"
	}
	return "measured on " + on
}

// rowsOf lists what a system showed at one place in a group.
func (v *view) rowsOf(group combo, system, on string) []*experiments.Row {
	return v.pick(func(r *experiments.Row) bool { return r.System == system && r.On == on && group.fits(r) })
}

// line collects the points of one series.
func (v *view) line(group combo, system, on string) figure.Series {
	var s figure.Series
	for _, r := range v.rowsOf(group, system, on) {
		for _, set := range r.Point.Swept {
			if set.Path == v.x {
				s.X = append(s.X, v.position(set))
				s.Y = append(s.Y, r.Mean[v.y])
				s.Low = append(s.Low, r.Mean[v.y]-r.CI95[v.y])
				s.High = append(s.High, r.Mean[v.y]+r.CI95[v.y])
			}
		}
	}
	if strings.HasSuffix(v.results.Figures[v.y].Name, "_share") {
		for i := range s.Low { // an interval by Student's t knows no bounds
			s.Low[i], s.High[i] = max(s.Low[i], 0), min(s.High[i], 1)
		}
	}
	return s
}

// addLevel draws a system whose figure does not depend on X, once for each
// combination of the series, unless those are too many.
func (v *view) addLevel(facet *figure.Facet, panel combo, system string) {
	if !v.levelsFit() {
		return
	}
	for _, kind := range v.combos(v.series...) {
		for _, on := range placesByTrust {
			rows := v.rowsOf(panel.with(kind), system, on)
			if len(rows) == 0 {
				continue
			}
			name := system
			if len(kind) > 0 {
				name += ", " + v.label(kind)
			}
			facet.Marks = append(facet.Marks, figure.Mark{Axis: figure.AtY, Value: rows[0].Mean[v.y], Label: name, Hue: name})
			break
		}
	}
}

// mostHues is how many colours a figure has.
const mostHues = 7

// levelsFit reports whether each system has a colour for each combination of the
// series, those that read no threshold beside those that do.
func (v *view) levelsFit() bool {
	return len(v.combos(v.series...))*len(v.results.Plan.Systems) <= mostHues
}

// undrawn lists the systems that the main figure leaves out, though they were
// asked for and showed something.
func (v *view) undrawn() []string {
	left := func(string) bool { return false }
	switch {
	case v.results.Plan.Points[0].Spec.Workload.Kind == experiments.KindScript || v.x == bySystem:
	case v.isHeat():
		left = func(system string) bool { return system != experiments.SystemTokenRouter }
	case experiments.IsThreshold(v.x) && !v.levelsFit():
		left = func(system string) bool { return !experiments.UsesB(system) }
	}
	return slices.DeleteFunc(slices.Clone(v.results.Plan.Systems), func(system string) bool {
		return !left(system) || len(v.pick(func(r *experiments.Row) bool { return r.System == system })) == 0
	})
}

// isHeat reports whether the main figure is a map of colours.
func (v *view) isHeat() bool {
	kind := v.results.Plan.Plot.Kind
	return (kind == "heat" || kind == "loss") && len(v.groups()) > 1 && v.xNames() == nil
}

// undrawnText says which systems the figure leaves out, and where they are; "" if
// it shows all.
func (v *view) undrawnText() string {
	names := v.undrawn()
	if len(names) == 0 {
		return ""
	}
	return "Not in the figure: " + strings.Join(names, ", ") + "; see the tables."
}

// markBest rings the best B where B matters.
func (v *view) markBest(facet *figure.Facet, panel combo, system string) {
	if !v.isCurve(v.x) || v.results.Figures[v.y].Name != throughput {
		return
	}
	c := v.curve(panel, system, v.bestPlace())
	if c == nil || c.verdict() != matters {
		return
	}
	facet.Marks = append(facet.Marks, figure.Mark{Axis: figure.AtPoint, X: c.best().b, Value: c.best().tokPerS, Label: "best " + v.axisName(v.x) + " = " + c.best().name()})
}

// placesByTrust lists where figures are read off first: the simulator, which
// plays every detail for long enough, then the chain, then what was measured,
// which a short run leaves noisy.
var placesByTrust = []string{experiments.OnSim, experiments.OnChain, experiments.OnPaced, experiments.OnCPU}

// bestPlace is where the best B is read off.
func (v *view) bestPlace() string {
	for _, on := range placesByTrust {
		if slices.Contains(v.results.Plan.On, on) {
			return on
		}
	}
	return experiments.OnChain
}

// curve is throughput over B for one system at one place.
type curve struct{ points []curvePoint }

type curvePoint struct {
	b, inForce float64 // as asked for, and on average
	tokPerS    float64
	half       float64 // see view.half
}

// name writes the point's B.
func (p curvePoint) name() string { return askedB(p.b, p.inForce) }

// curve returns nil if the experiment has no such curve.
func (v *view) curve(group combo, system, on string) *curve {
	y := v.figure(throughput)
	var c curve
	for _, r := range v.pick(func(r *experiments.Row) bool { return r.System == system && r.On == on && group.fits(r) }) {
		for _, set := range r.Point.Swept {
			if b, ok := number(set); ok && set.Path == v.x && !math.IsNaN(r.Mean[y]) {
				p := curvePoint{b, b, r.Mean[y], v.half(r, y)}
				if force, isCut := v.inForce(r, set); isCut {
					p.inForce = force
				}
				c.points = append(c.points, p)
			}
		}
	}
	if len(c.points) == 0 {
		return nil
	}
	return &c
}

// best is the point of the highest throughput, the smallest B among equals.
func (c *curve) best() curvePoint {
	best := c.points[0]
	for _, p := range c.points[1:] {
		if p.tokPerS > best.tokPerS || p.tokPerS == best.tokPerS && p.b < best.b {
			best = p
		}
	}
	return best
}

// worst is the point of the lowest, likewise.
func (c *curve) worst() curvePoint {
	worst := c.points[0]
	for _, p := range c.points[1:] {
		if p.tokPerS < worst.tokPerS || p.tokPerS == worst.tokPerS && p.b < worst.b {
			worst = p
		}
	}
	return worst
}

func (c *curve) at(b float64) (curvePoint, bool) {
	for _, p := range c.points {
		if p.b == b {
			return p, true
		}
	}
	return curvePoint{}, false
}
