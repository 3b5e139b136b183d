package sampling

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend"
)

// vocabulary draws logits that look like a language model's: a broad hill far
// below a few likely tokens.
func vocabulary(n int, seed uint64) []float32 {
	r := rand.New(rand.NewPCG(seed, 1))
	logits := make([]float32, n)
	for i := range logits {
		logits[i] = float32(2.5 * r.NormFloat64())
	}
	for k := range 20 {
		logits[r.IntN(n)] = 20 - float32(k)/2
	}
	return logits
}

// BenchmarkChoose reports what each way of choosing costs, and as a ratio to one
// pass over the logits, which is the least that any of them can do.
func BenchmarkChoose(b *testing.B) {
	const vocab = 151936
	logits := vocabulary(vocab, 1)
	onePass := func() float64 {
		start := time.Now()
		for range 20 {
			if _, err := largest(logits); err != nil {
				b.Fatal(err)
			}
		}
		return float64(time.Since(start).Nanoseconds()) / 20
	}
	for _, c := range []struct {
		name     string
		needs    algorithms.Need
		sampling backend.Sampling
	}{
		{"greedy", 0, backend.Sampling{}},
		{"greedy-entropy", algorithms.NeedEntropy, backend.Sampling{}},
		{"greedy-top10", algorithms.NeedTopK, backend.Sampling{}},
		{"all", 0, backend.Sampling{Temperature: 1}},
		{"top_k=50", 0, backend.Sampling{Temperature: 1, TopK: 50}},
		{"top_p=0.95", 0, backend.Sampling{Temperature: 1, TopP: 0.95}},
		{"top_k=20,top_p=0.95", 0, backend.Sampling{Temperature: 0.6, TopK: 20, TopP: 0.95}},
		{"min_p=0.05", 0, backend.Sampling{Temperature: 1, MinP: 0.05}},
		{"penalties", 0, backend.Sampling{RepetitionPenalty: 1.1, FrequencyPenalty: 0.1}},
	} {
		b.Run(c.name, func(b *testing.B) {
			var chooser Chooser
			var out backend.Result
			history := make([]backend.Token, 4096)
			for i := range history {
				history[i] = backend.Token(i * 37 % vocab)
			}
			seq := backend.Sequence{Tokens: history[4095:], Start: 4095, Prompt: 1024, Sampling: &c.sampling, History: history, Logprobs: -1}
			step := backend.Step{Needs: c.needs, TopK: 10}
			pass := onePass()
			b.ReportAllocs()
			for b.Loop() {
				seq.Seed++
				if err := chooser.Choose(logits, &seq, &step, &out); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/pass, "passes")
		})
	}
}
