package experiments

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/experiments/measure"
)

// EvaluateWithLogs is Evaluate, but measured cells write event logs, which
// subserver.Replay reads, into a folder that exists: one a cell, over one of
// that cell that is there. std-serving writes none, since its routing is outside
// of the servers.
func EvaluateWithLogs(folder string) func(ctx context.Context, c Cell) Outcome {
	return func(ctx context.Context, c Cell) Outcome { return evaluate(ctx, c, folder) }
}

// openLog has a system write its log until the function that it returns is called.
func (s *setup) openLog(config *measure.Config, c Cell, folder string) (closeLog func() error, err error) {
	if folder == "" || config.Dispatcher != nil {
		return func() error { return nil }, nil
	}
	f, err := os.Create(filepath.Join(folder, logName(c)))
	if err != nil {
		return nil, fmt.Errorf("event log: %w", err)
	}
	config.System.Log, config.System.Params = f, s.spec.params()
	if _, never := s.algorithm.(algorithms.Never); never {
		config.System.Params = algorithms.Params{Models: len(s.models)}
	}
	return f.Close, nil
}

// logName tells people which cell it is, and is of no other cell.
func logName(c Cell) string {
	const longest = 80 // of the part for people; file systems take 255 bytes
	words := []string{c.On, c.System}
	for _, s := range c.Point.Swept {
		words = append(words, strings.TrimPrefix(s.Path, "models."), s.Text())
	}
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' {
			return r
		}
		return '-'
	}, strings.Join(words, "-"))
	return fmt.Sprintf("%.*s-seed-%d-%.8s.log", longest, name, c.Seed, c.Key())
}
