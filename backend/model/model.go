// Package model opens the weights of a decoder as users have them: a Hugging
// Face folder with config.json, safetensors in one file or in shards, and
// perhaps generation_config.json. Weights are mapped, never copied and never
// converted: an engine reads bf16 where the file holds bf16.
//
// It understands Qwen3 and Llama and refuses every other architecture by name.
// Errors name the file, the tensor or field in it, and what to do.
package model

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tokenrouter/tokenrouter/internal/modelconfig"
)

// Model is a decoder: its shape and its weights. It does not change, so any
// number of goroutines may read it.
type Model struct {
	Dir string // the folder; "" for a model made by Random

	// Config has all defaults filled in: MaxPositions, RMSNormEps and RopeTheta
	// are never 0.
	Config     *modelconfig.Config
	Rope       Rope
	Generation Generation

	Embed  Tensor // [Vocab, Hidden]
	Layers []Layer
	Norm   Tensor // [Hidden]
	Head   Tensor // [Vocab, Hidden]; Embed itself where the two are tied

	files []*file
}

// Layer is one decoder layer. Matrices are [out, in] in row-major order, as in
// the files: y[o] = Σ x[i]·W[o, i].
type Layer struct {
	AttnNorm Tensor // [Hidden]
	Q        Tensor // [Heads·HeadDim, Hidden]
	K        Tensor // [KVHeads·HeadDim, Hidden]
	V        Tensor // [KVHeads·HeadDim, Hidden]
	O        Tensor // [Hidden, Heads·HeadDim]
	QNorm    Tensor // [HeadDim], on each head before the rotary embedding; empty for Llama
	KNorm    Tensor // [HeadDim], likewise
	MLPNorm  Tensor // [Hidden]
	Gate     Tensor // [Intermediate, Hidden]
	Up       Tensor // [Intermediate, Hidden]
	Down     Tensor // [Hidden, Intermediate]
}

// checkedBytes is how many bytes of weights Open looks through for NaN and
// infinities without being asked: a few tenths of a second. More than that
// would double the time that a large model takes to come from a disk; of such a
// model Open looks at the norms, and Check at the rest.
const checkedBytes = 4 << 30

// Open reads the model in a folder. It checks that every tensor is there, once,
// with the shape that config.json gives it, that no file is cut short or has
// tensors that overlap or leave a hole, and that weights are finite: all of them
// in models up to 4 GiB, only the norms in larger ones (see Check).
//
// The files stay mapped until Close. Whoever cuts a file short while it is
// mapped ends the process.
func Open(dir string) (*Model, error) {
	config, err := readConfig(dir)
	if err != nil {
		return nil, err
	}
	m := &Model{Dir: dir, Config: config, Rope: newRope(config)}
	if m.Generation, err = readGeneration(dir, config.Vocab); err != nil {
		return nil, err
	}
	if err := m.load(checkedBytes); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// load looks for NaN in all weights if they are at most that many bytes.
func (m *Model) load(checked int64) error {
	set, err := openShards(m.Dir)
	m.files = set.files
	if err != nil {
		return err
	}
	for _, slot := range m.slots() {
		tensor, err := set.take(slot)
		if err != nil {
			return err
		}
		*slot.to = tensor
	}
	if err := set.rest(m.Config); err != nil {
		return err
	}
	m.tie()
	tensors := m.Tensors()
	if m.WeightBytes() > checked {
		tensors = slices.DeleteFunc(tensors, func(t *Tensor) bool { return len(t.Shape) > 1 })
	}
	return check(context.Background(), tensors, nil)
}

func (m *Model) tie() {
	if m.Config.TiedEmbeddings {
		m.Head = m.Embed
	}
}

// Close unmaps the files. No tensor may be used afterwards.
func (m *Model) Close() error {
	var errs []error
	for _, f := range m.files {
		errs = append(errs, f.close())
	}
	m.files = nil
	return errors.Join(errs...)
}

// WeightBytes is what all weights hold together, tied ones once.
func (m *Model) WeightBytes() int64 {
	n := int64(0)
	for _, t := range m.Tensors() {
		n += t.Bytes()
	}
	return n
}

// Tensors lists all tensors from the embedding to the head; a tied head is not
// listed a second time, and absent norms not at all.
func (m *Model) Tensors() []*Tensor {
	var all []*Tensor
	for _, slot := range m.slots() {
		all = append(all, slot.to)
	}
	return all
}

// A slot is a place in the model for one tensor of the files.
type slot struct {
	name  string
	shape []int
	to    *Tensor
}

// slots lists what a model of this shape consists of, by the names that the
// two families share.
func (m *Model) slots() []slot {
	c := m.Config
	if m.Layers == nil {
		m.Layers = make([]Layer, c.Layers)
	}
	heads, kvHeads := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	slots := []slot{{embedName, []int{c.Vocab, c.Hidden}, &m.Embed}}
	for i := range m.Layers {
		l, prefix := &m.Layers[i], fmt.Sprintf("model.layers.%d.", i)
		add := func(name string, to *Tensor, shape ...int) {
			slots = append(slots, slot{prefix + name + ".weight", shape, to})
		}
		add("input_layernorm", &l.AttnNorm, c.Hidden)
		add("self_attn.q_proj", &l.Q, heads, c.Hidden)
		add("self_attn.k_proj", &l.K, kvHeads, c.Hidden)
		add("self_attn.v_proj", &l.V, kvHeads, c.Hidden)
		add("self_attn.o_proj", &l.O, c.Hidden, heads)
		if c.ModelType == "qwen3" {
			add("self_attn.q_norm", &l.QNorm, c.HeadDim)
			add("self_attn.k_norm", &l.KNorm, c.HeadDim)
		}
		add("post_attention_layernorm", &l.MLPNorm, c.Hidden)
		add("mlp.gate_proj", &l.Gate, c.Intermediate, c.Hidden)
		add("mlp.up_proj", &l.Up, c.Intermediate, c.Hidden)
		add("mlp.down_proj", &l.Down, c.Hidden, c.Intermediate)
	}
	slots = append(slots, slot{"model.norm.weight", []int{c.Hidden}, &m.Norm})
	if !c.TiedEmbeddings {
		slots = append(slots, slot{headName, []int{c.Vocab, c.Hidden}, &m.Head})
	}
	return slots
}

const (
	embedName = "model.embed_tokens.weight"
	headName  = "lm_head.weight"
)
