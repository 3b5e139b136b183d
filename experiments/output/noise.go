package output

import (
	"fmt"
	"math"
	"strings"

	"github.com/tokenrouter/tokenrouter/experiments"
)

// half is the half width of the 95 % interval of a figure of a row: over seeds
// or, of the throughput of one seed, over the blocks of its run. It is 0 where
// nothing is left to chance, and NaN where nobody can tell.
func (v *view) half(r *experiments.Row, f int) float64 {
	switch {
	case r.On == experiments.OnChain, r.On == experiments.OnSim && r.Point.Spec.Workload.Kind == experiments.KindScript:
		return 0
	case !math.IsNaN(r.CI95[f]):
		return r.CI95[f]
	case v.results.Figures[f].Name == throughput:
		// Student's t of at least 8 blocks is 1.96 to 2.4.
		return 2 * r.Mean[v.figure(blockError)] * r.Mean[f]
	}
	return math.NaN()
}

// blockError is the relative standard error of throughput by batch means.
const blockError = "throughput_rel_se"

// alike reports whether the figure of two rows differs by no more than chance
// explains: by less than the 95 % interval of the difference, if that is known.
func (v *view) alike(a, b *experiments.Row, f int) bool {
	return math.Abs(a.Mean[f]-b.Mean[f]) <= math.Hypot(v.half(a, f), v.half(b, f))
}

// noInterval warns of figures that came out of one run each, too short to say
// how far chance moved them.
func (v *view) noInterval() []string {
	shown := v.pick(func(r *experiments.Row) bool {
		return r.On == v.bestPlace() && !math.IsNaN(r.Mean[v.y]) && math.IsNaN(v.half(r, v.y))
	})
	if len(shown) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("One seed gives no interval of %s: what differs here may do so by chance. --set seeds=[1,2,3] tells.", figureLabel(v.results.Figures[v.y].Name))}
}

// mattersGain is the gain over B = 1 from which on B is said to matter: below
// it the choice disappears in the noise of a real system.
const mattersGain = 0.02

// verdict says whether B matters.
type verdict string

const (
	matters  verdict = "yes"
	hardly   verdict = "hardly"
	unproven verdict = "within noise" // chance may have made the gain, or hidden one
)

// gain is what the best B brings over B = 1.
func (c *curve) gain() float64 {
	one, ok := c.at(1)
	if !ok {
		return math.NaN()
	}
	return c.best().tokPerS/one.tokPerS - 1
}

// noise is the half width of the 95 % interval of the gain; NaN if nobody knows.
func (c *curve) noise() float64 {
	one, ok := c.at(1)
	if !ok {
		return math.NaN()
	}
	return c.best().noiseAgainst(one) / one.tokPerS
}

// noiseAgainst is the half width of the 95 % interval of the difference of two
// points. It is rather too wide: seeds are counted as independent, though the
// same one plays the same load at both.
func (p curvePoint) noiseAgainst(q curvePoint) float64 {
	if p.b == q.b {
		return 0
	}
	return math.Hypot(p.half, q.half)
}

// verdict compares the gain with what is worth it and with its noise. A gain so
// small that even the end of its interval is not worth it hardly matters.
func (c *curve) verdict() verdict {
	gain, noise := c.gain(), c.noise()
	switch {
	case gain <= noise && gain+noise > mattersGain:
		return unproven
	case gain > mattersGain:
		return matters
	}
	return hardly
}

// loses is what the worst B loses against the best; sure is whether that is more
// than what hardly matters and than chance.
func (c *curve) loses() (loss float64, sure bool) {
	best, worst := c.best(), c.worst()
	loss = 1 - worst.tokPerS/best.tokPerS
	return loss, loss > mattersGain && !(best.tokPerS-worst.tokPerS <= best.noiseAgainst(worst))
}

// faster names the systems of the experiment that are faster than the best B, by
// more than chance: those that write the same text with the same models.
func (v *view) faster(group combo, best curvePoint) string {
	var parts []string
	y := v.figure(throughput)
	for _, system := range v.results.Plan.Systems {
		r := v.bestRow(group, system, v.bestPlace())
		if r == nil || experiments.UsesB(system) || system == experiments.SystemQueryLevel || (experiments.Cell{Point: r.Point, System: system}).Single() >= 0 {
			continue
		}
		if noise := math.Hypot(v.half(r, y), best.half); r.Mean[y] > best.tokPerS && !(r.Mean[y]-best.tokPerS <= noise) {
			parts = append(parts, fmt.Sprintf("%s (%s token/s)", system, short(r.Mean[y])))
		}
	}
	switch len(parts) {
	case 0:
		return ""
	case 1:
		return "; but " + parts[0] + " is faster"
	}
	return "; but " + strings.Join(parts, ", ") + " are faster"
}
