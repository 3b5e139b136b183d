package experiments

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/internal/steptime"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// Evaluate runs a cell where it asks to be run.
func Evaluate(ctx context.Context, c Cell) Outcome {
	if err := ctx.Err(); err != nil {
		return Failed(err)
	}
	s, err := newSetup(c)
	if err != nil {
		return Failed(err)
	}
	switch c.On {
	case OnChain:
		return s.predict()
	case OnSim:
		return s.simulate(c.Seed)
	}
	return Failed(fmt.Errorf("nothing here runs %q", c.On))
}

// setup is a cell in the terms that the chain and the simulator share.
type setup struct {
	spec       *Spec
	times      []steptime.StepTime
	algorithm  algorithms.Algorithm
	rule       scheduler.Rule
	thresholds scheduler.Thresholds
	home       int
}

func newSetup(c Cell) (*setup, error) {
	s := &setup{spec: c.Point.Spec, home: c.Point.Spec.Home}
	for i := range s.spec.Models {
		t, err := s.spec.Models[i].StepTime()
		if err != nil {
			return nil, err
		}
		s.times = append(s.times, t)
	}
	var err error
	if s.algorithm, err = s.spec.NewAlgorithm(); err != nil {
		return nil, err
	}
	switch c.System {
	case SystemTokenRouter:
		s.rule = scheduler.Delayed{MaxDelayNs: ns(s.spec.Scheduler.MaxDelayMs * 1e6)}
	case SystemAsync:
		s.rule = scheduler.Eager{}
	case SystemAlternate:
		s.rule = scheduler.Alternate{}
	case SystemLockstep:
		s.rule = scheduler.Lockstep{}
	default:
		if s.home = c.Single(); s.home < 0 {
			return nil, fmt.Errorf("system %q is not known", c.System)
		}
		s.rule, s.algorithm = scheduler.Eager{}, algorithms.Never{}
	}
	s.thresholds = thresholds(s.spec.Models, s.rule.UsesB())
	return s, nil
}

// thresholds lays the models' tables over live side by side. A rule that reads
// no threshold gets 1, so that its results cannot depend on any.
func thresholds(models []Model, used bool) scheduler.Thresholds {
	rows := 1
	for i := range models {
		if used {
			rows = max(rows, len(models[i].B))
		}
	}
	t := make(scheduler.Thresholds, rows)
	for live := range t {
		t[live] = make([]int, len(models))
		for i := range models {
			t[live][i] = 1
			if used {
				b := models[i].B
				t[live][i] = b[min(live, len(b)-1)]
			}
		}
	}
	return t
}

// large is the model with the longest step: its share of the tokens is what
// routing tries to keep low.
func (s *setup) large() int {
	longest := 0
	context := s.spec.Workload.PromptTokens + int(s.spec.Workload.OutputTokens.Mean())/2
	for i, t := range s.times {
		if t.Ns(1, 1, context) >= s.times[longest].Ns(1, 1, context) {
			longest = i
		}
	}
	return longest
}

func ns(x float64) int64 { return int64(math.Round(x)) }

func nsFromS(s float64) int64 { return ns(s * float64(time.Second)) }
