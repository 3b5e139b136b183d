package experiments

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/experiments/internal/locate"
)

// formatVersion is part of every cell's key: it changes whenever the meaning
// of a setting or of a stored figure does.
const formatVersion = 2

// maxCells bounds an experiment: more is a slip in a sweep.
const maxCells = 100_000

// Runs counts the evaluations: cells that must give equal results share one.
func (p *Plan) Runs() int {
	seen := map[string]bool{}
	for _, c := range p.Cells {
		seen[c.Key()] = true
	}
	return len(seen)
}

// Plan is a checked experiment: its cells in the order in which results list
// them.
type Plan struct {
	Name      string // of the file, without folder and extension
	File      string // as it was given
	Question  string
	On        []string
	Systems   []string
	Seeds     []uint64
	Swept     []string // paths, in the order of the file
	Plot      Plot
	Published Published
	Points    []*Point
	Cells     []Cell
}

// Classes names the classes of requests where there are several.
func (p *Plan) Classes() []string { return p.Points[0].Spec.Workload.Classes() }

// Point is one combination of swept values.
type Point struct {
	Spec     *Spec
	Settings []Setting // all of them, in the order of the key table
	Swept    []Setting // those that the experiment sweeps, in the order of Plan.Swept

	tuning tuning // of thresholds that are Tuned

	assumed, slowed prediction // see Slowed
}

// Cell is one run: a point, for one system, at one place, with one seed.
type Cell struct {
	Point  *Point
	System string
	On     string
	Seed   uint64 // 0 for the chain, which draws nothing
}

// Key names what the cell computes: equal keys mean equal results. It depends
// on the settings that matter to the cell's system, not on the file around
// them; so cells that differ only in a threshold that their rule does not read
// share one evaluation.
func (c Cell) Key() string {
	h := sha256.New()
	fmt.Fprintf(h, "format %d\nsystem %s\non %s\nseed %d\n", formatVersion, c.System, c.On, c.Seed)
	if digest := c.Point.Spec.Workload.Digest; digest != "" {
		fmt.Fprintf(h, "files %s\n", digest)
	}
	for i := range c.Point.Spec.Models {
		if p := c.Point.Spec.Models[i].Prices; p != nil && p.Digest != "" {
			fmt.Fprintf(h, "prices %d %s\n", i, p.Digest)
		}
		if m := c.Point.Spec.Models[i].CPU; m != nil && m.Digest != "" && c.On == OnCPU {
			fmt.Fprintf(h, "weights %d %s\n", i, m.Digest)
		}
	}
	for _, s := range c.Point.Settings {
		if !UsesB(c.System) && strings.HasSuffix(s.Path, ".B") || !IsReal(c.On) && onlyReal(s.Path) {
			continue
		}
		fmt.Fprintf(h, "%s = %s\n", s.Path, s.Text())
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// UsesB reports whether a system's launch rule reads thresholds.
func UsesB(system string) bool { return system == SystemTokenRouter }

// Single is the index of the model that the system runs alone, or -1.
func (c Cell) Single() int {
	name, ok := strings.CutPrefix(c.System, singlePrefix)
	if !ok {
		return -1
	}
	return slices.IndexFunc(c.Point.Spec.Models, func(m Model) bool { return m.Name == name })
}

// plan expands the sweep. Every point is checked as if it were a file of its
// own, and so may be wrong in its own way.
func (d *document) plan() *Plan {
	p := &Plan{
		Question: get[string](d.values, "question"),
		On:       listOr(d.values, "on"),
		Systems:  listOr(d.values, "systems"),
		Plot: Plot{
			X:      get[string](d.values, "plot.x"),
			Y:      get[string](d.values, "plot.y"),
			Series: get[string](d.values, "plot.series"),
			Facet:  get[string](d.values, "plot.facet"),
			Kind:   get[string](d.values, "plot.kind"),
		},
	}
	p.Published = Published{get[string](d.values, "published.source"), get[string](d.values, "published.figure"), map[string]float64{}}
	for _, system := range systemNames(&vocabulary{}) {
		if x, given := d.values["published."+system].(float64); given {
			p.Published.BySystem[system] = x
		}
	}
	seeds, given := d.values["seeds"].([]int)
	if !given {
		seeds = keyAt["seeds"].def.([]int)
	}
	for _, s := range seeds {
		p.Seeds = append(p.Seeds, uint64(s))
	}
	refuseRepeats(d, "on", p.On)
	refuseRepeats(d, "systems", p.Systems)
	refuseRepeats(d, "seeds", p.Seeds)
	d.checkSize(p)
	if len(d.errs) > 0 {
		return nil
	}
	for _, a := range d.axes {
		p.Swept = append(p.Swept, a.path)
	}
	d.eachPoint(func(s settings, swept []Setting, origins map[string]origin) {
		d.files.fromSet = func(path string) bool { return d.originOf(path, origins).fromSet }
		spec, found := resolve(s, d.voc.models, &d.files)
		for _, problem := range found {
			d.errs = append(d.errs, d.located(problem, origins))
		}
		if spec != nil {
			p.Points = append(p.Points, &Point{Spec: spec, Settings: s.list(d.voc.models, origins), Swept: swept})
		}
	})
	d.checkContracts(p)
	d.checkPlot(p)
	p.Cells = cells(p)
	return p
}

// checkContracts holds each algorithm once to what it promises: people write
// their own, and one that breaks its word gives figures that mean nothing.
func (d *document) checkContracts(p *Plan) {
	checked := map[string]bool{}
	for _, point := range p.Points {
		spec := point.Spec
		if checked[spec.Routing.Algorithm] {
			continue
		}
		checked[spec.Routing.Algorithm] = true
		a, err := spec.NewAlgorithm()
		if err == nil {
			err = algorithms.Check(a, len(spec.Models), spec.Home, max(spec.Workload.PromptTokens.Min, 1))
		}
		if err != nil {
			d.fail(problem{path: "routing.algorithm", msg: err.Error(), hint: "mend its three functions, or its Stay"})
		}
	}
}

func listOr(s settings, path string) []string {
	if v, given := s[path].([]string); given {
		return v
	}
	return keyAt[path].def.([]string)
}

// refuseRepeats reports the first item that stands twice in a list.
func refuseRepeats[T comparable](d *document, path string, items []T) {
	for i, item := range items {
		if slices.Contains(items[:i], item) {
			d.fail(problem{path: locate.Index(path, i), msg: "is given twice"})
			return
		}
	}
}

func (d *document) checkSize(p *Plan) {
	total := len(p.On) * len(p.Systems) * len(p.Seeds)
	for _, a := range d.axes {
		if total *= len(a.values); total > maxCells {
			d.failAt(origin{src: "sweep"}, "sweep", fmt.Sprintf("makes more than %d cells", maxCells), "sweep fewer values")
			return
		}
	}
}

// eachPoint calls f for every combination of swept values; the last key
// changes fastest.
func (d *document) eachPoint(f func(settings, []Setting, map[string]origin)) {
	at := make([]int, len(d.axes))
	for {
		s, origins := maps.Clone(d.values), maps.Clone(d.origin)
		var swept []Setting
		for i, a := range d.axes {
			o := a.origin
			o.src = locate.Index(o.src, at[i])
			s[a.path], origins[a.path] = a.values[at[i]], o
			swept = append(swept, Setting{Path: a.path, Value: a.values[at[i]]})
		}
		f(s, swept, origins)
		i := len(at) - 1
		for ; i >= 0; i-- {
			if at[i]++; at[i] < len(d.axes[i].values) {
				break
			}
			at[i] = 0
		}
		if i < 0 {
			return
		}
	}
}

// cells lists point by point, then by system, place and seed.
func cells(p *Plan) []Cell {
	var out []Cell
	for _, point := range p.Points {
		for _, system := range p.Systems {
			for _, on := range p.On {
				if on == OnChain {
					out = append(out, Cell{Point: point, System: system, On: on})
					continue
				}
				for _, seed := range p.Seeds {
					out = append(out, Cell{point, system, on, seed})
				}
			}
		}
	}
	return out
}

// checkPlot refuses hints that name nothing.
func (d *document) checkPlot(p *Plan) {
	for _, hint := range []*string{&p.Plot.X, &p.Plot.Series, &p.Plot.Facet} {
		if d.pinned[*hint] && !slices.Contains(p.Swept, *hint) {
			*hint = "" // --set took the key out of the sweep, and with it the axis
		}
	}
	axes := append(slices.Clone(p.Swept), "system", "on")
	for _, hint := range []struct{ path, value string }{
		{"plot.x", p.Plot.X}, {"plot.series", p.Plot.Series}, {"plot.facet", p.Plot.Facet},
	} {
		if hint.value != "" && !slices.Contains(axes, hint.value) {
			d.fail(problem{path: hint.path, msg: fmt.Sprintf("%q is neither swept nor system nor on", hint.value), hint: offer(hint.value, axes)})
		}
	}
	var figures []string
	var classes []string
	if len(p.Points) > 0 {
		classes = p.Classes()
	}
	for _, f := range Figures(d.voc.models, classes, p.Measures()) {
		figures = append(figures, f.Name)
	}
	for _, hint := range []struct{ path, value string }{
		{"plot.y", p.Plot.Y}, {"published.figure", p.Published.Figure},
	} {
		if hint.value != "" && !slices.Contains(figures, hint.value) {
			d.fail(problem{path: hint.path, msg: fmt.Sprintf("%q is no figure", hint.value), hint: offer(hint.value, figures)})
		}
	}
}
