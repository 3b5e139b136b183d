package output

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tokenrouter/tokenrouter/experiments"
)

// view is the results of an experiment laid out along axes.
type view struct {
	results *experiments.Results
	rows    []experiments.Row
	models  []string
	x       string   // a swept path, or "system"
	facet   string   // a swept path, or "" for one panel
	series  []string // the other swept paths: a series each combination
	y       int      // index of the figure that is plotted
	onlyB   string   // the model whose threshold is called plainly B, if there is one
}

const (
	throughput = "throughput_tok_per_s"
	goodShare  = "good_request_share"
	bySystem   = "system"
)

func newView(r *experiments.Results) *view {
	v := &view{results: r, rows: r.Rows(), models: r.Plan.ModelNames(), y: -1}
	v.onlyB = onlyB(r.Plan)
	p := &r.Plan.Plot
	name := p.Y
	if name == "" {
		name = throughput
		if good := v.figure(goodShare); good >= 0 && v.observed(good) {
			name = goodShare // limits are set, so they are what is asked about
		}
	}
	v.y = v.figure(name)
	if v.y < 0 {
		v.y = v.figure(throughput)
	}
	free := v.freeAxes()
	take := func(hint string, better func(string) bool) string {
		if hint != "" {
			free = slices.DeleteFunc(free, func(s string) bool { return s == hint })
			return hint
		}
		i := max(slices.IndexFunc(free, better), 0)
		if len(free) == 0 {
			return ""
		}
		path := free[i]
		free = slices.Delete(free, i, i+1)
		return path
	}
	whichever := func(string) bool { return true }
	prefer := v.isCurve
	if !slices.ContainsFunc(free, prefer) {
		prefer = func(path string) bool { return !experiments.IsThreshold(path) }
	}
	v.x = take(p.X, prefer)
	v.facet = take(p.Facet, whichever)
	if p.Series != "" && p.Series != bySystem && p.Series != "on" {
		v.series = append(v.series, p.Series)
	}
	v.series = append(v.series, free...)
	if v.x == "" {
		v.x = bySystem
	}
	return v
}

// onlyB is the second of two models, if the threshold of the first is 1
// throughout; "" if a B without a name could be that of several.
func onlyB(p *experiments.Plan) string {
	for _, point := range p.Points {
		if models := point.Spec.Models; len(models) != 2 || !slices.Equal(models[0].B, experiments.Threshold{1}) {
			return ""
		}
	}
	return p.Points[0].Spec.Models[1].Name
}

// freeAxes lists the swept paths that take more than one value and that no
// hint of the plot has taken.
func (v *view) freeAxes() []string {
	var free []string
	p := &v.results.Plan.Plot
	for _, path := range v.results.Plan.Swept {
		if len(v.values(path)) > 1 && path != p.X && path != p.Facet && path != p.Series {
			free = append(free, path)
		}
	}
	return free
}

// isCurve reports whether a swept path is a threshold that only takes numbers:
// none that is tuned for each cell.
func (v *view) isCurve(path string) bool {
	return experiments.IsThreshold(path) && !slices.ContainsFunc(v.values(path), func(s experiments.Setting) bool {
		_, ok := number(s)
		return !ok
	})
}

// figure returns the index of a figure by name or by column, or -1.
func (v *view) figure(name string) int {
	return slices.IndexFunc(v.results.Figures, func(f experiments.Figure) bool { return f.Name == name || f.Column == name })
}

// values lists the values of a swept path, in the order of the sweep.
func (v *view) values(path string) []experiments.Setting {
	var out []experiments.Setting
	seen := map[string]bool{}
	for _, p := range v.results.Plan.Points {
		for _, s := range p.Swept {
			if s.Path == path && !seen[s.Text()] {
				seen[s.Text()] = true
				out = append(out, s)
			}
		}
	}
	return out
}

// at is the text of a swept value of a point, "" if path is not swept.
func at(p *experiments.Point, path string) string {
	for _, s := range p.Swept {
		if s.Path == path {
			return s.Text()
		}
	}
	return ""
}

// number is a swept value as a position on an axis; false if it is none.
func number(s experiments.Setting) (float64, bool) {
	switch x := s.Value.(type) {
	case int:
		return float64(x), true
	case float64:
		return x, true
	case experiments.Length:
		return x.Mean(), true
	case experiments.Threshold:
		return float64(x[0]), len(x) == 1 && !x.IsTuned()
	}
	return 0, false
}

// position is where a value of X stands on the axis: its number, or its place
// in the sweep if not all of them are numbers.
func (v *view) position(s experiments.Setting) float64 {
	for i, x := range v.values(v.x) {
		if x.Text() == s.Text() {
			if n, ok := number(x); ok && v.xNames() == nil {
				return n
			}
			return float64(i)
		}
	}
	panic("output: a value that its sweep lacks")
}

// xNames names the values of X if not all of them are numbers.
func (v *view) xNames() []string {
	var names []string
	numbers := true
	for _, s := range v.values(v.x) {
		_, ok := number(s)
		numbers = numbers && ok
		names = append(names, strings.TrimPrefix(v.name(s), v.axisName(s.Path)+" = "))
	}
	if numbers {
		return nil
	}
	return names
}

// name says in a few words what a swept value is: "p = 0.1" for a matrix in
// which home leaves with that chance.
func (v *view) name(s experiments.Setting) string {
	if p, ok := v.leaveChance(s); ok {
		same := 0
		for _, other := range v.values(s.Path) {
			if q, ok := v.leaveChance(other); ok && q == p {
				same++
			}
		}
		if same <= 1 {
			return "p = " + short(p)
		}
	}
	text := strings.Trim(s.Text(), `"`)
	if strings.HasSuffix(s.Path, ".profile") {
		text = text[strings.LastIndexByte(text, '/')+1:]
	}
	return v.axisName(s.Path) + " = " + text
}

// leaveChance is the chance to leave home that a matrix gives.
func (v *view) leaveChance(s experiments.Setting) (float64, bool) {
	m, ok := s.Value.([][]float64)
	home := v.results.Plan.Points[0].Spec.Home
	if !ok || home >= len(m) {
		return 0, false
	}
	return 1 - m[home][home], true
}

// axisName names a swept path on an axis or in a table.
func (v *view) axisName(path string) string {
	if rest, ok := strings.CutPrefix(path, "models."); ok {
		model, key, _ := strings.Cut(rest, ".")
		switch {
		case key == "profile":
			return model
		case key == "B" && model == v.onlyB:
			return "B"
		}
		return strings.NewReplacer("_", " ", ".", " ").Replace(key) + " of " + model
	}
	switch path {
	case "routing.matrix":
		return "p"
	case "workload.concurrency":
		return "users"
	case "handoff.ms":
		return "hand-off (ms)"
	case "workload.rate_per_s":
		return "arrivals (request/s)"
	case "workload.arrival_cv":
		return "CV of the gaps between arrivals"
	case "colocation.factor":
		return "co-location factor"
	case bySystem:
		return "system"
	}
	last := path[strings.LastIndexByte(path, '.')+1:]
	return strings.ReplaceAll(last, "_", " ")
}

// xLabel is the long form of axisName.
func (v *view) xLabel() string {
	if experiments.IsThreshold(v.x) {
		return "batching threshold " + v.axisName(v.x)
	}
	return v.axisName(v.x)
}

// yLabel names the plotted figure with its unit.
func (v *view) yLabel() string { return figureLabel(v.results.Figures[v.y].Name) }

func figureLabel(name string) string {
	outer, inner, _ := strings.Cut(name, ".")
	if outer == throughput {
		return "throughput (token/s)"
	}
	if outer == "per_user_tok_per_s" {
		return "speed of a user (token/s)"
	}
	if label, ok := figureLabels[outer]; ok {
		return label
	}
	if class, ok := strings.CutPrefix(outer, "class_"); ok {
		return class + ": " + strings.ReplaceAll(inner, "_", " ")
	}
	words := strings.NewReplacer("ttft", "time to first token", "tpot", "time per output token", "itl", "inter-token latency",
		"e2e", "latency").Replace(strings.TrimSuffix(outer, "_ms"))
	words = strings.ReplaceAll(words, "_", " ")
	if inner == "mean" {
		words = "mean " + words
	} else if inner != "" {
		words += ", " + inner
	}
	if strings.HasSuffix(outer, "_ms") {
		words += " (ms)"
	}
	return words
}

// figureLabels are those whose names do not read as labels.
var figureLabels = map[string]string{
	"goodput_req_per_s":  "goodput (request/s)",
	"good_request_share": "share of good requests",
	costFigure:           "GPU-seconds per 1000 tokens",
}

const costFigure = "gpu_s_per_1k_tok"

// lowIsGood tells times and costs from rates and shares.
func lowIsGood(figure string) bool { return strings.Contains(figure, "_ms") || figure == costFigure }

// short prints a number with as many digits as a reader wants.
func short(x float64) string {
	switch {
	case math.IsNaN(x):
		return "–"
	case x == math.Trunc(x) || math.Abs(x) >= 1000:
		return strconv.FormatFloat(x, 'f', 0, 64)
	case math.Abs(x) >= 10:
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	return strconv.FormatFloat(math.Round(x*1000)/1000, 'g', 4, 64)
}

func percent(x float64) string { return fmt.Sprintf("%+.1f %%", 100*x) }

// pick lists the rows that match, in the order of the plan.
func (v *view) pick(match func(r *experiments.Row) bool) []*experiments.Row {
	var out []*experiments.Row
	for i := range v.rows {
		if r := &v.rows[i]; r.Status == experiments.StatusOK && match(r) {
			out = append(out, r)
		}
	}
	return out
}

// combo is a value for each of some swept paths; the empty one fits all.
type combo []experiments.Setting

// combos lists all combinations of values of swept paths, in their order.
func (v *view) combos(paths ...string) []combo {
	out := []combo{nil}
	for _, path := range paths {
		var longer []combo
		for _, c := range out {
			for _, s := range v.values(path) {
				longer = append(longer, append(c[:len(c):len(c)], s))
			}
		}
		out = longer
	}
	return out
}

// fits reports whether a row has the values of the combination.
func (c combo) fits(r *experiments.Row) bool {
	for _, s := range c {
		if at(r.Point, s.Path) != s.Text() {
			return false
		}
	}
	return true
}

// with joins two combinations.
func (c combo) with(d combo) combo { return append(c[:len(c):len(c)], d...) }

// label names a combination; "" if it is empty.
func (v *view) label(c combo) string {
	var names []string
	for _, s := range c {
		names = append(names, v.name(s))
	}
	return strings.Join(names, ", ")
}

// panels lists the values of the facet; one empty combination if there is none.
func (v *view) panels() []combo {
	if v.facet == "" || v.facet == bySystem || v.facet == "on" {
		return []combo{nil}
	}
	return v.combos(v.facet)
}

// groups lists what a sentence or a row of the summary is about: everything but
// X fixed.
func (v *view) groups() []combo {
	var out []combo
	kinds := v.combos(v.series...)
	for _, panel := range v.panels() {
		for _, kind := range kinds {
			out = append(out, panel.with(kind))
		}
	}
	return out
}
