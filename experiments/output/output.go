// Package output turns the results of an experiment into what people look at:
// a summary for the terminal, figures, a timeline and a page. Like results.csv
// they depend on the results alone, so a rerun writes the same bytes.
package output

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/tokenrouter/tokenrouter/experiments"
	"github.com/tokenrouter/tokenrouter/internal/report"
	"github.com/tokenrouter/tokenrouter/internal/report/figure"
)

// Names of the files, beside those that experiments.Run writes.
const (
	ReportHTML   = "report.html"
	TimelineJSON = "timeline.json"
)

const pngDPI = 220

// drawn is a figure with its bytes.
type drawn struct {
	name, caption string
	svg, png      []byte
}

// Summary says what an experiment showed: sentences, and a table for the
// terminal.
func Summary(r *experiments.Results) ([]string, *report.Table) {
	v := newView(r)
	return v.answers(), v.summary()
}

// Write draws the results into a folder and returns the names of the files.
// command is how to repeat the experiment, as typed in a shell.
func Write(r *experiments.Results, dir, command string) ([]string, error) {
	v := newView(r)
	var names []string
	put := func(name string, data []byte) error {
		names = append(names, name)
		return experiments.ReplaceFile(filepath.Join(dir, name), data)
	}
	figures, err := v.draw()
	if err != nil {
		return nil, err
	}
	for _, d := range figures {
		if err := errors.Join(put(d.name+".png", d.png), put(d.name+".svg", d.svg)); err != nil {
			return nil, err
		}
	}
	p := v.page(figures, command)
	if cell, ok := v.timelineCell(); ok {
		var timeline bytes.Buffer
		sum, err := writeTimeline(&timeline, cell, r.Plan.Name, r.Version)
		if err != nil {
			return nil, fmt.Errorf("timeline: %w", err)
		}
		about := fmt.Sprintf("at most the first %d s of %s: open it at ui.perfetto.dev", timelineS, cell.System)
		if sum.Cut {
			about += fmt.Sprintf(" (cut: %d changes left out)", sum.LeftOut)
		}
		p.Files = append(p.Files, report.File{Name: TimelineJSON, About: about})
		if err := put(TimelineJSON, timeline.Bytes()); err != nil {
			return nil, err
		}
	}
	var html bytes.Buffer
	if err := p.WriteHTML(&html); err != nil {
		return nil, err
	}
	return names, put(ReportHTML, html.Bytes())
}

// timelineCell is the simulated cell that the timeline shows: TokenRouter's
// best in the last panel, where B matters most.
func (v *view) timelineCell() (experiments.Cell, bool) {
	panels := v.panels()
	for _, system := range append([]string{experiments.SystemTokenRouter}, v.results.Plan.Systems...) {
		if system == experiments.SystemStdServing {
			continue // its servers see a new request for every token: nothing to follow
		}
		best := v.bestRow(panels[len(panels)-1], system, experiments.OnSim)
		if best == nil {
			continue
		}
		for _, c := range v.results.Plan.Cells {
			if c.Point == best.Point && c.System == system && c.On == experiments.OnSim {
				return c, true
			}
		}
	}
	return experiments.Cell{}, false
}

// draw makes the figures that fit the experiment.
func (v *view) draw() ([]drawn, error) {
	type named struct {
		name, caption string
		d             figure.Drawing
	}
	var list []named
	plan := v.results.Plan
	switch {
	case plan.Points[0].Spec.Workload.Kind == experiments.KindScript:
		if slices.Contains(plan.On, experiments.OnSim) { // it is drawn from what a simulation showed
			g, err := v.gantt()
			if err != nil {
				return nil, err
			}
			list = append(list, named{plan.Name + "-gantt", "Who runs when under each system.", g})
		}
		list = append(list, named{plan.Name, "", v.bars()})
	case v.isHeat():
		for _, on := range plan.On {
			list = append(list, named{plan.Name + "-" + on, v.undrawnText(), v.heat(experiments.SystemTokenRouter, on)})
		}
	case v.x == bySystem:
		list = append(list, named{plan.Name, "", v.bars()})
	default:
		list = append(list, named{plan.Name, v.undrawnText(), v.lines()})
		if v.x == "workload.concurrency" && v.results.Figures[v.y].Name == throughput {
			user := *v
			user.y = v.figure("per_user_tok_per_s")
			list = append(list, named{plan.Name + "-per-user", "What a single user sees of it.", user.lines()})
		}
		if v.published() != nil {
			list = append(list, named{plan.Name + "-systems", "Each system at its best B.", v.bars()})
		}
	}
	var out []drawn
	for _, n := range list {
		var svg, png bytes.Buffer
		if err := errors.Join(figure.WriteSVG(&svg, n.d), figure.WritePNG(&png, n.d, pngDPI)); err != nil {
			return nil, fmt.Errorf("%s: %w", n.name, err)
		}
		out = append(out, drawn{n.name, n.caption, svg.Bytes(), png.Bytes()})
	}
	return out, nil
}
