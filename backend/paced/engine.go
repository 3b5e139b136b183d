// Package paced has an engine without a model: its steps last as long as a
// step-time profile says, in real time, and its tokens and signals are made up.
// It rehearses the real runtime at the speed of GPUs that are not there. Tokens
// hang on a request's seed and their position, and on no sampling setting: greedy
// requests repeat where their seeds do, as those of equal prompts at the front door.
//
// A step ends the profile's nanoseconds after the call of Forward. Each step
// stands for itself: one that is woken late is late, as on a real machine, and
// the next one does not make up for it. On Linux the waiting is done by a kernel
// timer that is read through Go's poller, and the last tenth of a millisecond by
// yielding in a loop, so a step ends within some ten microseconds of its time,
// unless the processors are busy. Elsewhere Go's own timers do the first part.
//
// Inside a testing/synctest bubble all waiting is by Go's timers, so steps take
// exactly their time on the bubble's clock and none on the wall's.
package paced

import (
	"errors"
	"fmt"
	"time"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend"
	"github.com/tokenrouter/tokenrouter/internal/steptime"
	"github.com/tokenrouter/tokenrouter/internal/workload"
)

// Options says what a paced engine pretends to be.
type Options struct {
	Model string            // the name that users see; scripted signals depend on it
	Time  steptime.StepTime // nil: steps take no time at all

	Vocab       int // at least 2; 0 stands for workload.MadeUpVocab
	MaxContext  int // tokens of a sequence, at most; at least 1
	Blocks      int // KV blocks; at least 1
	BlockTokens int // tokens in a block; at least 1
	WeightBytes int64
	KVBytes     int64 // of one token

	// Token scripts the tokens; what it returns must be below Vocab. nil makes
	// up those of the simulator, folded into a smaller vocabulary.
	Token func(seed uint64, position int) backend.Token

	GPU   *GPU // what it shares with other engines; nil: a GPU of its own
	Place int  // its place among the GPU's models
}

// Engine is a [backend.Engine]. Unlike others, Close may be called while
// Forward runs, which then returns ErrClosed.
type Engine struct {
	options Options
	key     uint64 // of the model's name, for signals
	gpu     *GPU
	alarm   *alarm // nil where the system has none
}

// ErrClosed is what Forward returns once the engine is closed.
var ErrClosed = errors.New("paced: the engine is closed")

// New makes an engine. The error names the option that is wrong.
func New(o Options) (*Engine, error) {
	if o.Vocab == 0 {
		o.Vocab = workload.MadeUpVocab
	}
	if o.GPU == nil {
		o.GPU, o.Place = alone(), 0
	}
	switch {
	case o.Vocab < 2 || o.Vocab > workload.MadeUpVocab:
		return nil, fmt.Errorf("paced: Vocab is %d, want 2 to %d", o.Vocab, workload.MadeUpVocab)
	case o.MaxContext < 1:
		return nil, fmt.Errorf("paced: MaxContext is %d, want at least 1", o.MaxContext)
	case o.Blocks < 1:
		return nil, fmt.Errorf("paced: Blocks is %d, want at least 1", o.Blocks)
	case o.BlockTokens < 1:
		return nil, fmt.Errorf("paced: BlockTokens is %d, want at least 1", o.BlockTokens)
	}
	if err := o.GPU.occupy(o.Place); err != nil {
		return nil, err
	}
	e := &Engine{options: o, key: nameKey(o.Model), gpu: o.GPU}
	if o.Time != nil {
		e.alarm = newAlarm()
	}
	return e, nil
}

// Info implements [backend.Engine].
func (e *Engine) Info() backend.Info {
	o := &e.options
	return backend.Info{
		Model: o.Model, Vocab: o.Vocab, MaxContext: o.MaxContext,
		BlockTokens: o.BlockTokens, Blocks: o.Blocks,
		Signals:     algorithms.NeedEntropy | algorithms.NeedMaxProb | algorithms.NeedTopK,
		WeightBytes: o.WeightBytes, KVBytes: o.KVBytes,
	}
}

// Forward implements [backend.Engine]. It reads no token and no block, and of
// Sampling nothing: what is sampled is scripted.
func (e *Engine) Forward(step *backend.Step, results []backend.Result) error {
	ns := int64(0)
	if e.options.Time != nil {
		contextTokens := 0
		for i := range step.Sequences {
			contextTokens += step.Sequences[i].Context
		}
		ns = e.options.Time.Ns(len(step.Sequences), step.Rows(), contextTokens)
	}
	f, err := e.gpu.start(e.options.Place, ns, e.alarm)
	if err != nil {
		return err
	}
	for i := range step.Sequences {
		if seq := &step.Sequences[i]; seq.Samples {
			e.script(seq, step, &results[i])
		}
	}
	if ns == 0 {
		return nil
	}
	for {
		until, err := e.gpu.ends(f)
		if err != nil {
			return err
		}
		if time.Until(until) <= 0 {
			return e.gpu.end(f)
		}
		wait(until, f.changed, e.alarm)
	}
}

// Close interrupts a step under way and gives the engine's place on its GPU up.
func (e *Engine) Close() error {
	e.gpu.leave(e.options.Place)
	return e.alarm.close()
}
