package paced

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/google/go-cmp/cmp"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend"
)

const allSignals = algorithms.NeedEntropy | algorithms.NeedMaxProb | algorithms.NeedTopK

// sample runs a step that needs everything and returns its last result.
func sample(t *rapid.T, e *Engine, sequences ...backend.Sequence) backend.Result {
	results := make([]backend.Result, len(sequences))
	step := &backend.Step{Sequences: sequences, Needs: allSignals, TopK: 8}
	if err := e.Forward(step, results); err != nil {
		t.Fatal(err)
	}
	return results[len(results)-1]
}

// TestSignals: they look like some distribution's and depend on seed, position
// and model alone.
func TestSignals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		vocab := rapid.SampledFrom([]int{0, 2, 5, 1000}).Draw(t, "vocab")
		make := func(model string) *Engine {
			e, err := New(Options{Model: model, Vocab: vocab, MaxContext: 1, Blocks: 1, BlockTokens: 1})
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		e, twin, other := make("a"), make("a"), make("b")
		seq := decode(rapid.Uint64().Draw(t, "seed"), rapid.IntRange(1, 1<<20).Draw(t, "position"))
		seq.Logprobs = 3
		got := sample(t, e, seq)
		if diff := cmp.Diff(got, sample(t, twin, decode(1, 1), seq)); diff != "" {
			t.Fatalf("another engine, another batch: %s", diff)
		}
		if sample(t, other, seq).Signals.MaxProb == got.Signals.MaxProb {
			t.Fatal("two models are equally sure")
		}
		s := got.Signals
		if !(s.MaxProb > 0 && s.MaxProb <= 1) || s.Entropy != 1-s.MaxProb {
			t.Fatalf("largest probability %v, entropy %v", s.MaxProb, s.Entropy)
		}
		if want := min(8, e.Info().Vocab-1); len(s.TopK) != want {
			t.Fatalf("%d entries, want %d", len(s.TopK), want)
		}
		sum, seen := 0.0, map[backend.Token]bool{}
		for i, p := range s.TopK {
			if i > 0 && p.Prob > s.TopK[i-1].Prob || seen[p.Token] || p.Token < 1 || int(p.Token) >= e.Info().Vocab {
				t.Fatalf("entries %v", s.TopK)
			}
			seen[p.Token] = true
			sum += p.Prob
		}
		if sum > 1+1e-12 || s.TopK[0] != (algorithms.TokenProb{Token: got.Token, Prob: s.MaxProb}) {
			t.Fatalf("entries %v of sum %v for token %d", s.TopK, sum, got.Token)
		}
		if got.Logprob != math.Log(s.MaxProb) || got.Top[0].Token != got.Token || len(got.Top) != min(3, len(s.TopK)) {
			t.Fatalf("log probability %v, top %v", got.Logprob, got.Top)
		}
	})
}

// TestOnlyWhatIsNeeded: signals that nobody asked for are not there.
func TestOnlyWhatIsNeeded(t *testing.T) {
	e := engine(t, Options{})
	results := make([]backend.Result, 1)
	for _, needs := range []algorithms.Need{allSignals, 0, algorithms.NeedEntropy} {
		step := &backend.Step{Sequences: []backend.Sequence{decode(1, 1)}, Needs: needs, TopK: 2}
		if err := e.Forward(step, results); err != nil {
			t.Fatal(err)
		}
		s := results[0].Signals
		has := func(n algorithms.Need) bool { return needs&n != 0 }
		if (s.Entropy != 0) != has(algorithms.NeedEntropy) || (s.MaxProb != 0) != has(algorithms.NeedMaxProb) || (len(s.TopK) != 0) != has(algorithms.NeedTopK) {
			t.Errorf("needs %v: %+v", needs, s)
		}
		if results[0].Logprob != 0 || len(results[0].Top) != 0 {
			t.Errorf("log probabilities that nobody asked for: %+v", results[0])
		}
	}
}

// TestShares: a threshold is the share of positions that it routes, within four
// standard deviations; seeds are fixed.
func TestShares(t *testing.T) {
	e := engine(t, Options{})
	for _, threshold := range []float64{0, 0.05, 0.3, 0.7, 1} {
		const n = 20_000
		below, uncertain := 0, 0
		for i := range n {
			step := &backend.Step{Sequences: []backend.Sequence{decode(uint64(i/50), 1+i%50)}, Needs: allSignals}
			results := make([]backend.Result, 1)
			if err := e.Forward(step, results); err != nil {
				t.Fatal(err)
			}
			if results[0].Signals.MaxProb < threshold {
				below++
			}
			if results[0].Signals.Entropy > 1-threshold {
				uncertain++
			}
		}
		within := 4*math.Sqrt(n*threshold*(1-threshold)) + 1e-9
		if math.Abs(float64(below)-n*threshold) > within || math.Abs(float64(uncertain)-n*threshold) > within+1 {
			t.Errorf("%d below the threshold, %d above that of entropy, want about %v", below, uncertain, n*threshold)
		}
	}
}
