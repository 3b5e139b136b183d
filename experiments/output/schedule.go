package output

import (
	"fmt"

	"github.com/tokenrouter/tokenrouter/experiments"
	"github.com/tokenrouter/tokenrouter/internal/report/figure"
	"github.com/tokenrouter/tokenrouter/scheduler"
	"github.com/tokenrouter/tokenrouter/sim"
)

// gantt plays each system's script once more and draws who did what when.
func (v *view) gantt() (*figure.Gantt, error) {
	g := &figure.Gantt{XLabel: "time (ms)", About: v.results.Plan.Question}
	for _, m := range v.models {
		g.Kinds = append(g.Kinds, figure.Kind{Name: m + " step"})
	}
	g.Kinds = append(g.Kinds, figure.Kind{Name: "waits", Quiet: true})
	for i, c := range v.results.Plan.Cells {
		if c.System == experiments.SystemStdServing {
			continue // its servers see a new request for every token: no row is one of ours
		}
		if c.On != experiments.OnSim || v.results.Records[i].Status != experiments.StatusOK || i > 0 && c.System == v.results.Plan.Cells[i-1].System {
			continue
		}
		panel, err := v.ganttPanel(c)
		if err != nil {
			return nil, err
		}
		latency := v.figure("e2e_ms.mean")
		panel.Title = fmt.Sprintf("%s: mean latency %.2f ms", c.System, v.results.Records[i].Values[latency])
		if p, ok := v.results.Plan.Published.BySystem[c.System]; ok {
			panel.Title += fmt.Sprintf(" (published %.2f)", p)
		}
		g.Panels = append(g.Panels, *panel)
	}
	return g, nil
}

func (v *view) ganttPanel(c experiments.Cell) (*figure.GanttPanel, error) {
	config, err := experiments.SimConfig(c)
	if err != nil {
		return nil, err
	}
	scripts := c.Point.Spec.Routing.Scripts
	s := &schedule{models: v.models, since: make([]float64, len(scripts)), waits: make([]bool, len(scripts))}
	for _, m := range v.models {
		s.rows = append(s.rows, figure.Row{Name: m})
	}
	for i, script := range scripts {
		s.rows = append(s.rows, figure.Row{Name: script, Apart: i == 0})
	}
	config.Observer = newWatcher(len(v.models), s)
	if _, err := sim.Run(config); err != nil {
		return nil, err
	}
	return &figure.GanttPanel{Rows: s.rows}, nil
}

// schedule gathers spans: a row a model, then a row a request. Requests are
// numbered from 1 in the order of the scripts.
type schedule struct {
	models []string
	rows   []figure.Row
	since  []float64 // when the request last changed, ms
	waits  []bool
}

func (s *schedule) step(model int, startNs, endNs int64, batch *scheduler.Batch, _ int) {
	from, to := float64(startNs)/1e6, float64(endNs)/1e6
	kind := s.models[model] + " step"
	s.add(model, figure.Span{From: from, To: to, Kind: kind, Label: fmt.Sprint(len(batch.Entries))})
	for _, e := range batch.Entries {
		s.add(len(s.models)+int(e.ID)-1, figure.Span{From: from, To: to, Kind: kind})
	}
}

func (s *schedule) add(row int, span figure.Span) {
	s.rows[row].Spans = append(s.rows[row].Spans, span)
}

func (s *schedule) moved(id scheduler.RequestID, atNs int64, p phase, _ int) {
	i, now := int(id)-1, float64(atNs)/1e6
	if s.waits[i] && now > s.since[i] {
		s.add(len(s.models)+i, figure.Span{From: s.since[i], To: now, Kind: "waits"})
	}
	s.since[i], s.waits[i] = now, p == isReady || p == isInTransit
}

func (*schedule) readyCount(int, int64, int) {}
func (*schedule) live(int64, int)            {}
