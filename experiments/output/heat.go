package output

import (
	"math"

	"github.com/tokenrouter/tokenrouter/experiments"
	"github.com/tokenrouter/tokenrouter/internal/report/figure"
)

// heat draws, for one place, what each threshold gains over B = 1 (or, where X
// is not a threshold, over the first X) in each row of the facet; or, for the
// kind loss, what it loses against the best of the row.
func (v *view) heat(system, on string) *figure.Heatmap {
	xs, ys := v.values(v.x), v.groups()
	h := &figure.Heatmap{
		Title: "Throughput over " + v.axisName(v.x) + " = 1, " + placeName(on), XLabel: v.xLabel(), YLabel: v.facetName(),
		ValueLabel: "gain (%)", Decimals: 1, Sign: true, Best: true, Limit: 25, About: v.results.Plan.Question,
	}
	loss := v.results.Plan.Plot.Kind == "loss"
	switch {
	case loss:
		h.Title, h.ValueLabel = "Throughput against the best "+v.axisName(v.x)+", "+placeName(on), "loss (%)"
	case !experiments.IsThreshold(v.x):
		h.Title = "Throughput over the first column, " + placeName(on)
	}
	for _, x := range xs {
		n, _ := number(x)
		h.XNames = append(h.XNames, short(n))
	}
	for _, panel := range ys {
		row := make([]float64, len(xs))
		c := v.curve(panel, system, on)
		h.YNames = append(h.YNames, v.groupName(panel)+c.limit())
		for i, x := range xs {
			row[i] = math.NaN()
			if c == nil {
				continue
			}
			n, _ := number(x)
			base := c.points[0]
			if loss {
				base = c.best()
			}
			if p, ok := c.at(n); ok {
				row[i] = 100 * (p.tokPerS/base.tokPerS - 1)
			}
		}
		h.Values = append(h.Values, row)
	}
	return h
}

// limit says in the name of a row which B is in force at most, if any was cut.
func (c *curve) limit() string {
	if c == nil {
		return ""
	}
	most, isCut := 0.0, false
	for _, p := range c.points {
		most, isCut = max(most, p.inForce), isCut || p.inForce < p.b
	}
	if !isCut {
		return ""
	}
	return " (B ≤ " + short(most) + ")"
}
