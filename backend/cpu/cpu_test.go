package cpu

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend"
	"github.com/tokenrouter/tokenrouter/backend/model"
)

// toy is a tiny model with all that a family has.
type toy struct {
	name, family string
	untied       bool
	kvHeads      int
	dtype        model.Dtype
}

var toys = []toy{
	{"qwen3 bf16 tied", "qwen3", false, 2, model.BF16},
	{"qwen3 f32 untied", "qwen3", true, 4, model.F32},
	{"llama bf16 untied", "llama", true, 1, model.BF16},
	{"llama f16 tied", "llama", false, 2, model.F16},
}

// model makes the toy. Norms get random weights, which model.Random leaves at
// 1, so that one that is forgotten or mixed up shows.
func (c *toy) model(t testing.TB) *model.Model {
	t.Helper()
	config := model.Toy(c.family)
	config.TiedEmbeddings, config.KVHeads = !c.untied, c.kvHeads
	m, err := model.Random(t.Context(), config, c.dtype, 1)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(2, 3))
	for _, tensor := range m.Tensors() {
		if len(tensor.Shape) > 1 {
			continue
		}
		f := make([]float32, tensor.Len())
		for i := range f {
			f[i] = 0.5 + r.Float32()
		}
		tensor.Dtype, tensor.U16, tensor.F32 = model.F32, nil, f
	}
	return m
}

// newEngine ends with the test.
func newEngine(t testing.TB, m *model.Model, o Options) *Engine {
	t.Helper()
	e, err := New(m, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func drawTokens(seed uint64, n, vocab int) []backend.Token {
	r := rand.New(rand.NewPCG(seed, 5))
	tokens := make([]backend.Token, n)
	for i := range tokens {
		tokens[i] = backend.Token(r.IntN(vocab))
	}
	return tokens
}

// forward runs one step with all signals.
func forward(t testing.TB, e *Engine, sequences ...backend.Sequence) []backend.Result {
	t.Helper()
	results := make([]backend.Result, len(sequences))
	if err := e.Forward(&backend.Step{Sequences: sequences, Needs: e.Info().Signals, TopK: 3}, results); err != nil {
		t.Fatal(err)
	}
	return results
}

// outcome is what a sequence got at a position.
type outcome struct {
	logits []float32
	result backend.Result
}

func (o *outcome) equal(x *outcome) bool {
	sameBits := func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }
	return slices.EqualFunc(o.logits, x.logits, sameBits) && o.result.Token == x.result.Token &&
		o.result.Signals.Entropy == x.result.Signals.Entropy &&
		o.result.Signals.MaxProb == x.result.Signals.MaxProb &&
		slices.Equal(o.result.Signals.TopK, x.result.Signals.TopK)
}

// outcomes copies those of the last step, one for each sequence that sampled.
func outcomes(e *Engine, results []backend.Result) []outcome {
	all := make([]outcome, len(e.pass.samples))
	for i, s := range e.pass.samples {
		all[i] = outcome{slices.Clone(e.logits[i*e.vocab : (i+1)*e.vocab]), results[s.sequence]}
	}
	return all
}

// alone runs one sequence by itself, a token a step, and returns the outcome
// after each token: what every other way to run it must give.
func alone(t testing.TB, m *model.Model, tokens []backend.Token, s backend.Sequence) []outcome {
	t.Helper()
	e := newEngine(t, m, Options{Threads: 1, Blocks: 1, BlockTokens: len(tokens)})
	s.Blocks, s.Samples = []int32{0}, true
	var all []outcome
	for i := range tokens {
		s.Start, s.Tokens = i, tokens[i:i+1]
		all = append(all, outcomes(e, forward(t, e, s))...)
	}
	return all
}

func TestInfo(t *testing.T) {
	m := toys[2].model(t) // untied: a step reads rows of the embedding, and all of the head
	e := newEngine(t, m, Options{Name: "small", Threads: 1, Blocks: 6, BlockTokens: 8})
	want := backend.Info{
		Model: "small", Vocab: 512, MaxContext: 48, BlockTokens: 8, Blocks: 6,
		Signals:     algorithms.NeedEntropy | algorithms.NeedMaxProb | algorithms.NeedTopK,
		WeightBytes: m.WeightBytes() - m.Embed.Bytes(),
		KVBytes:     3 * 2 * 1 * 32 * 4, // layers, K and V, KV heads, dimensions, bytes
	}
	if got := e.Info(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
