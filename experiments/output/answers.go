package output

import (
	"fmt"
	"math"
	"strings"

	"github.com/tokenrouter/tokenrouter/experiments"
	"github.com/tokenrouter/tokenrouter/internal/report"
)

// sweepsB reports whether the experiment asks which threshold is best.
func (v *view) sweepsB() bool {
	return isThreshold(v.x) && v.results.Figures[v.y].Name == throughput
}

// answers says in sentences what came out.
func (v *view) answers() []string {
	var out []string
	if v.sweepsB() {
		for _, panel := range v.panels() {
			if a := v.answerB(panel); a != "" {
				out = append(out, a)
			}
		}
		return out
	}
	if _, ok := number(v.firstX()); ok && v.xNames() == nil && v.series == "" {
		for _, panel := range v.panels() {
			if a := v.answerCourse(panel); a != "" {
				out = append(out, a)
			}
		}
		return out
	}
	for _, panel := range v.panels() {
		if a := v.answerBest(panel); a != "" {
			out = append(out, a)
		}
	}
	return out
}

// answerB says which B is best in a panel and whether that matters.
func (v *view) answerB(panel experiments.Setting) string {
	system := experiments.SystemTokenRouter
	main := v.curve(panel, system, v.bestPlace())
	if main == nil {
		return ""
	}
	best := main.best()
	var b strings.Builder
	if panel.Path != "" {
		b.WriteString(v.name(panel) + ": ")
	}
	loss := 1 - main.worst().tokPerS/best.tokPerS
	switch gain := main.gain(); {
	case math.IsNaN(gain):
		fmt.Fprintf(&b, "best of the B tried is %s, %s token/s", short(best.b), short(best.tokPerS))
	case main.matters():
		fmt.Fprintf(&b, "B matters: B = %s gives %s token/s, %s over B = 1", short(best.b), short(best.tokPerS), percent(gain))
	default:
		fmt.Fprintf(&b, "B hardly matters: the best, B = %s, gives %s token/s, %s over B = 1", short(best.b), short(best.tokPerS), percent(gain))
	}
	if loss > mattersGain {
		fmt.Fprintf(&b, "; the worst, B = %s, loses %.0f %%", short(main.worst().b), 100*loss)
	}
	if chain := v.curve(panel, system, experiments.OnChain); chain != nil && v.bestPlace() != experiments.OnChain {
		p := chain.best()
		kept, _ := main.at(p.b)
		fmt.Fprintf(&b, "; the chain predicts B = %s (%s token/s), which the simulator puts at %.1f %% of its best",
			short(p.b), short(p.tokPerS), 100*kept.tokPerS/best.tokPerS)
	}
	return unbroken(b.String() + ".")
}

// firstX is the first value of X; the zero Setting if X is not swept.
func (v *view) firstX() experiments.Setting {
	if xs := v.values(v.x); len(xs) > 0 {
		return xs[0]
	}
	return experiments.Setting{}
}

// answerCourse says how the plotted figure of each system goes from the first X
// to the last.
func (v *view) answerCourse(panel experiments.Setting) string {
	var parts []string
	for _, system := range v.results.Plan.Systems {
		s := v.line(panel, experiments.Setting{}, system, v.bestPlace())
		if len(s.Y) < 2 {
			continue
		}
		first, last := s.Y[0], s.Y[len(s.Y)-1]
		change := percent(last/first - 1)
		if last >= 3*first {
			change = fmt.Sprintf("× %.1f", last/first)
		}
		parts = append(parts, fmt.Sprintf("%s %s → %s (%s)", system, short(first), short(last), change))
	}
	if len(parts) == 0 {
		return ""
	}
	xs := v.values(v.x)
	head := fmt.Sprintf("%s, %s from %s to %s", figureLabel(v.results.Figures[v.y].Name), v.axisName(v.x), xs[0].Text(), xs[len(xs)-1].Text())
	if panel.Path != "" {
		head = v.name(panel) + ": " + head
	}
	return unbroken(head + ": " + strings.Join(parts, ", ") + ".")
}

// answerBest names the system with the best plotted figure in a panel.
func (v *view) answerBest(panel experiments.Setting) string {
	if v.xNames() != nil {
		return v.answerCombination(panel)
	}
	lowIsGood := lowIsGood(v.results.Figures[v.y].Name)
	var parts []string
	best, bestY := "", math.NaN()
	for _, system := range v.results.Plan.Systems {
		r := v.bestRow(panel, system, v.bestPlace())
		if r == nil || math.IsNaN(r.Mean[v.y]) {
			continue
		}
		y := r.Mean[v.y]
		parts = append(parts, fmt.Sprintf("%s %s", system, short(y)))
		if best == "" || lowIsGood == (y < bestY) && y != bestY {
			best, bestY = system, y
		}
	}
	if len(parts) < 2 {
		return ""
	}
	head := ""
	if panel.Path != "" {
		head = v.name(panel) + ": "
	}
	return unbroken(fmt.Sprintf("%s%s is best in %s: %s.", head, best, figureLabel(v.results.Figures[v.y].Name), strings.Join(parts, ", ")))
}

// answerCombination names the X and series with the highest plotted figure.
func (v *view) answerCombination(panel experiments.Setting) string {
	rows := v.pick(func(r *experiments.Row) bool {
		return r.On == v.bestPlace() && v.inPanel(r, panel) && !math.IsNaN(r.Mean[v.y])
	})
	if len(rows) == 0 {
		return ""
	}
	best := rows[0]
	for _, r := range rows[1:] {
		if r.Mean[v.y] > best.Mean[v.y] {
			best = r
		}
	}
	var names []string
	for _, s := range best.Point.Swept {
		names = append(names, v.name(s))
	}
	return unbroken(fmt.Sprintf("highest %s: %s with %s.", figureLabel(v.results.Figures[v.y].Name), short(best.Mean[v.y]), strings.Join(names, ", ")))
}

// unbroken keeps a number, its sign and its unit on one line.
func unbroken(s string) string {
	return strings.NewReplacer(" = ", "\u00a0=\u00a0", " %", "\u00a0%", " token/s", "\u00a0token/s").Replace(s)
}

// Summary is the table that a terminal shows: one row a panel where B is
// swept, else one row a cell.
func (v *view) summary() *report.Table {
	if v.sweepsB() && v.series == "" {
		return v.summaryB()
	}
	return v.cells()
}

func (v *view) summaryB() *report.Table {
	levels := v.levelSystems()
	t := &report.Table{Title: "Throughput by threshold, token/s", Columns: []report.Column{
		{Name: v.facetName(), Key: true},
		{Name: "best B, chain", Number: true}, {Name: "best B, sim", Number: true},
		{Name: "B = 1", Number: true}, {Name: "best B", Number: true}, {Name: "gain", Number: true}, {Name: "worst loses", Number: true},
		{Name: "B matters"},
	}}
	for _, system := range levels {
		t.Columns = append(t.Columns, report.Column{Name: system, Number: true})
	}
	for i, panel := range v.panels() {
		main := v.curve(panel, experiments.SystemTokenRouter, v.bestPlace())
		if main == nil {
			continue
		}
		one, _ := main.at(1)
		row := []string{v.panelName(panel), v.bestB(panel, experiments.OnChain), v.bestB(panel, experiments.OnSim),
			short(one.tokPerS), short(main.best().tokPerS), percent(main.gain()),
			fmt.Sprintf("%.0f %%", 100*(1-main.worst().tokPerS/main.best().tokPerS)), "hardly"}
		if main.matters() {
			row[7] = "yes"
			t.Emphasis = append(t.Emphasis, i)
		}
		for _, system := range levels {
			cell := "–"
			if r := v.bestRow(panel, system, v.bestPlace()); r != nil {
				cell = short(r.Mean[v.y])
			}
			row = append(row, cell)
		}
		t.Rows = append(t.Rows, row)
	}
	t.Note = fmt.Sprintf("B matters: the best B gains more than %.0f %% over B = 1. Figures are %s.", 100*mattersGain, placeName(v.bestPlace()))
	return t
}

func (v *view) bestB(panel experiments.Setting, on string) string {
	c := v.curve(panel, experiments.SystemTokenRouter, on)
	if c == nil {
		return "–"
	}
	return short(c.best().b)
}

// levelSystems lists the systems that do not read B.
func (v *view) levelSystems() []string {
	var out []string
	for _, s := range v.results.Plan.Systems {
		if !experiments.UsesB(s) {
			out = append(out, s)
		}
	}
	return out
}

func (v *view) facetName() string {
	if v.facet == "" {
		return "setting"
	}
	return v.axisName(v.facet)
}

func (v *view) panelName(panel experiments.Setting) string {
	if panel.Path == "" {
		return "all"
	}
	return v.rowName(panel)
}

// cellFigures are the figures that the table of all cells shows.
var cellFigures = []string{throughput, "per_user_tok_per_s", "tpot_ms.mean", "itl_ms.p99", "ttft_ms.p50", "e2e_ms.mean", "large_token_share"}

// cells lists every cell, seeds gathered. Columns that are empty throughout
// are left out.
func (v *view) cells() *report.Table {
	t := &report.Table{Title: "All cells"}
	for _, path := range v.results.Plan.Swept {
		t.Columns = append(t.Columns, report.Column{Name: v.axisName(path), Key: true})
	}
	t.Columns = append(t.Columns, report.Column{Name: "system", Key: true}, report.Column{Name: "on", Key: true})
	var shown []int
	for _, name := range cellFigures {
		if f := v.figure(name); v.observed(f) {
			shown = append(shown, f)
			t.Columns = append(t.Columns, report.Column{Name: v.results.Figures[f].Column, Number: true})
		}
	}
	for i := range v.rows {
		r := &v.rows[i]
		if v.repeats(r) {
			continue
		}
		var row []string
		for _, s := range r.Point.Swept {
			text := strings.TrimPrefix(v.name(s), v.axisName(s.Path)+" = ")
			if isThreshold(s.Path) && !experiments.UsesB(r.System) {
				text = "any"
			}
			row = append(row, text)
		}
		row = append(row, r.System, r.On)
		for n, f := range shown {
			cell := short(r.Mean[f])
			if r.Status != experiments.StatusOK {
				if cell = ""; n == 0 {
					cell = string(r.Status)
				}
			} else if n == 0 && !math.IsNaN(r.CI95[f]) {
				cell += " ± " + short(r.CI95[f])
			}
			row = append(row, cell)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// repeats reports whether a row differs from an earlier one in a threshold
// only, which its system does not read.
func (v *view) repeats(r *experiments.Row) bool {
	if experiments.UsesB(r.System) {
		return false
	}
	for _, s := range r.Point.Swept {
		if isThreshold(s.Path) && s.Text() != v.values(s.Path)[0].Text() {
			return true
		}
	}
	return false
}

func (v *view) observed(f int) bool {
	for i := range v.rows {
		if !math.IsNaN(v.rows[i].Mean[f]) {
			return true
		}
	}
	return false
}
