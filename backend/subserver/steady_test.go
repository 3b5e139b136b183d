package subserver

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/tokenrouter/tokenrouter/backend"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// pacedEngine reads no KV: it takes the time of a step and says something.
type pacedEngine struct {
	*fakeEngine
	wrong atomic.Int64 // sequences whose price was not that of the workload
	hold  int
}

func (e *pacedEngine) Forward(step *backend.Step, results []backend.Result) error {
	time.Sleep(time.Millisecond)
	e.steps++
	for i := range step.Sequences {
		q := &step.Sequences[i]
		if q.Context != e.hold {
			e.wrong.Add(1)
		}
		results[i].Token = 5
	}
	return nil
}

// In a steady workload requests never end and each counts with the same
// context, however many tokens it has; visits go on as ever, and in the end
// nothing is left.
func TestSteadyWorkload(t *testing.T) {
	p := small()
	p.kvTokens = 400
	var engines []*pacedEngine
	p.with(t, func(c *Config) {
		c.HoldContext = 100
		for i := range c.Models {
			engines = append(engines, &pacedEngine{fakeEngine: c.Models[i].Engine.(*fakeEngine), hold: 100})
			c.Models[i].Engine = engines[i]
		}
	}, func(t *testing.T, sys *System) {
		var open []*Stream
		for id := range scheduler.RequestID(2) {
			open = append(open, submit(t, sys, long(id+1, 1<<30)))
		}
		got := 0
		for got < 10000 { // more than a core remembers
			c, err := open[0].Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got += len(c.Tokens); c.Start+len(c.Tokens) != 3+got {
				t.Fatalf("a chunk starts at %d after %d tokens", c.Start, got)
			}
		}
		for _, s := range open {
			s.Cancel()
		}
		time.Sleep(time.Second)
		wantEmpty(t, sys)
		for m, e := range engines {
			if e.wrong.Load() > 0 || e.steps < 3000 {
				t.Errorf("model %d: %d steps, %d sequences at another context", m, e.steps, e.wrong.Load())
			}
		}
	})
}
