package output

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tokenrouter/tokenrouter/experiments"
	"github.com/tokenrouter/tokenrouter/internal/report"
	"github.com/tokenrouter/tokenrouter/internal/report/figure"
)

// sweepsB reports whether the experiment asks which threshold is best.
func (v *view) sweepsB() bool {
	return v.isCurve(v.x) && v.results.Figures[v.y].Name == throughput &&
		slices.ContainsFunc(v.results.Plan.Systems, experiments.UsesB)
}

// answers says in sentences what came out: one for each group, in which all
// swept keys but X are fixed.
func (v *view) answers() []string {
	answer := v.answerBest
	first, swept := v.firstX()
	switch _, isNumber := number(first); {
	case v.sweepsB():
		answer = v.answerB
	case v.xNames() != nil:
		return append(v.answerCombination(), v.footnotes()...)
	case swept && isNumber && !experiments.IsThreshold(v.x):
		answer = v.answerCourse
	}
	var out []string
	for _, group := range v.groups() {
		a := answer(group)
		if a == "" {
			continue
		}
		if label := v.label(group); label != "" {
			a = label + ": " + a
		}
		out = append(out, unbroken(a+"."))
	}
	return append(out, v.footnotes()...)
}

// footnotes are the sentences after the answers: what they rest on, what others
// published, and what could not be shown.
func (v *view) footnotes() []string {
	var undrawn []string
	if text := v.undrawnText(); text != "" {
		undrawn = []string{text}
	}
	return slices.Concat(v.cutText(), v.noInterval(), v.fullSpeed(), v.publishedText(), v.unfinished(), v.notApplicable(), undrawn)
}

// unfinished warns of systems that refused or dropped requests: their latencies
// are those of the others only.
func (v *view) unfinished() []string {
	ended, aborted := v.figure("requests"), v.figure("aborted")
	var out []string
	for _, system := range v.results.Plan.Systems {
		var worst *experiments.Row
		share := 0.0
		for _, r := range v.pick(func(r *experiments.Row) bool { return r.System == system && r.Mean[aborted] > 0 }) {
			if s := r.Mean[aborted] / (r.Mean[aborted] + r.Mean[ended]); s > share {
				worst, share = r, s
			}
		}
		if worst == nil {
			continue
		}
		where := ""
		if label := v.label(worst.Point.Swept); label != "" {
			where = " with " + label
		}
		out = append(out, unbroken(fmt.Sprintf("Beware: %s refused or dropped up to %.3g %% of the requests%s (a full queue, or larger than a KV pool); latencies are those of the others.",
			system, 100*share, where)))
	}
	return out
}

// publishedText prints what was published beside our answers.
func (v *view) publishedText() []string {
	p := &v.results.Plan.Published
	if p.Source == "" {
		return nil
	}
	text := "Published by " + p.Source
	var parts []string
	for _, system := range v.results.Plan.Systems {
		if x, ok := p.BySystem[system]; ok {
			parts = append(parts, fmt.Sprintf("%s %g", system, x))
		}
	}
	if len(parts) > 0 {
		text += ": " + strings.Join(parts, ", ")
	}
	return []string{unbroken(text + ".")}
}

// notApplicable says, once each, why places could not show what they were
// asked.
func (v *view) notApplicable() []string {
	var out []string
	for i := range v.rows {
		if r := &v.rows[i]; r.Status == experiments.StatusNotApplicable {
			text := fmt.Sprintf("Not applicable to %s on %s: %s.", r.System, r.On, r.Reason)
			if !slices.Contains(out, text) {
				out = append(out, text)
			}
		}
	}
	return out
}

// answerB says which B is best in a group and whether that matters.
func (v *view) answerB(group combo) string {
	system := experiments.SystemTokenRouter
	main := v.curve(group, system, v.bestPlace())
	if main == nil {
		return ""
	}
	best := main.best()
	var b strings.Builder
	b.WriteString(v.verdictText(main))
	if loss, sure := main.loses(); sure {
		fmt.Fprintf(&b, "; the worst, %s = %s, loses %.0f %%", v.axisName(v.x), main.worst().name(), 100*loss)
	}
	if chain := v.curve(group, system, experiments.OnChain); chain != nil && v.bestPlace() != experiments.OnChain {
		p := chain.best()
		if kept, ok := main.at(p.b); ok {
			fmt.Fprintf(&b, "; the chain predicts %s = %s (%s token/s), which the simulator puts at %.1f %% of its best",
				v.axisName(v.x), p.name(), short(p.tokPerS), 100*kept.tokPerS/best.tokPerS)
		}
	}
	b.WriteString(v.faster(group, best))
	return b.String()
}

// verdictText says whether B matters, and how much.
func (v *view) verdictText(main *curve) string {
	axis, gain, noise := v.axisName(v.x), main.gain(), main.noise()
	best := fmt.Sprintf("of those tried %s = %s is best with %s token/s", axis, main.best().name(), short(main.best().tokPerS))
	over := fmt.Sprintf(", %s over %s = 1", percent(gain), axis)
	switch {
	case math.IsNaN(gain):
		return best
	case main.verdict() == matters:
		return axis + " matters: " + best + over
	case main.verdict() == unproven:
		return fmt.Sprintf("whether %s matters is within noise: %s%s (± %.1f %%; longer runs or more seeds tell)", axis, best, over, 100*noise)
	case gain > 0 && gain <= noise:
		return fmt.Sprintf("%s hardly matters: %s%s (within noise, ± %.1f %%)", axis, best, over, 100*noise)
	}
	return axis + " hardly matters: " + best + over
}

// firstX is the first value of X, false if X is not swept.
func (v *view) firstX() (experiments.Setting, bool) {
	xs := v.values(v.x)
	if len(xs) == 0 {
		return experiments.Setting{}, false
	}
	return xs[0], true
}

// answerCourse says how the plotted figure of each system goes from the first X
// to the last.
func (v *view) answerCourse(group combo) string {
	var parts []string
	for _, system := range v.results.Plan.Systems {
		rows := v.rowsOf(group, system, v.bestPlace()) // a point each
		s := v.line(group, system, v.bestPlace())
		if len(s.Y) < 2 {
			continue
		}
		if v.results.Figures[v.y].Name == goodShare {
			parts = append(parts, system+" "+keepsUpTo(&s))
			continue
		}
		first, last := s.Y[0], s.Y[len(s.Y)-1]
		change := percent(last/first - 1)
		if last >= 3*first {
			change = fmt.Sprintf("× %.1f", last/first)
		}
		if first != last && v.alike(rows[0], rows[len(rows)-1], v.y) {
			change += ", within noise"
		}
		parts = append(parts, fmt.Sprintf("%s %s → %s (%s)", system, short(first), short(last), change))
	}
	if len(parts) == 0 {
		return ""
	}
	xs := v.values(v.x)
	return fmt.Sprintf("%s, %s from %s to %s: %s", figureLabel(v.results.Figures[v.y].Name), v.axisName(v.x),
		xs[0].Text(), xs[len(xs)-1].Text(), strings.Join(parts, ", "))
}

// keepsShare is the share of good requests from which on a system is said to
// keep the limits.
const keepsShare = 0.99

// keepsUpTo says up to which X the limits are kept.
func keepsUpTo(s *figure.Series) string {
	n := 0
	for n < len(s.Y) && s.Y[n] >= keepsShare {
		n++
	}
	switch n {
	case 0:
		return fmt.Sprintf("keeps the limits for fewer than %.0f %% at %s already", 100*keepsShare, short(s.X[0]))
	case len(s.Y):
		return fmt.Sprintf("keeps the limits for %.0f %% throughout", 100*keepsShare)
	}
	return fmt.Sprintf("keeps the limits for %.0f %% up to %s (at %s for %.0f %%)", 100*keepsShare, short(s.X[n-1]), short(s.X[n]), 100*s.Y[n])
}

// sameFigure is how close two systems' figures are called equal.
const sameFigure = 5e-4

// answerBest names the systems with the best plotted figure in a group, and those
// that only chance may tell from it.
func (v *view) answerBest(group combo) string {
	low := lowIsGood(v.results.Figures[v.y].Name)
	var parts, best, near []string
	var rows []*experiments.Row
	var top *experiments.Row
	for _, system := range v.results.Plan.Systems {
		r := v.bestRow(group, system, v.bestPlace())
		if r == nil || math.IsNaN(r.Mean[v.y]) {
			continue
		}
		rows = append(rows, r)
		parts = append(parts, fmt.Sprintf("%s %s", system, short(r.Mean[v.y])))
		if top == nil || low == (r.Mean[v.y] < top.Mean[v.y]) {
			top = r
		}
	}
	if len(parts) < 2 {
		return ""
	}
	for _, r := range rows {
		switch {
		case r == top || math.Abs(r.Mean[v.y]/top.Mean[v.y]-1) < sameFigure:
			best = append(best, r.System)
		case v.alike(r, top, v.y):
			near = append(near, r.System)
		}
	}
	verb, noise := "is", ""
	if len(best) > 1 {
		verb = "are"
	}
	if near != nil {
		noise = " (" + strings.Join(near, " and ") + " within noise of it)"
	}
	return fmt.Sprintf("%s %s best in %s%s: %s", strings.Join(best, " and "), verb, figureLabel(v.results.Figures[v.y].Name), noise, strings.Join(parts, ", "))
}

// answerCombination names the combination with the best plotted figure, and
// beside costs the fastest.
func (v *view) answerCombination() []string {
	rows := v.pick(func(r *experiments.Row) bool { return r.On == v.bestPlace() && !math.IsNaN(r.Mean[v.y]) })
	if len(rows) == 0 {
		return nil
	}
	at := func(y int) string {
		best := rows[0]
		for _, r := range rows[1:] {
			if lowIsGood(v.results.Figures[y].Name) == (r.Mean[y] < best.Mean[y]) {
				best = r
			}
		}
		near := 0 // the others that only chance may tell from it
		for _, r := range rows {
			if r != best && !v.repeats(r) && r.Mean[y] != best.Mean[y] && v.alike(r, best, y) {
				near++
			}
		}
		noise := ""
		if near > 0 {
			noise = fmt.Sprintf("; of the others %d within noise of it", near)
		}
		return unbroken(fmt.Sprintf("Best %s: %s with %s (%s)%s.", figureLabel(v.results.Figures[y].Name),
			short(best.Mean[y]), v.label(best.Point.Swept), best.System, noise))
	}
	out := []string{at(v.y)}
	if v.results.Figures[v.y].Name == costFigure { // the cheapest are seldom the fastest
		out = append(out, at(v.figure(throughput)))
	}
	return out
}

// unbroken keeps a number, its sign and its unit on one line.
func unbroken(s string) string {
	return strings.NewReplacer(" = ", "\u00a0=\u00a0", " %", "\u00a0%", " token/s", "\u00a0token/s").Replace(s)
}

// Summary is the table that a terminal shows: one row a panel where B is
// swept, else one row a cell.
func (v *view) summary() *report.Table {
	if v.sweepsB() {
		return v.summaryB()
	}
	return v.cells()
}

func (v *view) summaryB() *report.Table {
	levels, whose := v.levelSystems(), strings.TrimPrefix(v.axisName(v.x), "B")
	t := &report.Table{Title: "Throughput by threshold" + whose + ", token/s", Columns: []report.Column{
		{Name: v.facetName(), Key: true},
		{Name: "best B, chain", Number: true}, {Name: "best B, sim", Number: true},
	}}
	measured := v.measuredPlaces()
	for _, on := range measured {
		t.Columns = append(t.Columns, report.Column{Name: "best B, " + on, Number: true})
	}
	t.Columns = append(t.Columns, []report.Column{
		{Name: "B = 1", Number: true}, {Name: "best B", Number: true}, {Name: "gain", Number: true}, {Name: "worst loses", Number: true},
		{Name: "B matters"},
	}...)
	for _, system := range levels {
		t.Columns = append(t.Columns, report.Column{Name: system, Number: true})
	}
	for _, group := range v.groups() {
		main := v.curve(group, experiments.SystemTokenRouter, v.bestPlace())
		if main == nil {
			continue
		}
		row := []string{v.groupName(group), v.bestB(group, experiments.OnChain), v.bestB(group, experiments.OnSim)}
		for _, on := range measured {
			row = append(row, v.bestB(group, on))
		}
		first := len(row)
		row = append(row, "–", short(main.best().tokPerS), "–",
			fmt.Sprintf("%.0f %%", 100*(1-main.worst().tokPerS/main.best().tokPerS)), "–")
		if one, ok := main.at(1); ok {
			row[first], row[first+2], row[first+4] = short(one.tokPerS), percent(main.gain()), string(main.verdict())
			if main.verdict() == matters {
				t.Emphasis = append(t.Emphasis, len(t.Rows))
			}
		}
		for _, system := range levels {
			cell := "–"
			if r := v.bestRow(group, system, v.bestPlace()); r != nil {
				cell = short(r.Mean[v.y])
			}
			row = append(row, cell)
		}
		t.Rows = append(t.Rows, row)
	}
	t.Note = fmt.Sprintf("B matters: the best B gains more than %.0f %% over B = 1, and more than its 95 %% interval. Figures are %s.", 100*mattersGain, placeName(v.bestPlace()))
	if whose != "" {
		t.Note = "B is that" + whose + ". " + t.Note
	}
	return t
}

// measuredPlaces lists the places in real time.
func (v *view) measuredPlaces() []string {
	return slices.DeleteFunc(slices.Clone(v.results.Plan.On), func(on string) bool { return !experiments.IsReal(on) })
}

func (v *view) bestB(group combo, on string) string {
	c := v.curve(group, experiments.SystemTokenRouter, on)
	if c == nil {
		return "–"
	}
	return c.best().name()
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
	paths := v.series
	if v.facet != "" {
		paths = append([]string{v.facet}, v.series...)
	}
	var names []string
	for _, path := range paths {
		names = append(names, v.axisName(path))
	}
	if names == nil {
		return "setting"
	}
	return strings.Join(names, ", ")
}

// groupName is a group without the names of its keys, which head the column.
func (v *view) groupName(group combo) string {
	var names []string
	for _, s := range group {
		names = append(names, strings.TrimPrefix(v.name(s), v.axisName(s.Path)+" = "))
	}
	if names == nil {
		return "all"
	}
	return strings.Join(names, ", ")
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
	for _, name := range append(cellFigures[:len(cellFigures):len(cellFigures)], v.results.Figures[v.y].Name) {
		if f := v.figure(name); v.observed(f) && !slices.Contains(shown, f) {
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
			if experiments.IsThreshold(s.Path) && !experiments.UsesB(r.System) {
				text = "any"
			}
			if force, isCut := v.inForce(r, s); isCut {
				text += " (" + short(force) + " in force)"
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
		if experiments.IsThreshold(s.Path) && s.Text() != v.values(s.Path)[0].Text() {
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
