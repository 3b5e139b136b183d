package output

import (
	"github.com/tokenrouter/tokenrouter/experiments"
	"github.com/tokenrouter/tokenrouter/internal/report/figure"
)

// bars draws the plotted figure by system, one panel a facet, beside what was
// published.
func (v *view) bars() *figure.Figure {
	systems := v.results.Plan.Systems
	f := &figure.Figure{XLabel: "", YLabel: v.yLabel(), YFromZero: true, XNames: systems, BarValues: true, About: v.results.Plan.Question}
	for _, panel := range v.panels() {
		facet := figure.Facet{Title: v.label(panel)}
		for _, on := range v.results.Plan.On {
			s := figure.Series{Name: placeName(on), Style: figure.Bars}
			for i, system := range systems {
				if r := v.bestRow(panel, system, on); r != nil {
					s.X = append(s.X, float64(i))
					s.Y = append(s.Y, r.Mean[v.y])
					s.Low = append(s.Low, r.Mean[v.y]-r.CI95[v.y])
					s.High = append(s.High, r.Mean[v.y]+r.CI95[v.y])
				}
			}
			if len(s.X) > 0 {
				facet.Series = append(facet.Series, s)
			}
		}
		if ref := v.published(); ref != nil {
			facet.Series = append(facet.Series, *ref)
		}
		f.Facets = append(f.Facets, facet)
	}
	return f
}

// published lays published figures over the bars; nil if there are none of the
// plotted figure.
func (v *view) published() *figure.Series {
	p := &v.results.Plan.Published
	if len(p.BySystem) == 0 || p.Figure != "" && v.figure(p.Figure) != v.y {
		return nil
	}
	s := &figure.Series{Name: "published", Style: figure.Reference}
	for i, system := range v.results.Plan.Systems {
		if x, ok := p.BySystem[system]; ok {
			s.X, s.Y = append(s.X, float64(i)), append(s.Y, x)
		}
	}
	return s
}

// bestRow is the row of a system in a panel: where several thresholds were
// swept, that of the highest throughput.
func (v *view) bestRow(group combo, system, on string) *experiments.Row {
	var best *experiments.Row
	y := v.figure(throughput)
	for _, r := range v.pick(func(r *experiments.Row) bool { return r.System == system && r.On == on && group.fits(r) }) {
		if best == nil || r.Mean[y] > best.Mean[y] {
			best = r
		}
	}
	return best
}
