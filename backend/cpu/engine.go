package cpu

import (
	"fmt"
	"path/filepath"
	"runtime"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend"
	"github.com/tokenrouter/tokenrouter/backend/model"
	"github.com/tokenrouter/tokenrouter/backend/sampling"
)

// Options say how an engine is built. Zero values stand for the defaults.
type Options struct {
	Name    string // for users; default: the last part of the model's folder, or its type
	Threads int    // default: all that Go may use

	// Blocks × BlockTokens positions have KV at a time: each takes Info.KVBytes.
	// No default: memory is the caller's to share out.
	Blocks      int
	BlockTokens int // default 16

	// MaxRows bounds the rows that are computed at once, and so the memory for
	// activations. A step of more is run in several passes. Default 256.
	MaxRows int
	// MaxContext bounds a sequence; it takes 4 bytes × 32 a position and thread.
	// Default, and at most: what the model was made for, or fits into the pool.
	MaxContext int
}

const (
	blockTokensDefault = 16
	maxRowsDefault     = 256

	// Larger than any of these is a mistake, and they keep products of two from
	// overflowing.
	threadsMax = 1 << 10
	rowsMax    = 1 << 16
	tokensMax  = 1 << 31
	kvBytesMax = 1 << 40
)

// fill replaces zero values by defaults and refuses what makes no sense.
func (o *Options) fill(m *model.Model) error {
	if o.Name == "" {
		o.Name = m.Config.ModelType
		if m.Dir != "" {
			o.Name = filepath.Base(m.Dir)
		}
	}
	defaults := []struct {
		name  string
		value *int
		or    int
		most  int
	}{
		{"Threads", &o.Threads, runtime.GOMAXPROCS(0), threadsMax},
		{"Blocks", &o.Blocks, 0, tokensMax},
		{"BlockTokens", &o.BlockTokens, blockTokensDefault, tokensMax},
		{"MaxRows", &o.MaxRows, maxRowsDefault, rowsMax},
	}
	for _, d := range defaults {
		if *d.value == 0 {
			*d.value = d.or
		}
		if *d.value < 1 || *d.value > d.most {
			return fmt.Errorf("cpu: %s of the engine for %s is %d; want 1 to %d", d.name, o.Name, *d.value, d.most)
		}
	}
	if o.Blocks > tokensMax/o.BlockTokens {
		return fmt.Errorf("cpu: %d blocks of %d tokens are more than %d tokens of KV for %s", o.Blocks, o.BlockTokens, tokensMax, o.Name)
	}
	if perToken := kvBytes(m); int64(o.Blocks*o.BlockTokens) > kvBytesMax/perToken {
		return fmt.Errorf("cpu: %d blocks of %d tokens of %d bytes of KV are too much memory for %s", o.Blocks, o.BlockTokens, perToken, o.Name)
	}
	most := min(m.Config.MaxPositions, o.Blocks*o.BlockTokens)
	if o.MaxContext == 0 {
		o.MaxContext = most
	}
	if o.MaxContext < 1 || o.MaxContext > most {
		return fmt.Errorf("cpu: MaxContext of the engine for %s is %d; want 1 to %d, the smaller of its max_position_embeddings, %d, and %d blocks of %d tokens",
			o.Name, o.MaxContext, most, m.Config.MaxPositions, o.Blocks, o.BlockTokens)
	}
	return nil
}

// Engine runs a Qwen3 or Llama model on this machine's processors. It reads the
// model's weights where they are, so the model must outlive it.
type Engine struct {
	shape
	info  backend.Info
	model *model.Model
	norms []norms // [layer]
	final []float32
	cuts  cuts
	cache cache

	pool      *pool
	attention []attention        // [thread]
	choosers  []sampling.Chooser // [thread]
	maxRows   int

	// The step and the pass at hand; every thread reads them.
	step    *backend.Step
	results []backend.Result
	pass    pass
	layer   int
	now     *model.Layer
	nowNorm *norms
	activations

	lost  error  // what ended the engine
	watch func() // after each pass, where a test looks at the logits
}

var _ backend.Engine = (*Engine)(nil)

// New builds an engine for m. Its memory is the KV pool, the activations of
// MaxRows rows, and a row of logits for each sequence that samples in a step.
func New(m *model.Model, o Options) (*Engine, error) {
	if err := o.fill(m); err != nil {
		return nil, err
	}
	s := shapeOf(m)
	e := &Engine{
		shape:       s,
		model:       m,
		final:       widened(&m.Norm),
		cuts:        newCuts(m, o.Threads),
		cache:       newCache(&s, o.Blocks, o.BlockTokens),
		choosers:    make([]sampling.Chooser, o.Threads),
		maxRows:     o.MaxRows,
		activations: newActivations(&s, o.MaxRows),
	}
	for i := range m.Layers {
		e.norms = append(e.norms, normsOf(&m.Layers[i]))
	}
	for range o.Threads {
		e.attention = append(e.attention, newAttention(&s, o.MaxContext))
	}
	e.info = backend.Info{
		Model:       o.Name,
		Vocab:       s.vocab,
		MaxContext:  o.MaxContext,
		BlockTokens: o.BlockTokens,
		Blocks:      o.Blocks,
		Signals:     algorithms.NeedEntropy | algorithms.NeedMaxProb | algorithms.NeedTopK,
		WeightBytes: m.WeightBytes(),
		KVBytes:     kvBytes(m),
	}
	if !m.Config.TiedEmbeddings { // then a step reads single rows of the embedding
		e.info.WeightBytes -= m.Embed.Bytes()
	}
	e.pool = newPool(o.Threads, e.tasks())
	return e, nil
}

// Info describes the engine.
func (e *Engine) Info() backend.Info { return e.info }

// Close ends the engine's threads. The model stays open.
func (e *Engine) Close() error {
	e.pool.close()
	e.cache.data = nil
	return nil
}
