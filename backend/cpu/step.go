package cpu

import (
	"fmt"

	"github.com/tokenrouter/tokenrouter/backend"
)

// A pass is a step, or as much of one as there is memory for activations.
type pass struct {
	rows    []row
	tiles   []tile
	samples []sample
}

// row is a token to feed.
type row struct {
	token    backend.Token
	position int
	blocks   []int32 // of its sequence
}

// sample is a row whose logits are wanted.
type sample struct {
	row, sequence int
	err           error
}

// Forward runs one step; see backend.Engine. A step that asks for what it must
// not, such as a position without a block, is a broken scheduler and panics. An
// error, which names the sequence and the position, means that the model gave
// logits that are no numbers.
func (e *Engine) Forward(step *backend.Step, results []backend.Result) error {
	if e.lost != nil {
		return e.lost
	}
	e.check(step, results)
	e.step, e.results = step, results
	defer e.forget()
	for sequence, token := 0, 0; sequence < len(step.Sequences); {
		sequence, token = e.gather(sequence, token)
		e.feed()
		if e.lost = e.choose(); e.lost != nil {
			return e.lost
		}
		if e.watch != nil {
			e.watch()
		}
	}
	return nil
}

// forget drops what belongs to the caller.
func (e *Engine) forget() {
	e.step, e.results = nil, nil
	clear(e.pass.rows[:cap(e.pass.rows)])
	clear(e.pass.tiles[:cap(e.pass.tiles)])
}

func (e *Engine) check(step *backend.Step, results []backend.Result) {
	if len(results) < len(step.Sequences) {
		panic(fmt.Sprintf("cpu: %d results for %d sequences", len(results), len(step.Sequences)))
	}
	if unknown := step.Needs &^ e.info.Signals; unknown != 0 {
		panic(fmt.Sprintf("cpu: cannot compute %v", unknown))
	}
	for i := range step.Sequences {
		if err := e.checkSequence(&step.Sequences[i]); err != nil {
			panic(fmt.Sprintf("cpu: sequence %d: %v", i, err))
		}
	}
}

func (e *Engine) checkSequence(s *backend.Sequence) error {
	switch end := s.Position(); {
	case len(s.Tokens) == 0:
		return fmt.Errorf("no tokens")
	case s.Start < 0:
		return fmt.Errorf("starts at %d", s.Start)
	case end > e.info.MaxContext:
		return fmt.Errorf("%d positions, at most %d", end, e.info.MaxContext)
	case end > len(s.Blocks)*e.info.BlockTokens:
		return fmt.Errorf("%d positions in %d blocks of %d", end, len(s.Blocks), e.info.BlockTokens)
	}
	for _, t := range s.Tokens {
		if t < 0 || int(t) >= e.vocab {
			return fmt.Errorf("token %d in a vocabulary of %d", t, e.vocab)
		}
	}
	for _, b := range s.Blocks {
		if b < 0 || int(b) >= e.info.Blocks {
			return fmt.Errorf("block %d of %d", b, e.info.Blocks)
		}
	}
	return nil
}

// gather fills the pass with rows from a token of a sequence on, and returns
// where the next pass goes on.
func (e *Engine) gather(sequence, token int) (int, int) {
	p := &e.pass
	p.rows, p.tiles, p.samples = p.rows[:0], p.tiles[:0], p.samples[:0]
	for sequence < len(e.step.Sequences) && len(p.rows) < e.maxRows {
		s := &e.step.Sequences[sequence]
		end := min(len(s.Tokens), token+e.maxRows-len(p.rows))
		e.tile(tile{first: len(p.rows), rows: end - token, position: s.Start + token, blocks: s.Blocks})
		for ; token < end; token++ {
			p.rows = append(p.rows, row{s.Tokens[token], s.Start + token, s.Blocks})
		}
		if token < len(s.Tokens) {
			break
		}
		if s.Samples {
			p.samples = append(p.samples, sample{row: len(p.rows) - 1, sequence: sequence})
		}
		sequence, token = sequence+1, 0
	}
	return sequence, token
}

// choose computes the logits of the rows that sample, and their results.
func (e *Engine) choose() error {
	samples := len(e.pass.samples)
	if samples == 0 {
		return nil
	}
	if most := samples * e.vocab; most > len(e.logits) {
		e.logits = make([]float32, most)
		e.headInputs = make([]float32, samples*e.hidden)
	}
	e.pool.do(phaseHeadNorm, samples)
	e.pool.do(phaseHead, len(e.cuts.head))
	e.pool.do(phaseSample, samples)
	for i := range e.pass.samples {
		if err := e.pass.samples[i].err; err != nil {
			return fmt.Errorf("cpu: model %s, sequence %d of the step: %w", e.info.Model, e.pass.samples[i].sequence, err)
		}
	}
	return nil
}

func (e *Engine) sample(thread, item int) {
	s := &e.pass.samples[item]
	logits := e.logits[item*e.vocab : (item+1)*e.vocab]
	s.err = e.choosers[thread].Choose(logits, &e.step.Sequences[s.sequence], e.step, &e.results[s.sequence])
}
