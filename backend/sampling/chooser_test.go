package sampling

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tokenrouter/tokenrouter/algorithms"
	"github.com/tokenrouter/tokenrouter/backend"
)

var masked = float32(math.Inf(-1))

// at is a sequence whose next token has that position.
func at(position int, seed uint64, s *backend.Sampling) *backend.Sequence {
	return &backend.Sequence{Tokens: make([]backend.Token, 1), Start: position - 1, Samples: true,
		Seed: seed, Sampling: s, Prompt: position, Logprobs: -1}
}

func choose(t *testing.T, logits []float32, seq *backend.Sequence) backend.Token {
	t.Helper()
	var c Chooser
	var out backend.Result
	if err := c.Choose(logits, seq, &backend.Step{}, &out); err != nil {
		t.Fatal(err)
	}
	return out.Token
}

// reachable lists the tokens that some of many seeds choose.
func reachable(t *testing.T, logits []float32, seq *backend.Sequence) []int {
	t.Helper()
	seen := map[int]bool{}
	var found []int
	for seed := range uint64(400) {
		seq.Seed = seed
		if token := int(choose(t, logits, seq)); !seen[token] {
			seen[token] = true
			found = append(found, token)
		}
	}
	slices.Sort(found)
	return found
}

func TestFilterEdges(t *testing.T) {
	flat := []float32{1, 1, 1, 1}
	hill := []float32{0, 2, 1, 2}
	for _, c := range []struct {
		name     string
		logits   []float32
		sampling backend.Sampling
		want     []int
	}{
		{"greedy, ties to the lower", hill, backend.Sampling{}, []int{1}},
		{"a temperature that is none", hill, backend.Sampling{Temperature: 9e-7}, []int{1}},
		{"the coldest that draws parts ties", hill, backend.Sampling{Temperature: 1e-6}, []int{1, 3}},
		{"everything", hill, backend.Sampling{Temperature: 1, TopK: -1, TopP: 1}, []int{0, 1, 2, 3}},
		{"the hottest is uniform", []float32{-90, 90}, backend.Sampling{Temperature: math.MaxFloat64}, []int{0, 1}},
		{"top_k of 1 is greedy", hill, backend.Sampling{Temperature: 5, TopK: 1}, []int{1}},
		{"top_k cuts a tie", flat, backend.Sampling{Temperature: 1, TopK: 3}, []int{0, 1, 2}},
		{"top_k beyond the vocabulary", flat, backend.Sampling{Temperature: 1, TopK: 99}, []int{0, 1, 2, 3}},
		{"a tiny top_p keeps one", flat, backend.Sampling{Temperature: 1, TopP: 1e-300}, []int{0}},
		{"top_p reached exactly", flat, backend.Sampling{Temperature: 1, TopP: 0.5}, []int{0, 1}},
		{"top_p just missed", flat, backend.Sampling{Temperature: 1, TopP: 0.5000001}, []int{0, 1, 2}},
		{"top_p of what top_k left", flat, backend.Sampling{Temperature: 1, TopK: 2, TopP: 0.5}, []int{0}},
		{"min_p keeps ties", hill, backend.Sampling{Temperature: 1, MinP: 1}, []int{1, 3}},
		{"min_p after temperature", hill, backend.Sampling{Temperature: 2, MinP: 0.6}, []int{1, 2, 3}},
		{"min_p before it would drop one", hill, backend.Sampling{Temperature: 1, MinP: 0.6}, []int{1, 3}},
		{"masked tokens", []float32{masked, 0, masked, 0}, backend.Sampling{Temperature: 10}, []int{1, 3}},
		{"masked tokens within top_k", []float32{masked, 0, masked}, backend.Sampling{Temperature: 10, TopK: 2}, []int{1}},
		{"one token", []float32{-3}, backend.Sampling{Temperature: 1, TopP: 0.1}, []int{0}},
		{"a bias", hill, backend.Sampling{LogitBias: []backend.TokenBias{{Token: 0, Bias: 2.5}}}, []int{0}},
		{"biases add up", hill, backend.Sampling{LogitBias: []backend.TokenBias{{Token: 0, Bias: 1.5}, {Token: 0, Bias: 1}}}, []int{0}},
		{"a bias beyond float32", hill, backend.Sampling{Temperature: 1, LogitBias: []backend.TokenBias{{Token: 0, Bias: 1e308}, {Token: 2, Bias: 1e308}}}, []int{0, 2}},
		{"a bias does not unmask", []float32{masked, 0}, backend.Sampling{LogitBias: []backend.TokenBias{{Token: 0, Bias: 1e308}}}, []int{1}},
		{"a bias of another vocabulary", hill, backend.Sampling{LogitBias: []backend.TokenBias{{Token: 4, Bias: 9}}}, []int{1}},
		{"no end yet", hill, backend.Sampling{MinTokens: 1, Ends: []backend.Token{1, 3, 9}}, []int{2}},
		{"an end where nothing else is left", []float32{masked, 2, masked, 1}, backend.Sampling{MinTokens: 1, Ends: []backend.Token{1, 3}}, []int{1}},
		{"ends may come", hill, backend.Sampling{Ends: []backend.Token{1, 3}}, []int{1}},
	} {
		if got := reachable(t, c.logits, at(5, 0, &c.sampling)); !slices.Equal(got, c.want) {
			t.Errorf("%s: chooses %v, want %v", c.name, got, c.want)
		}
	}
}

// TestMinTokensCounts: a request of 3 prompt tokens that must write 2 may not
// end with its first or second token, wherever those are sampled.
func TestMinTokensCounts(t *testing.T) {
	s := &backend.Sampling{MinTokens: 2, Ends: []backend.Token{0}}
	for position, want := range []backend.Token{3: 1, 4: 1, 5: 0} {
		if position < 3 {
			continue
		}
		seq := at(position, 0, s)
		seq.Prompt = 3
		if got := choose(t, []float32{9, 1}, seq); got != want {
			t.Errorf("position %d: token %d, want %d", position, got, want)
		}
	}
}

// TestPenaltyFormulas holds edited logits against the formulas of vLLM's
// documentation, worked by hand: prompt 0 1 1, output 1 2 2.
func TestPenaltyFormulas(t *testing.T) {
	raw := []float32{2, -2, 3, 5}
	history := []backend.Token{0, 1, 1, 1, 2, 2}
	for _, c := range []struct {
		name     string
		sampling backend.Sampling
		want     []float32
	}{
		{"repetition, prompt too", backend.Sampling{RepetitionPenalty: 2}, []float32{1, -4, 1.5, 5}},
		{"presence, output only, once", backend.Sampling{PresencePenalty: 0.5}, []float32{2, -2.5, 2.5, 5}},
		{"frequency, each time", backend.Sampling{FrequencyPenalty: 0.5}, []float32{2, -2.5, 2, 5}},
		{"repetition first", backend.Sampling{RepetitionPenalty: 2, PresencePenalty: 0.25, FrequencyPenalty: 1}, []float32{1, -5.25, -0.75, 5}},
		{"below 0 they reward", backend.Sampling{FrequencyPenalty: -2}, []float32{2, 0, 7, 5}},
		{"bias comes before", backend.Sampling{RepetitionPenalty: 2, LogitBias: []backend.TokenBias{{Token: 1, Bias: 4}}}, []float32{1, 1, 1.5, 5}},
	} {
		var chooser Chooser
		seq := at(len(history), 0, &c.sampling)
		seq.Prompt, seq.History = 3, history
		for range 2 { // the second time finds the scratch that the first one left
			if got, _ := chooser.edit(raw, seq); !slices.Equal(got, c.want) {
				t.Errorf("%s: %v, want %v", c.name, got, c.want)
			}
		}
	}
}

// TestLaw: what is chosen hangs on logits, seed, position and sampling alone.
func TestLaw(t *testing.T) {
	var used Chooser
	rapid.Check(t, func(t *rapid.T) {
		logits := anyLogits(t)
		seq, step := anySequence(t, len(logits)), anyStep(t)
		var fresh Chooser
		var want, got backend.Result
		if fresh.Choose(logits, seq, step, &want) != nil {
			return
		}
		other := *seq
		other.Start = rapid.IntRange(0, len(seq.History)-1).Draw(t, "another cut")
		other.Tokens = seq.History[other.Start:]
		other.Blocks = []int32{7, 1}
		other.Context = 12345
		if err := used.Choose(logits, &other, step, &got); err != nil {
			t.Fatal(err)
		}
		got.Top, want.Top = append([]backend.TokenLogprob{}, got.Top...), append([]backend.TokenLogprob{}, want.Top...)
		got.Signals.TopK, want.Signals.TopK = append([]algorithms.TokenProb{}, got.Signals.TopK...), append([]algorithms.TokenProb{}, want.Signals.TopK...)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
		other.Logprobs = 5
		token := got.Token
		if err := used.Choose(logits, &other, &backend.Step{Needs: algorithms.NeedTopK, TopK: 40}, &got); err != nil || got.Token != token {
			t.Fatalf("other signals: token %d, want %d (%v)", got.Token, token, err)
		}
	})
}

// TestSeedsMean pins what a seed means: if this changes, recorded runs do too.
func TestSeedsMean(t *testing.T) {
	logits := vocabulary(1000, 7)
	var got []backend.Token
	for _, s := range []backend.Sampling{
		{Temperature: 1}, {Temperature: 3}, {Temperature: 1.5, TopK: 40}, {Temperature: 2, TopP: 0.9}, {Temperature: 2, MinP: 0.1},
	} {
		for position := 10; position < 14; position++ {
			got = append(got, choose(t, logits, at(position, 42, &s)))
		}
	}
	want := []backend.Token{590, 722, 653, 722, 384, 935, 691, 988, 384, 722, 653, 722, 200, 722, 653, 722, 200, 722, 653, 722}
	if !slices.Equal(got, want) {
		t.Errorf("tokens %v, want %v", got, want)
	}
	var c Chooser
	var out backend.Result
	step := &backend.Step{Needs: algorithms.NeedEntropy | algorithms.NeedMaxProb}
	if err := c.Choose(logits, at(1, 0, nil), step, &out); err != nil {
		t.Fatal(err)
	}
	const entropy, maxProb uint64 = 0x3fcf8f6e0c1b249c, 0x3fd92ece0f298e9b
	if e, p := math.Float64bits(out.Signals.Entropy), math.Float64bits(out.Signals.MaxProb); e != entropy || p != maxProb {
		t.Errorf("entropy %#x and largest probability %#x, want %#x and %#x", e, p, entropy, maxProb)
	}
}

// TestSignalFigures: worked examples.
func TestSignalFigures(t *testing.T) {
	for _, c := range []struct {
		logits           []float32
		entropy, maxProb float64
	}{
		{[]float32{2, 1, 0, -1}, 0.683503, 0.643914},
		{[]float32{8, 0, 0, 0}, 0.006527, 0.998995},
		{[]float32{5, 5, 5, 5}, 1, 0.25},
		{[]float32{masked, 3, masked, 3}, 0.5, 0.5},
		{[]float32{masked, 3}, 0, 1},
		{[]float32{-4}, 0, 1},
		{[]float32{300, -3e38}, 0, 1},
	} {
		var chooser Chooser
		var out backend.Result
		step := &backend.Step{Needs: algorithms.NeedEntropy | algorithms.NeedMaxProb}
		if err := chooser.Choose(c.logits, at(1, 0, nil), step, &out); err != nil {
			t.Fatal(err)
		}
		if math.Abs(out.Signals.Entropy-c.entropy) > 5e-7 || math.Abs(out.Signals.MaxProb-c.maxProb) > 5e-7 {
			t.Errorf("%v: entropy %v, largest %v, want %v and %v", c.logits, out.Signals.Entropy, out.Signals.MaxProb, c.entropy, c.maxProb)
		}
	}
}

func TestBrokenLogits(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		logits []float32
		want   string
	}{
		{[]float32{nan, 1}, "position 17: the logit of token 0 is NaN"},
		{[]float32{1, -nan, 2}, "position 17: the logit of token 1 is NaN"},
		{[]float32{1, 2, inf}, "position 17: the logit of token 2 is +Inf"},
		{[]float32{inf, nan}, "position 17: the logit of token 1 is NaN"},
		{[]float32{masked, masked}, "position 17: all 2 logits are -Inf"},
	} {
		for _, s := range []*backend.Sampling{nil, {Temperature: 1, TopP: 0.5}} {
			var chooser Chooser
			var out backend.Result
			err := chooser.Choose(c.logits, at(17, 1, s), &backend.Step{}, &out)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v: error %v, want %q", c.logits, err, c.want)
			}
		}
	}
}

// TestNoAllocations: once its scratch has grown, a Chooser allocates nothing.
func TestNoAllocations(t *testing.T) {
	logits := vocabulary(5000, 3)
	s := &backend.Sampling{Temperature: 3, TopP: 0.99, RepetitionPenalty: 1.1, LogitBias: []backend.TokenBias{{Token: 5, Bias: 1}}}
	seq := at(4, 1, s)
	seq.History, seq.Logprobs = []backend.Token{1, 2, 3, 4}, 5
	step := &backend.Step{Needs: algorithms.NeedEntropy | algorithms.NeedTopK, TopK: 10}
	var c Chooser
	var out backend.Result
	run := func() {
		if err := c.Choose(logits, seq, step, &out); err != nil {
			t.Fatal(err)
		}
	}
	run()
	if n := testing.AllocsPerRun(20, run); n > 0 {
		t.Errorf("%v allocations a token", n)
	}
}
