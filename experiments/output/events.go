package output

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tokenrouter/tokenrouter/experiments"
	"github.com/tokenrouter/tokenrouter/internal/trace"
	"github.com/tokenrouter/tokenrouter/sim"
)

// EventsJSONL is the name of the file that WriteEvents writes.
const EventsJSONL = "events.jsonl"

// ErrNoSimulation says that no cell was simulated.
var ErrNoSimulation = errors.New("events are those of a simulated cell, and this experiment has none that can be followed")

// WriteEvents simulates the cell that the timeline shows once more and writes
// its first events, at most limit of them: package trace says what a line
// holds. It returns a sentence that says which cell, how many events, and
// whether there were more.
func WriteEvents(r *experiments.Results, dir string, limit int64) (said string, err error) {
	cell, ok := newView(r).timelineCell()
	if !ok {
		return "", ErrNoSimulation
	}
	config, err := experiments.SimConfig(cell)
	if err != nil {
		return "", err
	}
	var names []string
	for _, m := range config.Models {
		names = append(names, m.Name)
	}
	path := filepath.Join(dir, EventsJSONL)
	file, err := os.Create(path + ".tmp")
	if err != nil {
		return "", fmt.Errorf("write events: %w", err)
	}
	w := trace.NewWriter(file, names, limit)
	config.Observer = w
	_, err = sim.Run(config)
	n, cut, writeErr := w.Close()
	err = errors.Join(err, writeErr, file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		os.Remove(file.Name())
		return "", fmt.Errorf("write events: %w", err)
	}
	what := []string{cell.System}
	for _, s := range cell.Point.Swept {
		what = append(what, s.Path+" = "+s.Text())
	}
	said = fmt.Sprintf("all %d events of %s, seed %d", n, strings.Join(what, ", "), cell.Seed)
	if cut {
		said = fmt.Sprintf("the first %d events of %s, seed %d; more were left out", n, strings.Join(what, ", "), cell.Seed)
	}
	return said, nil
}
