package law

import (
	"slices"
	"testing"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend"
)

// faulty is an engine that is handed what it should not be, for one sequence in
// some of those that a fault can be seen in.
type faulty struct {
	backend.Engine
	fault *fault
	count int
	step  backend.Step
}

type fault struct {
	name  string
	one   int // in so many
	fits  func(step *backend.Step, q *backend.Sequence) bool
	spoil func(step *backend.Step, q *backend.Sequence)
}

// struck reports whether this sequence is one of some.
func (e *faulty) struck(step *backend.Step, q *backend.Sequence) bool {
	if !e.fault.fits(step, q) {
		return false
	}
	e.count++
	return e.count%e.fault.one == 0
}

func (e *faulty) Forward(step *backend.Step, results []backend.Result) error {
	e.step = *step
	e.step.Sequences = slices.Clone(step.Sequences)
	for i := range e.step.Sequences {
		if q := &e.step.Sequences[i]; e.struck(step, q) {
			e.fault.spoil(step, q)
		}
	}
	return e.Engine.Forward(&e.step, results)
}

func anyOne(*backend.Step, *backend.Sequence) bool        { return true }
func several(s *backend.Step, _ *backend.Sequence) bool   { return len(s.Sequences) > 1 }
func samples(_ *backend.Step, q *backend.Sequence) bool   { return q.Samples }
func extends(_ *backend.Step, q *backend.Sequence) bool   { return q.Start > 0 && len(q.Tokens) > 1 }
func penalized(_ *backend.Step, q *backend.Sequence) bool { return q.Samples && len(q.History) > 0 }

// faults are what the law must not let pass.
var faults = []fault{
	{"the block table is ignored", 100, anyOne, func(_ *backend.Step, q *backend.Sequence) {
		blocks := make([]int32, len(q.Blocks))
		for i := range blocks {
			blocks[i] = int32(i)
		}
		q.Blocks = blocks
	}},
	{"the first block is another one's", 100, anyOne, func(step *backend.Step, q *backend.Sequence) {
		q.Blocks = slices.Clone(q.Blocks)
		q.Blocks[0] = step.Sequences[0].Blocks[0]
	}},
	{"one token of an extend is another", 20, extends, func(_ *backend.Step, q *backend.Sequence) {
		q.Tokens = slices.Clone(q.Tokens)
		q.Tokens[0] = (q.Tokens[0] + 1) % vocab
	}},
	{"a draw hangs on the batch", 20, several, func(step *backend.Step, q *backend.Sequence) {
		q.Seed += uint64(len(step.Sequences) - 1)
	}},
	{"penalties do not see the last tokens", 5, penalized, func(_ *backend.Step, q *backend.Sequence) {
		q.History = slices.Clone(q.History)
		for i := q.Prompt; i < len(q.History); i++ {
			q.History[i] = q.History[0]
		}
	}},
	{"the prompt is taken for output", 5, penalized, func(_ *backend.Step, q *backend.Sequence) { q.Prompt = 0 }},
	{"a signal hangs on the batch", 20, samples, nil},
}

// noisy adds to the signals of one sequence in some.
type noisy struct{ *faulty }

func (e noisy) Forward(step *backend.Step, results []backend.Result) error {
	if err := e.Engine.Forward(step, results); err != nil {
		return err
	}
	for i := range step.Sequences {
		if e.struck(step, &step.Sequences[i]) {
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
	for i := range faults {
		fault := &faults[i]
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			for i := 7; i < len(cells); i += 127 {
				c := cells[i]
				if c.users < 8 || c.kv == tinyKV {
					continue
				}
				c.faulty = func(e backend.Engine) backend.Engine {
					if f := (&faulty{Engine: e, fault: fault}); fault.spoil != nil {
						return f
					} else {
						return noisy{f}
					}
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
