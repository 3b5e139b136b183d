package output

import (
	"io"

	"github.com/tokenrouter/tokenrouter/experiments"
	"github.com/tokenrouter/tokenrouter/internal/report/timeline"
	"github.com/tokenrouter/tokenrouter/scheduler"
	"github.com/tokenrouter/tokenrouter/sim"
)

// timelineS is how many seconds of a run without end the timeline shows:
// enough to see the pattern, few enough for a browser.
const timelineS = 10

// writeTimeline simulates a cell once more and writes what happened as a trace
// for Perfetto.
func writeTimeline(w io.Writer, c experiments.Cell, name, version string) (timeline.Summary, error) {
	config, err := experiments.SimConfig(c)
	if err != nil {
		return timeline.Summary{}, err
	}
	if d := int64(timelineS * 1e9); config.Workload.Kind != sim.Listed && (config.Workload.DurationNs == 0 || config.Workload.DurationNs > d) {
		config.Workload.DurationNs, config.Workload.WarmupNs = d, 0
	}
	var names []string
	for _, m := range config.Models {
		names = append(names, m.Name)
	}
	about := []timeline.KV{{Key: "experiment", Value: name}, {Key: "system", Value: c.System}}
	for _, s := range c.Point.Swept {
		about = append(about, timeline.KV{Key: s.Path, Value: s.Text()})
	}
	about = append(about, timeline.KV{Key: "version", Value: version})
	tw, err := timeline.NewWriter(w, timeline.Options{Models: names, About: about})
	if err != nil {
		return timeline.Summary{}, err
	}
	config.Observer = newWatcher(len(names), painter{tw})
	if _, err := sim.Run(config); err != nil {
		return timeline.Summary{}, err
	}
	return tw.Close()
}

// painter passes what a watcher sees on to a timeline.
type painter struct{ w *timeline.Writer }

func (t painter) step(model int, startNs, endNs int64, batch *scheduler.Batch, threshold int) {
	t.w.Step(timeline.Step{Model: model, StartNs: startNs, DurNs: endNs - startNs,
		Requests: len(batch.Entries), Rows: batch.Rows, B: threshold})
}

func (t painter) moved(id scheduler.RequestID, atNs int64, p phase, model int) {
	t.w.Request(int64(id), atNs, [...]timeline.State{
		isReady: timeline.Ready, isInFlight: timeline.InFlight, isInTransit: timeline.InTransit, isDone: timeline.Done}[p], model)
}

func (t painter) readyCount(model int, atNs int64, n int) { t.w.ReadyCount(model, atNs, n) }
func (t painter) live(atNs int64, n int)                  { t.w.Live(atNs, n) }
