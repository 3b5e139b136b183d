package output

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tokenrouter/tokenrouter/experiments"
)

// fullSpeed says, where models share a GPU and are taken not to slow each other
// down, that this is an assumption, and what the answer would be if they did.
func (v *view) fullSpeed() []string {
	plan := v.results.Plan
	pairs := plan.FullSpeed()
	if len(pairs) == 0 || !slices.ContainsFunc(plan.Systems, experiments.Overlaps) {
		return nil
	}
	var out []string
	for i, pair := range pairs {
		why := "what they ask for of its bandwidth is not known"
		if pair.Demand > 0 {
			why = fmt.Sprintf("derived, not measured: to read their weights they ask for %.2f of its bandwidth", pair.Demand)
		}
		text := fmt.Sprintf("Assumed: %s and %s share GPU %d without slowing each other down (%s)", v.models[pair.A], v.models[pair.B], pair.GPU, why)
		if i == len(pairs)-1 {
			text += "; " + v.ifSlowed()
		}
		out = append(out, unbroken(text+"."))
	}
	return out
}

// quickPoints bounds how many points the chain is asked about once more.
const quickPoints = 100

// ifSlowed says what the chain answers if steps stretched by SlowFactor.
func (v *view) ifSlowed() string {
	factor := fmt.Sprintf("colocation.factor = %g", experiments.SlowFactor)
	if slices.Contains(v.results.Plan.Systems, experiments.SystemTokenRouter) && len(v.results.Plan.Points) <= quickPoints {
		changes := v.changedThroughput
		if v.sweepsB() {
			changes = v.changedB
		}
		if change := changes(); change != "" {
			return fmt.Sprintf("if steps took %g times as long while the other model runs (%s), the chain's %s", experiments.SlowFactor, factor, change)
		}
	}
	return "--set " + strings.ReplaceAll(factor, " ", "") + " shows what it would change if they did"
}

// changedB compares, group by group, the best B and its gain.
func (v *view) changedB() string {
	var b, gain [2][]float64
	for _, group := range v.groups() {
		full, slow := v.slowedCurve(group)
		for i, c := range []*curve{full, slow} {
			if len(c.points) == 0 || math.IsNaN(c.points[len(c.points)-1].tokPerS) {
				return ""
			}
			b[i], gain[i] = append(b[i], c.best().b), append(gain[i], 100*c.gain())
		}
	}
	text := fmt.Sprintf("best %s would be %s instead of %s", v.axisName(v.x), several(b[1], "%.0f"), several(b[0], "%.0f"))
	if !slices.ContainsFunc(gain[0], math.IsNaN) {
		text += fmt.Sprintf(", and gain %s %% over %s = 1 instead of %s", several(gain[1], "%.1f"), v.axisName(v.x), several(gain[0], "%.1f"))
	}
	return text
}

// slowedCurve is the chain's curve over B in force, as assumed and slowed down; it
// ends at the first point that the chain does not know.
func (v *view) slowedCurve(group combo) (full, slow *curve) {
	full, slow = &curve{}, &curve{}
	chain := v.curve(group, experiments.SystemTokenRouter, experiments.OnChain)
	for _, p := range v.results.Plan.Points {
		at := slices.IndexFunc(p.Swept, func(s experiments.Setting) bool { return s.Path == v.x })
		if at < 0 || !group.fits(&experiments.Row{Point: p}) {
			continue
		}
		b, _ := number(p.Swept[at])
		before, known := curvePoint{}, false
		if chain != nil {
			before, known = chain.at(b)
		}
		if known { // what was cut is, as a rule, a point already
			b = before.inForce
		}
		if _, again := full.at(b); again {
			continue
		}
		if !known {
			before.tokPerS = p.AsAssumed()
		}
		full.points = append(full.points, curvePoint{b: b, inForce: b, tokPerS: before.tokPerS})
		slow.points = append(slow.points, curvePoint{b: b, inForce: b, tokPerS: p.Slowed()})
		if math.IsNaN(before.tokPerS + p.Slowed()) {
			break
		}
	}
	return full, slow
}

// changedThroughput compares throughput, wherever the chain knows it.
func (v *view) changedThroughput() string {
	var losses []float64
	for _, p := range v.results.Plan.Points {
		if loss := 100 * (1 - p.Slowed()/p.AsAssumed()); !math.IsNaN(loss) {
			losses = append(losses, max(0, loss))
		}
	}
	if len(losses) == 0 {
		return ""
	}
	text := fmt.Sprintf("throughput of %s would be %s %% lower", experiments.SystemTokenRouter, span(losses, "%.0f"))
	if len(losses) < len(v.results.Plan.Points) {
		text += fmt.Sprintf(" (it was asked about up to %d users)", experiments.QuickUsers)
	}
	return text
}

// maxListed is how many numbers a sentence lists one by one.
const maxListed = 4

// several lists numbers; of many it gives the range.
func several(x []float64, format string) string {
	if len(x) > maxListed {
		return span(x, format)
	}
	var texts []string
	for _, n := range x {
		texts = append(texts, fmt.Sprintf(format, n))
	}
	if last := len(texts) - 1; last > 0 {
		return strings.Join(texts[:last], ", ") + " and " + texts[last]
	}
	return texts[0]
}

// span is the range of numbers, one number if they are written alike.
func span(x []float64, format string) string {
	lo, hi := fmt.Sprintf(format, slices.Min(x)), fmt.Sprintf(format, slices.Max(x))
	if lo == hi {
		return lo
	}
	return lo + " to " + hi
}
