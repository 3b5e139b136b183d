package experiments

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/dtmc"
	"github.com/tokenrouter/tokenrouter/internal/metrics"
	"github.com/tokenrouter/tokenrouter/internal/steptime"
	"github.com/tokenrouter/tokenrouter/scheduler"
	"github.com/tokenrouter/tokenrouter/sim"
)

// Evaluate runs a cell where it asks to be run.
func Evaluate(ctx context.Context, c Cell) Outcome { return evaluate(ctx, c, "") }

// evaluate has measured cells write event logs into a folder; "" for none.
func evaluate(ctx context.Context, c Cell, logs string) Outcome {
	if err := ctx.Err(); err != nil {
		return Failed(err)
	}
	s, err := newSetup(c)
	if err == nil {
		err = s.tuneThresholds(c.Point)
	}
	var cannot dtmc.NotApplicable
	var untimed *untimedError
	switch {
	case errors.As(err, &cannot):
		return NotApplicable(cannot.Reason)
	case errors.As(err, &untimed):
		return NotApplicable(untimed.Error())
	case err != nil:
		return Failed(err)
	}
	switch c.On {
	case OnChain:
		return s.predict()
	case OnSim:
		return s.simulate(c.Seed)
	case OnPaced, OnCPU:
		return s.measure(ctx, c, logs)
	}
	return Failed(fmt.Errorf("nothing here runs %q", c.On))
}

// setup is a cell in the terms that the chain and the simulator share.
type setup struct {
	spec       *Spec
	models     []Model // that the system runs
	alone      int     // index of the only one among all, or -1
	times      []steptime.StepTime
	algorithm  algorithms.Algorithm
	rule       scheduler.Rule
	thresholds scheduler.Thresholds
	home       int // in models

	static, eager, reread bool            // see systems.go
	dispatcher            *sim.Dispatcher // nil: requests are handed over
	queryShare            []float64       // nil: tokens are routed
}

func newSetup(c Cell) (*setup, error) {
	spec := c.Point.Spec
	s := &setup{spec: spec, models: spec.Models, alone: -1, home: spec.Home}
	var err error
	if s.algorithm, err = spec.NewAlgorithm(); err != nil {
		return nil, err
	}
	if err = s.compose(c); err != nil {
		return nil, err
	}
	if err = s.compileTimes(); err != nil && c.On != OnCPU {
		return nil, err
	}
	s.thresholds = thresholds(s.models, s.rule.UsesB()) // see tuneThresholds
	return s, nil
}

// outcome lays the figures of the models that ran out over all models of the
// experiment; nothing was observed of the others.
func (s *setup) outcome(sum metrics.Summary) Outcome {
	large, err := s.spec.large()
	if err != nil {
		return Failed(err)
	}
	if s.alone >= 0 {
		for _, values := range []*[]float64{&sum.MeanBatch, &sum.MeanRows, &sum.Utilisation, &sum.BInForce} {
			*values = spread(*values, s.alone, len(s.spec.Models), math.NaN())
		}
		sum.TokenShare = spread(sum.TokenShare, s.alone, len(s.spec.Models), 0)
		steps := make([]int64, len(s.spec.Models))
		if len(sum.Steps) == 1 {
			steps[s.alone] = sum.Steps[0]
		}
		sum.Steps = steps
	}
	sum.CountGPUs(gpusOf(s.models))
	return Outcome{Status: StatusOK, Summary: sum, Large: large, OverheadUs: metrics.QuantilesOf(nil)}
}

// gpusOf counts the GPUs that the models take, shared ones once.
func gpusOf(models []Model) int {
	seen := map[int]bool{}
	for _, m := range models {
		for _, gpu := range m.GPUs {
			seen[gpu] = true
		}
	}
	return len(seen)
}

func spread(values []float64, at, models int, rest float64) []float64 {
	out := make([]float64, models)
	for i := range out {
		out[i] = rest
	}
	if len(values) == 1 {
		out[at] = values[0]
	}
	return out
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
func (s *Spec) large() (int, error) {
	large, longest := 0, int64(0)
	for i := range s.Models {
		t, err := s.Models[i].StepTime()
		if untimed := (*untimedError)(nil); errors.As(err, &untimed) {
			return s.Routing.Large, nil
		} else if err != nil {
			return 0, err
		}
		if ns := t.Ns(1, 1, s.Workload.context()); ns >= longest {
			large, longest = i, ns
		}
	}
	return large, nil
}

func ns(x float64) int64 { return int64(math.Round(x)) }

func nsFromS(s float64) int64 { return ns(s * float64(time.Second)) }
