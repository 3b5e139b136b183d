package experiments

import (
	"errors"
	"fmt"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/sim"
)

// simulate runs the event simulator.
func (s *setup) simulate(seed uint64) Outcome {
	config, reason := s.simulation(seed)
	if reason != "" {
		return NotApplicable(reason)
	}
	steps := s.countSteps(&config)
	r, err := sim.Run(config)
	if err != nil {
		return Failed(err)
	}
	if warmup := config.Workload.WarmupNs; warmup > 0 && r.EndNs <= warmup {
		return Failed(fmt.Errorf("all requests had ended after %.4g s, before warm-up did: lower workload.warmup_s or raise workload.requests", float64(r.EndNs)/1e9))
	}
	out := s.outcome(r.Summary)
	out.Warnings = append(s.rangeWarnings(steps), s.memoryWarnings()...)
	return out
}

// simulation describes the system to the simulator, or says why it cannot.
func (s *setup) simulation(seed uint64) (config sim.Config, reason string) {
	config = sim.Config{
		Algorithm:  s.algorithm,
		Rule:       s.rule,
		Thresholds: s.thresholds,
		HandoffNs:  ns(s.spec.HandoffMs * 1e6),
		QueueLimit: s.spec.Scheduler.QueueLimit,
		Seed:       seed,
		Static:     s.static, Reread: s.reread, Dispatcher: s.dispatcher, QueryShare: s.queryShare,
		Interference: s.interference(),
		NoReuse:      !s.spec.Scheduler.PrefixReuse,
	}
	if reason := s.steadyReason(); reason != "" {
		return config, reason
	}
	for i, m := range s.models {
		if s.algorithm.Needs(i) != 0 {
			return config, "the simulator has no signals of real models, and " + s.algorithm.Name() + " reads " + s.algorithm.Needs(i).String() +
				": stand in for it by routing.algorithm matrix, with the share of tokens that it routes"
		}
		config.Models = append(config.Models, sim.Model{
			Name: m.Name, Time: s.times[i], MaxRunning: m.MaxRunning,
			ChunkTokens: m.ChunkTokens, KVTokens: m.KVTokens, BlockTokens: m.BlockTokens,
		})
	}
	s.boundDelays(&config)
	config.Workload = s.workload()
	return config, ""
}

// steadyReason says what of the system needs requests that end, where they do
// not; "" if nothing does.
func (s *setup) steadyReason() string {
	switch {
	case s.spec.Workload.Kind != KindSteady:
		return ""
	case s.queryShare != nil:
		return "each request is drawn once, so requests must end: workload.kind closed, not steady"
	case s.reread || s.dispatcher != nil:
		return "reading all tokens again and again needs requests that end: workload.kind closed, not steady"
	}
	return ""
}

// boundDelays lets each model wait for B as long as it takes itself.
func (s *setup) boundDelays(config *sim.Config) {
	for i := range config.Models {
		config.Models[i].Rule = s.delayed(s.times[i].Ns(1, 1, s.spec.Workload.context()))
	}
}

// workload describes the load to the simulator.
func (s *setup) workload() sim.Workload {
	w := &s.spec.Workload
	out := sim.Workload{
		Home:       s.home,
		Users:      w.Concurrency,
		Requests:   w.Requests,
		Arrivals:   w.Arrivals,
		Mix:        w.Mix,
		DurationNs: nsFromS(w.DurationS),
		WarmupNs:   nsFromS(w.WarmupS),
	}
	switch {
	case w.Kind == KindSteady:
		// Every request counts with the mean.
		out.Kind = sim.Steady
		out.PromptMin, out.OutputMin = int(w.PromptTokens.Mean()), int(w.OutputTokens.Mean())
		out.PromptMax, out.OutputMax = out.PromptMin, out.OutputMin
	case w.Kind == KindClosed:
		out.Kind = sim.Closed
	case IsOpen(w.Kind):
		out.Kind = sim.Open
	case w.Kind == KindScript:
		out.Kind = sim.Listed // it ends when it has been played
		out.List = s.scripted()
	}
	return out
}

// scripted lists one request for each script, all at the start. A request
// enters where its first token is written.
func (s *setup) scripted() []sim.Request {
	script, follows := s.algorithm.(*algorithms.Script)
	var list []sim.Request
	for i, text := range s.spec.Routing.Scripts {
		r := sim.Request{
			Home:         s.home,
			PromptTokens: s.spec.Workload.PromptTokens.Min,
			OutputTokens: len(text),
			Seed:         uint64(i),
		}
		if follows {
			r.Home = script.Writers(r.Seed)[0]
		}
		list = append(list, r)
	}
	return list
}

// SimConfig says what the simulator runs for a cell, for whoever wants to watch
// such a run. The error says why it cannot.
func SimConfig(c Cell) (sim.Config, error) {
	s, err := newSetup(c)
	if err == nil {
		err = s.tuneThresholds(c.Point)
	}
	if err != nil {
		return sim.Config{}, err
	}
	config, reason := s.simulation(c.Seed)
	if reason != "" {
		return sim.Config{}, errors.New(reason)
	}
	return config, nil
}
