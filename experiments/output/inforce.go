package output

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tokenrouter/tokenrouter/experiments"
	"github.com/tokenrouter/tokenrouter/internal/report/figure"
)

// cutBy is how far the mean threshold in force lies below the one that was asked
// for where B is said to be cut: requests that come and go leave less for moments.
const cutBy = 0.5

// inForce is the mean threshold that was in force in a row for a swept B, false
// if it was the one that was asked for.
func (v *view) inForce(r *experiments.Row, set experiments.Setting) (float64, bool) {
	model, isB := strings.CutSuffix(strings.TrimPrefix(set.Path, "models."), ".B")
	asked, isNumber := number(set)
	if !isB || !isNumber || !experiments.UsesB(r.System) {
		return 0, false
	}
	f := v.figure("b_in_force." + model)
	if f < 0 || !(r.Mean[f] <= asked-cutBy) {
		return 0, false
	}
	return r.Mean[f], true
}

// askedB writes a threshold, and behind it what was in force if that was less.
func askedB(b, inForce float64) string {
	if inForce > b-cutBy {
		return short(b)
	}
	return fmt.Sprintf("%s (%s in force)", short(b), short(inForce))
}

// cut is what became of thresholds of a model, named as its axis is, in one group of cells.
type cut struct {
	axis, label, inForce string
	asked                []float64
}

// cuts lists the thresholds that were cut where figures are read off.
func (v *view) cuts() []cut {
	var out []cut
	for _, r := range v.pick(func(r *experiments.Row) bool { return r.On == v.bestPlace() }) {
		for _, set := range r.Point.Swept {
			force, isCut := v.inForce(r, set)
			if !isCut {
				continue
			}
			asked, _ := number(set)
			rest := slices.DeleteFunc(slices.Clone(combo(r.Point.Swept)), func(s experiments.Setting) bool { return s.Path == set.Path })
			c := cut{v.axisName(set.Path), v.label(rest), short(force), nil}
			i := slices.IndexFunc(out, func(o cut) bool { return o.axis == c.axis && o.label == c.label && o.inForce == c.inForce })
			if i < 0 {
				i, out = len(out), append(out, c)
			}
			if !slices.Contains(out[i].asked, asked) {
				out[i].asked = append(out[i].asked, asked)
			}
		}
	}
	return out
}

// cutText says in one sentence which thresholds were not in force as they were
// asked for; nil if all were.
func (v *view) cutText() []string {
	var parts []string
	cuts := v.cuts()
	for i, c := range cuts {
		if i == maxListed-1 && len(cuts) > maxListed {
			parts = append(parts, fmt.Sprintf("%d more (b_in_force in results.csv)", len(cuts)-i))
			break
		}
		part := fmt.Sprintf("%s = %s is %s in force", c.axis, several(c.asked, "%g"), c.inForce)
		if c.label != "" {
			part = c.label + ": " + part
		}
		parts = append(parts, part)
	}
	if parts == nil {
		return nil
	}
	return []string{unbroken("Cut to what cannot stall with so few requests: " + strings.Join(parts, "; ") + ".")}
}

// markCut draws a line at the first B of a panel that was cut: from there on the
// points are those of the B in force.
func (v *view) markCut(facet *figure.Facet, panel combo) {
	first, found := 0.0, false
	var forces []string
	for _, r := range v.pick(func(r *experiments.Row) bool { return r.On == v.bestPlace() && panel.fits(r) }) {
		for _, set := range r.Point.Swept {
			force, isCut := v.inForce(r, set)
			if !isCut || set.Path != v.x {
				continue
			}
			if x := v.position(set); !found || x < first {
				first, found = x, true
			}
			if text := short(force); !slices.Contains(forces, text) {
				forces = append(forces, text)
			}
		}
	}
	if !found {
		return
	}
	label := v.axisName(v.x) + " cut from here on"
	if len(forces) == 1 {
		label = v.axisName(v.x) + " = " + forces[0] + " in force"
	}
	facet.Marks = append(facet.Marks, figure.Mark{Axis: figure.AtX, Value: first, Label: label})
}
