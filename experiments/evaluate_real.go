package experiments

import (
	"context"
	"errors"
	"fmt"

	"github.com/tokenrouter/tokenrouter/backend"
	"github.com/tokenrouter/tokenrouter/backend/paced"
	"github.com/tokenrouter/tokenrouter/backend/subserver"
	"github.com/tokenrouter/tokenrouter/experiments/engines"
	"github.com/tokenrouter/tokenrouter/experiments/measure"
	"github.com/tokenrouter/tokenrouter/experiments/profiling"
	"github.com/tokenrouter/tokenrouter/internal/workload"
	"github.com/tokenrouter/tokenrouter/scheduler"
)

// measure runs the system in real time.
func (s *setup) measure(ctx context.Context, c Cell, logs string) Outcome {
	if reason := s.realReason(c.On); reason != "" {
		return NotApplicable(reason)
	}
	config, counts, err := s.realSystem(ctx, c)
	defer closeAll(config.System.Models)
	if err != nil {
		return Failed(err)
	}
	closeLog, err := s.openLog(&config, c, logs)
	if err != nil {
		return Failed(err)
	}
	r, err := measure.Run(ctx, config)
	if err = errors.Join(err, closeLog()); err != nil {
		return Failed(err)
	}
	out := s.outcome(r.Summary)
	out.OverheadUs = r.OverheadUs
	out.Warnings = s.realWarnings(c.On, &config, r)
	if c.On == OnPaced {
		out.Warnings = append(out.Warnings, s.rangeWarnings(counts)...)
	}
	return out
}

// realReason says why a place in real time cannot show the system; "" if it can.
func (s *setup) realReason(place string) string {
	switch {
	case s.spec.HandoffMs > 0:
		return "in real time a hand-off takes as long as it takes: handoff.ms = 0"
	case s.steadyReason() != "":
		return s.steadyReason()
	case s.static && s.spec.Workload.Kind == KindClosed:
		return "a static batch takes in who is there at one instant, and users ask one after the other: workload.kind steady"
	case place == OnCPU && s.eager:
		return "published code runs without CUDA graphs, and this machine has none to leave out"
	}
	return ""
}

func (s *setup) needsSignals() bool {
	for i := range s.models {
		if s.algorithm.Needs(i) != 0 {
			return true
		}
	}
	return false
}

// realSystem opens the engines and lays the system and its load out. The engines
// that are open when it fails are in the config.
func (s *setup) realSystem(ctx context.Context, c Cell) (config measure.Config, counts []*counted, err error) {
	spec := s.spec
	load := s.workload()
	config = measure.Config{
		Load:       load.Load(c.Seed),
		DurationNs: nsFromS(spec.Measure.DurationS),
		WarmupNs:   nsFromS(spec.Measure.WarmupS),
		System: subserver.Config{
			Algorithm: s.algorithm, Rule: s.rule, Thresholds: s.thresholds,
			QueueLimit: spec.Scheduler.QueueLimit, NoReuse: !spec.Scheduler.PrefixReuse,
			// Steady requests never end, and arrive one after the other: a static batch
			// of them is one that all join.
			Static: s.static && spec.Workload.Kind != KindSteady, Reread: s.reread,
		},
	}
	config.Home = func(number int, seed uint64) int {
		switch {
		case s.queryShare != nil:
			return workload.QueryModel(seed, s.queryShare)
		case len(load.List) > 0:
			return load.List[number-1].Home
		}
		return s.home
	}
	if d := s.dispatcher; d != nil {
		config.Dispatcher = &subserver.DispatchCost{FixedNs: d.FixedNs, NsPerToken: d.NsPerToken}
	}
	if c.On == OnPaced {
		counts, err = s.pacedModels(&config)
	} else {
		err = s.cpuModels(ctx, &config)
	}
	return config, counts, err
}

// realModel describes a model with its engine to the runtime.
func (s *setup) realModel(i int, e backend.Engine, kvTokens int, stepNs int64) subserver.Model {
	m := &s.models[i]
	return subserver.Model{Name: m.Name, Engine: e, MaxRunning: m.MaxRunning, ChunkTokens: m.ChunkTokens,
		KVTokens: kvTokens, BlockTokens: m.BlockTokens, Rule: s.delayed(stepNs)}
}

// pacedModels makes engines that take as long as the models' profiles say.
func (s *setup) pacedModels(config *measure.Config) (counts []*counted, err error) {
	contextTokens := s.spec.Workload.context()
	if s.spec.Workload.Kind == KindSteady {
		config.System.HoldContext = contextTokens
	}
	var gpu *paced.GPU
	if factors := s.interference(); factors != nil {
		if gpu, err = paced.NewGPU(factors); err != nil {
			return nil, err
		}
	}
	counts = make([]*counted, len(s.models))
	for i := range s.models {
		m := &s.models[i]
		stepTime := s.times[i]
		if p := s.profile(i); p != nil {
			counts[i] = &counted{StepTime: stepTime, valid: p.Range()}
			stepTime = counts[i]
		}
		o := paced.Options{Model: m.Name, Time: stepTime, GPU: gpu, Place: i, MaxContext: m.KVTokens, Blocks: m.KVTokens / m.BlockTokens, BlockTokens: m.BlockTokens}
		if gpu == nil {
			o.Place = 0
		}
		e, err := paced.New(o)
		if err != nil {
			return nil, fmt.Errorf("models.%s: %w", m.Name, err)
		}
		config.System.Models = append(config.System.Models, s.realModel(i, e, m.KVTokens, s.times[i].Ns(1, 1, contextTokens)))
	}
	return counts, nil
}

// cpuModels opens the models that run on this machine.
func (s *setup) cpuModels(ctx context.Context, config *measure.Config) error {
	room := s.spec.realRoom()
	if s.spec.Workload.Kind == KindSteady {
		config.Load.Prompt, config.OutputMax = room.prompt, room.output
	}
	for i := range s.models {
		m := &s.models[i]
		w, err := openWeights(ctx, m.CPU.Model)
		if err != nil {
			return err
		}
		kv := kvTokens(m, room, engines.KVBytesPerToken(w.Config))
		e, err := w.CPU(engines.Options{Name: m.Name, Threads: m.CPU.Threads, KVTokens: kv, BlockTokens: m.BlockTokens})
		if err != nil {
			return fmt.Errorf("models.%s: %w", m.Name, err)
		}
		stepNs := int64(0)
		switch {
		case s.times != nil:
			stepNs = s.times[i].Ns(1, 1, s.spec.Workload.context())
		case s.spec.Scheduler.MaxDelaySteps > 0:
			if stepNs, err = profiling.StepNs(e, profiling.Point{Requests: 1, Rows: 1, Context: 1}); err != nil {
				return errors.Join(fmt.Errorf("models.%s: %w", m.Name, err), e.Close())
			}
		}
		config.System.Models = append(config.System.Models, s.realModel(i, e, kv-kv%m.BlockTokens, stepNs))
		config.Vocab = e.Info().Vocab
	}
	return nil
}

func closeAll(models []subserver.Model) {
	for i := range models {
		models[i].Engine.Close() // it has been run; what ends badly now changes no figure
	}
}

// delayed is the rule of a model that may wait for B as long as its own step
// allows; nil leaves that to the rule of all.
func (s *setup) delayed(stepNs int64) scheduler.Rule {
	steps := s.spec.Scheduler.MaxDelaySteps
	if _, waits := s.rule.(scheduler.Delayed); !waits || steps == 0 {
		return nil
	}
	return scheduler.Delayed{MaxDelayNs: ns(steps * float64(stepNs))}
}

// room is what requests need in memory where KV is real.
type room struct {
	prompt, output int // tokens of the longest request
	requests       int // at once
}

// realRoom sizes KV for the workload. A steady request starts with the context
// that the chain and the simulator hold it at, and writes on from there.
func (s *Spec) realRoom() room {
	w := &s.Workload
	r := room{prompt: w.longestPrompt(), requests: w.Concurrency}
	if w.Kind == KindSteady {
		return room{prompt: w.context(), output: max(int(w.OutputTokens.Mean()), steadyOutputMin), requests: w.Concurrency}
	}
	lengths := []Length{w.OutputTokens}
	if w.Mix != nil && w.Kind != KindTrace {
		lengths = nil
		for i := range w.Mix.Classes {
			lengths = append(lengths, w.Mix.Classes[i].Lengths.Output)
		}
	}
	for _, l := range lengths {
		r.output = max(r.output, l.Max)
	}
	if w.Kind == KindScript {
		for _, text := range s.Routing.Scripts {
			r.output = max(r.output, len(text))
		}
		r.requests = len(s.Routing.Scripts)
	}
	if IsOpen(w.Kind) {
		r.requests = openRequests
	}
	return r
}

const (
	// steadyOutputMin is what a steady request writes at least before its user
	// starts the next, so that prompts are read seldom.
	steadyOutputMin = 512
	// openRequests is how many of the longest requests of an open workload have
	// room at once; more wait, as they do on any server.
	openRequests = 64
	// kvShare is the part of the machine's memory that KV may take by default.
	kvShare = 0.25
)

// kvTokens is the size of a model's KV pool on this machine.
func kvTokens(m *Model, r room, bytesPerToken int64) int {
	if m.CPU.KVTokens > 0 {
		return m.CPU.KVTokens
	}
	blocks := (r.prompt + r.output + m.BlockTokens) / m.BlockTokens
	need := r.requests * (blocks + 1) * m.BlockTokens
	most := int(kvShare * float64(engines.MemoryBytes()) / float64(bytesPerToken))
	return max(min(need, m.KVTokens, most), m.BlockTokens)
}

// realWarnings says how a measured run differs from what was asked.
func (s *setup) realWarnings(place string, config *measure.Config, r *measure.Result) []Warning {
	var out []Warning
	room := s.spec.realRoom()
	for i := range config.System.Models {
		if kv := config.System.Models[i].KVTokens; place == OnCPU && room.requests*(room.prompt+room.output) > kv {
			out = append(out, Warning{Model: s.models[i].Name, About: fmt.Sprintf("on cpu its KV pool has %d tokens, and %d requests may need %d: what waiting for KV costs is not predicted",
				kv, room.requests, room.requests*(room.prompt+room.output))})
		}
	}
	if place == OnPaced && s.needsSignals() {
		out = append(out, Warning{About: "paced engines make signals up: the largest probability is uniform, so a threshold is the share of tokens that it routes"})
	}
	if s.spec.Workload.Kind != KindSteady {
		return out
	}
	if place == OnCPU {
		out = append(out, Warning{About: fmt.Sprintf("on cpu a steady request starts with a prompt of %d tokens, the context at which it is predicted and simulated, and writes on, so its context grows", config.Load.Prompt)})
	}
	if r.Silent > 0 {
		out = append(out, Warning{Share: float64(r.Silent) / float64(config.Load.Users),
			About: "of the steady requests had their prompts read within the measured window: raise measure.warmup_s"})
	}
	return out
}
