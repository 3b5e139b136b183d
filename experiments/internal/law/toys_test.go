package law

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend"
	"github.com/tokenrouter/tokenrouter/backend/cpu"
	"github.com/tokenrouter/tokenrouter/backend/model"
	"github.com/tokenrouter/tokenrouter/backend/subserver"
	"github.com/tokenrouter/tokenrouter/backend/tokenizer"
	"github.com/tokenrouter/tokenrouter/internal/modelconfig"
)

// vocab is that of all toys.
const vocab = 512

// toys are the weights of three models of two families: small, large and a
// third.
var toys = sync.OnceValue(func() (all []*model.Model) {
	third := model.Toy("qwen3")
	third.Layers = 1
	shapes := []*modelconfig.Config{model.Toy("qwen3"), model.Toy("llama"), third}
	for i, shape := range shapes {
		m, err := model.Random(context.Background(), shape, model.BF16, uint64(i+1))
		if err != nil {
			panic(err)
		}
		all = append(all, m)
	}
	return all
})

var bytesAsTokens = sync.OnceValue(func() *tokenizer.Tokenizer { return tokenizer.Bytes(vocab) })

func newDetokenizer() subserver.Detokenizer { return bytesAsTokens().NewDecoder(false) }

// open makes an engine for the toy of a number.
func open(toy int, o cpu.Options) backend.Engine {
	o.Name = fmt.Sprintf("toy%d", toy)
	e, err := cpu.New(toys()[toy], o)
	if err != nil {
		panic(err)
	}
	return e
}

// source is an algorithm of the law.
type source struct {
	name   string
	params algorithms.Params
}

func (s *source) String() string { return fmt.Sprintf("%s-%d", s.name, s.params.Models) }

func (s *source) algorithm(t testing.TB) algorithms.Algorithm {
	alg, err := algorithms.New(s.name, s.params)
	if err != nil {
		t.Fatal(err)
	}
	return alg
}

func number(x float64) *float64 { return &x }

// The thresholds lie where the toys' figures do, so that some of the tokens
// change the model and most do not.
var sources = []source{
	{"matrix", algorithms.Params{Models: 2, Large: 1, Matrix: [][]float64{{0.7, 0.3}, {0.6, 0.4}}}},
	{"matrix", algorithms.Params{Models: 3, Large: 1, Matrix: [][]float64{{0.6, 0.2, 0.2}, {0.4, 0.3, 0.3}, {0.3, 0.3, 0.4}}, RoutedKept: true}},
	{"bursty", algorithms.Params{Models: 2, Large: 1, MeanGap: 3, GapCV: 1.2, GapLag1: 0.1, ReturnProb: 0.6}},
	{"confidence", algorithms.Params{Models: 2, Large: 1, Threshold: number(0.25)}},
	{"rstitch", algorithms.Params{Models: 2, Large: 1, Threshold: number(0.5)}},
	{"me", algorithms.Params{Models: 2, Large: 1, Weights: []float64{0.6, 0.4}}},
	{"me", algorithms.Params{Models: 3, Large: 1}},
	{"fusion", algorithms.Params{Models: 2, Large: 1, Weights: []float64{0.6, 0.4}, Sample: true}},
	{"fusion", algorithms.Params{Models: 3, Large: 1}},
}
