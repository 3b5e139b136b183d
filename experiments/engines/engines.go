package engines

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/tokenrouter/tokenrouter/backend"
	"github.com/tokenrouter/tokenrouter/backend/cpu"
	"github.com/tokenrouter/tokenrouter/backend/model"
	"github.com/tokenrouter/tokenrouter/internal/modelconfig"
)

// Weights are a model that is open.
type Weights struct {
	*model.Model
	Name string // as it was asked for
}

// randomSeed makes up weights: one for all, so that a name always means the same
// model.
const randomSeed = 1

// Open opens the model of a name; see Config. Weights of a folder stay mapped
// until Close. Those that are made up are refused where the memory does not hold
// them, and given up when ctx ends.
func Open(ctx context.Context, name string) (*Weights, error) {
	if IsFolder(name) {
		m, err := model.Open(name)
		if err != nil {
			return nil, err
		}
		return &Weights{m, name}, nil
	}
	c, err := Config(name)
	if err != nil {
		return nil, err
	}
	if err := Fits(Need{Name: name}); err != nil {
		return nil, err
	}
	m, err := model.Random(ctx, c, model.BF16, randomSeed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	// The most probable token after made-up weights is often the last one again.
	m.Generation.DoSample, m.Generation.Temperature = true, 1
	return &Weights{m, name}, nil
}

// ShortName is what a model is called in a line of output.
func ShortName(name string) string {
	if IsFolder(name) {
		return filepath.Base(filepath.Clean(name))
	}
	return name
}

// KVBytesPerToken is what a token of one request takes in the KV pool of the CPU
// engine, which keeps 32-bit numbers.
func KVBytesPerToken(c *modelconfig.Config) int64 { return 2 * c.KVBytesPerToken() }

// Options say how an engine runs a model.
type Options struct {
	Name        string // for users
	Threads     int
	KVTokens    int // rounded up to whole blocks
	BlockTokens int
	MaxRows     int
}

// threadsMax is what the CPU engine takes.
const threadsMax = 1 << 10

// CPU makes an engine that runs the model on this machine. Close ends it; the
// weights stay open.
func (w *Weights) CPU(o Options) (backend.Engine, error) {
	if o.Name == "" {
		o.Name = ShortName(w.Name)
	}
	if o.BlockTokens < 1 {
		return nil, fmt.Errorf("a KV block of %s has %d tokens, and must have at least 1", o.Name, o.BlockTokens)
	}
	if o.Threads > threadsMax {
		return nil, fmt.Errorf("%s cannot have %d threads: more than %d are a slip", o.Name, o.Threads, threadsMax)
	}
	if err := Fits(Need{Name: w.Name, KVTokens: o.KVTokens, Open: true}); err != nil {
		return nil, err
	}
	return cpu.New(w.Model, cpu.Options{Name: o.Name, Threads: o.Threads, MaxRows: o.MaxRows,
		BlockTokens: o.BlockTokens, Blocks: (o.KVTokens + o.BlockTokens - 1) / o.BlockTokens})
}
