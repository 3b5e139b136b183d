package profiling

import (
	"fmt"
	"time"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend"
	"github.com/tokenrouter/tokenrouter/internal/workload"
)

// Point is one kind of step: so many requests feed so many rows together, each
// with so many tokens of context after it.
type Point struct{ Requests, Rows, Context int }

func (p Point) String() string {
	return fmt.Sprintf("%d requests, %d rows, context %d", p.Requests, p.Rows, p.Context)
}

// context is that of a request which feeds rows: a prompt cannot be shorter than
// what is fed of it.
func (p Point) context() int { return max(p.Context, (p.Rows+p.Requests-1)/p.Requests) }

// blocks is how many KV blocks the step needs.
func (p Point) blocks(blockTokens int) int {
	return p.Requests * ((p.context() + blockTokens - 1) / blockTokens)
}

// stepper runs steps of one engine.
type stepper struct {
	engine  backend.Engine
	info    backend.Info
	step    backend.Step
	results []backend.Result
}

func newStepper(e backend.Engine) *stepper { return &stepper{engine: e, info: e.Info()} }

// check says why an engine cannot run a step.
func (s *stepper) check(p Point) error {
	switch {
	case p.Requests < 1 || p.Rows < p.Requests || p.Context < 1:
		return fmt.Errorf("a step of %v: want at least one request, a row for each, and context", p)
	case p.context() > s.info.MaxContext:
		return fmt.Errorf("a step of %v: %s has contexts up to %d tokens", p, s.info.Model, s.info.MaxContext)
	case p.blocks(s.info.BlockTokens) > s.info.Blocks:
		return fmt.Errorf("a step of %v needs %d KV blocks, and %s has %d", p, p.blocks(s.info.BlockTokens), s.info.Model, s.info.Blocks)
	}
	return nil
}

// run runs one step and says how long it took. What stands in the KV blocks does
// not matter: an engine's time does not depend on it.
func (s *stepper) run(p Point) (time.Duration, error) {
	s.lay(p)
	start := time.Now()
	err := s.engine.Forward(&s.step, s.results)
	return time.Since(start), err
}

// lay makes the step: rows are shared out evenly, and every request samples.
func (s *stepper) lay(p Point) {
	s.step.Sequences = s.step.Sequences[:0]
	context := p.context()
	blocks := (context + s.info.BlockTokens - 1) / s.info.BlockTokens
	next := int32(0)
	for i := range p.Requests {
		rows := p.Rows / p.Requests
		if i < p.Rows%p.Requests {
			rows++
		}
		q := backend.Sequence{Start: context - rows, Context: context, Samples: true, Seed: uint64(i), Logprobs: -1, Prompt: 1}
		for k := range rows {
			q.Tokens = append(q.Tokens, workload.MadeUp(uint64(i), k, workload.PurposePrompt)%algorithms.Token(s.info.Vocab))
		}
		for range blocks {
			q.Blocks = append(q.Blocks, next)
			next++
		}
		s.step.Sequences = append(s.step.Sequences, q)
	}
	if len(s.results) < p.Requests {
		s.results = make([]backend.Result, p.Requests)
	}
}

// StepNs is how long a step of a point takes an engine: the median of a few. It
// serves where a rough figure will do.
func StepNs(e backend.Engine, p Point) (int64, error) {
	s := newStepper(e)
	if err := s.check(p); err != nil {
		return 0, err
	}
	var ns []float64
	for i := range 6 {
		took, err := s.run(p)
		if err != nil {
			return 0, err
		}
		if i > 0 { // the first one warms up
			ns = append(ns, float64(took.Nanoseconds()))
		}
	}
	return int64(median(ns)), nil
}
