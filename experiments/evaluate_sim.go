package experiments

import (
	"fmt"
	"math"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/internal/steptime"
	"github.com/tokenrouter/tokenrouter/scheduler"
	"github.com/tokenrouter/tokenrouter/sim"
)

// stepTime compiles how long the model's steps take.
func (m *Model) stepTime() (steptime.StepTime, error) {
	if m.StepMs != nil {
		return steptime.NewLinear(m.StepMs.Base, m.StepMs.PerRequest, m.StepMs.PerRow)
	}
	profile, err := steptime.Load(m.Profile)
	if err != nil {
		return nil, err
	}
	return profile.Compile(), nil
}

// rule is the launch rule of the cell's system.
func (c Cell) rule() scheduler.Rule {
	switch c.System {
	case SystemTokenRouter:
		return scheduler.Delayed{MaxDelayNs: msToNs(c.Point.Spec.Scheduler.MaxDelayMs)}
	case SystemAlternate:
		return scheduler.Alternate{}
	case SystemLockstep:
		return scheduler.Lockstep{}
	default: // async, and a model that runs alone
		return scheduler.Eager{}
	}
}

func msToNs(ms float64) int64 { return int64(math.Round(ms * 1e6)) }
func sToNs(s float64) int64   { return int64(math.Round(s * 1e9)) }

// thresholds lays the models' own tables over live side by side.
func thresholds(models []Model) scheduler.Thresholds {
	rows := 1
	for _, m := range models {
		rows = max(rows, len(m.B))
	}
	t := make(scheduler.Thresholds, rows)
	for i := range t {
		for _, m := range models {
			t[i] = append(t[i], m.B[min(i, len(m.B)-1)])
		}
	}
	return t
}

// running returns the models that the cell's system runs, who is home among
// them, and what routes.
func (c Cell) running() ([]Model, int, algorithms.Algorithm, error) {
	spec := c.Point.Spec
	if alone := c.Single(); alone >= 0 {
		return spec.Models[alone : alone+1], 0, algorithms.Never{}, nil
	}
	alg, err := spec.NewAlgorithm()
	return spec.Models, spec.Home, alg, err
}

// simConfig says what the simulator runs for a cell.
func (c Cell) simConfig() (sim.Config, error) {
	models, home, alg, err := c.running()
	if err != nil {
		return sim.Config{}, err
	}
	spec := c.Point.Spec
	cfg := sim.Config{
		Algorithm: alg, Rule: c.rule(), Thresholds: thresholds(models),
		HandoffNs: msToNs(spec.HandoffMs), Seed: c.Seed, QueueLimit: spec.Scheduler.QueueLimit,
	}
	for i := range models {
		m := &models[i]
		time, err := m.stepTime()
		if err != nil {
			return sim.Config{}, fmt.Errorf("models.%s: %w", m.Name, err)
		}
		cfg.Models = append(cfg.Models, sim.Model{Name: m.Name, Time: time, MaxRunning: m.MaxRunning,
			ChunkTokens: m.ChunkTokens, KVTokens: m.KVTokens, BlockTokens: m.BlockTokens})
	}
	cfg.Workload = simWorkload(&spec.Workload, home)
	if spec.Workload.Kind == KindScript {
		cfg.Workload.List, err = c.scripted()
	}
	return cfg, err
}

func simWorkload(w *Workload, home int) sim.Workload {
	out := sim.Workload{
		Home: home, Users: w.Concurrency, Requests: w.Requests,
		PromptMin: w.PromptTokens.Min, PromptMax: w.PromptTokens.Max,
		OutputMin: w.OutputTokens.Min, OutputMax: w.OutputTokens.Max,
		DurationNs: sToNs(w.DurationS), WarmupNs: sToNs(w.WarmupS),
	}
	switch w.Kind {
	case KindClosed:
		out.Kind = sim.Closed
	case KindScript:
		out.Kind = sim.Listed
		out.DurationNs, out.WarmupNs = 0, 0 // a script ends when it has been played
	}
	return out
}

// scripted lists one request a script, each entering at the model that writes
// its first token. A model that runs alone plays the same lengths.
func (c Cell) scripted() ([]sim.Request, error) {
	spec := c.Point.Spec
	alg, err := spec.NewAlgorithm()
	if err != nil {
		return nil, err
	}
	script := alg.(*algorithms.Script)
	var list []sim.Request
	for i := range spec.Routing.Scripts {
		writers := script.Writers(uint64(i))
		r := sim.Request{Home: writers[0], PromptTokens: spec.Workload.PromptTokens.Min, OutputTokens: len(writers), Seed: uint64(i)}
		if c.Single() >= 0 {
			r.Home = 0
		}
		list = append(list, r)
	}
	return list, nil
}
