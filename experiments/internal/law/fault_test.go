package law

import (
	"slices"
	"testing"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend"
)

// faulty is an engine that is handed what it should not be, for one sequence in
// some.
type faulty struct {
	backend.Engine
	one   int // in so many
	spoil func(step *backend.Step, q *backend.Sequence)
	count int
	step  backend.Step
}

func (e *faulty) Forward(step *backend.Step, results []backend.Result) error {
	e.step = *step
	e.step.Sequences = slices.Clone(step.Sequences)
	for i := range e.step.Sequences {
		if e.count++; e.count%e.one == 0 {
			e.spoil(&e.step, &e.step.Sequences[i])
		}
	}
	return e.Engine.Forward(&e.step, results)
}

// faults are what the law must not let pass.
var faults = []struct {
	name  string
	one   int
	spoil func(step *backend.Step, q *backend.Sequence)
}{
	{"the block table is ignored", 100, func(_ *backend.Step, q *backend.Sequence) {
		blocks := make([]int32, len(q.Blocks))
		for i := range blocks {
			blocks[i] = int32(i)
		}
		q.Blocks = blocks
	}},
	{"the first block is another one's", 100, func(step *backend.Step, q *backend.Sequence) {
		q.Blocks = slices.Clone(q.Blocks)
		q.Blocks[0] = step.Sequences[0].Blocks[0]
	}},
	{"one token of an extend is another", 50, func(_ *backend.Step, q *backend.Sequence) {
		q.Tokens = slices.Clone(q.Tokens)
		q.Tokens[0] = (q.Tokens[0] + 1) % vocab
	}},
	{"a draw hangs on the batch", 20, func(step *backend.Step, q *backend.Sequence) {
		q.Seed += uint64(len(step.Sequences) - 1)
	}},
	{"penalties forget a token", 20, func(_ *backend.Step, q *backend.Sequence) {
		if n := len(q.History); n > 0 {
			q.History = slices.Clone(q.History)
			q.History[n-1] = q.History[0]
		}
	}},
	{"the prompt is taken for output", 20, func(_ *backend.Step, q *backend.Sequence) { q.Prompt = 0 }},
	{"a signal hangs on the batch", 20, nil},
}

// noisy adds to the signals of one sequence in some.
type noisy struct{ *faulty }

func (e noisy) Forward(step *backend.Step, results []backend.Result) error {
	if err := e.Engine.Forward(step, results); err != nil {
		return err
	}
	for i := range step.Sequences {
		if e.count++; e.count%e.one == 0 && step.Sequences[i].Samples {
			s := &results[i].Signals
			s.MaxProb, s.Entropy = 1-s.MaxProb, 1-s.Entropy
			slices.Reverse(s.TopK)
			for j := range s.TopK {
				s.TopK[j].Token = (s.TopK[j].Token + 1) % algorithms.Token(vocab)
			}
		}
	}
	return nil
}

// TestLawFindsFaults plants one fault after the other in engines: some of a few
// cells must break the law, or it would hold nothing.
func TestLawFindsFaults(t *testing.T) {
	cells := grid()
	for _, fault := range faults {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			for i := 7; i < len(cells); i += 127 {
				c := cells[i]
				if c.users < 8 || c.kv == tinyKV {
					continue
				}
				c.faulty = func(e backend.Engine) backend.Engine {
					f := &faulty{Engine: e, one: fault.one, spoil: fault.spoil}
					if fault.spoil == nil {
						return noisy{f}
					}
					return f
				}
				if problems := c.obey(t, new(figures)); len(problems) > 0 {
					t.Logf("%v: %d problems, the first: %.200s", &c, len(problems), problems[0])
					return
				}
			}
			t.Error("no cell fails")
		})
	}
}
