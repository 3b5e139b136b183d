package experiments

import (
	"context"
	"fmt"
	"time"

	"github.com/tokenrouter/tokenrouter/backend"
	"github.com/tokenrouter/tokenrouter/experiments/engines"
	"github.com/tokenrouter/tokenrouter/experiments/profiling"
	"github.com/tokenrouter/tokenrouter/internal/steptime"
)

// CalibrateOptions say how to measure the models that a plan runs on this
// machine.
type CalibrateOptions struct {
	Budget   time.Duration // for each model
	Version  string        // of the program, for the profiles
	Progress func(done, total int)
}

// Calibrated is a model's measured step times.
type Calibrated struct {
	Model   string
	Profile *steptime.Profile
	Misses  []profiling.Miss
	Stretch float64 // by which its steps stretch beside the other model; 0: not measured
}

// CPUMeta is what profiles of this machine say of where they come from.
func CPUMeta(version, model string) profiling.Meta {
	return profiling.Meta{
		Origin: "measured by tokenrouter on " + engines.Machine(), Licence: "yours", Engine: "tokenrouter-cpu", EngineVersion: version,
		Machine: "cpu", Model: model,
	}
}

// Calibrate measures the steps of each model of the plan's first point on this
// machine, and by how much two of them slow each other down.
func Calibrate(ctx context.Context, p *Plan, o CalibrateOptions) ([]Calibrated, error) {
	spec := p.Points[0].Spec
	grid := calibrationGrid(p)
	grid.Budget = o.Budget
	var out []Calibrated
	var all []backend.Engine
	defer func() {
		for _, e := range all {
			e.Close() // it is done with
		}
	}()
	for i := range spec.Models {
		m := &spec.Models[i]
		w, err := openWeights(ctx, m.CPU.Model)
		if err != nil {
			return nil, err
		}
		e, err := w.CPU(engines.Options{Name: m.Name, Threads: m.CPU.Threads, BlockTokens: m.BlockTokens,
			KVTokens: grid.Blocks(m.BlockTokens) * m.BlockTokens})
		if err != nil {
			return nil, fmt.Errorf("models.%s: %w", m.Name, err)
		}
		all = append(all, e)
		times, err := profiling.Measure(ctx, e, grid, func(done, total int) {
			if o.Progress != nil {
				o.Progress(i*total+done, total*len(spec.Models))
			}
		})
		if err != nil {
			return nil, fmt.Errorf("models.%s: %w", m.Name, err)
		}
		profile, err := times.Profile(CPUMeta(o.Version, engines.ShortName(m.CPU.Model)))
		if err != nil {
			return nil, fmt.Errorf("models.%s: what was measured makes no profile: %w", m.Name, err)
		}
		out = append(out, Calibrated{Model: m.Name, Profile: profile, Misses: times.Misses(profile)})
	}
	if len(all) != 2 {
		return out, nil
	}
	part := func(i int) profiling.Part {
		r := max(grid.Requests[len(grid.Requests)-1]/2, 1)
		return profiling.Part{Engine: all[i], Step: profiling.Point{Requests: r, Rows: r, Context: grid.Contexts[len(grid.Contexts)/2]}}
	}
	small, large, err := profiling.Joint(ctx, part(0), part(1), jointRounds, o.Budget/(4*jointRounds))
	if err != nil {
		return nil, err
	}
	out[0].Stretch, out[1].Stretch = small.Factor, large.Factor
	return out, nil
}

// jointRounds is how often two models run alone and side by side.
const jointRounds = 5

// calibrationGrid covers the steps that any point of the plan may take.
func calibrationGrid(p *Plan) profiling.Grid {
	requests, contextTokens, rows := 1, 1, 1
	for _, point := range p.Points {
		w := &point.Spec.Workload
		requests, contextTokens = max(requests, point.Spec.realRoom().requests), max(contextTokens, w.context())
		if w.Kind != KindSteady {
			rows = max(rows, w.longestPrompt())
		}
	}
	rows = min(max(rows, calibrationRows), calibrationRowsMost)
	return profiling.DefaultGrid(min(requests, calibrationRequestsMost), rows, contextTokens)
}

const (
	// calibrationRows is as many rows as the visits of a few requests feed.
	calibrationRows         = 64
	calibrationRowsMost     = 256
	calibrationRequestsMost = 64
)

// Sets are the settings, path=value, that let the plan's models take the step
// times that were measured; files holds the profiles' files by model. Models on
// one machine share its memory, so they stretch each other's steps.
func Sets(all []Calibrated, files []string) []string {
	var out []string
	for i, c := range all {
		at := "models." + c.Model + "."
		out = append(out, fmt.Sprintf("%sprofile=%q", at, files[i]), at+"gpus=[0]")
		if c.Stretch > 0 {
			out = append(out, fmt.Sprintf("%scolocation_factor=%.4f", at, c.Stretch))
		}
	}
	return out
}

// Timed reports whether every model of the plan says how long its steps take.
func (p *Plan) Timed() bool {
	for _, point := range p.Points {
		for i := range point.Spec.Models {
			if _, err := point.Spec.Models[i].StepTime(); err != nil {
				return false
			}
		}
	}
	return true
}
