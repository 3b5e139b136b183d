package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tokenrouter/tokenrouter/experiments"
)

// sweptText names the cell of a comparison.
func sweptText(plan *experiments.Plan, c *experiments.Comparison) string {
	var parts []string
	for i, text := range sweptTexts(plan, c) {
		if text != "–" {
			parts = append(parts, strings.TrimPrefix(c.Point.Swept[i].Path, "models.")+" "+text)
		}
	}
	return strings.Join(parts, ", ")
}

// sweptTexts are the swept values of a comparison; a dash for a threshold that
// its rule does not read.
func sweptTexts(plan *experiments.Plan, c *experiments.Comparison) []string {
	var out []string
	for i, s := range c.Point.Swept {
		text := s.Text()
		if experiments.IsThreshold(s.Path) {
			text = "–"
			if experiments.UsesB(c.System) {
				text = thresholdText(plan, c, i)
			}
		}
		out = append(out, text)
	}
	return out
}

// thresholdText writes a swept threshold: the number behind one that is tuned, or
// beside a number that it is also the tuned one, and what was in force if that
// was less.
func thresholdText(plan *experiments.Plan, c *experiments.Comparison, swept int) string {
	isTuned := func(p *experiments.Point) bool { return p.Swept[swept].Value.(experiments.Threshold).IsTuned() }
	m := slices.IndexFunc(plan.ModelNames(), func(m string) bool { return c.Point.Swept[swept].Path == "models."+m+".B" })
	b := c.Settled[m]
	text := experiments.Setting{Value: b}.Text()
	all := append([]*experiments.Point{c.Point}, c.Same...)
	switch {
	case b.IsTuned(): // the chain could not say
		return text
	case slices.ContainsFunc(all, isTuned) && slices.ContainsFunc(all, func(p *experiments.Point) bool { return !isTuned(p) }):
		text += " = tuned"
	case isTuned(c.Point):
		text = "tuned: " + text
	}
	const cutBy = 0.5 // on average, while requests come and go
	if len(b) == 1 && c.B[m] <= float64(b[0])-cutBy {
		text += fmt.Sprintf(" (%s in force)", figureText(c.B[m]))
	}
	return text
}
